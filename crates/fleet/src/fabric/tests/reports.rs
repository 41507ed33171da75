//! Rails by cable with the nodes' reports: their names of NICs, what they hear, and what the audit makes of it.

use crate::audit::Audit;
use crate::audit::kinds::Difference;
use crate::audit::report::{NeighbourReport, Report};
use crate::fabric::RailReach;
use crate::fabric::cabling::{Cable, Cabling, NicPort, SwitchPort};
use crate::fabric::faults::FaultKind;
use crate::fabric::names::{NameBook, NodeNames};

use crate::fabric::rails::{FabricRails, positions};
use std::collections::BTreeMap;

/// A report of a node whose GPUs use four of its five NICs.
fn report(node: &str) -> Report {
    let nics: Vec<String> = (0..5)
        .map(|nic| {
            format!(
                r#"{{"name":"mlx5_{nic}","kind":"verbs","address":"0000:{nic}1:00.0","model":null,"numa_node":0,"link":null,
                "nearest":"PIX","ports":[{{"number":1,"state":"active","rate_mbps":400000,"link_layer":"Ethernet",
                "interface":"eth{nic}","guid":"0000:0000:{node}:000{nic}"}}]}}"#
            )
        })
        .collect();
    let gpus = (0..4).map(|gpu| {
        format!(
            r#"{{"address":null,"model":null,"numa_node":0,"link":null,"nics":["mlx5_{gpu}:1"]}}"#
        )
    });
    let text = format!(
        r#"{{"format":"nic-placement check","version":2,"host":"n{node}","machine":"m","source":"s","fail":0,
        "findings":[],"processor":null,"numa_nodes":[],"gpus":[{}],"nics":[{}]}}"#,
        gpus.collect::<Vec<_>>().join(","),
        nics.join(",")
    );
    Report::from_json(text.as_bytes()).unwrap()
}

const NODES: [&str; 3] = ["0001", "0002", "0003"];

/// What their agents of LLDP hear: NIC k leaf k, and of the last node two the other way round.
fn hearing() -> [Report; 3] {
    NODES.map(|node| {
        let mut report = report(node);
        let heard = (0..5).map(|nic| {
            let leaf = match nic {
                0 | 1 if node == "0003" => 1 - nic,
                nic => nic,
            };
            let (switch, id) = (format!("leaf{leaf}"), format!("02:00:00:00:00:0{leaf}"));
            (
                format!("eth{nic}"),
                NeighbourReport {
                    switch,
                    id,
                    port: format!("swp{node}"),
                },
            )
        });
        report.hear(&heard.collect());
        report
    })
}

fn book(reports: &[Report]) -> NameBook {
    let mut book = NameBook::default();
    reports
        .iter()
        .for_each(|report| book.add(NodeNames::of(report).unwrap()).unwrap());
    book
}

#[test]
fn what_the_nodes_hear_is_a_fabric_without_any_file() {
    let book = book(&hearing());
    assert!(book.nodes.values().all(NodeNames::has_neighbours));
    let found = FabricRails::of(&Cabling::default(), &book.nodes);
    let [fault] = found.faults.as_slice() else {
        panic!("{:#?}", found.faults)
    };
    assert_eq!(
        (fault.kind, fault.cables[0].on.as_deref()),
        (FaultKind::Exchanged, Some("leaf1"))
    );
    assert_eq!((found.rails.len(), &found.reach), (4, &RailReach::NotKnown));
    assert_eq!(
        found.lines[0].line,
        "NodeName=n0003 rails=mlx5_1,mlx5_0,mlx5_2,mlx5_3"
    );
    assert_eq!(
        found.nodes[0].nics[2].switch_port.as_deref(),
        Some("swp0001")
    );
}

#[test]
fn the_audit_names_the_node_whose_nics_are_on_other_rails_than_its_kinds() {
    let (mut audit, reports) = (Audit::default(), hearing());
    reports
        .iter()
        .for_each(|report| audit.add_report(report).unwrap());
    let book = book(&reports);
    let found = FabricRails::of(&Cabling::default(), &book.nodes);
    positions(&found, &book)
        .iter()
        .for_each(|(node, facts)| audit.extend(node, facts).unwrap());
    audit
        .extend(
            "unknown",
            &[(
                "0000:01:00.0".into(),
                "port 1 rail by cable".into(),
                "7".into(),
            )],
        )
        .unwrap();
    let audited = audit.finish();
    let [group] = audited.kinds[0].differing.as_slice() else {
        panic!("{audited:#?}")
    };
    let told = |of: &Difference| format!("{} {} {:?} {:?}", of.subject, of.what, of.here, of.kind);
    let told: Vec<String> = group.differences.iter().map(told).collect();
    assert_eq!((group.nodes.as_str(), told.len()), ("n0003", 2), "{told:?}");
    assert_eq!(
        told[0],
        "mlx5_0 (0000:01:00.0) port 1 rail by cable Some(\"1\") Some(\"0\")"
    );
}

