//! A matrix reads the same in every printed form; any other text is for tests/fuzz.rs.

use super::*;
use proptest::prelude::*;
use proptest::sample::Index;
use std::fmt::Write;

/// A machine: kinds of paths `[gpu][nic]`, and the NUMA node of each GPU.
#[derive(Debug, Clone)]
struct Machine {
    kinds: Vec<Vec<PathType>>,
    nodes: Vec<u32>,
}

/// The printed form of a matrix.
#[derive(Debug, Clone)]
struct Form {
    tabs: bool,
    /// `NIC0` and a legend, or the devices' own names
    legend: bool,
    /// the number of columns after the devices
    titles: usize,
    ansi: bool,
    nic_rows: bool,
    /// the row that comes first
    first_row: Index,
    prefix: &'static str,
    /// is there other text around it?
    fenced: bool,
}

fn machines() -> impl Strategy<Value = Machine> {
    (1usize..6, 0usize..7).prop_flat_map(|(gpus, nics)| {
        let kind = prop::sample::select(PathType::ALL.to_vec());
        let kinds = prop::collection::vec(prop::collection::vec(kind, nics), gpus);
        let nodes = prop::collection::vec(0u32..4, gpus);
        (kinds, nodes).prop_map(|(kinds, nodes)| Machine { kinds, nodes })
    })
}

const PREFIXES: &str = "|> |3: |2031-05-01T10:00:00Z |[1,0]<stdout>: |\"";

fn forms() -> impl Strategy<Value = Form> {
    let prefix = prop::sample::select(Vec::from_iter(PREFIXES.split('|')));
    let parts = (any::<[bool; 5]>(), 0usize..4, any::<Index>(), prefix);
    parts.prop_map(|(flags, titles, first_row, prefix)| Form {
        tabs: flags[0],
        legend: flags[1],
        titles,
        ansi: flags[2],
        nic_rows: flags[3],
        first_row,
        prefix,
        fenced: flags[4],
    })
}

fn name(nic: usize) -> String {
    ["mlx5_", "ibp", "roceP7p", "mlx5_bond_"][nic % 4].to_string() + &nic.to_string()
}

fn print(machine: &Machine, form: &Form) -> String {
    let (gpus, nics) = (machine.kinds.len(), machine.kinds[0].len());
    let nic = |nic: usize| match form.legend {
        true => format!("NIC{nic}"),
        false => name(nic),
    };
    let line = |words: &mut dyn Iterator<Item = &str>| -> String {
        let word = |word: &str| match form.tabs {
            true => format!("{word}\t"),
            false => format!("{word:<12}"),
        };
        words.map(word).collect()
    };
    let labels = (0..gpus).map(|gpu| format!("GPU{gpu}"));
    let labels: Vec<String> = labels.chain((0..nics).map(nic)).collect();
    let titles =
        &["CPU", "Affinity", "NUMA", "Affinity", "GPU", "NUMA", "ID"][..[0, 2, 4, 7][form.titles]];
    let names = labels.iter().map(String::as_str);
    let mut header = line(&mut [""].into_iter().chain(names).chain(titles.iter().copied()));
    if form.ansi {
        header = format!("\u{1b}[4m{header}\u{1b}[0m");
    }
    let other = |same: bool, kind: &'static str| if same { " X " } else { kind };
    let mut rows = Vec::new();
    let mut row = |label: &str, words: &mut dyn Iterator<Item = String>| {
        let words = Vec::from_iter([label.to_string()].into_iter().chain(words));
        rows.push(line(&mut words.iter().map(String::as_str)));
    };
    for (gpu, kinds) in machine.kinds.iter().enumerate() {
        let near = (0..gpus).map(|at| other(at == gpu, "NV4").to_string());
        let node = machine.nodes[gpu];
        let cpus = format!("{}-{}", node * 8, node * 8 + 7);
        let values = [cpus, node.to_string(), "N/A".to_string()];
        let values = values.into_iter().take(form.titles);
        let kinds = kinds.iter().map(ToString::to_string);
        row(&labels[gpu], &mut near.chain(kinds).chain(values));
    }
    for nic in (0..nics).filter(|_| form.nic_rows) {
        let kinds = machine.kinds.iter().map(|of_gpu| of_gpu[nic].to_string());
        let near = (0..nics).map(|at| other(at == nic, "PIX").to_string());
        row(&labels[gpus + nic], &mut kinds.chain(near));
    }
    let first = form.first_row.index(rows.len());
    rows.rotate_left(first);
    let mut text = header + "\n" + &rows.join("\n") + "\n\nLegend:\n\n  X    = Self\n";
    if form.legend && nics > 0 {
        text += "\nNIC Legend:\n\n";
        (0..nics).for_each(|nic| writeln!(text, "  NIC{nic}: {}", name(nic)).unwrap());
    }
    let lines = text.lines().map(|line| format!("{}{line}\n", form.prefix));
    let text: String = lines.collect();
    match form.fenced {
        true => format!("Output of the tool:\n```\n{text}```\nThanks\n"),
        false => text,
    }
}

