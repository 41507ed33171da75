//! The report of a trial: agreements, differences, and the effect of placement, without names of hosts or users.

use super::witness::Witness;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const FORMAT: &str = "nic-placement trial";
pub const VERSION: u32 = 2;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialReport {
    pub format: String,
    pub version: u32,
    pub machine: String,
    pub nodes: usize,
    /// by program: nic-placement, the kernel, Slurm, drivers and libraries
    pub releases: BTreeMap<String, String>,
    /// of the first node, and of others where they say otherwise
    pub witnesses: Vec<Witness>,
    pub ways: Vec<TriedWay>,
    pub effects: Vec<Effect>,
    /// true if a test played a program: such a report is no result
    pub played: bool,
}

/// A way to start tasks, and the GPUs that the driver gave them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TriedWay {
    /// the command, without the program
    pub command: String,
    pub not_tried: Option<String>,
    pub tasks: usize,
    /// tasks whose GPUs we took for those that the driver named
    pub agree: usize,
    /// tasks whose GPUs the driver has in another order
    pub other_order: usize,
    /// the first few of the others
    pub differ: Vec<String>,
    /// tasks without a driver's answer, by the reason
    pub unasked: BTreeMap<String, usize>,
    /// tasks that were bound, and have these CPUs
    pub bound: usize,
    pub bound_elsewhere: usize,
    /// tasks that run on the NUMA nodes of their GPUs alone, where these are known
    pub near: Near,
    /// the same without placement
    pub near_without: Near,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Near {
    pub near: usize,
    pub known: usize,
}

impl std::fmt::Display for Near {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.known {
            0 => f.write_str("-"),
            known => write!(f, "{} of {known}", self.near),
        }
    }
}

/// A program's figure on each side, more is better.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    pub program: String,
    pub unit: String,
    pub not_tried: Option<String>,
    /// by `near`, `default` and `far`, and by round, if it gave one
    pub figures: BTreeMap<String, BTreeMap<usize, f64>>,
}

/// The median, and from ten figures on its interval of 98 % confidence (docs/measure.md).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Middle {
    pub median: f64,
    pub interval: Option<(f64, f64)>,
}

/// `None` without figures.
pub fn middle(figures: impl IntoIterator<Item = f64>) -> Option<Middle> {
    let mut sorted = Vec::from_iter(figures);
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let (low, high) = (
        sorted.get(count.checked_sub(1)? / 2)?,
        sorted.get(count / 2)?,
    );
    let interval = (count >= 10).then(|| (sorted[1], sorted[count - 2]));
    Some(Middle {
        median: (low + high) / 2.0,
        interval,
    })
}

impl Effect {
    pub fn against_near(&self, side: &str) -> Option<Middle> {
        let (near, other) = (self.figures.get("near")?, self.figures.get(side)?);
        middle(
            near.iter()
                .filter_map(|(round, near)| Some(other.get(round)? / near * 100.0)),
        )
    }

    fn row(&self) -> String {
        if let Some(why) = &self.not_tried {
            return untried(&cell(&self.program), why, 5);
        }
        let [near, default, far] = ["near", "default", "far"].map(|name| -> String {
            let figures = self
                .figures
                .get(name)
                .and_then(|of| middle(of.values().copied()));
            let Some(of) = figures else {
                return "-".to_string();
            };
            let share = self.against_near(name).filter(|_| name != "near");
            let share = share.map(|share| match share.interval {
                Some((low, high)) => format!(" ({:.0} %, {low:.0} to {high:.0})", share.median),
                None => format!(" ({:.0} %)", share.median),
            });
            format!("{:.1}{}", of.median, share.unwrap_or_default())
        });
        row([cell(&self.program), near, default, far, cell(&self.unit)])
    }
}

/// Reads a report; the error says why a text is none.
pub fn read(text: &[u8]) -> Result<TrialReport, String> {
    let report: TrialReport =
        serde_json::from_slice(text).map_err(|error| format!("no report of a trial: {error}"))?;
    match (report.format.as_str(), report.version) {
        (FORMAT, VERSION) => Ok(report),
        (FORMAT, other) => Err(format!("version {other} of the report: expected {VERSION}")),
        (other, _) => Err(format!("format `{other}`: expected `{FORMAT}`")),
    }
}

