//! The user's own way of binding CPUs, apart from a number of threads that each core shall have.
//!
//! srun turns `--hint`, `--threads-per-core`, `--ntasks-per-core`, `--ntasks-per-socket` and `-B` into a
//! `SLURM_CPU_BIND_TYPE` of its own (src/common/slurm_opt.c, `verify_hint`; src/srun/libsrun/opt.c): half of the sites
//! have `--hint=nomultithread` in their templates, and none of them chose CPUs by it.  Such a hint still holds after a
//! task is moved, since it moves only to CPUs that are in its step's masks, and these have one thread of a core each.
//!
//! What the node sees, on Slurm 22.05.8, 24.11.5 and 26.05.2 (`tests/end_to_end/cases_hint.rs`):
//!
//! ```text
//! srun                                  TYPE             LIST on 22.05   beside it
//! --cpu-bind=cores|threads|sockets      cores|…          the user's text
//! --cpu-bind=none, map_cpu:…            none, map_cpu:
//! --cpu-bind=verbose                    (empty)
//! --hint=nomultithread                  threads          (empty)         SLURM_THREADS_PER_CORE=1
//! --hint=compute_bound, memory_bound    cores            (empty)         SLURM_THREADS_PER_CORE=1
//! --hint=multithread                    threads          (empty)         SLURM_NTASKS_PER_CORE=65535
//! --threads-per-core=1, -B S:C:T        threads          (empty)         SLURM_THREADS_PER_CORE
//! --ntasks-per-core=1                   cores            (empty)         SLURM_NTASKS_PER_CORE
//! --ntasks-per-socket=2                 sockets          (empty)         SLURM_NTASKS_PER_SOCKET
//! -B 2                                  sockets          (empty)         nothing
//! ```
//!
//! `--cpu-bind=threads --threads-per-core=1` looks like a hint after 22.05, and `-B 2` like a choice: only srun's own
//! process can tell, which sees the command line, and hands the node one word ([`VARIABLE`]).
#![forbid(unsafe_code)]

use crate::topology::CpuSet;

/// The variable by which srun's process hands the node its word; each task's hook removes it.
pub const VARIABLE: &str = "SLURM_NIC_PLACEMENT_CPU_BIND";
/// the user named a way of binding
pub const CHOSEN: &str = "chosen";
/// the user named none
const IMPLIED: &str = "implied";
/// the user chose no binding, and the step's variables come from another step: an earlier component of a heterogeneous
/// job, for which srun sets them in its own environment (src/srun/srun_job.c, `setup_one_job_env`), or an outer step
pub const UNNAMED: &str = "unnamed";

/// slurmd's way of binding, and what srun asked for
pub const TYPE: &str = "SLURM_CPU_BIND_TYPE";
/// the masks or CPUs that go with it
pub const LIST: &str = "SLURM_CPU_BIND_LIST";

/// what srun takes for the user's own way
pub const READ_BY_SRUN: &str = "SLURM_CPU_BIND";

/// Variables of the step that [`chosen`] reads, in slurmstepd's parent, before slurmd's own values take their place.
pub const READ: [&str; 6] = [
    TYPE,
    LIST,
    "SLURM_THREADS_PER_CORE",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_NTASKS_PER_SOCKET",
    VARIABLE,
];

/// The user's own way of binding, as messages name it; `None` where the user chose none.
pub fn chosen(read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let set = |name: &str| read(name).filter(|value| !value.is_empty());
    let word = set(VARIABLE);
    let how = set(TYPE).filter(|_| word.as_deref() != Some(UNNAMED))?;
    let of_hints: &[&str] = match how.as_str() {
        "threads" | "cores" => &["SLURM_THREADS_PER_CORE", "SLURM_NTASKS_PER_CORE"],
        "sockets" => &["SLURM_NTASKS_PER_SOCKET"],
        // a list, a mask, `none`, `ldoms`: no hint is turned into these
        _ => return Some(how),
    };
    let is_hint = match word.as_deref() {
        Some(CHOSEN) => false,
        Some(IMPLIED) => true,
        _ if set(LIST).is_some() => false,
        _ => of_hints.iter().any(|name| set(name).is_some()),
    };
    (!is_hint).then_some(how)
}

