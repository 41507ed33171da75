//! hwloc's XML: every file of the corpus loads, and hwloc's own tools agree on where its GPUs and NICs are.
//!
//! The second opinion is libhwloc's: `lstopo` prints its tree, from which the kinds of paths are counted here again by
//! the lines' indentation, and `hwloc-calc` says which NUMA nodes a function is next to.
#![forbid(unsafe_code)]

use nic_placement::import;
use nic_placement::topology::{GpuVendor, Nic, NicKind, PathType, PciAddress, Provenance, Topology};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// GPU to NICs as vendors and sites state them: `(file, GPU, its NUMA node, its nearest fabric NICs)`.
const STATED: [(&str, &str, u32, &[&str]); 24] = [
    // LLNL Tioga, and so Frontier: two dies of MI250X for each Slingshot NIC
    ("mpibind__eas-tioga.xml", "c1:00.0", 3, &["hsi0"]),
    ("mpibind__eas-tioga.xml", "c6:00.0", 3, &["hsi0"]),
    ("mpibind__eas-tioga.xml", "c9:00.0", 1, &["hsi1"]),
    ("mpibind__eas-tioga.xml", "ce:00.0", 1, &["hsi1"]),
    ("mpibind__eas-tioga.xml", "d1:00.0", 0, &["hsi2"]),
    ("mpibind__eas-tioga.xml", "d6:00.0", 0, &["hsi2"]),
    ("mpibind__eas-tioga.xml", "d9:00.0", 2, &["hsi3"]),
    ("mpibind__eas-tioga.xml", "de:00.0", 2, &["hsi3"]),
    // AWS p4d.24xlarge: two A100 and one EFA on each host bridge
    ("nixl__p4d.24xl-topo.xml", "10:1c.0", 0, &["rdmap16s27"]),
    ("nixl__p4d.24xl-topo.xml", "10:1d.0", 0, &["rdmap16s27"]),
    ("nixl__p4d.24xl-topo.xml", "20:1c.0", 0, &["rdmap32s27"]),
    ("nixl__p4d.24xl-topo.xml", "20:1d.0", 0, &["rdmap32s27"]),
    ("nixl__p4d.24xl-topo.xml", "90:1c.0", 1, &["rdmap144s27"]),
    ("nixl__p4d.24xl-topo.xml", "90:1d.0", 1, &["rdmap144s27"]),
    ("nixl__p4d.24xl-topo.xml", "a0:1c.0", 1, &["rdmap160s27"]),
    ("nixl__p4d.24xl-topo.xml", "a0:1d.0", 1, &["rdmap160s27"]),
    // AWS p5.48xlarge: four EFA behind each H100's switch
    ("nixl__p5.48xl-topo.xml", "53:00.0", 0, &["rdmap79s0", "rdmap80s0", "rdmap81s0", "rdmap82s0"]),
    ("nixl__p5.48xl-topo.xml", "64:00.0", 0, &["rdmap96s0", "rdmap97s0", "rdmap98s0", "rdmap99s0"]),
    ("nixl__p5.48xl-topo.xml", "75:00.0", 0, &["rdmap113s0", "rdmap114s0", "rdmap115s0", "rdmap116s0"]),
    ("nixl__p5.48xl-topo.xml", "86:00.0", 0, &["rdmap130s0", "rdmap131s0", "rdmap132s0", "rdmap133s0"]),
    ("nixl__p5.48xl-topo.xml", "97:00.0", 1, &["rdmap147s0", "rdmap148s0", "rdmap149s0", "rdmap150s0"]),
    ("nixl__p5.48xl-topo.xml", "a8:00.0", 1, &["rdmap164s0", "rdmap165s0", "rdmap166s0", "rdmap167s0"]),
    ("nixl__p5.48xl-topo.xml", "b9:00.0", 1, &["rdmap181s0", "rdmap182s0", "rdmap183s0", "rdmap184s0"]),
    ("nixl__p5.48xl-topo.xml", "ca:00.0", 1, &["rdmap198s0", "rdmap199s0", "rdmap200s0", "rdmap201s0"]),
];

/// GPUs, NICs and what they are next to, by address and name, so that two readings can be compared.
#[derive(Debug, Default, PartialEq, Eq)]
struct Reading {
    gpus: BTreeSet<PciAddress>,
    nics: BTreeMap<String, PciAddress>,
    paths: BTreeMap<(PciAddress, String), PathType>,
}

impl Reading {
    /// The NICs on the shortest kind of path from `gpu`.
    fn nearest(&self, gpu: PciAddress) -> BTreeSet<&str> {
        let paths = || self.paths.iter().filter(|((from, _), _)| *from == gpu);
        let least = paths().map(|(_, kind)| *kind).min();
        paths().filter(|(_, kind)| Some(**kind) == least).map(|((_, nic), _)| nic.as_str()).collect()
    }
}

