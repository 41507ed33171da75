//! This process among those that its launcher started on the node: its GPUs, how they were split, and how it was bound.

mod launcher;
pub mod rank;

use crate::caller::without_absent;
use crate::gpus::{self, seen};
use launcher::Launcher;
use nic_placement_core::config::{Admin, ENVIRONMENT, Words, components, cpu_bind};
use nic_placement_core::diagnostic::Shown;
use nic_placement_core::libraries::Present;
use nic_placement_core::libraries::marker::{self, Marker};
use nic_placement_core::placement::Bind;
use nic_placement_core::policy::Pattern;
use nic_placement_core::step::program;
use nic_placement_core::step::{
    GPU_BIND, GpuGrant, SRUN, STEP_GPUS, Starter, Step, Task, TaskGpus,
};
use nic_placement_core::topology::{CpuSet, GpuIndex, Topology};
use nic_placement_core::wish::Wish;
use nic_placement_process::devices::DeviceFiles;
use nic_placement_process::gpus::grant;
use nic_placement_process::{admin, memory};
use nic_placement_sys as sys;
use rank::{Numbering, gpu_by_rank};

pub const PARTITION: &str = "SLURM_JOB_PARTITION";

/// Lists that a placed step makes from the node alone: they name the NICs that it uses.
const LISTS_OF_THE_NODE: [&str; 2] = ["NCCL_IB_HCA", "NVSHMEM_HCA_LIST"];

/// A process's own words beat the variable, as srun's option does.
pub fn wish(admin: Admin, present: &Present, words: Option<&Words>) -> Wish {
    let value = |name: &str| present.get(name).cloned();
    let variable = admin::words_of_variable(value(ENVIRONMENT).as_deref());
    // to start it asks for placement, but its user may have switched that off in a module
    let asks = Words::default();
    let words = words.or(variable.is_none().then_some(&asks));
    admin::wish(
        admin,
        || {
            Some(components::leader(
                value(components::JOB)?.parse().ok()?,
                value,
            ))
        },
        variable.as_ref(),
        words,
    )
}

pub struct LaunchedProcess {
    pub task: Task,
    pub note: Option<String>,
    /// how the launcher bound it away from its GPU, with a remedy; for one process of each NUMA
    /// node
    pub stays_far: Option<String>,
}

impl LaunchedProcess {
    /// The step of the launcher's processes on the node, and this one, which becomes the program
    /// of these words.
    pub fn new(
        wish: &Wish,
        node: &Topology,
        devices: Option<&DeviceFiles>,
        present: &Present,
        numbering: &Numbering,
        words: &[&str],
    ) -> (Step, LaunchedProcess) {
        let rank = numbering.rank.as_ref();
        let launcher = &launcher(present, numbering);
        let grant = without_absent(grant(present, node, devices), node);
        let of_slurm = Step {
            gpus: present.get(STEP_GPUS).cloned(),
            ..Step::default()
        };
        let (gpus, note) = gpu_by_rank(node, &grant, seen(node, &of_slurm, &grant), rank);
        let cpus = sys::affinity().unwrap_or_default();
        let (step_gpus, gpu_bind) =
            split_of_gpus(node, present, numbering, launcher, &gpus, &grant);
        let cpu_bind = earlier_binding(node, present, numbering, launcher, &cpus);
        let is_told = wish.bind != Bind::None && is_first_far(node, &gpus, &cpus);
        let stays_far = cpu_bind.clone().filter(|_| is_told && launcher.is_some());
        let known = program::known(words.iter().copied());
        let step = Step {
            starter: Starter::Launcher,
            tasks: rank.map_or(1, |rank| rank.of.unwrap_or(rank.number + 1)),
            uncounted: rank.is_some_and(|rank| rank.of.is_none()),
            total_tasks: numbering.total,
            cpu_bind,
            binder: program::binder(&known, |name| present.get(name).cloned()),
            words: known,
            gpus: step_gpus,
            srun: present.get(SRUN).cloned(),
            ..Step::default()
        };
        let task = Task {
            local_id: rank.map_or(0, |rank| rank.number),
            global_id: numbering.global,
            gpus: grant,
            known: Some(gpus),
            step_cpus: cpus.clone(),
            cpus,
            gpu_bind,
            memory: memory(is_in_a_placed_step(present)),
            ..Task::default()
        };
        let process = LaunchedProcess {
            task,
            note,
            stays_far,
        };
        (step, process)
    }
}

