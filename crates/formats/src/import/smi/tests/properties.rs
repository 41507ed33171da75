//! The properties of the reader: a matrix reads the same in every printed form, and no text makes the reader panic.

use super::*;
use crate::file;
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
        let row = prop::collection::vec(kind, nics);
        (
            prop::collection::vec(row, gpus),
            prop::collection::vec(0u32..4, gpus),
        )
            .prop_map(|(kinds, nodes)| Machine { kinds, nodes })
    })
}

fn forms() -> impl Strategy<Value = Form> {
    let prefix = prop::sample::select(vec![
        "",
        "> ",
        "3: ",
        "2031-05-01T10:00:00Z ",
        "[1,0]<stdout>: ",
        "\"",
    ]);
    (any::<[bool; 5]>(), 0usize..4, any::<Index>(), prefix).prop_map(
        |([tabs, legend, ansi, nic_rows, fenced], titles, first_row, prefix)| Form {
            tabs,
            legend,
            titles,
            ansi,
            nic_rows,
            first_row,
            prefix,
            fenced,
        },
    )
}

fn name(nic: usize) -> String {
    ["mlx5_", "ibp", "roceP7p", "mlx5_bond_"][nic % 4].to_string() + &nic.to_string()
}

fn print(machine: &Machine, form: &Form) -> String {
    let (gpus, nics) = (machine.kinds.len(), machine.kinds[0].len());
    let nic = |nic: usize| {
        if form.legend {
            format!("NIC{nic}")
        } else {
            name(nic)
        }
    };
    let gap = |text: &str| {
        if form.tabs {
            format!("{text}\t")
        } else {
            format!("{text:<12}")
        }
    };
    let labels: Vec<String> = (0..gpus)
        .map(|gpu| format!("GPU{gpu}"))
        .chain((0..nics).map(nic))
        .collect();
    let titles =
        &["CPU", "Affinity", "NUMA", "Affinity", "GPU", "NUMA", "ID"][..[0, 2, 4, 7][form.titles]];
    let words: Vec<&str> = labels
        .iter()
        .map(String::as_str)
        .chain(titles.iter().copied())
        .collect();
    let mut header = gap("");
    words.iter().for_each(|word| header += &gap(word));
    if form.ansi {
        header = format!("\u{1b}[4m{header}\u{1b}[0m");
    }
    let mut rows = Vec::new();
    for (gpu, label) in labels.iter().enumerate().take(gpus) {
        let mut row = gap(label);
        (0..gpus).for_each(|other| row += &gap(if other == gpu { " X " } else { "NV4" }));
        machine.kinds[gpu]
            .iter()
            .for_each(|kind| row += &gap(&kind.to_string()));
        let node = machine.nodes[gpu];
        let values = [
            format!("{}-{}", node * 8, node * 8 + 7),
            node.to_string(),
            "N/A".to_string(),
        ];
        values[..form.titles]
            .iter()
            .for_each(|value| row += &gap(value));
        rows.push(row);
    }
    for nic in (0..nics).filter(|_| form.nic_rows) {
        let mut row = gap(&labels[gpus + nic]);
        machine
            .kinds
            .iter()
            .for_each(|of_gpu| row += &gap(&of_gpu[nic].to_string()));
        (0..nics).for_each(|other| row += &gap(if other == nic { " X " } else { "PIX" }));
        rows.push(row);
    }
    let first = form.first_row.index(rows.len());
    rows.rotate_left(first);
    let mut text = header + "\n" + &rows.join("\n") + "\n\nLegend:\n\n  X    = Self\n";
    if form.legend && nics > 0 {
        text += "\nNIC Legend:\n\n";
        (0..nics).for_each(|nic| writeln!(text, "  NIC{nic}: {}", name(nic)).unwrap());
    }
    let text: String = text
        .lines()
        .map(|line| format!("{}{line}\n", form.prefix))
        .collect();
    if form.fenced {
        format!("Output of the tool:\n```\n{text}```\nThanks\n")
    } else {
        text
    }
}

