//! OpenMP, where the user says `omp=on`: `OMP_NUM_THREADS`, `OMP_PLACES` and `OMP_PROC_BIND`.
//!
//! Without a number of threads a runtime starts one for each CPU of the mask, which is the whole NUMA node, in each of the
//! tasks that share it.  Binding is another matter: with `OMP_PLACES` set, or `OMP_PROC_BIND` true, a runtime pins the thread
//! that loads it to one core, and every thread that this one starts later inherits that core (measured with GCC 12's
//! libgomp: the mask is one core after dlopen(3)).  A Python program that imports PyTorch is such a program (mpibind issue
//! 41).  So the places are named and binding is switched off, which makes libgomp pass the places over: who wants pinned
//! threads exports `OMP_PROC_BIND=spread` and has a core for each.
//! (OpenMP 5.2, sections 21.1.2, 21.1.6 and 21.1.7; GCC's libgomp/env.c.)
#![forbid(unsafe_code)]

use super::Present;
use super::marker::Marker;
use crate::placement::TaskPlacement;

pub(super) const NUM_THREADS: &str = "OMP_NUM_THREADS";
pub(super) const PLACES: &str = "OMP_PLACES";
pub(super) const PROC_BIND: &str = "OMP_PROC_BIND";
/// How users of one runtime ask for places of their own; `OMP_PLACES` would beat them.
pub(super) const GOMP_CPU_AFFINITY: &str = "GOMP_CPU_AFFINITY";
pub(super) const KMP_AFFINITY: &str = "KMP_AFFINITY";

/// A variable, the value that it should have, and why it is this or none.
pub(super) type Wanted = (&'static str, (Option<String>, String));

/// The three of them; without `omp=on` those alone that an outer step of ours left.
pub(super) fn wanted(task: &TaskPlacement, present: &Present, earlier: &Marker) -> Vec<Wanted> {
    let users = |name: &str| present.get(name).is_some_and(|value| !earlier.is_ours(name, value));
    let Some(threads) = task.threads else {
        let left = |name: &&str| present.contains_key(*name) && !users(name);
        let none = |name| (name, (None, "`omp=on` was not asked for".to_string()));
        return [NUM_THREADS, PLACES, PROC_BIND].into_iter().filter(left).map(none).collect();
    };
    let pinned = [GOMP_CPU_AFFINITY, KMP_AFFINITY].into_iter().find(|name| users(name));
    let unless = |theirs: Option<&'static str>, value: &str, why: &str| match theirs {
        Some(name) => (None, format!("the user's `{name}` says where threads run")),
        None => (Some(value.to_string()), why.to_string()),
    };
    let places = users(PLACES).then_some(PLACES);
    vec![
        (NUM_THREADS, (Some(threads.to_string()), "the cores that are the task's part".to_string())),
        (PLACES, unless(pinned, "cores", "what a program that binds threads itself binds them to")),
        (PROC_BIND, unless(pinned.or(places), "false", "a program that loads OpenMP keeps all its CPUs")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{CpuDecision, MemDecision};
    use crate::topology::CpuSet;

    fn values(threads: Option<usize>, present: &[(&'static str, &str)]) -> Vec<String> {
        let task = TaskPlacement {
            local_id: 0,
            global_id: 0,
            gpus: Vec::new(),
            rails: Vec::new(),
            cpus: CpuDecision::Keep { cpus: CpuSet::new(), why: String::new() },
            mems: MemDecision::Keep { why: String::new() },
            threads,
            missed: None,
            reasons: Vec::new(),
        };
        let present = present.iter().map(|&(name, value)| (name, value.to_string())).collect();
        let earlier = Marker::parse("v1 set:OMP_NUM_THREADS=7 set:OMP_PLACES=cores");
        let line = |(name, (value, _)): Wanted| format!("{name}={}", value.unwrap_or("-".to_string()));
        wanted(&task, &present, &earlier).into_iter().map(line).collect()
    }

    #[test]
    fn nothing_is_set_unless_it_is_asked_for_and_what_an_outer_step_left_goes() {
        assert!(values(None, &[]).is_empty());
        assert!(values(None, &[("OMP_NUM_THREADS", "4")]).is_empty(), "the user's");
        assert_eq!(values(None, &[("OMP_NUM_THREADS", "7")]), ["OMP_NUM_THREADS=-"], "an outer step's");
    }

    #[test]
    fn threads_are_counted_places_named_and_nobody_is_pinned() {
        let all = ["OMP_NUM_THREADS=14", "OMP_PLACES=cores", "OMP_PROC_BIND=false"];
        assert_eq!(values(Some(14), &[]), all);
        assert_eq!(
            values(Some(14), &[("OMP_PLACES", "cores")]),
            all,
            "an outer step's places are not the user's"
        );
    }

    #[test]
    fn who_names_places_has_them() {
        let places = values(Some(14), &[("OMP_PLACES", "threads")]);
        assert_eq!(places[2], "OMP_PROC_BIND=-", "false would make the runtime pass them over");
        for name in ["GOMP_CPU_AFFINITY", "KMP_AFFINITY"] {
            assert_eq!(
                values(Some(14), &[(name, "0-3")])[1..],
                ["OMP_PLACES=-", "OMP_PROC_BIND=-"],
                "{name}"
            );
        }
    }
}
