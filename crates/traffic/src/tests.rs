//! Tests of the bytes of NICs.

use super::bytes::{self, Figure, NoFigure, Origin, PlannedNics, Readings, Traffic, shown};
use super::counters::{Count, PortCounts, Sample, interface, rdma};
use super::exposition::{Metric, write};
use super::report::NodeReport;
use super::tasks::{marked, numbers};
use super::verify::{Node, Seen, judge};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn files<'a>(known: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
    |file| {
        let found = known.iter().find(|(name, _)| *name == file);
        found.map(|(_, text)| text.to_string())
    }
}

fn count(of: &str, sent: u64, received: u64) -> Count {
    let of = of.to_string();
    Count { of, sent, received }
}

/// The two files of a counter in that folder.
fn pair<'a>(folder: &str, of: [&str; 2], values: [&'a str; 2]) -> [(String, &'a str); 2] {
    let [sent, received] = of.map(|file| format!("{folder}/{file}"));
    [(sent, values[0]), (received, values[1])]
}

const DATA: [&str; 2] = ["port_xmit_data", "port_rcv_data"];

/// The counter that a driver's NIC has by these files.
fn driver(driver: &str, known: &[(String, &str)]) -> Option<Count> {
    let known: Vec<(&str, &str)> = known.iter().map(|(file, text)| (&**file, *text)).collect();
    rdma(Some(driver), &files(&known))
}

#[test]
fn words_of_four_bytes_are_counted_as_bytes_flits_have_eight_and_drivers_have_their_own() {
    let standard = pair("counters", DATA, ["10", "20"]);
    let words = |sent, received| Some(count("counters/port_xmit_data", sent, received));
    assert_eq!(driver("mlx5_core", &standard), words(40, 80));
    assert_eq!(driver("hfi1", &standard), words(80, 160));
    let names = ["port_xmit_data_64", "port_rcv_data_64"];
    let wide = pair("counters_ext", names, ["11", "21"]);
    let found = driver("mlx4_core", &[standard, wide].concat());
    assert_eq!(found, Some(count("counters_ext/port_xmit_data_64", 44, 84)));
    for (name, of) in [
        ("efa", ["tx_bytes", "rx_bytes"]),
        ("bnxt_en", ["tx_bytes", "rx_bytes"]),
        ("ionic", ["tx_rdma_ucast_bytes", "rx_rdma_ucast_bytes"]),
        ("erdma", ["hw_tx_bytes_cnt", "hw_rx_bytes_cnt"]),
    ] {
        let files = pair("hw_counters", of, ["3", "4"]);
        let found = driver(name, &files).map(|count| (count.sent, count.received));
        assert_eq!(found, Some((3, 4)), "{name}");
        // elsewhere the counter may mean anything
        assert_eq!(driver("another", &files), None, "{name}");
    }
}

#[test]
fn what_is_no_count_is_no_counter_and_a_counter_that_cannot_tell_is_no_zero() {
    // the last one is the end of 32 bits, where a counter stays
    let texts = "|N/A (no PMA)|-1|+1|0x10|1 2|18446744073709551616|4294967295";
    for text in texts.split('|') {
        let known = pair("counters", DATA, [text, "1"]);
        assert_eq!(driver("mlx5_core", &known), None, "{text:?}");
    }
    // soft RoCE counts packets
    let packets = pair("hw_counters", ["sent_pkts", "rcvd_pkts"], ["7", "8"]);
    assert_eq!(driver("", &packets), None);
    let files = files(&[("tx_bytes", "7")]);
    assert_eq!(interface("eth0".to_string(), &files), None);
    let none = PortCounts::default;
    let before = sample(&[("a", port(400, 400)), ("c", none()), ("d", port(0, 0))]);
    let after = sample(&[("a", port(396, 800)), ("c", none()), ("e", port(0, 0))]);
    let readings = Readings {
        silent: BTreeSet::from(["sick".to_string()]),
        ..readings(&before, &after)
    };
    let traffic = Traffic::new(&readings, &PlannedNics::new(), Origin::Node);
    let of = traffic.nics.iter().map(|nic| (&*nic.name, nic.rdma));
    let missing = [
        ("a:1", NoFigure::WentBackwards),
        ("c:1", NoFigure::NoCounter),
        ("d:1", NoFigure::CameOrWent),
        ("e:1", NoFigure::CameOrWent),
        ("sick:1", NoFigure::NoAnswer),
    ];
    let missing = missing.map(|(name, why)| (name, Some(Figure::Missing(why))));
    assert_eq!(of.collect::<Vec<_>>(), missing);
}

/// The first ports of these devices.
fn sample(entries: &[(&str, PortCounts)]) -> Sample {
    let entries = entries.iter();
    let entries = entries.map(|(device, of)| (format!("{device}:1"), of.clone()));
    entries.collect()
}

fn port(sent: u64, received: u64) -> PortCounts {
    let [sent, received] = [sent, received].map(|bytes| (bytes / 4).to_string());
    let known = pair("counters", DATA, [&sent, &received]);
    let known = known.each_ref().map(|(file, text)| (&**file, *text));
    PortCounts {
        rdma: rdma(None, &files(&known)),
        ..PortCounts::default()
    }
}

fn soft(sent: u64) -> PortCounts {
    PortCounts {
        rdma: None,
        interface: Some(count("rail0", sent, 0)),
        is_soft: true,
    }
}

fn plan(nics: &[&str]) -> PlannedNics {
    let nics = nics.iter();
    nics.map(|nic| (nic.to_string(), Vec::new())).collect()
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
    let before = sample(&nics.map(|nic| (nic, port(0, 0))));
    let sent = nics.into_iter().zip([1_000_000, 400, 500_000]);
    let after: Vec<_> = sent.map(|(nic, sent)| (nic, port(sent, 0))).collect();
    let after = sample(&after);
    let shares = traffic_of(&before, &after, &plan(&["mlx5_0:1", "mlx5_1:1"])).shares;
    assert_eq!((shares.planned, shares.others), (1_000_400, 500_000));
    assert_eq!(shares.idle, ["mlx5_1:1"]);
    // where nothing moves, nothing is idle
    let still = traffic_of(&before, &before, &plan(&["mlx5_0:1"]));
    assert_eq!(still.shares.idle, [""; 0]);
}

#[test]
fn soft_roce_is_counted_by_its_interface_and_not_as_the_tcp_that_is_told_of_others() {
    let [before, after] = [10, 2010].map(|sent| sample(&[("mlx5_0", soft(sent))]));
    let report = traffic_of(&before, &after, &plan(&["mlx5_0:1"]));
    assert_eq!((report.shares.planned, report.shares.tcp), (2000, 0));
    let card = |tcp| PortCounts {
        interface: Some(count("eth1", tcp, 0)),
        ..port(0, 0)
    };
    let [before, after] = [0, 5_000_000].map(|tcp| sample(&[("mlx5_0", card(tcp))]));
    let notes = traffic_of(&before, &after, &plan(&["mlx5_0:1"])).notes();
    assert!(notes.len() == 1 && notes[0].contains("by TCP (5.00 MB) than"));
}

/// An environment as the kernel shows it, with a bar for each NUL.
fn environment(text: &str) -> Vec<u8> {
    (text.replace('|', "\0") + "\0").into_bytes()
}

#[test]
fn a_task_is_known_by_its_marker_and_slurm_s_numbers_and_of_a_lie_nothing_else_is_kept() {
    let text = environment(
        "PATH=/bin|SLURM_JOB_ID=17|SLURM_STEP_ID=0|SLURM_LOCALID=3|SLURM_PROCID=11|\
         NIC_PLACEMENT=v1 policy=closest gpus=0000:1b:00.0 nics=mlx5_0:1,mlx5_1:1 set:X=1",
    );
    let task = marked(&text).unwrap();
    let of = numbers(&text);
    assert_eq!((of.job, of.step), (Some(17), Some(0)));
    assert_eq!((of.local_id, of.task), (Some(3), Some(11)));
    assert_eq!(task.gpus, ["0000:1b:00.0".parse().unwrap()]);
    assert_eq!(task.nics, ["mlx5_0:1", "mlx5_1:1"]);
    let text = environment(
        "SLURM_JOB_ID=+17\n|NIC_PLACEMENT=v1 policy=\u{1b}[2J gpus=\u{1b}[31m,0000:1b:00.0 \
         nics=../../etc:1,mlx5_0:1,a\nb:1,mlx5_0:999",
    );
    let task = marked(&text).unwrap();
    assert_eq!((numbers(&text).job, task.gpus.len()), (None, 1));
    assert_eq!(task.nics, ["mlx5_0:1"]);
    assert_eq!(marked(&environment("NIC_PLACEMENT=mine")), None);
    assert_eq!(marked(b"NIC_PLACEMENT=v1 policy=\xff gpus= nics=\0"), None);
    assert_eq!(numbers(b""), Default::default());
}

#[test]
fn a_report_is_one_line_and_that_of_another_version_is_none() {
    let before = sample(&[("mlx5_0", port(0, 0)), ("mlx5_1", port(0, 0))]);
    let text = report_of("n2", &before, &before, &plan(&["mlx5_0:1"])).to_json();
    assert_eq!(text.matches('\n').count(), 1, "one line: {text}");
    assert!(NodeReport::read(text.as_bytes()).is_some());
    let other = text.replace("\"version\":3", "\"version\":2");
    assert!(NodeReport::read(b"{}").is_none() && NodeReport::read(other.as_bytes()).is_none());
}

#[test]
fn each_metric_has_one_head_and_no_label_ends_a_line() {
    let labels = [("name", "a\"b\\c\nd"), ("port", "1")];
    let labels = Vec::from(labels.map(|(name, value)| (name, value.to_string())));
    let gauge = Metric::gauge("a_gauge", "It is.", vec![(labels, 7), (Vec::new(), 8)]);
    let none = Metric::gauge("no_sample", "Not written.", Vec::new());
    let wanted = "# HELP a_gauge It is.\n# TYPE a_gauge gauge\n\
                  a_gauge{name=\"a\\\"b\\\\c\\nd\",port=\"1\"} 7\na_gauge 8\n";
    assert_eq!(write(&[gauge, none]), wanted);
}

proptest! {
    /// Whatever the counters say, nothing is counted twice or lost.
    #[test]
    fn shares_add_up(figures in prop::collection::vec((0u64..1 << 33, 0u64..1 << 33, any::<bool>()), 1..12)) {
        let names: Vec<String> = (0..figures.len()).map(|number| format!("mlx5_{number}")).collect();
        let entries = |pick: fn(&(u64, u64, bool)) -> u64| -> Vec<(&str, PortCounts)> {
            names.iter().zip(&figures).map(|(name, of)| (&**name, port(pick(of), 0))).collect()
        };
        let (before, after) = (sample(&entries(|of| of.0)), sample(&entries(|of| of.1)));
        let planned: Vec<String> =
            names.iter().zip(&figures).filter(|(_, of)| of.2).map(|(name, _)| format!("{name}:1")).collect();
        let plan = plan(&planned.iter().map(String::as_str).collect::<Vec<_>>());
        let report = report_of("n0", &before, &after, &plan);
        let grown: u64 =
            figures.iter().filter_map(|(before, after, _)| (after / 4 * 4).checked_sub(before / 4 * 4)).sum();
        let traffic = report.traffic.as_ref().unwrap();
        let shares = &traffic.shares;
        prop_assert_eq!(shares.planned + shares.others, grown);
        let back = figures.iter().filter(|(before, after, _)| after / 4 < before / 4).count();
        let missing = |nic: &&bytes::NicTraffic| matches!(nic.rdma, Some(Figure::Missing(_)));
        prop_assert_eq!(traffic.nics.iter().filter(missing).count(), back);
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
fn a_task_is_called_after_its_step_or_its_batch_script_and_plans_the_nics_that_it_names() {
    let label = |text: &str| numbers(text.replace(' ', "\0").as_bytes()).label();
    let task = "SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_LOCALID=1 SLURM_PROCID=9";
    let script = "SLURM_JOB_ID=7 SLURM_STEP_ID=4294967291 SLURM_LOCALID=0";
    for (text, wanted) in [
        (task, Some("7.0 task 9")),
        (script, Some("7.batch task 0")),
        ("SLURM_LOCALID=0", None),
    ] {
        assert_eq!(label(text).as_deref(), wanted);
    }
    let text = environment(
        "SLURM_JOB_ID=1|SLURM_STEP_ID=2|SLURM_LOCALID=5|\
         NIC_PLACEMENT=v1 policy=closest gpus=0000:1b:00.0 nics=mlx5_0:1",
    );
    let topology = nic_placement_node::platform::model("dgx-h100").unwrap();
    let map = nic_placement_core::policy::map(&topology, &Default::default());
    let (topology, map) = (&topology, &map);
    let node = Node { topology, map };
    let (of_node, origin) = bytes::plan(node, &[]);
    assert_eq!((of_node.len(), origin), (8, Origin::Node), "{of_node:?}");
    let task = Seen::new(&text);
    let (plan, origin) = bytes::plan(node, &[judge(node, task, Ok(false))]);
    assert_eq!(origin, Origin::Tasks);
    assert_eq!(plan.keys().collect::<Vec<_>>(), ["mlx5_0:1"]);
    assert_eq!(plan["mlx5_0:1"], ["1.2 task 5"]);
}

#[test]
fn bytes_have_three_digits() {
    let rows = "0=0 B|999=999 B|1000=1.00 kB|1234=1.23 kB|45600000=45.6 MB|99949999=99.9 MB|99950000=100 MB|\
                999499=999 kB|999500=1.00 MB|789000000000=789 GB|18446744073709551615=18.4 EB";
    for (count, text) in rows.split('|').map(|row| row.split_once('=').unwrap()) {
        assert_eq!(shown(count.parse().unwrap()), text, "{count}");
    }
}
