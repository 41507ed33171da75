//! clap's errors in one line each, with what was probably meant.
#![forbid(unsafe_code)]

use super::page::Page;
use super::{Ending, Failure};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use nic_placement_launch::step;
use std::{env, fmt};

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
    Ending {
        status: 2,
        said: problem.to_string(),
    }
    .into()
}

/// Prints help or version; other answers are errors.
pub(super) fn answer(answer: &clap::Error, page: &mut Page) -> Result<(), Failure> {
    match answer.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            for line in answer.to_string().lines() {
                help_line(line, page);
            }
            Ok(())
        }
        _ => Err(misunderstood(problem(answer))),
    }
}

/// Folds a line of help, which clap does not: `  --option <VALUE>  its meaning`, or a paragraph's.
fn help_line(line: &str, page: &mut Page) {
    let text = line.trim_start();
    let margin = line.len() - text.len();
    match text.find("  ") {
        _ if text.is_empty() => page.blank(),
        Some(gap) => {
            let meaning = text[gap..].trim_start();
            page.item(&line[..line.len() - meaning.len()], meaning);
        }
        None => page.block(margin, text),
    }
}

fn problem(error: &clap::Error) -> String {
    let value = value(error);
    let command = command(error);
    let see = format!("`{command} --help` lists what is known");
    match (error.kind(), argument(error)) {
        (ErrorKind::InvalidSubcommand, _) => {
            let word = text(error, ContextKind::InvalidSubcommand);
            if let Some((_, instead)) = GONE.iter().find(|(gone, _)| *gone == word) {
                return format!("`{word}` is gone: {instead}");
            }
            format!(
                "unknown command `{word}`{} `nic-placement help` lists all",
                meant(error, ":")
            )
        }
        (ErrorKind::UnknownArgument, Some(word)) if is_after_svg(word) => {
            format!("`--svg` takes no value: `--svg -o {word}` writes the picture there")
        }
        (ErrorKind::UnknownArgument, Some(word)) => {
            let kind = if word.starts_with('-') {
                "unknown option"
            } else {
                "unexpected argument"
            };
            format!("{kind} `{word}`{} {see}", meant(error, ":"))
        }
        (ErrorKind::InvalidValue, Some(option)) if value.is_empty() => {
            format!("`{option}` needs a value")
        }
        (ErrorKind::InvalidValue, Some(option)) => {
            let given = if option.starts_with('<') {
                value.to_string()
            } else {
                format!("{option} {value}")
            };
            let known = match option {
                "--machine" => "`nic-placement machines` lists the built-in ones".to_string(),
                "--off" | "--only" | "--explain" => {
                    "`nic-placement check --list` lists all".to_string()
                }
                _ => {
                    let known = || {
                        format!(
                            "expected one of {}",
                            list(error, ContextKind::ValidValue).join(", ")
                        )
                    };
                    let instead = (option == "--format")
                        .then(|| step::instead_of_format(value))
                        .flatten();
                    instead.unwrap_or_else(known)
                }
            };
            format!("`{given}`{} {known}", meant(error, ":"))
        }
        (ErrorKind::ValueValidation, Some(option)) => {
            let why = std::error::Error::source(error)
                .map(ToString::to_string)
                .unwrap_or_default();
            format!("`{option} {value}`: {why}")
        }
        (ErrorKind::TooManyValues, Some(option)) => format!("`{option}` takes no value"),
        (ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues, Some(option)) => {
            format!("`{option}` needs more values: {see}")
        }
        (ErrorKind::ArgumentConflict, Some(option)) => {
            let other = list(error, ContextKind::PriorArg);
            let other = other.first().map_or("", |other| name(other));
            format!("only one of `{option}` and `{other}` can hold")
        }
        (ErrorKind::MissingRequiredArgument, _) => {
            let missing = list(error, ContextKind::InvalidArg).join(" ");
            let behind = if missing.starts_with("<CMD>") {
                format!(": `{command} -- CMD`")
            } else {
                String::new()
            };
            format!("`{command}` needs {missing}{behind}")
        }
        (ErrorKind::InvalidUtf8, _) => "an argument is not UTF-8".to_string(),
        _ => error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .trim_start_matches("error: ")
            .to_string(),
    }
}

/// True if `--svg` is before this word.
fn is_after_svg(word: &str) -> bool {
    let words: Vec<_> = env::args_os().collect();
    words
        .windows(2)
        .any(|two| two[0] == "--svg" && two[1] == word)
}

/// `, did you mean …?`, or `otherwise`.
fn meant(error: &clap::Error, otherwise: &str) -> String {
    let kinds = [
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedArg,
        ContextKind::SuggestedValue,
    ];
    let meant = kinds.into_iter().find_map(|kind| list(error, kind).pop());
    meant.map_or(otherwise.to_string(), |meant| {
        format!(", did you mean `{meant}`?")
    })
}

/// `nic-placement plan`, from the line on its usage.
fn command(error: &clap::Error) -> String {
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => String::new(),
    };
    let is_name = |word: &&str| word.starts_with(|first: char| first.is_ascii_lowercase());
    let words: Vec<&str> = usage
        .split_whitespace()
        .skip(1)
        .take_while(is_name)
        .collect();
    if words.is_empty() {
        "nic-placement".to_string()
    } else {
        words.join(" ")
    }
}

fn argument(error: &clap::Error) -> Option<&str> {
    match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => Some(name(argument)),
        _ => None,
    }
}

fn name(argument: &str) -> &str {
    argument.split(' ').next().unwrap_or(argument)
}

fn value(error: &clap::Error) -> &str {
    text(error, ContextKind::InvalidValue)
}

fn text(error: &clap::Error, kind: ContextKind) -> &str {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text,
        _ => "",
    }
}

fn list(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        _ => Vec::new(),
    }
}
