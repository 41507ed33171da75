//! The words of `--nic-placement=`, `SLURM_NIC_PLACEMENT` and `default=`.
#![forbid(unsafe_code)]

use super::options::{self, Place};
use crate::placement::{Bind, Mem, Policy, Strictness};
use crate::render::wanted::{Libraries, is_variable_name};
use std::fmt;

/// Bytes of one text of words, at most: every word once is a tenth of it.
const MAX_BYTES: usize = 1024;

/// NICs for each GPU, at most: beyond four no library here gains (UCX uses 2 rails, NCCL merges 4).
const MAX_NICS_PER_TASK: u8 = 8;

/// On with a policy, or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// placement by this policy
    On(Policy),
    /// no placement
    Off,
}

/// What one text says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    /// a policy, or `off`; `None` where the text names neither
    pub policy: Option<Switch>,
    /// `bind=`
    pub bind: Option<Bind>,
    /// `mem=`
    pub mem: Option<Mem>,
    /// `omp=`
    pub omp: Option<bool>,
    /// `help`
    pub help: bool,
    /// `verbose`
    pub verbose: bool,
    /// `dry-run`
    pub dry_run: bool,
    /// `best-effort`, `strict`, `restricted` or `single-numa-node`
    pub strictness: Option<Strictness>,
    /// `nics-per-task=`
    pub nics_per_task: Option<u8>,
    /// `env=`: the last one of the text
    pub env: Option<Libraries>,
    /// `no-env=`: all of the text
    pub no_env: Vec<String>,
}

/// Why a text is not one of words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadWord {
    /// a word that nobody knows
    Unknown(String),
    /// two words of which only one can hold
    Both(&'static str, &'static str),
    /// a word with a value that takes none, or none that takes one, or another one
    Value(String, String),
    /// no library of `env=`
    Library(String),
    /// no name of a variable, in `no-env=`
    Variable(String),
    /// too much text
    TooLong(usize),
}

impl fmt::Display for BadWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadWord::Unknown(word) => {
                write!(f, "unknown word `{word}`")?;
                if let Some(meant) = options::meant(Place::Option, word) {
                    write!(f, ", did you mean `{meant}`?")?;
                } else {
                    f.write_str(";")?;
                }
                write!(f, " known words: {}", options::known(Place::Option))
            }
            BadWord::Both(first, second) => write!(f, "`{first}` and `{second}` cannot both hold: say one"),
            BadWord::Value(word, expected) => write!(f, "`{word}` is not understood: expected `{expected}`"),
            BadWord::Library(word) => {
                write!(f, "`env={word}`: no library is called so; known: {}", Libraries::words())
            }
            BadWord::Variable(word) => {
                write!(f, "`no-env={word}`: expected the name of a variable that we set")
            }
            BadWord::TooLong(bytes) => write!(f, "{bytes} bytes of words: at most {MAX_BYTES} are read"),
        }
    }
}

impl std::error::Error for BadWord {}

