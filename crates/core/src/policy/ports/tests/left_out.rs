//! A NIC that is left out changes nothing for the others, on generated machines.

use super::*;
use crate::placement::{Policy, RailUse};
use crate::policy;
use proptest::prelude::*;

/// The parts of a map that another NIC must not change, without positions.
fn essence(node: &NodePlacement) -> (Vec<String>, Vec<String>, Vec<Vec<String>>) {
    let choice = |choice: &RailUse| format!("{} {}", node.rail(choice.rail), choice.path);
    let gpus = node.gpus.iter();
    let gpus = gpus.map(|gpu| gpu.choices.iter().map(choice).collect());
    (strings(&node.rails), strings(&node.broken), gpus.collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_nic_that_is_left_out_never_changes_what_the_others_do(
        slots in prop::collection::vec((any::<bool>(), 0usize..24), 1..7),
        extra in 0..EVIDENCE.len(),
    ) {
        let mut gpus: Vec<bool> = slots.iter().map(|(gpu, _)| *gpu).collect();
        gpus.push(false);
        let spoil = |topology: &mut Topology, selection: &mut Selection| {
            for (nic, (_, evidence)) in slots.iter().enumerate() {
                // there is evidence against some others too; selections concern the extra NIC alone
                if (3..12).contains(evidence) {
                    disqualify(EVIDENCE[*evidence].0, topology, selection, nic);
                }
            }
        };
        let (mut with, mut selection) = (machine(&gpus), Selection::default());
        spoil(&mut with, &mut selection);
        let mut without = with.clone();
        without.nics.pop();
        disqualify(EVIDENCE[extra].0, &mut with, &mut selection, slots.len());
        for policy in [Policy::Closest, Policy::Numa, Policy::All] {
            let mut request = Wish { policy, ..Wish::default() };
            let without_it = policy::map(&without, &request);
            request.admin.selection = selection.clone();
            let with_it = policy::map(&with, &request);
            let name = format!("mlx5_{}", slots.len());
            if with_it.excluded.iter().any(|excluded| excluded.name == *name) {
                let (expected, found) = (essence(&without_it), essence(&with_it));
                // it may itself be a broken rail, and a broken rail keeps its place
                if found.1.iter().any(|broken| broken.starts_with(&name)) {
                    continue;
                }
                prop_assert_eq!(found, expected);
            }
        }
    }
}
