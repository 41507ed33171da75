//! Metrics of the node for the textfile collector of Prometheus' node exporter.
//!
//! The node exporter has the bytes of `counters/`, the ports' states and rates, and the file's age itself.

use crate::commands::misunderstood::misunderstood;
use crate::commands::{Failure, output};
use nic_placement_core::plan::Plan;
use nic_placement_core::topology::PathType;
use nic_placement_traffic::exposition::Metric;
use std::path::Path;

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

pub(in crate::commands) fn metrics(plan: &Plan) -> [Metric; 3] {
    let (mut ports, map) = (Vec::new(), &plan.map);
    for (index, nic) in plan.node.numbered_nics() {
        for port in &nic.ports {
            let mut broken = map.broken.iter();
            let is_broken = broken.any(|rail| rail.nic == index && rail.port == port.number);
            let (device, port) = (nic.name.to_string(), port.number.to_string());
            let labels = vec![("device", device), ("port", port)];
            ports.push((labels, u64::from(is_broken)));
        }
    }
    let without = map.gpus.iter().filter(|gpu| gpu.choices.is_empty()).count();
    let choices = map.gpus.iter().flat_map(|gpu| &gpu.choices);
    let far = choices.filter(|of| of.path == PathType::Sys).count();
    let one = |value| vec![(Vec::new(), value as u64)];
    [
        Metric::gauge(
            "nic_placement_port_broken",
            "1 where the plan would use the port if it worked, 0 where not.",
            ports,
        ),
        Metric::gauge(
            "nic_placement_gpus_without_nic",
            "GPUs for which the plan has no NIC.",
            one(without),
        ),
        Metric::gauge(
            "nic_placement_far_pairs",
            "Pairs of GPU and NIC on different sockets.",
            one(far),
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
    use nic_placement_traffic::exposition::write;

    fn text(machine: &str) -> String {
        let plan = whole_node(model(machine).unwrap(), Admin::default()).unwrap();
        write(&metrics(&plan))
    }

    #[test]
    fn a_machine_s_broken_ports_are_told_with_its_gpus_without_a_nic() {
        let text = text("dgx-h100");
        for line in [
            "nic_placement_port_broken{device=\"mlx5_0\",port=\"1\"} 0",
            "nic_placement_gpus_without_nic 0",
            "nic_placement_far_pairs 0",
        ] {
            assert!(text.lines().any(|other| other == line), "{line}: {text}");
        }
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
