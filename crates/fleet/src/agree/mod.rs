//! Do the nodes of a job agree?  Their words compared: which nodes differ from most, in what, and what to write about it.
#![forbid(unsafe_code)]

use crate::audit::hostlist::compressed;
use nic_placement_core::diagnostic::counted;
use nic_placement_core::placement::agreement::{Agreement, LeftOut, RailWord};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What one node says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeWord {
    /// the node
    pub host: String,
    /// its word
    pub agreement: Agreement,
}

impl NodeWord {
    /// Are its names such as nodes, NICs and versions have?  They stand in lines that an admin copies, and a file may hold anything.
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
        let is_plain = |text: &String| text.len() <= 255 && text.chars().all(letters);
        names
            .chain(subnets)
            .chain([&self.host, version])
            .all(is_plain)
    }
}

/// Nodes that differ from most in the same way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dissent {
    /// as Slurm writes many nodes
    pub nodes: String,
    pub count: usize,
    /// one sentence for each difference
    pub differences: Vec<String>,
    /// what to write about it; empty where the difference does no harm
    pub write: Vec<String>,
}

/// The words of a job's nodes, compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared {
    pub nodes: usize,
    /// the word of most nodes, and how many say it; of two as common that with fewer NICs left out
    pub usual: Agreement,
    pub alike: usize,
    /// in order of the nodes' names
    pub dissents: Vec<Dissent>,
}

impl Compared {
    /// How many nodes differ in a way that harms a job.
    pub fn harmful(&self) -> usize {
        self.dissents
            .iter()
            .filter(|dissent| !dissent.write.is_empty())
            .map(|dissent| dissent.count)
            .sum()
    }
}

/// Compares what nodes say; `None` without a word.  A node that says two things is in two groups.
pub fn compare(words: Vec<NodeWord>) -> Option<Compared> {
    let mut groups: BTreeMap<String, (Agreement, BTreeSet<String>)> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for NodeWord { host, agreement } in words {
        all.insert(host.clone());
        let group = groups
            .entry(agreement.digest())
            .or_insert_with(|| (agreement, BTreeSet::new()));
        group.1.insert(host);
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
    let (mut differences, mut write) = (Vec::new(), Vec::new());
    if here.version != usual.version {
        differences.push(format!(
            "nic-placement is {}, theirs {}",
            here.version, usual.version
        ));
        write.push("an admin installs the same version on all nodes".to_string());
    }
    let mut faults = gpus(here, usual);
    let left_out = left_out(here, usual);
    match rails(here, usual) {
        Rails::Alike => {}
        Rails::OtherNames => differences.push(format!(
            "its NICs have other names, {}: each node gets lists of its own, so a list of yours for all nodes is wrong there",
            names(&here.rails)
        )),
        Rails::OtherOrder(order) => {
            differences.push(format!("its rails are in another order: {}", names(&here.rails)));
            write.push(format!("in /etc/nic-placement.conf: NodeName={nodes} rails={order}"));
        }
        Rails::OtherSubnets(sentence) => faults.push(sentence),
        Rails::OtherNumber if left_out.is_empty() => faults.push(format!(
            "it has {}, theirs are {}",
            counted(here.rails.len(), "rail"),
            usual.rails.len()
        )),
        Rails::OtherNumber => {}
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

fn gpus(here: &Agreement, usual: &Agreement) -> Vec<String> {
    let said = |gpus: &str| {
        if gpus.is_empty() {
            "none".to_string()
        } else {
            gpus.to_string()
        }
    };
    let differs = here.gpus != usual.gpus;
    differs
        .then(|| format!("GPUs: {}, theirs {}", said(&here.gpus), said(&usual.gpus)))
        .into_iter()
        .collect()
}

/// What is left out here alone, and what is left out of the others alone.
fn left_out(here: &Agreement, usual: &Agreement) -> Vec<String> {
    let has = |list: &[LeftOut], nic: &str| list.iter().any(|of| of.nic == nic);
    let only_here = here
        .left_out
        .iter()
        .filter(|of| !has(&usual.left_out, &of.nic));
    let only_here = only_here.map(|LeftOut { nic, why }| format!("{nic} is left out: {why}"));
    let is_rail = |of: &&LeftOut| {
        here.rails.iter().any(|rail| rail.nic == of.nic) && !has(&here.left_out, &of.nic)
    };
    let only_there = usual.left_out.iter().filter(is_rail);
    let only_there = only_there
        .map(|LeftOut { nic, why }| format!("it uses {nic}, which theirs leave out: {why}"));
    only_here.chain(only_there).collect()
}

/// How the rails of a node stand to those of the others.
enum Rails {
    Alike,
    /// the same number in the same subnets
    OtherNames,
    /// the order that they should have, as `rails=` takes it
    OtherOrder(String),
    OtherSubnets(String),
    OtherNumber,
}

fn rails(here: &Agreement, usual: &Agreement) -> Rails {
    let (here, usual) = (&here.rails, &usual.rails);
    if here == usual {
        return Rails::Alike;
    }
    if here.len() != usual.len() {
        return Rails::OtherNumber;
    }
    let differing = here
        .iter()
        .zip(usual)
        .position(|(here, usual)| here.subnet != usual.subnet);
    let sorted = |rails: &[RailWord]| BTreeSet::from_iter(rails.to_vec());
    match differing {
        _ if sorted(here) == sorted(usual) => Rails::OtherOrder(devices(usual.iter())),
        None => Rails::OtherNames,
        Some(number) => match by_subnets(here, usual) {
            Some(order) => Rails::OtherOrder(devices(order.into_iter())),
            None => {
                let said = |rail: &RailWord| {
                    rail.subnet
                        .clone()
                        .unwrap_or_else(|| "no InfiniBand subnet".to_string())
                };
                let (here, usual) = (&here[number], &usual[number]);
                Rails::OtherSubnets(format!(
                    "rail {number} ({}) is in {}, theirs in {}",
                    here.nic,
                    said(here),
                    said(usual)
                ))
            }
        },
    }
}

/// The rails here in the order of the others' subnets, where each subnet is that of one rail.
fn by_subnets<'a>(here: &'a [RailWord], usual: &[RailWord]) -> Option<Vec<&'a RailWord>> {
    let of: BTreeMap<&str, &RailWord> = here
        .iter()
        .filter_map(|rail| Some((rail.subnet.as_deref()?, rail)))
        .collect();
    let order: Option<Vec<&RailWord>> = usual
        .iter()
        .map(|rail| of.get(rail.subnet.as_deref()?).copied())
        .collect();
    order.filter(|_| of.len() == here.len())
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
fn devices<'a>(rails: impl Iterator<Item = &'a RailWord>) -> String {
    let mut names: Vec<&str> = rails
        .map(|rail| rail.nic.split(':').next().unwrap_or_default())
        .collect();
    names.dedup();
    names.join(",")
}

#[cfg(test)]
mod tests;
