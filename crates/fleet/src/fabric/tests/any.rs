//! Fabrics of any size: a healthy one has nothing wrong, and two cables that are exchanged are named, whatever all is called.

use super::{Plan, exchange, named, plugs, rails};
use crate::fabric::faults::FaultKind;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn plan() -> impl Strategy<Value = Plan> {
    (1..4usize, 3..7usize, 3..9usize).prop_map(|(pods, nodes, nics)| Plan { pods, nodes, nics })
}

proptest! {
    #[test]
    fn a_healthy_fabric_of_any_size_has_nothing_wrong(pods in 1..4usize, nodes in 1..7usize, nics in 1..10usize) {
        let found = rails(&plugs(Plan { pods, nodes, nics }));
        prop_assert!(found.faults.is_empty() && found.notes.is_empty() && found.lines.is_empty(), "{found:#?}");
        let rails = if nics == 1 { 0 } else { nics };
        prop_assert_eq!(found.rails.len(), rails);
        prop_assert!(found.rails.iter().all(|rail| rail.right == rail.ports && rail.leaves.len() == pods));
    }

    #[test]
    fn two_cables_that_are_exchanged_are_named_and_no_other(plan in plan(), a in 0..1000usize, b in 0..1000usize) {
        let mut plugs = plugs(plan);
        let (a, b) = (a % plugs.len(), b % plugs.len());
        exchange(&mut plugs, a, b);
        let found = rails(&plugs);
        if plugs[a].2 == plugs[b].2 {
            prop_assert!(found.faults.is_empty(), "{found:#?}");
        } else {
            prop_assert_eq!(found.faults.len(), 1, "{:#?}", found);
            prop_assert_eq!(found.faults[0].kind, FaultKind::Exchanged);
            let both: BTreeSet<(&str, &str)> = [a, b].into_iter().map(|at| (&*plugs[at].0, &*plugs[at].1)).collect();
            prop_assert_eq!(named(&found.faults[0]), both);
        }
        prop_assert!(found.notes.is_empty(), "{:?}", found.notes);
    }

    #[test]
    fn the_names_of_nodes_change_no_answer(plan in plan(), a in 0..1000usize, b in 0..1000usize) {
        let mut plugs = plugs(plan);
        let (a, b) = (a % plugs.len(), b % plugs.len());
        exchange(&mut plugs, a, b);
        let named_so: Vec<_> = rails(&plugs).faults.iter().map(|fault| format!("{:?}", named(fault))).collect();
        let other = |node: &str| format!("n{}", 50 - node[1..].parse::<i32>().unwrap());
        plugs.iter_mut().for_each(|plug| plug.0 = other(&plug.0));
        let mut found = rails(&plugs).faults;
        found.iter_mut().flat_map(|fault| &mut fault.cables).for_each(|cable| cable.node = other(&cable.node));
        let again: Vec<_> = found.iter().map(|fault| format!("{:?}", named(fault))).collect();
        prop_assert_eq!(named_so, again);
    }

    #[test]
    fn the_names_of_switches_change_no_answer(plan in plan(), a in 0..1000usize, b in 0..1000usize, seed in 1..97u64) {
        let mut plugs = plugs(plan);
        let (a, b) = (a % plugs.len(), b % plugs.len());
        exchange(&mut plugs, a, b);
        let named_so: Vec<_> = rails(&plugs).faults.iter().map(|fault| format!("{:?}", named(fault))).collect();
        let renamed = |leaf: &str| format!("x{:x}", leaf.bytes().fold(seed, |sum, byte| sum * 31 + u64::from(byte)));
        plugs.iter_mut().for_each(|plug| plug.2 = renamed(&plug.2));
        let other: Vec<_> = rails(&plugs).faults.iter().map(|fault| format!("{:?}", named(fault))).collect();
        prop_assert_eq!(named_so, other);
    }
}