fn ours(topology: &Topology) -> Reading {
    let mut reading = Reading::default();
    reading.gpus.extend(topology.gpus.iter().map(|gpu| gpu.address));
    for nic in &topology.nics {
        let Some(address) = nic.address else { continue };
        reading.nics.insert(nic.name.clone(), address);
        for gpu in &topology.gpus {
            reading.paths.insert((gpu.address, nic.name.clone()), topology.path(gpu.address, address).kind);
        }
    }
    reading
}

/// Runs all checks on `corpus/hwloc_xml`.
pub fn run(corpus: &Path) -> Result<String, String> {
    let folder = corpus.join("hwloc_xml");
    let listed = std::fs::read_dir(&folder).map_err(|error| format!("`{}`: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> = listed.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "xml"));
    files.sort();
    if files.is_empty() {
        return Err(format!("`{}`: no file `*.xml`", folder.display()));
    }
    let tools = ["lstopo-no-graphics", "hwloc-calc"];
    let installed = tools.iter().all(|tool| Command::new(tool).arg("--version").output().is_ok());
    let (mut gpus, mut nics, mut findings) = (0, 0, 0);
    let (mut compared, mut transcribed, mut pairs, mut compared_gpus) = (0, 0, 0, 0);
    let (mut stated, mut wrong) = (0, Vec::new());
    for path in &files {
        let file = path.file_name().unwrap_or_default().to_string_lossy().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| format!("`{file}`: {error}"))?;
        let (topology, diagnostics) = import::hwloc::read(&text, Provenance::File(file.clone()))
            .map_err(|bad| format!("`{file}` does not load: {bad}"))?;
        gpus += topology.gpus.len();
        nics += topology.nics.len();
        findings += diagnostics.len();
        let ours = ours(&topology);
        for (_, gpu, numa, expected) in STATED.iter().filter(|row| row.0 == file) {
            stated += 1;
            wrong.extend(check_stated(&topology, gpu, *numa, expected).map(|why| format!("`{file}`: {why}")));
        }
        if installed {
            let text = as_hwloc_2_reads_it(&text);
            transcribed += usize::from(text.1);
            let (theirs, cpus) = theirs(&file, &text.0)?;
            compared += 1;
            pairs += theirs.paths.len();
            compared_gpus += theirs.gpus.len();
            if cpus != topology.pus.len() {
                wrong.push(format!("`{file}`: {} CPUs, hwloc says {cpus}", topology.pus.len()));
            }
            wrong.extend(differences(&ours, &theirs).into_iter().map(|why| format!("`{file}`: {why}")));
        }
    }
    if stated != STATED.len() {
        wrong.push(format!("{stated} of {} stated mappings are of files that are there", STATED.len()));
    }
    if !wrong.is_empty() {
        return Err(format!("{} differences:\n{}", wrong.len(), wrong.join("\n")));
    }
    let second = if installed {
        format!(
            "{compared} files compared with libhwloc ({transcribed} of version 3 transcribed to 2): \
             {compared_gpus} GPUs, {pairs} GPU-NIC paths, 0 differing"
        )
    } else {
        "not compared: hwloc's tools are not installed".to_string()
    };
    Ok(format!(
        "hwloc: {} files, {gpus} GPUs, {nics} NICs, {findings} findings; {second}; {stated} stated mappings, 0 differing",
        files.len()
    ))
}

fn check_stated(topology: &Topology, gpu: &str, numa: u32, expected: &[&str]) -> Option<String> {
    let address: PciAddress = gpu.parse().ok()?;
    let fabric = |nic: &&Nic| nic.kind != NicKind::Ethernet;
    let kind = |nic: &Nic| nic.address.map(|to| topology.path(address, to).kind);
    let least = topology.nics.iter().filter(fabric).filter_map(kind).min();
    let nearest = topology.nics.iter().filter(fabric).filter(|nic| kind(nic) == least);
    let nearest: BTreeSet<&str> = nearest.map(|nic| nic.name.as_str()).collect();
    if topology.gpu_index(address).is_none() {
        return Some(format!("no GPU `{gpu}`"));
    }
    if topology.numa_node_of(address) != Some(numa) {
        return Some(format!("GPU `{gpu}` at NUMA node {:?}, stated {numa}", topology.numa_node_of(address)));
    }
    let wanted: BTreeSet<&str> = expected.iter().copied().collect();
    (nearest != wanted).then(|| format!("GPU `{gpu}` nearest to {nearest:?}, stated {wanted:?}"))
}

fn differences(ours: &Reading, theirs: &Reading) -> Vec<String> {
    let mut found = Vec::new();
    if ours.gpus != theirs.gpus {
        found.push(format!("GPUs {:?}, hwloc shows {:?}", ours.gpus, theirs.gpus));
    }
    if ours.nics != theirs.nics {
        found.push(format!("NICs {:?}, hwloc shows {:?}", ours.nics, theirs.nics));
    }
    for (pair, kind) in &theirs.paths {
        if ours.paths.get(pair) != Some(kind) {
            found.push(format!("{pair:?} {:?}, by hwloc's tree {kind}", ours.paths.get(pair)));
        }
    }
    for &gpu in &theirs.gpus {
        if ours.nearest(gpu) != theirs.nearest(gpu) {
            found.push(format!("{gpu} nearest {:?}, hwloc {:?}", ours.nearest(gpu), theirs.nearest(gpu)));
        }
    }
    found
}

/// The text as hwloc 2 without libxml2 can read it, and whether it was of version 3: without comments; and without what
/// version 3 added, which is not about places (OS devices' types became bits).
fn as_hwloc_2_reads_it(text: &str) -> (String, bool) {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!--") {
        plain.push_str(before.trim_end_matches(' '));
        rest = after.split_once("-->").map_or("", |(_, after)| after.trim_start_matches('\n'));
    }
    plain.push_str(rest);
    if !plain.contains("<topology version=\"3") {
        return (plain, false);
    }
    let mut older: String = plain
        .replace("<topology version=\"3.0\">", "<topology version=\"2.0\">")
        .lines()
        .filter(|line| !line.starts_with("  <info ") && !line.starts_with("  <pci_locality"))
        .flat_map(|line| [line, "\n"])
        .collect();
    for (bits, number) in
        [(1, 0), (2, 0), (3, 0), (4, 1), (8, 5), (12, 5), (16, 2), (32, 3), (48, 3), (64, 4)]
    {
        older = older.replace(&format!("osdev_type=\"{bits}\""), &format!("osdev_type=\"_{number}\""));
    }
    (older.replace("osdev_type=\"_", "osdev_type=\""), true)
}

