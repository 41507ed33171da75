//! Our arm64 packages on an aarch64 node: Debian's arm64 kernel, Slurm and dpkg in a guest under qemu, which is built like a
//! node of two Grace processors.
//!
//! ```text
//! make test-arm                                  makes the packages and runs all of this
//! ARM=4k cargo test --test vm_arm -- cpuset      cases with that word in their name; what was packed before
//! ARM=16k cargo test --test vm_arm               a kernel with pages of 16 KiB, or of 64
//! ```
//!
//! Needs Debian on amd64, two compilers and the packages (tests/vm_arm/install.sh, `make deb arch=aarch64`).  Without ARM= it
//! says so and passes.  One guest is booted, in which each step runs twice: before the packages are installed,
//! and with them.

#[path = "../testing/guest/mod.rs"]
mod guest;

use guest::Guest;
use guest::boot::{Boot, here};
use guest::cases::Unfit;
use guest::task::{Set, Task, all, each};
use guest::watch::Watch;
use nic_placement_core::topology::{Provenance, Topology, file};
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::LazyLock;
use std::time::Duration;

/// Run on the node that has nothing of ours.  CPUSET: a step whose job has memory of NUMA node 0 alone; STEPS: a job of four
/// steps at the same time, each with one of its GPUs.
const WITHOUT: &str = "\
release srun --version
placed.bare srun -n4 --gpus-per-task=1 $task
pairs.bare srun -n2 --gpus-per-task=2 $task
all.bare srun -n1 -c4 --gres=gpu:4 $task
cpuset.bare CPUSET()
steps.bare STEPS()";

/// Run on the node that has the packages.
const WITH: &str = "\
show nic-placement show
show.json nic-placement show --json
check.json nic-placement check --json || [ $? -lt 3 ]
placed srun -n4 --gpus-per-task=1 --nic-placement=verbose $task
pairs srun -n2 --gpus-per-task=2 --nic-placement $task
all srun -n1 -c4 --gres=gpu:4 --nic-placement $task
core srun -n4 --gpus-per-task=1 --nic-placement=bind=core,omp=on $task
fence srun -n4 --gpus-per-task=1 --nic-placement=mem=strict $task
off srun -n4 --gpus-per-task=1 --nic-placement=off $task
silent srun -n4 --gpus-per-task=1 $task
steps STEPS(--nic-placement)
cpuset CPUSET(--nic-placement=verbose)
cpuset.strict CPUSET(--nic-placement=strict)
refresh cp slurmd.log slurmd.before; nic-placement refresh && ls /run/nic-placement
kept srun -n4 --gpus-per-task=1 --nic-placement=verbose $task
unplugged rm -r /run/nic-placement; rmmod ib_uverbs && \
    srun -n4 --gpus-per-task=1 --nic-placement=verbose $task
unplugged.json nic-placement check --json || [ $? -lt 3 ]
unplugged.show nic-placement show";

const CPUSET: [&str; 2] = [
    "echo 0 > /sys/fs/cgroup/system.slice/cpuset.mems; srun -n4 --gpus-per-task=1 ",
    " $task; code=$?; echo 0-3 > /sys/fs/cgroup/system.slice/cpuset.mems; exit $code",
];
const STEPS: [&str; 2] = [
    "rm -f /tmp/free step.?; salloc -Q -n4 --gres=gpu:4 sh -c 'for n in 0 1 2 3; do \
     srun --exact -n1 -c1 --gres=gpu:1 ",
    " $task until=/tmp/free > step.$n & done; n=0; \
     until [ $(cat step.? | grep -c cpus=) = 4 ] || [ $((n += 1)) -gt 300 ]; do sleep 0.2; done; \
     touch /tmp/free; wait; cat step.?'",
];

