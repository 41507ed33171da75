//! The report of a trial: what agreed, what did not, and what placement was worth, without names of hosts or users.
#![forbid(unsafe_code)]

use super::witness::Witness;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

pub const FORMAT: &str = "nic-placement trial";
pub const VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialReport {
    /// [`FORMAT`]
    pub format: String,
    /// [`VERSION`]
    pub version: u32,
    /// GPUs and NICs by model and count
    pub machine: String,
    pub nodes: usize,
    /// by program: nic-placement, the kernel, Slurm, drivers and libraries
    pub releases: BTreeMap<String, String>,
    /// of the first node, and of others where they say otherwise
    pub witnesses: Vec<Witness>,
    pub ways: Vec<TriedWay>,
    pub effects: Vec<Effect>,
    /// is a program played by a test?  Such a report is no result.
    pub played: bool,
}

/// A way to start tasks, and which GPUs the driver gave them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedWay {
    /// the command, without the program
    pub command: String,
    pub not_tried: Option<String>,
    pub tasks: usize,
    /// tasks whose GPUs we took for those that the driver named
    pub agree: usize,
    /// ... with another order
    pub other_order: usize,
    /// of these the first few are told
    pub differ: Vec<String>,
    /// tasks that no driver could be asked for, by the reason
    pub unasked: BTreeMap<String, usize>,
    /// tasks that were bound, and have these CPUs
    pub bound: usize,
    pub bound_elsewhere: usize,
    /// tasks that run on the NUMA nodes of their GPUs alone, of those whose GPUs are known
    pub near: Near,
    /// the same without placement
    pub near_without: Near,
    /// memory policies
    pub memory: BTreeMap<String, usize>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// by `near`, `default` and `far`, and by round: one that gave none is not there
    pub figures: BTreeMap<String, BTreeMap<usize, f64>>,
    /// bytes that left by each NIC of both nodes, in the first round of each side
    pub bytes: BTreeMap<String, BTreeMap<String, u64>>,
}

/// The median, and what holds it with 98 % confidence where there are ten figures (docs/measure.md).
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
    /// The figure of a side in percent of the near side's, pair by pair.
    pub fn against_near(&self, side: &str) -> Option<Middle> {
        let (near, other) = (self.figures.get("near")?, self.figures.get(side)?);
        let pairs = near
            .iter()
            .filter_map(|(round, near)| Some((near, other.get(round)?)));
        middle(pairs.map(|(near, other)| other / near * 100.0))
    }
}

/// Why a text is no report.
pub fn read(text: &[u8]) -> Result<TrialReport, String> {
    let report: TrialReport =
        serde_json::from_slice(text).map_err(|error| format!("no report of a trial: {error}"))?;
    match (report.format.as_str(), report.version) {
        (FORMAT, VERSION) => Ok(report),
        (FORMAT, other) => Err(format!("version {other} of the report: expected {VERSION}")),
        (other, _) => Err(format!("format `{other}`: expected `{FORMAT}`")),
    }
}

/// What stands in a report that was sent in and must not.
pub fn faults(report: &TrialReport) -> Vec<String> {
    let mut faults = Vec::new();
    if report.played {
        faults.push("a program in it was played by a test".to_string());
    }
    if report
        .witnesses
        .iter()
        .all(|witness| witness.not_tried.is_some())
        && report.ways.iter().all(|way| way.judged() == 0)
    {
        faults.push("nothing was compared: no other program, and no driver".to_string());
    }
    let text = serde_json::to_string(report).unwrap_or_default();
    if text
        .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-')
        .any(is_uuid)
    {
        faults.push("a GPU's UUID stands in it".to_string());
    }
    faults
}

fn is_uuid(word: &str) -> bool {
    word.starts_with("GPU-") && word.len() >= 40
}

/// Above the rows of several reports.
pub const HEADING: &str = "| machine | releases | other programs that agree | tasks whose GPUs the driver confirms | far against near |\n\
                           |---|---|---|---|---|\n";

impl TrialReport {
    /// Its row below [`HEADING`].
    pub fn row(&self) -> String {
        let tried: Vec<&Witness> = self
            .witnesses
            .iter()
            .filter(|witness| witness.not_tried.is_none())
            .collect();
        let agree = tried.iter().filter(|witness| witness.agrees()).count();
        let sum = |of: fn(&TriedWay) -> usize| self.ways.iter().map(of).sum::<usize>();
        let far = self.effects.iter().filter_map(|effect| {
            let far = effect.against_near("far")?;
            Some(format!("{} {:.0} %", cell(&effect.program), far.median))
        });
        format!(
            "| {} | {} | {agree} of {} | {} of {} | {} |\n",
            cell(&self.machine),
            self.releases
                .values()
                .map(|release| cell(release))
                .collect::<Vec<_>>()
                .join(", "),
            tried.len(),
            sum(|way| way.agree),
            sum(TriedWay::judged),
            far.collect::<Vec<_>>().join(", "),
        )
    }

