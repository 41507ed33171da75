//! Matrices of `nvidia-smi topo -m` as people posted them: which load, what they say, and which must be refused.
#![forbid(unsafe_code)]

use nic_placement_core::placement::RailIndex;
use nic_placement_core::policy;
use nic_placement_core::topology::{PathType, Provenance, Topology};
use nic_placement_core::wish::Wish;
use nic_placement_formats::import::{BadText, smi};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// `(file, line, part of the reason, why a person would say so too)`
const REFUSED: [(&str, u32, &str, &str); 2] = [
    (
        "topo_m/nccl_1435_host_trunc.txt",
        8,
        "the matrix ends before the row of `GPU7`",
        "eight columns, seven rows, and no NIC's row: nothing says how GPU7 reaches any NIC",
    ),
    (
        "topo_m/nvsentinel_fused_label.txt",
        2,
        "6 cells for 7 columns: cannot tell which is missing",
        "the header names NIC28 and NIC29, the rows have one cell for both",
    ),
];

/// `(file, GPUs, NICs, why the index counts otherwise)`
const COUNTED_OTHERWISE: [(&str, usize, usize, &str); 1] = [(
    "topo_m/sglang_3538.txt",
    8,
    42,
    "columns NIC0 to NIC41, two of whose labels touch: the index took NIC16 and NIC17 for one",
)];

/// `(file, NIC of each GPU, where that is stated)`
const CHOICES: [(&str, &[&str], &str); 5] = [
    (
        "topo_m/nccl_2345_h200nvl.txt",
        // stated of GPU 0 and GPU 3; each NIC is at PIX of two GPUs
        &["rocep80s0", "rocep80s0", "rocep203s0", "rocep203s0"],
        "NCCL's maintainer, NVIDIA/nccl issue 2345",
    ),
    (
        "topo_m/sglang_2778.txt",
        &RAILS_OF_TWELVE,
        "NCCL's log of such a node",
    ),
    (
        "topo_m/vllm_14897.txt",
        &RAILS_OF_TWELVE,
        "NCCL's log of such a node",
    ),
    (
        "topo_m/vllm_15836.txt",
        &RAILS_OF_TWELVE,
        "NCCL's log of such a node",
    ),
    (
        "topo_m/vllm_16626.txt",
        &[
            "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7",
        ],
        "pairs of Azure's ndv4-topo.xml: GPUs 0, 1 with the first two NICs, and so on",
    ),
];

const RAILS_OF_TWELVE: [&str; 8] = [
    "mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11",
];

/// `(file, NUMA node of each GPU, NUMA nodes with their CPUs, where that is stated)`
const NODES: [(&str, &[u32], &str, &str); 2] = [
    (
        "topo_m/vllm_19703.txt",
        &[0, 0, 1, 1],
        "0: 0-71; 1: 72-143; 2: ; 10: ; 18: ; 26: ",
        "NVIDIA's GB200: cores 0-71 with GPUs 0 and 1, memory of the GPUs at nodes 2, 10, 18, 26",
    ),
    (
        "topo_m/vllm_16626.txt",
        &[1, 1, 0, 0, 3, 3, 2, 2],
        "0: 0-23; 1: 24-47; 2: 48-71; 3: 72-95",
        "Azure's ndv4-topo.xml",
    ),
];

