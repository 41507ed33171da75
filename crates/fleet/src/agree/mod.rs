//! The words of a job's nodes, compared: nodes that differ from most, their differences, and lines to write.

use crate::audit::hostlist::compressed;
use nic_placement_core::diagnostic::counted;
use nic_placement_core::placement::agreement::{Agreement, LeftOut, RailWord};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Serialize, Deserialize)]
pub struct NodeWord {
    pub host: String,
    pub agreement: Agreement,
}

impl NodeWord {
    /// True if its names have only letters of nodes, NICs and versions: an admin copies them, and
    /// a task may send anything.
    pub fn is_plain(&self) -> bool {
        let Agreement {
            version,
            rails,
            left_out,
            ..
        } = &self.agreement;
        let names = rails
            .iter()
            .map(|rail| &rail.nic)
            .chain(left_out.iter().map(|of| &of.nic));
        let subnets = rails.iter().filter_map(|rail| rail.subnet.as_ref());
        let letters = |letter: char| letter.is_ascii_alphanumeric() || "-_.:+".contains(letter);
        names
            .chain(subnets)
            .chain([&self.host, version])
            .all(|text| text.len() <= 255 && text.chars().all(letters))
    }
}

#[derive(Debug, PartialEq)]
pub struct Dissent {
    pub nodes: String,
    pub count: usize,
    pub differences: Vec<String>,
    /// lines to write; empty if the difference does no harm
    pub write: Vec<String>,
}

#[derive(Debug, PartialEq)]
pub struct Compared {
    pub nodes: usize,
    /// the word of most nodes; of two as common that with fewer NICs left out
    pub usual: Agreement,
    pub alike: usize,
    /// in order of the nodes' names
    pub dissents: Vec<Dissent>,
}

impl Compared {
    pub fn harmful(&self) -> usize {
        self.dissents
            .iter()
            .filter(|dissent| !dissent.write.is_empty())
            .map(|dissent| dissent.count)
            .sum()
    }
}

/// Compares words; `None` without any. A node with two words is in two groups.
pub fn compare(words: Vec<NodeWord>) -> Option<Compared> {
    let mut groups: BTreeMap<String, (Agreement, BTreeSet<String>)> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for NodeWord { host, agreement } in words {
        all.insert(host.clone());
        groups
            .entry(agreement.digest())
            .or_insert_with(|| (agreement, BTreeSet::new()))
            .1
            .insert(host);
    }
    let mut groups: Vec<(Agreement, BTreeSet<String>)> = groups.into_values().collect();
    groups.sort_by_key(|(agreement, hosts)| {
        (
            Reverse(hosts.len()),
            agreement.left_out.len(),
            Reverse(agreement.rails.len()),
            hosts.first().cloned(),
        )
    });
    let mut groups = groups.into_iter();
    let (usual, alike) = groups.next()?;
    let mut dissents: Vec<Dissent> = groups
        .map(|(agreement, hosts)| dissent(&agreement, &usual, &hosts))
        .collect();
    dissents.sort_by(|a, b| a.nodes.cmp(&b.nodes));
    Some(Compared {
        nodes: all.len(),
        usual,
        alike: alike.len(),
        dissents,
    })
}

fn dissent(here: &Agreement, usual: &Agreement, hosts: &BTreeSet<String>) -> Dissent {
    let nodes = compressed(hosts.iter().map(String::as_str));
    let (mut differences, mut write, mut faults) = (Vec::new(), Vec::new(), Vec::new());
    if here.version != usual.version {
        differences.push(format!(
            "nic-placement is {}, theirs {}",
            here.version, usual.version
        ));
        write.push("an admin installs the same version on all nodes".to_string());
    }
    if here.gpus != usual.gpus {
        let said = |gpus: &str| if gpus.is_empty() { "none" } else { gpus }.to_string();
        faults.push(format!(
            "GPUs: {}, theirs {}",
            said(&here.gpus),
            said(&usual.gpus)
        ));
    }
    let left_out = left_out(here, usual);
    let (rails, theirs) = (&here.rails, &usual.rails);
    let elsewhere = rails
        .iter()
        .zip(theirs)
        .enumerate()
        .find(|(_, (here, there))| here.subnet != there.subnet);
    // theirs by name, else by subnet, where each is that of one rail
    let order = by(rails, theirs, |here, there| here == there).or_else(|| {
        by(rails, theirs, |here, there| {
            here.subnet.is_some() && here.subnet == there.subnet
        })
    });
    let order = order.filter(|order| !order.iter().copied().eq(rails));
    if let Some(order) = order {
        let order = devices(order);
        differences.push(format!("its rails are in another order: {}", names(rails)));
        write.push(format!(
            "in /etc/nic-placement.conf: NodeName={nodes} rails={order}"
        ));
    } else if rails.len() != theirs.len() {
        if left_out.is_empty() {
            let count = counted(rails.len(), "rail");
            faults.push(format!("it has {count}, theirs are {}", theirs.len()));
        }
    } else if let Some((number, (here, there))) = elsewhere {
        let said = |rail: &RailWord| {
            rail.subnet
                .clone()
                .unwrap_or("no InfiniBand subnet".to_string())
        };
        let (nic, here, there) = (&here.nic, said(here), said(there));
        faults.push(format!(
            "rail {number} ({nic}) is in {here}, theirs in {there}"
        ));
    } else if rails != theirs {
        differences.push(format!(
            "its NICs have other names, {}: each node gets lists of its own, so a list of yours for all nodes is wrong there",
            names(rails)
        ));
    }
    faults.extend(left_out);
    if !faults.is_empty() {
        write.push(format!("for this job: --exclude={nodes}"));
        differences.extend(faults);
    }
    Dissent {
        nodes,
        count: hosts.len(),
        differences,
        write,
    }
}

/// NICs that are left out here alone.
fn left_out(here: &Agreement, usual: &Agreement) -> Vec<String> {
    let is_usual = |nic: &String| usual.left_out.iter().any(|of| of.nic == *nic);
    let here = here.left_out.iter().filter(|of| !is_usual(&of.nic));
    here.map(|LeftOut { nic, why }| format!("{nic} is left out: {why}"))
        .collect()
}

/// The rails in the order of the others' that are the same; `None` if these are not all.
fn by<'a>(
    here: &'a [RailWord],
    usual: &[RailWord],
    is: fn(&RailWord, &RailWord) -> bool,
) -> Option<Vec<&'a RailWord>> {
    let same = usual
        .iter()
        .map(|there| here.iter().find(|rail| is(rail, there)));
    let order: Vec<&RailWord> = same.collect::<Option<_>>()?;
    (BTreeSet::from_iter(&order).len() == here.len()).then_some(order)
}

/// `mlx5_0:1 mlx5_1:1`
fn names(rails: &[RailWord]) -> String {
    rails
        .iter()
        .map(|rail| rail.nic.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

/// `mlx5_0,mlx5_1`, each device once
fn devices(rails: Vec<&RailWord>) -> String {
    let mut names: Vec<&str> = rails
        .iter()
        .map(|rail| rail.nic.split(':').next().unwrap_or_default())
        .collect();
    names.dedup();
    names.join(",")
}

#[cfg(test)]
mod tests;
