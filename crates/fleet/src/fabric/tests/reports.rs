//! Rails by cable with the nodes' reports: their names of NICs, what they hear, and what the audit makes of it.

use super::{end, lines, nic_port, only_fault};
use crate::audit::report::{NeighbourReport, Report};
use crate::fabric::cabling::{Cable, Cabling};
use crate::fabric::names::Reports;
use crate::fabric::rails::{FabricRails, RailReach};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// A report of a node whose GPUs use four of its five NICs.
fn report(node: &str) -> Report {
    let nic = |nic: usize| {
        let port = json!({"number": 1, "state": "active", "rate_mbps": 400000,
            "link_layer": "Ethernet", "interface": format!("eth{nic}"),
            "guid": format!("0000:0000:{node}:000{nic}")});
        json!({"name": format!("mlx5_{nic}"), "kind": "verbs",
            "address": format!("0000:{nic}1:00.0"), "numa_node": 0, "nearest": "PIX",
            "model": null, "link": null, "ports": [port]})
    };
    let gpu = |gpu: usize| {
        let nics = [format!("mlx5_{gpu}:1")];
        json!({"address": null, "model": null, "numa_node": 0, "link": null, "nics": nics})
    };
    let (gpus, nics): (Vec<_>, Vec<_>) = ((0..4).map(gpu).collect(), (0..5).map(nic).collect());
    let report = json!({"format": "nic-placement check", "version": 2,
        "host": format!("n{node}"), "machine": "m", "source": "s", "fail": 0, "warn": 0, "findings": [],
        "processor": null, "numa_nodes": [], "gpus": gpus, "nics": nics});
    Report::from_json(report.to_string().as_bytes()).unwrap()
}

const NODES: [&str; 3] = ["0001", "0002", "0003"];

/// What their agents of LLDP hear: NIC k leaf k, and of the last node two the other way round.
fn hearing() -> [Report; 3] {
    NODES.map(|node| {
        let mut report = report(node);
        let heard = (0..5).map(|nic| {
            let is_other = node == "0003" && nic < 2;
            let leaf = if is_other { 1 - nic } else { nic };
            let neighbour = NeighbourReport {
                switch: format!("leaf{leaf}"),
                id: format!("02:00:00:00:00:0{leaf}"),
                port: format!("swp{node}"),
            };
            (format!("eth{nic}"), neighbour)
        });
        report.hear(&heard.collect());
        report
    })
}

fn book(reports: &[Report]) -> (Cabling, Reports) {
    let (mut cabling, mut book) = (Cabling::default(), Reports::new());
    for report in reports {
        cabling.hear(report);
        book.insert(report.host.clone().unwrap(), report.clone());
    }
    (cabling, book)
}

#[test]
fn what_the_nodes_hear_is_a_fabric_without_any_file() {
    let (cabling, book) = book(&hearing());
    let found = FabricRails::of(&cabling, &book);
    let fault = only_fault(&found);
    let on = fault[0].on.as_deref();
    assert_eq!((fault.len(), on), (2, Some("leaf1")));
    assert_eq!((found.rails.len(), &found.reach), (4, &RailReach::NotKnown));
    let line = "NodeName=n0003 rails=mlx5_1,mlx5_0,mlx5_2,mlx5_3";
    assert_eq!(lines(&found)[0], line);
    let port = found.cables[2].on_port.as_deref();
    assert_eq!(port, Some("swp0001"));
}

fn cable(node: &str, nic: &str, guid: Option<String>, leaf: usize) -> Cable {
    let mut nic = nic_port(node, nic);
    nic.guid = guid;
    let to = end(&format!("leaf{leaf}"), 1);
    Cable { nic, to }
}

#[test]
fn a_nic_whose_description_names_no_node_is_known_by_its_guid_and_unknown_names_are_compared() {
    let guid = Some("0000000000010002".to_string());
    let mut cabling = Cabling::default();
    cabling.cables.insert(cable("", "ConnectX7", guid, 2));
    let found = FabricRails::of(&cabling, &book(&[report("0001")]).1);
    let nic = (&*found.cables[0].node, &*found.cables[0].nic);
    assert_eq!(nic, ("n0001", "mlx5_2"));
    assert_eq!(found.notes, [""; 0]);
    let alone = FabricRails::of(&cabling, &BTreeMap::new());
    assert!(alone.cables.is_empty());
    let mut cabling = Cabling::default();
    for node in NODES {
        for nic in 0..4 {
            let cable = cable(&format!("n{node}"), &format!("slave{nic}"), None, nic);
            cabling.cables.insert(cable);
        }
    }
    let found = FabricRails::of(&cabling, &book(&NODES.map(report)).1);
    let counts = (found.rails.len(), found.faults.len(), found.notes.len());
    assert_eq!(counts, (4, 0, 0), "{found:#?}");
}

#[test]
fn reports_name_nics_by_interface_and_guid_and_tell_rails_from_nics_for_storage() {
    let reports = book(&NODES.map(report)).1;
    let mut cabling = Cabling::default();
    for node in NODES {
        for nic in 0..5 {
            let called = match node {
                "0001" => format!("eth{nic}"),
                "0002" => format!("HCA-{}", nic + 1),
                _ => format!("mlx5_{nic}"),
            };
            let guid = (node == "0002").then(|| format!("000000000002000{nic}"));
            // the description of one NIC is another node's
            let said = match (node, nic) {
                ("0002", 3) => "n0009".to_string(),
                _ => format!("n{node}"),
            };
            let cable = cable(&said, &called, guid, nic);
            cabling.cables.insert(cable);
        }
    }
    let found = FabricRails::of(&cabling, &reports);
    assert_eq!(found.rails.len(), 4, "mlx5_4 is no GPU's: {found:#?}");
    let mut nics = found.cables.iter();
    assert!(nics.all(|of| of.nic.starts_with("mlx5_")));
    let nodes = found.cables.iter().map(|of| &of.node);
    assert_eq!(BTreeSet::from_iter(nodes).len(), 3);
}
