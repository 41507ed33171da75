//! In srun, sbatch and salloc: which of several words is the nearest, a typo in the environment, told before anything is
//! queued, and a word to the node about what it cannot see.
//!
//! Slurm hands the option of sbatch and salloc to the sruns inside as if these had been given it (src/common/spank.c,
//! `spank_process_env_options`), so it would beat a variable that was set closer to them.
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

/// Variables that sbatch and salloc leave in the environment of the job: for srun, sbatch and salloc, and for the node
/// (src/common/spank.c, `_opt_env_name`; `_set_spank_env` of salloc.c and sbatch.c; the same from 22.05 to 26.05).
const LEFT: [&str; 2] = [
    "SLURM_SPANK__SLURM_SPANK_OPTION_nic_placement_nic_placement",
    "_SLURM_SPANK_OPTION_nic_placement_nic_placement",
];

/// The value of [`ENVIRONMENT`] when sbatch or salloc was given the option, which beat it.
const BEFORE: &str = "SLURM_NIC_PLACEMENT_BEFORE";

/// Before Slurm looks for the option: takes away what sbatch or salloc left, where the variable has been set since.
pub(crate) fn init() {
    let (before, set) = (variable(BEFORE), variable(ENVIRONMENT));
    if replaces_the_allocations(set.as_deref(), before.as_deref()) {
        LEFT.into_iter().for_each(unset);
    }
}

/// The option's own typo has ended the command already.  Slurm ignores the answer of an optional plugin here, so a typo in
/// the variable cannot: the job runs without placement, and the user knows why.
pub(crate) fn init_post_opt() {
    if let Some(Err(bad)) = words_of_variable() {
        log::error!("{ENVIRONMENT}: {bad}; ignored");
    }
}

/// In srun: tells a user that asks for placement that the admin has switched it off, and tells the nodes so.
///
/// What is wrong with the file here is the admin's matter, and the nodes have files of their own.
pub(crate) fn tell_the_user() {
    /// Slurm calls again for each component.
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    let environment = words_of_variable().and_then(Result::ok);
    let wish = Wish::new(
        Admin::default(),
        environment.as_ref(),
        option::value().as_ref(),
    );
    if !IS_TOLD.load(Ordering::Relaxed) {
        // that of an outer srun
        unset(ALREADY_REPORTED);
    }
    if !wish.places() || IS_TOLD.load(Ordering::Relaxed) {
        return;
    }
    let arguments = option::arguments();
    match admin::find(arguments.iter().map(String::as_str), || None, Author::Root).off {
        Some(why @ Off::Disabled(_)) => {
            IS_TOLD.store(true, Ordering::Relaxed);
            say(&format!("this step runs without placement: {why}"));
            set(ALREADY_REPORTED, "1");
        }
        Some(why) => log::debug!("{why}"),
        None => {}
    }
}

/// The option's words when each component of the command line was settled: Slurm then calls this process again.
static COMPONENTS: Mutex<Vec<Option<Words>>> = Mutex::new(Vec::new());

/// In srun: hands the nodes what holds for all components of a heterogeneous job, an `off` and a way of binding of any.
pub(crate) fn tell_the_components() {
    let mut settled = COMPONENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if begin_to_differ(&mut settled) {
        log::error!(
            "--{OPTION}: a job's components have one placement: the last words hold for all, and an `off` of any"
        );
    }
    if settled.len() == 1 {
        // that of an outer srun
        return unset(components::OFF);
    }
    if settled
        .iter()
        .flatten()
        .any(|words| words.policy == Some(Switch::Off))
    {
        set(components::OFF, "1");
    }
    let is_named = |(name, value): (OsString, OsString)| {
        cpu_bind::is_of_component(&name.to_string_lossy(), &value.to_string_lossy())
    };
    let line = cpu_bind::word_of_srun(&arguments(), variable(cpu_bind::READ_BY_SRUN).as_deref());
    let is_chosen = line == Some(cpu_bind::CHOSEN) || std::env::vars_os().any(is_named);
    set(
        cpu_bind::VARIABLE,
        if is_chosen {
            cpu_bind::CHOSEN
        } else {
            cpu_bind::UNNAMED
        },
    );
}

/// Notes the words of one more component; true if they are the first that differ from those before.
fn begin_to_differ(settled: &mut Vec<Option<Words>>) -> bool {
    let differed = differ(settled);
    settled.push(option::value());
    !differed && differ(settled)
}

/// In sbatch and salloc: says once that the steps inside get the same words, where the components have different ones.  A
/// batch script has those of the first component, the shell of salloc those of the last.
pub(crate) fn tell_of_components() {
    let mut settled = COMPONENTS.lock().unwrap_or_else(PoisonError::into_inner);
    if begin_to_differ(&mut settled) {
        log::error!(
            "--{OPTION}: the job's sruns do not see different words of its components: name them at each srun"
        );
    }
}

fn differ(settled: &[Option<Words>]) -> bool {
    let wish = |words: &Option<Words>| Wish::new(Admin::default(), None, words.as_ref());
    settled
        .windows(2)
        .any(|pair| wish(&pair[0]) != wish(&pair[1]))
}

fn arguments() -> Vec<String> {
    std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// In srun: tells the nodes whether the user named a way of binding.  The command line says it; what the node sees is
/// not always clear.
pub(crate) fn tell_the_node() {
    let told = cpu_bind::word_of_srun(&arguments(), variable(cpu_bind::READ_BY_SRUN).as_deref());
    let is_nobodys = told.is_none() && cpu_bind::is_of_an_outer_step(variable);
    if let Some(word) = told.or(is_nobodys.then_some(cpu_bind::UNNAMED)) {
        set(cpu_bind::VARIABLE, word);
    }
}

/// In sbatch and salloc: notes the variable's value for the sruns inside.
pub(crate) fn note_what_was_before() {
    if option::value().is_none() {
        return;
    }
    match variable(ENVIRONMENT).filter(|text| replaces_the_allocations(Some(text), None)) {
        Some(text) => set(BEFORE, &text),
        None => unset(BEFORE),
    }
}

fn words_of_variable() -> Option<Result<Words, BadWord>> {
    variable(ENVIRONMENT)
        .filter(|text| !text.is_empty())
        .map(|text| Words::parse(&text))
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn set(name: &str, value: &str) {
    change(name, Some(value));
}

fn unset(name: &str) {
    change(name, None);
}

fn change(name: &str, value: Option<&str>) {
    if let Err(error) = set_variable_before_threads(name, value) {
        log::debug!("{name}: {error}");
    }
}
