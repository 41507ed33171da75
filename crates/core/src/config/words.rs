//! The words of `--nic-placement=`, `SLURM_NIC_PLACEMENT` and `default=`.

use super::options::{self, WORDS};
use crate::diagnostic::Shown;
use crate::libraries::wanted::is_variable_name;
use crate::wish::{Bind, GpuUse, Libraries, Mem, NicsEach, Policy, Strictness, Switch, Words};
use std::fmt;

const LISTS: &str = "`srun --nic-placement=help` and `nic-placement plan --help` list all";

/// Several times the bytes of all words.
const MAX_BYTES: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadWord {
    /// not in the option table; `Display` adds a suggestion
    Unknown(String),
    Misplaced(String),
}

impl fmt::Display for BadWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadWord::Unknown(word) => {
                let meant = options::suggestion(WORDS, word, LISTS);
                write!(f, "unknown word `{word}`{meant}")
            }
            BadWord::Misplaced(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for BadWord {}

fn not_both(first: &str, second: &str) -> BadWord {
    BadWord::Misplaced(format!(
        "`{first}` and `{second}` cannot both hold: say one"
    ))
}

impl Words {
    /// For an option without an argument Slurm passes NULL, empty text or, in steps of a batch job,
    /// `(null)` (spank.c, `_option_setenv`).
    pub fn parse(text: &str) -> Result<Words, BadWord> {
        let mut words = Words::default();
        let text = if text == "(null)" { "" } else { text };
        if text.len() > MAX_BYTES {
            let why = format!(
                "{} bytes of words: at most {MAX_BYTES} are read",
                text.len()
            );
            return Err(BadWord::Misplaced(why));
        }
        let mut list = None;
        for word in text
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
        {
            words.take(word, &mut list)?;
        }
        Ok(words)
    }

    /// Merges with `nearer`, which has precedence.
    #[must_use]
    pub fn overlaid(&self, nearer: &Words) -> Words {
        let (policy, observe) = match (nearer.policy, nearer.observe) {
            (None, false) => (self.policy, self.observe),
            // a nearer `observe` ends `off`
            (None, true) => (self.policy.filter(|policy| *policy != Switch::Off), true),
            said => said,
        };
        let env = if nearer.env.is_some() { nearer } else { self };
        let earlier = self.no_env.iter().filter(|_| !nearer.forgets_no_env);
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
            env: env.env,
            env_names: env.env_names.clone(),
            no_env: earlier.chain(&nearer.no_env).cloned().collect(),
            forgets_no_env: self.forgets_no_env || nearer.forgets_no_env,
        }
    }

    /// Parses a word: in `env=ucx,nccl` the word `nccl` extends the open `list`, `env`.
    fn take(&mut self, word: &str, list: &mut Option<&'static str>) -> Result<(), BadWord> {
        if !word.contains('=') && list.is_some_and(|list| self.extend_list(list, word).is_ok()) {
            return Ok(());
        }
        *list = None;
        let (name, value) = word
            .split_once('=')
            .map_or((word, None), |(name, value)| (name, Some(value)));
        let Some(spec) = WORDS.iter().find(|spec| spec.name == name) else {
            return Err(BadWord::Unknown(shown(name)));
        };
        let misfit = || {
            let (word, expected) = (shown(word), spec.spelling());
            BadWord::Misplaced(format!("`{word}` is not understood: expected `{expected}`"))
        };
        if value.is_some() == spec.value.is_empty() {
            return Err(misfit());
        }
        let value = value.unwrap_or_default();
        match spec.name {
            "help" => self.help = true,
            "verbose" => self.verbose = true,
            "dry-run" => self.dry_run = true,
            "observe" if self.policy == Some(Switch::Off) => {
                return Err(not_both("off", "observe"));
            }
            "observe" => self.observe = true,
            "off" if self.observe => return Err(not_both("observe", "off")),
            "nics-per-task" => self.nics_per_task = Some(nics_per_task(value).ok_or_else(misfit)?),
            "gpu" => self.gpu = Some(named(&GPU_USES, value).ok_or_else(misfit)?),
            "bind" => self.bind = Some(named(&BINDS, value).ok_or_else(misfit)?),
            "mem" => self.mem = Some(named(&MEMORIES, value).ok_or_else(misfit)?),
            "omp" => {
                self.omp = Some(named(&[("on", true), ("off", false)], value).ok_or_else(misfit)?)
            }
            "env" | "no-env" if value.is_empty() => return Err(misfit()),
            "env" | "no-env" => {
                *list = Some(spec.name);
                // the last `env=` replaces earlier ones
                if spec.name == "env" {
                    (self.env, self.env_names) = (Some(Libraries::NONE), Vec::new());
                }
                self.extend_list(spec.name, value)?;
            }
            name => {
                let [a, b, c, d, e] = Policy::ALL.map(|(name, on)| (name, Switch::On(on)));
                say_once(
                    &mut self.policy,
                    &[a, b, c, d, e, ("off", Switch::Off)],
                    name,
                )?;
                say_once(&mut self.strictness, &Strictness::ALL, name)?;
            }
        }
        Ok(())
    }

    fn extend_list(&mut self, list: &str, entries: &str) -> Result<(), BadWord> {
        let fits = |entry: &str| match list {
            "env" => Libraries::named(entry).is_some() || is_variable_name(entry),
            _ => entry == NO_VARIABLE || is_variable_name(entry.strip_suffix('*').unwrap_or(entry)),
        };
        if let Some(odd) = entries.split('+').find(|entry| !fits(entry)) {
            let expected = match list {
                "env" => format!(
                    "no library is called so; known: {}, or the name of a variable",
                    Libraries::words()
                ),
                _ => "expected the name of a variable that we set, or its beginning and `*`"
                    .to_string(),
            };
            return Err(BadWord::Misplaced(format!(
                "`{list}={}`: {expected}",
                shown(odd)
            )));
        }
        for entry in entries.split('+') {
            match (list, Libraries::named(entry)) {
                ("env", Some(more)) => {
                    self.env = Some(self.env.unwrap_or(Libraries::NONE).with(more))
                }
                ("env", None) => self.env_names.push(entry.to_string()),
                _ if entry == NO_VARIABLE => {
                    (self.no_env, self.forgets_no_env) = (Vec::new(), true)
                }
                _ => self.no_env.push(entry.to_string()),
            }
        }
        Ok(())
    }
}

