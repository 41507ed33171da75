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
    with! { Dmi { product: Some(name.to_string()) } }
}

fn name(dmi: &Dmi, live: &Topology) -> Option<&'static str> {
    recognise(dmi, live).map(|model| model.name)
}

/// Changes a function; a new address makes another function of it.
fn edit(live: &mut Topology, address: PciAddress, change: impl FnOnce(&mut PciFunction)) {
    let mut function = live.pci.get(address).unwrap().clone();
    change(&mut function);
    live.pci.insert(function);
}

/// Every GPU with this device id and model name.
fn rename(live: &mut Topology, device: Option<u16>, model: Option<&str>) {
    for gpu in gpu_addresses(live) {
        edit(live, gpu, |function| function.device = device);
    }
    let gpus = live.gpus.iter_mut();
    gpus.for_each(|gpu| gpu.model = model.map(str::to_string));
}

/// The first GPU at another address.
fn move_first(live: &mut Topology, there: PciAddress) {
    let first = live.gpus[0].address;
    edit(live, first, |function| function.address = there);
    live.gpus[0].address = there;
}

fn stated(live: &Topology) -> Vec<String> {
    let line = |((gpu, nic), path)| format!("{gpu} {nic} {path}");
    live.stated_paths
        .iter()
        .map(|(&pair, path)| line((pair, path)))
        .collect()
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
        let (name, topology) = (model.name, model.topology().unwrap());
        assert_eq!(model.gpus, topology.gpus.len(), "{name}");
        for gpu in &topology.gpus {
            assert_eq!(is_of_kind(&topology, gpu, model), Some(true), "{name}");
            let id = device(&topology, gpu.address);
            let kind = model.kinds.iter().find(|kind| Some(kind.id) == id).unwrap();
            let known = gpu.model.as_deref();
            let is_right = known.is_none_or(|known| kind.names.contains(&known));
            assert!(is_right, "{name}");
        }
        for nic in model.assumed {
            let is_right = topology.nics.iter().any(|known| known.name == *nic);
            assert!(is_right, "{name}: {nic}");
        }
        // sources and marks must agree on the assumed addresses
        let sources = model.sources().unwrap().join("\n");
        let assumed = ["assumed: every PCI address", "assumed: PCI addresses"];
        let is_assumed = assumed.iter().any(|text| sources.contains(text));
        assert!(!(is_assumed && model.addresses), "{name}");
    }
}

