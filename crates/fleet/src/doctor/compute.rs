//! The node as a whole: what may be chosen on it, whether it is as its kind is, and what was odd.
#![forbid(unsafe_code)]

use super::facts::Machine;
use super::{Examined, Verdict, listed, or_ok};
use nic_placement_core::gpus;
use nic_placement_core::topology::NicKind;

pub(super) fn node(subject: &Examined) -> Vec<Verdict> {
    let (topology, map) = (&*subject.plan.node, &subject.plan.map);
    let (gpus, nics) = (topology.gpus.len(), topology.nics.len());
    let counted = format!("{gpus} GPU{}", if gpus == 1 { "" } else { "s" });
    let may = map.rails.len();
    let facts = format!("node `{}`: {counted}, {may} of {nics} NICs may be chosen", topology.name);
    let has_rdma = topology.nics.iter().any(|nic| nic.kind != NicKind::Ethernet);
    vec![match (gpus, may) {
        (0, _) => Verdict::note(format!("{facts}: without a GPU nothing is set")),
        (_, 0) if topology.is_left_to_libfabric() => {
            Verdict::ok(format!("{facts}: they are left to libfabric's own providers"))
        }
        (_, 0) if !has_rdma => Verdict::note(format!("{facts}: it has no RDMA device")),
        (_, 0) => Verdict::warn(format!("{facts}: `nic-placement show` says why")).about(&topology.name),
        _ => Verdict::ok(facts),
    }]
}

pub(super) fn odd(subject: &Examined) -> Vec<Verdict> {
    let topology = &*subject.plan.node;
    let all = subject.diagnostics.iter().chain(&subject.plan.map.diagnostics);
    let mut verdicts: Vec<Verdict> = all.map(Verdict::note).collect();
    verdicts.extend(gpus::lint(topology).iter().map(Verdict::note));
    verdicts
}

pub(super) fn machine(subject: &Examined) -> Vec<Verdict> {
    let Some(Machine { name, is_a_clouds, missing, gpus }) =
        subject.facts.and_then(|facts| facts.machine.as_ref())
    else {
        return Vec::new();
    };
    let here = subject.plan.node.gpus.len();
    let Some(name) = name else {
        return match gpus {
            Some(of_the_product) if here < *of_the_product => {
                let text = format!("{here} GPUs, and machines of its product name have {of_the_product}");
                vec![Verdict::warn(text).about("GPUs")]
            }
            _ => Vec::new(),
        };
    };
    let mut verdicts = Vec::new();
    for (device, is_on_the_bus) in missing {
        let what = format!("{} `{}`, which `{name}` has,", device.what, device.address);
        let verdict = match (is_on_the_bus, is_a_clouds) {
            (true, _) => {
                Verdict::warn(format!("{what} is on the bus, and no driver shows it: given to a guest?"))
            }
            (false, true) => {
                Verdict::warn(format!("{what} is not on the bus: has the guest only a part of it?"))
            }
            (false, false) => Verdict::fail(format!("{what} is not on the bus")),
        };
        verdicts.push(verdict.about(device.address));
    }
    if verdicts.len() > 4 {
        // half a machine is one finding
        let all: Vec<String> = missing.iter().map(|(of, _)| of.address.to_string()).collect();
        let text = format!("`{name}` has {} devices more than this node: {}", all.len(), listed(&all));
        let is_fault = missing.iter().all(|(_, on_the_bus)| !on_the_bus) && !is_a_clouds;
        let verdict = if is_fault { Verdict::fail(text) } else { Verdict::warn(text) };
        verdicts = vec![verdict.about(&all[0])];
    }
    or_ok(verdicts, Some(format!("it has the GPUs and NICs of `{name}`")))
}
