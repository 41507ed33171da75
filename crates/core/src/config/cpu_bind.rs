//! srun's CPU binding: distinguishes the user's `--cpu-bind` from a binding that srun derives.
//!
//! srun derives `SLURM_CPU_BIND_TYPE` from the options below (src/common/slurm_opt.c,
//! `verify_hint`; src/srun/libsrun/opt.c). Half of the sites have `--hint=nomultithread` in their
//! templates; the hint chooses no CPUs. A moved task keeps its hint: the step's masks, which bound
//! the move, have one thread of each core.
//!
//! Slurm 22.05.8, 24.11.5 and 26.05.2 set these variables on the node
//! (`tests/end_to_end/cases_hint.rs`). On 22.05 `SLURM_CPU_BIND_LIST` is the text of `--cpu-bind`,
//! and empty without that option.
//!
//! ```text
//! srun                                TYPE            other variables
//! --cpu-bind=cores|threads|sockets    cores|…
//! --cpu-bind=none, map_cpu:…          none, map_cpu:
//! --cpu-bind=verbose                  (empty)
//! --hint=nomultithread                threads         SLURM_THREADS_PER_CORE=1
//! --hint=compute_bound, memory_bound  cores           SLURM_THREADS_PER_CORE=1
//! --hint=multithread                  threads         SLURM_NTASKS_PER_CORE=65535
//! --threads-per-core=1, -B S:C:T      threads         SLURM_THREADS_PER_CORE
//! --ntasks-per-core=1                 cores           SLURM_NTASKS_PER_CORE
//! --ntasks-per-socket=2               sockets         SLURM_NTASKS_PER_SOCKET
//! -B 2                                sockets         none
//! ```
//!
//! After 22.05 `--cpu-bind=threads --threads-per-core=1` gives the variables of a hint, and `-B 2`
//! looks like a choice. Only srun has the command line, so the plugin in srun sends [`VARIABLE`].

use crate::topology::CpuSet;

/// The plugin in srun sets `chosen`, `implied` or `unnamed`; no task sees the variable.
pub const VARIABLE: &str = "SLURM_NIC_PLACEMENT_CPU_BIND";
/// The user named a binding.
pub const CHOSEN: &str = "chosen";
/// The user named no binding; srun derived one.
const IMPLIED: &str = "implied";
/// The user named no binding. The variables come from an outer step, or from an earlier component
/// of a heterogeneous job, since srun leaves them in its environment (src/srun/srun_job.c,
/// `setup_one_job_env`).
pub const UNNAMED: &str = "unnamed";

/// The type of binding: slurmstepd has srun's value, a task has slurmd's.
pub const TYPE: &str = "SLURM_CPU_BIND_TYPE";
/// The masks or CPUs of [`TYPE`].
pub const LIST: &str = "SLURM_CPU_BIND_LIST";

/// srun's input variable for `--cpu-bind`.
pub const READ_BY_SRUN: &str = "SLURM_CPU_BIND";

/// The variables of [`chosen`]: slurmstepd has srun's values, a task has slurmd's.
pub const READ: [&str; 6] = [
    TYPE,
    LIST,
    "SLURM_THREADS_PER_CORE",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_NTASKS_PER_SOCKET",
    VARIABLE,
];

/// The [`TYPE`] that the user chose; `None` if unset, or derived by srun.
pub fn chosen(read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let set = |name: &str| read(name).filter(|value| !value.is_empty());
    let word = set(VARIABLE);
    let how = set(TYPE).filter(|_| word.as_deref() != Some(UNNAMED))?;
    let of_hints: &[&str] = match how.as_str() {
        "threads" | "cores" => &["SLURM_THREADS_PER_CORE", "SLURM_NTASKS_PER_CORE"],
        "sockets" => &["SLURM_NTASKS_PER_SOCKET"],
        // srun never derives maps, masks, `none` or `ldoms`
        _ => return Some(how),
    };
    let is_hint = match word.as_deref() {
        Some(CHOSEN) => false,
        Some(IMPLIED) => true,
        _ => set(LIST).is_none() && of_hints.iter().any(|name| set(name).is_some()),
    };
    (!is_hint).then_some(how)
}

