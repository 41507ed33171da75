//! Which words belong to which component of a heterogeneous job's step.
//!
//! srun parses the options of one component after another, and calls the plugin after each; but it sends every node the
//! option's last value (Slurm's src/common/spank.c, `spank_set_remote_options`).  So srun's process hands the nodes the words
//! of all components in one variable ([`VARIABLE`]), and a node takes those of its own.
//!
//! A node knows its component by its job's number: each component of a heterogeneous job is a job, and they are numbered one
//! after the other (src/slurmctld/proc_req.c, `_slurm_rpc_allocate_het_job`).  Components of a step inside one ordinary job
//! share that job's number, and nothing that a plugin may ask tells them apart: there the last words hold for all.
#![forbid(unsafe_code)]

use super::cpu_bind::{is_option, options};
use crate::order::Order;

/// The variable by which srun's process hands all words to the nodes, as `0:off;1:closest`; each task's hook removes
/// it.  A component without words is missing.  No word has a `;`.
pub const VARIABLE: &str = "SLURM_NIC_PLACEMENT_COMPONENTS";
/// The number of the job's components; set inside a heterogeneous job alone.
pub const SIZE: &str = "SLURM_HET_SIZE";
/// In srun: the job that it starts steps of.  For a step: the number of its first component.
pub const JOB: &str = "SLURM_JOB_ID";

/// Components of a job, at most (Slurm's src/common/slurm_opt.h, `MAX_HET_JOB_COMPONENTS`).
const MAX: u32 = 128;

/// The components of srun's command line and their parts of it, in the order in which srun parses their options.
///
/// `:` stands between components, also for Slurm wherever it is.  `--het-group` names the components of a job that a part of
/// the line is for.
pub fn in_order(arguments: &[String]) -> Vec<(u32, &[String])> {
    let parts = arguments.split(|argument| argument == ":").zip(0..MAX);
    let numbered = parts.map(|(part, place)| (groups(part).unwrap_or(vec![place]), part));
    numbered.flat_map(|(numbers, part)| numbers.into_iter().map(move |number| (number, part))).collect()
}

/// The components that `--het-group` names in one part of the line, or `--pack-group`, its old name (Slurm's
/// src/common/slurm_opt.c, `slurm_opt_pack_group`).
fn groups(part: &[String]) -> Option<Vec<u32>> {
    let value = options(part).find_map(|(name, value)| {
        let is_it = is_option(name, "--het-group", "--het") || is_option(name, "--pack-group", "--pac");
        is_it.then_some(value)
    })?;
    let mut numbers = Vec::new();
    for range in value.trim_start_matches('[').trim_end_matches(']').split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        numbers.extend((first..=last.min(MAX)).take_while(|number| *number < MAX));
    }
    numbers.order();
    numbers.dedup();
    Some(numbers)
}

/// [`VARIABLE`] for these components and the words that srun parsed, in its order; `None` if there are more words than
/// components, since their components are unknown.
pub fn list(order: &[(u32, &[String])], words: Vec<Option<String>>) -> Option<String> {
    let numbers = order.iter().map(|(number, _)| *number);
    (words.len() <= order.len()).then(|| write(numbers.zip(words)))
}

pub fn write(words: impl IntoIterator<Item = (u32, Option<String>)>) -> String {
    let entries = words.into_iter().filter_map(|(component, words)| Some(format!("{component}:{}", words?)));
    entries.collect::<Vec<String>>().join(";")
}

/// The words of one component; `None` where it has none.
pub fn words_of(list: &str, component: u32) -> Option<&str> {
    let mut entries = list.split(';').filter_map(|entry| entry.split_once(':'));
    entries.find(|(number, _)| number.parse() == Ok(component)).map(|(_, words)| words)
}

/// The component's part of what srun's process hands the nodes, which is a list or one text for all.
pub fn of_component(component: Option<u32>, text: String) -> Option<String> {
    match text.contains(':') {
        true => words_of(&text, component?).map(str::to_string),
        false => Some(text),
    }
}

/// The position of the job with this number among its components, by the step's environment; `None` if unknown.
pub fn of_job(number: u32, read: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let as_number = |name: &str| read(name)?.parse::<u32>().ok();
    let size = as_number(SIZE)?.min(MAX);
    // sbatch and salloc name the jobs
    let named = (0..size).find(|place| as_number(&format!("{JOB}_HET_GROUP_{place}")) == Some(number));
    named.or_else(|| number.checked_sub(as_number(JOB)?).filter(|place| *place < size))
}