/// The lines with these two written out.
fn lines(commands: &str) -> String {
    let line = |line: &str| {
        let written = |name, [before, after]: [&str; 2]| {
            let (start, rest) = line.split_once(name)?;
            let option = rest.strip_prefix('(')?.strip_suffix(')')?;
            Some(format!("{start}{before}{option}{after}"))
        };
        let written = written("CPUSET", CPUSET).or_else(|| written("STEPS", STEPS));
        written.unwrap_or_else(|| line.to_string())
    };
    commands.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// 4k, 16k or 64k, if the guest is wanted.
fn pages() -> Option<String> {
    std::env::var("ARM").ok()
}

fn boot() -> Result<Guest, Unfit> {
    let pages = pages().ok_or(Unfit::Skip("ARM=4k, 16k or 64k boots one".into()))?;
    let package = |name: &str| {
        let version = env!("CARGO_PKG_VERSION");
        let file = here().join(format!("target/packages/{name}_{version}-1_arm64.deb"));
        assert!(file.exists(), "`make deb arch=aarch64`: {file:?}");
        file
    };
    let scripts = ["gpus", "slurm", "each"];
    let scripts = scripts.map(|name| here().join(format!("tests/vm_slurm/{name}.sh")));
    let also = PACKAGES.map(package).into_iter().chain(scripts);
    let also: Vec<String> = also.map(|file| file.display().to_string()).collect();
    let boot = Boot {
        arguments: vec![lines(WITHOUT), lines(WITH)],
        also: also.join(":"),
        more: vec![("VM_PAGES", pages)],
        ..Boot::of(
            "../vm_arm/grace",
            here().join("tests/vm_arm/node.sh"),
            "vm-arm",
        )
    };
    // a kernel of another architecture is silent for longer
    let watch = Watch {
        boot: here().join("tests/vm_arm/boot.sh"),
        silent: Watch::usual().silent.max(Duration::from_secs(180)),
        ..Watch::usual()
    };
    boot.booted(&watch, WITH)
}

static GUEST: LazyLock<Option<Guest>> = LazyLock::new(|| {
    // not `eprintln!`: the test harness hides its text while tests pass
    let (guest, said) = match boot() {
        Ok(guest) => {
            let times = guest.answer("times");
            (Some(guest), times)
        }
        Err(Unfit::Skip(reason)) => (None, format!("skipped: {reason}")),
        Err(Unfit::Broken(reason)) => panic!("{reason}"),
    };
    let _ = writeln!(std::io::stderr(), "{said}");
    guest
});

/// The guest, once its steps have run; none if there is none, which is printed once.
fn guest() -> Option<&'static Guest> {
    GUEST.as_ref()
}

const PACKAGES: [&str; 4] = [
    "nic-placement",
    "slurm-spank-nic-placement",
    "libnic-placement-core0",
    "libnic-placement-core-dev",
];

/// The node as the tool shows it.
fn topology(guest: &Guest) -> Topology {
    let shown = guest.answer("show.json");
    file::from_json(&shown, Provenance::File("show.json".into())).unwrap()
}

/// The text of `check --json` for the node.
fn judged(guest: &Guest, name: &str) -> String {
    let report: serde_json::Value = serde_json::from_str(&guest.answer(name)).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let of_node = findings.filter(|finding| finding["code"] == "node");
    of_node
        .map(|finding| finding["text"].as_str().unwrap())
        .collect()
}

/// On its GPU's NUMA node: CPUs, policy and pages.
#[track_caller]
fn assert_near(guest: &Guest, tasks: &[Task]) {
    all(tasks, |task| guest.is_near(task));
}

/// As Slurm alone has it.
#[track_caller]
fn assert_as_without(bare: &[Task], tasks: &[Task]) {
    each(bare, tasks, |bare, task| {
        (task.cpus(), task.open()) == (bare.cpus(), bare.open())
            && task.mem() == "default"
            && task.lacks(&["UCX_NET_DEVICES", "NCCL_IB_HCA", "NIC_PLACEMENT"])
    });
}

/// One of the two NICs of its GPU's NUMA node.
fn has_one_nic(guest: &Guest, task: &Task) -> bool {
    let (nics, ucx) = (guest.nearest_nics(guest.gpu_of(task)), task.ucx());
    nics.len() == 2 && ucx.len() == 1 && nics.iter().any(|nic| nic == ucx[0])
}

/// Each of four tasks opens another GPU.
#[track_caller]
fn assert_one_gpu_each(tasks: &[Task]) {
    let open: BTreeSet<Set> = tasks.iter().map(Task::open).collect();
    assert_eq!(open, (0..4).map(|number| [number].into()).collect());
}

#[test]
fn dpkg_installs_the_arm64_packages() {
    let Some(guest) = guest() else { return };
    let said = guest.answer("dpkg");
    for name in PACKAGES {
        let line = format!("Setting up {name} ");
        assert!(said.lines().any(|said| said.starts_with(&line)), "{said}");
    }
}