pub fn faults(report: &TrialReport) -> Vec<String> {
    let mut witnesses = report.witnesses.iter();
    let is_nothing = witnesses.all(|witness| witness.not_tried.is_some())
        && report.ways.iter().all(|way| way.judged() == 0);
    let is_uuid = |word: &str| word.starts_with("GPU-") && word.len() >= 40;
    let text = serde_json::to_string(report).unwrap_or_default();
    let mut words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    [
        (report.played, "a program in it was played by a test"),
        (
            is_nothing,
            "nothing was compared: no other program, and no driver",
        ),
        (words.any(is_uuid), "a GPU's UUID stands in it"),
    ]
    .into_iter()
    .filter(|fault| fault.0)
    .map(|fault| fault.1.to_string())
    .collect()
}

impl TrialReport {
    pub fn to_json(&self) -> String {
        // its maps have texts as keys: it cannot fail
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    pub fn to_markdown(&self) -> String {
        let mut page = format!("# Trial: {}\n\n", cell(&self.machine));
        if self.played {
            page += "**A program was played by a test: this is no result.**\n\n";
        }
        let releases = self
            .releases
            .iter()
            .map(|(name, release)| format!("{} {}", cell(name), cell(release)));
        let nodes = if self.nodes == 1 { "node" } else { "nodes" };
        page += &format!("{} {nodes}; {}.\n\n", self.nodes, joined(releases, ", "));
        page +=
            "| other program's picture of the node | facts compared | otherwise |\n|---|---|---|\n";
        page.extend(self.witnesses.iter().map(|witness| {
            let program = cell(&witness.program);
            if let Some(why) = &witness.not_tried {
                return untried(&program, why, 3);
            }
            let differences = witness.differences.iter().map(|of| cell(of));
            let mut differences = joined(differences, "; ");
            if differences.is_empty() {
                differences = "none".to_string();
            }
            row([program, witness.compared.to_string(), differences])
        }));
        page += "\n| way to start tasks | tasks | driver agrees | other order | otherwise | not asked | bound as set | on the GPU's \
                 NUMA node | without placement |\n|---|---|---|---|---|---|---|---|---|\n";
        page.extend(self.ways.iter().map(TriedWay::row));
        page += "\n| program | near | as Slurm starts it | far | unit |\n|---|---|---|---|---|\n";
        page.extend(self.effects.iter().map(Effect::row));
        page
    }
}

impl TriedWay {
    pub fn judged(&self) -> usize {
        self.tasks.saturating_sub(self.unasked.values().sum())
    }

    fn row(&self) -> String {
        let command = format!("`{}`", cell(&self.command));
        if let Some(why) = &self.not_tried {
            return untried(&command, why, 9);
        }
        let unasked = self
            .unasked
            .iter()
            .map(|(why, count)| format!("{count}: {}", cell(why)));
        row([
            command,
            self.tasks.to_string(),
            self.agree.to_string(),
            self.other_order.to_string(),
            joined(self.differ.iter().map(|differ| cell(differ)), "; "),
            joined(unasked, "; "),
            format!("{} of {}", self.bound, self.bound + self.bound_elsewhere),
            self.near.to_string(),
            self.near_without.to_string(),
        ])
    }
}

fn joined(texts: impl Iterator<Item = String>, between: &str) -> String {
    texts.collect::<Vec<_>>().join(between)
}

fn row<const CELLS: usize>(cells: [String; CELLS]) -> String {
    format!("| {} |\n", cells.join(" | "))
}

fn untried(name: &str, why: &str, cells: usize) -> String {
    format!(
        "| {name} | not tried: {} |{}\n",
        cell(why),
        " |".repeat(cells - 2)
    )
}

fn cell(text: &str) -> String {
    let text: String = text
        .chars()
        .filter(|letter| !letter.is_control())
        .take(300)
        .collect();
    text.replace('|', "\\|").replace('<', "&lt;")
}
