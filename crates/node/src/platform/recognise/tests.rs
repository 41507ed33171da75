//! Which nodes are recognised, which are not, and what a model may add to them.

use super::super::model;
use super::*;
use nic_placement_core::policy;
use nic_placement_core::wish::Wish;
use nic_placement_topology::{PciFunction, PciParent, PortState, Provenance};

/// A machine of the model's kind as its own bus shows it, without stated paths or roles.
fn as_seen(name: &str) -> Topology {
    let mut live = model(name).unwrap();
    live.provenance = Provenance::ThisSystem;
    live.name = "node17".to_string();
    live.stated_paths.clear();
    live.nics.iter_mut().for_each(|nic| nic.role = None);
    live
}

fn azure() -> Dmi {
    Dmi {
        product: Some("Virtual Machine".to_string()),
        vendor: Some("Microsoft Corporation".to_string()),
        board: Some("Virtual Machine".to_string()),
        chassis_asset_tag: Some("7783-7084-3265-9085-8269-3286-77".to_string()),
    }
}

fn product(name: &str) -> Dmi {
    Dmi {
        product: Some(name.to_string()),
        ..Dmi::default()
    }
}

fn name(dmi: &Dmi, live: &Topology) -> Option<&'static str> {
    recognise(dmi, live).map(|model| model.name)
}

fn keep_gpus(live: &mut Topology, count: usize) {
    live.gpus.truncate(count);
}

fn set_device(live: &mut Topology, address: PciAddress, device: Option<u16>) {
    let function = live.pci.get(address).unwrap().clone();
    live.pci.insert(PciFunction { device, ..function });
}

fn address(text: &str) -> PciAddress {
    text.parse().unwrap()
}

fn known(name: &str) -> &'static Model {
    MODELS.iter().find(|model| model.name == name).unwrap()
}

const ND_H100: &str = "azure-nd96isr-h100-v5";

#[test]
fn the_marks_are_those_of_the_models() {
    for model in MODELS {
        let topology = model.topology().unwrap();
        assert_eq!(model.gpus, topology.gpus.len(), "{}", model.name);
        for gpu in &topology.gpus {
            assert_eq!(
                is_of_kind(&topology, gpu, model),
                Some(true),
                "{}",
                model.name
            );
            let id = device(&topology, gpu.address);
            let kind = model.kinds.iter().find(|kind| Some(kind.id) == id).unwrap();
            assert!(
                gpu.model
                    .as_deref()
                    .is_none_or(|name| kind.names.contains(&name)),
                "{}",
                model.name
            );
        }
        for nic in model.assumed {
            assert!(
                topology.nics.iter().any(|known| known.name == *nic),
                "{}: {nic}",
                model.name
            );
        }
        // sources and marks must agree on what is assumed
        let assumed = model.sources().unwrap().iter().any(|source| {
            source.contains("assumed: every PCI address")
                || source.contains("assumed: PCI addresses")
        });
        assert!(!(assumed && model.addresses), "{}", model.name);
    }
}

#[test]
fn every_machine_with_a_name_is_recognised_by_it_and_its_hardware() {
    for model in MODELS {
        let live = as_seen(model.name);
        for known in model.products {
            assert_eq!(
                name(&product(&format!("{known} 920-1")), &live),
                Some(model.name)
            );
        }
    }
}

#[test]
fn without_a_name_only_stated_addresses_tell_a_machine() {
    for model in MODELS {
        let expected = model.addresses.then_some(model.name);
        assert_eq!(
            name(&Dmi::default(), &as_seen(model.name)),
            expected,
            "{}",
            model.name
        );
    }
}

