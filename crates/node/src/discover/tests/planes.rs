//! Devices below the function of another.

use super::*;

/// The folder of a device's folder, by its link in a class.
fn folder(tree: &Manifest, class: &str, name: &str) -> String {
    match tree.get(&format!("sys/class/{class}/{name}")) {
        Some(Entry::Link(to)) => to.rsplit_once('/').unwrap().0.to_string(),
        other => panic!("`{name}` is no link: {other:?}"),
    }
}

fn of_root(path: &str) -> String {
    format!("sys/{}", path.trim_start_matches("../"))
}

/// A machine of which each NIC has beside it a manager of its planes: four active ports, and no character device.
fn with_planes(described: &Topology, rate: &str) -> Manifest {
    let mut tree = synthesise(described);
    for (number, nic) in described.nics.iter().enumerate() {
        let uverbs = nic.uverbs.as_ref().unwrap();
        let class = folder(&tree, "infiniband", &nic.name);
        let verbs = of_root(&folder(&tree, "infiniband_verbs", uverbs));
        add(&mut tree, [format!("{verbs}/{uverbs}/ibdev={}", nic.name)]);
        let smi = format!("{class}/smi{number}");
        let link = format!("sys/class/infiniband/smi{number} -> {smi}");
        add(&mut tree, [link]);
        for port in 1..=4 {
            let port = format!("{}/ports/{port}", of_root(&smi));
            let rate = format!("rate={rate}");
            let files = [&*rate, "state=4: ACTIVE", "link_layer=InfiniBand"];
            add(&mut tree, files.map(|file| format!("{port}/{file}")));
        }
    }
    tree
}

#[test]
fn a_device_that_manages_the_planes_of_a_nic_is_no_nic() {
    for scope in [Scope::Placement, Scope::Full] {
        let plain = read(synthesise(&h100()), scope).0;
        for rate in ["100 Gb/sec", "400 Gb/sec"] {
            let (found, snapshot) = recorded(&with_planes(&h100(), rate), scope);
            let names = texts(found.nics.iter().map(|nic| &nic.name));
            assert!(found == plain, "{rate}, {scope:?}: {names:?}");
            assert!(again(&snapshot, scope) == plain, "from a snapshot");
        }
    }
}

#[test]
fn two_devices_of_one_function_that_can_both_be_opened_are_two_nics() {
    let described = h100();
    let nics = |tree: Manifest| read(tree, Scope::Placement).0.nics.len();
    let mut tree = with_planes(&described, "400 Gb/sec");
    // a captured tree may not say whose they are
    let mut unsaid = tree.clone();
    for (path, entry) in &mut unsaid.entries {
        if path.ends_with("/ibdev") {
            *entry = Entry::File(String::new());
        }
    }
    assert_eq!(nics(unsaid), 2 * described.nics.len());
    let uverbs = described.nics[0].uverbs.as_ref().unwrap();
    let ninth = format!("{}/uverbs99", folder(&tree, "infiniband_verbs", uverbs));
    let link = format!("sys/class/infiniband_verbs/uverbs99 -> {ninth}");
    add(&mut tree, [link, format!("{}/ibdev=smi0", of_root(&ninth))]);
    assert_eq!(nics(tree), described.nics.len() + 1);
}
