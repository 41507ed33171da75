//! Tests NCCL's and RCCL's own files.  Each topology is read, and pairs GPUs with the same NICs as a second, naive reader.
//! It stays the same when it is written and read again.  Files of graphs are refused.
#![forbid(unsafe_code)]

use nic_placement_core::topology::{PathType, Provenance, Topology};
use nic_placement_formats::import::nccl;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What the providers' documents and other tools' files state: `(file, GPU, its NICs)`.  If a file has no device names, the
/// NICs are given by their addresses.
const STATED: &[(&str, &[(&str, &str)])] = &[
    ("aws-ofi-nccl__p4d-24xl-topo__2021-04-28_6734aaa.xml", P4D),
    ("aws-ofi-nccl__p4de-24xl-topo__2022-05-05_ff1638f.xml", P4D),
    (
        "aws-ofi-nccl__p5.48xl-topo__2026-05-06_9dc7b70.xml",
        &[
            ("0000:4f:00.0", "rdmap79s0 rdmap80s0 rdmap81s0 rdmap82s0"),
            ("0000:60:00.0", "rdmap96s0 rdmap97s0 rdmap98s0 rdmap99s0"),
            (
                "0000:70:00.0",
                "rdmap113s0 rdmap114s0 rdmap115s0 rdmap116s0",
            ),
            (
                "0000:80:00.0",
                "rdmap130s0 rdmap131s0 rdmap132s0 rdmap133s0",
            ),
            (
                "0000:90:00.0",
                "rdmap147s0 rdmap148s0 rdmap149s0 rdmap150s0",
            ),
            (
                "0000:a0:00.0",
                "rdmap164s0 rdmap165s0 rdmap166s0 rdmap167s0",
            ),
            (
                "0000:b0:00.0",
                "rdmap181s0 rdmap182s0 rdmap183s0 rdmap184s0",
            ),
            (
                "0000:c0:00.0",
                "rdmap198s0 rdmap199s0 rdmap200s0 rdmap201s0",
            ),
        ],
    ),
    (
        "azhpc-images__ndv4-topo__2025-01-31_dde6f06.xml",
        &[
            ("0001:00:00.0", "pci-0101-00-00.0 pci-0102-00-00.0"),
            ("0002:00:00.0", "pci-0101-00-00.0 pci-0102-00-00.0"),
            ("0003:00:00.0", "pci-0103-00-00.0 pci-0104-00-00.0"),
            ("0004:00:00.0", "pci-0103-00-00.0 pci-0104-00-00.0"),
            ("000b:00:00.0", "pci-0105-00-00.0 pci-0106-00-00.0"),
            ("000c:00:00.0", "pci-0105-00-00.0 pci-0106-00-00.0"),
            ("000d:00:00.0", "pci-0107-00-00.0 pci-0108-00-00.0"),
            ("000e:00:00.0", "pci-0107-00-00.0 pci-0108-00-00.0"),
        ],
    ),
    ("oci-hpc__H100-topology__2023-10-29_3dcce37.xml", OCI_H100),
];

const P4D: &[(&str, &str)] = &[
    ("0000:10:1c.0", "pci-0000-10-1b.0"),
    ("0000:10:1d.0", "pci-0000-10-1b.0"),
    ("0000:20:1c.0", "pci-0000-20-1b.0"),
    ("0000:20:1d.0", "pci-0000-20-1b.0"),
    ("0000:90:1c.0", "pci-0000-90-1b.0"),
    ("0000:90:1d.0", "pci-0000-90-1b.0"),
    ("0000:a0:1c.0", "pci-0000-a0-1b.0"),
    ("0000:a0:1d.0", "pci-0000-a0-1b.0"),
];

