//! Reports of many nodes, compared: nodes that are not like the others of their kind.
//!
//! * [`stream`] takes the input apart, [`report`] is one node's report, [`facts`] are its facts with names.
//! * [`Audit`] keeps each different fact and each different set of them once: memory grows with the differences, and by a
//!   name for each node.
//! * [`kinds`] groups the nodes: those of a kind have the same machine, GPUs and NICs, or all but a few. For each fact the
//!   kind has what most of its nodes have, and a node differs where it has something else.
//! * [`hostlist`] writes many names as few.
//!
//! The answer depends on what the nodes say, not on their order.

pub mod facts;
pub mod hostlist;
pub mod kinds;
pub mod report;
pub mod stream;
#[cfg(test)]
mod tests;

use facts::{Class, Inventory, Key, NodeFacts};
use indexmap::IndexSet;
use report::Report;
use std::collections::BTreeMap;
use std::hash::Hash;

/// Bytes of names and values that differ, at most: ten thousand nodes whose every device has its
/// own address need less.
const MAX_TEXTS: usize = 64 << 20;
/// Facts of all different sets, at most: 8 bytes each.
const MAX_KEPT: usize = 4 << 20;
const MAX_NODES: usize = 1 << 20;

/// Values that occur again and again, each once.
type Pool<T> = IndexSet<T>;

/// The value's number in its pool; `used` counts its bytes if it is new.
fn number<T: Hash + Eq>(pool: &mut Pool<T>, one: T, size: usize, used: &mut usize) -> u32 {
    let (number, is_new) = pool.insert_full(one);
    *used += if is_new {
        size + std::mem::size_of::<T>()
    } else {
        0
    };
    number as u32
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Shape {
    inventory: u32,
    facts: Vec<(u32, u32)>,
}

#[derive(Default)]
pub struct Audit {
    keys: Pool<Key>,
    values: Pool<String>,
    inventories: Pool<Inventory>,
    shapes: Pool<Shape>,
    used: usize,
    kept: usize,
    nodes: BTreeMap<String, BTreeMap<u32, u32>>,
}

impl Audit {
    pub fn add(&mut self, document: &[u8]) -> Result<(), String> {
        self.add_report(&Report::from_json(document)?)
    }

    pub fn add_report(&mut self, report: &Report) -> Result<(), String> {
        let NodeFacts {
            host,
            inventory,
            facts,
        } = facts::of(report)?;
        if self.used > MAX_TEXTS || self.kept > MAX_KEPT {
            return Err(
                "the reports before it differ in more than can be kept: audit fewer nodes at once"
                    .into(),
            );
        }
        if self.nodes.len() >= MAX_NODES && !self.nodes.contains_key(&host) {
            return Err(format!("it is of one node more than {MAX_NODES}"));
        }
        let used = &mut self.used;
        let size = inventory.devices().min(512) * 64;
        let inventory = number(&mut self.inventories, inventory, size, used);
        let mut numbered: Vec<(u32, u32)> = Vec::with_capacity(facts.len());
        for (key, value) in facts {
            let size = key.subject.len() + key.what.len();
            let key = number(&mut self.keys, key, size, used);
            let size = value.len();
            numbered.push((key, number(&mut self.values, value, size, used)));
        }
        numbered.sort_unstable();
        let shape = self.keep(Shape {
            inventory,
            facts: numbered,
        });
        *self
            .nodes
            .entry(host)
            .or_default()
            .entry(shape)
            .or_default() += 1;
        Ok(())
    }

    /// Adds to a node's report what others know of its NICs: subject, attribute, value.  An
    /// error adds nothing.
    pub fn extend(&mut self, host: &str, facts: &[(String, String, String)]) -> Result<(), String> {
        let Some(shapes) = self.nodes.get(host).cloned() else {
            return Ok(());
        };
        if self.used > MAX_TEXTS || self.kept > MAX_KEPT {
            return Err("the nodes differ in more than can be kept: audit fewer at once".into());
        }
        let mut extended: BTreeMap<u32, u32> = BTreeMap::new();
        for (shape, count) in shapes {
            let mut shape = self.shapes[shape as usize].clone();
            for (subject, what, value) in facts {
                let key = Key {
                    class: Class::Nic,
                    subject: subject.clone(),
                    what: what.clone(),
                };
                let size = subject.len() + what.len();
                let key = number(&mut self.keys, key, size, &mut self.used);
                let value = number(&mut self.values, value.clone(), value.len(), &mut self.used);
                shape.facts.push((key, value));
            }
            shape.facts.sort_unstable();
            *extended.entry(self.keep(shape)).or_default() += count;
        }
        self.nodes.insert(host.to_string(), extended);
        Ok(())
    }

    fn keep(&mut self, shape: Shape) -> u32 {
        let (length, before) = (shape.facts.len(), self.shapes.len());
        let shape = number(&mut self.shapes, shape, 0, &mut self.used);
        if self.shapes.len() > before {
            self.kept += length;
        }
        shape
    }

    /// By name, whose order unlike that of numbers does not depend on the order of reports.
    fn named(&self, shape: u32) -> BTreeMap<&Key, &str> {
        let facts = &self.shapes[shape as usize].facts;
        facts
            .iter()
            .map(|(key, value)| {
                (
                    &self.keys[*key as usize],
                    self.values[*value as usize].as_str(),
                )
            })
            .collect()
    }
}
