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
        for (word, format) in [
            ("json", Format::Json),
            ("sglang", Format::Sglang),
            ("mooncake", Format::Mooncake),
        ] {
            assert_eq!(named(word).unwrap()(subject), write(format, subject));
        }
        assert!(named("vllm").unwrap()(subject).unwrap().contains("VLLM"));
        for word in ["openmpi", "mpich", "intel-mpi", "nccl"] {
            assert!(named(word).is_none(), "{word}");
        }
    }

    /// vLLM: `domain:bus:device.function` in hexadecimal, as numbers.
    fn vllms_address(text: &str) -> (u32, u32, u32, u32) {
        let (body, function) = text.trim().rsplit_once('.').unwrap();
        let parts: Vec<u32> = body
            .split(':')
            .map(|part| u32::from_str_radix(part, 16).unwrap())
            .collect();
        (
            parts[0],
            parts[1],
            parts[2],
            u32::from_str_radix(function, 16).unwrap(),
        )
    }

    /// vLLM's map of a DGX H100, with these port numbers of its rails.
    fn written(ports: Option<[u8; 8]>) -> Result<String, NoMap> {
        let topology = platform::model("dgx-h100").unwrap();
        let mut node = policy::map(&topology, &Wish::default());
        for (rail, port) in node.rails.iter_mut().zip(ports.into_iter().flatten()) {
            rail.port = port;
        }
        let gpus: Vec<GpuIndex> = topology.gpu_indices().collect();
        vllm(Subject {
            topology: &topology,
            node: &node,
            gpus: &gpus,
        })
    }

    #[test]
    fn vllm_finds_a_nic_for_each_gpus_address_and_sets_ucx_alone() {
        let text = written(None).unwrap();
        let mut lines = text.lines().map(|line| line.split_once('=').unwrap());
        let (name, pairs) = lines.next().unwrap();
        assert_eq!(name, "VLLM_GPU_NIC_PCIE_MAPPING");
        let pairs: Vec<_> = pairs
            .split(',')
            .map(|pair| {
                pair.split_once('=')
                    .map(|(a, b)| (vllms_address(a), vllms_address(b)))
            })
            .collect();
        assert_eq!(pairs.len(), 8);
        assert_eq!(pairs[0], Some(((0, 0x1b, 0, 0), (0, 0x18, 0, 0))));
        // one NIC for each process in `NCCL_IB_HCA` would cost NCCL seven eighths of its bandwidth
        assert_eq!(
            lines.next(),
            Some(("VLLM_NIC_SELECTION_VARS", "UCX_NET_DEVICES:1"))
        );
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn vllm_is_told_the_port_that_all_its_nics_have_and_nothing_where_they_differ() {
        let all = [(); 8].map(|()| 2);
        assert!(
            written(Some(all))
                .unwrap()
                .ends_with("=UCX_NET_DEVICES:2\n")
        );
        let why = written(Some([1, 2, 2, 2, 2, 2, 2, 2])).unwrap_err();
        assert!(
            why.to_string()
                .contains("do not all have the same port number")
        );
    }

    #[test]
    fn a_map_of_vllms_that_would_lack_a_gpu_is_refused() {
        let topology = platform::model("dgx-h100").unwrap();
        let mut node = policy::map(&topology, &Wish::default());
        node.gpus[3].choices.clear();
        let gpus: Vec<GpuIndex> = topology.gpu_indices().collect();
        let subject = Subject {
            topology: &topology,
            node: &node,
            gpus: &gpus,
        };
        assert_eq!(
            vllm(subject).unwrap_err().to_string(),
            "GPU 3 has no NIC, and a map without one of the GPUs is refused"
        );
    }
}
