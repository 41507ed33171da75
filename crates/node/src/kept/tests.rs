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
use nic_placement_topology::PortState;
use proptest::prelude::*;

const BOOT: &str = "5f2a5e2e-64a4-4a3e-9a71-0a4c3a1d7a10";

/// What a kernel shows on that machine, of this boot.
fn shown(machine: &str) -> Manifest {
    let mut manifest = synthesise(&platform::model(machine).unwrap());
    manifest.insert(BOOT_ID, Entry::File(BOOT.to_string()));
    for nic in platform::model(machine).unwrap().nics {
        for netdev in nic.netdevs {
            manifest.insert(
                &format!("sys/class/net/{netdev}/operstate"),
                Entry::File("up".to_string()),
            );
        }
    }
    manifest
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
    let files = std::fs::read_dir(folder).unwrap().flat_map(|machine| {
        std::fs::read_dir(machine.unwrap().path())
            .unwrap()
            .map(|file| file.unwrap().path())
    });
    let machines = files.filter(|path| {
        path.extension()
            .is_some_and(|extension| extension == "machine")
    });
    let read = |path: std::path::PathBuf| {
        let mut manifest = Manifest::parse(&std::fs::read_to_string(&path).unwrap()).unwrap();
        manifest.insert(BOOT_ID, Entry::File(BOOT.to_string()));
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
            let rails: Vec<String> = map.rails.iter().map(ToString::to_string).collect();
            let choices = map.numbered_gpus().map(|(index, _)| map.gpu(index));
            let of_gpus: Vec<Vec<String>> = choices
                .map(|gpu| {
                    gpu.choices
                        .iter()
                        .map(|choice| map.rail(choice.rail).to_string())
                        .collect()
                })
                .collect();
            (rails, of_gpus, Agreement::of(&topology, &map))
        });
        assert_eq!(kept, live, "{machine}");
    }
}

#[test]
fn a_file_of_another_boot_too_old_or_of_a_later_time_is_not_used() {
    let manifest = shown("dgx-h100");
    let node = made(&manifest);
    assert!(settled(&manifest, node.clone(), 1000).is_ok());
    let why = |boottime| settled(&manifest, node.clone(), boottime).unwrap_err();
    assert_eq!(
        why(1001),
        "the node file is 901 s old, and 900 s may be: a refresh that hangs?"
    );
    assert_eq!(
        why(97),
        "the node file says that it was written 3 s from now"
    );
    let mut rebooted = manifest.clone();
    rebooted.insert(BOOT_ID, Entry::File("another".to_string()));
    let why = settled(&rebooted, node, 100).unwrap_err();
    assert_eq!(
        why,
        "the node file was written before this system was started, or by another"
    );
}

#[test]
fn a_device_that_came_went_or_is_another_is_told_by_what_is_registered() {
    let manifest = shown("dgx-h100");
    let node = made(&manifest);
    let why = |change: &dyn Fn(&mut NodeFile)| {
        let mut node = node.clone();
        change(&mut node);
        settled(&manifest, node, 100).unwrap_err()
    };
    let edit = |folder: &str, from: &str, to: &str| {
        why(&|node| {
            let entries = node.registered.get_mut(folder).unwrap();
            assert!(entries.contains(from), "{entries}");
            *entries = entries.replacen(from, to, 1);
        })
    };
    let nics = "sys/class/infiniband";
    let new = edit(nics, "mlx5_3:0 ", "");
    assert_eq!(
        new,
        "the node is not as the node file says: `/sys/class/infiniband/mlx5_3` is new"
    );
    let gone = edit(nics, "mlx5_3:0", "mlx5_3:0 mlx5_39:7");
    assert!(
        gone.ends_with("`/sys/class/infiniband/mlx5_39` is gone"),
        "{gone}"
    );
    let other = edit(nics, "mlx5_3:0", "mlx5_3:7");
    assert!(
        other.ends_with("`/sys/class/infiniband/mlx5_3` is not what it was"),
        "{other}"
    );
    let gpus = "proc/driver/nvidia/gpus";
    let other = edit(gpus, "0000:1b:00.0:0", "0000:1b:00.0:7");
    assert!(
        other.ends_with("`/proc/driver/nvidia/gpus/0000:1b:00.0` is not what it was"),
        "{other}"
    );
    let all = why(&|node| drop(node.registered.remove(gpus)));
    assert!(
        all.ends_with("`/proc/driver/nvidia/gpus/0000:1b:00.0` is new"),
        "{all}"
    );
    let odd = edit(nics, "mlx5_3:0", "mlx5_3");
    assert!(
        odd.ends_with("`/sys/class/infiniband/mlx5_3` is new"),
        "{odd}"
    );
    let folder = why(&|node| {
        drop(
            node.registered
                .insert("sys/class/cxi".to_string(), "cxi0:1".to_string()),
        )
    });
    assert!(
        folder.ends_with("`/sys/class/cxi/cxi0` is gone"),
        "{folder}"
    );
}

