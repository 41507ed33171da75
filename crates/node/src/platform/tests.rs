//! Every model against the facts that its sources state.

mod mappings;

use super::*;
use crate::file;
use crate::way::Between;
use nic_placement_topology::{NicKind, NicRole, PathType, Port, PortState, Provenance};

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
fn every_model_parses_says_where_its_facts_come_from_and_is_stored_as_it_is_written() {
    let mut bytes = 0;
    for built_in in MODELS {
        let (name, provenance) = (built_in.name, Provenance::Model(built_in.name.to_string()));
        let (topology, sources) = (model(name).unwrap(), built_in.sources().unwrap());
        let got = (topology.name.as_str(), &topology.provenance);
        assert_eq!(got, (name, &provenance));
        assert!(!sources.is_empty(), "{name}");
        let written = built_in.written();
        let is_right = file::to_json_with_sources(&topology, &sources) == written;
        assert!(is_right, "{name}");
        // the library holds it in the node file's form and without its sources
        let read = file::from_json(&written, provenance).unwrap();
        let found = postcard::to_allocvec(&read).unwrap();
        assert_eq!(found, built_in.packed, "{name}");
        bytes += built_in.packed.len();
    }
    let is_right = bytes < MODELS.len() * 3_000;
    assert!(is_right, "{bytes} bytes in every slurmd");
}

/// `(model, the devices of which it states no PCIe link, the reason among its sources)`
const WITHOUT_LINKS: [(&str, &str, &str); 4] = [
    ("aws-g5", "GPU NIC", "the guest reports 2.5 GT/s x1 while"),
    ("dgx-spark", "GPU", "the GPU states no link,"),
    ("gke-a3-mega", "NIC", "the gVNICs' links, which no"),
    ("summit", "GPU", "the GPUs state no link,"),
];

#[test]
fn every_model_states_the_pcie_link_of_its_gpus_and_nics_or_why_it_does_not() {
    for built_in in MODELS {
        let (name, topology) = (built_in.name, built_in.topology().unwrap());
        let lacks = |address| {
            let function = topology.pci.get(address);
            function.is_none_or(|function| function.link.current.is_none())
        };
        let mut nics = topology.nics.iter().filter_map(|nic| nic.address);
        let mut gpus = topology.gpus.iter().map(|gpu| gpu.address);
        let both = [(gpus.any(lacks), "GPU"), (nics.any(lacks), "NIC")];
        let found = both
            .iter()
            .filter(|of| of.0)
            .map(|of| of.1)
            .collect::<Vec<_>>();
        let stated = WITHOUT_LINKS.iter().find(|(known, ..)| *known == name);
        assert_eq!(found.join(" "), stated.map_or("", |of| of.1), "{name}");
        let sources = built_in.sources().unwrap().join("\n");
        let is_right = stated.is_none_or(|(.., reason)| sources.contains(reason));
        assert!(is_right, "{name}");
    }
}

#[test]
fn names_are_sorted_and_no_other_name_is_known() {
    let names: Vec<&str> = names().collect();
    assert!(names.is_sorted() && names.contains(&"dgx-h100"));
    assert_eq!(model("dgx-h1000"), None);
}

