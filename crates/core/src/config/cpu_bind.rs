//! srun's CPU binding: distinguishes the user's `--cpu-bind` from a binding that srun derives.
//!
//! srun derives `SLURM_CPU_BIND_TYPE` from the options below (src/common/proc_args.c,
//! `verify_hint`; src/srun/opt.c). `--hint=nomultithread` does not choose CPUs, so we may move the
//! task. The hint still holds: moves stay in the step's masks, which have one thread of each core.
//!
//! Slurm 22.05.8, 24.11.5 and 26.05.2 set the table's variables on the node
//! (`tests/end_to_end/bind.rs`). On 22.05 `SLURM_CPU_BIND_LIST` is the text of `--cpu-bind`, and
//! empty without that option.
//!
//! ```text
//! srun                               TYPE     other variables
//! --cpu-bind=cores|threads|sockets   cores|…
//! --cpu-bind=none, map_cpu:…         none, map_cpu:
//! --cpu-bind=verbose                 (empty)
//! --hint=nomultithread               threads  SLURM_THREADS_PER_CORE=1
//! --hint=compute_bound, memory_bound cores    SLURM_THREADS_PER_CORE=1
//! --hint=multithread                 threads  SLURM_NTASKS_PER_CORE=65535
//! --threads-per-core=1, -B S:C:T     threads  SLURM_THREADS_PER_CORE
//! --ntasks-per-core=1                cores    SLURM_NTASKS_PER_CORE
//! --ntasks-per-socket=2              sockets  SLURM_NTASKS_PER_SOCKET
//! -B 2                               sockets  none
//! ```
//!
//! After 22.05 `--cpu-bind=threads --threads-per-core=1` sets the variables of a hint, and `-B 2`
//! those of `--cpu-bind=sockets`. Only srun has the command line, so the plugin in srun sends
//! [`VARIABLE`].

use crate::topology::CpuSet;

/// The plugin in srun sets one of the words below; no task sees the variable.
pub const VARIABLE: &str = "SLURM_NIC_PLACEMENT_CPU_BIND";
pub const CHOSEN: &str = "chosen";
/// The user named no binding; srun derived one from `-B`.
const IMPLIED: &str = "implied";
/// The user named no binding. The variables on the node are an outer step's, or those of an earlier
/// component of a heterogeneous job, which srun leaves in its environment (src/srun/srun_job.c,
/// `setup_one_job_env`).
pub const UNNAMED: &str = "unnamed";
/// The user named a binding for some component of a heterogeneous job. Earlier components lack
/// [`TYPE`], except the component whose launch thread starts first (src/srun/srun.c,
/// `_launch_one_app`; 22.05 to 26.05).
pub const OF_COMPONENT: &str = "component";

/// The type of binding: slurmstepd has srun's value, a task has slurmd's.
pub const TYPE: &str = "SLURM_CPU_BIND_TYPE";
pub const LIST: &str = "SLURM_CPU_BIND_LIST";

/// srun's input variable for `--cpu-bind`.
const READ_BY_SRUN: &str = "SLURM_CPU_BIND";

/// Slurm's `MAX_HET_JOB_COMPONENTS`.
const MOST_COMPONENTS: u32 = 128;

pub const READ: [&str; 6] = [
    TYPE,
    LIST,
    "SLURM_THREADS_PER_CORE",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_NTASKS_PER_SOCKET",
    VARIABLE,
];

