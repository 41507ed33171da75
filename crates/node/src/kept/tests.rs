//! A node file gives back the node that it was made of, and is refused where it is not of this node as it is.

use super::*;
use crate::discover::Manifest;
use crate::discover::manifest::Entry;
use crate::discover::synthesise::synthesise;
use crate::node_file::{make, sealed, to_bytes};
use crate::platform;
use crate::{Scope, read_root};
use nic_placement_core::placement::agreement::Agreement;
use nic_placement_core::policy;
use nic_placement_core::wish::Wish;
use nic_placement_topology::{LinkLayer, Nic, NicKind, PortState};
use proptest::prelude::*;

const BOOT: &str = "5f2a5e2e-64a4-4a3e-9a71-0a4c3a1d7a10";

/// A tree of that machine in this boot, with its interfaces up.
fn shown(machine: &str) -> Manifest {
    let model = platform::model(machine).unwrap();
    let mut manifest = synthesise(&model);
    insert(&mut manifest, BOOT_ID, BOOT);
    for netdev in model.nics.iter().flat_map(|nic| &nic.netdevs) {
        let operstate = format!("sys/class/net/{netdev}/operstate");
        insert(&mut manifest, &operstate, "up");
    }
    manifest
}

fn insert(manifest: &mut Manifest, path: &str, text: &str) {
    manifest.insert(path, Entry::File(text.to_string()));
}

fn made(manifest: &Manifest) -> NodeFile {
    let root = Root::manifest(manifest.clone());
    let (node, _) = make(&root, 100, "2026-11-22 02:30:01 UTC".to_string()).unwrap();
    node
}

fn settled(manifest: &Manifest, node: NodeFile, boottime: u64) -> Result<Kept, String> {
    settle(&Root::manifest(manifest.clone()), node, 900, boottime).map_err(|why| why.to_string())
}

/// The machines whose `/sys` was recorded.
fn recorded() -> Vec<(String, Manifest)> {
    let folder = std::path::Path::new(env!("NIC_PLACEMENT_ROOT")).join("tests/machines");
    let entries = |folder: std::path::PathBuf| {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path())
    };
    let files = entries(folder).flat_map(entries);
    let machines = files.filter(|path| path.extension().is_some_and(|end| end == "machine"));
    let read = |path: std::path::PathBuf| {
        let mut manifest = Manifest::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        insert(&mut manifest, BOOT_ID, BOOT);
        (path.display().to_string(), manifest)
    };
    machines.map(read).collect()
}

#[test]
fn every_known_machine_comes_back_from_its_file_and_is_mapped_as_if_it_were_read() {
    let models = platform::names().map(|name| (name.to_string(), shown(name)));
    let recorded = recorded();
    assert!(recorded.len() > 3);
    for (machine, manifest) in models.chain(recorded) {
        let node = made(&manifest);
        let bytes = to_bytes(&node);
        let again = cache::from_bytes(&bytes, Provenance::ThisSystem).unwrap();
        assert_eq!((&again, to_bytes(&again)), (&node, bytes), "{machine}");

        let kept = settled(&manifest, again, 112).unwrap();
        assert_eq!((kept.age, kept.diagnostics.len()), (12, 0), "{machine}");
        let root = Root::manifest(manifest);
        let (live, _) = read_root(&root, Scope::Placement, Provenance::ThisSystem);
        let [kept, live] = [kept.topology, live].map(|topology| {
            let map = policy::map(&topology, &Wish::default());
            let agreement = Agreement::of(&topology, &map);
            let rails: Vec<String> = map.rails.iter().map(ToString::to_string).collect();
            let choices = map.gpus.into_iter().map(|gpu| gpu.choices);
            (rails, choices.collect::<Vec<_>>(), agreement)
        });
        assert_eq!(kept, live, "{machine}");
    }
}