/// The first component's job number, which all components of a job share; `number` itself outside such a job.
pub fn leader(number: u32, read: impl Fn(&str) -> Option<String>) -> u32 {
    let first = of_job(number, &read).and_then(|_| read(JOB)?.parse().ok());
    first.unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(line: &str) -> Vec<u32> {
        let words: Vec<String> = line.split(' ').map(str::to_string).collect();
        in_order(&words).into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn components_are_settled_in_the_order_of_the_command_line() {
        assert_eq!(order("srun -n1 a"), [0]);
        assert_eq!(order("srun -n1 a : -n2 b : c"), [0, 1, 2]);
        assert_eq!(order("srun --het-group=1 a"), [1]);
        assert_eq!(order("srun --het-group 2,0 a : --het-g=1 b"), [0, 2, 1]);
        assert_eq!(order("srun --het-group=[0-2] a"), [0, 1, 2]);
        assert_eq!(order("srun --pack-group=1 a : --pack-g 0 b"), [1, 0], "its old name");
        assert_eq!(order("srun --pac=1 a : --pack-group-of=0 --part=0 b"), [1, 1], "other words");
        assert_eq!(order("srun --het-group=0-4000000000 a").len(), 128, "no more than Slurm has");
        assert_eq!(order("srun --het-group=many a : b"), [0, 1], "srun itself refuses it");
    }

    #[test]
    fn a_component_finds_its_words_and_no_other() {
        let list = write([(0, Some("off".into())), (1, None), (12, Some("closest,verbose".into()))]);
        assert_eq!(list, "0:off;12:closest,verbose");
        assert_eq!(words_of(&list, 0), Some("off"));
        assert_eq!(words_of(&list, 1), None);
        assert_eq!(words_of(&list, 12), Some("closest,verbose"));
        assert_eq!(words_of("0:;1:off", 0), Some(""), "the option without words");
        assert_eq!(words_of("", 0), None);
        assert!(crate::config::Words::parse("closest;off").is_err(), "no word has the separator");
    }

    #[test]
    fn more_components_than_the_line_names_have_no_words_of_their_own() {
        let line: Vec<String> = "srun -n1 a : -n1 b".split(' ').map(str::to_string).collect();
        let order = in_order(&line);
        let words = |count: usize| vec![Some("off".to_string()); count];
        assert_eq!(list(&order, words(2)).as_deref(), Some("0:off;1:off"));
        assert_eq!(list(&order, words(1)).as_deref(), Some("0:off"), "the second is not settled yet");
        assert_eq!(list(&order, words(3)), None);
    }

    #[test]
    fn what_srun_tells_all_it_tells_each_component() {
        assert_eq!(of_component(None, "chosen".into()).as_deref(), Some("chosen"));
        assert_eq!(of_component(Some(1), "chosen".into()).as_deref(), Some("chosen"));
        assert_eq!(of_component(Some(1), "0:chosen;1:unnamed".into()).as_deref(), Some("unnamed"));
        assert_eq!(of_component(None, "0:chosen;1:unnamed".into()), None);
    }

    #[test]
    fn a_job_knows_which_component_it_is() {
        let found = |number, variables: &[(&str, &str)]| {
            of_job(number, |name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
            })
        };
        let by_srun = [(SIZE, "2"), (JOB, "40")];
        assert_eq!((found(40, &by_srun), found(41, &by_srun)), (Some(0), Some(1)));
        assert_eq!((found(42, &by_srun), found(39, &by_srun)), (None, None), "no component of that job");
        let named = [
            (SIZE, "2"),
            (JOB, "40"),
            ("SLURM_JOB_ID_HET_GROUP_0", "40"),
            ("SLURM_JOB_ID_HET_GROUP_1", "57"),
        ];
        assert_eq!(found(57, &named), Some(1), "a number between was taken");
        assert_eq!(found(40, &[(JOB, "40")]), None, "an ordinary job");
        let first = |number, variables: &[(&str, &str)]| {
            leader(number, |name| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
            })
        };
        assert_eq!((first(40, &by_srun), first(41, &by_srun), first(57, &named)), (40, 40, 40));
        assert_eq!((first(7, &by_srun), first(7, &[(JOB, "40")])), (7, 7), "no component of that job");
        assert_eq!(found(40, &[(SIZE, "many"), (JOB, "40")]), None);
    }
}
