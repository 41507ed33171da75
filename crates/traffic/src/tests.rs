//! Tests of the bytes of NICs.

use super::bytes::{
    self, Bytes, Figure, NoFigure, OF_THE_INTERFACE, Origin, Planned, PlannedNics, Readings,
    Traffic,
};
use super::counters::{Count, CountedPort, PortCounts, Sample, interface, rdma};
use super::exposition::{Metric, write};
use super::report::{Merged, NodeReport};
use super::tasks::{marked, numbers};
use super::verify::{Node, SeenTask, judge};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn files<'a>(known: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
    |file| {
        let found = known.iter().find(|(name, _)| *name == file);
        found.map(|(_, text)| text.to_string())
    }
}

fn counted(driver: &str, known: &[(&str, &str)]) -> Option<(String, Count)> {
    rdma(Some(driver), &files(known)).map(|(counter, count)| (counter.name(), count))
}

fn count(sent: u64, received: u64) -> Count {
    Count {
        sent,
        received,
        is_at_end: false,
    }
}

/// The two files of a counter in that folder.
fn pair<'a>(
    folder: &str,
    sent: &str,
    received: &str,
    values: [&'a str; 2],
) -> [(String, &'a str); 2] {
    let path = |file: &str| format!("{folder}/{file}");
    [(path(sent), values[0]), (path(received), values[1])]
}

/// The counter that a driver's NIC has by these files.
fn driver(driver: &str, known: &[(String, &str)]) -> Option<(String, Count)> {
    let known: Vec<(&str, &str)> = known.iter().map(|(file, text)| (&**file, *text)).collect();
    counted(driver, &known)
}

#[test]
fn words_of_four_bytes_are_counted_as_bytes_and_omni_path_s_flits_have_eight() {
    let standard = pair("counters", "port_xmit_data", "port_rcv_data", ["10", "20"]);
    let words = |name: &str, sent, received| Some((name.to_string(), count(sent, received)));
    let found = driver("mlx5_core", &standard);
    assert_eq!(found, words("port_xmit_data", 40, 80));
    assert_eq!(driver("hfi1", &standard), words("port_xmit_data", 80, 160));
    let wide = pair(
        "counters_ext",
        "port_xmit_data_64",
        "port_rcv_data_64",
        ["11", "21"],
    );
    let found = driver("mlx4_core", &[standard, wide].concat());
    assert_eq!(found, words("port_xmit_data_64", 44, 84));
}

#[test]
fn each_driver_s_own_counter_is_known() {
    for (name, sent, received) in [
        ("efa", "tx_bytes", "rx_bytes"),
        ("bnxt_en", "tx_bytes", "rx_bytes"),
        ("ionic", "tx_rdma_ucast_bytes", "rx_rdma_ucast_bytes"),
        ("erdma", "hw_tx_bytes_cnt", "hw_rx_bytes_cnt"),
    ] {
        let files = pair("hw_counters", sent, received, ["3", "4"]);
        let found = driver(name, &files).map(|(_, count)| count);
        assert_eq!(found, Some(count(3, 4)), "{name}");
        // elsewhere the counter may mean anything
        assert_eq!(driver("another", &files), None, "{name}");
    }
    let of = |version: u32, values| {
        let (sent, received) = (
            format!("ip{version}OutOctets"),
            format!("ip{version}InOctets"),
        );
        pair("hw_counters", &sent, &received, values)
    };
    let irdma = [of(4, ["1", "2"]), of(6, ["10", "20"])].concat();
    let found = driver("ice", &irdma).map(|(_, count)| count);
    assert_eq!(found, Some(count(11, 22)));
}

#[test]
fn what_is_no_count_is_no_counter() {
    let texts = [
        "",
        "N/A (no PMA)",
        "-1",
        "+1",
        "0x10",
        "1 2",
        "18446744073709551616",
    ];
    for text in texts {
        let known = pair("counters", "port_xmit_data", "port_rcv_data", [text, "1"]);
        assert_eq!(driver("mlx5_core", &known), None, "{text:?}");
    }
    // soft RoCE counts packets
    let packets = pair("hw_counters", "sent_pkts", "rcvd_pkts", ["7", "8"]);
    assert_eq!(driver("", &packets), None);
    assert_eq!(interface(&files(&[("tx_bytes", "7")])), None);
}

fn sample(entries: &[(&str, u8, PortCounts)]) -> Sample {
    let place = |device: &str, port| CountedPort {
        device: device.to_string(),
        port,
    };
    entries
        .iter()
        .map(|(device, port, counted)| (place(device, *port), counted.clone()))
        .collect()
}

fn port(sent: u64, received: u64) -> PortCounts {
    let texts = [(sent / 4).to_string(), (received / 4).to_string()];
    let known = [
        ("counters/port_xmit_data", &*texts[0]),
        ("counters/port_rcv_data", &*texts[1]),
    ];
    PortCounts {
        rdma: rdma(None, &files(&known)),
        ..PortCounts::default()
    }
}

fn soft(sent: u64) -> PortCounts {
    PortCounts {
        rdma: None,
        interface: Some(("rail0".into(), count(sent, 0))),
        is_soft: true,
    }
}

#[test]
fn a_counter_that_cannot_tell_is_no_zero() {
    let end = u64::from(u32::MAX) * 4;
    let before = sample(&[
        ("a", 1, port(400, 400)),
        ("b", 1, port(400, 400)),
        ("c", 1, PortCounts::default()),
        ("d", 1, port(0, 0)),
    ]);
    let after = sample(&[
        ("a", 1, port(396, 800)),
        ("b", 1, port(end, 400)),
        ("c", 1, PortCounts::default()),
        ("e", 1, port(0, 0)),
    ]);
    let readings = Readings {
        silent: BTreeSet::from(["sick".to_string()]),
        ..readings(&before, &after)
    };
    let traffic = Traffic::new(&readings, &PlannedNics::new(), Origin::Nobody);
    let of = traffic.nics.iter().map(|nic| (&*nic.name, nic.rdma));
    let missing = [
        ("a:1", NoFigure::WentBackwards),
        ("b:1", NoFigure::AtItsEnd),
        ("c:1", NoFigure::NoCounter),
        ("d:1", NoFigure::CameOrWent),
        ("e:1", NoFigure::CameOrWent),
        ("sick:1", NoFigure::NoAnswer),
    ];
    let missing = missing.map(|(name, why)| (name, Some(Figure::Missing(why))));
    assert_eq!(of.collect::<Vec<_>>(), missing);
}

#[test]
fn nics_are_in_the_order_of_their_numbers_and_interfaces_come_last() {
    let all = [
        ("eth0", 0),
        ("mlx5_10", 1),
        ("mlx5_9", 1),
        ("bnxt_re0", 1),
        ("mlx5_9", 2),
    ];
    let sample = sample(&all.map(|(device, port)| (device, port, PortCounts::default())));
    let names: Vec<String> = sample.keys().map(CountedPort::name).collect();
    assert_eq!(
        names.join(" "),
        "bnxt_re0:1 mlx5_9:1 mlx5_9:2 mlx5_10:1 eth0"
    );
    for place in sample.keys() {
        assert_eq!(CountedPort::named(&place.name()), *place);
    }
}

fn plan(nics: &[&str]) -> PlannedNics {
    let nics = nics.iter();
    nics.map(|nic| (nic.to_string(), Planned::default()))
        .collect()
}

fn readings(before: &Sample, after: &Sample) -> Readings {
    Readings {
        before: before.clone(),
        after: after.clone(),
        silent: BTreeSet::new(),
        seconds: 1.5,
    }
}

fn traffic_of(before: &Sample, after: &Sample, plan: &PlannedNics) -> Traffic {
    Traffic::new(&readings(before, after), plan, Origin::Tasks)
}

fn report_of(node: &str, before: &Sample, after: &Sample, plan: &PlannedNics) -> NodeReport {
    let mut report = NodeReport::new(node.to_string(), Vec::new());
    report.status = Some(0);
    report.traffic = Some(traffic_of(before, after, plan));
    report
}

#[test]
fn bytes_are_told_apart_by_the_plan_and_what_carried_next_to_nothing_is_idle() {
    let nics = ["mlx5_0", "mlx5_1", "mlx5_2"];
    let before = sample(&nics.map(|nic| (nic, 1, port(0, 0))));
    let after = sample(&[
        ("mlx5_0", 1, port(1_000_000, 0)),
        ("mlx5_1", 1, port(400, 0)),
        ("mlx5_2", 1, port(500_000, 0)),
    ]);
    let shares = traffic_of(&before, &after, &plan(&["mlx5_0:1", "mlx5_1:1"])).shares;
    assert_eq!((shares.planned, shares.others), (1_000_400, 500_000));
    assert_eq!(shares.idle, ["mlx5_1:1"]);
    // where nothing moves, nothing is idle
    let still = traffic_of(&before, &before, &plan(&["mlx5_0:1"]));
    assert_eq!(still.shares.idle, [""; 0]);
}

#[test]
fn soft_roce_is_counted_by_its_interface_and_not_a_second_time_as_tcp() {
    let [before, after] = [10, 2010].map(|sent| sample(&[("mlx5_0", 1, soft(sent))]));
    let report = traffic_of(&before, &after, &plan(&["mlx5_0:1"]));
    assert_eq!((report.shares.planned, report.shares.tcp), (2000, 0));
    assert_eq!(report.nics[0].counter.as_deref(), Some(OF_THE_INTERFACE));
    let notes = report.notes();
    assert!(
        notes.len() == 1 && notes[0].starts_with("soft RoCE: "),
        "{notes:?}"
    );
}

#[test]
fn a_program_that_sends_by_tcp_instead_is_told_so() {
    let card = |tcp| PortCounts {
        interface: Some(("eth1".into(), count(tcp, 0))),
        ..port(0, 0)
    };
    let [before, after] = [0, 5_000_000].map(|tcp| sample(&[("mlx5_0", 1, card(tcp))]));
    let notes = traffic_of(&before, &after, &plan(&["mlx5_0:1"])).notes();
    assert!(
        notes.len() == 1 && notes[0].contains("by TCP (5.00 MB) than by"),
        "{notes:?}"
    );
}

fn environment(entries: &[&str]) -> Vec<u8> {
    let entries = entries.iter();
    entries.flat_map(|entry| entry.bytes().chain([0])).collect()
}

#[test]
fn a_task_is_known_by_its_marker_and_slurm_s_numbers() {
    let text = environment(&[
        "PATH=/bin",
        "SLURM_JOB_ID=17",
        "SLURM_STEP_ID=0",
        "SLURM_LOCALID=3",
        "SLURM_PROCID=11",
        "NIC_PLACEMENT=v1 policy=closest gpus=0000:1b:00.0 nics=mlx5_0:1,mlx5_1:1 set:X=1",
    ]);
    let task = marked(&text).unwrap();
    let numbers = numbers(&text);
    assert_eq!(numbers.step.unwrap().to_string(), "17.0");
    assert_eq!((numbers.local, numbers.rank), (Some(3), Some(11)));
    assert_eq!(task.gpus, ["0000:1b:00.0".parse().unwrap()]);
    assert_eq!(task.nics, ["mlx5_0:1", "mlx5_1:1"]);
}

#[test]
fn of_an_environment_that_lies_only_numbers_and_names_are_kept() {
    let text = environment(&[
        "SLURM_JOB_ID=+17\n",
        "NIC_PLACEMENT=v1 policy=\u{1b}[2J gpus=\u{1b}[31m,0000:1b:00.0 nics=../../etc:1,mlx5_0:1,a\nb:1,mlx5_0:999",
    ]);
    let task = marked(&text).unwrap();
    assert_eq!((numbers(&text).step, task.gpus.len()), (None, 1));
    assert_eq!(task.nics, ["mlx5_0:1"]);
    assert_eq!(marked(&environment(&["NIC_PLACEMENT=mine"])), None);
    assert_eq!(marked(b"NIC_PLACEMENT=v1 policy=\xff gpus= nics=\0"), None);
    assert_eq!(numbers(b""), Default::default());
}

#[test]
fn nodes_are_added_up_by_the_names_of_nics() {
    let before = sample(&[("mlx5_0", 1, port(0, 0)), ("mlx5_1", 1, port(0, 0))]);
    let after = |sent| sample(&[("mlx5_0", 1, port(sent, 4)), ("mlx5_1", 1, port(0, 0))]);
    let plan = plan(&["mlx5_0:1"]);
    let mut merged = Merged::default();
    for (node, sent) in [("n1", 800), ("n0", 400), ("n1", 999_996)] {
        let text = report_of(node, &before, &after(sent), &plan).to_json();
        assert_eq!(text.matches('\n').count(), 1, "one line: {text}");
        let report = NodeReport::read(text.as_bytes()).unwrap();
        merged.add(report).unwrap();
    }
    let (nodes, shares) = (merged.nodes.len(), &merged.shares);
    assert_eq!((nodes, shares.planned, shares.others), (2, 1200, 0));
    assert_eq!(merged.twice, BTreeSet::from(["n1".to_string()]));
    let sum = &merged.nics["mlx5_0:1"];
    let (sent, received) = (1200, 8);
    assert_eq!(sum.rdma, Bytes { sent, received });
    assert_eq!((sum.least_sent, sum.most_sent), (Some(400), Some(800)));
    assert_eq!((sum.planned_on, merged.nics["mlx5_1:1"].planned_on), (2, 0));
    let other = report_of("n2", &before, &after(8), &plan).to_json();
    let other = other.replace("\"version\":2", "\"version\":3");
    assert!(NodeReport::read(b"{}").is_err() && NodeReport::read(other.as_bytes()).is_err());
}

#[test]
fn each_metric_has_one_head_and_no_label_ends_a_line() {
    let labels = [("name", "a\"b\\c\nd"), ("port", "1")];
    let labels = labels
        .map(|(name, value)| (name, value.to_string()))
        .to_vec();
    let help = "It has a \\ in it.";
    let gauge = Metric::gauge("a_gauge", help, vec![(labels, 7), (Vec::new(), 8)]);
    let none = Metric::counter("no_sample_total", "Not written.", Vec::new());
    let wanted = "# HELP a_gauge It has a \\\\ in it.\n# TYPE a_gauge gauge\n\
                  a_gauge{name=\"a\\\"b\\\\c\\nd\",port=\"1\"} 7\na_gauge 8\n";
    assert_eq!(write(&[gauge, none]), wanted);
}

proptest! {
    /// Whatever the counters say, nothing is counted twice or lost, and the order of nodes does not matter.
    #[test]
    fn shares_add_up(figures in prop::collection::vec((0u64..1 << 40, 0u64..1 << 40, any::<bool>()), 1..12)) {
        let names: Vec<String> = (0..figures.len()).map(|number| format!("mlx5_{number}")).collect();
        let entries = |pick: fn(&(u64, u64, bool)) -> u64| -> Vec<(&str, u8, PortCounts)> {
            names.iter().zip(&figures).map(|(name, of)| (&**name, 1, port(pick(of), 0))).collect()
        };
        let (before, after) = (sample(&entries(|of| of.0)), sample(&entries(|of| of.1)));
        let planned: Vec<String> =
            names.iter().zip(&figures).filter(|(_, of)| of.2).map(|(name, _)| format!("{name}:1")).collect();
        let plan = plan(&planned.iter().map(String::as_str).collect::<Vec<_>>());
        let report = report_of("n0", &before, &after, &plan);
        let grown: u64 =
            figures.iter().filter_map(|(before, after, _)| (after / 4 * 4).checked_sub(before / 4 * 4)).sum();
        let traffic = report.traffic.as_ref().unwrap();
        let (shares, end) = (&traffic.shares, Some(Figure::Missing(NoFigure::AtItsEnd)));
        let at_end = traffic.nics.iter().any(|nic| nic.rdma == end);
        prop_assert!(at_end || shares.planned + shares.others == grown);
        let back = figures.iter().filter(|(before, after, _)| after / 4 < before / 4).count();
        prop_assert!(at_end || shares.unknown.len() == back);
        let mut other = report.clone();
        other.node = "n1".to_string();
        let merged = |reports: [&NodeReport; 2]| {
            let mut merged = Merged::default();
            reports.into_iter().for_each(|report| merged.add(report.clone()).unwrap());
            merged
        };
        let both = merged([&report, &other]);
        prop_assert_eq!(&both, &merged([&other, &report]));
        prop_assert_eq!(both.shares.planned, 2 * shares.planned);
        prop_assert_eq!(&NodeReport::read(report.to_json().as_bytes()).unwrap(), &report);
    }

    /// A user can put any bytes into a process's environment: the names of NICs that are kept of it are printable ASCII.
    #[test]
    fn no_environment_brings_a_control_character(tail in prop::collection::vec(any::<u8>(), 0..200)) {
        let head = b"NIC_PLACEMENT=v1 policy=closest gpus=0000:1b:00.0 nics=mlx5_0:1,".to_vec();
        if let Some(task) = marked(&[head, tail].concat()) {
            prop_assert!(task.nics.iter().all(|nic| nic.chars().all(|letter| letter.is_ascii_graphic())));
        }
    }

    #[test]
    fn an_exposition_is_read_back(values in prop::collection::vec((".*", any::<u64>()), 1..8)) {
        let samples = values.iter().map(|(label, value)| (vec![("l", label.clone())], *value));
        let text = write(&[Metric::gauge("x", "X.", samples.collect())]);
        let lines: Vec<&str> = text.strip_suffix('\n').unwrap().split('\n').skip(2).collect();
        prop_assert_eq!(lines.len(), values.len());
        for (line, (label, value)) in lines.iter().zip(&values) {
            let (head, number) = line.rsplit_once(' ').unwrap();
            let escaped = head.strip_prefix("x{l=\"").unwrap().strip_suffix("\"}").unwrap();
            let mut read = String::new();
            let mut letters = escaped.chars();
            while let Some(letter) = letters.next() {
                prop_assert_ne!(letter, '"');
                read.push(match letter {
                    '\\' => match letters.next().unwrap() { 'n' => '\n', other => other },
                    other => other,
                });
            }
            prop_assert_eq!(&read, label);
            prop_assert_eq!(number.parse::<u64>().unwrap(), *value);
        }
    }
}

#[test]
fn tasks_plan_the_nics_that_they_name() {
    let text = environment(&[
        "SLURM_JOB_ID=1",
        "SLURM_STEP_ID=2",
        "SLURM_LOCALID=5",
        "NIC_PLACEMENT=v1 policy=closest gpus=0000:1b:00.0 nics=mlx5_0:1",
    ]);
    let topology = nic_placement_node::platform::model("dgx-h100").unwrap();
    let map = nic_placement_core::policy::map(&topology, &Default::default());
    let node = Node {
        topology: &topology,
        map: &map,
    };
    let (of_node, origin) = bytes::plan(node, &[]);
    assert_eq!((of_node.len(), origin), (8, Origin::Node), "{of_node:?}");
    let marked = marked(&text).unwrap();
    let task = SeenTask {
        numbers: numbers(&text),
        user: None,
        processes: vec![1],
        gpus: Ok(topology.gpu_indices().collect()),
        planned: Some(marked.nics),
        bound: None,
        held: Ok(BTreeMap::new()),
        threads: Vec::new(),
        memory: BTreeMap::new(),
        changed: Vec::new(),
    };
    let (plan, origin) = bytes::plan(node, &[judge(node, &task, 0)]);
    assert_eq!(origin, Origin::Tasks);
    assert_eq!(plan.keys().collect::<Vec<_>>(), ["mlx5_0:1"]);
    let of = &plan["mlx5_0:1"];
    assert_eq!(of.tasks, BTreeSet::from(["1.2 task 5".to_string()]));
    assert_eq!(of.gpus, BTreeSet::from([0]), "of its GPUs the NIC's own");
}

#[test]
fn a_task_is_called_after_its_step_and_a_batch_script_s_by_that_word() {
    let label = |text: &str| numbers(text.replace(' ', "\0").as_bytes()).label();
    for (text, wanted) in [
        (
            "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_LOCALID=1 SLURM_PROCID=9",
            Some("7.0 task 9"),
        ),
        (
            "SLURM_JOB_ID=7 SLURM_STEP_ID=4294967291 SLURM_LOCALID=0",
            Some("7.batch task 0"),
        ),
        ("SLURM_LOCALID=0", None),
    ] {
        assert_eq!(label(text).as_deref(), wanted);
    }
}