#[test]
fn a_file_of_another_boot_too_old_or_of_a_later_time_is_not_used() {
    let manifest = shown("dgx-h100");
    let node = made(&manifest);
    let mut rebooted = manifest.clone();
    insert(&mut rebooted, BOOT_ID, "another");
    for (manifest, boottime, start) in [
        (&manifest, 1000, None),
        (&manifest, 1001, Some("the node file is 901 s old")),
        (&manifest, 97, Some("the node file says that")),
        (&rebooted, 100, Some("the node file was written")),
    ] {
        let found = settled(manifest, node.clone(), boottime);
        match start {
            None => assert!(found.is_ok(), "{boottime}"),
            Some(start) => assert!(found.unwrap_err().starts_with(start), "{boottime}"),
        }
    }
}

#[test]
fn a_device_that_came_went_or_is_another_is_told_by_the_registered_ones() {
    let manifest = shown("dgx-h100");
    let node = made(&manifest);
    let (nics, gpus) = ("sys/class/infiniband", "proc/driver/nvidia/gpus");
    for (folder, from, to, end) in rows! {
        nics, "mlx5_3:0 ", "", "/mlx5_3` is new"; nics, "mlx5_3:0", "mlx5_3", "/mlx5_3` is new";
        nics, "mlx5_3:0", "mlx5_3:0 mlx5_39:7", "/mlx5_39` is gone";
        nics, "mlx5_3:0", "mlx5_3:7", "/mlx5_3` is not what it was";
        gpus, "0000:1b:00.0:0", "0000:1b:00.0:7", "/0000:1b:00.0` is not what it was";
        // the folder as a whole is not, or was not registered
        gpus, "", "", "/0000:1b:00.0` is new"; "sys/class/cxi", "", "cxi0:1", "/cxi0` is gone";
    } {
        let mut node = node.clone();
        let entries = node.registered.remove(folder).unwrap_or_default();
        assert!(entries.contains(from), "{entries}");
        let changed = match from {
            "" => to.to_string(),
            from => entries.replacen(from, to, 1),
        };
        if !changed.is_empty() {
            node.registered.insert(folder.to_string(), changed);
        }
        let why = settled(&manifest, node, 100).unwrap_err();
        assert!(why.ends_with(&format!("`/{folder}{end}")), "{why}");
    }
}

/// A node whose NICs are RoCE.
fn roce() -> (Manifest, NodeFile, String, String) {
    let has_roce = |name: &&str| {
        let nics = platform::model(name).unwrap().nics;
        nics.iter().any(|nic| interface_of(nic).is_some())
    };
    let manifest = shown(platform::names().find(has_roce).unwrap());
    let node = made(&manifest);
    let mut nics = node.topology.nics.iter();
    let of = nics.find_map(|nic| Some((nic.name.to_string(), interface_of(nic)?)));
    let (nic, interface) = of.unwrap();
    (manifest, node, nic, interface)
}

fn interface_of(nic: &Nic) -> Option<String> {
    let is_roce = nic.ports.len() == 1 && nic.ports[0].link_layer == LinkLayer::Ethernet;
    let is_one = is_roce && nic.kind == NicKind::Verbs && nic.netdevs.len() == 1;
    nic.netdevs.first().filter(|_| is_one).cloned()
}

#[test]
fn a_link_that_was_lost_is_seen_and_one_that_came_up_has_the_node_read() {
    let (mut manifest, mut node, name, interface) = roce();
    let operstate = format!("sys/class/net/{interface}/operstate");
    assert_eq!(node.links.get(&interface).map(String::as_str), Some("up"));
    let state = |kept: &Kept| {
        let mut nics = kept.topology.nics.iter();
        nics.find(|nic| nic.name == *name).unwrap().ports[0].state
    };
    for (now, expected) in rows! {
        "down", PortState::Down; "lowerlayerdown", PortState::Down; "unknown", PortState::Active;
        "dormant", PortState::Active; "up", PortState::Active;
    } {
        insert(&mut manifest, &operstate, now);
        let kept = settled(&manifest, node.clone(), 100).unwrap();
        assert_eq!(state(&kept), expected, "{now}");
        let told = kept
            .diagnostics
            .iter()
            .any(|told| told.to_string().contains(&name));
        let wanted = expected == PortState::Down;
        assert_eq!(told, wanted, "{now}: {:?}", kept.diagnostics);
    }
    node.links.insert(interface.clone(), "down".to_string());
    let mut nics = node.topology.nics.iter_mut();
    nics.find(|nic| nic.name == *name).unwrap().ports[0].state = PortState::Down;
    let why = settled(&manifest, node.clone(), 100).unwrap_err();
    let is_right = why.ends_with(&format!("the link of `{interface}` came up"));
    assert!(is_right, "{why}");
    // one whose interface is up whatever its port says is no news
    node.links.insert(interface, "up".to_string());
    let found = state(&settled(&manifest, node, 100).unwrap());
    assert_eq!(found, PortState::Down);
}

