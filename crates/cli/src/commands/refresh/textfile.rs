//! What a refresh found as metrics for the textfile collector of Prometheus' node exporter.
//!
//! What the node exporter's own collectors have is not written again: the bytes of `counters/`, the state of interfaces.
#![forbid(unsafe_code)]

use crate::commands::counters::{Reading, opener};
use crate::commands::whole;
use crate::traffic::counters::Sample;
use crate::traffic::exposition::{Metric, write};
use nic_placement_core::config::NodeSource;
use nic_placement_core::plan::Plan;
use nic_placement_core::topology::{PathType, PortState};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long cards are waited for: they have just answered.
const PATIENCE: Duration = Duration::from_secs(5);

/// The collector reads no other files.
pub(super) fn check(place: &Path) -> Result<(), String> {
    let is_read = place.extension().is_some_and(|ending| ending == "prom");
    match is_read {
        true => whole::check(place),
        false => Err(format!(
            "`{}`: the node exporter reads only files whose names end with .prom",
            place.display()
        )),
    }
}

/// Writes the file, whole.
pub(super) fn keep(plan: &Plan, place: &Path) -> Result<(), String> {
    let mut reading = Reading::begin(&opener(&NodeSource::Live), &BTreeSet::new());
    reading.wait(PATIENCE);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    whole::write(place, write(&metrics(plan, &reading.into_sample(), now.as_secs())).as_bytes())
}

