//! The node as a whole: what may be chosen on it, whether it is as its kind is, and what was odd; what the kernel and the calling
//! user's limits allow.

use super::facts::{DeviceAccess, Machine, Missing};
use super::gpus;
use super::{Examined, Judged, advice, fail, listed, note, ok, one, or_ok, warn};
use nic_placement_core::diagnostic::counted;
use nic_placement_core::topology::NicKind;
use std::collections::BTreeMap;

pub fn has_rdma(subject: &Examined) -> bool {
    let mut nics = subject.plan.node.nics.iter();
    nics.any(|nic| nic.kind != NicKind::Ethernet)
}

pub fn node(subject: &Examined) -> Judged {
    let (node, map) = (&*subject.plan.node, &subject.plan.map);
    let (nics, may) = (node.nics.len(), map.rails.len());
    let head = format!("node `{}`: {}", node.name, counted(node.gpus.len(), "GPU"));
    let facts = format!("{head}, {may} of {nics} NICs may be chosen");
    one(if node.gpus.is_empty() {
        note(format!("{facts}: without a GPU nothing is set"))
    } else if may > 0 {
        ok(facts)
    } else if node.is_left_to_libfabric() {
        let nics = counted(nics, "NIC");
        ok(format!("{head}, {nics}, among which libfabric chooses"))
    } else if !has_rdma(subject) {
        note(format!("{facts}: it has no RDMA device"))
    } else {
        let why = subject.plan.wish.admin.selection.unopenable.first();
        let why = why.map_or("`nic-placement show` says why", |(_, why)| why);
        warn(format!("{facts}: {why}")).about(&node.name)
    })
}

pub fn odd(subject: &Examined) -> Judged {
    let said = subject.diagnostics.iter();
    let said = said.chain(&subject.plan.map.diagnostics).map(note);
    let unequal = gpus::lint(&subject.plan.node);
    Some(said.chain(unequal.iter().map(note)).collect())
}

pub fn machine(subject: &Examined) -> Judged {
    let Machine {
        name,
        is_a_clouds,
        missing,
    } = subject.facts?.machine.as_ref()?;
    let verdict = |of: &Missing| {
        let what = format!("{} `{}`, which `{name}` has,", of.what, of.address);
        let verdict = match (of.is_on_the_bus, is_a_clouds) {
            (true, _) => warn(format!(
                "{what} is on the bus, and no driver shows it: given to a guest?"
            )),
            (false, true) => warn(format!(
                "{what} is not on the bus: has the guest only a part of it?"
            )),
            (false, false) => fail(format!("{what} is not on the bus")),
        };
        verdict.about(of.address)
    };
    let good = format!("it has the GPUs and NICs of `{name}`");
    or_ok(missing.iter().map(verdict).collect(), Some(good))
}

pub fn numa_balancing(subject: &Examined) -> Judged {
    let value = subject.facts?.numa_balancing.as_deref()?;
    let nodes = subject.plan.node.numa_nodes.iter();
    one(match value {
        "0" => ok("off"),
        _ if nodes.filter(|node| !node.cpus.is_empty()).count() < 2 => {
            ok("on, and there is one NUMA node")
        }
        _ => advice(format!(
            "on ({value}): pages that a task is using are unmapped to see who uses them"
        )),
    })
}

pub fn memlock(subject: &Examined) -> Judged {
    let (caller, node) = (subject.caller, &subject.plan.node);
    let limit = caller.memlock?;
    let rails = subject.plan.map.rails.iter();
    let mut kinds = rails.map(|rail| node.nic(rail.nic).kind);
    if !kinds.any(|kind| matches!(kind, NicKind::Verbs | NicKind::Efa)) {
        return None;
    }
    let text = format!("this user may lock {} KiB of memory", limit >> 10);
    one(match limit {
        u64::MAX => ok("unlimited"),
        _ if caller.is_root => ok(format!("{text}, and root is not held by that")),
        _ if caller.in_step => warn(text).about("memlock"),
        _ => note(format!(
            "{text} here; srun hands this on unless slurm.conf says otherwise"
        )),
    })
}

pub fn uverbs_access(subject: &Examined) -> Judged {
    let facts = subject.facts?;
    let rails = subject.plan.map.rails.iter();
    let asked: BTreeMap<&str, DeviceAccess> = rails
        .map(|rail| rail.name.as_str())
        .filter_map(|name| Some((name, facts.nics.get(name)?.access?)))
        .collect();
    let with = |access: DeviceAccess| -> Vec<String> {
        let names = asked.iter().filter(|(_, of)| **of == access);
        names.map(|(name, _)| name.to_string()).collect()
    };
    let open = with(DeviceAccess::Open).len();
    let mut verdicts = Vec::new();
    for (access, is_meant, text) in [
        (
            DeviceAccess::Refused,
            false,
            "this user may not open the device node",
        ),
        (
            DeviceAccess::Fenced,
            true,
            "the job's device cgroup keeps it closed",
        ),
        // as in a container that was not given them
        (
            DeviceAccess::Absent,
            open == 0,
            "no device node below /dev/infiniband",
        ),
    ] {
        let names = with(access);
        let Some(first) = names.first() else { continue };
        let text = format!("{}: {text}", listed(&names));
        verdicts.push(match is_meant {
            true => note(text),
            false => warn(text).about(first),
        });
    }
    let good = format!("{} that may be chosen can be opened", counted(open, "NIC"));
    or_ok(verdicts, (open > 0).then_some(good))
}

pub fn variable(subject: &Examined) -> Judged {
    Some(subject.caller.doubts.iter().map(note).collect())
}