/// The masks of the step's tasks on this node, as slurmd lists them in a task's environment where it bound them.
pub fn masks<'v>(read: impl Fn(&str) -> Option<&'v str>) -> Vec<CpuSet> {
    let list = read(LIST).unwrap_or_default().split(',');
    let masks: Option<Vec<CpuSet>> = match read(TYPE).unwrap_or_default() {
        how if how.starts_with("mask_cpu") => {
            list.map(|mask| CpuSet::from_mask(mask).ok()).collect()
        }
        how if how.starts_with("map_cpu") => list.map(|cpu| CpuSet::from_list(cpu).ok()).collect(),
        _ => None,
    };
    // a list that is understood in part gives no mask: a task's own may be missing
    masks.unwrap_or_default()
}

/// The word that srun's process hands the node, by its command line and environment; `None` where the node sees as much.
///
/// A program's own arguments are taken for srun's: that can cost a task its move, and never the user's choice.
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

/// True for a variable by which srun reads a way of binding for one component, and that names one (src/srun/opt.c, `_opt_env`).
pub fn is_of_component(name: &str, value: &str) -> bool {
    let groups = ["SLURM_CPU_BIND_HET_GROUP_", "SLURM_CPU_BIND_PACK_GROUP_"];
    groups.iter().any(|group| name.starts_with(group)) && names_a_way(value)
}

/// True if the binding in srun's environment is an outer step's, not the user's choice for this one.
///
/// slurmd writes a task's binding into variables, of which an inner srun reads `SLURM_CPU_BIND` alone.  srun rewrites
/// the others if it is given a binding, and else passes them on (src/common/env.c, `setup_env`).  So without
/// `SLURM_CPU_BIND` they are not the user's choice.
pub fn is_of_an_outer_step(read: impl Fn(&str) -> Option<String>) -> bool {
    let is_set = |name: &str| read(name).is_some_and(|value| !value.is_empty());
    is_set(TYPE) && !is_set(READ_BY_SRUN)
}

/// The arguments as options, each with what follows `=`, or with the next argument.
fn options(arguments: &[String]) -> impl Iterator<Item = (&str, &str)> {
    arguments.iter().enumerate().map(|(place, argument)| {
        let next = || arguments.get(place + 1).map_or("", String::as_str);
        argument
            .split_once('=')
            .unwrap_or_else(|| (argument, next()))
    })
}

/// True for `full` and its prefixes from `least` on, the shortest prefix that no other option has.
///
/// getopt_long(3) knows an option by any beginning that no other has.
fn is_option(name: &str, full: &str, least: &str) -> bool {
    full.starts_with(name) && name.len() >= least.len()
}

