//! Which of its node's processes this one is, by the variables of its launcher.

use nic_placement_core::gpus::uncountable;
use nic_placement_core::libraries::Present;
use nic_placement_core::step::{GpuGrant, NODE_NAME, TaskGpus};
use nic_placement_core::topology::Topology;
use nic_placement_process::admin::hostname;

/// Processes on one node, at most: what is more is no count of processes.
const MAX_PROCESSES: u32 = 4096;

/// The launchers in the order in which they count.
///
/// A launcher hands its environment on: torchrun in a task of srun, mpirun in a batch script.  The
/// innermost counts.  Slurm starts the others, so it is last, but for its own process
/// ([`is_slurms_task`]).  Flux runs in what started its brokers, Slurm or HPE's mpiexec, and sets
/// HPE's variables itself (flux-shell-cray-pals(1)): it is before these.  MPI's launchers are
/// inside Flux, unless they started its brokers ([`started_brokers`]).  `LOCAL_RANK` is first:
/// programs choose their GPU by it, whatever set it.
///
/// A process's number on its node, the processes there, its number in the job, and the processes of the job.
const LAUNCHERS: [(&str, &[&str], [&str; 2]); 8] = [
    // torchrun (torch/distributed/elastic/agent/server/local_elastic_agent.py), accelerate; DeepSpeed has LOCAL_SIZE
    (
        PROGRAMS,
        &["LOCAL_WORLD_SIZE", "LOCAL_SIZE"],
        ["RANK", "WORLD_SIZE"],
    ),
    // Open MPI (docs.open-mpi.org, "Environment variables set for MPI applications")
    (
        MPIS[0],
        &["OMPI_COMM_WORLD_LOCAL_SIZE"],
        ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
    ),
    // MVAPICH2's mpirun_rsh
    (
        MPIS[1],
        &["MV2_COMM_WORLD_LOCAL_SIZE"],
        ["MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"],
    ),
    // Hydra: MPICH, Intel MPI, MVAPICH
    (MPIS[2], &["MPI_LOCALNRANKS"], ["PMI_RANK", "PMI_SIZE"]),
    // flux-shell(1) gives no count for the node
    (FLUX, &[], ["FLUX_TASK_RANK", "FLUX_JOB_SIZE"]),
    // HPE's mpiexec
    (CRAYS[0], &["PALS_LOCAL_SIZE"], ["PALS_RANKID", "PMI_SIZE"]),
    // Cray PMI, which others set too
    (CRAYS[1], &["PMI_LOCAL_SIZE"], ["PMI_RANK", "PMI_SIZE"]),
    (SLURM, &[], ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS"]),
];

/// The variable by which programs themselves choose their GPU.
const PROGRAMS: &str = "LOCAL_RANK";

/// MPI's launchers that may start Flux's brokers.
const MPIS: [&str; 3] = [
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
];

const FLUX: &str = "FLUX_TASK_LOCAL_ID";

/// HPE's variables, which Slurm's mpi/cray_shasta sets too ([`are_slurms`]).
const CRAYS: [&str; 2] = ["PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"];

/// sbatch's script has it too, as number 0 of no step: without a count of the step's tasks it is
/// no rank.
const SLURM: &str = "SLURM_LOCALID";
const SLURMS_COUNTS: &str = "SLURM_STEP_TASKS_PER_NODE";

pub struct Numbering {
    /// on its node, if the user or a launcher's variable gives a number that can be one
    pub rank: Option<Rank>,
    /// the variable that gave the number; `None` if the user gave it
    pub variable: Option<&'static str>,
    /// the variable of the launcher that started this process, also where another repeats its
    /// number; not sought for Slurm ([`Numbering::repeats_slurm`])
    pub(super) numbered_by: Option<&'static str>,
    /// number and count are those of Slurm's task, perhaps repeated by a shell in it or by the
    /// user
    pub repeats_slurm: bool,
    pub(super) global: u32,
    pub(super) total: u32,
    pub doubt: Option<String>,
}

impl Numbering {
    /// True for the process that reports for all of its node.
    pub fn is_first(&self) -> bool {
        self.rank.as_ref().is_none_or(|rank| rank.number == 0)
    }

    pub fn is_slurms(&self) -> bool {
        self.variable == Some(SLURM)
    }
}

/// By the user's own words, else by the innermost launcher that gives a number.
pub fn find(values: &Present, local_rank: Option<u32>, local_size: Option<u32>) -> Numbering {
    let launchers = launchers(values);
    let innermost = launchers.first();
    let said = local_rank
        .or(innermost.map(|launcher| launcher.number))
        .map(|number| Rank {
            number: virtual_number(values)
                .filter(|_| local_rank.is_none())
                .unwrap_or(number),
            of: local_size
                .or_else(|| innermost?.count)
                .or_else(|| count_of_another(number, &launchers)),
            said: match innermost.filter(|_| local_rank.is_none()) {
                Some(launcher) => format!("{}={number}", launcher.local),
                None => format!("local rank {number}"),
            },
            by_user: local_rank.is_some(),
        });
    let count = said.as_ref().map_or(local_size, |rank| rank.of);
    let most = count.unwrap_or(MAX_PROCESSES);
    let (rank, doubt) = match said {
        Some(Rank { number, said, .. }) if number >= most.min(MAX_PROCESSES) => (
            None,
            Some(format!("`{said}` is not below size {most}: ignored")),
        ),
        said => (said, None),
    };
    let variable = innermost
        .filter(|_| local_rank.is_none())
        .map(|launcher| launcher.local);
    // to be the only one says nothing
    let gave_it = |launcher: &&Numbers| {
        launcher.local != SLURM
            && rank.as_ref().is_some_and(|rank| {
                rank.of.is_some_and(|of| of > 1)
                    && (rank.of, rank.number) == (launcher.count, launcher.number)
            })
    };
    let (global, total) = match innermost {
        Some(Numbers {
            world: [Some(global), total],
            ..
        }) => (*global, *total),
        _ => (rank.as_ref().map_or(0, |rank| rank.number), count),
    };
    Numbering {
        variable,
        numbered_by: launchers
            .iter()
            .rfind(gave_it)
            .map(|launcher| launcher.local)
            .or(variable),
        repeats_slurm: variable != Some(SLURM)
            && rank.as_ref().is_some_and(|rank| {
                number(values, SLURM) == Some(rank.number)
                    && rank.of.is_some()
                    && rank.of == slurms_count(values)
            }),
        global,
        total: total.unwrap_or(1).max(1),
        doubt,
        rank,
    }
}

/// Has a launcher brought Slurm's name of another node? Both Hydras lay the variables of mpiexec's
/// node over those of their daemon's step (MPICH 5.0.2, Intel MPI 2021.19, run).
pub fn has_brought_a_node(values: &Present) -> bool {
    launchers(values)
        .first()
        .is_some_and(|launcher| launcher.local != SLURM)
        && hostname().split('.').next() != values.get(NODE_NAME).map(String::as_str)
}

/// Numbers that a launcher gives; the innermost is the first.
struct Numbers {
    local: &'static str,
    number: u32,
    count: Option<u32>,
    world: [Option<u32>; 2],
}

fn launchers(values: &Present) -> Vec<Numbers> {
    let is_slurms_task = is_slurms_task(values);
    let launcher = |&(local, counts, world): &(&'static str, &[&str], [&str; 2])| {
        let launcher = Numbers {
            local,
            number: number(values, local)?,
            count: match local {
                FLUX => fluxs_count(values),
                SLURM => slurms_count(values),
                _ => counts.iter().find_map(|name| count(values, name)),
            },
            world: world.map(|name| number(values, name)),
        };
        let is_passed_over = match is_slurms_task {
            true => ![PROGRAMS, SLURM].contains(&local),
            // a batch script is number 0 of no step
            false if local == SLURM => launcher.count.is_none(),
            false if CRAYS.contains(&local) => are_slurms(values),
            false => started_brokers(values, &launcher),
        };
        (!is_passed_over).then_some(launcher)
    };
    LAUNCHERS.iter().filter_map(launcher).collect()
}

/// True for the process that slurmstepd started, whose number it sets in `SLURM_TASK_PID`
/// (src/slurmd/slurmstepd/task.c, `exec_task`).  Numbers of MPI, PALS and Flux are of a launcher
/// around sbatch or srun.
fn is_slurms_task(values: &Present) -> bool {
    number(values, "SLURM_TASK_PID") == Some(std::process::id()) && slurms_count(values).is_some()
}

/// The count of the innermost launcher that gave this number too: a shell in its task or a
/// container's starter may repeat the number without it, as Pyxis for images of PyTorch (`RANK`
/// and `LOCAL_RANK`), and scripts with `export LOCAL_RANK=$SLURM_LOCALID`.  A count of 1 says
/// nothing: what that process started begins at 0 too.
fn count_of_another(own: u32, launchers: &[Numbers]) -> Option<u32> {
    let same = launchers.iter().filter(|launcher| launcher.number == own);
    same.filter_map(|launcher| launcher.count)
        .find(|&of| of > own.max(1))
}

/// True if `PALS_APID` names Slurm's own step, as Slurm sets it
/// (src/plugins/mpi/cray_shasta/mpi_cray_shasta.c, `mpi_p_slurmstepd_task`): its own variables
/// tell more; HPE's mpiexec names its application otherwise.
fn are_slurms(values: &Present) -> bool {
    let step = || {
        let (job, step) = (values.get("SLURM_JOB_ID")?, values.get("SLURM_STEP_ID")?);
        Some(format!("{job}.{step}"))
    };
    let application = values.get("PALS_APID");
    application.is_some() && step().as_ref() == application
}

/// True if this launcher started Flux's broker as the node's only process, and Flux this one.
/// Flux takes `PALS_*`, `PMI_*` and `SLURM_*` from its programs' environment (flux-core,
/// src/broker/runat.c) and leaves these.
fn started_brokers(values: &Present, launcher: &Numbers) -> bool {
    MPIS.contains(&launcher.local)
        && launcher.count == Some(1)
        && number(values, FLUX).is_some()
        && fluxs_count(values) != Some(1)
}

fn number(values: &Present, name: &str) -> Option<u32> {
    values.get(name)?.parse().ok()
}

fn count(values: &Present, name: &str) -> Option<u32> {
    number(values, name).filter(|count| (1..=MAX_PROCESSES).contains(count))
}

/// An even share, where there is one and this task's number is no proof of another: Flux deals tasks by resources, such as 8 and 4.
fn fluxs_count(values: &Present) -> Option<u32> {
    let (all, nodes) = (
        number(values, "FLUX_JOB_SIZE")?,
        number(values, "FLUX_JOB_NNODES")?,
    );
    let of = all
        .checked_div(nodes)
        .filter(|of| of * nodes == all && (1..=MAX_PROCESSES).contains(of));
    of.filter(|&of| number(values, FLUX).is_none_or(|number| number < of))
}

/// `SLURM_STEP_TASKS_PER_NODE`, such as `8(x2),4`, at the place of this node.
fn slurms_count(values: &Present) -> Option<u32> {
    let mut node = number(values, "SLURM_NODEID")?;
    for entry in values.get(SLURMS_COUNTS)?.split(',') {
        let (tasks, nodes) = match entry.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse().ok()?),
            None => (entry, 1),
        };
        if node < nodes {
            let tasks = tasks.parse().ok();
            return tasks.filter(|tasks| (1..=MAX_PROCESSES).contains(tasks));
        }
        node -= nodes;
    }
    None
}

