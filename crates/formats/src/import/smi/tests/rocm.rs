//! The reader on the outputs of rocm-smi and amd-smi.

use super::*;

/// Four GPUs of MI300X on two sockets.
const ROCM: &str = "\
============================ ROCm System Management Interface ============================
================================ Weight between two GPUs =================================
       GPU0         GPU1         GPU2         GPU3
GPU0   0            15           15           15
GPU1   15           0            15           15

=============================== Link Type between two GPUs ===============================
       GPU0         GPU1         GPU2         GPU3
GPU0   0            XGMI         XGMI         XGMI
GPU1   XGMI         0            XGMI         XGMI

======================================= Numa Nodes =======================================
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[0]\t\t: (Topology) Numa Affinity: 0
GPU[1]\t\t: (Topology) Numa Node: 0
GPU[1]\t\t: (Topology) Numa Affinity: -1
GPU 2          : (Topology) Numa Node: 2
GPU 2          : (Topology) Numa Affinity: 1
GPU[3]\t\t: (Topology) Numa Node: 1
================================== End of ROCm SMI Log ===================================
";

const AMD: &str = "\
ACCESS TABLE:
             0000:0c:00.0 0000:22:00.0 0000:9f:00.0 0000:df:00.0
0000:0c:00.0 ENABLED      ENABLED      ENABLED      ENABLED
0000:22:00.0 ENABLED      ENABLED      ENABLED      DISABLED

LINK TYPE TABLE:
             0000:0c:00.0 0000:22:00.0 0000:9f:00.0 0000:df:00.0
0000:0c:00.0 SELF         XGMI         XGMI         XGMI
0000:22:00.0 XGMI         SELF         PCIE         XGMI
";

/// `0c:00.0@0`: the GPUs with their NUMA nodes.
fn gpus_of(topology: &Topology) -> String {
    let gpu = |gpu: &Gpu| {
        let node = topology.numa_node_of(gpu.address);
        let node = node.map_or("-".to_string(), |node| node.to_string());
        let part = gpu.partition.map(|part| format!("/{part}"));
        let address = match gpu.address.is_invented() {
            true => gpu.address.bus.to_string(),
            false => gpu.address.to_string(),
        };
        format!("{address}{}@{node}", part.unwrap_or_default())
    };
    topology.gpus.iter().map(gpu).collect::<Vec<_>>().join(" ")
}

/// The GPUs with their NUMA nodes, and those of which the texts leave that open.
fn judged(text: &str, gpus: &str, unknown: &str) {
    assert!(amd::is_one(text), "{text}");
    let (topology, findings) = load(text);
    assert_eq!(gpus_of(&topology), gpus, "{text}");
    assert!(topology.gpus.iter().all(|gpu| gpu.vendor == GpuVendor::Amd));
    assert!(topology.nics.is_empty() && findings[0].contains("names no NICs"));
    let is_told = |said: &String| said.contains(&format!("no NUMA node of {unknown}: "));
    assert_eq!(findings.len(), 2 - usize::from(unknown.is_empty()));
    assert!(unknown.is_empty() || is_told(&findings[1]), "{findings:?}");
}

#[test]
fn rocm_smi_tells_gpus_with_their_numa_nodes_and_amd_smi_their_addresses() {
    judged(ROCM, "0@0 1@0 2@1 3@1", "");
    let unknown = ROCM.replace("GPU[3]\t\t: (Topology) Numa Node: 1\n", "");
    judged(&unknown, "0@0 1@0 2@1 3@-", "`GPU3`");
    let gpus = "0000:0c:00.0@- 0000:22:00.0@- 0000:9f:00.0@- 0000:df:00.0@-";
    judged(AMD, gpus, "`GPU0`, `GPU1`, `GPU2`, `GPU3`");
    let gpus = "0000:0c:00.0@0 0000:22:00.0@0 0000:9f:00.0@1 0000:df:00.0@1";
    judged(&format!("{AMD}{ROCM}"), gpus, "");
}

#[test]
fn partitions_of_a_gpu_share_its_address() {
    let text =
        "LINK TYPE TABLE:\n 0000:0c:00.0 0000:0c:00.1 0000:22:00.0\n0000:0c:00.0 SELF XGMI XGMI\n";
    let gpus = "0000:0c:00.0/0@- 0000:0c:00.0/1@- 0000:22:00.0@-";
    for text in [text, &text.replace("00.1", "00.0")] {
        judged(text, gpus, "`GPU0`, `GPU1`, `GPU2`");
    }
}

#[test]
fn what_names_no_gpu_or_too_many_is_refused() {
    let many = ROCM.replace("GPU[3]", "GPU[128]");
    let none = ("LINK TYPE TABLE:\n", "0 GPUs in the output");
    for (text, reason) in [none, (&many, "129 GPUs in the output")] {
        let refused = refusal(text);
        assert!(refused.contains(reason), "{reason}\nfound: {refused}");
    }
}
