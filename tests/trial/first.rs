//! tests/gpu/first.sh as it is, on a played node: a DGX H100's /sys, a played driver, a real Slurm. One program lies, another hangs.

use super::Played;
use super::answer::{Answer, TOOL, printed};
use nic_placement_core::topology::{NicKind, PciAddress, Topology};
use nic_placement_fleet::trial::report::{self, TrialReport};
use nic_placement_node::platform;
use serde_json::Value;
use std::fmt::Write;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const MACHINE: &str = "dgx-h100";
/// Seconds in all that the script is given; its limits for programs shrink with it.
const LIMIT: u64 = 150;

struct First {
    played: Played,
    root: &'static Path,
}

impl First {
    /// The folder that pack.sh makes, without Slurm: this machine's own is used. `None` where it cannot run.
    fn new(name: &str) -> Option<First> {
        let root = Path::new(env!("NIC_PLACEMENT_ROOT"));
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
        let plugin = std::env::var_os("NIC_PLACEMENT_SO")
            .map_or(target.join("release/libnic_placement.so"), PathBuf::from);
        let runs = |program: &str, words: &[&str]| {
            let mut command = Command::new(program);
            command.args(words);
            let ended = command.stderr(Stdio::null()).stdout(Stdio::null());
            ended.status().is_ok_and(|status| status.success())
        };
        for (fits, why) in [
            (cfg!(target_arch = "x86_64"), "it is for x86_64"),
            (plugin.exists(), "no release of the plugin"),
            (runs("unshare", &["--mount", "true"]), "no mount namespaces"),
            (runs("python3", &["--version"]), "no python3"),
            (Path::new("/usr/sbin/slurmctld").exists(), "no Slurm"),
        ] {
            if !fits {
                println!("skipped: {why}");
                return None;
            }
        }
        let libraries = [("libcuda.c", "libcuda.so.1"), ("libnccl.c", "libnccl.so.2")];
        let played = Played::new(name, &libraries, &["-DNODE"])?;
        let first = First { played, root };
        for folder in ["bin", "pack/bin", "pack/lib"] {
            fs::create_dir_all(first.path(folder)).unwrap();
        }
        for entry in fs::read_dir(root.join("tests/gpu")).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), first.path("pack").join(entry.file_name())).unwrap();
        }
        fs::copy(TOOL, first.path("pack/bin/nic-placement")).unwrap();
        fs::copy(plugin, first.path("pack/lib/libnic_placement.so")).unwrap();
        Some(first)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.played.0.0.join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A program of ours in front of this machine's.
    fn program(&self, name: &str, script: &str) {
        let name = format!("bin/{name}");
        self.write(&name, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(self.path(&name), Permissions::from_mode(0o755)).unwrap();
    }

    fn run_to_end(&self, program: &Path, words: &[&str]) -> Vec<u8> {
        let output = Command::new(program).args(words).output().unwrap();
        assert!(output.status.success(), "{program:?} {words:?}: {output:?}");
        output.stdout
    }

    /// The played node, and the programs that know it; `lie` changes what `nvidia-smi topo -m` prints.
    fn play(&self, topology: &Topology, lie: impl Fn(String) -> String) {
        let words = |words: &[&str]| self.run_to_end(Path::new(TOOL), words);
        let at = |name: &str| self.path(name).display().to_string();
        let of_machine = |words: &str| printed(&format!("{words} --machine {MACHINE}"));
        self.write("manifest", &nic_placement_testing::snapshot_of(MACHINE));
        words(&["snapshot", "--unpack", &at("manifest"), &at("tree")]);
        let machine = self.root.join("tests/slurm/machine.sh");
        self.run_to_end(&machine, &["prepare", &at("tree"), &at("node")]);
        let open =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n";
        self.write("node/proc/driver/nvidia/version", open);
        let parameters = "EnableMSI: 1\nRegistryDwords: \"PeerMappingOverride=1;\"\n";
        self.write("node/proc/driver/nvidia/params", parameters);
        self.write("node.json", &of_machine("show --json"));
        let graph = words(&["import", &at("node.json"), "--to", "nccl"]);
        self.write("graph.xml", &as_dumped(topology, &graph));
        self.write("topo", &lie(matrix(topology)));
        self.write("q", &query(topology));
        self.write("L", &list(topology));
        let script =
            "case \"$*\" in 'topo -m') cat topo ;; -q) cat q ;; -L) cat L ;; *) exit 1 ;; esac";
        let script = format!("cd {}\n{script}", self.played.0.0.display());
        self.program("nvidia-smi", &script);
        // it does not heed the first signal either
        self.program("lspci", "trap '' TERM INT HUP\nsleep 300 & wait\nsleep 300");
        self.program("lstopo-no-graphics", "exit 1");
        let state = format!("-DSTATE=\"{}\"", at("fakecpu"));
        self.write("fakecpu", "");
        let source = &self.root;
        let source = source.join("tests/slurm/fakecpu.c").display().to_string();
        let library = at("fakecpu.so");
        let compiled = [
            "-O1", "-shared", "-fPIC", &state, "-o", &library, &source, "-ldl", "-pthread",
        ];
        self.run_to_end(Path::new("cc"), &compiled);
    }

    /// first.sh in the played node's mount namespace.
    fn script(&self) -> Command {
        let mut command = Command::new("unshare");
        let cgroups = if has_device_cgroups() { "yes" } else { "no" };
        let path = std::env::var("PATH").unwrap_or_default();
        let library = self.played.0.0.display();
        command.arg("--mount");
        command.arg(self.root.join("tests/slurm/machine.sh"));
        command.arg("alone");
        command.arg(self.path("node")).args([cgroups, "env"]);
        command.arg(format!("LD_PRELOAD={}", self.path("fakecpu.so").display()));
        command.arg(format!("LD_LIBRARY_PATH={library}"));
        command.arg(format!("PLAYED_GRAPH={}", self.path("graph.xml").display()));
        command.arg(format!("PATH={}:{path}", self.path("bin").display()));
        command.arg(format!("OUT={}", self.path("out").display()));
        command.arg(format!("LIMIT={LIMIT}"));
        command.arg(self.path("pack/first.sh")).stdin(Stdio::null());
        command
    }

    fn json(&self) -> Value {
        let text = fs::read(self.path("out/first.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    /// Processes that still name this test's folder in their environment or command line.
    fn left(&self) -> Vec<String> {
        let ours = self.played.0.0.display().to_string();
        let own = std::process::id().to_string();
        let told = |process: fs::DirEntry| {
            let name = process.file_name().to_string_lossy().into_owned();
            let text = |file| fs::read(process.path().join(file)).unwrap_or_default();
            let all = [text("environ"), text("cmdline")].concat();
            let all = String::from_utf8_lossy(&all).into_owned();
            let is_other = name.parse::<u32>().is_ok() && name != own;
            (is_other && all.contains(&ours)).then_some(all)
        };
        let all = fs::read_dir("/proc");
        all.unwrap().flatten().filter_map(told).collect()
    }
}

fn has_device_cgroups() -> bool {
    Path::new("/sys/fs/cgroup/devices/devices.list").exists()
}

/// As `nvidia-smi topo -m` prints it.
fn matrix(node: &Topology) -> String {
    let nics = node.nics.iter().filter(|nic| nic.kind == NicKind::Verbs);
    let nics = nics.filter_map(|nic| Some((&nic.name, nic.address?)));
    let nics: Vec<_> = nics.collect();
    let devices = node.gpus.iter().map(|gpu| gpu.address);
    let devices: Vec<_> = devices.chain(nics.iter().map(|nic| nic.1)).collect();
    let gpus = node.gpus.len();
    let name = |at: usize| match at.checked_sub(gpus) {
        Some(nic) => format!("NIC{nic}"),
        None => format!("GPU{at}"),
    };
    let mut text = (0..devices.len()).fold(String::new(), |line, at| line + "\t" + &name(at));
    text += "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n";
    for (row, from) in devices.iter().enumerate() {
        text += &name(row);
        for (column, to) in devices.iter().enumerate() {
            match (row == column, row < gpus && column < gpus) {
                (true, _) => text += "\t X ",
                (_, true) => text += "\tNV18",
                _ => write!(text, "\t{}", node.path_type(*from, *to)).unwrap(),
            }
        }
        if row < gpus {
            let numa = node.numa_node_of(*from).unwrap();
            let cpus = &node.numa_node(numa).unwrap().cpus;
            write!(text, "\t{cpus}\t{numa}\t\tN/A").unwrap();
        }
        text += "\n";
    }
    text += "\nLegend:\n\n  X    = Self\n\nNIC Legend:\n\n";
    for (at, (name, _)) in nics.iter().enumerate() {
        writeln!(text, "  NIC{at}: {name}").unwrap();
    }
    text
}

fn query(node: &Topology) -> String {
    node.gpus.iter().fold("==============NVSMI LOG==============\n\n".to_string(), |text, gpu| {
        let (model, uuid) = (gpu.model.as_ref().unwrap(), gpu.uuid.as_ref().unwrap());
        let address = gpu.address.to_string().to_uppercase();
        text + &format!(
            "GPU 0000{address}\n    Product Name                          : {model}\n    Minor Number                          : {}\n    \
             GPU UUID                              : {uuid}\n        GPU Link Info\n            PCIe Generation\n                \
             Max                       : 4\n                Current                   : 1\n                \
             Device Max                : 5\n             Link Width\n                \
             Max                       : 16x\n                Current                   : 16x\n\n",
            gpu.minor.unwrap(),
        )
    })
}

fn list(node: &Topology) -> String {
    let line = |(at, gpu): (usize, &nic_placement_core::topology::Gpu)| {
        let (model, uuid) = (gpu.model.as_ref().unwrap(), gpu.uuid.as_ref().unwrap());
        format!("GPU {at}: {model} (UUID: {uuid})\n")
    };
    node.gpus.iter().enumerate().map(line).collect()
}

/// NCCL's dump names the GPUs of its communicator and its networks, which a file for NCCL leaves to it.
fn as_dumped(node: &Topology, graph: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(graph).into_owned();
    let mut put = |address: PciAddress, element: String| {
        let begin = text.find(&format!("busid=\"{address}\"")).unwrap();
        let end = begin + text[begin..].find("/>").unwrap();
        text.replace_range(end..end + 2, &format!(">{element}</pci>"));
    };
    for (at, gpu) in node.gpus.iter().enumerate() {
        let element = format!("<gpu dev=\"{at}\" sm=\"90\" rank=\"{at}\" gdr=\"1\"/>");
        put(gpu.address, element);
    }
    for (at, nic) in node.nics.iter().enumerate() {
        let name = &nic.name;
        let net =
            format!("<net name=\"{name}\" dev=\"{at}\" speed=\"400000\" port=\"1\" gdr=\"1\"/>");
        put(nic.address.unwrap(), format!("<nic>{net}</nic>"));
    }
    text
}

/// GPU 2 and the first NIC are at SYS, in both rows.
fn lying(matrix: String) -> String {
    let cells = matrix.lines().map(|line| line.split('\t').collect());
    let mut lines: Vec<Vec<&str>> = cells.collect();
    for (row, column, name) in [(3, 9, "GPU2"), (9, 3, "NIC0")] {
        let found = (lines[row][0], lines[row][column]);
        assert_eq!(found, (name, "NODE"), "{matrix}");
        lines[row][column] = "SYS";
    }
    lines.iter().map(|cells| cells.join("\t") + "\n").collect()
}

fn strings(of: &Value) -> Vec<&str> {
    let all = of.as_array().unwrap().iter();
    all.map(|one| one.as_str().unwrap()).collect()
}

#[track_caller]
fn named<'v>(all: &'v Value, key: &str, name: &str) -> &'v Value {
    let mut all_of = all.as_array().unwrap().iter();
    let found = all_of.find(|one| one[key] == name);
    found.unwrap_or_else(|| panic!("no `{name}` in {all}"))
}

#[test]
fn the_first_hour_names_a_program_that_lies_and_one_that_hangs_and_asks_the_driver_in_each_way() {
    let first = First::new("first-hour");
    let Some(first) = first else { return };
    let topology = platform::model(MACHINE).unwrap();
    first.play(&topology, lying);
    let begun = Instant::now();
    let answer = Answer::of(&mut first.script());
    let said = answer.out.clone();
    assert!(begun.elapsed() < Duration::from_secs(LIMIT), "{answer}");
    answer.ends(3);
    assert_eq!(first.left(), [""; 0]);
    let result = first.json();
    let found = (&result["complete"], &result["played"]);
    assert_eq!(found, (&true.into(), &true.into()));

    // 1: the witnesses
    let of = |name: &str| named(&result["witnesses"], "program", name);
    for (name, facts) in [
        ("nvidia-smi -L, word for word", 25),
        ("nvidia-smi -q, word for word", 25),
        ("NCCL's dump, word for word", 24),
        ("NCCL, imported", 9),
    ] {
        assert_eq!(of(name)["differences"], Value::Array(Vec::new()), "{name}");
        assert!(of(name)["compared"].as_u64() >= Some(facts), "{}", of(name));
    }
    let lie = "nvidia-smi topo -m, word for word: GPU 2 to mlx5_0: NODE here, SYS there";
    let imported = "nvidia-smi topo -m, imported: GPU 2 to mlx5_0: NODE here, SYS there";
    let hung = of("lspci")["not_tried"].as_str().unwrap();
    assert!(hung.starts_with("`lspci` did not end within "), "{hung}");
    let ended = "`lstopo-no-graphics` ended with 1";
    assert_eq!(of("lstopo, imported")["not_tried"], ended);

    // 2: the forms; the played driver takes no MIG instance of a GPU that has none
    let form = |name: &str| named(&result["driver"]["forms"], "form", name);
    let unlike = "MIG of a GPU without instances";
    for one in result["driver"]["forms"].as_array().unwrap() {
        let differs = one["form"] == unlike;
        let agrees = if differs { "differs" } else { "agrees" };
        let by_plan = one["plan_verdict"].as_str().unwrap_or(agrees);
        let found = (&one["exec_verdict"], by_plan);
        assert_eq!(found, (&agrees.into(), agrees), "{one}");
    }
    let devices = |name: &str| strings(&form(name)["driver"]).len();
    for (form, count) in [
        ("unset", 8),
        ("empty", 0),
        ("all UUIDs, reversed", 8),
        ("ends at an unknown index", 1),
        ("an unknown UUID", 0),
        ("short UUID", 0),
    ] {
        assert_eq!(devices(form), count, "{form}");
    }
    let reversed = strings(&form("reversed indices")["exec"]);
    assert_eq!(reversed[0], "0000:df:00.0");

    // 3: Slurm; a device cgroup only where this machine has one
    let kinds = ["free", "constrained"].into_iter();
    let kinds = kinds.take(if has_device_cgroups() { 2 } else { 1 });
    for kind in kinds {
        let steps = &result["slurm"][kind]["steps"];
        let tasks = |name: &str| named(steps, "step", name)["tasks"].as_array().unwrap();
        assert_eq!(tasks("a GPU for each task").len(), 8, "{steps}");
        let all = steps.as_array().unwrap().iter();
        for task in all.flat_map(|step| step["tasks"].as_array().unwrap()) {
            assert_eq!(task["driver"], task["ours"], "{task}");
        }
        let said = strings(&named(steps, "step", "a GPU for the task")["report"]);
        let row = "gpu 0 0000:1b:00.0  nic mlx5_0:1 PIX";
        assert!(said[0].contains(row), "{said:?}");
    }
    let of_step =
        |kind: &str, name: &str| &named(&result["slurm"][kind]["steps"], "step", name)["tasks"][0];
    let bound = of_step("free", "all CPUs, bound near the GPU");
    for cpus in ["cpus", "set_cpus"] {
        assert_eq!(bound[cpus], "0-55,112-167");
    }
    assert_eq!(strings(&bound["nics"]), ["mlx5_0:1"]);
    if has_device_cgroups() {
        let task = of_step("constrained", "a task without a GPU");
        let none: &[&str] = &[];
        let found = [strings(&task["driver"]), strings(&task["ours"])];
        assert_eq!(found, [none, none]);
    } else {
        let why = result["slurm"]["constrained"]["not_tried"].as_str();
        assert_eq!(why, Some("no cgroups are mounted here"));
    }

    // 4: copies and GPUDirect
    for side in ["near", "default", "far"] {
        let figures = &result["copies"]["figures"][side]["to_device_mb_s"];
        assert!(figures[0].as_f64() > Some(1.0), "{}", result["copies"]);
    }
    let gpudirect = &result["gpudirect"];
    let allowed = [
        &gpudirect["peer_mapping_override"],
        &gpudirect["dma_buf"]["0000:1b:00.0"],
    ];
    assert_eq!(allowed, [true, true]);

    let mut others = strings(&result["differences"]);
    let count = others.len();
    others.retain(|of| ![lie, imported].contains(of));
    let is_mig = |of: &&str| of.contains("MIG-GPU-");
    let is_so = count == 4 && others.len() == 2 && others.iter().all(is_mig);
    assert!(is_so, "{said}");
    for part in [&format!("differs: {lie}"), "the driver is played"] {
        assert!(said.contains(part), "{said}");
    }

    // the file that docs/results would hold
    let sent: TrialReport = report::read(result["report"].to_string().as_bytes()).unwrap();
    let faults = report::faults(&sent);
    assert_eq!(faults, ["a program in it was played by a test"]);
    assert_eq!(sent.releases["NVIDIA"], "580.159.04");
    let agree: usize = sent.ways.iter().map(|way| way.agree).sum();
    assert!(agree > 60, "{sent:?}");
    let mut refused = Command::new(first.root.join("tests/gpu/result.sh"));
    refused.arg(first.path("out/first.json"));
    refused.env("RESULTS", first.path("results"));
    Answer::of(&mut refused).ends(1).says(&["played"]);
    assert!(!first.path("results").exists());
}

#[test]
fn a_first_hour_that_is_cut_off_leaves_what_it_found_and_no_process() {
    let first = First::new("first-cut");
    let Some(first) = first else { return };
    first.play(&platform::model(MACHINE).unwrap(), |text| text);
    let mut script = first.script().stdout(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let begins_with = |step: &str| {
        fs::read_to_string(first.path("out/first.log")).is_ok_and(|log| log.contains(step))
    };
    while !begins_with("1: other programs") && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(100));
    }
    // `unshare`, machine.sh and first.sh became the process that heeds it
    let pid = script.id().to_string();
    Answer::of(Command::new("kill").args(["-TERM", &pid])).ends(0);
    assert_eq!(script.wait().unwrap().code(), Some(1));
    assert_eq!(first.left(), [""; 0]);
    let result = first.json();
    assert_eq!(result["complete"], false);
    let gpus = result["machine"]["gpus"].as_array().map(Vec::len);
    assert_eq!(gpus, Some(8), "{result}");
    assert!(first.path("out/raw.tar.gz").exists());
}
