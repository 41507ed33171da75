//! Judges the user's own variables as their libraries would read them on this node, and says what to do.
//!
//! It changes nothing: the user's choice stays.

mod devices;
pub mod lists;
mod nccl;
pub mod rebinding;
pub mod uses;
use lists::{LISTS, List, begins};
use nic_placement_core::diagnostic::{Diagnostic, Shown, more_entries};
use nic_placement_core::gpus::{positions, unequal};
use nic_placement_core::libraries::wanted::Fabric;
use nic_placement_core::libraries::{Present, ReadFile};
use nic_placement_core::placement::NodePlacement;
use nic_placement_core::step::program::program_name;
use nic_placement_core::step::{Access, Task};
use nic_placement_core::topology::{GpuIndex, GpuVendor, Nic, NicKind, Topology};
use rebinding::{Row, named, rows};
use uses::left_out;

/// Words of a program's command that [`Checked`] knows.
pub const WORDS: [&str; 3] = ["sglang", "sglang.", "trtllm-"];

const DEVICE_ORDER: &str = "CUDA_DEVICE_ORDER";
const CROSS_NIC: &str = "NCCL_CROSS_NIC";
const PXN_LEVEL: &str = "NCCL_P2P_PXN_LEVEL";

/// A variable, with those that are read with it; and what looks wrong in its value.
pub type Doubt = (&'static str, fn(&Checked, &str) -> Vec<String>);

pub const DOUBTS: [(&str, &[Doubt]); 4] = [
    ("UCX", &[("UCX_NET_DEVICES UCX_TLS", devices::ucx)]),
    ("NCCL", nccl::DOUBTS),
    (
        "NVSHMEM",
        &[(
            "NVSHMEM_HCA_LIST NVSHMEM_ENABLE_NIC_PE_MAPPING",
            devices::nvshmem,
        )],
    ),
    ("Mooncake", &[("MC_TE_FILTERS", devices::mooncake)]),
];

pub struct Checked<'a> {
    /// the task's environment
    pub present: &'a Present,
    pub topology: &'a Topology,
    pub node: &'a NodePlacement,
    pub task: &'a Task,
    /// tasks of the step on this node
    pub tasks: u32,
    /// words of the program's command that matter
    pub words: &'a [&'static str],
    pub is_bound: bool,
    pub fabric: Fabric,
    pub interfaces: &'a [String],
    /// reads a file with the task's rights
    pub read: ReadFile<'a>,
}

impl<'a> Checked<'a> {
    /// A variable's value, if it is not empty.
    fn value(&self, name: &str) -> Option<&'a str> {
        let value = self.present.get(name)?;
        (!value.is_empty()).then_some(value)
    }

    fn number(&self, name: &str) -> Option<i64> {
        number(self.value(name)?)
    }

    fn verbs(&self) -> impl Iterator<Item = &'a Nic> {
        self.topology
            .nics
            .iter()
            .filter(|nic| nic.kind == NicKind::Verbs)
    }

    fn has_verbs(&self) -> bool {
        self.verbs().next().is_some()
    }

    fn nvidias(&self) -> Vec<GpuIndex> {
        positions(self.topology, GpuVendor::Nvidia)
    }
}

pub fn lint(checked: &Checked) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    // about `NAME=VALUE`, with the value as a terminal may show it
    let mut judge = |name: &str, doubt: &dyn Fn(&str) -> Vec<String>| {
        let Some(value) = checked.value(name) else {
            return;
        };
        let subject = format!("{name}={}", Shown::word(value, 80));
        found.extend(
            doubt(value)
                .into_iter()
                .map(|text| Diagnostic::new(subject.clone(), text)),
        );
    };
    for (library, list) in &LISTS {
        // the map leaves the NICs of other kinds to their own libraries
        if list.kind == NicKind::Verbs {
            judge(list.variable, &|text| {
                admitted_though_left_out(checked, list, text)
            });
        }
        for (variables, doubt) in DOUBTS
            .iter()
            .filter(|(of, _)| of == library)
            .flat_map(|(_, all)| *all)
        {
            judge(variables.split(' ').next().unwrap_or_default(), &|value| {
                doubt(checked, value)
            });
        }
    }
    found.extend(device_order(checked));
    found.extend(rows().filter_map(|row| given_up(checked, &row)));
    found.extend(isolation(checked));
    found
}

fn number(value: &str) -> Option<i64> {
    value.trim().parse().ok()
}

/// The text, if this holds.
fn when(is_wrong: bool, text: impl Into<String>) -> Vec<String> {
    is_wrong.then(|| text.into()).into_iter().collect()
}

/// Entries of one list that are reported, at most: each is a line on a terminal and in slurmd's log.
const MAX_REPORTED: usize = 4;