#[test]
fn a_nic_whose_description_names_no_node_is_known_by_its_guid() {
    let guid = Some("0000000000010002".to_string());
    let nic = NicPort {
        node: String::new(),
        nic: "ConnectX7".into(),
        port: 1,
        guid,
    };
    let to = Some(SwitchPort {
        switch: "leaf2".into(),
        port: "1".into(),
    });
    let mut cabling = Cabling::default();
    cabling.unnamed.insert(Cable { nic, to });
    let found = FabricRails::of(&cabling, &book(&[report("0001")]).nodes);
    assert_eq!(
        (
            found.nodes[0].node.as_str(),
            found.nodes[0].nics[0].nic.as_str()
        ),
        ("n0001", "mlx5_2")
    );
    assert_eq!(found.notes, [""; 0]);
    assert!(FabricRails::of(&cabling, &BTreeMap::new()).nodes.is_empty());
}

#[test]
fn a_node_without_a_cable_is_a_note_unless_no_gpu_uses_its_nics() {
    let mut login = report("0009");
    login.gpus.clear();
    let reports = [hearing().to_vec(), vec![report("0008"), login]].concat();
    let found = FabricRails::of(&Cabling::default(), &book(&reports).nodes);
    assert_eq!(found.notes, ["no source tells a cable of n0008"]);
}

#[test]
fn names_of_a_source_that_no_report_knows_are_compared_all_the_same() {
    let mut cabling = Cabling::default();
    for node in NODES {
        for nic in 0..4 {
            let nic_port = NicPort {
                node: format!("n{node}"),
                nic: format!("slave{nic}"),
                port: 1,
                guid: None,
            };
            let to = Some(SwitchPort {
                switch: format!("leaf{nic}"),
                port: "1".into(),
            });
            cabling.cables.insert(Cable { nic: nic_port, to });
        }
    }
    let found = FabricRails::of(&cabling, &book(&NODES.map(report)).nodes);
    assert_eq!(
        (found.rails.len(), found.faults.len(), found.notes.len()),
        (4, 0, 0),
        "{found:#?}"
    );
}

#[test]
fn of_two_reports_of_a_node_one_counts_whatever_their_order() {
    let [first, ..] = hearing();
    let silent = report("0001");
    let one = book(&[first.clone(), silent.clone()]).nodes;
    assert_eq!(one, book(&[silent, first]).nodes);
    assert_eq!(one.len(), 1);
}

#[test]
fn reports_name_nics_by_interface_and_guid_and_tell_rails_from_nics_for_storage() {
    let reports = book(&NODES.map(report)).nodes;
    let mut cabling = Cabling::default();
    for node in NODES {
        for nic in 0..5 {
            let to = Some(SwitchPort {
                switch: format!("leaf{nic}"),
                port: node.into(),
            });
            let (called, guid) = match node {
                "0001" => (format!("eth{nic}"), None),
                "0002" => (
                    format!("HCA-{}", nic + 1),
                    Some(format!("000000000002000{nic}")),
                ),
                _ => (format!("mlx5_{nic}"), None),
            };
            // the description of one NIC is another node's
            let said = if node == "0002" && nic == 3 {
                "n0009".into()
            } else {
                format!("n{node}")
            };
            let nic = NicPort {
                node: said,
                nic: called,
                port: 1,
                guid,
            };
            cabling.cables.insert(Cable { nic, to });
        }
    }
    let found = FabricRails::of(&cabling, &reports);
    assert_eq!(found.rails.len(), 4, "mlx5_4 is no GPU's: {found:#?}");
    assert!(
        found
            .nodes
            .iter()
            .all(|node| node.nics.iter().all(|nic| nic.nic.starts_with("mlx5_")))
    );
    assert_eq!(found.nodes.len(), 3);
    assert!(
        found.notes[0].contains("says that it is of n0009"),
        "{:?}",
        found.notes
    );
}