/// The masks of all the step's tasks on this node: slurmd lists them in each task that it bound.
pub fn masks<'v>(read: impl Fn(&str) -> Option<&'v str>) -> Vec<CpuSet> {
    let how = read(TYPE).unwrap_or_default();
    let mask = |text: &str| match how {
        how if how.starts_with("mask_cpu") => CpuSet::from_mask(text).ok(),
        how if how.starts_with("map_cpu") => CpuSet::from_list(text).ok(),
        _ => None,
    };
    let masks = read(LIST).unwrap_or_default().split(',').map(mask);
    // a bad entry may be this task's, so it voids the list
    masks.collect::<Option<_>>().unwrap_or_default()
}

/// [`VARIABLE`]'s value by srun's arguments and `SLURM_CPU_BIND`; `None` if the node's variables
/// suffice.
///
/// The program's arguments count as srun's: a false match costs a move, but hides no choice.
pub fn word_of_srun(arguments: &[String], variable: Option<&str>) -> Option<&'static str> {
    let mut named = variable.is_some_and(names_a_way);
    let mut counts_nodes = false;
    for (name, value) in options(arguments) {
        if is_option(name, "--cpu-bind", "--cpu-b") || is_option(name, "--cpu_bind", "--cpu_b") {
            named |= names_a_way(value);
        }
        counts_nodes |= name.starts_with("-B") || is_option(name, "--extra-node-info", "--ext");
    }
    match (named, counts_nodes) {
        (true, _) => Some(CHOSEN),
        (false, true) => Some(IMPLIED),
        (false, false) => None,
    }
}

/// True if srun's variable carries a component's `--cpu-bind` that names a binding (src/srun/opt.c,
/// `_opt_env`).
pub fn is_of_component(name: &str, value: &str) -> bool {
    let groups = ["SLURM_CPU_BIND_HET_GROUP_", "SLURM_CPU_BIND_PACK_GROUP_"];
    groups.iter().any(|group| name.starts_with(group)) && names_a_way(value)
}

/// True if the binding in srun's environment comes from an outer step.
///
/// slurmd sets several variables in a task; an inner srun reads only `SLURM_CPU_BIND`. If that is
/// unset, srun passes the rest on (src/common/env.c, `setup_env`), though the user chose nothing.
pub fn is_of_an_outer_step(read: impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name: &str| read(name).is_some_and(|value| !value.is_empty());
    is_set(TYPE) && !is_set(READ_BY_SRUN)
}

/// Splits `--name=value`; pairs any other argument with the next one as its value.
fn options(arguments: &[String]) -> impl Iterator<Item = (&str, &str)> {
    (1..).zip(arguments).map(|(next, argument)| {
        let next = arguments.get(next).map_or("", String::as_str);
        argument.split_once('=').unwrap_or((argument, next))
    })
}

/// True for `full` and its prefixes down to `least`, the shortest that getopt_long(3) accepts.
fn is_option(name: &str, full: &str, least: &str) -> bool {
    full.starts_with(name) && name.len() >= least.len()
}

