//! Fabrics of any size: a healthy one has nothing wrong, and two cables that are exchanged are named, whatever all is called.

use super::{Plugs, assert_nothing, exchange, named, plugs, rails};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A fabric in which two cables are exchanged, and which these are.
fn exchanged() -> impl Strategy<Value = (Plugs, usize, usize)> {
    let size = (1..4usize, 3..7usize, 3..9usize);
    (size, 0..1000usize, 0..1000usize).prop_map(|((pods, nodes, nics), a, b)| {
        let mut plugs = plugs(pods, nodes, nics);
        let (a, b) = (a % plugs.len(), b % plugs.len());
        exchange(&mut plugs, a, b);
        (plugs, a, b)
    })
}

fn told(plugs: &Plugs) -> Vec<String> {
    let faults = rails(plugs).faults.into_iter();
    let told = faults.map(|fault| format!("{:?}", named(&fault)));
    told.collect()
}

proptest! {
    #[test]
    fn a_healthy_fabric_of_any_size_has_nothing_wrong(pods in 1..4usize, nodes in 1..7usize, nics in 1..10usize) {
        let found = rails(&plugs(pods, nodes, nics));
        assert_nothing(&found);
        let rails = if nics == 1 { 0 } else { nics };
        prop_assert_eq!(found.rails.len(), rails);
        prop_assert!(found.rails.iter().all(|rail| rail.right == rail.ports && rail.leaves.len() == pods));
    }

    #[test]
    fn two_cables_that_are_exchanged_are_named_and_no_other((plugs, a, b) in exchanged()) {
        let found = rails(&plugs);
        if plugs[a].2 == plugs[b].2 {
            prop_assert!(found.faults.is_empty(), "{found:#?}");
        } else {
            prop_assert_eq!(found.faults.len(), 1, "{:#?}", found);
            prop_assert_eq!(found.faults[0].len(), 2);
            let both: BTreeSet<(&str, &str)> = [a, b].into_iter().map(|at| (&*plugs[at].0, &*plugs[at].1)).collect();
            prop_assert_eq!(named(&found.faults[0]), both);
        }
        prop_assert!(found.notes.is_empty(), "{:?}", found.notes);
    }

    #[test]
    fn the_names_of_nodes_and_switches_change_no_answer((mut plugs, ..) in exchanged(), seed in 1..97u64) {
        let named_so = told(&plugs);
        let renamed = |leaf: &str| format!("x{:x}", leaf.bytes().fold(seed, |sum, byte| sum * 31 + u64::from(byte)));
        plugs.iter_mut().for_each(|plug| plug.2 = renamed(&plug.2));
        prop_assert_eq!(&named_so, &told(&plugs));
        let other = |node: &str| format!("n{}", 50 - node[1..].parse::<i32>().unwrap());
        plugs.iter_mut().for_each(|plug| plug.0 = other(&plug.0));
        let mut found = rails(&plugs).faults;
        found.iter_mut().flatten().for_each(|cable| cable.node = other(&cable.node));
        let again: Vec<_> = found.iter().map(|fault| format!("{:?}", named(fault))).collect();
        prop_assert_eq!(named_so, again);
    }
}