#[test]
fn a_node_like_grace_is_read_as_its_kernel_has_it() {
    let Some(guest) = guest() else { return };
    let node = topology(guest);
    let cpus = node.numa_nodes.iter().map(|node| node.cpus.to_string());
    assert_eq!(cpus.collect::<Vec<_>>(), ["0-1", "2-3", "", ""]);
    // the firmware gives packages no numbers, so the kernel shows where they stand in its table
    let ids = guest.answer("packages");
    let ids: Vec<u32> = ids.lines().flat_map(str::parse).collect();
    assert!(ids.len() == 2 && ids[0] > 1, "{ids:?}");
    let packages: Vec<_> = node.numa_nodes.iter().map(|node| node.package).collect();
    assert_eq!(packages, [Some(ids[0]), Some(ids[1]), None, None]);
    assert_eq!(guest.answer("possible").trim(), "0-5");
    // no SMT, and no L3
    let cores: BTreeSet<_> = node.pus.iter().map(|pu| (pu.package, pu.core)).collect();
    assert_eq!((node.pus.len(), cores.len()), (4, 4), "{cores:?}");
    assert_eq!(guest.answer("third-cache"), "");
    let gpus: Vec<u32> = node.gpus.iter().map(|gpu| gpu.address.domain).collect();
    let nics = node.nics.iter().map(|nic| nic.address.unwrap().domain);
    assert_eq!(
        (gpus, nics.collect()),
        (vec![1, 2, 5, 6], vec![3, 4, 7, 0xffff])
    );
    let shown = guest.answer("show");
    assert!(shown.contains("no CPUs: memory only"), "{shown}");
}

#[test]
fn the_pages_are_of_the_size_that_was_asked_for() {
    let Some(guest) = guest() else { return };
    let is_so = |task: &Task| Some(format!("{}k", task.word("page"))) == pages();
    all(&guest.tasks("placed", 4), is_so);
}

#[test]
fn without_the_packages_tasks_run_where_slurm_deals_them_and_no_nic_is_named() {
    let Some(guest) = guest() else { return };
    for (step, count) in [("placed.bare", 4), ("pairs.bare", 2), ("all.bare", 1)] {
        let tasks = guest.tasks(step, count);
        assert_as_without(&tasks, &tasks);
    }
    let tasks = guest.tasks("placed.bare", 4);
    let found = (guest.far(&tasks), guest.with_far_pages(&tasks));
    assert_eq!(found, (2, 2), "{tasks:?}");
}

#[test]
fn with_the_plugin_each_task_and_all_its_pages_are_on_its_gpus_numa_node() {
    let Some(guest) = guest() else { return };
    assert_near(guest, &guest.tasks("placed", 4));
}

#[test]
fn each_task_gets_a_nic_of_its_own_beside_its_gpu_though_each_is_a_pci_domain() {
    let Some(guest) = guest() else { return };
    let tasks = guest.tasks("placed", 4);
    all(&tasks, |task| {
        let named = format!("nics={} ", task.ucx()[0]);
        has_one_nic(guest, task)
            && task
                .env("NIC_PLACEMENT")
                .is_some_and(|told| told.contains(&named))
    });
    let taken: BTreeSet<&str> = tasks.iter().flat_map(Task::ucx).collect();
    assert_eq!(taken.len(), 4, "{tasks:?}");
    let said = guest.answer("placed.stderr");
    for gpu in topology(guest).gpus {
        assert!(said.contains(&gpu.address.to_string()), "{said}");
    }
    all(&guest.tasks("pairs", 2), |task| task.ucx().len() == 2);
}

#[test]
fn a_device_cgroup_leaves_each_task_one_gpu() {
    let Some(guest) = guest() else { return };
    for step in ["placed.bare", "placed"] {
        let tasks = guest.tasks(step, 4);
        assert_one_gpu_each(&tasks);
        // cgroup v2
        let is_so = |task: &Task| task.gpus() == [0] && task.word("cgroup").starts_with("0::/");
        all(&tasks, is_so);
    }
}

#[test]
fn steps_of_one_gpu_each_are_placed_side_by_side() {
    let Some(guest) = guest() else { return };
    let [bare, steps] = ["steps.bare", "steps"].map(|step| guest.tasks(step, 4));
    assert_one_gpu_each(&bare);
    assert_one_gpu_each(&steps);
    assert_as_without(&bare, &bare);
    all(&steps, |task| has_one_nic(guest, task));
}

#[test]
fn bind_core_gives_each_task_a_core_of_its_own_near_its_gpu() {
    let Some(guest) = guest() else { return };
    let tasks = guest.tasks("core", 4);
    assert_near(guest, &tasks);
    let cores: BTreeSet<Set> = tasks.iter().map(Task::cpus).collect();
    assert_eq!(cores, (0..4).map(|cpu| [cpu].into()).collect());
    all(&tasks, |task| task.env("OMP_NUM_THREADS") == Some("1"));
}