/// The [`TYPE`] that the user chose; [`OF_COMPONENT`] if [`TYPE`] is unset and some component has
/// a choice; `None` without a choice.
pub fn chosen(read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let set = |name: &str| read(name).filter(|value| !value.is_empty());
    let word = set(VARIABLE);
    let how = match word.as_deref() {
        Some(UNNAMED) => return None,
        Some(OF_COMPONENT) => return set(TYPE).or(word),
        _ => set(TYPE)?,
    };
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

/// The masks of the step's tasks on this node, which slurmd lists in each task that it bound.
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

/// [`VARIABLE`]'s value by srun's arguments and variables; `None` if the node's variables suffice.
///
/// The program's arguments are searched too: a false match only prevents a move.
pub fn word_of_srun(
    arguments: &[String],
    are_several: bool,
    read: impl Fn(&str) -> Option<String>,
) -> Option<&'static str> {
    let set = |name: &str| read(name).filter(|value| !value.is_empty());
    let names = |name: &str| set(name).is_some_and(|list| names_a_way(&list));
    // a component's variable (src/srun/opt.c, `_opt_env`)
    let is_named_for = |group: u32| {
        ["HET", "PACK"]
            .iter()
            .any(|word| names(&format!("{READ_BY_SRUN}_{word}_GROUP_{group}")))
    };
    let mut named = names(READ_BY_SRUN) || are_several && (0..MOST_COMPONENTS).any(is_named_for);
    let mut counts_nodes = false;
    for (name, value) in options(arguments) {
        if is_option(name, "--cpu-bind", "--cpu-b") || is_option(name, "--cpu_bind", "--cpu_b") {
            named |= names_a_way(value);
        }
        counts_nodes |= name.starts_with("-B") || is_option(name, "--extra-node-info", "--ext");
    }
    match named {
        true if are_several => Some(OF_COMPONENT),
        true => Some(CHOSEN),
        false if are_several => Some(UNNAMED),
        false if counts_nodes => Some(IMPLIED),
        // TYPE is an outer step's if the user unset READ_BY_SRUN: slurmd sets both variables in a
        // task; an inner srun reads only READ_BY_SRUN, and passes TYPE on (src/common/env.c,
        // `setup_env`)
        false => (set(TYPE).is_some() && set(READ_BY_SRUN).is_none()).then_some(UNNAMED),
    }
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

    /// The value of `name` among `NAME=value` words.
    fn value(variables: &str, name: &str) -> Option<String> {
        let value = |pair: &str| Some(pair.strip_prefix(name)?.strip_prefix('=')?.to_string());
        variables.split(' ').find_map(value)
    }

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
            "cores | TYPE=cores LIST= THREADS_PER_CORE=1 TOLD=component",
            "component | TYPE= LIST=verbose TOLD=component",
            "component | TOLD=component",
            " | TOLD=chosen",
            " | TYPE=none TOLD=unnamed",
            " | TYPE=cores LIST=cores TOLD=unnamed",
            " | ",
        ] {
            let (expected, variables) = row.split_once(" | ").unwrap();
            let found = chosen(|name| match name.trim_start_matches("SLURM_") {
                "NIC_PLACEMENT_CPU_BIND" => value(variables, "TOLD"),
                name => value(variables, name.trim_start_matches("CPU_BIND_")),
            });
            assert_eq!(found.unwrap_or_default(), expected, "{variables}");
        }
    }

    #[test]
    fn srun_tells_what_its_command_line_says_and_the_node_cannot_see() {
        let told = |line: &str, variables: &str, alone: Option<&str>, is_named: bool| {
            let words: Vec<String> = line.split(' ').map(str::to_string).collect();
            let read = |name: &str| value(variables, name.strip_prefix("SLURM_CPU_BIND")?);
            let of_several = Some(if is_named { OF_COMPONENT } else { UNNAMED });
            for (are_several, word) in [(false, alone), (true, of_several)] {
                let told = word_of_srun(&words, are_several, read);
                assert_eq!(told, word, "{line} {variables}");
            }
        };
        let chosen = Some(CHOSEN);
        for (line, word) in rows! {
            "srun -n8 ./a", None; "srun --hint=nomultithread ./a", None;
            "srun --cpu-bind=cores ./a", chosen; "srun --cpu-bind cores ./a", chosen;
            "srun --cpu-b=threads --threads-per-core=1 ./a", chosen;
            "srun --cpu_bind=none ./a", chosen;
            // it asks to read, and not to bind
            "srun --cpu-bind=verbose ./a", None; "srun --cpu-bind=v,cores ./a", chosen;
            "srun -B 2 ./a", Some(IMPLIED); "srun --extra-node-info=2:2 ./a", Some(IMPLIED);
            "srun -B2:2:1 --cpu-bind=sockets ./a", chosen;
            "srun --cpu-freq=high --cpus-per-task=4 ./a", None;
            "srun", None;
        } {
            told(line, "", word, word == chosen);
        }
        for (variables, word, is_named) in rows! {
            "=quiet,mask_cpu:0x1", chosen, true; "=verbose", None, false;
            "_HET_GROUP_127=cores", None, true; "_PACK_GROUP_0=cores", None, true;
            "_HET_GROUP_1=quiet", None, false;
            // after `unset SLURM_CPU_BIND` in a task
            "_TYPE=mask_cpu:", Some(UNNAMED), false; "_TYPE=mask_cpu: =", Some(UNNAMED), false;
            "_TYPE=mask_cpu: =quiet,mask_cpu:0x3", chosen, true;
            "_TYPE=", None, false;
        } {
            told("srun ./a", variables, word, is_named);
        }
    }

    #[test]
    fn the_tasks_masks_are_those_that_slurmd_lists_and_none_where_a_part_is_not_understood() {
        for (how, list, expected) in rows! {
            "mask_cpu:", "0x3,0x30,0x300", &["0-1", "4-5", "8-9"][..];
            "map_cpu:", "0,12", &["0", "12"]; "mask_cpu:", "0x3,none", &[]; "mask_cpu:", "", &[];
            "map_cpu:", "0,all", &[]; "threads", "0,1", &[]; "none", "0x1", &[]; "", "0x1", &[];
            "", "", &[];
        } {
            let both = [(TYPE, how), (LIST, list)];
            let found = masks(|name| both.iter().find(|of| of.0 == name).map(|of| of.1));
            let found: Vec<String> = found.iter().map(CpuSet::to_string).collect();
            assert_eq!(found, expected, "`{how}{list}`");
        }
        assert_eq!(masks(|_| None::<&str>), []);
    }
}
