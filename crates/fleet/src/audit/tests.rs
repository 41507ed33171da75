//! What the audit finds, on nodes with four GPUs and five NICs.

use super::kinds::{Audited, Difference};
use super::report::{FORMAT, Finding, GpuReport, Level, LinkReport, NicReport, VERSION};
use super::report::{Report, to_json};
use super::{Audit, MAX_KEPT};
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A part of a report of the type that is asked for.
fn of<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn link(width: u32) -> Option<LinkReport> {
    of(json!({"speed": "32.0 GT/s", "width": width}))
}

fn nic(number: usize) -> NicReport {
    let port = json!({"number": 1, "state": "active", "rate_mbps": 400_000,
        "link_layer": "InfiniBand", "subnet": "fe80:0:0:0"});
    let nic = json!({"name": format!("mlx5_{number}"), "kind": "verbs",
        "address": format!("0000:{number}0:00.1"), "model": "15b3:1021", "board": "MT_0000000838",
        "firmware": "28.39.1002", "numa_node": number / 2, "link": link(16),
        "nearest": if number < 4 { "PIX" } else { "NODE" }, "ports": [port]});
    of(nic)
}

fn gpu(number: usize) -> GpuReport {
    let gpu = json!({"address": format!("0000:{number}0:00.0"), "model": "NVIDIA H100 80GB HBM3",
        "numa_node": number / 2, "link": link(16), "versions": {"Video BIOS": "96.00.61"},
        "nics": [format!("mlx5_{number}:1")]});
    of(gpu)
}

fn node(host: &str) -> Report {
    let numa = [(0, "0-31"), (1, "32-63")].map(|(node, cpus)| json!({"node": node, "cpus": cpus}));
    let gpus: Vec<GpuReport> = (0..4).map(gpu).collect();
    let nics: Vec<NicReport> = (0..5).map(nic).collect();
    let node = json!({"format": FORMAT, "version": VERSION, "host": host, "machine": "DGX",
        "source": "this system", "fail": 0, "warn": 0, "findings": [],
        "versions": {"kernel": "6.8.0"}, "default": "default=closest",
        "processor": "x86 GenuineIntel family 6 model 143", "numa_nodes": numa, "gpus": gpus,
        "nics": nics});
    of(node)
}

fn changed(host: &str, change: impl Fn(&mut Report)) -> Report {
    let mut report = node(host);
    change(&mut report);
    report
}

fn audit_of(reports: &[Report]) -> Audited {
    let mut audit = Audit::default();
    for report in reports {
        audit.add(report.to_json().as_bytes()).unwrap();
    }
    audit.finish()
}

/// `n[1-8]`, and these.
fn audited(others: &[Report]) -> Audited {
    let eight: Vec<Report> = (1..=8).map(|number| node(&format!("n{number}"))).collect();
    audit_of(&[&eight, others].concat())
}

/// What a node has otherwise, in words, where it is of the kind of the others.
fn differences(change: impl Fn(&mut Report)) -> Vec<String> {
    let found = audited(&[changed("odd", change)]);
    assert_eq!(found.kinds.len(), 1, "{found:#?}");
    assert_eq!(found.kinds[0].differing.len(), 1, "{found:#?}");
    let group = &found.kinds[0].differing[0];
    assert_eq!((group.nodes.as_str(), group.count), ("odd", 1));
    let told = |of: &Difference| {
        let said = |value: &Option<String>| value.clone().unwrap_or("-".into());
        let (here, kind) = (said(&of.here), said(&of.kind));
        assert_eq!(of.shared_by, 8);
        let (class, subject, what) = (of.class, &of.subject, &of.what);
        format!("{class:?} {subject} {what}: {here} not {kind}")
    };
    group.differences.iter().map(told).collect()
}

#[test]
fn nodes_that_say_the_same_are_of_one_kind_and_none_differs_by_what_it_does_not_tell() {
    let found = audited(&[]);
    let kinds = (found.kinds.len(), &*found.kinds[0].nodes, found.nodes);
    assert!(found.are_alike());
    assert_eq!(kinds, (1, "n[1-8]", 8));
    let silent = changed("n9", |report| {
        report.versions.clear();
        report.processor = None;
        for nic in &mut report.nics {
            (nic.firmware, nic.link) = (None, None);
        }
    });
    assert!(audited(&[silent]).are_alike());
}

#[test]
fn a_missing_nic_is_told_once_and_a_nic_more_another_model_and_another_default_too() {
    let told = differences(|report| {
        report.nics.remove(3);
        report.gpus[3].nics = vec!["mlx5_2:1".into()];
    });
    let wanted = [
        "Gpu 0000:30:00.0 NICs: mlx5_2:1 not mlx5_3:1",
        "Nic mlx5_3 (0000:30:00.1) : - not verbs 15b3:1021",
    ];
    assert_eq!(told, wanted);
    let told = differences(|report| report.nics.push(nic(6)));
    assert_eq!(told, ["Nic mlx5_6 (0000:60:00.1) : verbs 15b3:1021 not -"]);
    let told = differences(|report| report.gpus[1].model = Some("NVIDIA A100".into()));
    let wanted = "Gpu 0000:10:00.0 : NVIDIA A100 not NVIDIA H100 80GB HBM3";
    assert_eq!(told, [wanted]);
    // a configuration file that was not replaced
    let told = differences(|report| report.default = Some("default=closest rollout=10%".into()));
    assert_eq!(told.len(), 1);
    assert!(told[0].ends_with(": default=closest rollout=10% not default=closest"));
    // an earlier tool says nothing of it
    assert!(audited(&[changed("old", |report| report.default = None)]).are_alike());
}

