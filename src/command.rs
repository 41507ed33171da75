//! In srun, sbatch and salloc: which of several words is the nearest, a typo in the environment, told before anything is
//! queued, and a word to the node about what it cannot see.
//!
//! Slurm hands the option of sbatch and salloc to the sruns inside as if these had been given it (src/common/spank.c,
//! `spank_process_env_options`), so it would beat a variable that was set closer to them.
#![forbid(unsafe_code)]

use crate::option;
use nic_placement_core::config::{
    ENVIRONMENT, OPTION, Words, components, cpu_bind, replaces_the_allocations, settle,
};
use nic_placement_sys::{set_variable_before_threads, unset_variable_before_threads};
use std::sync::{Mutex, PoisonError};

/// What sbatch and salloc leave, in the environment of the job: for srun, sbatch and salloc, and for the node
/// (src/common/spank.c, `_opt_env_name`; `_set_spank_env` of salloc.c and sbatch.c; the same from 22.05 to 26.05).
const LEFT: [&str; 2] = [
    "SLURM_SPANK__SLURM_SPANK_OPTION_nic_placement_nic_placement",
    "_SLURM_SPANK_OPTION_nic_placement_nic_placement",
];

/// What [`ENVIRONMENT`] was when sbatch or salloc was given the option, which beat it.
const BEFORE: &str = "SLURM_NIC_PLACEMENT_BEFORE";

/// Before Slurm looks for the option: takes away what sbatch or salloc left, where the variable has been set since.
pub(crate) fn init() {
    let (before, set) = (variable(BEFORE), variable(ENVIRONMENT));
    if replaces_the_allocations(set.as_deref(), before.as_deref()) {
        for name in LEFT.into_iter().filter(|name| variable(name).is_some()) {
            report(name, unset_variable_before_threads(name));
        }
    }
}

/// The option's own typo has ended the command already.  Slurm ignores the answer of an optional plugin here, so a typo in
/// the variable cannot: the job runs without placement, and the user knows why.
pub(crate) fn init_post_opt() {
    let Some(text) = variable(ENVIRONMENT).filter(|text| !text.is_empty()) else { return };
    if let Err(bad) = Words::parse(&text) {
        log::error!("{ENVIRONMENT}: {bad}; ignored");
    }
}

/// What the option said when each component of the command line was settled: Slurm then calls this process again.  A
/// component that does not name the option has what the one before it had.
static COMPONENTS: Mutex<Vec<Option<(Words, String)>>> = Mutex::new(Vec::new());

/// In srun: hands the nodes the words of each component of a heterogeneous job.
pub(crate) fn tell_the_components() {
    let mut settled = COMPONENTS.lock().unwrap_or_else(PoisonError::into_inner);
    settled.push(option::value());
    if settled.len() == 1 {
        // that of an outer srun's step, whose components were others
        if variable(components::VARIABLE).is_some() {
            report(components::VARIABLE, unset_variable_before_threads(components::VARIABLE));
        }
        return;
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
    let texts = settled.iter().map(|value| value.as_ref().map(|(_, text)| text.clone()));
    let list = components::write(order.iter().map(|(number, _)| *number).zip(texts));
    report(components::VARIABLE, set_variable_before_threads(components::VARIABLE, &list));
    let binds = order.iter().map(|(number, part)| (*number, Some(bind_of(*number, part).to_string())));
    report(cpu_bind::VARIABLE, set_variable_before_threads(cpu_bind::VARIABLE, &components::write(binds)));
}

/// Whether the user named a way of binding for one component (`SLURM_CPU_BIND_HET_GROUP_1`: src/srun/opt.c, `_opt_env`).
fn bind_of(component: u32, part: &[String]) -> &'static str {
    let variables = ["SLURM_CPU_BIND".to_string(), format!("SLURM_CPU_BIND_HET_GROUP_{component}")];
    let named =
        |name: &String| cpu_bind::told_by_srun(part, variable(name).as_deref()) == Some(cpu_bind::CHOSEN);
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
    settle(&Words::default(), None, one) != settle(&Words::default(), None, other)
}

fn arguments() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// In srun: whether the user named a way of binding.  The command line says it; what the node sees is not always clear.
pub(crate) fn tell_the_node() {
    if let Some(word) = cpu_bind::told_by_srun(&arguments(), variable("SLURM_CPU_BIND").as_deref()) {
        report(cpu_bind::VARIABLE, set_variable_before_threads(cpu_bind::VARIABLE, word));
    }
}

/// In sbatch and salloc: notes for the sruns inside what the variable was.
pub(crate) fn note_what_was_before() {
    if option::value().is_none() {
        return;
    }
    let result = match variable(ENVIRONMENT).filter(|text| replaces_the_allocations(Some(text), None)) {
        Some(text) => set_variable_before_threads(BEFORE, &text),
        None => unset_variable_before_threads(BEFORE),
    };
    report(BEFORE, result);
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn report(name: &str, result: std::io::Result<()>) {
    if let Err(error) = result {
        log::debug!("{name}: {error}");
    }
}
