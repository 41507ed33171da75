//! In srun, sbatch and salloc: chooses between option and variable, reports typos before the job is
//! queued, and sets variables for the nodes.
//!
//! Slurm gives sruns the option of their sbatch or salloc as their own (src/common/spank.c,
//! `spank_process_env_options`), so it would beat a variable that was set later.
#![forbid(unsafe_code)]

use crate::log::say;
use crate::option;
use nic_placement_core::config::{
    ALREADY_REPORTED, Admin, BadWord, ENVIRONMENT, OPTION, Words, components, cpu_bind,
    replaces_the_allocations,
};
use nic_placement_core::wish::{Switch, Wish};
use nic_placement_node::discover::root::Author;
use nic_placement_process::admin::{self, Off};
use nic_placement_sys::set_variable_before_threads;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Variables in which sbatch and salloc hand on the option, to sruns and to the node
/// (src/common/spank.c, `_opt_env_name`; `_set_spank_env` of salloc.c and sbatch.c; the same from
/// 22.05 to 26.05).
const LEFT: [&str; 2] = [
    "SLURM_SPANK__SLURM_SPANK_OPTION_nic_placement_nic_placement",
    "_SLURM_SPANK_OPTION_nic_placement_nic_placement",
];

/// The value of [`ENVIRONMENT`] when the option of sbatch or salloc beat it.
const BEFORE: &str = "SLURM_NIC_PLACEMENT_BEFORE";

/// Before Slurm reads the option: removes sbatch's or salloc's, if the variable was set since.
pub(crate) fn init() {
    let (before, now) = (variable(BEFORE), variable(ENVIRONMENT));
    if replaces_the_allocations(now.as_deref(), before.as_deref()) {
        LEFT.into_iter().for_each(|name| set(name, None));
    }
}

/// Reports a typo in the variable; one in the option has ended the command already. Slurm ignores
/// an optional plugin's return value here, so the job runs without placement.
pub(crate) fn init_post_opt() {
    if let Some(Err(bad)) = words_of_variable() {
        log::error!("{ENVIRONMENT}: {bad}; ignored");
    }
}

/// In srun: if the admin has disabled placement, tells the nodes, and a user that asks for it.
/// Faults in this host's file are not shown: nodes read their own.
pub(crate) fn tell_the_user() {
    /// Slurm calls again for each component of a heterogeneous job.
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    let environment = words_of_variable().and_then(Result::ok);
    let wish = Wish::new(
        Admin::default(),
        environment.as_ref(),
        option::value().as_ref(),
    );
    let is_told = IS_TOLD.load(Ordering::Relaxed);
    if !is_told {
        // an outer srun's
        set(ALREADY_REPORTED, None);
    }
    if is_told || !wish.places() {
        return;
    }
    let arguments = option::arguments();
    match admin::find(arguments.iter().map(String::as_str), || None, Author::Root).off {
        Some(why @ Off::Disabled(_)) => {
            IS_TOLD.store(true, Ordering::Relaxed);
            say(&format!("this step runs without placement: {why}"));
            set(ALREADY_REPORTED, Some("1"));
        }
        Some(why) => log::debug!("{why}"),
        None => {}
    }
}

/// The option's words by component.
static COMPONENTS: Mutex<Vec<Option<Words>>> = Mutex::new(Vec::new());

/// In srun: sets variables for all nodes if any component has `off`, or names `--cpu-bind`.
pub(crate) fn tell_the_components() {
    let mut settled = COMPONENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if begin_to_differ(&mut settled) {
        log::error!(
            "--{OPTION}: a job's components have one placement: the last words hold for all, and an `off` of any"
        );
    }
    if settled.len() == 1 {
        // an outer srun's
        return set(components::OFF, None);
    }
    if settled
        .iter()
        .flatten()
        .any(|words| words.policy == Some(Switch::Off))
    {
        set(components::OFF, Some("1"));
    }
    let is_named = |(name, value): (OsString, OsString)| {
        cpu_bind::is_of_component(&name.to_string_lossy(), &value.to_string_lossy())
    };
    let is_chosen = word_of_srun() == Some(cpu_bind::CHOSEN) || std::env::vars_os().any(is_named);
    let word = if is_chosen {
        cpu_bind::CHOSEN
    } else {
        cpu_bind::UNNAMED
    };
    set(cpu_bind::VARIABLE, Some(word));
}

/// In sbatch and salloc: reports once that components have different words. A batch script's sruns
/// inherit the first component's, salloc's shell the last's.
pub(crate) fn tell_of_components() {
    let mut settled = COMPONENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if begin_to_differ(&mut settled) {
        log::error!(
            "--{OPTION}: the job's sruns do not see different words of its components: name them at each srun"
        );
    }
}

/// Adds a component's words; true if they are the first to differ.
fn begin_to_differ(settled: &mut Vec<Option<Words>>) -> bool {
    let differed = differ(settled);
    settled.push(option::value());
    !differed && differ(settled)
}

fn differ(settled: &[Option<Words>]) -> bool {
    let wish = |words: &Option<Words>| Wish::new(Admin::default(), None, words.as_ref());
    settled
        .windows(2)
        .any(|pair| wish(&pair[0]) != wish(&pair[1]))
}

fn word_of_srun() -> Option<&'static str> {
    let arguments: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    cpu_bind::word_of_srun(&arguments, variable(cpu_bind::READ_BY_SRUN).as_deref())
}

/// In srun: tells the nodes whether the user named `--cpu-bind`, which they cannot always see.
pub(crate) fn tell_the_node() {
    let told = word_of_srun();
    let is_nobodys = told.is_none() && cpu_bind::is_of_an_outer_step(variable);
    if let Some(word) = told.or(is_nobodys.then_some(cpu_bind::UNNAMED)) {
        set(cpu_bind::VARIABLE, Some(word));
    }
}

/// In sbatch and salloc: keeps the variable's value for the sruns inside.
pub(crate) fn note_what_was_before() {
    if option::value().is_none() {
        return;
    }
    let text = variable(ENVIRONMENT).filter(|text| replaces_the_allocations(Some(text), None));
    set(BEFORE, text.as_deref());
}

fn words_of_variable() -> Option<Result<Words, BadWord>> {
    variable(ENVIRONMENT)
        .filter(|text| !text.is_empty())
        .map(|text| Words::parse(&text))
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn set(name: &str, value: Option<&str>) {
    if let Err(error) = set_variable_before_threads(name, value) {
        log::debug!("{name}: {error}");
    }
}
