//! What the audit finds, on nodes with four GPUs and five NICs.

use super::kinds::{Audited, Difference};
use super::report::{
    FORMAT, Finding, GpuReport, Level, LinkReport, NicReport, NumaReport, PortReport, Report,
    VERSION,
};
use super::{Audit, MAX_TEXTS};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn link(width: u32) -> Option<LinkReport> {
    Some(LinkReport {
        speed: "32.0 GT/s".into(),
        width,
    })
}

fn nic(number: usize) -> NicReport {
    NicReport {
        name: format!("mlx5_{number}"),
        kind: "verbs".into(),
        address: Some(format!("0000:{number}0:00.1")),
        model: Some("15b3:1021".into()),
        board: Some("MT_0000000838".into()),
        firmware: Some("28.39.1002".into()),
        numa_node: Some(number as u32 / 2),
        link: link(16),
        nearest: Some(if number < 4 { "PIX" } else { "NODE" }.into()),
        guid: None,
        ports: vec![PortReport {
            number: 1,
            state: "active".into(),
            rate_mbps: Some(400_000),
            link_layer: "InfiniBand".into(),
            subnet: Some("fe80:0:0:0".into()),
            guid: None,
            interface: None,
            neighbour: None,
        }],
    }
}

fn gpu(number: usize) -> GpuReport {
    GpuReport {
        address: Some(format!("0000:{number}0:00.0")),
        model: Some("NVIDIA H100 80GB HBM3".into()),
        partition: None,
        mig_instances: None,
        numa_node: Some(number as u32 / 2),
        link: link(16),
        versions: BTreeMap::from([("Video BIOS".into(), "96.00.61".into())]),
        nics: vec![format!("mlx5_{number}:1")],
    }
}

fn node(host: &str) -> Report {
    let cpus = ["0-31", "32-63"].iter().enumerate();
    Report {
        format: FORMAT.into(),
        version: VERSION,
        host: Some(host.into()),
        machine: "DGX".into(),
        source: "this system".into(),
        fail: 0,
        warn: 0,
        findings: Vec::new(),
        versions: BTreeMap::from([("kernel".into(), "6.8.0".into())]),
        default: Some("default=closest".into()),
        processor: Some("x86 GenuineIntel family 6 model 143".into()),
        agreement: None,
        numa_nodes: cpus
            .map(|(node, cpus)| NumaReport {
                node: node as u32,
                cpus: cpus.to_string(),
            })
            .collect(),
        gpus: (0..4).map(gpu).collect(),
        nics: (0..5).map(nic).collect(),
    }
}

fn changed(host: &str, change: impl Fn(&mut Report)) -> Report {
    let mut report = node(host);
    change(&mut report);
    report
}

/// `n[1-8]`, and these.
fn audited(others: &[Report]) -> Audited {
    let mut audit = Audit::default();
    (1..=8).for_each(|number| {
        audit
            .add(node(&format!("n{number}")).to_json().as_bytes())
            .unwrap()
    });
    others
        .iter()
        .for_each(|report| audit.add(report.to_json().as_bytes()).unwrap());
    audit.finish()
}

/// What a node has otherwise, in words, where it is of the kind of the others.
fn differences(change: impl Fn(&mut Report)) -> Vec<String> {
    let found = audited(&[changed("odd", change)]);
    assert_eq!(found.kinds.len(), 1, "{found:#?}");
    let [group] = found.kinds[0].differing.as_slice() else {
        panic!("{found:#?}")
    };
    assert_eq!((group.nodes.as_str(), group.count), ("odd", 1));
    let told = |difference: &Difference| {
        let Difference {
            class,
            subject,
            what,
            here,
            kind,
            shared_by,
        } = difference;
        let said = |value: &Option<String>| value.clone().unwrap_or("-".into());
        format!(
            "{class:?} {subject} {what}: {} not {} of {shared_by}",
            said(here),
            said(kind)
        )
    };
    group.differences.iter().map(told).collect()
}

#[test]
fn nodes_that_say_the_same_are_of_one_kind_and_none_differs() {
    let found = audited(&[]);
    assert!(found.is_clean());
    assert_eq!(
        (
            found.kinds.len(),
            found.kinds[0].nodes.as_str(),
            found.nodes
        ),
        (1, "n[1-8]", 8)
    );
}

#[test]
fn a_missing_nic_is_told_once_and_not_with_all_that_it_would_have_had() {
    let told = differences(|report| {
        report.nics.remove(3);
        report.gpus[3].nics = vec!["mlx5_2:1".into()];
    });
    assert_eq!(
        told,
        [
            "Gpu 0000:30:00.0 NICs: mlx5_2:1 not mlx5_3:1 of 8",
            "Nic mlx5_3 (0000:30:00.1) : - not verbs 15b3:1021 of 8"
        ]
    );
}