#[test]
fn links_rates_ports_that_are_down_versions_numa_layouts_and_subnets_are_told() {
    let told = differences(|report| {
        report.nics[0].link = link(8);
        report.nics[1].ports[0].rate_mbps = Some(200_000);
        report.nics[2].ports[0].state = "down".into();
        report.nics[2].ports[0].rate_mbps = Some(10_000);
        report.gpus[0].link = of(json!({"speed": "2.5 GT/s", "width": 8}));
        report.nics[0].firmware = Some("28.36.1000".into());
        report.nics[1].ports[0].subnet = Some("fe80:0:0:1".into());
        report.versions.insert("kernel".into(), "5.15.0".into());
        report.numa_nodes.pop();
        report.numa_nodes[0].cpus = "0-63".into();
    });
    let wanted = [
        "Node  kernel: 5.15.0 not 6.8.0",
        "Numa 0 : CPUs 0-63 not CPUs 0-31",
        "Numa 1 : - not CPUs 32-63",
        "Gpu 0000:00:00.0 PCIe lanes: x8 not x16",
        "Nic mlx5_0 (0000:00:00.1) PCIe link: 32.0 GT/s x8 not 32.0 GT/s x16",
        "Nic mlx5_0 (0000:00:00.1) firmware: 28.36.1000 not 28.39.1002",
        "Nic mlx5_1 (0000:10:00.1) port 1 rate: 200 Gb/s not 400 Gb/s",
        "Nic mlx5_1 (0000:10:00.1) port 1 subnet: fe80:0:0:1 not fe80:0:0:0",
        "Nic mlx5_2 (0000:20:00.1) port 1 state: down not active",
    ];
    assert_eq!(told, wanted);
}

fn finding(level: Level, about: Option<&str>, text: &str) -> Finding {
    of(json!({"level": level, "code": "node-file", "about": about, "text": text}))
}

#[test]
fn a_finding_that_siblings_lack_is_told_and_one_that_all_have_is_not() {
    let wrong = |text: &str| finding(Level::Fail, Some("/run/node.json"), text);
    let told = differences(|report| {
        report.findings = vec![wrong("it is 9 s old"), finding(Level::Ok, None, "x")]
    });
    let wanted = "Finding fail node-file: /run/node.json : it is 9 s old not -";
    assert_eq!(told, [wanted]);
    let with = |host: &str, age| changed(host, |report| report.findings = vec![wrong(age)]);
    let all = (0..9).map(|number| with(&format!("m{number}"), ["a", "b", "c"][number % 3]));
    let found = audit_of(&all.collect::<Vec<_>>());
    assert!(found.are_alike(), "an age is no difference");
}

#[test]
fn a_node_with_half_the_gpus_and_as_many_nodes_with_a_nic_less_are_kinds_of_their_own() {
    let half = |host: &str| {
        changed(host, |report| {
            report.gpus.truncate(2);
            report.nics.truncate(2);
        })
    };
    let found = audited(&[half("h1")]);
    let kinds = (found.kinds.len(), &*found.kinds[1].nodes, found.are_alike());
    assert_eq!(kinds, (2, "h1", false));
    // two of them are a kind
    assert!(audited(&[half("h1"), half("h2")]).are_alike());
    let less = |number: usize| changed(&format!("m{number}"), |report| drop(report.nics.pop()));
    let found = audited(&(0..5).map(less).collect::<Vec<_>>());
    assert_eq!((found.kinds.len(), found.are_alike()), (2, true));
    let found = audited(&(0..4).map(less).collect::<Vec<_>>());
    let differing = &*found.kinds[0].differing[0].nodes;
    assert_eq!((found.kinds.len(), differing), (1, "m[0-3]"));
}

#[test]
fn a_node_that_reported_twice_is_told_and_counted_once() {
    let found = audited(&[node("n3"), changed("n4", |report| drop(report.nics.pop()))]);
    assert_eq!(found.duplicates, ["n3", "n4"]);
    assert_eq!(found.nodes, 8);
}

#[test]
fn a_report_that_is_none_says_why() {
    let refused = |change: fn(&mut Report), part: &str| {
        let report = changed("x", change).to_json();
        let why = Audit::default().add(report.as_bytes()).unwrap_err();
        assert!(why.contains(part), "{why}");
    };
    refused(|of| of.host = None, "no `host`");
    refused(|of| of.host = Some("a,b\x1b".into()), r"`a,b\u{1b}`");
    refused(|of| of.version = 1, "`version` is `1`, expected `2`");
    refused(
        |of| of.format = "nic-placement plan".into(),
        "`nic-placement plan`",
    );
    // a terminal shows the answer, so the report's control characters are escaped (found by the fuzzer)
    refused(|of| of.format = "a\n\x1b[2J".into(), r"`a\n\u{1b}[2J`");
    refused(|of| of.machine = "x".repeat(9000), "more than 2048 bytes");
    let add = |text: &str| Audit::default().add(text.as_bytes());
    assert!(add("{}").unwrap_err().starts_with("`format` is ``"));
    assert!(add(&format!("{{\"x\":{}", "[".repeat(100_000))).is_err());
}

#[test]
fn a_stream_that_is_made_to_fill_the_memory_is_refused() {
    let mut audit = Audit::default();
    let filler = |number: usize| {
        changed(&format!("n{number}"), |report| {
            let names = (0..400).map(|at| format!("{number}-{at}"));
            let versions = names.map(|name| (name.clone(), "x".repeat(2000) + &name));
            report.versions = versions.collect();
        })
    };
    let refused = (0..200).find_map(|number| audit.add(filler(number).to_json().as_bytes()).err());
    assert!(refused.unwrap().contains("audit fewer nodes at once"));
    assert!(audit.kept < MAX_KEPT + (2 << 20));
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
            to_json(&audit.finish())
        };
        prop_assert_eq!(answer(&nodes), answer(&other));
    }
}
