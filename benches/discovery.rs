//! What it takes to read a node: this project's discovery beside hwloc's of the same tree, and beside a C program that does
//! nothing but open and read the same files.
//!
//! ```text
//! cargo bench --bench discovery        (a C compiler; hwloc's headers: Debian's libhwloc-dev)
//! ```
//!
//! All read the tree of a DGX H100 that was written to disk, in turns.  hwloc reads more (caches, memory, all PCI devices) and
//! no port of a NIC, so the figures tell the order of magnitude, not which is better.

#[path = "../tests/host/harness.rs"]
mod harness;
#[path = "../tests/host/node.rs"]
mod node;

use nic_placement_core::topology::{Provenance, Pu};
use nic_placement_node::discover::root::Author;
use nic_placement_node::discover::{Root, Scope};
use nic_placement_node::platform;
use nic_placement_node::read_root;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// Turns, and passes of each reader in a turn.
const TURNS: usize = 20;
const PASSES: usize = 20;

fn built() -> Result<PathBuf, String> {
    harness::c_compiler().ok_or("there is no C compiler")?;
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join("discovery");
    let flags = ["-O2".as_ref(), "-o".as_ref(), built.as_os_str()];
    let output = harness::compile(
        flags,
        &harness::manifest_path("benches/discovery.c"),
        ["-lhwloc"],
    );
    match output.status.success() {
        true => Ok(built),
        false => Err(format!(
            "skipped: hwloc's headers are missing (libhwloc-dev):\n{}",
            harness::stderr(&output)
        )),
    }
}

/// Microseconds of each pass, and how much was found.
fn ran(program: &Path, what: &str, tree: &Path, list: &str) -> Result<(Vec<f64>, String), String> {
    let mut child = Command::new(program)
        .args([what, &PASSES.to_string()])
        .envs([
            ("HWLOC_FSROOT", tree.as_os_str()),
            ("HWLOC_THISSYSTEM", "0".as_ref()),
        ])
        .env("HWLOC_COMPONENTS", "linux,stop")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut stdin = child.stdin.take().ok_or("no stdin")?;
    stdin
        .write_all(list.as_bytes())
        .map_err(|error| error.to_string())?;
    drop(stdin);
    let output = child
        .wait_with_output()
        .map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (times, found) = said.split_once("found ").ok_or("it failed")?;
    Ok((
        times
            .split_whitespace()
            .filter_map(|time| time.parse().ok())
            .collect(),
        found.trim().to_string(),
    ))
}

/// Writes which CPUs share a core and a package, as the kernel does (Documentation/admin-guide/cputopology.rst): hwloc reads no
/// CPUs without it, and this project has no use for it.
fn complete_for_hwloc(tree: &Path) -> Result<(), String> {
    let topology = platform::model("dgx-h100").ok_or("no such machine")?;
    let mask = |is_it: &dyn Fn(&Pu) -> bool| {
        let mut words = vec![
            0u32;
            topology
                .pus
                .iter()
                .map(|pu| pu.os_index as usize / 32 + 1)
                .max()
                .unwrap_or(1)
        ];
        let members = topology.pus.iter().filter(|pu| is_it(pu));
        members.for_each(|pu| words[pu.os_index as usize / 32] |= 1 << (pu.os_index % 32));
        words
            .iter()
            .rev()
            .map(|word| format!("{word:08x}"))
            .collect::<Vec<_>>()
            .join(",")
            + "\n"
    };
    for pu in &topology.pus {
        let folder = tree.join(format!(
            "sys/devices/system/cpu/cpu{}/topology",
            pu.os_index
        ));
        let of_package = |other: &Pu| other.package == pu.package;
        let of_core = |other: &Pu| other.package == pu.package && other.core == pu.core;
        for (name, text) in [
            ("package_cpus", mask(&of_package)),
            ("core_cpus", mask(&of_core)),
        ] {
            std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
            std::fs::write(folder.join(name), text).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

fn read(tree: &Path, scope: Scope) -> usize {
    let root = Root::directory(tree, Author::Anyone).expect("the tree is there");
    read_root(&root, scope, Provenance::ThisSystem).0.nics.len()
}

/// The files and folders that a discovery asks for, whether they are there or not.
fn asked_for(tree: &Path, scope: Scope) -> String {
    let mut root = Root::directory(tree, Author::Anyone).expect("the tree is there");
    root.record();
    read_root(&root, scope, Provenance::ThisSystem);
    let manifest = nic_placement_formats::manifest::text(&root.recorded());
    let lines = manifest
        .lines()
        .skip(1)
        .filter(|line| !line.starts_with('|') && !line.contains(" -> "));
    let paths = lines.map(|line| {
        line.split(" = ")
            .next()
            .unwrap_or(line)
            .trim_end_matches('/')
    });
    paths
        .map(|path| format!("{}/{path}\n", tree.display()))
        .collect()
}

fn measure() -> Result<(), String> {
    let program = built()?;
    let tree = node::Node::new("bench-discovery").tree;
    complete_for_hwloc(&tree)?;
    let list = asked_for(&tree, Scope::Placement);
    let mut rows: Vec<(&str, Vec<f64>, String)> = [
        "a C program: open, read, close",
        "placement",
        "placement and cores",
        "hwloc",
    ]
    .map(|name| (name, Vec::new(), String::new()))
    .into();
    for _ in 0..TURNS {
        let (times, found) = ran(&program, "files", &tree, &list)?;
        rows[0].1.extend(times);
        rows[0].2 = format!("{found} files and folders");
        for (row, scope) in [(1, Scope::Placement), (2, Scope::Cores)] {
            for _ in 0..PASSES {
                let begun = Instant::now();
                let nics = read(&tree, scope);
                rows[row].1.push(begun.elapsed().as_secs_f64() * 1e6);
                rows[row].2 = format!("{nics} RDMA devices");
            }
        }
        let (times, found) = ran(&program, "hwloc", &tree, "")?;
        rows[3].1.extend(times);
        rows[3].2 = format!("{found} RDMA devices");
    }
    println!("reading a DGX H100's tree, us: {TURNS} turns of {PASSES}\n");
    for (name, times, found) in &mut rows {
        times.sort_by(f64::total_cmp);
        println!(
            "{name:<32} median {:>8.0}  least {:>8.0}   {found}",
            times[times.len() / 2],
            times[0]
        );
    }
    let median = |row: usize| rows[row].1[rows[row].1.len() / 2];
    println!(
        "\nplacement / C program {:.2}   hwloc / placement and cores {:.2}",
        median(1) / median(0),
        median(3) / median(2)
    );
    Ok(())
}

fn main() -> ExitCode {
    // `cargo test --benches` runs this too, but without `--bench`; figures of a debug build mean nothing
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("discovery: {reason}");
            ExitCode::FAILURE
        }
    }
}
