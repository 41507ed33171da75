//! Texts that people paste: what they do not say is not known, and what is broken is refused.
#![forbid(unsafe_code)]

use super::*;

/// Rows that `plan` prints of a file for tasks of one GPU each, or the error.
fn planned(file: &str) -> Result<Vec<String>, String> {
    let answer = run(&format!("plan --topology {file} --gpus-per-task 1"));
    if answer.status == Some(1) {
        return Err(answer.err);
    }
    let rows = answer.out.lines().skip(2);
    let rows = rows.take_while(|line| line.starts_with(|first: char| first.is_ascii_digit()));
    Ok(rows.map(flat).collect())
}

/// Two GPUs on two sockets, each beside its NIC.
const WHOLE: &str = "\
\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity
GPU0\tX\tSYS\tPIX\tSYS\t0-1\t0
GPU1\tSYS\tX\tSYS\tPXB\t2-3\t1

NIC0: mlx5_10
NIC1: mlx5_11
";

#[test]
fn a_gpu_of_which_a_text_says_nothing_gets_no_neighbour_s_cpus() {
    let place = Place::new("pasted");
    let plan = |text: &str| planned(&place.file("matrix.txt", text));
    let first = "0 0 - mlx5_10:1 PIX 0-1 0".to_string();
    let second = |rest: &str| format!("1 1 - {rest}");
    let found = plan(WHOLE).unwrap();
    assert_eq!(found, [first.clone(), second("mlx5_11:1 PXB 2-3 1")]);
    for (from, to, rest) in [
        ("2-3\t1", "N/A\tN/A", "mlx5_11:1 PXB unknown any"),
        ("2-3\t1", "2-31", "mlx5_11:1 PXB unknown any"),
        ("2-3\t1", "", "mlx5_11:1 PXB unknown any"),
        ("mlx5_11\n", "mlx5_1", "NIC1:1 PXB 2-3 1"),
    ] {
        let rows = plan(&WHOLE.replace(from, to)).unwrap();
        assert_eq!(rows, [first.clone(), second(rest)], "{to}");
    }
    let cut = WHOLE.split("SYS\tPXB").next().unwrap();
    let refused = plan(cut).unwrap_err();
    let why = "line 3: the row of `GPU1`";
    let is_so = refused.contains(why) && refused.contains("has 2 cells: expected 4");
    assert!(is_so, "{refused}");
}

#[test]
fn a_text_is_read_in_utf_16_and_from_standard_input_and_a_packed_one_says_what_unpacks_it() {
    let place = Place::new("encoded");
    let whole = planned(&place.file("matrix.txt", WHOLE)).unwrap();
    for (mark, bytes) in [
        ([0xff, 0xfe], u16::to_le_bytes as fn(u16) -> [u8; 2]),
        ([0xfe, 0xff], u16::to_be_bytes),
    ] {
        let units = WHOLE.replace('\n', "\r\n");
        let text = mark.into_iter().chain(units.encode_utf16().flat_map(bytes));
        let file = place.0.join("wide.txt");
        fs::write(&file, text.clone().collect::<Vec<u8>>()).unwrap();
        assert_eq!(planned(file.to_str().unwrap()).unwrap(), whole);
        fs::write(&file, text.take(101).collect::<Vec<u8>>()).unwrap();
        let refused = planned(file.to_str().unwrap()).unwrap_err();
        assert!(refused.contains("it begins as UTF-16"), "{refused}");
    }
    let shown = Answer::to(tool().args(["show", "--topology", "-"]), WHOLE.as_bytes());
    let file = place.file("matrix.txt", WHOLE);
    let of_file = printed(&format!("show --topology {file}"));
    let of_file = of_file.replace(&format!("file `{file}`"), "file `-`");
    assert_eq!(shown.ends(0).out, of_file);
    for (head, program) in [
        (&b"\x1f\x8b\x08"[..], "zcat"),
        (b"BZh9", "bzcat"),
        (b"\xfd7zXZ\0", "xzcat"),
        (b"\x28\xb5\x2f\xfd", "zstdcat"),
    ] {
        let file = place.0.join("packed");
        fs::write(&file, head).unwrap();
        let refused = planned(file.to_str().unwrap()).unwrap_err();
        let command = format!("`{program} FILE | nic-placement show --topology -` reads it");
        assert!(refused.contains(&command), "{refused}");
    }
}