/// True if `--cpu-bind`'s list names a way of binding, not messages alone.
fn names_a_way(list: &str) -> bool {
    list.split(',')
        .any(|word| !matches!(word, "" | "q" | "quiet" | "v" | "verbose" | "help"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen_of(variables: &str) -> Option<String> {
        let pairs: Vec<(&str, &str)> = variables
            .split(' ')
            .filter_map(|word| word.split_once('='))
            .collect();
        let named = |name: &str| match name {
            "SLURM_CPU_BIND_TYPE" => "TYPE".to_string(),
            "SLURM_CPU_BIND_LIST" => "LIST".to_string(),
            VARIABLE => "TOLD".to_string(),
            other => other.trim_start_matches("SLURM_").to_string(),
        };
        chosen(|name| {
            pairs
                .iter()
                .find(|(known, _)| *known == named(name))
                .map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn hints_and_thread_counts_choose_no_cpus() {
        for hint in [
            "TYPE=threads LIST= THREADS_PER_CORE=1",
            "TYPE=cores LIST= THREADS_PER_CORE=1",
            "TYPE=threads LIST= NTASKS_PER_CORE=65535",
            "TYPE=cores LIST= NTASKS_PER_CORE=1",
            "TYPE=sockets LIST= NTASKS_PER_SOCKET=2",
            "TYPE=sockets LIST= TOLD=implied",
            "TYPE= LIST=verbose",
            "TYPE=none TOLD=unnamed",
            "TYPE=cores LIST=cores TOLD=unnamed",
            "",
        ] {
            assert_eq!(chosen_of(hint), None, "{hint}");
        }
    }

    #[test]
    fn a_way_that_the_user_named_is_a_choice_whatever_stands_beside_it() {
        for (choice, how) in [
            ("TYPE=cores LIST=cores", "cores"),
            ("TYPE=cores LIST=", "cores"),
            ("TYPE=sockets LIST=", "sockets"),
            ("TYPE=threads LIST=threads THREADS_PER_CORE=1", "threads"),
            (
                "TYPE=threads LIST= THREADS_PER_CORE=1 TOLD=chosen",
                "threads",
            ),
            ("TYPE=none LIST=", "none"),
            ("TYPE=ldoms LIST= THREADS_PER_CORE=1", "ldoms"),
            ("TYPE=map_cpu: LIST=0,1", "map_cpu:"),
            ("TYPE=mask_cpu: LIST=0x1 TOLD=implied", "mask_cpu:"),
        ] {
            assert_eq!(chosen_of(choice).as_deref(), Some(how), "{choice}");
        }
    }

    #[test]
    fn srun_tells_what_its_command_line_says_and_the_node_cannot_see() {
        let told = |line: &str, variable: Option<&str>| {
            let words: Vec<String> = line.split(' ').map(str::to_string).collect();
            word_of_srun(&words, variable)
        };
        assert_eq!(told("srun -n8 ./a", None), None);
        assert_eq!(told("srun --hint=nomultithread ./a", None), None);
        assert_eq!(told("srun --cpu-bind=cores ./a", None), Some(CHOSEN));
        assert_eq!(told("srun --cpu-bind cores ./a", None), Some(CHOSEN));
        assert_eq!(
            told("srun --cpu-b=threads --threads-per-core=1 ./a", None),
            Some(CHOSEN)
        );
        assert_eq!(told("srun --cpu_bind=none ./a", None), Some(CHOSEN));
        assert_eq!(
            told("srun --cpu-bind=verbose ./a", None),
            None,
            "it asks to read, and not to bind"
        );
        assert_eq!(told("srun --cpu-bind=v,cores ./a", None), Some(CHOSEN));
        assert_eq!(told("srun ./a", Some("quiet,mask_cpu:0x1")), Some(CHOSEN));
        assert_eq!(told("srun ./a", Some("verbose")), None);
        assert_eq!(told("srun -B 2 ./a", None), Some(IMPLIED));
        assert_eq!(told("srun --extra-node-info=2:2 ./a", None), Some(IMPLIED));
        assert_eq!(
            told("srun -B2:2:1 --cpu-bind=sockets ./a", None),
            Some(CHOSEN)
        );
        assert_eq!(
            told("srun --cpu-freq=high --cpus-per-task=4 ./a", None),
            None
        );
        assert_eq!(told("srun", None), None);
    }

    #[test]
    fn the_tasks_masks_are_those_that_slurmd_lists_and_a_list_that_is_understood_in_part_tells_of_nobody()
     {
        let masks = |how: &'static str, list: &'static str| -> Vec<String> {
            let read = |name: &str| match name {
                TYPE => Some(how),
                LIST => Some(list),
                _ => None,
            };
            masks(read).iter().map(CpuSet::to_string).collect()
        };
        assert_eq!(masks("mask_cpu:", "0x3,0x30,0x300"), ["0-1", "4-5", "8-9"]);
        assert_eq!(masks("map_cpu:", "0,12"), ["0", "12"]);
        for (how, list) in [
            ("mask_cpu:", "0x3,none"),
            ("mask_cpu:", ""),
            ("map_cpu:", "0,all"),
            ("threads", "0,1"),
            ("none", "0x1"),
            ("", "0x1"),
            ("", ""),
        ] {
            assert_eq!(masks(how, list), [""; 0], "`{how}{list}`");
        }
        assert_eq!(super::masks(|_| None), []);
    }

    #[test]
    fn a_binding_is_an_outer_steps_where_srun_does_not_read_it() {
        let is_outer = |how: Option<&str>, read_by_srun: Option<&str>| {
            is_of_an_outer_step(|name| match name {
                TYPE => how.map(str::to_string),
                READ_BY_SRUN => read_by_srun.map(str::to_string),
                _ => None,
            })
        };
        let bound = Some("mask_cpu:");
        assert!(is_outer(bound, None), "after `unset SLURM_CPU_BIND`");
        assert!(is_outer(bound, Some("")));
        assert!(
            !is_outer(bound, Some("quiet,mask_cpu:0x3")),
            "srun binds this step so too"
        );
        assert!(
            !is_outer(None, None) && !is_outer(Some(""), None),
            "there is no outer step"
        );
        assert!(!is_outer(None, Some("cores")), "the user's own variable");
    }
}