/// The worker's number under torchrun's `--virtual-local-rank`, which makes `LOCAL_RANK` 0 and
/// gives each worker a GPU of its own (PyTorch,
/// torch/distributed/elastic/agent/server/local_elastic_agent.py, `_set_local_rank_env`): nodes
/// with as many workers each are numbered one after another.
fn virtual_number(values: &Present) -> Option<u32> {
    let number = |name: &str| number(values, name);
    let one_gpu = |list: &String| !list.is_empty() && !list.contains(',');
    let by_torchrun = values.contains_key("TORCHELASTIC_RUN_ID") && number("LOCAL_RANK") == Some(0);
    if !by_torchrun || !values.get("CUDA_VISIBLE_DEVICES").is_some_and(one_gpu) {
        return None;
    }
    let (of, node) = (number("LOCAL_WORLD_SIZE")?, number("GROUP_RANK")?);
    let is_even = number("GROUP_WORLD_SIZE")?.checked_mul(of) == number("WORLD_SIZE");
    let number = number("RANK")?.checked_sub(node.checked_mul(of)?)?;
    (is_even && number < of).then_some(number)
}

/// A process among those that a launcher started on its node.
pub struct Rank {
    /// from 0
    pub number: u32,
    /// number of processes; `None` if neither a launcher nor the user says it
    pub of: Option<u32>,
    /// the variable or option that gave the number, such as `LOCAL_RANK=3`
    pub said: String,
    /// true if the user named the number, false for a launcher
    pub by_user: bool,
}