const OCI_H100: &[(&str, &str)] = &[
    ("0000:0f:00.0", "mlx5_0 mlx5_1"),
    ("0000:2d:00.0", "mlx5_3 mlx5_4"),
    ("0000:44:00.0", "mlx5_5 mlx5_6"),
    ("0000:5b:00.0", "mlx5_7 mlx5_8"),
    ("0000:89:00.0", "mlx5_10 mlx5_9"),
    ("0000:a8:00.0", "mlx5_12 mlx5_13"),
    ("0000:c0:00.0", "mlx5_14 mlx5_15"),
    ("0000:d8:00.0", "mlx5_16 mlx5_17"),
];

/// Functions that a file puts on a NUMA node, although that machine's kernel names none: `(file, function, node)`.
const NODES: &[(&str, &str, u32)] = &[
    (
        "aws-ofi-nccl__g5.48xl-topo__2025-05-05_930ce62.xml",
        "0000:00:15.0",
        1,
    ),
    (
        "azhpc-images__ncv4-topo__2024-02-14_cf0eeb6.xml",
        "0001:00:00.0",
        0,
    ),
    (
        "azhpc-images__ncv4-topo__2024-02-14_cf0eeb6.xml",
        "0002:00:00.0",
        1,
    ),
    (
        "azhpc-images__ncv4-topo__2024-02-14_cf0eeb6.xml",
        "0003:00:00.0",
        2,
    ),
    (
        "azhpc-images__ncv4-topo__2024-02-14_cf0eeb6.xml",
        "0004:00:00.0",
        3,
    ),
];

/// Reads every file below `corpus`/nccl_xml.  Returns how much was compared, or the first thing that is wrong.
pub fn run(corpus: &Path) -> Result<String, String> {
    let index = fs::read_to_string(corpus.join("INDEX.tsv"))
        .map_err(|error| format!("INDEX.tsv: {error}"))?;
    let [
        mut topologies,
        mut graphs,
        mut gpus,
        mut nics,
        mut pairs,
        mut findings,
        mut stated,
    ] = [0usize; 7];
    for row in index.lines() {
        let fields: Vec<&str> = row.split('\t').collect();
        let [path, kind, _, _, gpu_count, nic_count, ..] = fields[..] else {
            continue;
        };
        if !matches!(kind, "nccl_topo_xml" | "nccl_graph_xml") {
            continue;
        }
        let text =
            fs::read_to_string(corpus.join(path)).map_err(|error| format!("{path}: {error}"))?;
        let answer = nccl::read(&text, Provenance::File(path.to_string()));
        if kind == "nccl_graph_xml" {
            match answer {
                Err(bad) if bad.to_string().contains("`<graphs>`") => graphs += 1,
                other => {
                    return Err(format!(
                        "{path}: a file of graphs, and the answer was {other:?}"
                    ));
                }
            }
            continue;
        }
        let (topology, said) = answer.map_err(|bad| format!("{path}: {bad}"))?;
        let found = (
            topology.gpus.len().to_string(),
            topology.nics.len().to_string(),
        );
        if found != (gpu_count.to_string(), nic_count.to_string()) {
            return Err(format!(
                "{path}: {found:?} GPUs and NICs, expected {gpu_count} and {nic_count}"
            ));
        }
        pairs += compare(&topology, &naive(&text)).map_err(|wrong| format!("{path}: {wrong}"))?;
        let name = path.rsplit('/').next().unwrap_or(path);
        stated += check_stated(name, &topology).map_err(|wrong| format!("{path}: {wrong}"))?;
        topologies += 1;
        gpus += topology.gpus.len();
        nics += topology.nics.len();
        findings += said.len();
    }
    let expected = STATED.iter().map(|(_, gpus)| gpus.len()).sum::<usize>() + NODES.len();
    if stated != expected || topologies == 0 || graphs == 0 {
        return Err(format!(
            "{topologies} topologies, {graphs} graphs, {stated} of {expected} stated facts"
        ));
    }
    Ok(format!(
        "{topologies} topologies read ({gpus} GPUs, {nics} NICs, {findings} findings), {graphs} files of graphs refused, \
         {pairs} pairs as a naive reading has them, {stated} stated facts"
    ))
}