    pub fn to_json(&self) -> String {
        // its maps have texts as keys: it cannot fail
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// One page.
    pub fn to_markdown(&self) -> String {
        let mut page = format!("# Trial: {}\n\n", cell(&self.machine));
        if self.played {
            page += "**A program was played by a test: this is no result.**\n\n";
        }
        let releases: Vec<String> = self
            .releases
            .iter()
            .map(|(name, release)| format!("{} {}", cell(name), cell(release)))
            .collect();
        let nodes = if self.nodes == 1 {
            "1 node".to_string()
        } else {
            format!("{} nodes", self.nodes)
        };
        // writing to a string cannot fail
        let _ = writeln!(page, "{nodes}; {}.\n", releases.join(", "));
        page +=
            "| other program's picture of the node | facts compared | otherwise |\n|---|---|---|\n";
        for Witness {
            program,
            not_tried,
            compared,
            differences,
        } in &self.witnesses
        {
            let differences: Vec<String> = differences
                .iter()
                .map(|of| {
                    format!(
                        "{}: {} here, {} there",
                        cell(&of.what),
                        cell(&of.ours),
                        cell(&of.theirs)
                    )
                })
                .collect();
            let _ = match not_tried {
                Some(why) => writeln!(page, "| {} | not tried: {} | |", cell(program), cell(why)),
                None if differences.is_empty() => {
                    writeln!(page, "| {} | {compared} | none |", cell(program))
                }
                None => writeln!(
                    page,
                    "| {} | {compared} | {} |",
                    cell(program),
                    differences.join("; ")
                ),
            };
        }
        page += "\n| way to start tasks | tasks | driver agrees | other order | otherwise | not asked | bound as set | on the GPU's \
                 NUMA node | without placement |\n|---|---|---|---|---|---|---|---|---|\n";
        for way in &self.ways {
            way.write(&mut page);
        }
        page += "\n| program | near | as Slurm starts it | far | unit |\n|---|---|---|---|---|\n";
        for effect in &self.effects {
            effect.write(&mut page);
        }
        let with_bytes = self
            .effects
            .iter()
            .flat_map(|effect| effect.bytes.iter().map(move |of| (effect, of)));
        let mut with_bytes = with_bytes.peekable();
        if with_bytes.peek().is_some() {
            page += "\n| program | side | MB that left by each NIC |\n|---|---|---|\n";
        }
        for (effect, (side, nics)) in with_bytes {
            let nics: Vec<String> = nics
                .iter()
                .map(|(nic, sent)| format!("{} {:.1}", cell(nic), *sent as f64 / 1e6))
                .collect();
            let _ = writeln!(
                page,
                "| {} | {} | {} |",
                cell(&effect.program),
                cell(side),
                nics.join(", ")
            );
        }
        page
    }
}

impl TriedWay {
    /// Tasks whose GPUs a driver named.
    fn judged(&self) -> usize {
        self.tasks.saturating_sub(self.unasked.values().sum())
    }

    fn write(&self, page: &mut String) {
        let command = cell(&self.command);
        if let Some(why) = &self.not_tried {
            let _ = writeln!(
                page,
                "| `{command}` | not tried: {} | | | | | | | |",
                cell(why)
            );
            return;
        }
        let unasked: Vec<String> = self
            .unasked
            .iter()
            .map(|(why, count)| format!("{count}: {}", cell(why)))
            .collect();
        let differ: Vec<String> = self.differ.iter().map(|differ| cell(differ)).collect();
        let _ = writeln!(
            page,
            "| `{command}` | {} | {} | {} | {} | {} | {} of {} | {} | {} |",
            self.tasks,
            self.agree,
            self.other_order,
            differ.join("; "),
            unasked.join("; "),
            self.bound,
            self.bound + self.bound_elsewhere,
            self.near,
            self.near_without,
        );
    }
}

impl Effect {
    fn write(&self, page: &mut String) {
        if let Some(why) = &self.not_tried {
            let _ = writeln!(
                page,
                "| {} | not tried: {} | | | |",
                cell(&self.program),
                cell(why)
            );
            return;
        }
        let side = |name: &str| -> String {
            let Some(of) = self
                .figures
                .get(name)
                .and_then(|figures| middle(figures.values().copied()))
            else {
                return "-".to_string();
            };
            let share = (name != "near").then(|| self.against_near(name)).flatten();
            let share = share.map(|share| match share.interval {
                Some((low, high)) => format!(" ({:.0} %, {low:.0} to {high:.0})", share.median),
                None => format!(" ({:.0} %)", share.median),
            });
            format!("{:.1}{}", of.median, share.unwrap_or_default())
        };
        let sides = ["near", "default", "far"].map(side).join(" | ");
        let _ = writeln!(
            page,
            "| {} | {sides} | {} |",
            cell(&self.program),
            cell(&self.unit)
        );
    }
}

/// Foreign text in a cell of a table.
fn cell(text: &str) -> String {
    let text: String = text
        .chars()
        .filter(|letter| !letter.is_control())
        .take(300)
        .collect();
    text.replace('|', "\\|").replace('<', "&lt;")
}
