//! The reader on texts that leave something out: it is not known, and nothing stands in its place.

use super::*;

/// A GPU's NUMA node, its NIC's, and the CPUs in its row.
fn known(topology: &Topology, gpu: usize) -> (Option<u32>, Option<u32>, Option<CpuSet>) {
    let nic = topology.nics.get(gpu).and_then(|nic| nic.address);
    let gpu = topology.gpus[gpu].address;
    (
        topology.numa_node_of(gpu),
        nic.and_then(|nic| topology.numa_node_of(nic)),
        topology.pci.get(gpu).unwrap().local_cpus.clone(),
    )
}

#[test]
fn values_that_touch_are_not_known_and_none_of_the_neighbours_is_taken() {
    for row in ["2-51", "2-5", "2-51N/A"] {
        let head = "GPU0 GPU1 mlx5_0 mlx5_1 CPU Affinity NUMA Affinity GPU NUMA ID\nGPU0 X SYS PIX SYS 0-1 0 N/A";
        let (topology, findings) = load(&format!("{head}\nGPU1 SYS X SYS PIX {row}\n"));
        let first = (Some(0), Some(0), Some(set("0-1")));
        assert_eq!(known(&topology, 0), first, "{row}");
        assert_eq!(known(&topology, 1), (None, None, None), "{row}");
        let said = format!("`CPU Affinity`: `{row}` for 3 columns");
        let is_said = findings.iter().any(|of| of.starts_with(&said));
        assert!(is_said, "{findings:?}");
    }
}

#[test]
fn a_gpu_whose_row_names_no_numa_node_is_on_none_and_its_cpus_are_kept_and_said() {
    let text = "GPU0 GPU1 mlx5_0 mlx5_1 CPU Affinity NUMA Affinity\nGPU0 X SYS PIX SYS 0-1 0\nGPU1 SYS X SYS PIX N/A N/A\n";
    let (topology, findings) = load(text);
    assert_eq!(known(&topology, 0), (Some(0), Some(0), Some(set("0-1"))));
    assert_eq!(known(&topology, 1), (None, None, None));
    let said = only(&findings);
    assert!(said.contains("NUMA node is not known") && said.ends_with("rows of `GPU1`"));
    // a NIC that is far from the GPUs of the only node
    let (topology, _) = load("GPU0 mlx5_0 CPU Affinity NUMA Affinity\nGPU0 X SYS 0-1 0\n");
    assert_eq!(known(&topology, 0), (Some(0), None, Some(set("0-1"))));
    // CPUs without the number of their NUMA node
    let text =
        "GPU0 GPU1 mlx5_0 mlx5_1 CPU Affinity\nGPU0 X SYS PIX SYS 0-1\nGPU1 SYS X SYS PIX 2-3\n";
    let (topology, findings) = load(text);
    assert_eq!(known(&topology, 1), (None, None, Some(set("2-3"))));
    let said = only(&findings);
    assert!(said.starts_with("`CPU Affinity`: no number") && said.ends_with("`GPU0`, `GPU1`"));
}

#[test]
fn the_last_word_of_a_text_without_a_line_s_end_is_not_trusted() {
    let cut = PLAIN.strip_suffix('\n').unwrap();
    let (topology, findings) = load(cut);
    assert_eq!(paths_of(&topology), PLAIN_PATHS.replace("ibp9s0", "NIC1"));
    let said = only(&findings);
    assert!(said.starts_with("`NIC Legend`: no whole name") && said.ends_with("`NIC1`"));
    for whole in [format!("{cut} "), format!("{cut}```"), format!("{cut}\r\n")] {
        assert_eq!(load(&whole).1, [""; 0], "{whole:?}");
    }
    let text =
        "GPU0 GPU1 mlx5_0 CPU Affinity NUMA Affinity\nGPU0 X SYS PIX 0-3 0\nGPU1 SYS X SYS 4-15 1";
    let (topology, findings) = load(text);
    assert_eq!(known(&topology, 1), (None, None, None));
    let is_cut = |said: &String| said.contains("ends after `4-15 1` without");
    assert!(findings.iter().any(is_cut), "{findings:?}");
}

#[test]
fn another_vendor_s_words_are_read_by_the_file_s_own_legend() {
    let text = "\
         GPU0     GPU1     NIC0     NIC1     CPU Affinity   NUMA Affinity
GPU0     X        MT2      SPB      SYS      0-1            0
GPU1     MT2      X        SYS      MPB      2-3            1
NIC0     SPB      SYS      X        SYS
NIC1     SYS      MPB      SYS      X

Legend:

  X    = Self
  MPB  = Connection traversing multiple PCIe bridges
  SPB  = Connection traversing a single PCIe bridge

NIC Legend:

  NIC0: mlx5_4
  NIC1: ibp9s0
";
    let (topology, findings) = load(text);
    let wanted = PLAIN_PATHS.replace("=NODE", "=PXB");
    assert_eq!(paths_of(&topology), wanted);
    let said = only(&findings);
    assert!(said.starts_with("`rows`: ") && said.contains("`MPB`, `MT2`, `SPB`: "));
    let mut functions = topology.pci.iter();
    assert!(functions.all(|function| function.vendor.is_none()));
    let cut = &text[..text.find("single").unwrap()];
    for text in [&text.replace("SPB  =", "SPX  ="), cut] {
        assert!(refusal(text).contains("line 2: `SPB`, which no legend"));
    }
}
