//! What libhwloc makes of a file: `lstopo` prints its tree, from which the kinds of paths are counted here again by the
//! lines' indentation, and `hwloc-calc` says which CPUs and NUMA nodes belong to what.
#![forbid(unsafe_code)]

use super::Reading;
use nic_placement_core::topology::{CpuSet, GpuVendor, PathType, PciAddress};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

/// The text in a form that hwloc 2 without libxml2 can read, and whether it was of version 3.  Comments are removed.  So are
/// the additions of version 3, which do not concern places (OS devices' types became bits).
pub fn as_hwloc_2_reads_it(text: &str) -> (String, bool) {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!--") {
        plain.push_str(before.trim_end_matches(' '));
        rest = after
            .split_once("-->")
            .map_or("", |(_, after)| after.trim_start_matches('\n'));
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
    for (bits, number) in [
        (1, 0),
        (2, 0),
        (3, 0),
        (4, 1),
        (8, 5),
        (12, 5),
        (16, 2),
        (32, 3),
        (48, 3),
        (64, 4),
    ] {
        older = older.replace(
            &format!("osdev_type=\"{bits}\""),
            &format!("osdev_type=\"_{number}\""),
        );
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
    let mut pipe = child
        .stdin
        .take()
        .ok_or_else(|| failed("no pipe".to_string()))?;
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
        lines.push(Line {
            text,
            parent: open.last().map(|(_, place)| *place),
        });
        open.push((indent, lines.len() - 1));
    }
    lines
}

/// What libhwloc makes of the file.
pub fn theirs(file: &str, text: &str) -> Result<Reading, String> {
    let copy = std::env::temp_dir().join(format!("nic-placement-hwloc-{}.xml", std::process::id()));
    std::fs::write(&copy, text).map_err(|error| format!("`{}`: {error}", copy.display()))?;
    let read = theirs_of(file, &copy.to_string_lossy());
    std::fs::remove_file(&copy).map_err(|error| format!("`{}`: {error}", copy.display()))?;
    read
}

fn theirs_of(file: &str, copy: &str) -> Result<Reading, String> {
    let arguments = [
        "-i",
        copy,
        "--of",
        "console",
        "-v",
        "--whole-io",
        "--no-collapse",
        "--disallowed",
    ];
    let printed = tool(file, "lstopo-no-graphics", &arguments, "")?;
    let lines = tree(&printed);
    let above =
        |line: usize| std::iter::successors(lines[line].parent, |&place| lines[place].parent);
    let mut reading = Reading::default();
    let mut places: BTreeMap<PciAddress, usize> = BTreeMap::new();
    let mut interfaces: BTreeMap<usize, (Vec<String>, Vec<String>)> = BTreeMap::new();
    for (place, line) in lines.iter().enumerate() {
        let device = above(place).find(|&above| lines[above].text.starts_with("PCI L#"));
        let name = line
            .text
            .strip_suffix('"')
            .and_then(|text| text.rsplit_once('"'))
            .map(|(_, name)| name);
        if let (true, Some(address)) = (line.text.starts_with("PCI L#"), line.address()) {
            places.insert(address, place);
            let moves = line
                .field("link=")
                .and_then(|link| link.strip_suffix("GB/s")?.parse().ok());
            reading.links.insert(address, moves.unwrap_or(0.0));
            let class = line.field("class=").unwrap_or_default();
            let (vendor, id) = line
                .field(" id=")
                .and_then(|id| id.split_once(':'))
                .unwrap_or_default();
            let vendor = u16::from_str_radix(vendor, 16)
                .ok()
                .and_then(GpuVendor::from_pci);
            // the AMD chip is a server's console (ES1000); Intel's class 0300 is the graphics of a CPU
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
        let address = lines[place]
            .address()
            .ok_or_else(|| format!("`{file}`: `{}`", lines[place].text))?;
        let names = if verbs.is_empty() { plain } else { verbs };
        reading
            .nics
            .extend(names.into_iter().map(|name| (name, address)));
    }
    let wanted: BTreeSet<PciAddress> = reading
        .gpus
        .iter()
        .chain(reading.nics.values())
        .copied()
        .collect();
    let questions: String = wanted
        .iter()
        .map(|address| format!("pci={address}\n"))
        .collect();
    let answers = match questions.is_empty() {
        true => String::new(),
        false => tool(
            file,
            "hwloc-calc",
            &["--disallowed", "-i", copy, "--po", "-I", "numa"],
            &questions,
        )?,
    };
    // at a terminal the tool prints that it is waiting
    let answers: Vec<&str> = answers
        .lines()
        .filter(|line| !line.starts_with("Waiting"))
        .collect();
    if answers.len() != wanted.len() {
        return Err(format!(
            "`{file}`: hwloc-calc: {} answers to {} questions",
            answers.len(),
            wanted.len()
        ));
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
    // files that people have shortened may have no CPU; the tool then prints nothing
    let count = |text: &str| match text.trim() {
        "" => Ok(0),
        count => count
            .parse::<usize>()
            .map_err(|_| format!("`{file}`: hwloc-calc: `{count}`")),
    };
    let ask = |arguments: &[&str]| {
        tool(
            file,
            "hwloc-calc",
            &[&["--disallowed", "-i", copy], arguments].concat(),
            "",
        )
    };
    reading.cpus = count(&ask(&["-N", "pu", "machine:0"])?)?;
    for node in lines
        .iter()
        .filter(|line| line.text.starts_with("NUMANode L#"))
    {
        let number = node.field("P#").and_then(|number| number.parse().ok());
        let number: u32 = number.ok_or_else(|| format!("`{file}`: `{}`", node.text))?;
        let mask = ask(&["--pi", &format!("numa:{number}")])?;
        let cpus = set(&mask).ok_or_else(|| format!("`{file}`: hwloc-calc: `{mask}`"))?;
        reading.nodes.insert(number, cpus);
    }
    let printed = tool(
        file,
        "lstopo-no-graphics",
        &["-i", copy, "--distances", "-p", "--disallowed"],
        "",
    )?;
    reading.distances = numa_distances(&printed);
    Ok(reading)
}

/// `0x0000ffff,,0x00000001`, words of 32 bits from the highest down.
fn set(mask: &str) -> Option<CpuSet> {
    let word = |word: &str| format!("{:0>8}", word.trim().trim_start_matches("0x"));
    CpuSet::from_mask(&mask.split(',').map(word).collect::<String>()).ok()
}

/// The matrix below lstopo's line `Relative latency matrix (name NUMALatency kind 5) between 2 NUMANodes (depth -3) by
/// physical indexes:`, rows and columns in order of those.
fn numa_distances(printed: &str) -> Vec<u32> {
    let is_it = |line: &str| line.contains("latency matrix") && line.contains("NUMANodes");
    let mut lines = printed.lines().skip_while(|line| !is_it(line)).skip(1);
    let words = |line: &str| -> Vec<u32> {
        line.split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect()
    };
    let columns = lines.next().map(words).unwrap_or_default();
    let rows = lines.take(columns.len()).map(words);
    let mut cells: Vec<(u32, u32, u32)> = Vec::new();
    for row in rows {
        let Some((from, values)) = row.split_first() else {
            continue;
        };
        cells.extend(
            columns
                .iter()
                .zip(values)
                .map(|(to, value)| (*from, *to, *value)),
        );
    }
    cells.sort_unstable();
    cells.into_iter().map(|(_, _, value)| value).collect()
}