/// True if no CPU is near the process's one GPU, and that is the first of its NUMA node that it sees.
fn is_first_far(node: &Topology, gpus: &TaskGpus, cpus: &CpuSet) -> bool {
    let [gpu] = gpus.own.as_slice() else {
        return false;
    };
    let numa_node = |gpu: &GpuIndex| node.numa_node_of(node.gpu(*gpu).address);
    let near = numa_node(gpu);
    let first = gpus.seen.iter().find(|other| numa_node(other) == near);
    let is_near = |near| {
        node.numa_node(near)
            .is_none_or(|near| near.cpus.intersects(cpus))
    };
    first == Some(gpu) && near.is_some_and(|near| !is_near(near))
}

fn is_in_a_placed_step(present: &Present) -> bool {
    present
        .get(marker::NAME)
        .is_some_and(|text| marker::is_published(text))
}

/// Without plugstack.conf, as in a container, the lists of the step around tell which NICs may be
/// used.  A list with unknown NICs is another node's.
pub fn select_as_the_step_did(admin: &mut Admin, present: &Present, node: &Topology) {
    let Some(text) = present.get(marker::NAME) else {
        return;
    };
    let published = Marker::parse(text, |name| LISTS_OF_THE_NODE.contains(&name));
    let names: Vec<&str> = LISTS_OF_THE_NODE
        .iter()
        .find_map(|name| {
            let list = present.get(*name)?;
            published.is_ours(name, list).then_some(list)
        })
        .into_iter()
        .flat_map(|list| list.trim_start_matches('=').split(','))
        .map(|entry| entry.split(':').next().unwrap_or_default())
        .collect();
    if names.iter().all(|name| node.nic_index(name).is_some()) {
        admin
            .selection
            .include
            .extend(names.iter().filter_map(|name| Pattern::parse(name).ok()));
    }
}

/// Not sought where that was Slurm, whose variables tell how it bound the process and dealt the
/// GPUs.
fn launcher(present: &Present, numbering: &Numbering) -> Option<Launcher> {
    if numbering.rank.is_none() || numbering.is_slurms() {
        return None;
    }
    let numbered_by = numbering
        .numbered_by
        .and_then(|name| Some((name, present.get(name)?.as_str())));
    Launcher::find(numbered_by)
}

/// `None` if all processes share its CPUs.
fn earlier_binding(
    node: &Topology,
    present: &Present,
    numbering: &Numbering,
    launcher: &Option<Launcher>,
    cpus: &CpuSet,
) -> Option<String> {
    numbering.rank.as_ref()?;
    if numbering.is_slurms() || numbering.repeats_slurm {
        let read = |name: &str| present.get(name).map(String::as_str);
        if by_domain(read) || cpu_bind::masks(read).iter().any(|mask| mask != cpus) {
            return Some(
                "Slurm bound it (`srun --cpu-bind=none` leaves that to nic-placement)".to_string(),
            );
        }
    }
    if numbering.is_slurms() {
        return None;
    }
    match launcher {
        // Slurm started it, and its masks told of no binding; slurmstepd's own CPUs tell
        // nothing, since it is not held to the step's
        Some(launcher) if numbering.repeats_slurm && launcher.name == "slurmstepd" => None,
        Some(launcher) if launcher.cpus == *cpus => None,
        Some(launcher) => Some(format!(
            "`{}` bound it (`{}` leaves that to nic-placement)",
            Shown::word(&launcher.name, 40),
            unbound(&launcher.name, present)
        )),
        // a process that may run on all CPUs of the node was not bound
        None if node.cpus().is_subset(cpus) => None,
        None => Some("its launcher is not to be seen, and may have bound it".to_string()),
    }
}

