//! The package for aarch64: its library in the fake Slurm, and its tool, both under qemu-user, beside those for x86_64.

use super::contents::unpacked;
use super::{path, text};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian's cross compiler has the libraries of an aarch64 machine.
const SYSROOT: &str = "/usr/aarch64-linux-gnu";

fn printed(command: &mut Command) -> String {
    let output = command.current_dir(path("")).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    text(&output)
}

/// The command that starts a program of each architecture's package.
fn both(program: impl Fn(&Path) -> PathBuf) -> [Command; 2] {
    let native = Command::new(program(&unpacked("_1.0.0-1_amd64.deb")));
    let mut qemu = Command::new("qemu-aarch64-static");
    qemu.args(["-L", SYSROOT])
        .arg(program(&unpacked("_1.0.0-1_arm64.deb")));
    [native, qemu]
}

pub fn the_library_for_arm_places_tasks_as_the_one_for_x86_does() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let tree = folder.join("arm-dgx-h100");
    let manifest = tree.with_extension("machine");
    let _ = std::fs::remove_dir_all(&tree);
    let tool = || Command::new(env!("CARGO_BIN_EXE_nic-placement"));
    std::fs::write(&manifest, nic_placement_testing::snapshot_of("dgx-h100")).unwrap();
    let mut unpack = tool();
    unpack.args(["snapshot", "--unpack"]).arg(&manifest);
    printed(unpack.arg(&tree));
    let compilers = ["cc", "aarch64-linux-gnu-gcc"];
    let hosts = compilers.map(|compiler| {
        let host = folder.join(format!("spank_host-{compiler}"));
        let mut command = Command::new(compiler);
        command.args(["-O1", "-rdynamic", "-o"]).arg(&host);
        printed(command.args(["tests/host/spank_host.c", "-ldl"]));
        host
    });
    let mut steps =
        both(|folder| hosts[usize::from(folder.ends_with("_1.0.0-1_arm64.deb.d"))].clone());
    let [x86, arm] = ["amd64", "arm64"].map(|arch| {
        let step = &mut steps[usize::from(arch == "arm64")];
        let package = folder.join(format!("_1.0.0-1_{arch}.deb.d"));
        step.arg("--so")
            .arg(package.join("usr/lib/nic-placement/libnic_placement.so"));
        step.arg("--arg").arg(format!("sysfs={}", tree.display()));
        step.args(["--arg", "default=closest,bind=none,mem=none", "--network"])
            .arg(&tree);
        let tasks = "--task CUDA_VISIBLE_DEVICES=0 --task CUDA_VISIBLE_DEVICES=4";
        step.args(tasks.split(' '));
        // qemu-user has a thread of its own, of which the fake Slurm complains, and no
        // get_mempolicy(2)
        let is_qemus =
            |line: &&str| line.contains(": host: 2 threads") || line.contains(": memory default");
        let lines = printed(step);
        let lines = lines.lines().filter(|line| !is_qemus(line));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    });
    for task in "gpus=0000:1b:00.0 nics=mlx5_0:1|gpus=0000:9d:00.0 nics=mlx5_6:1".split('|') {
        assert!(arm.contains(task), "{arm}");
    }
    assert_eq!(x86, arm);
}

pub fn the_tool_for_arm_prints_the_same_bytes() {
    let all = "plan --machine dgx-h100 --gpus-per-task 1 -v|\
               plan --machine gb200-nvl72 --gpus-per-task 1 -v|show --machine dgx-h100|\
               show --machine dgx-h100 --gpu 3|map --machine dgx-h100|\
               show --machine frontier --json";
    for line in all.split('|') {
        let tools = both(|folder| folder.join("usr/bin/nic-placement"));
        let [x86, arm] = tools.map(|mut tool| printed(tool.args(line.split(' '))));
        assert!(x86 == arm && x86.len() > 100, "{line}: {arm}");
    }
}
