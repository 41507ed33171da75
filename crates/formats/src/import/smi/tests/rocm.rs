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
        let node = topology
            .numa_node_of(gpu.address)
            .map_or("-".to_string(), |node| node.to_string());
        let address = if gpu.address.is_invented() {
            gpu.address.bus.to_string()
        } else {
            gpu.address.to_string()
        };
        format!(
            "{address}{}@{node}",
            gpu.partition
                .map_or(String::new(), |part| format!("/{part}"))
        )
    };
    topology.gpus.iter().map(gpu).collect::<Vec<_>>().join(" ")
}

/// What amd-smi's output leaves open.
fn unknown(gpus: &str) -> String {
    let command = "(amd-smi topology; rocm-smi --showtoponuma) > FILE";
    format!("`amd-smi topology`: no NUMA node of {gpus}: `{command}` tells it")
}

fn judged(text: &str, gpus: &str, said: &[&str]) {
    assert!(amd::is_one(text), "{text}");
    let (topology, findings) = load(text);
    assert_eq!(gpus_of(&topology), gpus, "{text}");
    assert!(
        topology.gpus.iter().all(|gpu| gpu.vendor == GpuVendor::Amd) && topology.nics.is_empty()
    );
    assert!(
        findings[0].contains("names no NICs and no CPUs: `nic-placement snapshot`"),
        "{findings:?}"
    );
    let rest: Vec<&str> = findings[1..].iter().map(String::as_str).collect();
    assert_eq!(rest, said, "{text}");
}

#[test]
fn what_rocm_smi_prints_tells_gpus_and_their_numa_nodes() {
    judged(ROCM, "0@0 1@0 2@1 3@1", &[]);
    let unknown = ROCM.replace("GPU[3]\t\t: (Topology) Numa Node: 1\n", "");
    let said = "`rocm-smi --showtopo`: no NUMA node of `GPU3`: `rocm-smi --showtoponuma` tells it";
    judged(&unknown, "0@0 1@0 2@1 3@-", &[said]);
}

#[test]
fn what_amd_smi_prints_tells_addresses_and_with_rocm_smi_the_numa_nodes() {
    let said = unknown("`GPU0`, `GPU1`, `GPU2`, `GPU3`");
    judged(
        AMD,
        "0000:0c:00.0@- 0000:22:00.0@- 0000:9f:00.0@- 0000:df:00.0@-",
        &[&said],
    );
    judged(
        &format!("{AMD}{ROCM}"),
        "0000:0c:00.0@0 0000:22:00.0@0 0000:9f:00.0@1 0000:df:00.0@1",
        &[],
    );
}

#[test]
fn partitions_of_a_gpu_share_its_address() {
    let said = unknown("`GPU0`, `GPU1`, `GPU2`");
    let text =
        "LINK TYPE TABLE:\n 0000:0c:00.0 0000:0c:00.1 0000:22:00.0\n0000:0c:00.0 SELF XGMI XGMI\n";
    judged(
        text,
        "0000:0c:00.0/0@- 0000:0c:00.0/1@- 0000:22:00.0@-",
        &[&said],
    );
    judged(
        &text.replace("00.1", "00.0"),
        "0000:0c:00.0/0@- 0000:0c:00.0/1@- 0000:22:00.0@-",
        &[&said],
    );
}

#[test]
fn what_names_no_gpu_or_too_many_is_refused() {
    for (text, reason) in [
        (
            "LINK TYPE TABLE:\n".to_string(),
            "no GPU in the output of amd-smi topology",
        ),
        (ROCM.replace("GPU[3]", "GPU[128]"), "more than 128 GPUs"),
    ] {
        let refused = refusal(&text);
        assert!(
            refused.contains(reason),
            "expected: {reason}\nfound: {refused}"
        );
    }
}
