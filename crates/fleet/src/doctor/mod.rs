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
use std::collections::BTreeSet;
use table::{CHECKS, CONFIGURATION};

pub struct Examined<'a> {
    pub plan: &'a Plan,
    pub diagnostics: &'a [Diagnostic],
    /// its files; `None` for a node that is only described
    pub facts: Option<&'a HostFacts>,
    pub installation: &'a Installation,
    pub caller: &'a Caller,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Verdict {
    level: Level,
    /// the device, file or line that it is about, for a reason that has little room
    about: Option<String>,
    text: String,
    /// true if the remedy of the check's page puts it right
    has_remedy: bool,
}

type Verdicts = Vec<Verdict>;

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

/// In the table's order, of the checks that are not switched off.
pub fn examine(subject: &Examined, off: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for check in CHECKS.iter().filter(|check| !off.contains(check.code)) {
        for Verdict {
            level,
            about,
            text,
            has_remedy,
        } in (check.judge)(subject)
        {
            let code = check.code.to_string();
            let why = check
                .says("why")
                .filter(|_| level != Level::Ok)
                .map(str::to_string);
            let remedy = check.says("do").filter(|_| has_remedy).map(str::to_string);
            findings.push(Finding {
                level,
                code,
                about,
                text,
                why,
                remedy,
            });
        }
    }
    findings
}

/// The verdicts, or without any the good one.
fn or_ok(verdicts: Verdicts, good: Option<impl ToString>) -> Verdicts {
    match good {
        Some(text) if verdicts.is_empty() => vec![ok(text)],
        _ => verdicts,
    }
}

/// `a, b and 3 more`
fn listed(names: &[String]) -> String {
    first_of(names, 4)
}

fn first_of(names: &[String], most: usize) -> String {
    match names.len().saturating_sub(most) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names[..most].join(", ")),
    }
}

/// One line of less than 100 plain characters for the reason of a drained node; `None` where
/// nothing fails. A mistake in a file that all nodes may share drains none.
pub fn reason(findings: &[Finding]) -> Option<String> {
    let failed: Vec<&Finding> = findings
        .iter()
        .filter(|finding| finding.level == Level::Fail && finding.code != CONFIGURATION)
        .collect();
    let parts = failed.iter().map(|finding| match &finding.about {
        Some(about) => format!("{} {about}", finding.code),
        None => finding.code.clone(),
    });
    (!failed.is_empty()).then(|| plain(&parts.collect::<Vec<_>>()))
}

/// As many parts behind our name as there is room for.
pub fn plain(parts: &[String]) -> String {
    /// Characters: what squeue and sinfo show of a reason at most.
    const MOST: usize = 99;
    const HEAD: &str = "nic-placement: ";
    let clean = |text: &String| -> String {
        // no quotes, and nothing that a shell or slurmctld could take for more than text
        let keep = |letter: char| letter.is_ascii_alphanumeric() || " .,:;/_+-".contains(letter);
        text.chars()
            .map(|letter| if keep(letter) { letter } else { '?' })
            .collect()
    };
    let parts: Vec<String> = parts.iter().map(clean).collect();
    for shown in (1..=parts.len()).rev() {
        let more = match parts.len() - shown {
            0 => String::new(),
            more => format!(" +{more} more"),
        };
        let line = format!("{HEAD}{}{more}", parts[..shown].join(", "));
        if line.len() <= MOST {
            return line;
        }
    }
    format!(
        "{HEAD}{}",
        parts.first().map(String::as_str).unwrap_or_default()
    )
    .chars()
    .take(MOST)
    .collect()
}
