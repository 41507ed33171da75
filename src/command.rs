//! In srun, sbatch and salloc: which of several words is the nearest, a typo in the environment, told before anything is
//! queued, and a word to the node about what it cannot see.
//!
//! Slurm hands the option of sbatch and salloc to the sruns inside as if these had been given it (src/common/spank.c,
//! `spank_process_env_options`), so it would beat a variable that was set closer to them.
#![forbid(unsafe_code)]

use crate::log::say;
use crate::option;
use nic_placement_core::config::{
    ALREADY_REPORTED, BadWord, ENVIRONMENT, OPTION, Words, components, cpu_bind, merge_settings,
    replaces_the_allocations,
};
use nic_placement_core::discover::root::Author;
use nic_placement_process::admin::{self, Off};
use nic_placement_sys::set_variable_before_threads;
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
    let value = option::value();
    let option = value.as_ref().map(|(words, _)| words);
    let settings = merge_settings(&Words::default(), environment.as_ref(), option);
    if !IS_TOLD.load(Ordering::Relaxed) {
        // that of an outer srun
        unset(ALREADY_REPORTED);
    }
    if !settings.enabled || settings.observe || IS_TOLD.load(Ordering::Relaxed) {
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

/// The option's words when each component of the command line was settled: Slurm then calls this process again.  A
/// component that does not name the option has those of the one before it.
static COMPONENTS: Mutex<Vec<Option<(Words, String)>>> = Mutex::new(Vec::new());

/// In srun: hands the nodes the words of each component of a heterogeneous job.
pub(crate) fn tell_the_components() {
    let mut settled = COMPONENTS.lock().unwrap_or_else(PoisonError::into_inner);
    settled.push(option::value());
    if settled.len() == 1 {
        // that of an outer srun's step, whose components were others
        return unset(components::VARIABLE);
    }
    let arguments = arguments();
    let order = components::in_order(&arguments);
    let inside_an_ordinary_job = variable(components::JOB).is_some() && variable(components::SIZE).is_none();
    if inside_an_ordinary_job {
        if settled.len() == order.len() && differ(&settled) {
            log::error!(
                "--{OPTION}: components of a step inside one job cannot be told apart: the last words hold for all"
            );
        }
        return;
    }
    let texts = settled.iter().map(|value| value.as_ref().map(|(_, text)| text.clone())).collect();
    let Some(list) = components::list(&order, texts) else {
        if settled.len() == order.len() + 1 && differ(&settled) {
            log::error!(
                "--{OPTION}: the command line does not tell its components apart: the last words hold for all"
            );
        }
        return forget_the_components();
    };
    set(components::VARIABLE, &list);
    let binds = order.iter().map(|(number, part)| (*number, Some(bind_of(*number, part).to_string())));
    set(cpu_bind::VARIABLE, &components::write(binds));
}

/// Removes the words that an earlier call, with fewer components, set.
fn forget_the_components() {
    unset(components::VARIABLE);
    // one word is of the whole line
    if variable(cpu_bind::VARIABLE).is_some_and(|told| told.contains(':')) {
        unset(cpu_bind::VARIABLE);
    }
}

/// [`cpu_bind::CHOSEN`] if the user named a way of binding for one component (`SLURM_CPU_BIND_HET_GROUP_1`, of old
/// `…_PACK_GROUP_1`: src/srun/opt.c, `_opt_env`).
fn bind_of(component: u32, part: &[String]) -> &'static str {
    let of_it = |group: &str| format!("SLURM_CPU_BIND_{group}_GROUP_{component}");
    let variables = [cpu_bind::READ_BY_SRUN.to_string(), of_it("HET"), of_it("PACK")];
    let named =
        |name: &String| cpu_bind::word_of_srun(part, variable(name).as_deref()) == Some(cpu_bind::CHOSEN);
    if variables.iter().any(named) { cpu_bind::CHOSEN } else { cpu_bind::UNNAMED }
}

/// In sbatch and salloc: says once that the steps inside get the same words, where the components have different ones.  A
/// batch script has those of the first component, the shell of salloc those of the last.
pub(crate) fn tell_of_components() {
    let mut settled = COMPONENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let said = differ(&settled);
    settled.push(option::value());
    if !said && differ(&settled) {
        log::error!(
            "--{OPTION}: the job's sruns do not see different words of its components: name them at each srun"
        );
    }
}

fn differ(settled: &[Option<(Words, String)>]) -> bool {
    settled.windows(2).any(|pair| is_other(&pair[0], &pair[1]))
}

fn is_other(one: &Option<(Words, String)>, other: &Option<(Words, String)>) -> bool {
    let [one, other] = [one, other].map(|value| value.as_ref().map(|(words, _)| words));
    merge_settings(&Words::default(), None, one) != merge_settings(&Words::default(), None, other)
}

fn arguments() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
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
    variable(ENVIRONMENT).filter(|text| !text.is_empty()).map(|text| Words::parse(&text))
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
