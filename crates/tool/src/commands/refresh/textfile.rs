//! Metrics of the node for the textfile collector of Prometheus' node exporter.
//!
//! The node exporter has the bytes of `counters/` and the state of interfaces itself.

use crate::commands::counters::{opener, read};
use crate::commands::misunderstood::misunderstood;
use crate::commands::{Failure, output};
use nic_placement_core::config::NodeSource;
use nic_placement_core::placement::{GpuPlacement, Rail};
use nic_placement_core::plan::Plan;
use nic_placement_core::topology::{Nic, NicIndex, PathType, Port, PortState};
use nic_placement_traffic::counters;
use nic_placement_traffic::exposition::{Metric, MetricSample, write};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Cards have just answered.
const PATIENCE: Duration = Duration::from_secs(5);

/// Refuses names without `.prom`: the collector reads no others.
pub(in crate::commands) fn check(place: &Path) -> Result<(), Failure> {
    let is_read = place.extension().is_some_and(|ending| ending == "prom");
    match is_read {
        true => Ok(output::check(place)?),
        false => Err(misunderstood(format_args!(
            "`--textfile {}`: the node exporter reads only files whose names end with .prom",
            place.display()
        ))),
    }
}

pub(super) fn keep(plan: &Plan, place: &Path) -> Result<(), String> {
    let counted = read(&opener(&NodeSource::Live), &BTreeSet::new(), PATIENCE);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or(Duration::ZERO).as_secs();
    let text = write(&metrics(plan, &counted.sample, now));
    output::write(place, text.as_bytes())
}