/// A GPU or a NIC as the naive reading sees it.
struct Device {
    is_gpu: bool,
    /// a GPU's address, a NIC's name
    name: String,
    cpu: usize,
    /// ordinals of the `<pci>` around it, its own left out; `None` where it has none of its own
    around: Option<Vec<usize>>,
}

/// The value of an attribute in the text of a tag.
fn attribute<'a>(tag: &'a str, key: &str) -> Option<&'a str> {
    let start = tag.find(&format!(" {key}=\""))? + key.len() + 3;
    tag[start..].split('"').next()
}

/// Reads tags as text, with a stack of the `<pci>` that are open.
fn naive(text: &str) -> Vec<Device> {
    let mut text = text.to_string();
    while let (Some(start), Some(end)) = (text.find("<!--"), text.find("-->")) {
        text.replace_range(start..end + 3, "");
    }
    let mut devices = Vec::new();
    let mut open: Vec<(usize, String, String)> = Vec::new();
    let [mut count, mut cpu] = [0usize; 2];
    // switches that are not part of another
    let mut wholes = BTreeSet::new();
    for tag in text
        .split('<')
        .skip(1)
        .filter_map(|tag| tag.split('>').next())
    {
        let around = |open: &[(usize, String, String)]| {
            open.split_last().map(|(_, above)| {
                above
                    .iter()
                    .map(|(ordinal, ..)| *ordinal)
                    .collect::<Vec<_>>()
            })
        };
        match tag
            .split([' ', '/'])
            .find(|word| !word.is_empty())
            .unwrap_or_default()
        {
            "cpu" if !tag.starts_with('/') => cpu += 1,
            "pci" if tag.starts_with('/') => drop(open.pop()),
            "pci" => {
                count += 1;
                let value = |key| attribute(tag, key).unwrap_or_default().to_string();
                // NCCL takes a part of a Broadcom switch for the whole above it (`getBcmGen` of topo.cc)
                let is_switch = |level: &str| {
                    value("vendor") == "0x1000"
                        && value("subsystem_vendor") == "0x1000"
                        && match value("device").as_str() {
                            "0xc010" => value("subsystem_device").starts_with("0xa"),
                            "0xc030" => value("subsystem_device").starts_with(level),
                            _ => false,
                        }
                };
                let above = open
                    .last()
                    .map(|(ordinal, ..)| *ordinal)
                    .filter(|above| wholes.contains(above));
                let ordinal = above.filter(|_| is_switch("0x1")).unwrap_or(count);
                if ordinal == count && is_switch("0x0") {
                    wholes.insert(count);
                }
                open.push((ordinal, value("busid"), value("class")));
                if tag.ends_with('/') {
                    let (_, busid, class) = &open[open.len() - 1];
                    let is_gpu = ["0x03", "0x12"].iter().any(|gpu| class.starts_with(gpu));
                    let name = if is_gpu {
                        busid.clone()
                    } else {
                        format!("pci-{}", busid.replace(':', "-"))
                    };
                    if is_gpu || class.starts_with("0x02") {
                        devices.push(Device {
                            is_gpu,
                            name,
                            cpu,
                            around: around(&open),
                        });
                    }
                    open.pop();
                }
            }
            "gpu" if !tag.starts_with('/') => {
                let name = open
                    .last()
                    .map(|(_, busid, _)| busid.clone())
                    .unwrap_or_default();
                devices.push(Device {
                    is_gpu: true,
                    name,
                    cpu,
                    around: around(&open),
                });
            }
            "net" => {
                let name = attribute(tag, "name").unwrap_or_default().to_string();
                devices.push(Device {
                    is_gpu: false,
                    name,
                    cpu,
                    around: around(&open),
                });
            }
            _ => {}
        }
    }
    devices
}

