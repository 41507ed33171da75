//! Our arm64 packages on an aarch64 node: Debian's arm64 kernel, Slurm and dpkg in a guest under qemu, which is built like a
//! node of two Grace processors.
//!
//! ```text
//! make test-arm                                  makes the packages and runs all of this
//! ARM=4k cargo test --test vm_arm -- cpuset      cases with that word in their name; what was packed before
//! ARM=16k cargo test --test vm_arm               a kernel with pages of 16 KiB
//! ```
//!
//! Needs Debian on amd64, two compilers and the packages (tests/vm_arm/install.sh, `make deb arch=aarch64`).  Without ARM= it
//! says so and passes.  One guest is booted, in which each step runs twice: before the packages are installed,
//! and with them.

#[path = "vm/boot.rs"]
#[allow(dead_code, reason = "it is asked for by ARM= alone")]
mod boot;
#[path = "vm_slurm/machine.rs"]
#[allow(dead_code, reason = "the guests of vm_slurm have more")]
mod machine;
#[path = "vm_slurm/report.rs"]
#[allow(dead_code, reason = "the guests of vm_slurm have more")]
mod report;

use boot::{Boot, CANNOT, Watch};
use machine::{Gpu, Machine};
use nic_placement_core::topology::{Provenance, Topology, file};
use report::Task;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

/// A step whose job has memory of NUMA node 0 alone.
macro_rules! cpuset {
    ($step:literal) => {
        concat!(
            "echo 0 > /sys/fs/cgroup/system.slice/cpuset.mems; srun -n4 --gpus-per-task=1 ",
            $step,
            " $task; code=$?; echo 0-3 > /sys/fs/cgroup/system.slice/cpuset.mems; exit $code"
        )
    };
}

/// A job of four steps at the same time, each with one of its GPUs.
macro_rules! steps {
    ($option:literal) => {
        concat!(
            "rm -f /tmp/free step.?; salloc -Q -n4 --gres=gpu:4 sh -c 'for n in 0 1 2 3; do \
             srun --exact -n1 -c1 --gres=gpu:1 ",
            $option,
            " $task until=/tmp/free > step.$n & done; n=0; \
             until [ $(cat step.? | grep -c cpus=) = 4 ] || [ $((n += 1)) -gt 300 ]; do sleep 0.2; done; \
             touch /tmp/free; wait; cat step.?'"
        )
    };
}

/// Run on the node that has nothing of ours.
const WITHOUT: &[(&str, &str)] = &[
    ("release", "srun --version"),
    ("placed.bare", "srun -n4 --gpus-per-task=1 $task"),
    ("pairs.bare", "srun -n2 --gpus-per-task=2 $task"),
    ("all.bare", "srun -n1 -c4 --gres=gpu:4 $task"),
    ("cpuset.bare", cpuset!("")),
    ("steps.bare", steps!("")),
];

/// Run on the node that has the packages.
const WITH: &[(&str, &str)] = &[
    ("show", "nic-placement show"),
    ("show.json", "nic-placement show --json"),
    ("check.json", "nic-placement check --json || [ $? -lt 3 ]"),
    (
        "placed",
        "srun -n4 --gpus-per-task=1 --nic-placement=verbose $task",
    ),
    ("pairs", "srun -n2 --gpus-per-task=2 --nic-placement $task"),
    ("all", "srun -n1 -c4 --gres=gpu:4 --nic-placement $task"),
    (
        "core",
        "srun -n4 --gpus-per-task=1 --nic-placement=bind=core,omp=on $task",
    ),
    (
        "fence",
        "srun -n4 --gpus-per-task=1 --nic-placement=mem=strict $task",
    ),
    (
        "off",
        "srun -n4 --gpus-per-task=1 --nic-placement=off $task",
    ),
    ("silent", "srun -n4 --gpus-per-task=1 $task"),
    ("steps", steps!("--nic-placement")),
    ("cpuset", cpuset!("--nic-placement=verbose")),
    ("cpuset.strict", cpuset!("--nic-placement=strict")),
    (
        "refresh",
        "cp slurmd.log slurmd.before; nic-placement refresh && ls /run/nic-placement",
    ),
    (
        "kept",
        "srun -n4 --gpus-per-task=1 --nic-placement=verbose $task",
    ),
    (
        "unplugged",
        "rm -r /run/nic-placement; rmmod ib_uverbs && srun -n4 --gpus-per-task=1 --nic-placement=verbose $task",
    ),
    (
        "unplugged.json",
        "nic-placement check --json || [ $? -lt 3 ]",
    ),
    ("unplugged.show", "nic-placement show"),
];