/// The GPUs that a process will use among those that it sees, as far as its rank tells; and why that tells nothing, if
/// it should.
///
/// The k-th process takes the k-th GPU, as PyTorch's documents (`torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`) and
/// MPI's examples have it: a convention, as the reason says.  Fewer processes than GPUs take the first ones, not blocks.
pub(super) fn gpu_by_rank(
    topology: &Topology,
    grant: &GpuGrant,
    seen: TaskGpus,
    rank: Option<&Rank>,
) -> (TaskGpus, Option<String>) {
    let count = seen.own.len();
    let Some(rank) = rank.filter(|_| count > 1) else {
        return (seen, None);
    };
    let Rank { number, said, .. } = rank;
    let why = match rank.of {
        // a launcher's only process here may well use all GPUs, so its number chooses none; `--local-rank` does
        Some(1) if !rank.by_user => return (seen, None),
        Some(of) if of as usize > count => Some(format!(
            "{of} processes share the {count} GPUs that they see"
        )),
        _ if *number as usize >= count => {
            Some(format!("`{said}` is past the {count} GPUs that it sees"))
        }
        _ => uncountable(topology, &seen.own, grant).map(String::from),
    };
    if let Some(why) = why {
        return (
            seen,
            Some(format!(
                "{why}: which of them it will use is not known, so it gets the NICs of all"
            )),
        );
    }
    let reason = format!(
        "`{said}` means by convention number {number} of the {count} that it sees ({})",
        seen.reason
    );
    let own = vec![seen.own[*number as usize]];
    let gpus = TaskGpus {
        own,
        reason,
        ..seen
    };
    (gpus, None)
}

#[cfg(test)]
mod tests;