/// How far apart two devices are by the deepest `<pci>` around both.
fn apart(a: &Device, b: &Device) -> Option<PathType> {
    let (above_a, above_b) = (a.around.as_ref()?, b.around.as_ref()?);
    let deepest = above_a
        .iter()
        .rev()
        .find(|ordinal| above_b.contains(ordinal));
    Some(match deepest {
        Some(_) if above_a == above_b => PathType::Pix,
        Some(_) => PathType::Pxb,
        None if a.cpu == b.cpu => PathType::Phb,
        None => PathType::Sys,
    })
}

/// The kind of every pair and the nearest NICs of every GPU are those of the naive reading.
fn compare(topology: &Topology, devices: &[Device]) -> Result<usize, String> {
    let mut pairs = 0;
    let mut seen = 0;
    for gpu in devices.iter().filter(|device| device.is_gpu) {
        seen += 1;
        let all: Vec<(PathType, &str)> = devices
            .iter()
            .filter(|device| !device.is_gpu)
            .filter_map(|nic| Some((apart(gpu, nic)?, nic.name.as_str())))
            .collect();
        let address = gpu.name.parse().map_err(|bad| format!("{bad}"))?;
        for (kind, name) in &all {
            let nic = topology
                .nics
                .iter()
                .find(|nic| nic.name == *name)
                .ok_or(format!("no NIC `{name}`"))?;
            let found = topology.path_type(
                address,
                nic.address.ok_or(format!("`{name}` has no address"))?,
            );
            if found != *kind {
                return Err(format!("{address} to `{name}` is {found}, naively {kind}"));
            }
            pairs += 1;
        }
        let near = all.iter().map(|(kind, _)| *kind).min();
        let naively: BTreeSet<&str> = all
            .iter()
            .filter(|(kind, _)| Some(*kind) == near)
            .map(|(_, name)| *name)
            .collect();
        if nearest(topology, &gpu.name) != naively {
            return Err(format!(
                "nearest to {address}: {:?}, naively {naively:?}",
                nearest(topology, &gpu.name)
            ));
        }
    }
    if seen != topology.gpus.len() {
        return Err(format!("{} GPUs, naively {seen}", topology.gpus.len()));
    }
    Ok(pairs)
}

/// The names of the NICs nearest to a GPU, by kind of path.
fn nearest<'a>(topology: &'a Topology, gpu: &str) -> BTreeSet<&'a str> {
    let Some(gpu) = topology
        .gpus
        .iter()
        .find(|known| known.address.to_string() == gpu)
    else {
        return BTreeSet::new();
    };
    let kinds: Vec<(PathType, &str)> = topology
        .nics
        .iter()
        .filter_map(|nic| {
            Some((
                topology.path_type(gpu.address, nic.address?),
                nic.name.as_str(),
            ))
        })
        .collect();
    let near = kinds.iter().map(|(kind, _)| *kind).min();
    kinds
        .into_iter()
        .filter(|(kind, _)| Some(*kind) == near)
        .map(|(_, name)| name)
        .collect()
}

/// The number of facts stated of this file; all of them hold.
fn check_stated(name: &str, topology: &Topology) -> Result<usize, String> {
    let mut count = 0;
    for (gpu, nics) in STATED
        .iter()
        .filter(|(file, _)| *file == name)
        .flat_map(|(_, gpus)| gpus.iter())
    {
        let found = nearest(topology, gpu)
            .into_iter()
            .collect::<Vec<_>>()
            .join(" ");
        if found != *nics {
            return Err(format!("nearest to {gpu}: `{found}`, stated `{nics}`"));
        }
        count += 1;
    }
    for (_, function, node) in NODES.iter().filter(|(file, ..)| *file == name) {
        let address = function.parse().map_err(|bad| format!("{bad}"))?;
        if topology.numa_node_of(address) != Some(*node) {
            return Err(format!(
                "{function} is on {:?}, stated {node}",
                topology.numa_node_of(address)
            ));
        }
        count += 1;
    }
    Ok(count)
}
