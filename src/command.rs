//! In srun, sbatch and salloc: chooses between `--nic-placement` and [`ENVIRONMENT`], reports typos
//! before the job is queued, and sets variables for the nodes.
//!
//! Slurm passes sbatch's or salloc's option to the job's sruns as their own (src/common/spank.c,
//! `spank_process_env_options`). Without `init` the option would override an [`ENVIRONMENT`] that
//! the script sets.
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
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// sbatch and salloc pass the option in these variables to sruns and to the node
/// (src/common/spank.c, `_opt_env_name`; `_set_spank_env` of salloc.c and sbatch.c; the same from
/// 22.05 to 26.05).
const LEFT: [&str; 2] = [
    "SLURM_SPANK__SLURM_SPANK_OPTION_nic_placement_nic_placement",
    "_SLURM_SPANK_OPTION_nic_placement_nic_placement",
];

/// Variable in which sbatch and salloc keep an [`ENVIRONMENT`] that their option overrides.
const BEFORE: &str = "SLURM_NIC_PLACEMENT_BEFORE";

/// Removes an outer sbatch's or salloc's option, before Slurm reads it, if [`ENVIRONMENT`] has
/// another valid value than at submission.
pub(crate) fn init() {
    let (before, now) = (variable(BEFORE), variable(ENVIRONMENT));
    if replaces_the_allocations(now.as_deref(), before.as_deref()) {
        LEFT.into_iter().for_each(|name| set(name, None));
    }
}

/// Reports a typo in [`ENVIRONMENT`], and a missing `=` after the option. The job still runs: Slurm
/// ignores an optional plugin's return value here. A typo in the option has already ended the
/// command.
pub(crate) fn init_post_opt() {
    if let Some(Err(bad)) = words_of_variable() {
        log::error!("{ENVIRONMENT}: {bad}; ignored");
    }
    // getopt_long(3) takes an optional value only after `=`: in `--nic-placement rail`, `rail` is
    // the program
    let is_bare = option::value() == Some(Words::default());
    for pair in arguments().windows(2) {
        let word = &pair[1];
        if is_bare && pair[0] == "--nic-placement" && Words::parse(word).is_ok() {
            say(&format!(
                "`{word}` is the program: did you mean `--{OPTION}={word}`?"
            ));
        }
    }
}

/// In srun: if the user asks for placement and the admin has disabled it, prints the reason and
/// sets [`ALREADY_REPORTED`], so that no node repeats it. Faults in this host's configuration are
/// debug lines, since nodes read their own.
pub(crate) fn tell_the_user() {
    /// Slurm calls the hook for each component of a heterogeneous job.
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    if IS_TOLD.load(Ordering::Relaxed) {
        return;
    }
    // removes an outer srun's value
    set(ALREADY_REPORTED, None);
    let environment = words_of_variable().and_then(Result::ok);
    let option = option::value();
    if !Wish::new(Admin::default(), environment.as_ref(), option.as_ref()).places() {
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

/// In srun: sets variables for the nodes, which do not see all srun options.
/// [`components::OFF`] means that a component of a heterogeneous job has `off`;
/// [`cpu_bind::VARIABLE`] describes the user's CPU binding.
pub(crate) fn tell_the_nodes() {
    let settled = with_this_component(
        "a job's components have one placement: the last words hold for all, and an `off` of any",
    );
    let are_several = settled.len() > 1;
    let mut words = settled.iter().flatten();
    let is_off = are_several && words.any(|words| words.policy == Some(Switch::Off));
    // `None` removes an outer srun's value
    set(components::OFF, is_off.then_some("1"));
    let word = cpu_bind::word_of_srun(&arguments(), are_several, variable);
    set(cpu_bind::VARIABLE, word);
}

/// In sbatch and salloc: reports once if components of a heterogeneous job have different words. A
/// batch script's sruns inherit the first component's words, salloc's shell the last's.
pub(crate) fn tell_of_components() {
    with_this_component(
        "the job's sruns do not see different words of its components: name them at each srun",
    );
}

/// Adds this component's words and returns all components' words so far; logs `problem` when two
/// components first differ.
fn with_this_component(problem: &str) -> Vec<Option<Words>> {
    static COMPONENTS: Mutex<Vec<Option<Words>>> = Mutex::new(Vec::new());
    let mut settled = option::locked(&COMPONENTS);
    let differed = differ(&settled);
    settled.push(option::value());
    if !differed && differ(&settled) {
        log::error!("--{OPTION}: {problem}");
    }
    settled.clone()
}

fn differ(settled: &[Option<Words>]) -> bool {
    let wish = |words: &Option<Words>| Wish::new(Admin::default(), None, words.as_ref());
    settled
        .windows(2)
        .any(|pair| wish(&pair[0]) != wish(&pair[1]))
}

fn arguments() -> Vec<String> {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    words.collect()
}

/// In sbatch and salloc, if our option is given: copies [`ENVIRONMENT`] to [`BEFORE`] if valid.
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
