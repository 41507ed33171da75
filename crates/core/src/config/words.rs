//! The words of `--nic-placement=`, `SLURM_NIC_PLACEMENT` and `default=`.
#![forbid(unsafe_code)]

use super::options::{self, Place};
use crate::diagnostic::Shown;
use crate::libraries::wanted::{Libraries, is_variable_name};
use crate::placement::{Bind, GpuUse, Mem, NicsEach, Policy, Strictness};
use std::fmt;

/// Bytes of one text of words, at most: every word once is a tenth of it.
const MAX_BYTES: usize = 1024;

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
    /// `gpu=`
    pub gpu: Option<GpuUse>,
    /// `bind=`
    pub bind: Option<Bind>,
    /// `mem=`
    pub mem: Option<Mem>,
    /// `omp=`
    pub omp: Option<bool>,
    /// `observe`
    pub observe: bool,
    /// `help`
    pub help: bool,
    /// `verbose`
    pub verbose: bool,
    /// `dry-run`
    pub dry_run: bool,
    /// `best-effort`, `strict`, `restricted` or `single-numa-node`
    pub strictness: Option<Strictness>,
    /// `nics-per-task=`
    pub nics_per_task: Option<NicsEach>,
    /// `env=`: the last one of the text
    pub env: Option<Libraries>,
    /// the variables that it names
    pub env_names: Vec<String>,
    /// `no-env=`: all of the text, names and beginnings with a star
    pub no_env: Vec<String>,
    /// `no-env=none`: what was said before the text does not count
    pub forgets_no_env: bool,
}

/// Why a text is not one of words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadWord {
    /// a word that is not in the option table
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
                write!(
                    f,
                    "`env={word}`: no library is called so; known: {}, or the name of a variable",
                    Libraries::words()
                )
            }
            BadWord::Variable(word) => {
                write!(
                    f,
                    "`no-env={word}`: expected the name of a variable that we set, or its beginning and `*`"
                )
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
        let words = Words::default();
        if text.len() > MAX_BYTES {
            return Err(BadWord::TooLong(text.len()));
        }
        if text == "(null)" {
            return Ok(words);
        }
        let mut reader = Reader { words, policy: None, strictness: None, list: None };
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            reader.take(word)?;
        }
        Ok(reader.words)
    }

    /// What these words and nearer ones say together, of which the nearer count.
    #[must_use]
    pub fn overlaid(&self, nearer: &Words) -> Words {
        let (policy, observe) = match (nearer.policy, nearer.observe) {
            (None, false) => (self.policy, self.observe),
            // what was off is observed by now
            (None, true) => (self.policy.filter(|policy| *policy != Switch::Off), true),
            said => said,
        };
        let (env, env_names) = match nearer.env {
            Some(_) => (nearer.env, nearer.env_names.clone()),
            None => (self.env, self.env_names.clone()),
        };
        let earlier = if nearer.forgets_no_env { &[] } else { self.no_env.as_slice() };
        Words {
            policy,
            observe,
            gpu: nearer.gpu.or(self.gpu),
            bind: nearer.bind.or(self.bind),
            mem: nearer.mem.or(self.mem),
            omp: nearer.omp.or(self.omp),
            help: self.help || nearer.help,
            verbose: self.verbose || nearer.verbose,
            dry_run: self.dry_run || nearer.dry_run,
            strictness: nearer.strictness.or(self.strictness),
            nics_per_task: nearer.nics_per_task.or(self.nics_per_task),
            env,
            env_names,
            no_env: earlier.iter().chain(&nearer.no_env).cloned().collect(),
            forgets_no_env: self.forgets_no_env || nearer.forgets_no_env,
        }
    }

    /// Takes one more entry, or several with `+` between them, into a list; `false` where it cannot belong to it.
    fn continue_list(&mut self, list: &str, entry: &str) -> bool {
        let entries: Vec<&str> = entry.split('+').collect();
        match list {
            "env" => {
                let is_library = |entry: &&str| Libraries::named(entry).is_some();
                let (libraries, names): (Vec<&str>, Vec<&str>) = entries.into_iter().partition(is_library);
                if !names.iter().all(|name| is_variable_name(name)) {
                    return false;
                }
                let known = libraries.into_iter().filter_map(Libraries::named);
                self.env = Some(known.fold(self.env.unwrap_or(Libraries::NONE), Libraries::with));
                self.env_names.extend(names.into_iter().map(str::to_string));
            }
            _ => {
                let fit = |entry: &&str| {
                    *entry == NO_VARIABLE || is_variable_name(entry.strip_suffix('*').unwrap_or(entry))
                };
                if !entries.iter().all(fit) {
                    return false;
                }
                for entry in entries {
                    match entry {
                        NO_VARIABLE => {
                            self.no_env.clear();
                            self.forgets_no_env = true;
                        }
                        name => self.no_env.push(name.to_string()),
                    }
                }
            }
        }
        true
    }
}

