//! Lists and names: CPUs, masks, addresses, networks, nodes, components, ways of binding; and the file of `--multi-prog`.
#![forbid(unsafe_code)]

use super::held;
use nic_placement_core::config::hostlist::HostList;
use nic_placement_core::config::plugstack::patterns;
use nic_placement_core::config::rollout::Rollout;
use nic_placement_core::config::{components, cpu_bind};
use nic_placement_core::step::program::binder_of_ranks;
use nic_placement_core::topology::{
    CpuSet, DeviceName, HostBridge, Network, PciAddress, Processor, SubnetPrefix, Topology,
};
use nic_placement_fleet::audit::hostlist::compressed;
use nic_placement_fleet::doctor::releases;
use nic_placement_launch::gpu_list::gpus_named;
use nic_placement_node::platform;
use std::fmt::{Debug, Display};
use std::str::FromStr;

thread_local! {
    static NODE: Topology = platform::model("dgx-h100").expect("a model");
}

pub fn run(data: &[u8]) {
    let text = held::text(data);
    let lines: Vec<&str> = text.split('\n').collect();
    let line = lines[0];
    for read in [CpuSet::from_list(line), CpuSet::from_mask(line)] {
        match read {
            Ok(set) => {
                assert!(set.iter().all(|cpu| cpu < CpuSet::LIMIT));
                assert_eq!(set.iter().count(), set.len());
                assert_eq!(CpuSet::from_list(&set.to_string()).as_ref(), Ok(&set));
            }
            Err(bad) => held::message(&bad.to_string()),
        }
    }
    comes_back::<PciAddress>(line);
    comes_back::<HostBridge>(line);
    comes_back::<Network>(line);
    comes_back::<SubnetPrefix>(line);
    comes_back::<DeviceName>(line);
    let _ = Processor::from_modalias(line);
    let _ = releases::of_version(line);
    let _ = Rollout::parse(line).map(|rollout| rollout.has(7));
    NODE.with(|node| {
        match gpus_named(node, line) {
            Ok(gpus) => assert!(gpus.iter().all(|gpu| gpu.0 < node.gpus.len())),
            Err(bad) => held::message(&bad.to_string()),
        }
        match patterns(line) {
            Ok(patterns) => {
                let matches = |nic| patterns.iter().any(|pattern| pattern.matches(nic));
                let _ = node.nics.iter().filter(|nic| matches(nic)).count();
            }
            Err(why) => held::message(&why),
        }
    });
    nodes(&lines);
    slurms(&lines);
}

fn comes_back<T: FromStr<Err: Display> + Display + PartialEq + Debug>(text: &str) {
    match text.parse::<T>() {
        Ok(value) => match value.to_string().parse::<T>() {
            Ok(again) => assert_eq!(again, value),
            Err(bad) => panic!("`{value}`: {bad}"),
        },
        Err(bad) => held::message(&bad.to_string()),
    }
}

/// Names of nodes, written as a list, are the names that the list has.
fn nodes(lines: &[&str]) {
    match HostList::parse(lines[0]) {
        Ok(list) => drop(lines.iter().take(8).filter(|name| list.has(name)).count()),
        Err(why) => held::message(&why),
    }
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = |name: &&&str| (1..64).contains(&name.len()) && name.bytes().all(is_letter);
    let names: Vec<&str> = lines.iter().filter(is_name).take(16).copied().collect();
    if !names.is_empty() {
        let written = compressed(names.iter().copied());
        let list = HostList::parse(&written).unwrap_or_else(|why| panic!("`{written}`: {why}"));
        for name in &names {
            assert!(list.has(name), "`{name}` is not in `{written}`");
        }
    }
}

/// Variables and words of srun and slurmd.
fn slurms(lines: &[&str]) {
    let words: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let read = |name: &str| {
        let nth = name.bytes().map(usize::from).sum::<usize>() % (lines.len() + 1);
        lines.get(nth).map(|line| line.to_string())
    };
    for are_several in [false, true] {
        let _ = cpu_bind::word_of_srun(&words, are_several, read);
    }
    let _ = cpu_bind::chosen(read);
    let _ = components::leader(7, read);
    for kind in ["mask_cpu:", "map_cpu:"] {
        let masks = cpu_bind::masks(|name| match name {
            cpu_bind::TYPE => Some(kind),
            _ => Some(lines[0]),
        });
        assert!(masks.len() <= lines[0].len() + 1);
    }
}

/// The file of srun's `--multi-prog`, which root reads as its user wrote it.
pub fn ranks(data: &[u8]) {
    let found = binder_of_ranks(data);
    let with = |line: &str| binder_of_ranks(&[data, line.as_bytes()].concat());
    if data.ends_with(b"\\") {
        // the next line would be a part of the last
        return;
    }
    match found {
        Some(binder) => {
            let is_letter = |byte: &&u8| !b"'\\\n".contains(byte);
            let letters: Vec<u8> = data.iter().filter(is_letter).copied().collect();
            let mut words = letters.windows(binder.len());
            assert!(words.any(|word| word == binder.as_bytes()), "`{binder}`");
            assert_eq!(with("\n5 numactl"), found, "the first one counts");
        }
        None => {
            assert_eq!(with("\n5 /usr/bin/taskset 0x1"), Some("taskset"));
            assert_eq!(with("\n# 5 taskset\n\n5 ./train taskset"), None);
        }
    }
}
