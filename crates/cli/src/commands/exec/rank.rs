//! Which of its node's processes this one is, by the variables of its launcher.
#![forbid(unsafe_code)]

use super::variables::Values;
use super::virtual_rank;
use nic_placement_core::diagnostic::Shown;
use nic_placement_core::policy::identity::rank::Rank;

/// Processes on one node, at most: what is more is no count of processes.
const MAX_PROCESSES: u32 = 4096;

/// The variables of one kind of launcher.
struct Launcher {
    /// the process's number on its node
    local: &'static str,
    /// how many processes there are on the node
    of: fn(&Values) -> Option<u32>,
    /// its number among all, and how many these are
    world: (&'static str, &'static str),
}

/// The launchers in the order in which they count.
///
/// A launcher hands its own environment on, so variables of several are there at once: torchrun in a task of srun, mpirun in a
/// batch script.  The innermost counts.  Slurm starts the others and is started by none, so it is last.  Flux runs in what
/// started its brokers, Slurm or HPE's mpiexec, and sets HPE's variables itself (flux-shell-cray-pals(1)): it is before these.
/// MPI's launchers are inside Flux, unless they started its brokers ([`started_brokers`]).  `LOCAL_RANK` is first since programs
/// themselves choose their GPU by it, whoever set it.
const LAUNCHERS: [Launcher; 8] = [
    // torchrun (torch/distributed/elastic/agent/server/local_elastic_agent.py), accelerate; DeepSpeed has LOCAL_SIZE
    Launcher {
        local: "LOCAL_RANK",
        of: |values| count(values, "LOCAL_WORLD_SIZE").or(count(values, "LOCAL_SIZE")),
        world: ("RANK", "WORLD_SIZE"),
    },
    // Open MPI (docs.open-mpi.org, "Environment variables set for MPI applications")
    Launcher {
        local: MPIS[0],
        of: |values| count(values, "OMPI_COMM_WORLD_LOCAL_SIZE"),
        world: ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    },
    // MVAPICH2's mpirun_rsh
    Launcher {
        local: MPIS[1],
        of: |values| count(values, "MV2_COMM_WORLD_LOCAL_SIZE"),
        world: ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    },
    // Hydra: MPICH, Intel MPI, MVAPICH
    Launcher {
        local: MPIS[2],
        of: |values| count(values, "MPI_LOCALNRANKS"),
        world: ("PMI_RANK", "PMI_SIZE"),
    },
    // flux-shell(1) tells no count for the node: an even share where there is one
    Launcher { local: FLUX, of: fluxs_count, world: ("FLUX_TASK_RANK", "FLUX_JOB_SIZE") },
    // HPE's mpiexec
    Launcher {
        local: CRAYS[0],
        of: |values| count(values, "PALS_LOCAL_SIZE"),
        world: ("PALS_RANKID", "PMI_SIZE"),
    },
    // Cray PMI, which others set too
    Launcher {
        local: CRAYS[1],
        of: |values| count(values, "PMI_LOCAL_SIZE"),
        world: ("PMI_RANK", "PMI_SIZE"),
    },
    Launcher { local: SLURM, of: slurms_count, world: ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS") },
];

/// Those of MPI's launchers that may start Flux's brokers.
const MPIS: [&str; 3] = ["OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"];

const FLUX: &str = "FLUX_TASK_LOCAL_ID";

/// HPE's variables, which Slurm's mpi/cray_shasta sets too ([`are_slurms`]).
const CRAYS: [&str; 2] = ["PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"];

/// srun.  sbatch's script has it too, as number 0 of no step: there nobody counts.
const SLURM: &str = "SLURM_LOCALID";
const SLURMS_COUNTS: &str = "SLURM_STEP_TASKS_PER_NODE";

/// This process among the others.
pub(super) struct Found {
    /// on its node; `None` if nobody says
    pub(super) rank: Option<Rank>,
    /// the variable that says so; none where the user did
    pub(super) variable: Option<&'static str>,
    /// the variable of the launcher that gave it, below which a wrapper or the user may have said number and count again; that is
    /// not sought for Slurm's ([`Found::repeats_slurm`])
    pub(super) numbered_by: Option<&'static str>,
    /// is it the number that Slurm gave its task, among as many: may a shell in the task or its user have said it again?
    pub(super) repeats_slurm: bool,
    /// number among all processes
    pub(super) global: u32,
    /// how many these are
    pub(super) total: u32,
    /// what was said and is not understood
    pub(super) doubt: Option<String>,
}

impl Found {
    /// Is it the one that tells what all would?
    pub(super) fn is_first(&self) -> bool {
        self.rank.as_ref().is_none_or(|rank| rank.number == 0)
    }

    /// Did Slurm start it, with no launcher between?
    pub(super) fn is_slurms(&self) -> bool {
        self.variable == Some(SLURM)
    }
}

/// By the user's own words, else by the first launcher that tells.
pub(super) fn find(values: &Values, local_rank: Option<u32>, local_size: Option<u32>) -> Found {
    let passed_over = if are_slurms(values) { &CRAYS[..] } else { &[] };
    let counting = || {
        let others = LAUNCHERS.iter().filter(|launcher| !passed_over.contains(&launcher.local));
        others.filter(|launcher| !started_brokers(values, launcher))
    };
    let told = counting().find(|launcher| number(values, launcher.local).is_some());
    let told = told.filter(|launcher| launcher.local != SLURM || (launcher.of)(values).is_some());
    let of = local_size.or_else(|| (told?.of)(values));
    let by_user = local_rank.is_some();
    let said = match (local_rank, told) {
        (Some(number), _) => Some((number, format!("--local-rank {number}"))),
        (None, Some(Launcher { local, .. })) => number(values, local)
            .map(|number| (virtual_rank::number(values).unwrap_or(number), format!("{local}={number}"))),
        (None, None) => None,
    };
    let (mut rank, mut doubt) = (None, None);
    if let Some((number, said)) = said {
        match of.is_none_or(|of| number < of) && number < MAX_PROCESSES {
            true => rank = Some(Rank { number, of, said, by_user }),
            false => {
                doubt = Some(format!(
                    "`{said}` of {} processes: it is taken for one without a number",
                    of.unwrap_or(0)
                ));
            }
        }
    }
    let doubt = doubt.or_else(|| misspelt(values));
    let world = told.and_then(|told| Some((number(values, told.world.0)?, number(values, told.world.1))));
    let local = rank.as_ref().map_or(0, |rank| rank.number);
    let (global, total) = world.unwrap_or((local, of));
    let variable = told.map(|told| told.local).filter(|_| !by_user);
    let repeats_slurm = variable != Some(SLURM) && rank.as_ref().is_some_and(|rank| is_slurms(values, rank));
    let gave_it = |launcher: &&Launcher| rank.as_ref().is_some_and(|rank| is_of(values, rank, launcher));
    let numbered_by = counting().rfind(gave_it).map(|launcher| launcher.local).or(variable);
    Found { rank, variable, numbered_by, repeats_slurm, global, total: total.unwrap_or(1).max(1), doubt }
}

/// Does `PALS_APID` name Slurm's own step?  So does Slurm (src/plugins/mpi/cray_shasta/mpi_cray_shasta.c,
/// `mpi_p_slurmstepd_task`), and its own variables tell more; HPE's mpiexec names its application otherwise.
fn are_slurms(values: &Values) -> bool {
    let step = || Some(format!("{}.{}", values.get("SLURM_JOB_ID")?, values.get("SLURM_STEP_ID")?));
    values.get("PALS_APID").is_some_and(|application| step().as_ref() == Some(application))
}

/// Is this the number of Slurm's task, and the count that of Slurm's tasks on the node?
fn is_slurms(values: &Values, rank: &Rank) -> bool {
    number(values, SLURM) == Some(rank.number) && rank.of.is_some() && rank.of == slurms_count(values)
}

/// Is this the number that a launcher other than Slurm gave, among as many?  To be the only one says nothing.
fn is_of(values: &Values, rank: &Rank, launcher: &Launcher) -> bool {
    launcher.local != SLURM
        && rank.of.is_some_and(|of| of > 1)
        && rank.of == (launcher.of)(values)
        && number(values, launcher.local) == Some(rank.number)
}

/// Did this launcher start Flux's broker as the only process of the node, and Flux this one?  A Flux instance takes `PALS_*`,
/// `PMI_*` and `SLURM_*` from its programs' environment (flux-core, src/broker/runat.c) and leaves these.
fn started_brokers(values: &Values, launcher: &Launcher) -> bool {
    MPIS.contains(&launcher.local)
        && (launcher.of)(values) == Some(1)
        && number(values, FLUX).is_some()
        && fluxs_count(values) != Some(1)
}

/// A launcher's number that is none.
fn misspelt(values: &Values) -> Option<String> {
    LAUNCHERS.iter().find_map(|Launcher { local, .. }| {
        // `-1` says that there is no launcher
        let text = values.get(*local).filter(|text| !text.is_empty() && *text != "-1")?;
        text.parse::<u32>()
            .is_err()
            .then(|| format!("`{local}={}` is no number: ignored", Shown::word(text, 40)))
    })
}

fn number(values: &Values, name: &str) -> Option<u32> {
    values.get(name)?.parse().ok()
}

fn count(values: &Values, name: &str) -> Option<u32> {
    number(values, name).filter(|count| (1..=MAX_PROCESSES).contains(count))
}

/// An even share, where there is one and this task's number is no proof of another: Flux deals tasks by resources, such as 8 and 4.
fn fluxs_count(values: &Values) -> Option<u32> {
    let (all, nodes) = (number(values, "FLUX_JOB_SIZE")?, number(values, "FLUX_JOB_NNODES")?);
    let of =
        (nodes > 0 && all % nodes == 0).then(|| all / nodes).filter(|of| (1..=MAX_PROCESSES).contains(of));
    of.filter(|&of| number(values, FLUX).is_none_or(|number| number < of))
}

/// `SLURM_STEP_TASKS_PER_NODE`, such as `8(x2),4`, at the place of this node.
fn slurms_count(values: &Values) -> Option<u32> {
    let mut node = number(values, "SLURM_NODEID")?;
    for entry in values.get(SLURMS_COUNTS)?.split(',') {
        let (tasks, nodes) = match entry.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse().ok()?),
            None => (entry, 1),
        };
        if node < nodes {
            return tasks.parse().ok().filter(|tasks| (1..=MAX_PROCESSES).contains(tasks));
        }
        node -= nodes;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Values {
        let pairs = text.split_whitespace().filter_map(|word| word.split_once('='));
        pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    /// `number/of said`, number and count among all.
    fn found(text: &str) -> String {
        let Found { rank, global, total, doubt, .. } = find(&values(text), None, None);
        let rank = rank.map_or("-".to_string(), |rank| {
            format!("{}/{} {}", rank.number, rank.of.map_or("?".to_string(), |of| of.to_string()), rank.said)
        });
        format!("{rank}, {global} of {total}{}", doubt.map(|doubt| format!(", {doubt}")).unwrap_or_default())
    }

    #[test]
    fn each_launcher_is_known_by_its_own_variables() {
        for (variables, expected) in [
            ("LOCAL_RANK=3 LOCAL_WORLD_SIZE=8 RANK=11 WORLD_SIZE=16", "3/8 LOCAL_RANK=3, 11 of 16"),
            ("LOCAL_RANK=3 LOCAL_SIZE=8", "3/8 LOCAL_RANK=3, 3 of 8"),
            ("LOCAL_RANK=3", "3/? LOCAL_RANK=3, 3 of 1"),
            (
                "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4 OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8",
                "1/4 OMPI_COMM_WORLD_LOCAL_RANK=1, 5 of 8",
            ),
            (
                "MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_LOCAL_SIZE=4 MV2_COMM_WORLD_RANK=5 MV2_COMM_WORLD_SIZE=8",
                "1/4 MV2_COMM_WORLD_LOCAL_RANK=1, 5 of 8",
            ),
            ("MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4 PMI_RANK=5 PMI_SIZE=8", "1/4 MPI_LOCALRANKID=1, 5 of 8"),
            (
                "PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=4 PALS_RANKID=5 PMI_SIZE=8",
                "1/4 PALS_LOCAL_RANKID=1, 5 of 8",
            ),
            ("PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=4 PMI_RANK=5 PMI_SIZE=8", "1/4 PMI_LOCAL_RANK=1, 5 of 8"),
            (
                "FLUX_TASK_LOCAL_ID=1 FLUX_JOB_SIZE=8 FLUX_JOB_NNODES=2 FLUX_TASK_RANK=5",
                "1/4 FLUX_TASK_LOCAL_ID=1, 5 of 8",
            ),
            ("FLUX_TASK_LOCAL_ID=1 FLUX_JOB_SIZE=7 FLUX_JOB_NNODES=2", "1/? FLUX_TASK_LOCAL_ID=1, 1 of 1"),
            // twelve as eight and four
            (
                "FLUX_TASK_LOCAL_ID=6 FLUX_JOB_SIZE=12 FLUX_JOB_NNODES=2 FLUX_TASK_RANK=6",
                "6/? FLUX_TASK_LOCAL_ID=6, 6 of 12",
            ),
            (
                "SLURM_LOCALID=2 SLURM_NODEID=2 SLURM_STEP_TASKS_PER_NODE=8(x2),4 SLURM_PROCID=18 SLURM_STEP_NUM_TASKS=20",
                "2/4 SLURM_LOCALID=2, 18 of 20",
            ),
        ] {
            assert_eq!(found(variables), expected, "{variables}");
        }
    }

    #[test]
    fn the_innermost_launcher_counts() {
        let slurm = "SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=1";
        let ompi = "OMPI_COMM_WORLD_LOCAL_RANK=5 OMPI_COMM_WORLD_LOCAL_SIZE=8";
        let torch = "LOCAL_RANK=7 LOCAL_WORLD_SIZE=8";
        assert_eq!(found(&format!("{slurm} {torch}")), "7/8 LOCAL_RANK=7, 7 of 8");
        assert_eq!(found(&format!("{slurm} {ompi}")), "5/8 OMPI_COMM_WORLD_LOCAL_RANK=5, 5 of 8");
        assert_eq!(found(&format!("{slurm} {ompi} {torch}")), "7/8 LOCAL_RANK=7, 7 of 8");
    }

    /// Cray's variables, as Slurm's mpi/cray_shasta sets them in a task of step 40.0.
    const BY_SLURM: &str = "PALS_APID=40.0 PALS_LOCAL_RANKID=1 PALS_RANKID=5 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=4 PMI_RANK=5 \
        PMI_SIZE=8 SLURM_JOB_ID=40 SLURM_STEP_ID=0 SLURM_LOCALID=1 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=4 SLURM_PROCID=5 \
        SLURM_STEP_NUM_TASKS=8";

    #[test]
    fn crays_variables_are_slurms_own_where_it_sets_them() {
        assert_eq!(found(BY_SLURM), "1/4 SLURM_LOCALID=1, 5 of 8");
        assert!(find(&values(BY_SLURM), None, None).is_slurms());
        // 22.05 sets no count of the node
        let older = BY_SLURM.replace("PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=4", "");
        assert_eq!(found(&older), "1/4 SLURM_LOCALID=1, 5 of 8");
        // HPE's mpiexec in an allocation of Slurm's, or in another step of it
        for other in ["PALS_APID=5f3c-11", "PALS_APID=40.1", "PALS_APID=41.0"] {
            let pals = BY_SLURM.replace("PALS_APID=40.0", other) + " PALS_LOCAL_SIZE=2";
            assert_eq!(found(&pals), "1/2 PALS_LOCAL_RANKID=1, 5 of 8", "{other}");
        }
        let outside = "PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=4 PALS_RANKID=5 PMI_SIZE=8";
        assert_eq!(found(outside), "1/4 PALS_LOCAL_RANKID=1, 5 of 8");
    }

    #[test]
    fn flux_is_inside_what_started_its_brokers() {
        let flux = "FLUX_TASK_LOCAL_ID=3 FLUX_JOB_SIZE=16 FLUX_JOB_NNODES=2 FLUX_TASK_RANK=11";
        let expected = "3/8 FLUX_TASK_LOCAL_ID=3, 11 of 16";
        let pals = "PALS_APID=5f3c-11 PALS_LOCAL_RANKID=0 PALS_LOCAL_SIZE=1 PALS_RANKID=1 PMI_LOCAL_RANK=0 PMI_LOCAL_SIZE=1";
        assert_eq!(found(&format!("{BY_SLURM} {flux}")), expected);
        assert_eq!(found(&format!("{pals} {flux}")), expected);
        let hydra = "MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4 PMI_RANK=5 PMI_SIZE=8";
        assert_eq!(found(&format!("{flux} {hydra}")), "1/4 MPI_LOCALRANKID=1, 5 of 8", "mpiexec in Flux");
        let uneven = flux.replace("FLUX_JOB_SIZE=16", "FLUX_JOB_SIZE=15");
        for broker in [
            "MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1",
            "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2",
        ] {
            assert_eq!(found(&format!("{flux} {broker}")), expected, "{broker} started the broker");
            assert_eq!(found(&format!("{uneven} {broker}")), "3/? FLUX_TASK_LOCAL_ID=3, 11 of 15");
        }
        let one =
            "FLUX_TASK_LOCAL_ID=0 FLUX_JOB_SIZE=2 FLUX_JOB_NNODES=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1";
        assert!(found(one).starts_with("0/1 MPI_LOCALRANKID=0"));
    }

    #[test]
    fn who_gave_the_number_is_known_below_a_wrapper_that_says_it_again() {
        let numbered_by = |text: &str, number, size| find(&values(text), number, size).numbered_by;
        let ompi = "OMPI_COMM_WORLD_LOCAL_RANK=5 OMPI_COMM_WORLD_LOCAL_SIZE=8";
        let by_ompi = Some("OMPI_COMM_WORLD_LOCAL_RANK");
        assert_eq!(numbered_by(ompi, None, None), by_ompi);
        assert_eq!(numbered_by(&format!("{ompi} LOCAL_RANK=5 LOCAL_WORLD_SIZE=8"), None, None), by_ompi);
        assert_eq!(numbered_by(ompi, Some(5), Some(8)), by_ompi);
        assert_eq!(numbered_by(ompi, Some(4), None), None, "the user's own");
        for other in ["LOCAL_RANK=5", "LOCAL_RANK=4 LOCAL_WORLD_SIZE=8", "LOCAL_RANK=5 LOCAL_WORLD_SIZE=6"] {
            assert_eq!(numbered_by(&format!("{ompi} {other}"), None, None), Some("LOCAL_RANK"), "{other}");
        }
        let alone =
            "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1";
        assert_eq!(numbered_by(alone, None, None), Some("LOCAL_RANK"), "torchrun in one process of mpirun");
        let pals = "PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4";
        assert_eq!(numbered_by(pals, None, None), Some("PALS_LOCAL_RANKID"), "all of them repeat it");
        let slurm = format!("{BY_SLURM} LOCAL_RANK=1 LOCAL_WORLD_SIZE=4");
        assert_eq!(numbered_by(&slurm, None, None), Some("LOCAL_RANK"), "Slurm's are known by their masks");
    }

    #[test]
    fn slurms_own_number_and_count_are_known_in_whoever_s_words() {
        let slurm = "SLURM_LOCALID=2 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=4";
        let repeats =
            |more: &str, number, size| find(&values(&format!("{slurm} {more}")), number, size).repeats_slurm;
        assert!(!repeats("", None, None), "it is Slurm's word itself");
        assert!(repeats("LOCAL_RANK=2 LOCAL_WORLD_SIZE=4", None, None));
        assert!(repeats("", Some(2), None) && repeats("", Some(2), Some(4)));
        assert!(!repeats("LOCAL_RANK=2", None, None), "nobody says how many");
        assert!(!repeats("LOCAL_RANK=2 LOCAL_WORLD_SIZE=8", None, None));
        assert!(!repeats("LOCAL_RANK=1 LOCAL_WORLD_SIZE=4", None, None));
        assert!(!find(&values("LOCAL_RANK=2 LOCAL_WORLD_SIZE=4"), None, None).repeats_slurm);
    }

    #[test]
    fn a_batch_script_is_no_task_of_a_step() {
        assert_eq!(
            found("SLURM_LOCALID=0 SLURM_PROCID=0 SLURM_NODEID=0 SLURM_TASKS_PER_NODE=8"),
            "-, 0 of 1"
        );
    }

    #[test]
    fn what_is_no_number_is_told_of_and_counts_for_nothing() {
        assert_eq!(found("LOCAL_RANK=first"), "-, 0 of 1, `LOCAL_RANK=first` is no number: ignored");
        assert_eq!(found("LOCAL_RANK=-1"), "-, 0 of 1");
        assert_eq!(found("LOCAL_RANK= MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2"), "1/2 MPI_LOCALRANKID=1, 1 of 2");
        assert!(found("LOCAL_RANK=8 LOCAL_WORLD_SIZE=8").contains("`LOCAL_RANK=8` of 8 processes"));
        assert!(found("LOCAL_RANK=4000000000").starts_with("-, "));
        assert_eq!(found("LOCAL_RANK=0 LOCAL_WORLD_SIZE=4000000000"), "0/? LOCAL_RANK=0, 0 of 1");
        assert!(found("SLURM_LOCALID=0 SLURM_NODEID=9 SLURM_STEP_TASKS_PER_NODE=8(x2").starts_with("-, "));
    }

    #[test]
    fn the_user_s_own_word_beats_every_launcher() {
        let torch = values("LOCAL_RANK=7 LOCAL_WORLD_SIZE=8 RANK=15 WORLD_SIZE=16");
        let found = find(&torch, Some(2), None);
        let rank = found.rank.unwrap();
        assert_eq!((rank.number, rank.of, rank.said.as_str()), (2, Some(8), "--local-rank 2"));
        assert_eq!(find(&torch, Some(2), Some(4)).rank.unwrap().of, Some(4));
    }
}
