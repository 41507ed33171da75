//! Software devices of kernels that put them below their interfaces' PCI functions.

use super::*;

/// A GPU and `mlx5_0` on another host bridge, and `device` below the function of an interface beside the GPU.
fn beside_a_gpu(device: &str, own: &[(&str, &str)], gid: &str) -> Manifest {
    let mut tree = Manifest::default();
    let mut file = |path: &str, text: &str| tree.insert(path, Entry::File(text.to_string()));
    let places = [
        "pci0000:10/0000:10:01.0/0000:11:00.0",
        "pci0000:10/0000:10:02.0/0000:12:00.0",
    ];
    file(&format!("sys/devices/{}/vendor", places[0]), "0x10de");
    file(&format!("sys/devices/{}/class", places[0]), "0x030200");
    let far = "pci0000:80/0000:80:01.0/0000:81:00.0";
    for (name, place) in [(device, places[1]), ("mlx5_0", far)] {
        let port = format!("sys/devices/{place}/infiniband/{name}/ports/1");
        file(&format!("{port}/state"), "4: ACTIVE");
        file(&format!("{port}/link_layer"), "Ethernet");
        file(&format!("{port}/rate"), "400 Gb/sec");
        file(
            &format!("{port}/gids/0"),
            if name == device { gid } else { LINK_LOCAL },
        );
    }
    for (name, text) in own {
        file(
            &format!("sys/devices/{}/infiniband/{device}/{name}", places[1]),
            text,
        );
    }
    let mut link = |path: String, to: String| tree.insert(&path, Entry::Link(to));
    link(
        "sys/bus/pci/devices/0000:11:00.0".to_string(),
        format!("../../../devices/{}", places[0]),
    );
    for (name, place) in [(device, places[1]), ("mlx5_0", far)] {
        let to = format!("../../devices/{place}/infiniband/{name}");
        link(format!("sys/class/infiniband/{name}"), to);
    }
    tree
}

const LINK_LOCAL: &str = "fe80:0000:0000:0000:0000:00ff:fe00:0001";
/// An interface's hardware address, as iWARP has it.
const OF_IWARP: &str = "b883:0312:3456:0000:0000:0000:0000:0000";

/// The NICs that the GPU gets.
fn nics(tree: &Manifest, scope: Scope) -> Vec<String> {
    let (found, said) = read(tree.clone(), scope);
    assert_eq!(said, [], "{scope:?}");
    let node = nic_placement_core::policy::map(&found, &nic_placement_core::wish::Wish::default());
    let choices = node.gpus[0].choices.iter();
    choices
        .map(|choice| found.nic(node.rail(choice.rail).nic).name.to_string())
        .collect()
}

#[test]
fn a_software_device_below_the_function_of_its_interface_is_no_nic_of_it() {
    for scope in [
        Scope::Placement,
        Scope::Selection,
        Scope::Cores,
        Scope::Full,
    ] {
        for (device, own, gid, expected) in [
            (
                "rxe0",
                &[("parent", "eno1"), ("node_desc", "node7 rxe0")][..],
                LINK_LOCAL,
                "mlx5_0",
            ),
            (
                "siw0",
                &[("node_desc", "Software iWARP stack")],
                OF_IWARP,
                "mlx5_0",
            ),
            // hardware of iWARP, and a card whatever it is called
            (
                "irdma0",
                &[("node_desc", "node7 irdma0")],
                OF_IWARP,
                "irdma0",
            ),
            ("rxe0", &[("node_desc", "rxe")], LINK_LOCAL, "rxe0"),
        ] {
            let tree = beside_a_gpu(device, own, gid);
            assert_eq!(
                nics(&tree, scope),
                [expected],
                "{device} {own:?}, {scope:?}"
            );
        }
    }
}

#[test]
fn a_software_device_has_no_pci_function_and_keeps_its_interface() {
    let tree = beside_a_gpu("rxe0", &[("parent", "eno1")], LINK_LOCAL);
    let (found, _) = read(tree, Scope::Full);
    let rxe = found.nics.iter().find(|nic| nic.name == "rxe0").unwrap();
    assert_eq!(
        (rxe.address, &rxe.netdevs[..]),
        (None, &["eno1".to_string()][..])
    );
    assert_eq!(
        found.pci.get("0000:12:00.0".parse().unwrap()),
        None,
        "nothing stands below it"
    );
}

#[test]
fn a_nic_is_asked_once_whether_it_is_software_and_one_of_infiniband_is_not_asked() {
    let asked = |gid: &str, layer: &str| {
        let mut tree = beside_a_gpu("nic0", &[("node_desc", "node7 nic0")], gid);
        let port = "sys/devices/pci0000:10/0000:10:02.0/0000:12:00.0/infiniband/nic0/ports/1";
        tree.insert(
            &format!("{port}/link_layer"),
            Entry::File(layer.to_string()),
        );
        let mut root = Root::manifest(tree);
        root.record();
        discover(&root, Scope::Placement, Provenance::ThisSystem);
        let recorded = root.recorded();
        let below = "sys/devices/pci0000:10/0000:10:02.0/0000:12:00.0/infiniband/nic0/node_desc";
        recorded.get(below).is_some()
    };
    assert!(!asked(LINK_LOCAL, "Ethernet"), "`parent` alone");
    assert!(!asked(LINK_LOCAL, "InfiniBand"));
    assert!(asked(OF_IWARP, "Ethernet"));
}