type Labels = Vec<(&'static str, String)>;

fn metrics(plan: &Plan, sample: &Sample, now: u64) -> Vec<Metric> {
    let mut all = of_the_node(plan, now);
    all.extend(of_ports(plan));
    all.extend(of_pairs(plan));
    all.extend(bytes(sample));
    all
}

fn of_the_node(plan: &Plan, now: u64) -> Vec<Metric> {
    let mut info =
        Metric::gauge("nic_placement_info", "The version of nic-placement, and the node's policy.");
    let labels =
        [("version", env!("CARGO_PKG_VERSION").to_string()), ("policy", plan.map.policy.to_string())];
    info.add(&labels, 1);
    let mut written = Metric::gauge(
        "nic_placement_node_file_written_timestamp_seconds",
        "When the node was last read and the node file written, in seconds since 1970.",
    );
    written.add(&[], now);
    let mut gpus = Metric::gauge("nic_placement_gpus", "GPUs of the node.");
    gpus.add(&[], plan.node.gpus.len() as u64);
    let mut without = Metric::gauge("nic_placement_gpus_without_nic", "GPUs for which the plan has no NIC.");
    without.add(&[], plan.map.gpus.iter().filter(|gpu| gpu.choices.is_empty()).count() as u64);
    vec![info, written, gpus, without]
}

fn port_labels(device: &str, port: u8) -> Labels {
    vec![("device", device.to_string()), ("port", port.to_string())]
}

fn of_ports(plan: &Plan) -> Vec<Metric> {
    let mut up =
        Metric::gauge("nic_placement_port_up", "1 where the port of the NIC is active, 0 where not.");
    let mut rate = Metric::gauge(
        "nic_placement_port_rate_bytes_per_second",
        "The rate of the port's link as it is now, in bytes per second.",
    );
    let mut usable = Metric::gauge(
        "nic_placement_port_usable",
        "1 where the plan may use the port, 0 where it is left out.",
    );
    let mut served = Metric::gauge("nic_placement_port_gpus", "GPUs that the plan gives to the port.");
    for (index, nic) in plan.node.nics.iter().enumerate() {
        for port in &nic.ports {
            let labels = port_labels(&nic.name, port.number);
            // a port of unknown state has no sample: a zero would say that it is not active
            if port.state != PortState::Unknown {
                up.add(&labels, u64::from(port.state == PortState::Active));
            }
            if let Some(mbps) = port.rate_mbps {
                rate.add(&labels, mbps.saturating_mul(125_000));
            }
            let is_rail =
                |rail: &nic_placement_core::placement::Rail| rail.nic.0 == index && rail.port == port.number;
            usable.add(&labels, u64::from(plan.map.rails.iter().any(is_rail)));
            let serves = |gpu: &&nic_placement_core::placement::GpuPlacement| {
                gpu.choices.iter().any(|choice| is_rail(plan.map.rail(choice.rail)))
            };
            served.add(&labels, plan.map.gpus.iter().filter(serves).count() as u64);
        }
    }
    vec![up, rate, usable, served]
}

fn of_pairs(plan: &Plan) -> Vec<Metric> {
    let mut pairs =
        Metric::gauge("nic_placement_pair_info", "Which NIC the plan gives to a GPU, and the path between.");
    let mut far = Metric::gauge("nic_placement_far_pairs", "Pairs of GPU and NIC on different sockets.");
    let mut count = 0;
    for (gpu, placed) in plan.map.numbered_gpus() {
        for choice in &placed.choices {
            let rail = plan.map.rail(choice.rail);
            let address = plan.node.gpu(gpu).address.to_string();
            let mut labels = vec![("gpu", gpu.0.to_string()), ("pci_address", address)];
            labels.extend(port_labels(&rail.name, rail.port));
            labels.push(("path", choice.path.to_string()));
            pairs.add(&labels, 1);
            count += u64::from(choice.path == PathType::Sys);
        }
    }
    far.add(&[], count);
    vec![pairs, far]
}

/// The counters that no collector of the node exporter has.
fn bytes(sample: &Sample) -> Vec<Metric> {
    let mut sent = Metric::counter(
        "nic_placement_port_transmitted_bytes_total",
        "Bytes that left the port by RDMA, of drivers whose counter the node exporter does not read.",
    );
    let mut received = Metric::counter(
        "nic_placement_port_received_bytes_total",
        "Bytes that came to the port by RDMA, of drivers whose counter the node exporter does not read.",
    );
    for (place, counted) in sample {
        if let Some((_, count)) = counted.rdma.filter(|(counter, _)| !counter.is_exported) {
            let labels = port_labels(&place.device, place.port);
            sent.add(&labels, count.sent);
            received.add(&labels, count.received);
        }
    }
    vec![sent, received]
}

#[cfg(test)]
mod tests {
    use super::super::engines::whole_node;
    use super::*;
    use crate::traffic::counters::{Counted, Place, rdma};
    use nic_placement_core::config::Admin;
    use nic_placement_core::platform::model;
    use std::process::{Command, Stdio};

    fn sample() -> Sample {
        let files = |file: &str| match file {
            "hw_counters/tx_bytes" => Some("18446744073709551615".to_string()),
            "hw_counters/rx_bytes" => Some("7".to_string()),
            _ => None,
        };
        let standard = |file: &str| file.starts_with("counters/").then(|| "5".to_string());
        let counted = |rdma| Counted { rdma, ..Counted::default() };
        Sample::from([
            (Place { device: "rdmap0s1".into(), port: 1 }, counted(rdma(Some("efa"), &files))),
            (Place { device: "mlx5_0".into(), port: 1 }, counted(rdma(Some("mlx5_core"), &standard))),
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
            "nic_placement_far_pairs 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
        assert_eq!(text.matches("\nnic_placement_pair_info{").count(), 8, "{text}");
    }

    #[test]
    fn only_counters_are_told_that_the_node_exporter_does_not_read() {
        let text = text("dgx-h100");
        let total =
            "nic_placement_port_transmitted_bytes_total{device=\"rdmap0s1\",port=\"1\"} 18446744073709551615";
        assert!(text.contains(total), "{text}");
        assert!(!text.contains("bytes_total{device=\"mlx5_0\""), "{text}");
    }

    #[test]
    fn promtool_has_nothing_to_say_of_any_machine() {
        for machine in nic_placement_core::platform::names() {
            let mut promtool = Command::new("promtool");
            let promtool = promtool.args(["check", "metrics"]).stdin(Stdio::piped());
            let promtool = promtool.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
            let Ok(mut promtool) = promtool else {
                println!("skipped: there is no `promtool`, which Debian's package prometheus has");
                return;
            };
            use std::io::Write;
            promtool.stdin.take().unwrap().write_all(text(machine).as_bytes()).unwrap();
            let output = promtool.wait_with_output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            assert!(
                output.status.success() && said.is_empty(),
                "{machine}: {}",
                String::from_utf8_lossy(&said)
            );
        }
    }

    #[test]
    fn a_file_that_the_collector_would_not_read_is_refused() {
        assert!(check(Path::new("/tmp/nic_placement.txt")).unwrap_err().contains(".prom"));
        assert!(check(Path::new("/tmp/.prom")).is_err(), "it has no ending");
    }
}
