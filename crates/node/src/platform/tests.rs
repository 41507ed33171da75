//! Every model against the facts that its sources state.

mod mappings;

use super::*;
use crate::file;
use crate::way::Between;
use nic_placement_topology::{Nic, NicKind, NicRole, PathType, Port, PortState, Provenance};

impl Model {
    /// Its file, with the sources that the library leaves out.
    fn written(&self) -> String {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/platform/models/");
        std::fs::read_to_string(format!("{file}{}.json", self.name)).unwrap()
    }

    pub(super) fn sources(&self) -> Result<Vec<String>, serde_json::Error> {
        let file: serde_json::Value = serde_json::from_str(&self.written())?;
        serde_json::from_value(file["sources"].clone())
    }
}

#[test]
fn every_model_parses_and_says_where_its_facts_come_from() {
    for built_in in MODELS {
        let topology = built_in
            .topology()
            .unwrap_or_else(|| panic!("{}", built_in.name));
        assert_eq!(topology.name, built_in.name);
        assert_eq!(
            topology.provenance,
            Provenance::Model(built_in.name.to_string())
        );
        assert!(!built_in.sources().unwrap().is_empty(), "{}", built_in.name);
        assert_eq!(model(built_in.name), Some(topology));
    }
}

#[test]
fn the_library_holds_each_model_in_the_node_files_form_and_without_its_sources() {
    let mut bytes = 0;
    for model in MODELS {
        let read =
            file::from_json(&model.written(), Provenance::Model(model.name.to_string())).unwrap();
        assert_eq!(
            postcard::to_allocvec(&read).unwrap(),
            model.packed,
            "{}",
            model.name
        );
        bytes += model.packed.len();
    }
    assert!(
        bytes < MODELS.len() * 3_000,
        "{bytes} bytes in every slurmd"
    );
}

#[test]
fn every_model_is_stored_as_it_is_written() {
    for model in MODELS {
        let (topology, sources) = (model.topology().unwrap(), model.sources().unwrap());
        assert!(
            file::to_json_with_sources(&topology, &sources) == model.written(),
            "{}",
            model.name
        );
    }
}

/// `(model, whose PCIe links it does not state, the reason among its sources)`
const WITHOUT_LINKS: [(&str, &[&str], &str); 4] = [
    (
        "aws-g5",
        &["GPU", "NIC"],
        "links are left out, since the guest reports 2.5 GT/s x1 while they idle",
    ),
    (
        "dgx-spark",
        &["GPU"],
        "the GPU states no link, since it is a part of the processor",
    ),
    (
        "gke-a3-mega",
        &["NIC"],
        "the gVNICs' links, which no public document states",
    ),
    (
        "summit",
        &["GPU"],
        "the GPUs state no link, since NVLink carries their data to the CPU",
    ),
];

#[test]
fn every_model_states_the_pcie_link_of_its_gpus_and_nics_or_why_it_does_not() {
    for built_in in MODELS {
        let topology = built_in.topology().unwrap();
        let lacks = |address| {
            topology
                .pci
                .get(address)
                .is_none_or(|function| function.link.current.is_none())
        };
        let gpu = topology
            .gpus
            .iter()
            .any(|gpu| lacks(gpu.address))
            .then_some("GPU");
        let nic = topology
            .nics
            .iter()
            .filter_map(|nic| nic.address)
            .any(lacks)
            .then_some("NIC");
        let found: Vec<&str> = gpu.into_iter().chain(nic).collect();
        let stated = WITHOUT_LINKS
            .iter()
            .find(|(name, ..)| *name == built_in.name);
        assert_eq!(
            found,
            stated.map_or(&[][..], |(_, devices, _)| devices),
            "{}",
            built_in.name
        );
        let sources = built_in.sources().unwrap().join("\n");
        assert!(
            stated.is_none_or(|(.., reason)| sources.contains(reason)),
            "{}",
            built_in.name
        );
    }
}

#[test]
fn names_are_sorted_and_no_other_name_is_known() {
    let names: Vec<&str> = names().collect();
    assert!(names.is_sorted() && names.contains(&"dgx-h100"));
    assert_eq!(model("dgx-h1000"), None);
}