proptest! {
    #[test]
    fn a_matrix_reads_the_same_in_every_form(machine in machines(), form in forms()) {
        let text = print(&machine, &form);
        let (topology, _) = read(&text, Provenance::ThisSystem)
            .map_err(|bad| TestCaseError::fail(format!("{bad}\n{text}")))?;
        let mut expected = Vec::new();
        for (gpu, row) in machine.kinds.iter().enumerate() {
            let nics = row.iter().enumerate().map(|(nic, kind)| format!("{}={kind}", name(nic)));
            expected.push(format!("{gpu}: {}", nics.collect::<Vec<_>>().join(" ")));
        }
        prop_assert_eq!(paths_of(&topology), expected.join("; "), "{}", text);
        for (gpu, node) in topology.gpus.iter().zip(&machine.nodes) {
            let known = (form.titles > 1).then_some(*node);
            prop_assert_eq!(topology.pci.get(gpu.address).unwrap().numa_node, known);
        }
        for node in &topology.numa_nodes {
            prop_assert_eq!(node.cpus.first(), Some(node.os_index * 8));
        }
    }

    #[test]
    fn no_text_of_a_word_makes_the_reader_panic(text in any::<String>()) {
        for word in ["NV6", "0-7,16-23", "mlx5_4", "GPU1", "NUMA"] {
            drop(read(&PLAIN.replace(word, &text), Provenance::ThisSystem));
        }
    }

    #[test]
    fn a_cut_matrix_never_says_what_the_whole_does_not(length in 0..PLAIN.len()) {
        if let Ok((topology, _)) = read(&PLAIN[..length], Provenance::ThisSystem) {
            let whole = load(PLAIN).0;
            for (pair, kind) in &topology.stated_paths {
                prop_assert_eq!(whole.stated_paths.get(pair), Some(kind));
            }
        }
    }
}

#[test]
fn the_largest_texts_are_answered_at_once() {
    let bytes = 1 << 20;
    let head = "GPU0 CPU Affinity NUMA Affinity";
    let long = format!("{head}\nGPU0 X {}", "1".repeat(60_000));
    for text in [
        "GPU0 ".repeat(2 << 20),
        "\0".repeat(10 << 20),
        "GPU0 NIC0\n".repeat(bytes / 10),
        "GPU0\u{1b}[\n".repeat(bytes / 8),
        format!("{}\n", "[".repeat(60_000)).repeat(bytes / 60_000),
        format!("{}\n", "\u{1b}]".repeat(30_000)).repeat(bytes / 60_000),
        format!("{}\n", "GPU1GPU2".repeat(8_000)).repeat(bytes / 64_000),
        format!("GPU0\n{}", "mlx5_0 X\n".repeat(90_000)),
        format!("GPU0 CPU Affinity\nGPU0 X {}", "0-8191,".repeat(9_000)),
        long,
    ] {
        drop(read(&text, Provenance::ThisSystem));
    }
}