impl Words {
    /// Reads words separated by commas.  Slurm spells the option without an argument in three ways: nothing, empty text,
    /// and the literal `(null)` in steps of a batch job (spank.c, `_option_setenv`).
    pub fn parse(text: &str) -> Result<Words, BadWord> {
        let mut words = Words::default();
        if text.len() > MAX_BYTES {
            return Err(BadWord::TooLong(text.len()));
        }
        if text == "(null)" {
            return Ok(words);
        }
        let mut policy_word: Option<&'static str> = None;
        let mut strictness_word: Option<&'static str> = None;
        // `env=ucx,nccl`: a bare word that can belong to the list before it does
        let mut list: Option<&'static str> = None;
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            if !word.contains('=') && list.is_some_and(|list| words.continue_list(list, word)) {
                continue;
            }
            list = None;
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (word, None),
            };
            let Some(spec) = options::at(Place::Option).find(|spec| spec.name == name) else {
                return Err(BadWord::Unknown(shown(name)));
            };
            let misfit = || BadWord::Value(shown(word), spec.spelling());
            if value.is_some() == spec.value.is_empty() {
                return Err(misfit());
            }
            match (spec.name, value) {
                ("help", _) => words.help = true,
                ("verbose", _) => words.verbose = true,
                ("dry-run", _) => words.dry_run = true,
                ("best-effort" | "strict" | "restricted" | "single-numa-node", _) => {
                    let strictness = match name {
                        "best-effort" => Strictness::BestEffort,
                        "strict" => Strictness::Strict,
                        "restricted" => Strictness::Restricted,
                        _ => Strictness::SingleNumaNode,
                    };
                    if let Some(earlier) = strictness_word.filter(|earlier| *earlier != name) {
                        return Err(BadWord::Both(earlier, spec.name));
                    }
                    strictness_word = Some(spec.name);
                    words.strictness = Some(strictness);
                }
                ("nics-per-task", value) => {
                    let number = value.and_then(|value| value.parse().ok());
                    let number = number.filter(|number| (1..=MAX_NICS_PER_TASK).contains(number));
                    words.nics_per_task = Some(number.ok_or_else(misfit)?);
                }
                ("bind", value) => {
                    words.bind = Some(match value {
                        Some("none") => Bind::None,
                        Some("auto") => Bind::Auto,
                        Some("numa") => Bind::Numa,
                        Some("core") => Bind::Core,
                        _ => return Err(misfit()),
                    });
                }
                ("mem", value) => {
                    words.mem = Some(match value {
                        Some("none") => Mem::None,
                        Some("prefer") => Mem::Prefer,
                        Some("strict") => Mem::Strict,
                        _ => return Err(misfit()),
                    });
                }
                ("omp", value) => {
                    words.omp = Some(match value {
                        Some("on") => true,
                        Some("off") => false,
                        _ => return Err(misfit()),
                    });
                }
                (name @ ("env" | "no-env"), value) => {
                    // an `env=` replaces the one before it
                    words.env = if name == "env" { Some(Libraries::NONE) } else { words.env };
                    list = Some(spec.name);
                    let value = value.filter(|value| !value.is_empty()).ok_or_else(misfit)?;
                    if let Some(entry) = value.split('+').find(|entry| !words.continue_list(name, entry)) {
                        return Err(match name {
                            "env" => BadWord::Library(shown(entry)),
                            _ => BadWord::Variable(shown(entry)),
                        });
                    }
                }
                (name, _) => {
                    if let Some(earlier) = policy_word.filter(|earlier| *earlier != name) {
                        return Err(BadWord::Both(earlier, spec.name));
                    }
                    policy_word = Some(spec.name);
                    words.policy = Some(match name {
                        "rail" => Switch::On(Policy::Rail),
                        "spread" => Switch::On(Policy::Spread),
                        "numa" => Switch::On(Policy::Numa),
                        "all" => Switch::On(Policy::All),
                        "off" => Switch::Off,
                        _ => Switch::On(Policy::Closest),
                    });
                }
            }
        }
        Ok(words)
    }

    /// Takes one more entry, or several with `+` between them, into a list; `false` where it cannot belong to it.
    fn continue_list(&mut self, list: &str, entry: &str) -> bool {
        if list == "env" {
            let libraries: Option<Vec<Libraries>> = entry.split('+').map(Libraries::named).collect();
            let known = libraries.unwrap_or_default();
            let all = known.iter().fold(self.env.unwrap_or(Libraries::NONE), |all, one| all.with(*one));
            self.env = Some(all);
            return !known.is_empty();
        }
        let names: Vec<&str> = entry.split('+').collect();
        let fit = names.iter().all(|name| is_variable_name(name));
        if fit {
            self.no_env.extend(names.into_iter().map(str::to_string));
        }
        fit
    }
}

/// A user's text as a message may show it: short, and without what would move a terminal's cursor.
fn shown(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}
