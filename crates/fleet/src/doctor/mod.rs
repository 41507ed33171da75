//! The doctor: one table of checks, each of which judges facts; reading them, and printing what was found, is the caller's.
//!
//! `fail` is for what makes this node worse than its kind, so that a site can drain a node by it. What is wrong in files that
//! all nodes share is a `warn`: a typo must not drain a cluster. What may be meant so, or is not known, is a `note`.

pub mod config_space;
pub mod facts;
mod gpudirect;
pub mod gpus;
mod host;
pub mod installation;
mod links;
mod ports;
mod redirect;
pub mod releases;
pub(crate) mod shortfall;
pub mod table;
#[cfg(test)]
mod tests;

use crate::audit::report::{Finding, Level};
use facts::{Caller, HostFacts, Installation};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::plan::Plan;
use table::{CHECKS, CONFIGURATION};

pub struct Examined<'a> {
    pub plan: &'a Plan,
    pub diagnostics: &'a [Diagnostic],
    /// its files; `None` for a node that is only described
    pub facts: Option<&'a HostFacts>,
    pub installation: &'a Installation,
    pub caller: &'a Caller,
}

#[derive(Debug, Clone, PartialEq)]
struct Verdict {
    level: Level,
    /// the device, file or line that it is about, for a reason that has little room
    about: Option<String>,
    text: String,
    /// true if the remedy of the check's page puts it right
    has_remedy: bool,
}

/// `None` where nothing can be told.
type Judged = Option<Vec<Verdict>>;

fn verdict(level: Level, has_remedy: bool, text: impl ToString) -> Verdict {
    Verdict {
        level,
        about: None,
        text: text.to_string(),
        has_remedy,
    }
}

fn ok(text: impl ToString) -> Verdict {
    verdict(Level::Ok, false, text)
}

fn note(text: impl ToString) -> Verdict {
    verdict(Level::Note, false, text)
}

/// A note on what may be meant so, and else has the check's remedy.
fn advice(text: impl ToString) -> Verdict {
    verdict(Level::Note, true, text)
}

fn warn(text: impl ToString) -> Verdict {
    verdict(Level::Warn, true, text)
}

fn fail(text: impl ToString) -> Verdict {
    verdict(Level::Fail, true, text)
}

impl Verdict {
    fn about(self, what: impl ToString) -> Verdict {
        Verdict {
            about: Some(what.to_string()),
            ..self
        }
    }
}

/// In the table's order, of the checks whose codes are on.
pub fn examine(subject: &Examined, is_on: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for check in CHECKS.iter().filter(|check| is_on(check.code)) {
        for of in (check.judge)(subject).into_iter().flatten() {
            let says = |word: &str, is_told: bool| {
                check.says(word).filter(|_| is_told).map(str::to_string)
            };
            findings.push(Finding {
                level: of.level,
                code: check.code.to_string(),
                about: of.about,
                text: of.text,
                why: says("why", of.level != Level::Ok),
                remedy: says("do", of.has_remedy),
            });
        }
    }
    findings
}

/// The verdicts, or without any the good one.
fn or_ok(verdicts: Vec<Verdict>, good: Option<impl ToString>) -> Judged {
    match good {
        Some(text) if verdicts.is_empty() => Some(vec![ok(text)]),
        _ => Some(verdicts),
    }
}

fn one(verdict: Verdict) -> Judged {
    Some(vec![verdict])
}

/// `a, b and 3 more`
fn listed(names: &[String]) -> String {
    /// A node of eight GPUs with two NICs each.
    const MOST: usize = 16;
    match names.len().saturating_sub(MOST) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..MOST].join(", ")),
    }
}

/// The failures, for the reason of a drained node; `None` without any. A mistake in a file that all nodes may share
/// drains none.
pub fn reason(findings: &[Finding]) -> Option<String> {
    let failed: Vec<String> = findings
        .iter()
        .filter(|finding| finding.level == Level::Fail && finding.code != CONFIGURATION)
        .map(|of| format!("{} {}", of.code, of.about.as_deref().unwrap_or_default()))
        .collect();
    (!failed.is_empty()).then(|| failed.join(", "))
}

/// The text behind our name as plain characters, as far as there is room.
pub fn plain(text: &str) -> String {
    /// Characters: what squeue and sinfo show of a reason at most.
    const MOST: usize = 99;
    // no quotes, and nothing that a shell or slurmctld could take for more than text
    let keep = |letter: char| letter.is_ascii_alphanumeric() || " .,:;/_+-".contains(letter);
    let text = text
        .chars()
        .map(|letter| if keep(letter) { letter } else { '?' });
    "nic-placement: ".chars().chain(text).take(MOST).collect()
}