/// A node whose NICs are RoCE.
fn roce() -> (Manifest, NodeFile, String, String) {
    let name = platform::names().find(|name| {
        let nics = platform::model(name).unwrap().nics;
        nics.iter().any(|nic| interface_of(nic).is_some())
    });
    let manifest = shown(name.expect("one of the machines has RoCE"));
    let node = made(&manifest);
    let of = node
        .topology
        .nics
        .iter()
        .find_map(|nic| Some((nic.name.to_string(), interface_of(nic)?)));
    let (nic, interface) = of.unwrap();
    (manifest, node, nic, interface)
}

fn interface_of(nic: &nic_placement_topology::Nic) -> Option<String> {
    let ethernet = nic.ports.len() == 1
        && nic.ports[0].link_layer == nic_placement_topology::LinkLayer::Ethernet;
    let verbs = nic.kind == nic_placement_topology::NicKind::Verbs && ethernet;
    nic.netdevs
        .first()
        .filter(|_| verbs && nic.netdevs.len() == 1)
        .cloned()
}

#[test]
fn a_link_that_was_lost_is_seen_and_one_that_came_up_has_the_node_read() {
    let (mut manifest, mut node, nic, interface) = roce();
    let operstate = format!("sys/class/net/{interface}/operstate");
    assert_eq!(node.links.get(&interface).map(String::as_str), Some("up"));
    let state = |kept: &Kept| {
        kept.topology
            .nics
            .iter()
            .find(|found| found.name == nic.as_str())
            .unwrap()
            .ports[0]
            .state
    };
    assert_eq!(
        state(&settled(&manifest, node.clone(), 100).unwrap()),
        PortState::Active
    );
    for (now, expected) in [
        ("down", PortState::Down),
        ("lowerlayerdown", PortState::Down),
        ("unknown", PortState::Active),
        ("dormant", PortState::Active),
    ] {
        manifest.insert(&operstate, Entry::File(now.to_string()));
        let kept = settled(&manifest, node.clone(), 100).unwrap();
        assert_eq!(state(&kept), expected, "{now}");
        let told = kept
            .diagnostics
            .iter()
            .any(|told| told.to_string().contains(&nic));
        assert_eq!(
            told,
            expected == PortState::Down,
            "{now}: {:?}",
            kept.diagnostics
        );
    }
    manifest.insert(&operstate, Entry::File("up".to_string()));
    node.links.insert(interface.clone(), "down".to_string());
    let down = node
        .topology
        .nics
        .iter_mut()
        .find(|found| found.name == nic.as_str())
        .unwrap();
    down.ports[0].state = PortState::Down;
    let why = settled(&manifest, node.clone(), 100).unwrap_err();
    assert!(
        why.ends_with(&format!("the link of `{interface}` came up")),
        "{why}"
    );
    // one whose interface is up whatever its port says is no news
    node.links.insert(interface, "up".to_string());
    assert_eq!(
        state(&settled(&manifest, node, 100).unwrap()),
        PortState::Down
    );
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
fn a_damaged_file_is_refused_with_what_is_wrong() {
    let bytes = to_bytes(&made(&shown("dgx-h100")));
    let why = |bytes: &[u8]| {
        cache::from_bytes(bytes, Provenance::ThisSystem)
            .unwrap_err()
            .to_string()
    };
    let damaged = "it is damaged: its checksum is that of other bytes";
    let head = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    for end in (head..bytes.len()).step_by(97) {
        assert_eq!(why(&bytes[..end]), damaged, "{end}");
        let mut changed = bytes.clone();
        changed[end] ^= 0x10;
        assert_eq!(why(&changed), damaged, "{end}");
    }
    assert_eq!(why(&[&bytes[..], b"\0"].concat()), damaged);
    let foreign = "it is no node file: expected one that `nic-placement refresh` wrote";
    for other in [
        &b""[..],
        b"nic-placement node",
        b"{\"format\": \"nic-placement node\", \"version\": 2}",
    ] {
        assert_eq!(why(other), foreign);
    }
    let of_version = |version: &str| {
        [
            b"nic-placement node file ",
            version.as_bytes(),
            &bytes[head - 1..],
        ]
        .concat()
    };
    for (version, shown) in [("99.1.0-7", "99.1.0-7"), ("1\u{1b}[2J", "1"), ("", "")] {
        let why = why(&of_version(version));
        assert!(
            why.starts_with(&format!(
                "it is a node file of version `{shown}`, expected `"
            )),
            "{why}"
        );
    }
    assert!(bytes.starts_with(cache::MAGIC));
}

/// What stands behind the checksum.
fn content(machine: &str) -> Vec<u8> {
    let whole = to_bytes(&made(&shown(machine)));
    let head = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
    whole[head + 4..].to_vec()
}

#[test]
fn what_is_written_changes_only_together_with_its_version() {
    let whole = to_bytes(&made(&shown("gh200")));
    let line = whole.split(|&byte| byte == b'\n').next().unwrap();
    let known = (
        String::from_utf8_lossy(line).into_owned(),
        crc32fast::hash(&content("gh200")),
    );
    // another checksum: raise the number behind the release, then write both here
    assert_eq!(
        known,
        ("nic-placement node file 1.0.0-4".to_string(), 1825032055)
    );
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
