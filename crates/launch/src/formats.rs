//! The formats of a node's map, by their words.

use nic_placement_core::maps::{self, NoMap, Subject, pairs};
use nic_placement_core::topology::GpuIndex;
use std::collections::BTreeSet;

pub type Write = fn(Subject) -> Result<String, NoMap>;

/// `(word, format, description)`, in the order of help texts.
pub const FORMATS: [(&str, Write, &str); 4] = [
    (
        "json",
        maps::json,
        "the project's own, by index, UUID and PCI address",
    ),
    (
        "sglang",
        maps::sglang,
        "SGLang's --disaggregation-ib-device",
    ),
    (
        "mooncake",
        maps::mooncake,
        "a file for Mooncake's MC_CUSTOM_TOPO_JSON",
    ),
    ("vllm", vllm, "the two variables of vLLM"),
];

pub fn named(word: &str) -> Option<Write> {
    let known = FORMATS.iter().find(|(name, ..)| *name == word)?;
    Some(known.1)
}

/// vLLM's `VLLM_GPU_NIC_PCIE_MAPPING`, and `VLLM_NIC_SELECTION_VARS` with the port number that vLLM appends to every
/// NIC's name (vllm/v1/executor/vllm_net_devices.py; pull request 42083 of 2026).
fn vllm(subject: Subject) -> Result<String, NoMap> {
    let (pairs, node) = (pairs(subject)?, subject.node);
    let port = |gpu: &GpuIndex| Some(node.rail(node.gpu(*gpu).choices.first()?.rail).port);
    let mut ports: BTreeSet<u8> = subject.gpus.iter().filter_map(port).collect();
    let port = ports.pop_first().filter(|_| ports.is_empty());
    let port = port.ok_or_else(|| {
        let why = "the GPUs' NICs do not all have the same port number, and vLLM knows one for all";
        NoMap(why.into())
    })?;
    Ok(format!(
        "VLLM_GPU_NIC_PCIE_MAPPING={pairs}\nVLLM_NIC_SELECTION_VARS=UCX_NET_DEVICES:{port}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nic_placement_core::maps::{Format, write};
    use nic_placement_core::placement::NodePlacement;
    use nic_placement_core::policy;
    use nic_placement_core::wish::Wish;
    use nic_placement_node::platform;

    #[test]
    fn a_word_names_a_format_and_no_word_names_one_of_ranks() {
        let topology = platform::model("dgx-h100").unwrap();
        let subject = Subject {
            topology: &topology,
            node: &policy::map(&topology, &Wish::default()),
            gpus: &[GpuIndex(0), GpuIndex(5)],
        };
        use Format::{Json, Mooncake, Sglang};
        for (word, format) in [("json", Json), ("sglang", Sglang), ("mooncake", Mooncake)] {
            assert_eq!(named(word).unwrap()(subject), write(format, subject));
        }
        assert!(named("vllm").unwrap()(subject).unwrap().contains("VLLM"));
        for word in ["openmpi", "mpich", "intel-mpi", "nccl"] {
            assert!(named(word).is_none(), "{word}");
        }
    }

    /// vLLM's map of a DGX H100, after a change.
    fn written(change: impl FnOnce(&mut NodePlacement)) -> Result<String, String> {
        let topology = platform::model("dgx-h100").unwrap();
        let mut node = policy::map(&topology, &Wish::default());
        change(&mut node);
        let gpus: Vec<GpuIndex> = topology.gpu_indices().collect();
        let subject = Subject {
            topology: &topology,
            node: &node,
            gpus: &gpus,
        };
        vllm(subject).map_err(|why| why.to_string())
    }

    /// vLLM: `domain:bus:device.function` in hexadecimal, as numbers.
    fn vllms_address(text: &str) -> Vec<u32> {
        let number = |part| u32::from_str_radix(part, 16);
        let parts = text.trim().split([':', '.']).map(number);
        parts.collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn vllm_finds_a_nic_for_each_gpus_address_and_its_port_where_all_have_the_same() {
        let text = written(|_| ()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        // one NIC for each process in `NCCL_IB_HCA` would cost NCCL seven eighths of its bandwidth
        let [map, "VLLM_NIC_SELECTION_VARS=UCX_NET_DEVICES:1"] = lines[..] else {
            panic!("{text}")
        };
        let pairs = map.strip_prefix("VLLM_GPU_NIC_PCIE_MAPPING=").unwrap();
        let pairs: Vec<&str> = pairs.split(',').collect();
        assert_eq!(pairs.len(), 8);
        let first = pairs[0].split('=').map(vllms_address);
        assert!(first.eq([[0, 0x1b, 0, 0], [0, 0x18, 0, 0]]));
        let ports = |first: u8| {
            move |node: &mut NodePlacement| {
                node.rails.iter_mut().for_each(|rail| rail.port = 2);
                node.rails[0].port = first;
            }
        };
        assert!(written(ports(2)).unwrap().ends_with("=UCX_NET_DEVICES:2\n"));
        let differ = written(ports(1)).unwrap_err();
        assert!(differ.contains("do not all have the"), "{differ}");
        let lacks = written(|node| node.gpus[3].choices.clear()).unwrap_err();
        assert!(lacks.starts_with("GPU 3 has no NIC"), "{lacks}");
    }
}
