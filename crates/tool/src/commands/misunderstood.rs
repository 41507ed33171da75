//! clap's answers: help, folded, and its errors in one line each.

use super::page::Page;
use super::{Failure, ending};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::fmt;

/// Commands of version 1.0.
const GONE: [(&str, &str); 3] = [
    (
        "explain",
        "`nic-placement show --gpu 3` says why GPU 3 got its NICs",
    ),
    (
        "measure",
        "`nic-placement verify --bytes -- CMD` counts bytes, `nic-placement verify --merge` adds up reports",
    ),
    (
        "top",
        "`nic-placement verify --watch` looks again and again",
    ),
];

pub(super) fn misunderstood(problem: impl fmt::Display) -> Failure {
    ending(2, problem.to_string())
}

pub(super) fn answer(answer: &clap::Error, page: &mut Page) -> Result<(), Failure> {
    let text = answer.to_string();
    if let ErrorKind::DisplayHelp
    | ErrorKind::DisplayVersion
    | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand = answer.kind()
    {
        text.lines().for_each(|line| help_line(line, page));
        return Ok(());
    }
    if let Some(ContextValue::String(word)) = answer.get(ContextKind::InvalidSubcommand)
        && let Some((_, instead)) = GONE.iter().find(|(gone, _)| gone == word)
    {
        return Err(misunderstood(format!("`{word}` is gone: {instead}")));
    }
    let text = text.trim_start_matches("error: ").replace('\'', "`");
    let mut said = String::new();
    for line in text.lines().map(str::trim) {
        said += match line.split(' ').next() {
            // behind `--` is a program or a line of srun, no value
            Some("" | "For") | None => continue,
            _ if line.starts_with("tip: to pass") => continue,
            Some("tip:" | "Usage:") => "; ",
            _ => " ",
        };
        said += line;
    }
    Err(misunderstood(said.trim_start()))
}

/// Folds a line of help, which clap does not: `  --option <VALUE>  its meaning`, or a paragraph's.
fn help_line(line: &str, page: &mut Page) {
    let text = line.trim_start();
    let margin = &line[..line.len() - text.len()];
    match text.find("  ") {
        _ if text.is_empty() => page.blank(),
        Some(gap) => {
            let meaning = text[gap..].trim_start();
            page.item(&line[..line.len() - meaning.len()], meaning);
        }
        None => page.behind(margin, margin, text),
    }
}