#[test]
fn a_dgx_h100_has_the_nics_cpus_and_ports_of_its_user_guide() {
    let topology = model("dgx-h100").unwrap();
    let node = |address| topology.numa_node_of(address).unwrap();
    let stated = [0, 3, 4, 5, 6, 9, 10, 11].map(|nth| format!("mlx5_{nth}"));
    assert_eq!(topology.gpus.len(), stated.len());
    for (gpu, stated) in topology.gpus.iter().zip(&stated) {
        for nic in &topology.nics {
            let address = nic.address.unwrap();
            let is_near = nic.name == stated.as_str();
            let expected = match (is_near, node(gpu.address) == node(address)) {
                (true, _) => PathType::Pix,
                (false, true) => PathType::Node,
                (false, false) => PathType::Sys,
            };
            let way = topology.way(gpu.address, address);
            assert_eq!(way.kind, expected, "gpu {} and {}", gpu.address, nic.name);
            if is_near {
                // a PCIe 5.0 x16 link
                let slowest = way.links.iter().map(|link| link.mbps).min();
                assert_eq!((nic.role, slowest), (Some(NicRole::Compute), Some(504_123)));
            }
        }
    }
    assert_eq!(topology.cpus().to_string(), "0-223");
    let (last, first) = (&topology.pus[111], &topology.pus[112]);
    assert_eq!((topology.pus.len(), first.core, last.package), (224, 0, 1));
    for pu in &topology.pus {
        let of_package = topology.numa_node(pu.package).unwrap();
        assert!(of_package.cpus.contains(pu.os_index), "cpu {}", pu.os_index);
    }
    let nodes = topology.gpus.iter().map(|gpu| node(gpu.address));
    assert_eq!(nodes.collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1, 1]);
    let roles = [NicRole::Compute, NicRole::Storage, NicRole::Management].map(|role| {
        let nics = topology.nics.iter();
        nics.filter(|nic| nic.role == Some(role)).count()
    });
    assert_eq!(roles, [8, 2, 4]);
    for (i, nic) in topology.nics.iter().enumerate() {
        assert_eq!(nic.uverbs, Some(format!("uverbs{i}")), "{}", nic.name);
        let is_up = nic.ports.iter().all(|port| port.state == PortState::Active);
        assert_eq!(is_up, nic.name != "irdma1", "{}", nic.name);
    }
}

/// The ports of the compute NICs, and whether one of these is a verbs device.
fn fabric(topology: &Topology) -> (Vec<&Port>, bool) {
    let nics = topology.nics.iter();
    let nics = nics.filter(|nic| nic.role == Some(NicRole::Compute));
    let is_of_verbs = nics.clone().any(|nic| nic.kind == NicKind::Verbs);
    (nics.flat_map(|nic| &nic.ports).collect(), is_of_verbs)
}

/// One line of each model's sources begins with `networks: `, and says which networks the fabric's ports are in, `none` for
/// fabrics without any (EFA, Slingshot, plain Ethernet), or why they are `not stated`.
#[test]
fn every_model_says_the_networks_of_its_fabric_or_why_it_states_none() {
    for model in MODELS {
        let (name, topology) = (model.name, model.topology().unwrap());
        let sources = model.sources().unwrap();
        let lines = sources.iter();
        let lines = lines.filter_map(|source| source.strip_prefix("networks: "));
        let [line] = lines.collect::<Vec<_>>()[..] else {
            panic!("{name}: not one line about networks")
        };
        let (ports, is_of_verbs) = fabric(&topology);
        let in_a_network = |port: &&Port| port.subnet.is_some() || !port.networks.is_empty();
        let known = ports.iter().filter(|port| in_a_network(port)).count();
        let expected = match line.split(": ").next() {
            Some("none") => !is_of_verbs && known == 0,
            Some("not stated") => is_of_verbs && known == 0,
            _ => known == ports.len(),
        };
        assert!(expected && !ports.is_empty(), "{name}: {line}");
    }
}

// between subnets UCX connects no NICs, so a task there gets another plan
#[test]
fn googles_rdma_nics_have_a_subnet_each_and_those_of_ocis_h100_shape_one_in_common() {
    for (name, count, different) in rows! {
        "gke-a3-ultra", 8, 8; "gke-a4", 8, 8; "oci-bm-gpu-h100-8", 16, 1;
    } {
        let model = model(name).unwrap();
        let ports = fabric(&model).0.into_iter();
        let networks: Vec<_> = ports.map(|port| port.networks.clone()).collect();
        assert_eq!(networks.len(), count, "{name}");
        let is_right = networks.iter().all(|networks| networks.len() == 1);
        assert!(is_right, "{name}: {networks:?}");
        let texts = networks.iter().map(|networks| networks[0].to_string());
        let found = std::collections::BTreeSet::from_iter(texts).len();
        assert_eq!(found, different, "{name}");
    }
}