#[test]
fn a_dgx_h100_has_the_nic_beside_each_gpu_that_its_user_guide_states() {
    let topology = model("dgx-h100").unwrap();
    let stated = [
        "mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11",
    ];
    assert_eq!(topology.gpus.len(), stated.len());
    for (gpu, stated) in topology.gpus.iter().zip(&stated) {
        let kind = |nic: &Nic| topology.path_type(gpu.address, nic.address.unwrap());
        let (near, far): (Vec<&Nic>, Vec<&Nic>) = topology
            .nics
            .iter()
            .partition(|nic| kind(nic) == PathType::Pix);
        assert_eq!(
            near.iter().map(|nic| nic.name.as_str()).collect::<Vec<_>>(),
            [*stated]
        );
        assert_eq!(near[0].role, Some(NicRole::Compute));
        let way = topology.way(gpu.address, near[0].address.unwrap());
        assert_eq!(
            way.links.iter().map(|link| link.mbps).min(),
            Some(504_123),
            "a PCIe 5.0 x16 link"
        );
        for nic in far {
            let node = |address| topology.numa_node_of(address).unwrap();
            let same = node(gpu.address) == node(nic.address.unwrap());
            let expected = if same { PathType::Node } else { PathType::Sys };
            assert_eq!(kind(nic), expected, "gpu {} and {}", gpu.address, nic.name);
        }
    }
}

#[test]
fn a_dgx_h100_has_the_cpus_and_ports_of_its_user_guide() {
    let topology = model("dgx-h100").unwrap();
    assert_eq!(topology.cpus().to_string(), "0-223");
    assert_eq!(
        (
            topology.pus.len(),
            topology.pus[112].core,
            topology.pus[111].package
        ),
        (224, 0, 1)
    );
    for pu in &topology.pus {
        assert!(
            topology
                .numa_node(pu.package)
                .unwrap()
                .cpus
                .contains(pu.os_index),
            "cpu {}",
            pu.os_index
        );
    }
    let nodes: Vec<_> = topology
        .gpus
        .iter()
        .map(|gpu| topology.numa_node_of(gpu.address).unwrap())
        .collect();
    assert_eq!(nodes, [0, 0, 0, 0, 1, 1, 1, 1]);
    let count = |role| {
        topology
            .nics
            .iter()
            .filter(|nic| nic.role == Some(role))
            .count()
    };
    assert_eq!(
        [NicRole::Compute, NicRole::Storage, NicRole::Management].map(count),
        [8, 2, 4]
    );
    for (i, nic) in topology.nics.iter().enumerate() {
        assert_eq!(nic.uverbs, Some(format!("uverbs{i}")), "{}", nic.name);
        let is_up = nic.ports.iter().all(|port| port.state == PortState::Active);
        assert_eq!(is_up, nic.name != "irdma1", "{}", nic.name);
    }
}

/// One line of each model's sources begins with `networks: `, and says which networks the fabric's ports are in, `none` for
/// fabrics without any (EFA, Slingshot, plain Ethernet), or why they are `not stated`.
#[test]
fn every_model_says_the_networks_of_its_fabric_or_why_it_states_none() {
    for model in MODELS {
        let (name, topology, sources) = (
            model.name,
            model.topology().unwrap(),
            model.sources().unwrap(),
        );
        let lines = sources
            .iter()
            .filter_map(|source| source.strip_prefix("networks: "));
        let [line] = lines.collect::<Vec<_>>()[..] else {
            panic!("{name}: not one line about networks")
        };
        let fabric: Vec<&Nic> = topology
            .nics
            .iter()
            .filter(|nic| nic.role == Some(NicRole::Compute))
            .collect();
        let ports = || fabric.iter().flat_map(|nic| &nic.ports);
        let in_a_network = |port: &Port| port.subnet.is_some() || !port.networks.is_empty();
        let is_of_verbs = |nic: &&Nic| nic.kind == NicKind::Verbs;
        assert!(ports().count() > 0, "{name}");
        if line.starts_with("none: ") {
            assert!(
                !fabric.iter().any(is_of_verbs) && !ports().any(in_a_network),
                "{name}: {line}"
            );
        } else if line.starts_with("not stated: ") {
            assert!(
                fabric.iter().any(is_of_verbs) && !ports().any(in_a_network),
                "{name}: {line}"
            );
        } else {
            assert!(ports().all(in_a_network), "{name}: {line}");
        }
    }
}

// between subnets UCX connects no NICs, so a task there gets another plan
#[test]
fn googles_rdma_nics_have_a_subnet_each_and_those_of_ocis_h100_shape_one_in_common() {
    for (name, count, common) in [
        ("gke-a3-ultra", 8, false),
        ("gke-a4", 8, false),
        ("oci-bm-gpu-h100-8", 16, true),
    ] {
        let model = model(name).unwrap();
        let compute = model
            .nics
            .iter()
            .filter(|nic| nic.role == Some(NicRole::Compute));
        let networks: Vec<_> = compute
            .flat_map(|nic| &nic.ports)
            .map(|port| port.networks.clone())
            .collect();
        assert_eq!(networks.len(), count, "{name}");
        assert!(
            networks.iter().all(|networks| networks.len() == 1),
            "{name}: {networks:?}"
        );
        let different: std::collections::BTreeSet<_> = networks
            .iter()
            .map(|networks| networks[0].to_string())
            .collect();
        assert_eq!(
            different.len(),
            if common { 1 } else { count },
            "{name}: {different:?}"
        );
    }
}
