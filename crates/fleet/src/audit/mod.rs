//! Reports of many nodes, compared: nodes that are not like the others of their kind.
//!
//! Nodes of a kind have the same machine, GPUs and NICs, or all but a few. For each fact the kind has what most of its nodes
//! have, and a node differs where it has something else.
//! The answer depends on what the nodes say, not on their order.

pub mod facts;
pub mod hostlist;
pub mod kinds;
pub mod report;
pub mod stream;
#[cfg(test)]
mod tests;

use facts::{Inventory, Key};
use indexmap::IndexSet;
use report::Report;
use std::collections::BTreeMap;

/// Bytes that are kept, at most: twenty thousand nodes need less.
const MAX_KEPT: usize = 64 << 20;
/// Bytes of a node's name and inventory, about.
const NODE_COST: usize = 1024;

/// A node's inventory, and the sorted numbers of its facts.
type Row = (Inventory, Vec<u32>);

#[derive(Default)]
pub struct Audit {
    facts: IndexSet<(Key, String)>,
    /// of each node its different reports, each with the number of times that it came
    nodes: BTreeMap<String, BTreeMap<Row, usize>>,
    kept: usize,
}

impl Audit {
    pub fn add(&mut self, document: &[u8]) -> Result<(), String> {
        let (host, inventory, facts) = facts::of(&Report::from_json(document)?)?;
        if self.kept > MAX_KEPT {
            return Err(
                "the reports before it differ in more than can be kept: audit fewer nodes at once"
                    .into(),
            );
        }
        self.kept += NODE_COST + facts.len() * size_of::<u32>();
        let mut number = |(key, value): (Key, String)| {
            let size = key.subject.len() + key.what.len() + value.len();
            let (number, is_new) = self.facts.insert_full((key, value));
            if is_new {
                self.kept += size + size_of::<(Key, String)>();
            }
            number as u32
        };
        let mut numbers: Vec<u32> = facts.into_iter().map(&mut number).collect();
        numbers.sort_unstable();
        let reports = self.nodes.entry(host).or_default();
        *reports.entry((inventory, numbers)).or_default() += 1;
        Ok(())
    }

    fn fact(&self, number: u32) -> &(Key, String) {
        &self.facts[number as usize]
    }
}