/// True if `--cpu-bind`'s list has more than `verbose`, `quiet` and `help`.
fn names_a_way(list: &str) -> bool {
    list.split(',')
        .any(|word| !matches!(word, "" | "q" | "quiet" | "v" | "verbose" | "help"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_the_user_named_is_a_choice_and_hints_and_thread_counts_are_none() {
        for row in [
            "cores | TYPE=cores LIST=cores",
            "cores | TYPE=cores LIST=",
            "sockets | TYPE=sockets LIST=",
            "threads | TYPE=threads LIST=threads THREADS_PER_CORE=1",
            "threads | TYPE=threads LIST= THREADS_PER_CORE=1 TOLD=chosen",
            "none | TYPE=none LIST=",
            "ldoms | TYPE=ldoms LIST= THREADS_PER_CORE=1",
            "map_cpu: | TYPE=map_cpu: LIST=0,1",
            "mask_cpu: | TYPE=mask_cpu: LIST=0x1 TOLD=implied",
            " | TYPE=threads LIST= THREADS_PER_CORE=1",
            " | TYPE=cores LIST= THREADS_PER_CORE=1",
            " | TYPE=threads LIST= NTASKS_PER_CORE=65535",
            " | TYPE=cores LIST= NTASKS_PER_CORE=1",
            " | TYPE=sockets LIST= NTASKS_PER_SOCKET=2",
            " | TYPE=sockets LIST= TOLD=implied",
            " | TYPE= LIST=verbose",
            " | TYPE=none TOLD=unnamed",
            " | TYPE=cores LIST=cores TOLD=unnamed",
            " | ",
        ] {
            let (expected, variables) = row.split_once(" | ").unwrap();
            let found = chosen(|name| {
                let short = match name {
                    TYPE => "TYPE",
                    LIST => "LIST",
                    VARIABLE => "TOLD",
                    other => other.trim_start_matches("SLURM_"),
                };
                let mut pairs = variables.split(' ').filter_map(|word| word.split_once('='));
                pairs
                    .find(|(known, _)| *known == short)
                    .map(|(_, value)| value.to_string())
            });
            assert_eq!(found.unwrap_or_default(), expected, "{variables}");
        }
    }

    #[test]
    fn srun_tells_what_its_command_line_says_and_the_node_cannot_see() {
        for (line, variable, expected) in [
            ("-n8 ./a", None, None),
            ("--hint=nomultithread ./a", None, None),
            ("--cpu-bind=cores ./a", None, Some(CHOSEN)),
            ("--cpu-bind cores ./a", None, Some(CHOSEN)),
            (
                "--cpu-b=threads --threads-per-core=1 ./a",
                None,
                Some(CHOSEN),
            ),
            ("--cpu_bind=none ./a", None, Some(CHOSEN)),
            // it asks to read, and not to bind
            ("--cpu-bind=verbose ./a", None, None),
            ("--cpu-bind=v,cores ./a", None, Some(CHOSEN)),
            ("./a", Some("quiet,mask_cpu:0x1"), Some(CHOSEN)),
            ("./a", Some("verbose"), None),
            ("-B 2 ./a", None, Some(IMPLIED)),
            ("--extra-node-info=2:2 ./a", None, Some(IMPLIED)),
            ("-B2:2:1 --cpu-bind=sockets ./a", None, Some(CHOSEN)),
            ("--cpu-freq=high --cpus-per-task=4 ./a", None, None),
            ("", None, None),
        ] {
            let words = format!("srun {line}");
            let words: Vec<String> = words.split_whitespace().map(str::to_string).collect();
            let found = word_of_srun(&words, variable);
            assert_eq!(found, expected, "{line} {variable:?}");
        }
    }

    #[test]
    fn a_components_variable_counts_where_it_names_a_binding() {
        for (name, value, expected) in [
            ("SLURM_CPU_BIND_HET_GROUP_1", "cores", true),
            ("SLURM_CPU_BIND_PACK_GROUP_0", "quiet,map_cpu:0", true),
            ("SLURM_CPU_BIND_HET_GROUP_1", "verbose", false),
            ("SLURM_CPU_BIND", "cores", false),
        ] {
            assert_eq!(is_of_component(name, value), expected, "{name}={value}");
        }
    }

    #[test]
    fn the_tasks_masks_are_those_that_slurmd_lists_and_none_where_a_part_is_not_understood() {
        for (how, list, expected) in [
            ("mask_cpu:", "0x3,0x30,0x300", &["0-1", "4-5", "8-9"][..]),
            ("map_cpu:", "0,12", &["0", "12"]),
            ("mask_cpu:", "0x3,none", &[]),
            ("mask_cpu:", "", &[]),
            ("map_cpu:", "0,all", &[]),
            ("threads", "0,1", &[]),
            ("none", "0x1", &[]),
            ("", "0x1", &[]),
            ("", "", &[]),
        ] {
            let found = masks(|name| {
                [(TYPE, how), (LIST, list)]
                    .into_iter()
                    .find(|of| of.0 == name)
                    .map(|of| of.1)
            });
            let found: Vec<String> = found.iter().map(CpuSet::to_string).collect();
            assert_eq!(found, expected, "`{how}{list}`");
        }
        assert_eq!(masks(|_| None::<&str>), []);
    }

    #[test]
    fn a_binding_is_an_outer_steps_where_srun_does_not_read_it() {
        let bound = Some("mask_cpu:");
        for (how, read_by_srun, is_outer) in [
            // after `unset SLURM_CPU_BIND`
            (bound, None, true),
            (bound, Some(""), true),
            // srun binds this step so too
            (bound, Some("quiet,mask_cpu:0x3"), false),
            // there is no outer step
            (None, None, false),
            (Some(""), None, false),
            (None, Some("cores"), false),
        ] {
            let found = is_of_an_outer_step(|name| match name {
                TYPE => how.map(str::to_string),
                READ_BY_SRUN => read_by_srun.map(str::to_string),
                _ => None,
            });
            assert_eq!(found, is_outer, "{how:?} {read_by_srun:?}");
        }
    }
}