#[test]
fn a_nic_more_and_a_gpu_of_another_model_are_told() {
    let told = differences(|report| report.nics.push(nic(6)));
    assert_eq!(
        told,
        ["Nic mlx5_6 (0000:60:00.1) : verbs 15b3:1021 not - of 8"]
    );
    let told = differences(|report| report.gpus[1].model = Some("NVIDIA A100".into()));
    assert_eq!(
        told,
        ["Gpu 0000:10:00.0 : NVIDIA A100 not NVIDIA H100 80GB HBM3 of 8"]
    );
}

// one node whose configuration file was not replaced
#[test]
fn another_default_for_steps_that_do_not_ask_is_told() {
    let told = differences(|report| report.default = Some("default=closest rollout=10%".into()));
    let expected =
        "Node  steps that do not ask: default=closest rollout=10% not default=closest of 8";
    assert_eq!(told, [expected]);
    assert!(
        audited(&[changed("old", |report| report.default = None)]).is_clean(),
        "an earlier tool"
    );
}

#[test]
fn a_link_with_fewer_lanes_a_lower_rate_and_a_port_that_is_down_are_told() {
    let told = differences(|report| {
        report.nics[0].link = link(8);
        report.nics[1].ports[0].rate_mbps = Some(200_000);
        report.nics[2].ports[0].state = "down".into();
        report.nics[2].ports[0].rate_mbps = Some(10_000);
        report.gpus[0].link = Some(LinkReport {
            speed: "2.5 GT/s".into(),
            width: 8,
        });
    });
    assert_eq!(
        told,
        [
            "Gpu 0000:00:00.0 PCIe lanes: x8 not x16 of 8",
            "Nic mlx5_0 (0000:00:00.1) PCIe link: 32.0 GT/s x8 not 32.0 GT/s x16 of 8",
            "Nic mlx5_1 (0000:10:00.1) port 1 rate: 200 Gb/s not 400 Gb/s of 8",
            "Nic mlx5_2 (0000:20:00.1) port 1 state: down not active of 8"
        ]
    );
}

#[test]
fn other_versions_another_numa_layout_and_another_subnet_are_told() {
    let told = differences(|report| {
        report.nics[0].firmware = Some("28.36.1000".into());
        report.nics[1].ports[0].subnet = Some("fe80:0:0:1".into());
        report.versions.insert("kernel".into(), "5.15.0".into());
        report.numa_nodes.pop();
        report.numa_nodes[0].cpus = "0-63".into();
    });
    assert_eq!(
        told,
        [
            "Node  kernel: 5.15.0 not 6.8.0 of 8",
            "Numa 0 : CPUs 0-63 not CPUs 0-31 of 8",
            "Numa 1 : - not CPUs 32-63 of 8",
            "Nic mlx5_0 (0000:00:00.1) firmware: 28.36.1000 not 28.39.1002 of 8",
            "Nic mlx5_1 (0000:10:00.1) port 1 subnet: fe80:0:0:1 not fe80:0:0:0 of 8"
        ]
    );
}

fn finding(level: Level, about: Option<&str>, text: &str) -> Finding {
    Finding {
        level,
        code: "node-file".into(),
        about: about.map(Into::into),
        text: text.into(),
        why: None,
        remedy: None,
    }
}

#[test]
fn a_finding_that_siblings_lack_is_told_and_one_that_all_have_is_not() {
    let wrong = |text: &str| finding(Level::Fail, Some("/run/node.json"), text);
    let told = differences(|report| {
        report.findings = vec![wrong("it is 9 s old"), finding(Level::Ok, None, "x")]
    });
    assert_eq!(
        told,
        ["Finding fail node-file: /run/node.json : it is 9 s old not - of 8"]
    );
    let with = |host: &str, age| changed(host, |report| report.findings = vec![wrong(age)]);
    let all: Vec<Report> = (0..9)
        .map(|number| with(&format!("m{number}"), ["a", "b", "c"][number % 3]))
        .collect();
    let mut audit = Audit::default();
    all.iter()
        .for_each(|report| audit.add(report.to_json().as_bytes()).unwrap());
    assert!(audit.finish().is_clean(), "an age is no difference");
}

#[test]
fn what_a_node_does_not_tell_is_no_difference() {
    let silent = changed("n9", |report| {
        report.versions.clear();
        report.processor = None;
        report
            .nics
            .iter_mut()
            .for_each(|nic| (nic.firmware, nic.link) = (None, None));
    });
    assert!(audited(&[silent]).is_clean());
}

#[test]
fn a_node_with_half_the_gpus_is_of_another_kind_and_alone_there() {
    let half = |host: &str| {
        changed(host, |report| {
            report.gpus.truncate(2);
            report.nics.truncate(2);
        })
    };
    let found = audited(&[half("h1")]);
    assert_eq!(
        (
            found.kinds.len(),
            found.kinds[1].nodes.as_str(),
            found.is_clean()
        ),
        (2, "h1", false)
    );
    assert!(
        audited(&[half("h1"), half("h2")]).is_clean(),
        "two of them are a kind"
    );
}

