//! Which of its node's processes this one is, by the variables of its launcher.
#![forbid(unsafe_code)]

use super::variables::Values;
use super::virtual_rank;
use nic_placement_core::diagnostic::Shown;
use nic_placement_core::gpus::rank::Rank;

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
/// themselves choose their GPU by it, whatever set it.
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

/// srun.  sbatch's script has it too, as number 0 of no step: without a count of the step's tasks it is no rank.
const SLURM: &str = "SLURM_LOCALID";
const SLURMS_COUNTS: &str = "SLURM_STEP_TASKS_PER_NODE";

/// This process among the others.
pub(super) struct Found {
    /// on its node; `None` where neither the user nor a launcher's variable gives a number that can be one
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
    let own_number = || local_rank.or_else(|| number(values, told?.local));
    let of = local_size
        .or_else(|| (told?.of)(values))
        .or_else(|| count_of_another(values, own_number()?, counting()));
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

/// The count of the innermost launcher that gave this number too: a shell in its task, or a container's starter, has said the
/// number again and left the count out.  Pyxis does for images of PyTorch (`RANK` and `LOCAL_RANK`), and scripts with
/// `export LOCAL_RANK=$SLURM_LOCALID`.  To be the only one says nothing: what it started itself begins at 0 too.
fn count_of_another<'a>(
    values: &Values,
    own: u32,
    counting: impl Iterator<Item = &'a Launcher>,
) -> Option<u32> {
    let same = counting.filter(|launcher| number(values, launcher.local) == Some(own));
    same.filter_map(|launcher| (launcher.of)(values)).find(|&of| of > own.max(1))
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
mod tests;