#[test]
fn mig_instances_and_a_missing_uuid_are_read_at_the_step() {
    let mut manifest = shown("dgx-h100");
    let mut node = made(&manifest);
    let gpu = node.topology.gpus[2].clone();
    let minor = gpu.minor.unwrap();
    node.topology.gpus[3].uuid = None;
    for instance in ["gi1", "gi2"] {
        let place = format!("proc/driver/nvidia/capabilities/gpu{minor}/mig/{instance}");
        manifest.insert(&place, Entry::Directory);
    }
    let uuid = made(&manifest).topology.gpus[3].uuid.clone();
    let kept = settled(&manifest, node, 100).unwrap().topology;
    assert_eq!(kept.gpus[2].mig_instances, Some(2));
    assert!(uuid.is_some() && kept.gpus[3].uuid == uuid, "{uuid:?}");
}

#[test]
fn a_damaged_file_is_refused_with_its_fault() {
    let bytes = to_bytes(&made(&shown("dgx-h100")));
    let head = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    let refused = |bytes: &[u8], start: &str| {
        let why = cache::from_bytes(bytes, Provenance::ThisSystem).unwrap_err();
        assert!(why.to_string().starts_with(start), "{why}");
    };
    let damaged = "it is damaged: its checksum";
    for end in (head..bytes.len()).step_by(97) {
        refused(&bytes[..end], damaged);
        let mut changed = bytes.clone();
        changed[end] ^= 0x10;
        refused(&changed, damaged);
    }
    refused(&[&bytes[..], b"\0"].concat(), damaged);
    let json = r#"{"format": "nic-placement node", "version": 2}"#;
    for other in ["", "nic-placement node", json] {
        refused(other.as_bytes(), "it is no node file");
    }
    for (version, shown) in [("99.1.0-7", "99.1.0-7"), ("1\u{1b}[2J", "1"), ("", "")] {
        let first = format!("nic-placement node file {version}");
        let start = format!("it is a node file of version `{shown}`");
        refused(&[first.as_bytes(), &bytes[head - 1..]].concat(), &start);
    }
    assert!(bytes.starts_with(cache::MAGIC));
}

/// The bytes behind the checksum.
fn content(machine: &str) -> Vec<u8> {
    let whole = to_bytes(&made(&shown(machine)));
    let head = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    whole[head + 4..].to_vec()
}

#[test]
fn the_written_form_changes_only_together_with_its_version() {
    let whole = to_bytes(&made(&shown("gh200")));
    let line = whole.split(|&byte| byte == b'\n').next().unwrap();
    // another checksum: raise the number behind the release, then write both here
    let found = String::from_utf8_lossy(line);
    assert_eq!(found, "nic-placement node file 1.0.0-4");
    assert_eq!(crc32fast::hash(&content("gh200")), 1825032055);
}

proptest! {
    #[test]
    fn bytes_with_a_checksum_that_fits_never_make_the_reader_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut: bool, at: usize
    ) {
        let mut content = content("gh200");
        for (place, byte) in changes {
            let place = place.index(content.len());
            content[place] = byte;
        }
        if cut {
            content.truncate(at % content.len());
        }
        // what is accepted is consistent: it is written and read as the same node
        match cache::from_bytes(&sealed(&content), Provenance::ThisSystem) {
            Ok(node) => {
                let again = cache::from_bytes(&to_bytes(&node), Provenance::ThisSystem);
                prop_assert_eq!(again, Ok(node));
            }
            Err(bad) => {
                let message = bad.to_string();
                prop_assert!(!message.chars().any(char::is_control) && message.chars().count() < 600, "{message:?}");
            }
        }
    }
}