#[test]
fn as_many_nodes_with_a_nic_less_as_without_are_a_kind_of_their_own() {
    let less = |number: usize| changed(&format!("m{number}"), |report| drop(report.nics.pop()));
    let found = audited(&(0..5).map(less).collect::<Vec<_>>());
    assert_eq!((found.kinds.len(), found.is_clean()), (2, true));
    let found = audited(&(0..4).map(less).collect::<Vec<_>>());
    assert_eq!(
        (
            found.kinds.len(),
            found.kinds[0].differing[0].nodes.as_str()
        ),
        (1, "m[0-3]")
    );
}

#[test]
fn a_node_that_reported_twice_is_told_and_counted_once() {
    let found = audited(&[node("n3"), changed("n4", |report| drop(report.nics.pop()))]);
    let told: Vec<_> = found
        .duplicates
        .iter()
        .map(|of| (of.host.as_str(), of.reports, of.alike))
        .collect();
    assert_eq!(
        (told, found.nodes),
        (vec![("n3", 2, true), ("n4", 2, false)], 8)
    );
    assert!(!found.is_clean());
}

#[test]
fn a_report_that_is_none_says_why() {
    let refused = |change: fn(&mut Report)| {
        Audit::default()
            .add(changed("x", change).to_json().as_bytes())
            .unwrap_err()
    };
    assert!(refused(|report| report.host = None).starts_with("it has no `host`"));
    assert!(
        refused(|report| report.host = Some("a,b\x1b".into()))
            .contains(r"`a,b\u{1b}` is no name of a node")
    );
    assert_eq!(
        refused(|report| report.version = 3),
        "`version` is `3`, expected `2`"
    );
    let first = changed("x", |report| report.version = 1).to_json();
    assert_eq!(
        Audit::default().add(first.as_bytes()),
        Ok(()),
        "version 1 is read too"
    );
    assert!(
        refused(|report| report.format = "nic-placement plan".into())
            .contains("`nic-placement plan`")
    );
    // the reader of the answer sees it in a terminal, so the report's control characters are escaped (found by the fuzzer)
    assert_eq!(
        refused(|report| report.format = "a\n\x1b[2J".into()),
        r"`format` is `a\n\u{1b}[2J`, expected `nic-placement check`"
    );
    assert!(refused(|report| report.machine = "x".repeat(9000)).contains("more than 2048 bytes"));
    assert!(refused(|report| report.machine = "\x1b".repeat(9000)).contains(r"`\u{1b}\u{1b}"));
    assert_eq!(
        Audit::default().add(b"{}").unwrap_err(),
        "`format` is missing, expected `nic-placement check`"
    );
    let deep = format!("{{\"x\":{}", "[".repeat(100_000));
    assert!(Audit::default().add(deep.as_bytes()).is_err());
}

#[test]
fn a_stream_that_is_made_to_fill_the_memory_is_refused() {
    let mut audit = Audit::default();
    let filler = |number: usize| {
        changed(&format!("n{number}"), |report| {
            report.versions = (0..400)
                .map(|at| {
                    (
                        format!("{number}-{at}"),
                        "x".repeat(2000) + &format!("{number}-{at}"),
                    )
                })
                .collect();
        })
    };
    let refused = (0..200).find_map(|number| audit.add(filler(number).to_json().as_bytes()).err());
    assert!(refused.unwrap().contains("audit fewer nodes at once"));
    assert!(audit.used < MAX_TEXTS + (2 << 20));
}

/// A node that may differ in one of a few ways, or report twice.
fn any_node() -> impl Strategy<Value = Report> {
    (0..12usize, 0..9usize).prop_map(|(number, odd)| {
        changed(&format!("n{number}"), |report| match odd {
            0 => drop(report.nics.pop()),
            1 => report.nics[0].link = link(8),
            2 => report.nics[2].firmware = Some("1".into()),
            3 => drop(report.gpus.drain(..2)),
            4 => report.machine = "other".into(),
            5 => report.findings = vec![finding(Level::Note, Some("a"), &format!("b{number}"))],
            _ => {}
        })
    })
}

proptest! {
    #[test]
    fn any_order_of_nodes_gives_the_same_bytes(
        (nodes, other) in prop::collection::vec(any_node(), 1..20)
            .prop_flat_map(|nodes| (Just(nodes.clone()), Just(nodes).prop_shuffle()))
    ) {
        let answer = |nodes: &[Report]| {
            let mut audit = Audit::default();
            nodes.iter().for_each(|report| audit.add(report.to_json().as_bytes()).unwrap());
            audit.finish().to_json(0, &[])
        };
        prop_assert_eq!(answer(&nodes), answer(&other));
    }
}