/// Runs one of hwloc's tools on `input`.
fn tool(file: &str, command: &str, arguments: &[&str], input: &str) -> Result<String, String> {
    let failed = |what: String| format!("`{file}`: {command}: {what}");
    let mut child = Command::new(command)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let mut pipe = child.stdin.take().ok_or_else(|| failed("no pipe".to_string()))?;
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(move || pipe.write_all(input.as_bytes()));
        (child.wait_with_output(), writer.join())
    });
    let output = written.0.map_err(|error| failed(error.to_string()))?;
    let said = String::from_utf8_lossy(&output.stderr).to_string();
    if !output.status.success() {
        return Err(failed(said));
    }
    String::from_utf8(output.stdout).map_err(|error| failed(error.to_string()))
}

/// A line of lstopo's tree.
struct Line<'t> {
    text: &'t str,
    parent: Option<usize>,
}

impl<'t> Line<'t> {
    /// `busid=0000:d1:00.0`
    fn field(&self, key: &str) -> Option<&'t str> {
        let (_, rest) = self.text.split_once(key)?;
        Some(rest.split([' ', ')', '(']).next().unwrap_or(rest))
    }

    fn address(&self) -> Option<PciAddress> {
        self.field("busid=")?.parse().ok()
    }
}

fn tree(printed: &str) -> Vec<Line<'_>> {
    let mut lines: Vec<Line> = Vec::new();
    let mut open: Vec<(usize, usize)> = Vec::new();
    for line in printed.lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        while open.last().is_some_and(|(outer, _)| *outer >= indent) {
            open.pop();
        }
        lines.push(Line { text, parent: open.last().map(|(_, place)| *place) });
        open.push((indent, lines.len() - 1));
    }
    lines
}

/// What libhwloc makes of the file: the reading, and how many CPUs there are.
fn theirs(file: &str, text: &str) -> Result<(Reading, usize), String> {
    let copy = std::env::temp_dir().join(format!("nic-placement-hwloc-{}.xml", std::process::id()));
    std::fs::write(&copy, text).map_err(|error| format!("`{}`: {error}", copy.display()))?;
    let read = theirs_of(file, &copy.to_string_lossy());
    std::fs::remove_file(&copy).map_err(|error| format!("`{}`: {error}", copy.display()))?;
    read
}