/// Every refusal is one line of bounded length, and every accepted text makes a topology file.
fn judge(text: &str) -> Result<(), TestCaseError> {
    match read(text, Provenance::File("test".to_string())) {
        Ok((topology, _)) => {
            let kept = file::from_json(&file::to_json(&topology), Provenance::ThisSystem);
            prop_assert!(
                kept.is_ok_and(|kept| kept.stated_paths == topology.stated_paths),
                "{text}"
            );
            let all = topology.gpus.len() * topology.nics.len();
            prop_assert_eq!(topology.stated_paths.len(), all, "{}", text);
        }
        Err(bad) => {
            let message = bad.to_string();
            prop_assert!(
                !message.chars().any(char::is_control) && message.len() < 900,
                "{message:?}"
            );
        }
    }
    Ok(())
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
        let nodes: Vec<Option<u32>> =
            topology.gpus.iter().map(|gpu| topology.pci.get(gpu.address).unwrap().numa_node).collect();
        let known = |node: &u32| (form.titles > 1).then_some(*node);
        prop_assert_eq!(nodes, machine.nodes.iter().map(known).collect::<Vec<_>>());
        for node in &topology.numa_nodes {
            prop_assert_eq!(node.cpus.first(), Some(node.os_index * 8));
        }
        judge(&text)?;
    }

    #[test]
    fn a_text_cut_anywhere_never_makes_the_reader_panic(machine in machines(), form in forms(), at: Index) {
        let text = print(&machine, &form);
        judge(&text[..at.index(text.len())])?;
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

    #[test]
    fn changed_characters_never_make_the_reader_panic(
        machine in machines(),
        form in forms(),
        changes in prop::collection::vec((any::<Index>(), prop::char::any()), 1..6),
    ) {
        let mut text: Vec<char> = print(&machine, &form).chars().collect();
        changes.into_iter().for_each(|(at, to)| *at.get_mut(&mut text) = to);
        judge(&text.into_iter().collect::<String>())?;
    }

    #[test]
    fn words_and_lines_left_out_doubled_or_joined_never_make_the_reader_panic(
        machine in machines(),
        form in forms(),
        edits in prop::collection::vec((any::<Index>(), 0..4), 1..5),
    ) {
        let text = print(&machine, &form);
        let mut words: Vec<&str> = text.split_inclusive([' ', '\t', '\n']).collect();
        for (at, edit) in edits {
            let at = at.index(words.len());
            match edit {
                0 => words[at] = "",
                1 => words.insert(at, words[at]),
                2 => words[at] = words[at].trim_end(),
                _ => words.insert(at, "\n"),
            }
        }
        judge(&words.concat())?;
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>()) {
        judge(&text)?;
        judge(&PLAIN.replace("NV6", &text))?;
        judge(&PLAIN.replace("0-7,16-23", &text))?;
        judge(&PLAIN.replace("mlx5_4", &text))?;
    }
}

#[test]
fn the_largest_texts_are_answered_at_once() {
    let bytes = 1 << 20;
    for text in [
        "GPU0 ".repeat(2 << 20),
        "\0".repeat(10 << 20),
        "GPU0 NIC0\n".repeat(bytes / 10),
        "GPU0\u{1b}[\n".repeat(bytes / 8),
        format!("{}\n", "[".repeat(60_000)).repeat(bytes / 60_000),
        format!("{}\n", "\u{1b}]".repeat(30_000)).repeat(bytes / 60_000),
        format!("{}\n", "GPU1GPU2".repeat(8_000)).repeat(bytes / 64_000),
        format!(
            "GPU0\n{}",
            (0..90_000)
                .map(|row| format!("mlx5_{row} X\n"))
                .collect::<String>()
        ),
        format!("GPU0 CPU Affinity\nGPU0 X {}", "0-8191,".repeat(9_000)),
        format!(
            "GPU0 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0 X {}",
            "1".repeat(60_000)
        ),
        format!(
            "GPU0 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0 X {}",
            "1".repeat(64)
        ),
    ] {
        judge(&text).unwrap();
    }
}