#[test]
fn a_machine_is_recognised_by_its_name_and_hardware_and_without_a_name_by_stated_addresses() {
    for model in MODELS {
        let live = as_seen(model.name);
        for known in model.products {
            let product = product(&format!("{known} 920-1"));
            assert_eq!(name(&product, &live), Some(model.name));
        }
        let expected = model.addresses.then_some(model.name);
        assert_eq!(name(&Dmi::default(), &live), expected, "{}", model.name);
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
    let [said] = supply(&mut live, model).try_into().unwrap();
    let said = said.to_string();
    let is_right = said.starts_with("`azure-nd96isr-h100-v5`: recognised by");
    assert!(is_right, "{said}");
    assert!(said.ends_with("`8` paths and `8` roles"), "{said}");
    assert_eq!(live.stated_paths, known.stated_paths);
    let placement = policy::map(&live, &Wish::default());
    let rails = placement.gpus.iter().map(|gpu| gpu.choices[0].rail.0);
    assert!(rails.eq(0..8));
    assert_eq!(supply(&mut live, model), [], "once is enough");
}

#[test]
fn a_live_fact_stays_as_it_is() {
    let mut live = as_seen(ND_H100);
    live.nics[2].ports[0].state = PortState::Down;
    live.nics[3].ports[0].rate_mbps = Some(100_000);
    live.nics[4].role = Some(NicRole::Storage);
    let pair = (address("000c:00:00.0"), address("0108:00:00.0"));
    live.stated_paths.insert(pair, PathType::Sys);
    let before = live.clone();
    supply(&mut live, known(ND_H100));
    assert_eq!(live.nics[4].role, Some(NicRole::Storage));
    assert_eq!(live.stated_paths[&pair], PathType::Sys);
    live.stated_paths = before.stated_paths.clone();
    for (nic, before) in live.nics.iter_mut().zip(&before.nics) {
        nic.role = before.role;
    }
    assert_eq!(live, before);
}

/// The live bus shows GPU 0 and the second NIC below one switch; the model pairs each with another.
#[test]
fn a_live_pix_wins_over_the_model() {
    let mut live = as_seen(ND_H100);
    let (gpu, nic) = (address("0001:00:00.0"), address("0102:00:00.0"));
    let up = address("0001:10:00.0");
    let (left, right) = (address("0001:11:00.0"), address("0001:11:01.0"));
    let host = PciParent::Host("pci0001:00".parse().unwrap());
    live.pci.insert(PciFunction::new(up, host));
    for (at, parent) in [(left, up), (right, up), (gpu, left), (nic, right)] {
        let parent = PciParent::Bridge(parent);
        let known = live.pci.get(at).cloned();
        let known = known.unwrap_or(PciFunction::new(at, parent));
        live.pci.insert(PciFunction { parent, ..known });
    }
    assert_eq!(live.path_type(gpu, nic), PathType::Pix);
    supply(&mut live, known(ND_H100));
    assert_eq!(live.path_type(gpu, nic), PathType::Pix);
    // the model's pairs of this GPU and of this NIC, and an untouched pair
    for (gpu, nic, path) in rows! {
        gpu, address("0101:00:00.0"), PathType::Node;
        address("0002:00:00.0"), nic, PathType::Node;
        address("0003:00:00.0"), address("0103:00:00.0"), PathType::Pix;
    } {
        assert_eq!(live.path_type(gpu, nic), path, "{gpu} {nic}");
    }
    assert_eq!(live.stated_paths.len(), 6);
}

#[test]
fn other_gpus_names_or_clouds_are_other_machines() {
    let dgx = || as_seen("dgx-h100");
    let (mut mixed, mut unread) = (dgx(), dgx());
    let first = mixed.gpus[0].address;
    edit(&mut mixed, first, |function| function.device = Some(0x2335));
    let model = unread.gpus[0].model.clone();
    rename(&mut unread, None, model.as_deref());
    let mut unknown = unread.clone();
    rename(&mut unknown, None, None);
    let (mut elsewhere, mut another_tag) = (azure(), azure());
    elsewhere.vendor = Some("QEMU".to_string());
    another_tag.chassis_asset_tag = Some("OracleCloud.com".to_string());
    let (mut part, mut fewer) = (as_seen(ND_H100), as_seen("dgx-b200"));
    part.gpus.truncate(4);
    fewer.gpus.truncate(4);
    let mut moved = part.clone();
    move_first(&mut moved, address("0042:00:00.0"));
    let (mut h200, mut renumbered) = (as_seen("aws-p5"), as_seen("aws-p5"));
    rename(&mut h200, Some(0x2335), Some("NVIDIA H200"));
    rename(&mut renumbered, Some(0x2335), Some("NVIDIA H200"));
    move_first(&mut renumbered, address("0042:00:00.0"));
    for (dmi, live, expected) in rows! {
        product("DGXH100"), &dgx(), Some("dgx-h100");
        // the same board in the machine of another vendor
        product("PowerEdge XE9680"), &dgx(), None;
        // one GPU of another kind, and eight
        product("DGXH100"), &mixed, None; product("DGXH100"), &as_seen("dgx-h200"), None;
        azure(), &as_seen(ND_H100), Some(ND_H100); elsewhere, &as_seen(ND_H100), None;
        another_tag, &as_seen(ND_H100), None;
        // a P5e has the model of a P5, at whatever addresses
        product("p5e.48xlarge"), &h200, Some("aws-p5");
        product("p5e.48xlarge"), &renumbered, Some("aws-p5");
        // by the GPUs' names, where the ids were not read
        Dmi::default(), &unread, Some("dgx-h100"); product("DGXH200"), &unread, None;
        // without both, a DGX H100 and a DGX H200 are alike
        Dmi::default(), &unknown, None; product("DGXH200"), &unknown, Some("dgx-h200");
        // a part of the GPUs, by name and place together
        azure(), &part, Some(ND_H100); azure(), &moved, None;
        // its model's addresses are assumed
        product("DGXB200"), &fewer, None;
    } {
        let found = name(&dmi, live);
        assert_eq!(found, expected, "{:?} {:?}", dmi.product, live.gpus[0]);
    }
    supply(&mut part, known(ND_H100));
    let pairs = [
        ("0001", "0101"),
        ("0002", "0102"),
        ("0003", "0103"),
        ("0008", "0104"),
    ];
    let pairs = pairs.map(|(gpu, nic)| format!("{gpu}:00:00.0 {nic}:00:00.0 PIX"));
    assert_eq!(stated(&part), pairs);
}

#[test]
fn more_gpus_or_none_are_no_known_machine() {
    let mut live = as_seen("gb200-nvl72");
    let mut more = live.gpus[0].clone();
    more.address = address("0028:01:00.0");
    let first = live.gpus[0].address;
    edit(&mut live, first, |function| function.address = more.address);
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
    for nth in 0..renumbered.nics.len() {
        let old = renumbered.nics[nth].address.unwrap();
        let new = PciAddress { domain: 1, ..old };
        edit(&mut renumbered, old, |function| function.address = new);
        renumbered.nics[nth].address = Some(new);
    }
    supply(&mut renumbered, model);
    assert_eq!(roles(&renumbered), roles(&known));
}

#[test]
fn assumed_addresses_supply_nothing() {
    let mut live = as_seen("dgx-b200");
    // another NIC stands where the model assumes a BlueField-3
    let at = live.nics.iter().position(|nic| nic.name == "mlx5_5");
    let storage = at.unwrap();
    live.nics[storage].name = "mlx5_40".parse().unwrap();
    supply(&mut live, known("dgx-b200"));
    assert_eq!(live.nics[storage].role, None);
    assert!(live.stated_paths.is_empty());
    let with_role = live.nics.iter().filter(|nic| nic.role.is_some());
    assert_eq!(with_role.count(), 11);
}

/// A g5.48xlarge's kernel names no NUMA node for the EFA device, but shows everything on one root.
#[test]
fn a_live_phb_is_not_made_farther() {
    let mut live = as_seen("aws-g5");
    let efa = address("0000:00:15.0");
    edit(&mut live, efa, |function| function.numa_node = None);
    supply(&mut live, known("aws-g5"));
    assert!(live.stated_paths.is_empty());
    assert_eq!(live.nics[0].role, Some(NicRole::Compute));
}

#[test]
fn a_numa_node_that_is_unknown_is_made_up_for_and_one_that_is_known_is_not() {
    let mut live = as_seen("azure-nd128isr-gb300-v6");
    let model = known("azure-nd128isr-gb300-v6");
    let (lost, moved) = (address("0101:00:00.0"), address("0102:00:00.0"));
    edit(&mut live, lost, |function| function.numa_node = None);
    edit(&mut live, moved, |function| function.numa_node = Some(1));
    supply(&mut live, model);
    let both = ["0008", "0009"].map(|gpu| format!("{gpu}:06:00.0 0101:00:00.0 NODE"));
    assert_eq!(stated(&live), both);
}

#[test]
fn a_machine_with_what_its_model_supplies_is_planned_as_the_model_is() {
    for model in MODELS {
        let known = model.topology().unwrap();
        let mut live = as_seen(model.name);
        let before = policy::map(&live, &Wish::default());
        supply(&mut live, model);
        let after = policy::map(&live, &Wish::default());
        let expected = policy::map(&known, &Wish::default());
        assert_eq!(after, expected, "{}", known.name);
        let roles = known.nics.iter().filter(|nic| nic.role.is_some()).count();
        let hides = known.stated_paths.len() + roles;
        assert!(hides > 0 || after == before, "{}", known.name);
    }
}
