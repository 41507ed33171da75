//! Lists and names: CPUs, masks, addresses, networks, nodes, components, ways of binding.
#![forbid(unsafe_code)]

use super::held;
use nic_placement_core::config::hostlist::HostList;
use nic_placement_core::config::plugstack::patterns;
use nic_placement_core::config::rollout::Rollout;
use nic_placement_core::config::{components, cpu_bind};
use nic_placement_core::topology::{
    CpuSet, DeviceName, HostBridge, Network, PciAddress, Processor, SubnetPrefix, Topology,
};
use nic_placement_fleet::audit::hostlist::compressed;
use nic_placement_fleet::doctor::releases;
use nic_placement_launch::gpu_list::gpus_named;
use nic_placement_node::platform;
use nic_placement_testing::synthesise::modalias;
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
                assert_eq!(CpuSet::from_words(set.words().to_vec()), set);
            }
            Err(bad) => held::message(&bad.to_string()),
        }
    }
    comes_back::<PciAddress>(line);
    comes_back::<HostBridge>(line);
    comes_back::<Network>(line);
    comes_back::<SubnetPrefix>(line);
    comes_back::<DeviceName>(line);
    if let Some(processor) = Processor::from_modalias(line) {
        assert_eq!(
            Processor::from_modalias(&modalias(&processor)),
            Some(processor)
        );
    }
    NODE.with(|node| match gpus_named(node, line) {
        Ok(gpus) => assert!(gpus.iter().all(|gpu| gpu.0 < node.gpus.len())),
        Err(bad) => held::message(&bad.to_string()),
    });
    match patterns(line) {
        Ok(patterns) => NODE.with(|node| {
            for nic in &node.nics {
                patterns.iter().for_each(|pattern| {
                    let _ = pattern.matches(nic);
                });
            }
        }),
        Err(why) => held::message(&why),
    }
    if let Ok(rollout) = Rollout::parse(line) {
        (0..100).for_each(|job| {
            rollout.has(job);
        });
    }
    let _ = releases::of_version(line);
    nodes(&lines);
    slurms(&lines);
}

fn comes_back<T: FromStr + Display + PartialEq + Debug>(text: &str)
where
    T::Err: Display,
{
    match text.parse::<T>() {
        Ok(value) => {
            let again = value
                .to_string()
                .parse::<T>()
                .unwrap_or_else(|bad| panic!("`{value}`: {bad}"));
            assert_eq!(again, value);
        }
        Err(bad) => held::message(&bad.to_string()),
    }
}

/// Names of nodes, written as a list, are the names that the list has.
fn nodes(lines: &[&str]) {
    match HostList::parse(lines[0]) {
        Ok(list) => lines.iter().skip(1).take(8).for_each(|name| {
            let _ = list.has(name);
        }),
        Err(why) => held::message(&why),
    }
    let is_name = |name: &&&str| {
        !name.is_empty()
            && name.len() < 64
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let names: Vec<&str> = lines.iter().filter(is_name).take(16).copied().collect();
    if !names.is_empty() {
        let written = compressed(names.iter().copied());
        let list = HostList::parse(&written).unwrap_or_else(|why| panic!("`{written}`: {why}"));
        for name in &names {
            assert!(list.has(name), "`{name}` is not in `{written}`");
        }
    }
}

/// What srun and slurmd leave in the environment.
fn slurms(lines: &[&str]) {
    let words: Vec<String> = lines.iter().map(ToString::to_string).collect();
    let _ = cpu_bind::word_of_srun(&words, lines.first().copied());
    let read = |name: &str| {
        let nth = name.bytes().map(usize::from).sum::<usize>() % (lines.len() + 1);
        lines.get(nth).map(|line| line.to_string())
    };
    let _ = cpu_bind::chosen(read);
    let _ = components::leader(7, read);
    let masks = cpu_bind::masks(|name| match name {
        cpu_bind::TYPE => Some(if lines.len() % 2 == 0 {
            "mask_cpu:"
        } else {
            "map_cpu:"
        }),
        _ => lines.first().copied(),
    });
    assert!(masks.len() <= lines[0].len() + 1);
}
