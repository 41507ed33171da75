//! The report of `verify` on one node.

use super::bytes::Traffic;
use super::verify::{TaskVerdict, Verdict};
use serde::{Deserialize, Serialize};

const FORMAT: &str = "nic-placement verify";
const VERSION: u32 = 3;

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

    /// `None`: no report of this version.
    pub fn read(text: &[u8]) -> Option<NodeReport> {
        let report: NodeReport = serde_json::from_slice(text).ok()?;
        (report.format == FORMAT && report.version == VERSION).then_some(report)
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
