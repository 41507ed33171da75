//! The reports of many nodes, added up by the names of NICs: a rail has the same name on every node.
#![forbid(unsafe_code)]

use super::growth::Bytes;
use super::planned::Origin;
use super::report::{FORMAT, Measurement, Shares, VERSION};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

const MAX_NODES: usize = 1 << 16;

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Merged {
    pub nodes: usize,
    /// of how many the plan is the tasks' own
    pub by_tasks: usize,
    /// the bytes of all; `idle` and `unknown` name NICs as `node/nic`
    pub shares: Shares,
    pub nics: BTreeMap<String, Sum>,
    pub of_nodes: Vec<OfNode>,
    pub seconds: f64,
    pub failed: Vec<String>,
    /// tasks by verdict, as `verify` has it
    pub tasks: BTreeMap<String, usize>,
    /// nodes that reported more than once: the first report counts
    pub twice: BTreeSet<String>,
    /// each note, with how many nodes made it
    pub notes: BTreeMap<String, usize>,
}

/// One name on all nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    pub planned_on: usize,
    pub counted_on: usize,
    pub(crate) unknown_on: usize,
    pub rdma: Bytes,
    /// on the node where least left
    pub least_sent: Option<u64>,
    /// on the node where most left
    pub most_sent: Option<u64>,
    pub tcp: Bytes,
    pub is_rdma: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OfNode {
    pub(crate) node: String,
    pub(crate) shares: Shares,
}

/// Why a document does not count.
pub fn read(text: &[u8]) -> Result<Measurement, String> {
    let report: Measurement =
        serde_json::from_slice(text).map_err(|error| format!("no report of measure: {error}"))?;
    match (report.format.as_str(), report.version) {
        (FORMAT, VERSION) => Ok(report),
        (FORMAT, other) => Err(format!("version {other} of the report: expected {VERSION}")),
        (other, _) => Err(format!("format `{other}`: expected `{FORMAT}`")),
    }
}

fn add(to: &mut u64, more: u64) {
    *to = to.saturating_add(more);
}

impl Merged {
    /// As versioned JSON.
    pub fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Document<'a> {
            format: &'static str,
            version: u32,
            #[serde(flatten)]
            merged: &'a Merged,
        }
        let document = Document {
            format: "nic-placement measure merge",
            version: VERSION,
            merged: self,
        };
        serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
    }

    pub fn add(&mut self, report: Measurement) -> Result<(), String> {
        if self.nodes >= MAX_NODES {
            return Err(format!("more than {MAX_NODES} nodes"));
        }
        match self
            .of_nodes
            .binary_search_by(|other| other.node.cmp(&report.node))
        {
            Ok(_) => {
                self.twice.insert(report.node);
            }
            Err(at) => self.insert(at, report),
        }
        Ok(())
    }

    fn insert(&mut self, at: usize, report: Measurement) {
        let Measurement {
            node,
            seconds,
            status,
            plan,
            shares,
            nics,
            tasks,
            notes,
            ..
        } = report;
        self.nodes += 1;
        self.by_tasks += usize::from(plan == Origin::Tasks);
        self.seconds = self.seconds.max(seconds);
        self.failed.extend((status != 0).then(|| node.clone()));
        self.failed.sort();
        let all = &mut self.shares;
        add(&mut all.planned, shares.planned);
        add(&mut all.others, shares.others);
        add(&mut all.tcp, shares.tcp);
        for (to, names) in [
            (&mut all.idle, &shares.idle),
            (&mut all.unknown, &shares.unknown),
        ] {
            to.extend(names.iter().map(|nic| format!("{node}/{nic}")));
            to.sort();
        }
        for nic in nics {
            let sum = self.nics.entry(nic.name).or_default();
            sum.is_rdma |= nic.is_rdma;
            sum.planned_on += usize::from(nic.is_planned);
            sum.unknown_on += usize::from(nic.is_rdma && nic.rdma.is_none());
            if let Some(Bytes { sent, received }) = nic.rdma {
                sum.counted_on += 1;
                add(&mut sum.rdma.sent, sent);
                add(&mut sum.rdma.received, received);
                sum.least_sent = Some(sum.least_sent.map_or(sent, |least| least.min(sent)));
                sum.most_sent = Some(sum.most_sent.map_or(sent, |most| most.max(sent)));
            }
            if let Some(Bytes { sent, received }) = nic.tcp {
                add(&mut sum.tcp.sent, sent);
                add(&mut sum.tcp.received, received);
            }
        }
        for task in tasks {
            *self
                .tasks
                .entry(task.verdict.words().0.to_string())
                .or_default() += 1;
        }
        for note in notes {
            *self.notes.entry(note).or_default() += 1;
        }
        self.of_nodes.insert(at, OfNode { node, shares });
    }
}