fn theirs_of(file: &str, copy: &str) -> Result<(Reading, usize), String> {
    let arguments = ["-i", copy, "--of", "console", "-v", "--whole-io", "--no-collapse", "--disallowed"];
    let printed = tool(file, "lstopo-no-graphics", &arguments, "")?;
    let lines = tree(&printed);
    let above = |line: usize| std::iter::successors(lines[line].parent, |&place| lines[place].parent);
    let mut reading = Reading::default();
    let mut places: BTreeMap<PciAddress, usize> = BTreeMap::new();
    let mut interfaces: BTreeMap<usize, (Vec<String>, Vec<String>)> = BTreeMap::new();
    for (place, line) in lines.iter().enumerate() {
        let device = above(place).find(|&above| lines[above].text.starts_with("PCI L#"));
        let name = line.text.strip_suffix('"').and_then(|text| text.rsplit_once('"')).map(|(_, name)| name);
        if let (true, Some(address)) = (line.text.starts_with("PCI L#"), line.address()) {
            places.insert(address, place);
            let class = line.field("class=").unwrap_or_default();
            let (vendor, id) = line.field(" id=").and_then(|id| id.split_once(':')).unwrap_or_default();
            let vendor = u16::from_str_radix(vendor, 16).ok().and_then(GpuVendor::from_pci);
            // the AMD chip is a server's console (ES1000), and Intel's class 0300 a CPU's graphics
            let gpu = ["0300", "0302", "0380", "1200"].contains(&class) && id != "515e";
            if gpu && vendor.is_some() && (vendor, class) != (Some(GpuVendor::Intel), "0300") {
                reading.gpus.insert(address);
            }
        } else if let (Some(device), Some(name)) = (device, name) {
            let (verbs, plain) = interfaces.entry(device).or_default();
            if line.text.starts_with("OpenFabrics") {
                verbs.push(name.to_string());
            } else if line.text.starts_with("Network") {
                plain.push(name.to_string());
            }
        }
    }
    for (place, (verbs, plain)) in interfaces {
        let address = lines[place].address().ok_or_else(|| format!("`{file}`: `{}`", lines[place].text))?;
        let names = if verbs.is_empty() { plain } else { verbs };
        reading.nics.extend(names.into_iter().map(|name| (name, address)));
    }
    let wanted: BTreeSet<PciAddress> = reading.gpus.iter().chain(reading.nics.values()).copied().collect();
    let questions: String = wanted.iter().map(|address| format!("pci={address}\n")).collect();
    let answers = match questions.is_empty() {
        true => String::new(),
        false => tool(file, "hwloc-calc", &["-i", copy, "--disallowed", "--po", "-I", "numa"], &questions)?,
    };
    // the tool tells whoever sits at a terminal that it waits
    let answers: Vec<&str> = answers.lines().filter(|line| !line.starts_with("Waiting")).collect();
    if answers.len() != wanted.len() {
        return Err(format!("`{file}`: hwloc-calc: {} answers to {} questions", answers.len(), wanted.len()));
    }
    let nodes: BTreeMap<PciAddress, &str> = wanted.into_iter().zip(answers).collect();
    for &gpu in &reading.gpus {
        for (name, nic) in &reading.nics {
            let bridges = |address: &PciAddress| -> Vec<usize> {
                let place = places.get(address).copied();
                place
                    .into_iter()
                    .flat_map(above)
                    .filter(|&place| lines[place].text.contains("Bridge L#"))
                    .collect()
            };
            let (from, to) = (bridges(&gpu), bridges(nic));
            let lowest = from.iter().position(|bridge| to.contains(bridge));
            let kind = match lowest.map(|below| (below, from[below])) {
                Some((_, bridge)) if lines[bridge].text.starts_with("HostBridge") => PathType::Phb,
                Some((below, bridge)) => match to.iter().position(|other| *other == bridge) {
                    Some(other) if below <= 1 && other <= 1 => PathType::Pix,
                    _ => PathType::Pxb,
                },
                // `0` is one node, `0,1` are several
                None => match (nodes.get(&gpu), nodes.get(nic)) {
                    (Some(a), Some(b)) if a == b && a.parse::<u32>().is_ok() => PathType::Node,
                    _ => PathType::Sys,
                },
            };
            reading.paths.insert((gpu, name.clone()), kind);
        }
    }
    let cpus = tool(file, "hwloc-calc", &["-i", copy, "--disallowed", "-N", "pu", "machine:0"], "")?;
    // files that people have cut down may have no CPU, for which the tool prints nothing
    let cpus = match cpus.trim() {
        "" => 0,
        count => count.parse().map_err(|_| format!("`{file}`: hwloc-calc: `{count}` CPUs"))?,
    };
    Ok((reading, cpus))
}