#[test]
fn an_nd_h100_v5_that_shows_node_and_sys_only_gets_its_pairs() {
    let mut live = as_seen(ND_H100);
    for gpu in &live.gpus {
        for nic in &live.nics {
            let kind = live.path_type(gpu.address, nic.address.unwrap());
            assert!(kind >= PathType::Node, "{} {}", gpu.address, nic.name);
        }
    }
    assert_eq!(name(&azure(), &live), Some(ND_H100));
    let model = known(ND_H100);
    let known = model.topology().unwrap();
    let said: Vec<String> = supply(&mut live, model)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        said,
        [
            "`azure-nd96isr-h100-v5`: recognised by its GPUs, its NICs and its PCI addresses; from its model: \
          `8` paths and `8` roles"
        ]
    );
    assert_eq!(live.stated_paths, known.stated_paths);
    let pairs = |topology: &Topology| {
        let placement = policy::map(topology, &Wish::default());
        placement
            .gpus
            .iter()
            .map(|gpu| gpu.choices[0].rail.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(pairs(&live), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(supply(&mut live, model), [], "once is enough");
}

#[test]
fn what_is_live_stays_as_it_is() {
    let mut live = as_seen(ND_H100);
    live.nics[2].ports[0].state = PortState::Down;
    live.nics[3].ports[0].rate_mbps = Some(100_000);
    live.nics[4].role = Some(NicRole::Storage);
    live.stated_paths.insert(
        (address("000c:00:00.0"), address("0108:00:00.0")),
        PathType::Sys,
    );
    let before = live.clone();
    supply(&mut live, known(ND_H100));
    assert_eq!(live.nics[4].role, Some(NicRole::Storage));
    assert_eq!(
        live.stated_paths[&(address("000c:00:00.0"), address("0108:00:00.0"))],
        PathType::Sys
    );
    live.stated_paths = before.stated_paths.clone();
    live.nics
        .iter_mut()
        .zip(&before.nics)
        .for_each(|(nic, before)| nic.role = before.role);
    assert_eq!(live, before);
}

/// The live bus shows GPU 0 and the second NIC below one switch; the model pairs each with another.
#[test]
fn a_live_pix_wins_over_the_model() {
    let mut live = as_seen(ND_H100);
    let (gpu, nic) = (address("0001:00:00.0"), address("0102:00:00.0"));
    let (up, left, right) = (
        address("0001:10:00.0"),
        address("0001:11:00.0"),
        address("0001:11:01.0"),
    );
    live.pci.insert(PciFunction::new(
        up,
        PciParent::Host("pci0001:00".parse().unwrap()),
    ));
    for (function, parent) in [(left, up), (right, up), (gpu, left), (nic, right)] {
        let known = live
            .pci
            .get(function)
            .cloned()
            .unwrap_or(PciFunction::new(function, PciParent::Bridge(parent)));
        live.pci.insert(PciFunction {
            parent: PciParent::Bridge(parent),
            ..known
        });
    }
    assert_eq!(live.path_type(gpu, nic), PathType::Pix);
    supply(&mut live, known(ND_H100));
    assert_eq!(live.path_type(gpu, nic), PathType::Pix);
    assert_eq!(
        live.path_type(gpu, address("0101:00:00.0")),
        PathType::Node,
        "the model's pair of this GPU"
    );
    assert_eq!(
        live.path_type(address("0002:00:00.0"), nic),
        PathType::Node,
        "the model's pair of this NIC"
    );
    assert_eq!(
        live.path_type(address("0003:00:00.0"), address("0103:00:00.0")),
        PathType::Pix
    );
    assert_eq!(live.stated_paths.len(), 6);
}

#[test]
fn other_gpus_names_or_clouds_are_other_machines() {
    let mut live = as_seen("dgx-h100");
    assert_eq!(name(&product("DGXH100"), &live), Some("dgx-h100"));
    assert_eq!(
        name(&product("PowerEdge XE9680"), &live),
        None,
        "the same board in another vendor's machine"
    );
    let first = live.gpus[0].address;
    set_device(&mut live, first, Some(0x2335));
    assert_eq!(
        name(&product("DGXH100"), &live),
        None,
        "one GPU of another kind"
    );
    let live = as_seen("dgx-h200");
    assert_eq!(
        name(&product("DGXH100"), &live),
        None,
        "eight GPUs of another kind"
    );

    let live = as_seen(ND_H100);
    let elsewhere = Dmi {
        vendor: Some("QEMU".to_string()),
        ..azure()
    };
    assert_eq!(name(&elsewhere, &live), None);
    let another_tag = Dmi {
        chassis_asset_tag: Some("OracleCloud.com".to_string()),
        ..azure()
    };
    assert_eq!(name(&another_tag, &live), None);
}

#[test]
fn a_p5e_with_its_h200_is_the_model_of_a_p5_at_whatever_addresses() {
    let mut live = as_seen("aws-p5");
    for gpu in gpu_addresses(&live) {
        set_device(&mut live, gpu, Some(0x2335));
    }
    live.gpus
        .iter_mut()
        .for_each(|gpu| gpu.model = Some("NVIDIA H200".to_string()));
    assert_eq!(name(&product("p5e.48xlarge"), &live), Some("aws-p5"));
    let first = live.pci.get(live.gpus[0].address).unwrap().clone();
    live.gpus[0].address = address("0042:00:00.0");
    live.pci.insert(PciFunction {
        address: live.gpus[0].address,
        ..first
    });
    assert_eq!(name(&product("p5e.48xlarge"), &live), Some("aws-p5"));
}

#[test]
fn gpus_are_known_by_their_names_where_nobody_read_their_ids_and_prove_nothing_without_both() {
    let mut live = as_seen("dgx-h100");
    for gpu in gpu_addresses(&live) {
        set_device(&mut live, gpu, None);
    }
    assert_eq!(name(&Dmi::default(), &live), Some("dgx-h100"));
    assert_eq!(name(&product("DGXH200"), &live), None, "H100 in a DGX H200");
    live.gpus.iter_mut().for_each(|gpu| gpu.model = None);
    assert_eq!(
        name(&Dmi::default(), &live),
        None,
        "a DGX H100 and a DGX H200 are alike then"
    );
    assert_eq!(name(&product("DGXH200"), &live), Some("dgx-h200"));
}

#[test]
fn a_part_of_the_gpus_is_known_by_name_and_place_together() {
    let mut live = as_seen(ND_H100);
    keep_gpus(&mut live, 4);
    assert_eq!(name(&azure(), &live), Some(ND_H100));
    supply(&mut live, known(ND_H100));
    let pairs: Vec<_> = live
        .stated_paths
        .iter()
        .map(|((gpu, nic), path)| format!("{gpu} {nic} {path}"))
        .collect();
    assert_eq!(
        pairs,
        [
            "0001:00:00.0 0101:00:00.0 PIX",
            "0002:00:00.0 0102:00:00.0 PIX",
            "0003:00:00.0 0103:00:00.0 PIX",
            "0008:00:00.0 0104:00:00.0 PIX"
        ]
    );

    let mut moved = as_seen(ND_H100);
    keep_gpus(&mut moved, 4);
    let there = address("0042:00:00.0");
    moved.pci.insert(PciFunction {
        address: there,
        ..moved.pci.get(moved.gpus[0].address).unwrap().clone()
    });
    moved.gpus[0].address = there;
    assert_eq!(
        name(&azure(), &moved),
        None,
        "a GPU that the machine does not have there"
    );

    let mut fewer = as_seen("dgx-b200");
    keep_gpus(&mut fewer, 4);
    assert_eq!(
        name(&product("DGXB200"), &fewer),
        None,
        "its model's addresses are assumed"
    );
}

#[test]
fn more_gpus_or_none_are_no_known_machine() {
    let mut live = as_seen("gb200-nvl72");
    let mut more = live.gpus[0].clone();
    more.address = address("0028:01:00.0");
    live.pci.insert(PciFunction {
        address: more.address,
        ..live.pci.get(live.gpus[0].address).unwrap().clone()
    });
    live.gpus.push(more);
    assert_eq!(name(&Dmi::default(), &live), None);
    live.gpus.clear();
    assert_eq!(name(&Dmi::default(), &live), None);
    let nothing = Topology::empty("this node", Provenance::ThisSystem);
    assert_eq!(name(&product("DGXH100"), &nothing), None);
}

#[test]
fn a_dgx_shows_its_switches_and_gets_roles_only() {
    let mut live = as_seen("dgx-h100");
    let model = known("dgx-h100");
    let known = model.topology().unwrap();
    supply(&mut live, model);
    assert!(live.stated_paths.is_empty());
    let roles = |topology: &Topology| topology.nics.iter().map(|nic| nic.role).collect::<Vec<_>>();
    assert_eq!(roles(&live), roles(&known));

    // other bus numbers, the same names: the roles are still found
    let mut renumbered = as_seen("dgx-h100");
    for nic in &mut renumbered.nics {
        let old = nic.address.unwrap();
        let new = PciAddress { domain: 1, ..old };
        renumbered.pci.insert(PciFunction {
            address: new,
            ..renumbered.pci.get(old).unwrap().clone()
        });
        nic.address = Some(new);
    }
    supply(&mut renumbered, model);
    assert_eq!(roles(&renumbered), roles(&known));
}

#[test]
fn assumed_addresses_supply_nothing() {
    let mut live = as_seen("dgx-b200");
    // another NIC stands where the model assumes a BlueField-3
    let storage = live
        .nics
        .iter()
        .position(|nic| nic.name == "mlx5_5")
        .unwrap();
    live.nics[storage].name = "mlx5_40".parse().unwrap();
    supply(&mut live, known("dgx-b200"));
    assert_eq!(live.nics[storage].role, None);
    assert!(live.stated_paths.is_empty());
    assert_eq!(
        live.nics.iter().filter(|nic| nic.role.is_some()).count(),
        11
    );
}

/// A g5.48xlarge's kernel names no NUMA node for the EFA device, but shows everything on one root.
#[test]
fn a_live_phb_is_not_made_farther() {
    let mut live = as_seen("aws-g5");
    let efa = address("0000:00:15.0");
    live.pci.insert(PciFunction {
        numa_node: None,
        ..live.pci.get(efa).unwrap().clone()
    });
    supply(&mut live, known("aws-g5"));
    assert!(live.stated_paths.is_empty());
    assert_eq!(live.nics[0].role, Some(NicRole::Compute));
}

#[test]
fn a_numa_node_that_is_unknown_is_made_up_for_and_one_that_is_known_is_not() {
    let mut live = as_seen("azure-nd128isr-gb300-v6");
    let model = known("azure-nd128isr-gb300-v6");
    let (lost, moved) = (address("0101:00:00.0"), address("0102:00:00.0"));
    live.pci.insert(PciFunction {
        numa_node: None,
        ..live.pci.get(lost).unwrap().clone()
    });
    live.pci.insert(PciFunction {
        numa_node: Some(1),
        ..live.pci.get(moved).unwrap().clone()
    });
    supply(&mut live, model);
    let stated: Vec<_> = live
        .stated_paths
        .iter()
        .map(|((gpu, nic), path)| format!("{gpu} {nic} {path}"))
        .collect();
    assert_eq!(
        stated,
        [
            "0008:06:00.0 0101:00:00.0 NODE",
            "0009:06:00.0 0101:00:00.0 NODE"
        ]
    );
}

#[test]
fn a_machine_with_what_its_model_supplies_is_planned_as_the_model_is() {
    for model in MODELS {
        let known = model.topology().unwrap();
        let mut live = as_seen(model.name);
        let before = policy::map(&live, &Wish::default());
        supply(&mut live, model);
        let after = policy::map(&live, &Wish::default());
        assert_eq!(
            after,
            policy::map(&known, &Wish::default()),
            "{}",
            known.name
        );
        let hides =
            known.stated_paths.len() + known.nics.iter().filter(|nic| nic.role.is_some()).count();
        assert!(hides > 0 || after == before, "{}", known.name);
    }
}