/// The entry of `no-env=` that takes back the others.
const NO_VARIABLE: &str = "none";

/// The words read so far.
struct Reader {
    words: Words,
    /// the word that named the policy
    policy: Option<&'static str>,
    /// the word that named the strictness
    strictness: Option<&'static str>,
    /// `env=ucx,nccl`: a bare word that can belong to the list before it does
    list: Option<&'static str>,
}

impl Reader {
    fn take(&mut self, word: &str) -> Result<(), BadWord> {
        let words = &mut self.words;
        if !word.contains('=') && self.list.is_some_and(|list| words.continue_list(list, word)) {
            return Ok(());
        }
        self.list = None;
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
        let value = value.unwrap_or_default();
        match spec.name {
            "help" => words.help = true,
            "observe" if self.policy == Some("off") => return Err(BadWord::Both("off", "observe")),
            "observe" => words.observe = true,
            "verbose" => words.verbose = true,
            "dry-run" => words.dry_run = true,
            "nics-per-task" => words.nics_per_task = Some(nics_per_task(value).ok_or_else(misfit)?),
            "gpu" => words.gpu = Some(gpu_use(value).ok_or_else(misfit)?),
            "bind" => words.bind = Some(bind(value).ok_or_else(misfit)?),
            "mem" => words.mem = Some(mem(value).ok_or_else(misfit)?),
            "omp" => words.omp = Some(on_or_off(value).ok_or_else(misfit)?),
            "env" | "no-env" if value.is_empty() => return Err(misfit()),
            "env" | "no-env" => return self.begin_list(spec.name, value),
            "best-effort" | "strict" | "restricted" | "single-numa-node" => {
                say_once(&mut self.strictness, spec.name)?;
                words.strictness = Some(strictness(spec.name));
            }
            "off" if words.observe => return Err(BadWord::Both("observe", "off")),
            name => {
                say_once(&mut self.policy, name)?;
                words.policy = Some(switch(name));
            }
        }
        Ok(())
    }

    fn begin_list(&mut self, list: &'static str, value: &str) -> Result<(), BadWord> {
        self.list = Some(list);
        // an `env=` replaces the one before it
        if list == "env" {
            self.words.env = Some(Libraries::NONE);
            self.words.env_names.clear();
        }
        match value.split('+').find(|entry| !self.words.continue_list(list, entry)) {
            None => Ok(()),
            Some(entry) if list == "env" => Err(BadWord::Library(shown(entry))),
            Some(entry) => Err(BadWord::Variable(shown(entry))),
        }
    }
}

/// Notes which of several words was said; saying it again is no other one.
fn say_once(said: &mut Option<&'static str>, word: &'static str) -> Result<(), BadWord> {
    match said.replace(word) {
        Some(earlier) if earlier != word => Err(BadWord::Both(earlier, word)),
        _ => Ok(()),
    }
}

fn nics_per_task(value: &str) -> Option<NicsEach> {
    if value == "auto" {
        return Some(NicsEach::Auto);
    }
    value.parse().ok().filter(|number| (1..=NicsEach::MOST).contains(number)).map(NicsEach::Number)
}

fn gpu_use(value: &str) -> Option<GpuUse> {
    match value {
        "visible" => Some(GpuUse::Visible),
        "local-id" => Some(GpuUse::LocalId),
        _ => None,
    }
}

fn bind(value: &str) -> Option<Bind> {
    match value {
        "auto" => Some(Bind::Auto),
        "none" => Some(Bind::None),
        "numa" => Some(Bind::Numa),
        "core" => Some(Bind::Core),
        _ => None,
    }
}

fn mem(value: &str) -> Option<Mem> {
    match value {
        "none" => Some(Mem::None),
        "prefer" => Some(Mem::Prefer),
        "strict" => Some(Mem::Strict),
        _ => None,
    }
}

fn on_or_off(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

fn strictness(word: &str) -> Strictness {
    match word {
        "best-effort" => Strictness::BestEffort,
        "strict" => Strictness::Strict,
        "restricted" => Strictness::Restricted,
        _ => Strictness::SingleNumaNode,
    }
}

fn switch(word: &str) -> Switch {
    match word {
        "rail" => Switch::On(Policy::Rail),
        "spread" => Switch::On(Policy::Spread),
        "numa" => Switch::On(Policy::Numa),
        "all" => Switch::On(Policy::All),
        "off" => Switch::Off,
        _ => Switch::On(Policy::Closest),
    }
}

/// A user's text as a message may show it: short, and without what would move a terminal's cursor.
fn shown(text: &str) -> String {
    Shown::word(text, 40).to_string()
}
