//! Software devices of kernels that put them below their interfaces' PCI functions.

use super::*;

const INTERFACE: &str = "pci0000:10/0000:10:02.0/0000:12:00.0";

/// A GPU and `mlx5_0` on another host bridge, and `device` below the function of an interface beside the GPU.
fn beside_a_gpu(device: &str, own: &[&str], gid: &str) -> Manifest {
    let gpu = "pci0000:10/0000:10:01.0/0000:11:00.0";
    let mut tree = tree([
        format!("sys/devices/{gpu}/vendor=0x10de"),
        format!("sys/devices/{gpu}/class=0x030200"),
        format!("sys/bus/pci/devices/0000:11:00.0 -> ../../../devices/{gpu}"),
    ]);
    let far = "pci0000:80/0000:80:01.0/0000:81:00.0";
    for (name, place, gid) in [(device, INTERFACE, gid), ("mlx5_0", far, LINK_LOCAL)] {
        let folder = format!("devices/{place}/infiniband/{name}");
        let port = format!("sys/{folder}/ports/1");
        let files = ["state=4: ACTIVE", "link_layer=Ethernet", "rate=400 Gb/sec"];
        add(&mut tree, files.map(|file| format!("{port}/{file}")));
        let link = format!("sys/class/infiniband/{name} -> ../../{folder}");
        add(&mut tree, [format!("{port}/gids/0={gid}"), link]);
    }
    let folder = format!("sys/devices/{INTERFACE}/infiniband/{device}");
    add(&mut tree, own.iter().map(|file| format!("{folder}/{file}")));
    tree
}

const LINK_LOCAL: &str = "fe80:0000:0000:0000:0000:00ff:fe00:0001";
/// An interface's hardware address, as iWARP has it.
const OF_IWARP: &str = "b883:0312:3456:0000:0000:0000:0000:0000";

#[test]
fn a_software_device_below_the_function_of_its_interface_is_no_nic_of_it() {
    for (device, own, gid, expected) in rows! {
        "rxe0", &["parent=eno1", "node_desc=node7 rxe0"][..], LINK_LOCAL, "mlx5_0";
        "siw0", &["node_desc=Software iWARP stack"], OF_IWARP, "mlx5_0";
        // hardware of iWARP, and a card whatever it is called
        "irdma0", &["node_desc=node7 irdma0"], OF_IWARP, "irdma0";
        "rxe0", &["node_desc=rxe"], LINK_LOCAL, "rxe0";
    } {
        for scope in SCOPES {
            let (found, said) = read(beside_a_gpu(device, own, gid), scope);
            assert_eq!(said, [], "{scope:?}");
            let node = map(&found);
            let choices = node.gpus[0].choices.iter();
            let nics = texts(choices.map(|choice| &node.rail(choice.rail).name));
            assert_eq!(nics, [expected], "{device} {own:?}, {scope:?}");
        }
    }
}

#[test]
fn a_software_device_has_no_pci_function_and_keeps_its_interface() {
    let tree = beside_a_gpu("rxe0", &["parent=eno1"], LINK_LOCAL);
    let (found, _) = read(tree, Scope::Full);
    let rxe = nic(&found, "rxe0");
    let got = (rxe.address, &rxe.netdevs[..]);
    assert_eq!(got, (None, &["eno1".to_string()][..]));
    // nothing stands below it
    assert_eq!(found.pci.get("0000:12:00.0".parse().unwrap()), None);
}

#[test]
fn a_nic_is_asked_once_whether_it_is_software_and_one_of_infiniband_is_not_asked() {
    for (gid, layer, is_asked) in rows! {
        // `parent` alone is read
        LINK_LOCAL, "Ethernet", false; LINK_LOCAL, "InfiniBand", false; OF_IWARP, "Ethernet", true;
    } {
        let mut tree = beside_a_gpu("nic0", &["node_desc=node7 nic0"], gid);
        let folder = format!("sys/devices/{INTERFACE}/infiniband/nic0");
        add(&mut tree, [format!("{folder}/ports/1/link_layer={layer}")]);
        let (_, snapshot) = recorded(&tree, Scope::Placement);
        let asked = snapshot.get(&format!("{folder}/node_desc")).is_some();
        assert_eq!(asked, is_asked, "{gid} {layer}");
    }
}