/// Reads every matrix of the corpus.  Returns a summary, or everything that is wrong.
pub fn run(corpus: &Path) -> Result<String, String> {
    let index = text(corpus, "INDEX.tsv")?;
    let mut wrong = String::new();
    let (mut loaded, mut cells, mut naive_files, mut naive_cells, mut repaired) = (0, 0, 0, 0, 0);
    let mut topologies: BTreeMap<&str, Topology> = BTreeMap::new();
    let mut refused = Vec::new();
    for row in index.lines().skip(1) {
        let fields: Vec<&str> = row.split('\t').collect();
        let (file, kind) = (fields[0], fields[1]);
        match kind {
            "nvidia_smi_topo" => {}
            "nvidia_smi_topo_error" => {
                match read(&text(corpus, file)?) {
                    Err(bad)
                        if bad
                            .to_string()
                            .contains("nvidia-smi says `Failed to run topology matrix`") => {}
                    other => note(
                        &mut wrong,
                        file,
                        format!("the failure is not told: {other:?}"),
                    ),
                }
                continue;
            }
            _ => continue,
        }
        let content = text(corpus, file)?;
        let expected = REFUSED.iter().find(|(refused, ..)| *refused == file);
        let (topology, diagnostics) = match (read(&content), expected) {
            (Ok(read), None) => read,
            (Err(bad), Some((_, line, reason, _)))
                if bad.line == *line && bad.problem.contains(reason) =>
            {
                refused.push(format!("{file}: {bad}"));
                continue;
            }
            (Err(bad), _) => {
                note(&mut wrong, file, format!("refused: {bad}"));
                continue;
            }
            (Ok(_), Some((.., why))) => {
                note(&mut wrong, file, format!("loads, though {why}"));
                continue;
            }
        };
        loaded += 1;
        repaired += usize::from(diagnostics.len() > 1);
        cells += topology.stated_paths.len();
        let found = (topology.gpus.len(), topology.nics.len());
        let counted = match COUNTED_OTHERWISE.iter().find(|(other, ..)| *other == file) {
            Some((_, gpus, nics, _)) => Ok((*gpus, *nics)),
            None => fields[4]
                .parse()
                .and_then(|gpus| Ok((gpus, fields[5].parse()?))),
        };
        if counted != Ok(found) {
            note(
                &mut wrong,
                file,
                format!("{found:?} GPUs and NICs, not {counted:?}"),
            );
        }
        if topology.stated_paths.len() != found.0 * found.1 {
            note(
                &mut wrong,
                file,
                format!("{} paths of {found:?}", topology.stated_paths.len()),
            );
        }
        if let Some(naive) = naive(&content) {
            naive_files += 1;
            naive_cells += naive.len();
            let ours = ours(&topology);
            // the naive reader ignores the legend, so NICs are compared by their place
            if ours != naive {
                note(
                    &mut wrong,
                    file,
                    format!("the naive reading says otherwise\n{ours:?}\n{naive:?}"),
                );
            }
        }
        topologies.insert(fields[0], topology);
    }
    for (file, nics, source) in CHOICES {
        let Some(topology) = topologies.get(file) else {
            continue;
        };
        let node = policy::map(topology, &Wish::default());
        let name = |rail| node.rail(rail).name.as_str();
        let chosen: Vec<&str> = node
            .gpus
            .iter()
            .map(|gpu| name(gpu.choices[0].rail))
            .collect();
        if chosen != nics {
            note(
                &mut wrong,
                file,
                format!("chosen {chosen:?}, stated {nics:?} by {source}"),
            );
        }
    }
    for (file, nodes, cpus, source) in NODES {
        let Some(topology) = topologies.get(file) else {
            continue;
        };
        let of_gpus: Vec<Option<u32>> = topology
            .gpus
            .iter()
            .map(|gpu| topology.numa_node_of(gpu.address))
            .collect();
        let all: Vec<String> = topology
            .numa_nodes
            .iter()
            .map(|node| format!("{}: {}", node.os_index, node.cpus))
            .collect();
        if of_gpus != nodes.iter().copied().map(Some).collect::<Vec<_>>() || all.join("; ") != cpus
        {
            note(
                &mut wrong,
                file,
                format!("nodes {of_gpus:?}, {all:?}; stated otherwise by {source}"),
            );
        }
    }
    hidden_switches(&topologies, &mut wrong);
    let named = CHOICES
        .iter()
        .map(|row| row.0)
        .chain(NODES.iter().map(|row| row.0))
        .chain([HIDDEN]);
    for file in named.filter(|file| !topologies.contains_key(file)) {
        note(
            &mut wrong,
            file,
            "is stated about, and was not read".to_string(),
        );
    }
    if refused.len() != REFUSED.len() {
        note(
            &mut wrong,
            "INDEX.tsv",
            format!("{} files refused, not {}", refused.len(), REFUSED.len()),
        );
    }
    if naive_files * 10 < loaded * 8 {
        note(
            &mut wrong,
            "INDEX.tsv",
            format!("the naive reading knows only {naive_files} of {loaded} files"),
        );
    }
    match wrong.is_empty() {
        true => Ok(format!(
            "smi: {loaded} matrices read ({repaired} with a remark beyond the usual one), {} refused, {cells} paths; \
             {naive_cells} of them in {naive_files} files the same as a naive reading; {} stated facts hold",
            refused.len(),
            CHOICES.len() + NODES.len() + 1,
        )),
        false => Err(wrong),
    }
}

