//! Judges the user's own variables as their libraries would read them on this node, and says what to do.
//!
//! It changes nothing: the user's choice stays.

pub mod lists;
pub mod rebinding;
pub mod uses;
use lists::{LISTS, List, NCCL, UCX, begins, entries, marked};
use nic_placement_core::diagnostic::{Diagnostic, Shown, more_entries};
use nic_placement_core::gpus::{positions, unequal};
use nic_placement_core::libraries::Present;
use nic_placement_core::libraries::wanted::Fabric;
use nic_placement_core::placement::NodePlacement;
use nic_placement_core::step::program::program_name;
use nic_placement_core::step::{Access, Task};
use nic_placement_core::topology::{GpuIndex, GpuVendor, NicKind, Topology};
use rebinding::{Row, named, rows};
use uses::left_out;

/// Words of a program's command that [`Checked`] knows.
pub const WORDS: [&str; 3] = ["sglang", "sglang.", "trtllm-"];

const DEVICE_ORDER: &str = "CUDA_DEVICE_ORDER";
const CROSS_NIC: &str = "NCCL_CROSS_NIC";
const PXN_LEVEL: &str = "NCCL_P2P_PXN_LEVEL";

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
}

impl<'a> Checked<'a> {
    /// A variable's value, if it is not empty.
    fn value(&self, name: &str) -> Option<&'a str> {
        let value = self.present.get(name)?;
        (!value.is_empty()).then_some(value)
    }

    fn nvidias(&self) -> Vec<GpuIndex> {
        positions(self.topology, GpuVendor::Nvidia)
    }
}

pub fn lint(checked: &Checked) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    // the map leaves the NICs of other kinds to their own libraries
    for list in LISTS.iter().filter(|list| list.kind == NicKind::Verbs) {
        if let Some(value) = checked.value(list.variable) {
            let subject = format!("{}={}", list.variable, Shown::word(value, 80));
            let texts = [
                admitted_though_left_out(checked, list, value),
                doubts(checked, list, value),
            ];
            found.extend(
                texts
                    .concat()
                    .into_iter()
                    .map(|text| Diagnostic::new(&*subject, text)),
            );
        }
    }
    found.extend(device_order(checked));
    found.extend(rows().filter_map(|row| given_up(checked, &row)));
    found.extend(isolation(checked));
    found
}

/// Entries of one list that are reported, at most: each is a line on a terminal and in slurmd's log.
const MAX_REPORTED: usize = 4;

fn first_few(texts: impl Iterator<Item = String>) -> Vec<String> {
    let mut texts: Vec<String> = texts.collect();
    let more = texts.len().saturating_sub(MAX_REPORTED);
    texts.truncate(MAX_REPORTED);
    texts.extend((more > 0).then(|| more_entries(more)));
    texts
}

/// Entries that admit no port of this node, or others than they seem to.
fn doubts(checked: &Checked, list: &List, value: &str) -> Vec<String> {
    let (node, is_ucx) = (checked.topology, list.variable == UCX);
    if list.found_without(node) == 0 {
        return Vec::new();
    }
    let (excludes, rest) = marked(value, '^');
    let (is_exact, rest) = marked(rest, '=');
    let doubt = |entry: &str| {
        // `cuda0-mlx5_0:1`: a GPU that sends by itself (src/uct/ib/mlx5/gdaki/gdaki.c)
        let of_gpu = entry
            .split_once('-')
            .filter(|(gpu, _)| is_ucx && gpu.starts_with("cuda"));
        let device = of_gpu.map_or(entry, |(_, device)| device);
        let mark = if is_exact { "=" } else { "" };
        let admitted = list.admitted(&format!("{mark}{device}"), node);
        let shown = Shown::word(entry, 64);
        // a name without a port may be an IP interface
        let may_be_interface = is_ucx && !entry.contains(':');
        let is_interface = may_be_interface
            && (entry == "all" || checked.interfaces.iter().any(|known| known == entry));
        let is_unknown = may_be_interface && checked.interfaces.is_empty();
        let others: Vec<&str> = admitted
            .iter()
            .map(|port| port.name.as_str())
            .filter(|name| Some(*name) != entry.split(':').next())
            .collect();
        if is_interface || is_unknown && admitted.is_empty() {
            None
        } else if admitted.is_empty() {
            Some(format!(
                "`{shown}` names no port of this node that works: `nic-placement show` lists them"
            ))
        } else if may_be_interface {
            Some(format!(
                "before UCX 1.21 `{shown}` means nothing without a port: write `{shown}:1`"
            ))
        } else if list.variable == NCCL
            && !is_exact
            && !others.is_empty()
            && others.len() < admitted.len()
        {
            Some(format!(
                "`{shown}` also means {}, which begin with it: write `=` before the list",
                others.join(" ")
            ))
        } else {
            None
        }
    };
    // an entry with a star may be a pattern: it is not judged
    let mut found = first_few(
        entries(rest)
            .filter(|entry| !entry.contains('*'))
            .filter_map(doubt),
    );
    if excludes && list.admitted(value, node).is_empty() {
        found.push("it leaves no NIC of this node".to_string());
    }
    found
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
    first_few(admitted.iter().filter_map(|port| {
        let why = left_out(node, port)?;
        Some(format!("it admits `{port}`, which is left out here: {why}"))
    }))
}

fn given_up(checked: &Checked, row: &Row) -> Option<Diagnostic> {
    let mut gpus = checked.topology.gpus.iter();
    let matters = match row.when {
        "bound" => checked.is_bound,
        "amd" => checked.is_bound && gpus.any(|gpu| gpu.vendor == GpuVendor::Amd),
        "gpus" => gpus.next().is_some(),
        "verbs" => checked
            .topology
            .nics
            .iter()
            .any(|nic| nic.kind == NicKind::Verbs),
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
        Some(value) => value.trim() == "0",
        None => checked.fabric == Fabric::IsolatedRails,
    };
    let or_level = match checked.value(PXN_LEVEL) {
        _ if stays_on_rail => "",
        Some("0") => return None,
        _ => ", or `NCCL_P2P_PXN_LEVEL=0`",
    };
    let text = format!(
        "each task sees its own GPU alone, so NCCL counts all as GPU 0 and may send all traffic through one NIC: \
         try `--gpu-bind=none`{or_level}"
    );
    Some(Diagnostic::new("GPU isolation", text))
}

#[cfg(test)]
mod tests;