#[test]
fn nics_of_a_second_file_are_shown_beside_amd_s_gpus_and_given_to_none() {
    let place = Place::new("links");
    let gpus = "GPU[0]\t\t: (Topology) Numa Node: 0\nGPU[1]\t\t: (Topology) Numa Node: 1\n";
    let gpus = place.file("rocm-smi.txt", gpus);
    for links in [
        "link rdma0/1 state ACTIVE physical_state LINK_UP netdev eth2\n\
         link rdma1/1 state DOWN physical_state DISABLED netdev eth3\n",
        "0000:05:00.0 rdma0 (MT4129 - X) fw 28.1 port 1 (ACTIVE) ==> eth2 (Up)\n\
         0000:15:00.0 rdma1 (MT4129 - X) fw 28.1 port 1 (DOWN) ==> eth3 (Down)\n",
    ] {
        let links = place.file("links.txt", links);
        let import = run(&format!("import {gpus} {links}"));
        import.ends(0).says(&["so no GPU gets one"]);
        let node = place.file("node.json", import.out);
        let json = json(&format!("show --topology {node} --json"));
        let fact = |nic: &serde_json::Value| {
            let port = &nic["ports"][0];
            let facts = [
                &nic["name"],
                &port["number"],
                &port["state"],
                &nic["netdevs"][0],
            ];
            facts
                .map(|fact| fact.to_string().replace('"', ""))
                .join(" ")
        };
        let nics: Vec<_> = json["nics"].as_array().unwrap().iter().map(fact).collect();
        assert_eq!(nics, ["rdma0 1 active eth2", "rdma1 1 down eth3"]);
        let rows = ["0 0 - none unknown any", "1 1 - none unknown any"];
        assert_eq!(planned(&node).unwrap(), rows);
    }
    // without `-v` the word in brackets is the interface's state
    let links = place.file("links.txt", "rdma0 port 1 ==> eth2 (Up)\n");
    let answer = run(&format!("import {gpus} {links}"));
    assert!(!answer.out.contains("active"));
    for (first, second, why) in [
        (&gpus, &gpus, "no NIC in the second"),
        (&links, &links, "which the first is not"),
    ] {
        let answer = run(&format!("import {first} {second}"));
        answer.ends(1).says(&[why]);
    }
}

/// The rows of each file of the collection, where it lies beside the checkout; one cell is a part of the error.
#[test]
fn cases_from_public_threads_are_read_as_a_person_reads_them() {
    let beside = Path::new(env!("NIC_PLACEMENT_ROOT")).parent().unwrap();
    let cases = beside.join("shared/cases");
    if !cases.is_dir() {
        return println!("skipped: no collection of pasted texts beside the checkout");
    }
    let right = "cut-without-nics|line 4: the row of `GPU2`
        glued-affinity|0 0 - mlx5_0:1 PIX 0-23 0|1 1 - mlx5_1:1 PIX unknown any
        legend-cut|0 0 - mlx5_12:1 PIX 0-3 0|1 1 - NIC1:1 PIX 4-7 1
        musa-words|0 0 - mlx5_1:1 PIX 0-3 0|1 1 - mlx5_2:1 PIX 4-7 1
        no-numa-column|0 0 - mlx5_0:1 NODE unknown any|1 1 - mlx5_1:1 NODE unknown any
        one-known-numa|0 0 - mlx5_0:1 PIX 0-3 0|1 1 - mlx5_1:1 PIX unknown any";
    for case in right.lines() {
        let right: Vec<_> = case.trim_start().split('|').collect();
        let (name, right) = (right[0], &right[1..]);
        let file = cases.join(format!("{name}.txt"));
        match (planned(file.to_str().unwrap()), right) {
            (Ok(rows), [_, _]) => assert_eq!(rows, right, "{name}"),
            (Err(said), [right]) => assert!(said.contains(right), "{name}: {said}"),
            (found, right) => panic!("{name}: {found:?} and not {right:?}"),
        }
    }
}