/// The launcher's command that binds no process.  Both Hydras start ranks by a `hydra_pmi_proxy`; Intel MPI's ignores
/// `--bind-to none` and pins (2021.19, run), and its ranks have the number of its run.
fn unbound(launcher: &str, present: &Present) -> &'static str {
    match launcher.starts_with("hydra_") || launcher == "pmi_proxy" {
        true if present.contains_key("I_MPI_HYDRA_UUID") => "mpiexec -genv I_MPI_PIN 0",
        true => "mpiexec -bind-to none",
        false => "mpirun --bind-to none",
    }
}

/// The GPUs of all processes, and the rule by which each has its own, as Slurm would say both.
fn split_of_gpus(
    node: &Topology,
    present: &Present,
    numbering: &Numbering,
    launcher: &Option<Launcher>,
    of: &TaskGpus,
    grant: &GpuGrant,
) -> (Option<String>, Option<String>) {
    // a process with a GPU must not be taken for one of a step without: those are dealt over the NUMA nodes
    let numbers = (!of.seen.is_empty()).then(|| gpus::slurms_numbers(node, &of.seen));
    let known = present.get(STEP_GPUS).cloned().or(numbers.clone());
    let Some(rank) = &numbering.rank else {
        return (known, None);
    };
    match (of.seen.len(), of.own.len()) {
        // the first takes the first of them, the next the next: Slurm 22.05's rule
        (2.., 1) => (numbers, Some("gpu:per_task:1".to_string())),
        (1, 1)
            if numbering.is_slurms()
                || numbering.repeats_slurm && present.contains_key(GPU_BIND) =>
        {
            (known, present.get(GPU_BIND).cloned())
        }
        (1, 1) if rank.of.is_some_and(|of| of as usize <= node.gpus.len()) => {
            let lists: Vec<(&str, &str)> = grant
                .variables
                .iter()
                .map(|(name, value)| (*name, value.as_str()))
                .collect();
            // a list that the launcher had itself is the same for all its processes
            if launcher.as_ref().and_then(|launcher| launcher.had(&lists)) != Some(false) {
                return (known, None);
            }
            // each process has a GPU of its own, and no variable names the rule: that of later releases is taken
            let all: Vec<GpuIndex> = node.gpu_indices().collect();
            (
                Some(gpus::slurms_numbers(node, &all)),
                Some("gres/gpu:per_task:1".to_string()),
            )
        }
        _ => (known, None),
    }
}

/// True if slurmd bound each task to NUMA domains, by `rank_ldom`, `map_ldom:` or `mask_ldom:`: it
/// lists no CPUs for these (src/plugins/task/affinity/affinity.c, `get_cpuset`), and makes masks
/// of `ldoms`.
fn by_domain<'v>(read: impl Fn(&str) -> Option<&'v str>) -> bool {
    read(cpu_bind::TYPE)
        .unwrap_or_default()
        .split(',')
        .any(|word| {
            matches!(
                word.trim_end_matches(':'),
                "rank_ldom" | "map_ldom" | "mask_ldom"
            )
        })
}

#[cfg(test)]
mod tests {
    use nic_placement_core::config::cpu_bind::TYPE;

    #[test]
    fn slurmds_binding_to_domains_of_each_tasks_own_is_known_by_its_name() {
        let by_domain = |how: &'static str| super::by_domain(|name| (name == TYPE).then_some(how));
        let domains = ["rank_ldom", "map_ldom:", "mask_ldom:", "cores,map_ldom:"];
        assert!(domains.into_iter().all(by_domain));
        let others = ["", "none", "ldoms", "cores", "mask_cpu:"];
        assert!(!others.into_iter().any(by_domain));
    }
}
