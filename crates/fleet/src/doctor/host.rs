//! The node as a whole: what may be chosen on it, whether it is as its kind is, and what was odd; what the kernel and the calling
//! user's limits allow, and what a site's files decide before we can.

use super::facts::{DeviceAccess, Machine};
use super::gpus;
use super::{Examined, Verdicts, advice, fail, listed, note, ok, or_ok, warn};
use nic_placement_core::diagnostic::counted;
use nic_placement_core::topology::{GpuVendor, NicKind};

pub fn has_rdma(subject: &Examined) -> bool {
    subject
        .plan
        .node
        .nics
        .iter()
        .any(|nic| nic.kind != NicKind::Ethernet)
}

pub fn node(subject: &Examined) -> Verdicts {
    let (node, map) = (&*subject.plan.node, &subject.plan.map);
    let (gpus, nics) = (node.gpus.len(), node.nics.len());
    let of_gpus = counted(gpus, "GPU");
    let may = map.rails.len();
    let facts = format!(
        "node `{}`: {of_gpus}, {may} of {nics} NICs may be chosen",
        node.name
    );
    vec![match (gpus, may) {
        (0, _) => note(format!("{facts}: without a GPU nothing is set")),
        (_, 0) if node.is_left_to_libfabric() => {
            let nics = counted(nics, "NIC");
            ok(format!(
                "node `{}`: {of_gpus}, {nics}, among which libfabric chooses",
                node.name
            ))
        }
        (_, 0) if !has_rdma(subject) => note(format!("{facts}: it has no RDMA device")),
        (_, 0) => {
            let why = subject.plan.wish.admin.selection.unopenable.first();
            let why = why.map_or("`nic-placement show` says why", |(_, why)| why);
            warn(format!("{facts}: {why}")).about(&node.name)
        }
        _ => ok(facts),
    }]
}

pub fn odd(subject: &Examined) -> Verdicts {
    let node = &*subject.plan.node;
    let mut verdicts: Verdicts = subject
        .diagnostics
        .iter()
        .chain(&subject.plan.map.diagnostics)
        .map(note)
        .collect();
    verdicts.extend(gpus::lint(node).iter().map(note));
    verdicts
}

pub fn machine(subject: &Examined) -> Verdicts {
    let Some(Machine {
        name,
        is_a_clouds,
        missing,
        gpus,
    }) = subject.facts.and_then(|facts| facts.machine.as_ref())
    else {
        return Vec::new();
    };
    let here = subject.plan.node.gpus.len();
    let Some(name) = name else {
        return match gpus {
            Some(of_the_product) if here < *of_the_product => {
                let has = counted(here, "GPU");
                vec![
                    warn(format!(
                        "{has}, and machines of its product name have {of_the_product}"
                    ))
                    .about("GPUs"),
                ]
            }
            _ => Vec::new(),
        };
    };
    let mut verdicts = Vec::new();
    for (device, is_on_the_bus) in missing {
        let what = format!("{} `{}`, which `{name}` has,", device.what, device.address);
        let verdict = match (is_on_the_bus, is_a_clouds) {
            (true, _) => warn(format!(
                "{what} is on the bus, and no driver shows it: given to a guest?"
            )),
            (false, true) => warn(format!(
                "{what} is not on the bus: has the guest only a part of it?"
            )),
            (false, false) => fail(format!("{what} is not on the bus")),
        };
        verdicts.push(verdict.about(device.address));
    }
    if verdicts.len() > 4 {
        // half a machine is one finding
        let all: Vec<String> = missing
            .iter()
            .map(|(of, _)| of.address.to_string())
            .collect();
        let text = format!(
            "`{name}` has {} devices more than this node: {}",
            all.len(),
            listed(&all)
        );
        let is_fault = missing.iter().all(|(_, on_the_bus)| !on_the_bus) && !is_a_clouds;
        let verdict = if is_fault { fail(text) } else { warn(text) };
        verdicts = vec![verdict.about(&all[0])];
    }
    or_ok(
        verdicts,
        Some(format!("it has the GPUs and NICs of `{name}`")),
    )
}

pub fn numa_balancing(subject: &Examined) -> Verdicts {
    let Some(value) = subject
        .facts
        .and_then(|facts| facts.numa_balancing.as_deref())
    else {
        return Vec::new();
    };
    let node = &*subject.plan.node;
    let has_amd = node.gpus.iter().any(|gpu| gpu.vendor == GpuVendor::Amd);
    let nodes = node
        .numa_nodes
        .iter()
        .filter(|node| !node.cpus.is_empty())
        .count();
    vec![match value {
        "0" => ok("off"),
        _ if nodes < 2 => ok("on, and there is one NUMA node"),
        _ if has_amd => advice(format!(
            "on ({value}): AMD asks for 0 on nodes with its GPUs"
        )),
        _ => advice(format!(
            "on ({value}): pages that a task is using are unmapped to see who uses them"
        )),
    }]
}