/// Empties `no-env=`.
const NO_VARIABLE: &str = "none";

const GPU_USES: [(&str, GpuUse); 2] = [("visible", GpuUse::Visible), ("local-id", GpuUse::LocalId)];
const BINDS: [(&str, Bind); 4] = [
    ("auto", Bind::Auto),
    ("numa", Bind::Numa),
    ("core", Bind::Core),
    ("none", Bind::None),
];
const MEMORIES: [(&str, Mem); 3] = [
    ("prefer", Mem::Prefer),
    ("strict", Mem::Strict),
    ("none", Mem::None),
];

pub(super) fn named<T: Copy>(table: &[(&str, T)], word: &str) -> Option<T> {
    table
        .iter()
        .find(|(name, _)| *name == word)
        .map(|(_, meaning)| *meaning)
}

/// Stores the word's meaning if `table` has the word; fails if `said` already has another word's.
fn say_once<T: Copy + PartialEq>(
    said: &mut Option<T>,
    table: &[(&str, T)],
    word: &str,
) -> Result<(), BadWord> {
    let Some(meaning) = named(table, word) else {
        return Ok(());
    };
    let earlier = table
        .iter()
        .find(|(name, earlier)| Some(*earlier) == *said && *name != word);
    *said = Some(meaning);
    earlier.map_or(Ok(()), |(earlier, _)| Err(not_both(earlier, word)))
}

fn nics_per_task(value: &str) -> Option<NicsEach> {
    if value == "auto" {
        return Some(NicsEach::Auto);
    }
    value
        .parse()
        .ok()
        .filter(|number| (1..=NicsEach::MOST).contains(number))
        .map(NicsEach::Number)
}

/// The text, shortened and without characters that move a terminal's cursor.
fn shown(text: &str) -> String {
    Shown::word(text, 40).to_string()
}