type Labels = Vec<(&'static str, String)>;

pub(in crate::commands) fn metrics(
    plan: &Plan,
    counted: &counters::Sample,
    now: u64,
) -> Vec<Metric> {
    let mut all = of_the_node(plan, now);
    all.extend(of_ports(plan));
    all.extend(of_pairs(plan));
    all.extend(bytes(counted));
    all
}

fn of_the_node(plan: &Plan, now: u64) -> Vec<Metric> {
    let (version, policy) = (
        env!("CARGO_PKG_VERSION").to_string(),
        plan.map.policy.to_string(),
    );
    let without = plan
        .map
        .gpus
        .iter()
        .filter(|gpu| gpu.choices.is_empty())
        .count() as u64;
    let one = |labels: Labels, value| vec![(labels, value)];
    vec![
        Metric::gauge(
            "nic_placement_info",
            "The version of nic-placement, and the node's policy.",
            one(vec![("version", version), ("policy", policy)], 1),
        ),
        Metric::gauge(
            "nic_placement_node_file_written_timestamp_seconds",
            "When the node was last read and the node file written, in seconds since 1970.",
            one(Vec::new(), now),
        ),
        Metric::gauge(
            "nic_placement_gpus",
            "GPUs of the node.",
            one(Vec::new(), plan.node.gpus.len() as u64),
        ),
        Metric::gauge(
            "nic_placement_gpus_without_nic",
            "GPUs for which the plan has no NIC.",
            one(Vec::new(), without),
        ),
    ]
}

fn port_labels(device: &str, port: u8) -> Labels {
    vec![("device", device.to_string()), ("port", port.to_string())]
}

fn of_ports(plan: &Plan) -> Vec<Metric> {
    let is_rail =
        |rail: &Rail, (nic, port): (NicIndex, &Port)| rail.nic == nic && rail.port == port.number;
    let each = |value: &dyn Fn((NicIndex, &Port)) -> Option<u64>| -> Vec<MetricSample> {
        let nics = plan.node.numbered_nics();
        let ports =
            nics.flat_map(|(index, nic)| nic.ports.iter().map(move |port| (index, nic, port)));
        let labelled = |nic: &Nic, port: &Port| port_labels(&nic.name, port.number);
        ports
            .filter_map(|(index, nic, port)| Some((labelled(nic, port), value((index, port))?)))
            .collect()
    };
    vec![
        Metric::gauge(
            "nic_placement_port_up",
            "1 where the port of the NIC is active, 0 where not.",
            // a port of unknown state has no sample: a zero would say that it is not active
            each(&|(_, port)| {
                (port.state != PortState::Unknown)
                    .then_some(u64::from(port.state == PortState::Active))
            }),
        ),
        Metric::gauge(
            "nic_placement_port_rate_bytes_per_second",
            "The rate of the port's link as it is now, in bytes per second.",
            each(&|(_, port)| Some(port.rate_mbps?.saturating_mul(125_000))),
        ),
        Metric::gauge(
            "nic_placement_port_usable",
            "1 where the plan may use the port, 0 where it is left out.",
            each(&|place| {
                Some(u64::from(
                    plan.map.rails.iter().any(|rail| is_rail(rail, place)),
                ))
            }),
        ),
        Metric::gauge(
            "nic_placement_port_broken",
            "1 where the plan would use the port if it worked, 0 where not.",
            each(&|place| {
                Some(u64::from(
                    plan.map.broken.iter().any(|rail| is_rail(rail, place)),
                ))
            }),
        ),
        Metric::gauge(
            "nic_placement_port_gpus",
            "GPUs that the plan gives to the port.",
            each(&|place| {
                let serves = |gpu: &&GpuPlacement| {
                    gpu.choices
                        .iter()
                        .any(|of| is_rail(plan.map.rail(of.rail), place))
                };
                Some(plan.map.gpus.iter().filter(serves).count() as u64)
            }),
        ),
    ]
}

fn of_pairs(plan: &Plan) -> Vec<Metric> {
    let (mut pairs, mut far) = (Vec::new(), 0);
    for (gpu, placed) in plan.map.numbered_gpus() {
        for choice in &placed.choices {
            let rail = plan.map.rail(choice.rail);
            let address = plan.node.gpu(gpu).address.to_string();
            let mut labels = vec![("gpu", gpu.0.to_string()), ("pci_address", address)];
            labels.extend(port_labels(&rail.name, rail.port));
            labels.push(("path", choice.path.to_string()));
            pairs.push((labels, 1));
            far += u64::from(choice.path == PathType::Sys);
        }
    }
    vec![
        Metric::gauge(
            "nic_placement_pair_info",
            "Which NIC the plan gives to a GPU, and the path between.",
            pairs,
        ),
        Metric::gauge(
            "nic_placement_far_pairs",
            "Pairs of GPU and NIC on different sockets.",
            vec![(Vec::new(), far)],
        ),
    ]
}

/// Counters that no collector of the node exporter has.
fn bytes(counted: &counters::Sample) -> Vec<Metric> {
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for (place, counted) in counted {
        if let Some((_, count)) = counted.rdma.filter(|(counter, _)| !counter.is_exported()) {
            let labels = port_labels(&place.device, place.port);
            sent.push((labels.clone(), count.sent));
            received.push((labels, count.received));
        }
    }
    vec![
        Metric::counter(
            "nic_placement_port_transmitted_bytes_total",
            "Bytes that left the port by RDMA, of drivers whose counter the node exporter does not read.",
            sent,
        ),
        Metric::counter(
            "nic_placement_port_received_bytes_total",
            "Bytes that came to the port by RDMA, of drivers whose counter the node exporter does not read.",
            received,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::request::whole_node;
    use crate::commands::tests::alerts::promtool;
    use nic_placement_core::config::Admin;
    use nic_placement_node::platform::model;
    use nic_placement_traffic::counters::{CountedPort, PortCounts, rdma};

    fn sample() -> counters::Sample {
        let files = |file: &str| match file {
            "hw_counters/tx_bytes" => Some("18446744073709551615".to_string()),
            "hw_counters/rx_bytes" => Some("7".to_string()),
            _ => None,
        };
        let standard = |file: &str| file.starts_with("counters/").then(|| "5".to_string());
        let counted = |device: &str, driver, files: &dyn Fn(&str) -> Option<String>| {
            let device = device.to_string();
            let counts = PortCounts {
                rdma: rdma(Some(driver), &files),
                ..PortCounts::default()
            };
            (CountedPort { device, port: 1 }, counts)
        };
        counters::Sample::from([
            counted("rdmap0s1", "efa", &files),
            counted("mlx5_0", "mlx5_core", &standard),
        ])
    }

    fn text(machine: &str) -> String {
        let plan = whole_node(model(machine).unwrap(), Admin::default()).unwrap();
        write(&metrics(&plan, &sample(), 1_795_314_601))
    }

    #[test]
    fn a_machine_s_ports_and_pairs_are_told_in_base_units() {
        let text = text("dgx-h100");
        for line in [
            "nic_placement_node_file_written_timestamp_seconds 1795314601",
            "nic_placement_gpus 8",
            "nic_placement_gpus_without_nic 0",
            "nic_placement_port_up{device=\"mlx5_0\",port=\"1\"} 1",
            "nic_placement_port_rate_bytes_per_second{device=\"mlx5_0\",port=\"1\"} 50000000000",
            "nic_placement_port_gpus{device=\"mlx5_0\",port=\"1\"} 1",
            "nic_placement_port_broken{device=\"mlx5_0\",port=\"1\"} 0",
            "nic_placement_far_pairs 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
        let pairs = text.matches("\nnic_placement_pair_info{");
        assert_eq!(pairs.count(), 8, "{text}");
    }

    #[test]
    fn only_counters_are_told_that_the_node_exporter_does_not_read() {
        let text = text("dgx-h100");
        let total = "nic_placement_port_transmitted_bytes_total{device=\"rdmap0s1\",port=\"1\"} 18446744073709551615";
        assert!(text.contains(total), "{text}");
        assert!(!text.contains("bytes_total{device=\"mlx5_0\""), "{text}");
    }

    #[test]
    fn promtool_has_nothing_to_say_of_any_machine() {
        for machine in nic_placement_node::platform::names() {
            let Some(said) = promtool(&["check", "metrics"], &text(machine)) else {
                return;
            };
            assert_eq!(said, (true, String::new()), "{machine}");
        }
    }

    #[test]
    fn a_file_that_the_collector_would_not_read_is_refused() {
        let refused = check(Path::new("/tmp/nic_placement.txt")).unwrap_err();
        assert!(refused.to_string().contains(".prom"));
        assert!(check(Path::new("/tmp/.prom")).is_err(), "it has no ending");
    }
}