const HIDDEN: &str = "topo_m/sglang_4780.txt";

/// A virtual machine that hides its switches, as stated of Azure's ND H100 v5.  A GPU has NODE to the four NICs of its own
/// half and SYS to the others, so only even use can choose among the four.
fn hidden_switches(topologies: &BTreeMap<&str, Topology>, wrong: &mut String) {
    let Some(topology) = topologies.get(HIDDEN) else {
        return;
    };
    for ((gpu, nic), kind) in ours(topology) {
        let expected = if (gpu < 4) == (nic < 4) {
            PathType::Node
        } else {
            PathType::Sys
        };
        if nic < 8 && kind != expected {
            note(
                wrong,
                HIDDEN,
                format!("GPU {gpu} is at {kind} of NIC {nic}, not {expected}"),
            );
        }
    }
    let node = policy::map(topology, &Wish::default());
    let mut rails: Vec<RailIndex> = node.gpus.iter().map(|gpu| gpu.choices[0].rail).collect();
    rails.sort_unstable();
    rails.dedup();
    if rails.len() != 8
        || node
            .gpus
            .iter()
            .any(|gpu| gpu.choices[0].path != PathType::Node)
    {
        note(
            wrong,
            HIDDEN,
            format!("not one near NIC for each GPU: {rails:?}"),
        );
    }
}

fn read(
    text: &str,
) -> Result<(Topology, Vec<nic_placement_core::diagnostic::Diagnostic>), BadText> {
    smi::read(text, Provenance::File("corpus".to_string()))
}

/// `(GPU, NIC)` by position, and the path between them.
type Cells = BTreeMap<(usize, usize), PathType>;

fn ours(topology: &Topology) -> Cells {
    let mut cells = Cells::new();
    for (gpu, of_gpu) in topology.gpus.iter().enumerate() {
        for (nic, of_nic) in topology.nics.iter().enumerate() {
            let address = of_nic
                .address
                .expect("every NIC of a matrix has an invented address");
            cells.insert((gpu, nic), topology.path_type(of_gpu.address, address));
        }
    }
    cells
}

/// Splits at blanks, and nothing more.  Use it only for a matrix whose header and GPU rows have the right number of words.
fn naive(text: &str) -> Option<Cells> {
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next()?.split_whitespace().collect();
    let devices = header
        .iter()
        .position(|word| *word == "CPU")
        .unwrap_or(header.len());
    let gpus = header
        .iter()
        .take_while(|word| word.starts_with("GPU"))
        .count();
    let (nics, after) = (devices - gpus, header.len() - devices);
    let values = [0, 0, 1, 0, 2, 0, 0, 3]
        .get(after)
        .copied()
        .filter(|&values| values > 0 || after == 0)?;
    let mut cells = Cells::new();
    for gpu in 0..gpus {
        let row: Vec<&str> = lines.next()?.split_whitespace().collect();
        if row.len() != 1 + devices + values || row[0] != format!("GPU{gpu}") {
            return None;
        }
        for nic in 0..nics {
            let kind = match row[1 + gpus + nic] {
                "PIX" => PathType::Pix,
                "PXB" => PathType::Pxb,
                "PHB" => PathType::Phb,
                "NODE" => PathType::Node,
                "SYS" | "SOC" => PathType::Sys,
                _ => return None,
            };
            cells.insert((gpu, nic), kind);
        }
    }
    (gpus > 0).then_some(cells)
}

fn text(corpus: &Path, file: &str) -> Result<String, String> {
    let bytes = std::fs::read(corpus.join(file)).map_err(|error| format!("{file}: {error}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn note(wrong: &mut String, file: &str, problem: String) {
    writeln!(wrong, "{file}: {problem}").expect("a String takes everything");
}