#[test]
fn memory_without_cpus_is_never_preferred() {
    let Some(guest) = guest() else { return };
    for (step, count) in [
        ("placed.bare", 4),
        ("all.bare", 1),
        ("placed", 4),
        ("pairs", 2),
        ("all", 1),
    ] {
        all(&guest.tasks(step, count), |task| {
            let (_, preferred) = task.policy();
            let mut nodes = preferred.iter().copied().chain(task.pages().into_keys());
            nodes.all(|node| node < 2) && task.word("mems") == "0-3"
        });
    }
    assert_eq!(guest.tasks("all", 1)[0].mem(), "preferred-many:0-1");
}

#[test]
fn mem_strict_fences_each_task_and_its_pages_in() {
    let Some(guest) = guest() else { return };
    all(&guest.tasks("fence", 4), |task| {
        let fence = format!("bind:{}", guest.gpu_of(task).numa_node);
        task.mem() == fence && guest.has_near_pages(task)
    });
}

#[test]
fn off_and_a_step_that_does_not_ask_are_as_without_the_plugin() {
    let Some(guest) = guest() else { return };
    for step in ["off", "silent"] {
        assert_as_without(&guest.tasks("placed.bare", 4), &guest.tasks(step, 4));
    }
}

#[test]
fn memory_that_a_cpuset_withholds_is_reported_and_costs_no_job() {
    let Some(guest) = guest() else { return };
    let bare = guest.tasks("cpuset.bare", 4);
    assert_as_without(&bare, &bare);
    all(&bare, |task| task.word("mems") == "0");
    let tasks = guest.tasks("cpuset", 4);
    // their CPUs are near all the same
    assert_eq!(guest.far(&tasks), 0);
    all(&tasks, |task| {
        let policy = match guest.gpu_of(task).numa_node {
            0 => "preferred-many:0",
            _ => "default",
        };
        (task.word("mems"), task.mem()) == ("0", policy)
    });
    let said = guest.answer("cpuset.stderr");
    let told = said.matches(": memory: NUMA node 1 is outside the cpuset");
    assert_eq!(told.count(), 2, "{said}");
}

#[test]
fn memory_that_a_cpuset_withholds_ends_a_strict_task() {
    let Some(guest) = guest() else { return };
    assert!(!guest.succeeded("cpuset.strict"));
    let said = guest.answer("cpuset.strict.stderr");
    let is_so = |line: &&str| line.contains("fails, as `strict`") && line.contains("NUMA node 1");
    assert_eq!(said.lines().filter(is_so).count(), 2, "{said}");
}

#[test]
fn a_node_file_of_refresh_gives_each_task_the_same() {
    let Some(guest) = guest() else { return };
    assert!(guest.answer("refresh").contains("node.cache"));
    let read = |log: &str| {
        let told = "the node from `/run/nic-placement/node.cache`";
        guest.answer(log).matches(told).count()
    };
    assert_eq!(read("slurmd.before"), 0);
    assert_ne!(read("slurmd.log"), 0);
    let words = ["cpus", "policy", "open", "UCX_NET_DEVICES", "NCCL_IB_HCA"];
    let [placed, kept] = ["placed", "kept"].map(|step| guest.tasks(step, 4));
    let is_same = |word: &str, one: &Task, other: &Task| one.word(word) == other.word(word);
    each(&placed, &kept, |placed, kept| {
        words.iter().all(|word| is_same(word, placed, kept))
    });
}

#[test]
fn without_verbs_devices_check_and_show_say_as_each_step_does_that_no_nic_may_be_chosen() {
    let Some(guest) = guest() else { return };
    for (name, count) in [("check.json", 4), ("unplugged.json", 0)] {
        let said = judged(guest, name);
        let is_so = said.contains(&format!("4 GPUs, {count} of 4 NICs may be chosen"));
        assert!(is_so, "{said}");
    }
    let shown = guest.answer("unplugged.show");
    let is_so = shown.contains("`/dev/infiniband` is missing on this node");
    assert!(is_so, "{shown}");
    let tasks = guest.tasks("unplugged", 4);
    assert_near(guest, &tasks);
    let is_so = |task: &Task| task.lacks(&["UCX_NET_DEVICES", "NCCL_IB_HCA"]);
    all(&tasks, is_so);
    let said = guest.answer("unplugged.stderr");
    assert!(said.contains("no NIC of this node may"), "{said}");
}
