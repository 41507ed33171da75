//! The package for aarch64: its library in the fake Slurm, and its tool, both under qemu-user, beside those for x86_64.

use super::contents::unpacked;
use super::{path, text};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where Debian's cross compiler has the libraries of an aarch64 machine.
const SYSROOT: &str = "/usr/aarch64-linux-gnu";

fn printed(command: &mut Command) -> String {
    let output = command
        .current_dir(path(""))
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", text(&output));
    text(&output)
}

fn folders() -> [(PathBuf, Vec<&'static str>); 2] {
    [
        (unpacked("_1.0.0-1_amd64.deb"), vec![]),
        (
            unpacked("_1.0.0-1_arm64.deb"),
            vec!["qemu-aarch64-static", "-L", SYSROOT],
        ),
    ]
}

/// A program of that architecture.
fn command(words: &[&str], program: &Path) -> Command {
    match words.split_first() {
        None => Command::new(program),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    }
}

pub fn the_library_for_arm_places_tasks_as_the_one_for_x86_does() {
    let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join("arm-dgx-h100");
    let manifest = tree.with_extension("machine");
    let _ = std::fs::remove_dir_all(&tree);
    let tool = env!("CARGO_BIN_EXE_nic-placement");
    std::fs::write(&manifest, nic_placement_testing::snapshot_of("dgx-h100")).unwrap();
    printed(
        Command::new(tool)
            .args(["snapshot", "--unpack"])
            .arg(&manifest)
            .arg(&tree),
    );
    let said = ["cc", "aarch64-linux-gnu-gcc"]
        .into_iter()
        .zip(folders())
        .map(|(compiler, (folder, words))| {
            let host =
                Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("spank_host-{compiler}"));
            printed(
                Command::new(compiler)
                    .args(["-O1", "-rdynamic", "-o"])
                    .arg(&host)
                    .args(["tests/host/spank_host.c", "-ldl"]),
            );
            let library = folder.join("usr/lib/nic-placement/libnic_placement.so");
            let mut step = command(&words, &host);
            step.arg("--so")
                .arg(library)
                .arg("--arg")
                .arg(format!("sysfs={}", tree.display()));
            step.args(["--arg", "default=closest,bind=none,mem=none", "--network"])
                .arg(&tree);
            step.args([
                "--task",
                "CUDA_VISIBLE_DEVICES=0",
                "--task",
                "CUDA_VISIBLE_DEVICES=4",
            ]);
            // qemu-user has a thread of its own, of which the fake Slurm complains, and no get_mempolicy(2)
            let is_qemus = |line: &str| {
                line.contains(": host: 2 threads") || line.contains(": memory default")
            };
            let lines = printed(&mut step);
            lines
                .lines()
                .filter(|line| !is_qemus(line))
                .map(|line| format!("{line}\n"))
                .collect::<String>()
        });
    let [x86, arm] = said.collect::<Vec<_>>().try_into().expect("two");
    assert!(
        arm.contains("gpus=0000:1b:00.0 nics=mlx5_0:1")
            && arm.contains("gpus=0000:9d:00.0 nics=mlx5_6:1"),
        "{arm}"
    );
    assert_eq!(x86, arm);
}

pub fn the_tool_for_arm_prints_the_same_bytes() {
    for arguments in [
        &[
            "plan",
            "--machine",
            "dgx-h100",
            "--gpus-per-task",
            "1",
            "-v",
        ][..],
        &[
            "plan",
            "--machine",
            "gb200-nvl72",
            "--gpus-per-task",
            "1",
            "-v",
        ],
        &["show", "--machine", "dgx-h100"],
        &["show", "--machine", "dgx-h100", "--gpu", "3"],
        &["map", "--machine", "dgx-h100"],
        &["show", "--machine", "frontier", "--json"],
    ] {
        let [x86, arm] = folders().map(|(folder, words)| {
            printed(command(&words, &folder.join("usr/bin/nic-placement")).args(arguments))
        });
        assert!(x86 == arm && x86.len() > 100, "{arguments:?}: {arm}");
    }
}