pub fn port_range(subject: &Examined) -> Verdicts {
    /// A task of a large job connects to a few ports of each node, and several tasks of a node do.
    const FEW: u32 = 4096;
    /// Ports of Slurm's daemons (slurm.conf(5), `SlurmctldPort`, `SlurmdPort`, slurmdbd.conf's `DbdPort`).
    const SLURMS: [u32; 3] = [6817, 6818, 6819];
    let Some(text) = subject.facts.and_then(|facts| facts.port_range.as_deref()) else {
        return Vec::new();
    };
    let mut numbers = text.split_whitespace().map(str::parse::<u32>);
    let (Some(Ok(first)), Some(Ok(last))) = (numbers.next(), numbers.next()) else {
        return Vec::new();
    };
    let count = (last + 1).saturating_sub(first);
    vec![if count < FEW {
        warn(format!(
            "{first} to {last}: {count} ports for all connections of a node"
        ))
        .about(text)
    } else if SLURMS.iter().any(|port| (first..=last).contains(port)) {
        advice(format!(
            "{first} to {last}: a program may be given 6818, where slurmd listens"
        ))
    } else {
        ok(format!("{first} to {last}"))
    }]
}

fn has_verbs(subject: &Examined) -> bool {
    subject.plan.map.rails.iter().any(|rail| {
        matches!(
            subject.plan.node.nic(rail.nic).kind,
            NicKind::Verbs | NicKind::Efa
        )
    })
}

pub fn memlock(subject: &Examined) -> Verdicts {
    let caller = subject.caller;
    if !has_verbs(subject) {
        return Vec::new();
    }
    let text = |bytes: u64| format!("this user may lock {} KiB of memory", bytes >> 10);
    match caller.memlock {
        None => Vec::new(),
        Some(u64::MAX) => vec![ok("unlimited")],
        Some(bytes) if caller.is_root => {
            vec![ok(format!("{}, and root is not held by that", text(bytes)))]
        }
        Some(bytes) if caller.in_step => vec![warn(text(bytes)).about("memlock")],
        Some(bytes) => {
            vec![note(format!(
                "{} here; srun hands this on unless slurm.conf says otherwise",
                text(bytes)
            ))]
        }
    }
}

pub fn uverbs_access(subject: &Examined) -> Verdicts {
    let Some(facts) = subject.facts else {
        return Vec::new();
    };
    let mut rails: Vec<&str> = subject
        .plan
        .map
        .rails
        .iter()
        .map(|rail| rail.name.as_str())
        .collect();
    rails.dedup();
    let asked: Vec<(&str, DeviceAccess)> = rails
        .iter()
        .filter_map(|name| Some((*name, facts.nics.get(*name)?.access?)))
        .collect();
    let with = |access: DeviceAccess| -> Vec<String> {
        asked
            .iter()
            .filter(|(_, of)| *of == access)
            .map(|(name, _)| name.to_string())
            .collect()
    };
    let open = with(DeviceAccess::Open);
    let mut verdicts = Vec::new();
    let refused = with(DeviceAccess::Refused);
    if !refused.is_empty() {
        verdicts.push(
            warn(format!(
                "{}: this user may not open the device node",
                listed(&refused)
            ))
            .about(&refused[0]),
        );
    }
    let fenced = with(DeviceAccess::Fenced);
    if !fenced.is_empty() {
        verdicts.push(note(format!(
            "{}: the job's device cgroup keeps it closed",
            listed(&fenced)
        )));
    }
    let absent = with(DeviceAccess::Absent);
    if !absent.is_empty() {
        let text = format!("{}: no device node below /dev/infiniband", listed(&absent));
        verdicts.push(if open.is_empty() {
            note(format!("{text}, as in a container that was not given them"))
        } else {
            warn(format!("{text}, and other NICs have one")).about(&absent[0])
        });
    }
    let who = if subject.caller.is_root {
        "root"
    } else {
        "this user"
    };
    or_ok(
        verdicts,
        (!open.is_empty()).then(|| {
            format!(
                "{who} may open {} that may be chosen",
                counted(open.len(), "NIC")
            )
        }),
    )
}

pub fn nccl_conf(subject: &Examined) -> Verdicts {
    subject
        .caller
        .nccl
        .iter()
        .map(|(file, variables)| {
            let text = match variables.as_slice() {
                [] => format!("`{file}` sets nothing that we would set"),
                set => format!(
                    "`{file}` sets {}: left to it, as NCCL would prefer ours",
                    listed(set)
                ),
            };
            if variables.is_empty() {
                ok(text)
            } else {
                advice(text).about(file)
            }
        })
        .collect()
}

pub fn variable(subject: &Examined) -> Verdicts {
    subject.caller.doubts.iter().map(note).collect()
}