/// Of the first few wrong entries one by one, and how many more there are.
fn entries_in_doubt<E: PartialEq>(
    entries: impl Iterator<Item = E>,
    wrong: impl Fn(&E) -> Option<String>,
) -> Vec<String> {
    let (mut texts, mut more, mut last) = (Vec::new(), 0, None);
    for entry in entries {
        // an entry may stand there twice
        let Some(text) = wrong(&entry).filter(|_| last.as_ref() != Some(&entry)) else {
            continue;
        };
        last = Some(entry);
        if texts.len() < MAX_REPORTED {
            texts.push(text)
        } else {
            more += 1
        }
    }
    texts.extend(when(more > 0, more_entries(more)));
    texts
}

fn space_in(name: &str, entry: &str) -> Option<String> {
    let has_space = name.trim() != name && !name.trim().is_empty();
    let shown = Shown::word(entry.trim(), 64);
    has_space.then(|| {
        format!("the space beside `{shown}` counts as a part of its name, which no device has: write none")
    })
}

/// Ports that a list admits and the map leaves out, such as a storage NIC: NCCL may prefer it to
/// the compute NIC beside it (src/graph/topo.cc, `ncclTopoGetLocal`).
fn admitted_though_left_out(checked: &Checked, list: &List, text: &str) -> Vec<String> {
    let Checked { topology, node, .. } = checked;
    let admitted = list.admitted(text, topology);
    // UCX finds storage NICs without a list too, and a list that filters nothing is no choice
    if admitted.len() == list.found_without(topology) && text.trim() == "all" {
        return Vec::new();
    }
    entries_in_doubt(admitted.iter(), |port| {
        let why = left_out(node, port)?;
        Some(format!("it admits `{port}`, which is left out here: {why}"))
    })
}

fn given_up(checked: &Checked, row: &Row) -> Option<Diagnostic> {
    let mut gpus = checked.topology.gpus.iter();
    let matters = match row.when {
        "bound" => checked.is_bound,
        "amd" => checked.is_bound && gpus.any(|gpu| gpu.vendor == GpuVendor::Amd),
        "gpus" => gpus.next().is_some(),
        _ => true,
    };
    let name = row.names().next().filter(|_| matters)?;
    let subject = match checked.value(name) {
        Some(value) => format!("{name}={}", Shown::word(value, 80)),
        None => checked
            .words
            .iter()
            .find(|word| word.starts_with(name))?
            .to_string(),
    };
    let mut conditions = row.conditions.split(' ');
    let text = format!("{} ({}): {}", row.does, row.of, row.instead);
    conditions
        .all(|condition| holds(checked, condition))
        .then(|| Diagnostic::new(subject, text))
}

fn holds(checked: &Checked, condition: &'static str) -> bool {
    let (name, sign, parts) = named(condition);
    let is_part = |part: &str| parts.split('|').any(|known| is(part, known));
    let value = checked.value(name);
    let has_part = value.is_some_and(|value| value.split(',').any(is_part));
    match sign {
        "=" => has_part,
        "!" => !has_part,
        _ => !(condition.starts_with('!') && checked.present.contains_key(name)),
    }
}

/// True if a part of a value, maybe a path, is the one of a condition, or begins so.
fn is(part: &str, known: &str) -> bool {
    let part = program_name(part.trim());
    match known.strip_suffix('*') {
        Some(start) => begins(start, part),
        None => part.eq_ignore_ascii_case(known),
    }
}

/// CUDA's numbers of unequal GPUs are not those of the bus.
fn device_order(checked: &Checked) -> Option<Diagnostic> {
    let is_by_bus = checked.value(DEVICE_ORDER) == Some("PCI_BUS_ID");
    unequal(checked.topology, &checked.nvidias()).filter(|_| !is_by_bus)?;
    Some(Diagnostic::new(
        DEVICE_ORDER,
        "the node's GPUs are not equal, and CUDA numbers the fastest first: set it to `PCI_BUS_ID`",
    ))
}

/// Tasks that see their own GPU alone: NCCL counts each of them as GPU 0.
fn isolation(checked: &Checked) -> Option<Diagnostic> {
    let access = &checked.task.gpus.access;
    let is_isolated = access.contains(&Access::Denied) && access.contains(&Access::Allowed);
    if !is_isolated || checked.nvidias().len() < 2 || checked.tasks < 2 {
        return None;
    }
    // with 0 a message leaves by the NIC of the own GPU that has the number of the peer's (src/graph/search.cc,
    // `ncclTopoGetNetDev`), and all have the number 0
    let stays_on_rail = match checked.value(CROSS_NIC) {
        Some(value) => number(value) == Some(0),
        None => checked.fabric == Fabric::IsolatedRails,
    };
    let text = match checked.value(PXN_LEVEL) {
        _ if stays_on_rail => {
            "each task sees its own GPU alone, so NCCL counts all as GPU 0, and with `NCCL_CROSS_NIC=0` sends all messages \
             between tasks through one NIC: try `--gpu-bind=none`"
        }
        Some("0") => return None,
        _ => {
            "each task sees its own GPU alone, so NCCL counts all as GPU 0 and may send all traffic through one NIC: \
             try `--gpu-bind=none`, or `NCCL_P2P_PXN_LEVEL=0`"
        }
    };
    Some(Diagnostic::new("GPU isolation", text))
}

#[cfg(test)]
mod tests;
