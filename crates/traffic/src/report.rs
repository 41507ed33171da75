//! The report of `verify` on one node, and the sums of several nodes by the names of NICs: a rail has one name on all nodes.

use super::bytes::{Bytes, Figure, Origin, Shares, Traffic};
use super::verify::{TaskVerdict, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

const FORMAT: &str = "nic-placement verify";
const VERSION: u32 = 2;
const MAX_NODES: usize = 1 << 16;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    format: String,
    version: u32,
    pub node: String,
    /// of CMD, if one was run
    pub status: Option<u8>,
    pub tasks: Vec<TaskVerdict>,
    pub not_looked_at: usize,
    pub traffic: Option<Traffic>,
    pub notes: Vec<String>,
}

impl NodeReport {
    pub fn new(node: String, tasks: Vec<TaskVerdict>) -> NodeReport {
        NodeReport {
            format: FORMAT.to_string(),
            version: VERSION,
            node,
            status: None,
            tasks,
            not_looked_at: 0,
            traffic: None,
            notes: Vec::new(),
        }
    }

    pub fn read(text: &[u8]) -> Result<NodeReport, String> {
        let report: NodeReport = serde_json::from_slice(text)
            .map_err(|error| format!("no report of verify: {error}"))?;
        match (report.format.as_str(), report.version) {
            (FORMAT, VERSION) => Ok(report),
            (FORMAT, other) => Err(format!("version {other} of the report: expected {VERSION}")),
            (other, _) => Err(format!("format `{other}`: expected `{FORMAT}`")),
        }
    }

    /// One line, which survives among other programs' lines.
    pub fn to_json(&self) -> String {
        // no map, no odd number: it cannot fail
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// The exit status: 0 all as planned; 1 not all; 2 that cannot be told.
    pub fn verdict(&self) -> u8 {
        let is_unknown = |task: &TaskVerdict| task.verdict == Verdict::Unknown;
        let cannot_tell = self.tasks.is_empty() || self.tasks.iter().any(is_unknown);
        if self.tasks.iter().any(TaskVerdict::is_bad) {
            1
        } else {
            2 * u8::from(cannot_tell || self.not_looked_at > 0)
        }
    }
}

#[derive(Debug, Default, PartialEq)]
pub struct Merged {
    pub nodes: BTreeSet<String>,
    pub by_tasks: usize,
    /// `idle` and `unknown` name NICs as `node/nic`
    pub shares: Shares,
    pub nics: BTreeMap<String, Sum>,
    /// of the node that took longest
    pub seconds: f64,
    pub failed: BTreeSet<String>,
    pub tasks: BTreeMap<Verdict, usize>,
    /// nodes that reported more than once: the first report counts
    pub twice: BTreeSet<String>,
    /// each note, with the number of nodes
    pub notes: BTreeMap<String, usize>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sum {
    pub planned_on: usize,
    pub counted_on: usize,
    pub rdma: Bytes,
    /// on the node where least left
    pub least_sent: Option<u64>,
    /// on the node where most left
    pub most_sent: Option<u64>,
    pub tcp_sent: u64,
    pub is_rdma: bool,
}

fn add(to: &mut u64, more: u64) {
    *to = to.saturating_add(more);
}

impl Merged {
    pub fn add(&mut self, report: NodeReport) -> Result<(), String> {
        if self.nodes.len() >= MAX_NODES {
            return Err(format!("more than {MAX_NODES} nodes"));
        }
        let node = report.node;
        if !self.nodes.insert(node.clone()) {
            self.twice.insert(node);
            return Ok(());
        }
        if report.status.is_some_and(|status| status != 0) {
            self.failed.insert(node.clone());
        }
        for task in report.tasks {
            *self.tasks.entry(task.verdict).or_default() += 1;
        }
        for note in report.notes {
            *self.notes.entry(note).or_default() += 1;
        }
        if let Some(traffic) = report.traffic {
            self.add_traffic(&node, traffic);
        }
        Ok(())
    }

    fn add_traffic(&mut self, node: &str, traffic: Traffic) {
        let Shares {
            planned,
            others,
            tcp,
            idle,
            unknown,
        } = traffic.shares;
        self.by_tasks += usize::from(traffic.plan == Origin::Tasks);
        self.seconds = self.seconds.max(traffic.seconds);
        add(&mut self.shares.planned, planned);
        add(&mut self.shares.others, others);
        add(&mut self.shares.tcp, tcp);
        for (to, nics) in [
            (&mut self.shares.idle, idle),
            (&mut self.shares.unknown, unknown),
        ] {
            to.extend(nics.iter().map(|nic| format!("{node}/{nic}")));
            to.sort();
        }
        for nic in traffic.nics {
            let sum = self.nics.entry(nic.name).or_default();
            sum.is_rdma |= nic.rdma.is_some();
            sum.planned_on += usize::from(nic.is_planned);
            if let Some(Bytes { sent, received }) = nic.rdma.and_then(Figure::bytes) {
                sum.counted_on += 1;
                add(&mut sum.rdma.sent, sent);
                add(&mut sum.rdma.received, received);
                sum.least_sent = Some(sum.least_sent.map_or(sent, |least| least.min(sent)));
                sum.most_sent = sum.most_sent.max(Some(sent));
            }
            let tcp = nic.tcp.and_then(Figure::bytes).unwrap_or_default();
            add(&mut sum.tcp_sent, tcp.sent);
        }
    }
}