/// 4k or 16k, if the guest is wanted.
fn pages() -> Option<String> {
    std::env::var("ARM").ok()
}

fn boot() -> Result<Machine, String> {
    let pages = pages().ok_or("without ARM=4k or ARM=16k no aarch64 guest is booted")?;
    let here = Path::new(env!("NIC_PLACEMENT_ROOT"));
    let tests = here.join("tests");
    let package = |name: &str| {
        let version = env!("CARGO_PKG_VERSION");
        let file = here.join(format!("target/packages/{name}_{version}-1_arm64.deb"));
        let file = file.display().to_string();
        assert!(
            Path::new(&file).exists(),
            "no `{file}`: run `make deb arch=aarch64`"
        );
        file
    };
    let mut also: Vec<String> = PACKAGES.map(package).to_vec();
    let script = |name: &str| tests.join("vm_slurm").join(name).display().to_string();
    also.extend(["gpus.sh", "slurm.sh"].map(script));
    let lines = |commands: &[(&str, &str)]| {
        let lines = commands.iter().map(|(name, line)| format!("{name} {line}"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("vm-arm");
    let guest = Boot {
        machine: "../vm_arm/grace",
        program: tests.join("vm_arm/node.sh"),
        arguments: vec![lines(WITHOUT), lines(WITH)],
        also: also.join(":"),
        out: out.clone(),
        more: vec![("VM_PAGES", pages)],
    };
    // a kernel of another architecture is silent for longer
    let watch = Watch {
        boot: tests.join("vm_arm/boot.sh"),
        silent: Watch::usual().silent.max(Duration::from_secs(180)),
        ..Watch::usual()
    };
    let ran = watch.run(&[guest]).outputs.remove(0);
    let said = String::from_utf8_lossy(&ran.stderr);
    match ran.status.code() {
        Some(0) => Ok(Machine::of("grace", WITH, out)),
        Some(CANNOT) => Err(format!("no guest under qemu: {}", said.trim())),
        code => panic!("the guest ended with {code:?}: {said}"),
    }
}

static GUEST: LazyLock<Result<Machine, String>> = LazyLock::new(boot);

/// The guest, once its steps have run; none if there is none, which is printed once.
fn guest() -> Option<&'static Machine> {
    static SAID: LazyLock<()> = LazyLock::new(|| {
        // not `eprintln!`: the test harness hides its text while tests pass
        let _ = match &*GUEST {
            Ok(guest) => writeln!(std::io::stderr(), "{}", guest.answer("times")),
            Err(reason) => writeln!(std::io::stderr(), "skipped: {reason}"),
        };
    });
    LazyLock::force(&SAID);
    GUEST.as_ref().ok()
}

const PACKAGES: [&str; 4] = [
    "nic-placement",
    "slurm-spank-nic-placement",
    "libnic-placement-core0",
    "libnic-placement-core-dev",
];

/// The node as the tool shows it.
fn topology(guest: &Machine) -> Topology {
    file::from_json(
        &guest.answer("show.json"),
        Provenance::File("show.json".into()),
    )
    .unwrap()
}

/// The texts of `check --json` for a check.
fn found(guest: &Machine, name: &str, code: &str) -> Vec<String> {
    let report: serde_json::Value = serde_json::from_str(&guest.answer(name)).unwrap();
    let findings = report["findings"].as_array().unwrap().iter();
    let findings = findings.filter(|finding| finding["code"] == code);
    findings
        .map(|finding| finding["text"].as_str().unwrap().to_string())
        .collect()
}

/// On its GPU's NUMA node: CPUs, policy and pages.
fn assert_near(guest: &Machine, tasks: &[Task]) {
    for task in tasks {
        let gpu = guest.gpu_of(task);
        assert!(task.cpus().is_subset(&gpu.cpus), "of {task:?}");
        let policy = format!("preferred-many:{}", gpu.numa_node);
        assert_eq!(task.word("policy"), policy, "of {task:?}");
        assert_eq!(task.node_of_its_pages(), Some(gpu.numa_node), "of {task:?}");
    }
}

/// Each a NIC of its GPU's NUMA node, which no other task has.
fn assert_nics(guest: &Machine, tasks: &[Task]) {
    let mut taken = BTreeSet::new();
    for task in tasks {
        let (nics, ucx) = (guest.nearest_nics(guest.gpu_of(task)), task.ucx());
        assert_eq!((nics.len(), ucx.len()), (2, 1), "{nics:?} of {task:?}");
        assert!(nics.iter().any(|nic| nic == ucx[0]), "{nics:?} of {task:?}");
        let named = format!("nics={} ", ucx[0]);
        let named = task
            .env("NIC_PLACEMENT")
            .is_some_and(|told| told.contains(&named));
        assert!(named, "of {task:?}");
        assert!(taken.insert(ucx[0].to_string()), "of {task:?}");
    }
}

/// As Slurm alone has it.
fn assert_as_without(bare: &[Task], tasks: &[Task]) {
    for (bare, task) in bare.iter().zip(tasks) {
        assert_eq!((task.cpus(), task.open()), (bare.cpus(), bare.open()));
        assert_eq!(task.word("policy"), "default", "of {task:?}");
        for name in ["UCX_NET_DEVICES", "NCCL_IB_HCA", "NIC_PLACEMENT"] {
            assert_eq!(task.env(name), None, "of {task:?}");
        }
    }
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
    let ids: Vec<u32> = guest
        .answer("packages")
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert!(ids.len() == 2 && ids[0] > 1, "{ids:?}");
    let packages: Vec<_> = node.numa_nodes.iter().map(|node| node.package).collect();
    assert_eq!(packages, [Some(ids[0]), Some(ids[1]), None, None]);
    let cores: Vec<_> = node.pus.iter().map(|pu| (pu.package, pu.core)).collect();
    assert_eq!(cores.len(), 4, "{cores:?}");
    assert_eq!(BTreeSet::from_iter(cores).len(), 4, "no SMT");
    assert_eq!(guest.answer("third-cache"), "", "no L3");
    let domains = |addresses: Vec<u32>| addresses;
    assert_eq!(
        domains(node.gpus.iter().map(|gpu| gpu.address.domain).collect()),
        [1, 2, 5, 6]
    );
    let nics = node.nics.iter().map(|nic| nic.address.unwrap().domain);
    assert_eq!(domains(nics.collect()), [3, 4, 7, 8]);
    let shown = guest.answer("show");
    assert!(shown.contains("no CPUs: memory only"), "{shown}");
}

#[test]
fn the_pages_are_of_the_size_that_was_asked_for() {
    let Some(guest) = guest() else { return };
    for task in guest.tasks("placed", 4) {
        assert_eq!(Some(format!("{}k", task.word("page"))), pages());
    }
}

#[test]
fn without_the_packages_tasks_run_where_slurm_deals_them_and_no_nic_is_named() {
    let Some(guest) = guest() else { return };
    for (step, count) in [("placed.bare", 4), ("pairs.bare", 2), ("all.bare", 1)] {
        let tasks = guest.tasks(step, count);
        assert_as_without(&tasks, &tasks);
    }
    let tasks = guest.tasks("placed.bare", 4);
    assert_eq!(guest.far(&tasks), 2, "{tasks:?}");
    assert_eq!(guest.with_far_pages(&tasks), 2, "{tasks:?}");
}

#[test]
fn with_the_plugin_each_task_and_all_its_pages_are_on_its_gpus_numa_node() {
    let Some(guest) = guest() else { return };
    assert_near(guest, &guest.tasks("placed", 4));
}

#[test]
fn each_task_gets_a_nic_of_its_own_beside_its_gpu_though_each_is_a_pci_domain() {
    let Some(guest) = guest() else { return };
    assert_nics(guest, &guest.tasks("placed", 4));
    let said = guest.answer("placed.stderr");
    for gpu in topology(guest).gpus {
        assert!(said.contains(&gpu.address.to_string()), "{said}");
    }
    let pairs = guest.tasks("pairs", 2);
    let nics = pairs.iter().map(|task| task.ucx().len());
    assert_eq!(nics.collect::<Vec<_>>(), [2, 2], "{pairs:?}");
}

#[test]
fn a_device_cgroup_leaves_each_task_one_gpu() {
    let Some(guest) = guest() else { return };
    for step in ["placed.bare", "placed"] {
        let tasks = guest.tasks(step, 4);
        let open: BTreeSet<_> = tasks.iter().map(Task::open).collect();
        assert_eq!(open, (0..4).map(|number| vec![number]).collect(), "{step}");
        for task in &tasks {
            assert_eq!(task.env("CUDA_VISIBLE_DEVICES"), Some("0"), "of {task:?}");
            // cgroup v2
            assert!(task.word("cgroup").starts_with("0::/"), "of {task:?}");
        }
    }
}

#[test]
fn steps_of_one_gpu_each_are_placed_side_by_side() {
    let Some(guest) = guest() else { return };
    for step in ["steps.bare", "steps"] {
        let open: BTreeSet<_> = guest.tasks(step, 4).iter().map(Task::open).collect();
        assert_eq!(open, (0..4).map(|number| vec![number]).collect(), "{step}");
    }
    let bare = guest.tasks("steps.bare", 4);
    assert_as_without(&bare, &bare);
    let steps = guest.tasks("steps", 4);
    for task in &steps {
        let (nics, ucx) = (guest.nearest_nics(guest.gpu_of(task)), task.ucx());
        assert!(
            ucx.len() == 1 && nics.iter().any(|nic| nic == ucx[0]),
            "{nics:?} of {task:?}"
        );
    }
}

#[test]
fn bind_core_gives_each_task_a_core_of_its_own_near_its_gpu() {
    let Some(guest) = guest() else { return };
    let tasks = guest.tasks("core", 4);
    assert_near(guest, &tasks);
    let cores: BTreeSet<String> = tasks.iter().map(|task| task.cpus().to_string()).collect();
    assert_eq!(cores, ["0", "1", "2", "3"].map(String::from).into());
    assert!(
        tasks
            .iter()
            .all(|task| task.env("OMP_NUM_THREADS") == Some("1"))
    );
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
        for task in guest.tasks(step, count) {
            let (_, preferred) = task.policy();
            assert!(preferred.iter().all(|node| node < 2), "of {task:?}");
            assert!(task.pages().keys().all(|node| *node < 2), "of {task:?}");
            assert_eq!(task.word("mems"), "0-3", "of {task:?}");
        }
    }
    assert_eq!(
        guest.tasks("all", 1)[0].word("policy"),
        "preferred-many:0-1"
    );
}

#[test]
fn mem_strict_fences_each_task_and_its_pages_in() {
    let Some(guest) = guest() else { return };
    for task in guest.tasks("fence", 4) {
        let gpu: &Gpu = guest.gpu_of(&task);
        assert_eq!(task.word("policy"), format!("bind:{}", gpu.numa_node));
        assert_eq!(task.node_of_its_pages(), Some(gpu.numa_node), "of {task:?}");
    }
}

#[test]
fn off_and_a_step_that_does_not_ask_are_as_without_the_plugin() {
    let Some(guest) = guest() else { return };
    let bare = guest.tasks("placed.bare", 4);
    for step in ["off", "silent"] {
        assert_as_without(&bare, &guest.tasks(step, 4));
    }
}

#[test]
fn memory_that_a_cpuset_withholds_is_reported_and_costs_no_job() {
    let Some(guest) = guest() else { return };
    let bare = guest.tasks("cpuset.bare", 4);
    assert_as_without(&bare, &bare);
    assert!(bare.iter().all(|task| task.word("mems") == "0"), "{bare:?}");
    let tasks = guest.tasks("cpuset", 4);
    assert_eq!(guest.far(&tasks), 0, "their CPUs are near all the same");
    for task in &tasks {
        let policy = match guest.gpu_of(task).numa_node {
            0 => "preferred-many:0",
            _ => "default",
        };
        assert_eq!((task.word("mems"), task.word("policy")), ("0", policy));
    }
    let said = guest.answer("cpuset.stderr");
    let told = said.matches(": memory: NUMA node 1 is outside the cpuset");
    assert_eq!(told.count(), 2, "{said}");
}

#[test]
fn memory_that_a_cpuset_withholds_ends_a_strict_task() {
    let Some(guest) = guest() else { return };
    assert_ne!(guest.answer("cpuset.strict.status").trim(), "0");
    let said = guest.answer("cpuset.strict.stderr");
    let told = said
        .lines()
        .filter(|line| line.contains("fails, as `strict`") && line.contains("NUMA node 1"));
    assert_eq!(told.count(), 2, "{said}");
}

#[test]
fn a_node_file_of_refresh_gives_each_task_the_same() {
    let Some(guest) = guest() else { return };
    assert!(guest.answer("refresh").contains("node.cache"));
    let read = |log: &str| {
        let log = guest.answer(log);
        log.matches("the node from `/run/nic-placement/node.cache`")
            .count()
    };
    assert_eq!(read("slurmd.before"), 0);
    assert!(read("slurmd.log") > 0, "no step has read the node file");
    let words = |step: &str| -> Vec<[String; 5]> {
        let tasks = guest.tasks(step, 4);
        let names = ["cpus", "policy", "open", "UCX_NET_DEVICES", "NCCL_IB_HCA"];
        let words = tasks
            .iter()
            .map(|task| names.map(|name| task.word(name).to_string()));
        words.collect()
    };
    assert_eq!(words("kept"), words("placed"));
}

#[test]
fn without_verbs_devices_check_and_show_say_as_each_step_does_that_no_nic_may_be_chosen() {
    let Some(guest) = guest() else { return };
    let judged = |name: &str| found(guest, name, "node").join("\n");
    let said = judged("check.json");
    assert!(said.contains("4 GPUs, 4 of 4 NICs may be chosen"), "{said}");
    let said = judged("unplugged.json");
    assert!(said.contains("4 GPUs, 0 of 4 NICs may be chosen"), "{said}");
    let shown = guest.answer("unplugged.show");
    let why = "`/dev/infiniband` is missing on this node";
    assert!(shown.contains(why), "{shown}");
    let tasks = guest.tasks("unplugged", 4);
    assert_near(guest, &tasks);
    for name in ["UCX_NET_DEVICES", "NCCL_IB_HCA"] {
        assert!(tasks.iter().all(|task| task.env(name).is_none()));
    }
    let said = guest.answer("unplugged.stderr");
    assert!(said.contains("no NIC of this node may be chosen"), "{said}");
}
