//! The source of a task's memory, the reason for its policy, and the part of the decision that the
//! cpuset or an earlier policy leaves.

use super::*;
use crate::step::Memory;

/// A task that the user bound to `cpus`, with its GPU on NUMA node 1, on two sockets of two NUMA
/// nodes of four CPUs with a GPU each.
fn user_bound(cpus: &str, bind: Bind, mem: Mem, memory: Memory) -> TaskPlacement {
    let one = case(&[1], cpus, cpus).with(|one| {
        one.topology = machine([2, 2, 4, 1], false, &dealt(4, 4));
        one.step.cpu_bind = Some("map_cpu".to_string());
        one.task.memory = memory;
        (one.wish.bind, one.wish.mem) = (bind, mem);
    });
    one.bound()
}

#[test]
fn memory_comes_from_the_gpus_node_and_from_where_the_task_runs_on_that_socket() {
    for (cpus, bind, mem, nodes, why) in rows! {
        "4-5", Bind::Auto, Mem::Prefer, "1", "node 1 of its GPU first";
        "0-1", Bind::Auto, Mem::Prefer, "0-1", "and of its CPUs first";
        "0-7", Bind::Auto, Mem::Prefer, "0-1", "and of its CPUs first";
        "4-5", Bind::Auto, Mem::Strict, "1", "alone, as `mem=strict` asks";
        "4-8", Bind::Auto, Mem::Prefer, "", "it runs on other sockets";
        "8-9", Bind::Auto, Mem::Prefer, "", "it does not run near";
        // of two words that leave memory alone
        "4-5", Bind::None, Mem::None, "", "memory: `bind=none`";
        "4-5", Bind::Auto, Mem::None, "", "memory: `mem=none`";
    } {
        let bound = user_bound(cpus, bind, mem, Memory::default());
        assert_eq!(bound.mems.to_string(), nodes, "{cpus} {bind:?} {mem:?}");
        assert_eq!(bound.fences, mem == Mem::Strict);
        assert!(bound.notes.reasons[1].contains(why), "{bound:?}");
    }
}

/// These nodes after they met what the task may have, and the notes on that.
fn settled(mems: &str, missed: &[&str], memory: Memory) -> (String, Notes) {
    let mut notes = Notes::default();
    notes.missed.extend(missed.iter().map(ToString::to_string));
    let left = crate::bind::memory::limited(nodes(mems), &memory, &mut notes);
    (left.to_string(), notes)
}

fn nodes(list: &str) -> NodeSet {
    NodeSet::from_list(list).unwrap()
}

fn within(list: &str) -> Memory {
    with! { Memory { allowed: Some(nodes(list)) } }
}

#[test]
fn a_placed_steps_preference_becomes_a_part_of_itself_and_anothers_policy_stays() {
    for (ours, left) in [("0-1", "1"), ("0", "")] {
        let memory = with! { Memory { ours: Some(nodes(ours)) } };
        assert_eq!(settled("1", &[], memory).0, left);
    }
    let mut taken = within("0-1");
    taken.taken = Some("numactl".to_string());
    let (mems, notes) = settled("1", &[], taken);
    assert_eq!(mems, "");
    assert_eq!(notes.reasons, ["memory: left alone, numactl"]);
    // without one, nodes that the cpuset has are set as they are
    for memory in [within("0-1"), within("0"), Memory::default()] {
        let found = settled("0", &[], memory);
        assert_eq!(found, ("0".to_string(), Notes::default()));
    }
}

#[test]
fn of_nodes_partly_outside_the_cpuset_those_inside_are_left_and_a_fence_stays_a_fence() {
    let (mems, notes) = settled("0-1", &[], within("1-2"));
    assert_eq!((mems.as_str(), notes.missed.as_slice()), ("1", &[][..]));
    assert!(notes.reasons[0].contains("0-1 only 1 are in"), "{notes:?}");
    for (mem, fences) in [(Mem::Prefer, false), (Mem::Strict, true)] {
        let bound = user_bound("0-7", Bind::Auto, mem, within("1-2"));
        assert_eq!((bound.mems, bound.fences), (nodes("1"), fences));
        assert_eq!(bound.notes.reasons[2..], notes.reasons);
    }
}

#[test]
fn memory_outside_the_cpuset_is_given_up_and_missed_beside_what_was_missed_before() {
    let (mems, notes) = settled("1", &["no cores"], within("0"));
    assert_eq!((mems.as_str(), notes.reasons.len()), ("", 1));
    let why = notes.reasons[0].strip_prefix("memory: left alone, ");
    let why = why.unwrap();
    let is_right = why.starts_with("NUMA node 1 is outside") && why.ends_with(" on 0");
    assert!(is_right, "{why}");
    let found = notes.missed;
    assert_eq!(found, ["no cores".to_string(), format!("memory: {why}")]);
}
