//! clap's errors in one line each, with what was probably meant.

use super::page::Page;
use super::{Failure, ending};
use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use nic_placement_core::config::Words;
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
    ending(2, problem.to_string())
}

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
    let value = text(error, ContextKind::InvalidValue);
    let table = super::command_line().ignore_errors(true);
    let matches = table.try_get_matches_from(env::args_os());
    let matches = matches.unwrap_or_default();
    let command = matches.subcommand_name().unwrap_or("");
    let command = format!("nic-placement {command}");
    let command = command.trim_end();
    let see = format!("`{command} --help` lists what is known");
    let option = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) => name(argument),
        _ => "",
    };
    if let Some(line) = exec_without_dashes(&matches, error.kind(), option) {
        return format!("exec: `--` stands before the program, as `{line}`");
    }
    let given = match option.starts_with(['<', '[']) {
        true => value.to_string(),
        false => format!("{option} {value}"),
    };
    if let Some(file) = [option, value].into_iter().find(|word| is_after_svg(word)) {
        return format!("`--svg` takes no value: `--svg -o {file}` writes the picture there");
    }
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let word = text(error, ContextKind::InvalidSubcommand);
            if let Some((_, instead)) = GONE.iter().find(|(gone, _)| *gone == word) {
                return format!("`{word}` is gone: {instead}");
            }
            let meant = meant(error);
            format!("unknown command `{word}`{meant} `nic-placement help` lists all")
        }
        ErrorKind::UnknownArgument => {
            let kind = match option.starts_with('-') {
                true => "unknown option",
                false => "unexpected argument",
            };
            format!("{kind} `{option}`{} {see}", meant(error))
        }
        ErrorKind::InvalidValue if value.is_empty() => format!("`{option}` needs a value"),
        ErrorKind::InvalidValue => {
            let known = match option {
                "--off" | "--only" | "--explain" => {
                    "`nic-placement check --list` lists all".to_string()
                }
                _ => {
                    let known = list(error, ContextKind::ValidValue).join(", ");
                    format!("expected one of {known}")
                }
            };
            format!("`{given}`{} {known}", meant(error))
        }
        ErrorKind::ValueValidation => {
            let why = std::error::Error::source(error).map(ToString::to_string);
            format!("`{given}`: {}", why.unwrap_or_default())
        }
        ErrorKind::TooManyValues => format!("`{option}` takes no value"),
        ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            format!("`{option}` needs more values: {see}")
        }
        ErrorKind::ArgumentConflict => {
            let other = list(error, ContextKind::PriorArg);
            let other = other.first().map_or("", |other| name(other));
            format!("only one of `{option}` and `{other}` can hold")
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = list(error, ContextKind::InvalidArg).join(" ");
            format!("`{command}` needs {missing}")
        }
        ErrorKind::InvalidUtf8 => "an argument is not UTF-8".to_string(),
        _ => {
            let all = error.to_string();
            let first = all.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_string()
        }
    }
}

/// `exec -- python train.py` for `exec python train.py`.
fn exec_without_dashes(matches: &ArgMatches, kind: ErrorKind, unexpected: &str) -> Option<String> {
    let first: Option<&String> = matches.subcommand_matches("exec")?.get_one("words");
    let is_program = first.is_some_and(|first| Words::parse(first).is_err());
    let first = first.map_or(String::new(), |first| format!(" {first}"));
    Some(match kind {
        ErrorKind::MissingRequiredArgument if is_program => format!("exec --{first}"),
        ErrorKind::MissingRequiredArgument => format!("exec{first} -- CMD"),
        ErrorKind::UnknownArgument if is_program => format!("exec --{first} {unexpected}"),
        ErrorKind::UnknownArgument if !unexpected.starts_with('-') => {
            format!("exec{first} -- {unexpected}")
        }
        _ => return None,
    })
}

/// True if `--svg` is before this word.
fn is_after_svg(word: &str) -> bool {
    let words: Vec<_> = env::args_os().collect();
    let mut pairs = words.windows(2);
    pairs.any(|pair| pair[0] == "--svg" && pair[1] == word)
}

/// `, did you mean …?`, or a colon.
fn meant(error: &clap::Error) -> String {
    let kinds = [
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedArg,
        ContextKind::SuggestedValue,
    ];
    let meant = kinds.into_iter().find_map(|kind| list(error, kind).pop());
    meant.map_or(":".to_string(), |meant| {
        format!(", did you mean `{meant}`?")
    })
}

fn name(argument: &str) -> &str {
    argument.split(' ').next().unwrap_or(argument)
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
