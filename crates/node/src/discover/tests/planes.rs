//! Devices below the function of another.

use super::*;

/// Files below a folder, with their texts.
fn files(tree: &mut Manifest, folder: &str, files: &[(&str, &str)]) {
    for (name, text) in files {
        tree.insert(&format!("{folder}/{name}"), Entry::File(text.to_string()));
    }
}

/// Where a device stands, the last of its way left out.
fn folder(tree: &Manifest, class: &str, name: &str) -> String {
    match tree.get(&format!("sys/class/{class}/{name}")) {
        Some(Entry::Link(to)) => to.rsplit_once('/').unwrap().0.to_string(),
        other => panic!("`{name}` is no link: {other:?}"),
    }
}

/// A machine of which each NIC has beside it what manages its planes: four active ports, and no character device.
fn with_planes(described: &Topology, rate: &str) -> Manifest {
    let mut tree = synthesise(described);
    for (number, nic) in described.nics.iter().enumerate() {
        let class = folder(&tree, "infiniband", &nic.name);
        let verbs = folder(&tree, "infiniband_verbs", nic.uverbs.as_ref().unwrap());
        let of_root = |path: &str| format!("sys/{}", path.trim_start_matches("../"));
        let uverbs = format!("{}/{}", of_root(&verbs), nic.uverbs.as_ref().unwrap());
        files(&mut tree, &uverbs, &[("ibdev", &nic.name)]);
        let smi = format!("smi{number}");
        tree.insert(
            &format!("sys/class/infiniband/{smi}"),
            Entry::Link(format!("{class}/{smi}")),
        );
        for port in 1..=4 {
            let port = format!("{}/{smi}/ports/{port}", of_root(&class));
            files(
                &mut tree,
                &port,
                &[
                    ("state", "4: ACTIVE"),
                    ("link_layer", "InfiniBand"),
                    ("rate", rate),
                ],
            );
        }
    }
    tree
}

#[test]
fn a_device_that_manages_the_planes_of_a_nic_is_no_nic() {
    let described = crate::platform::model("dgx-h100").unwrap();
    for scope in [Scope::Placement, Scope::Full] {
        let plain = read(synthesise(&described), scope);
        for rate in ["100 Gb/sec", "400 Gb/sec"] {
            let mut root = Root::manifest(with_planes(&described, rate));
            root.record();
            let (found, _) = discover(&root, scope, Provenance::ThisSystem);
            let names: Vec<&str> = found.nics.iter().map(|nic| nic.name.as_str()).collect();
            assert!(found == plain.0, "{rate}, {scope:?}: {names:?}");
            let recorded = Manifest::parse(&root.recorded().to_string()).unwrap();
            assert!(read(recorded, scope) == plain, "from a snapshot");
        }
    }
}

#[test]
fn two_devices_of_one_function_that_can_both_be_opened_are_two_nics() {
    let described = crate::platform::model("dgx-h100").unwrap();
    let mut tree = with_planes(&described, "400 Gb/sec");
    let first = &described.nics[0];
    let verbs = folder(&tree, "infiniband_verbs", first.uverbs.as_ref().unwrap());
    tree.insert(
        "sys/class/infiniband_verbs/uverbs99",
        Entry::Link(format!("{verbs}/uverbs99")),
    );
    let uverbs = format!("sys/{}/uverbs99", verbs.trim_start_matches("../"));
    files(&mut tree, &uverbs, &[("ibdev", "smi0")]);
    assert_eq!(
        read(tree, Scope::Placement).0.nics.len(),
        described.nics.len() + 1
    );
    // a captured tree may not say whose they are
    let mut tree = with_planes(&described, "400 Gb/sec");
    let uverbs: Vec<String> = tree.iter().map(|(path, _)| path.to_string()).collect();
    uverbs
        .iter()
        .filter(|path| path.ends_with("/ibdev"))
        .for_each(|path| files(&mut tree, path.trim_end_matches("/ibdev"), &[("ibdev", "")]));
    assert_eq!(
        read(tree, Scope::Placement).0.nics.len(),
        2 * described.nics.len()
    );
}
