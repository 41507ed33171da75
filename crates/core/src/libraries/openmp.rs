//! OpenMP, with `omp=on`: `OMP_NUM_THREADS`, `OMP_PLACES` and `OMP_PROC_BIND`.
//!
//! Without `OMP_NUM_THREADS` a runtime starts one thread for each CPU of the mask, the NUMA node's for each of its tasks.  With
//! `OMP_PLACES` set, or `OMP_PROC_BIND` true, it pins the thread that loads it to one core, and threads that this one starts
//! later inherit that (GCC 12's libgomp, as in a Python program that imports PyTorch; mpibind issue 41).  So we name the places
//! and switch binding off, which makes libgomp ignore the places.  A user that wants pinned threads exports
//! `OMP_PROC_BIND=spread` and gets a core for each (OpenMP 5.2, sections 21.1.2, 21.1.6 and 21.1.7; GCC's libgomp/env.c).
#![forbid(unsafe_code)]

use super::{Answer, Library, Query};

pub(super) const LIBRARY: Library = Library {
    name: "OpenMP",
    variables: &[
        (NUM_THREADS, num_threads),
        (PLACES, places),
        (PROC_BIND, proc_bind),
    ],
    evidence: &[GOMP_CPU_AFFINITY, KMP_AFFINITY],
    ..Library::NONE
};

const NUM_THREADS: &str = "OMP_NUM_THREADS";
const PLACES: &str = "OMP_PLACES";
const PROC_BIND: &str = "OMP_PROC_BIND";
/// One runtime's own variables for places.
const GOMP_CPU_AFFINITY: &str = "GOMP_CPU_AFFINITY";
const KMP_AFFINITY: &str = "KMP_AFFINITY";

fn num_threads(query: &Query) -> Option<Answer> {
    let threads = query.task.threads?;
    Some(Answer::yes(
        threads.to_string(),
        "the cores that are the task's part",
    ))
}

fn places(query: &Query) -> Option<Answer> {
    let answer = Answer::yes("cores", "places for programs that bind their own threads");
    unless_user_says(query, &[GOMP_CPU_AFFINITY, KMP_AFFINITY], answer)
}

/// The user's own places too stand against it: `false` would make the runtime ignore them.
fn proc_bind(query: &Query) -> Option<Answer> {
    let answer = Answer::yes("false", "a program that loads OpenMP keeps all its CPUs");
    unless_user_says(query, &[GOMP_CPU_AFFINITY, KMP_AFFINITY, PLACES], answer)
}

/// The answer, unless a variable of the user's says where threads run; none where `omp=on` does not hold.
fn unless_user_says(query: &Query, names: &[&str], answer: Answer) -> Option<Answer> {
    query.task.threads?;
    let name = names.iter().find(|name| query.users(name).is_some());
    Some(name.map_or(answer, |name| {
        Answer::no(format!("the user's `{name}` says where threads run"))
    }))
}

#[cfg(test)]
mod tests {
    use crate::libraries::{Evidence, Prepared, Present, environment};
    use crate::placement::{
        Change, CpuDecision, MemDecision, NodePlacement, Policy, TaskPlacement,
    };
    use crate::topology::{CpuSet, Provenance, Topology};

    /// The three variables in a step inside one of ours that set the first two.
    fn values(threads: Option<usize>, present: &[(&str, &str)]) -> Vec<String> {
        let topology = Topology::empty("test", Provenance::ThisSystem);
        let node = NodePlacement {
            policy: Policy::Closest,
            rails: Vec::new(),
            numbered_by_admin: Vec::new(),
            broken: Vec::new(),
            degraded: Vec::new(),
            left_to_libfabric: Vec::new(),
            excluded: Vec::new(),
            gpus: Vec::new(),
            diagnostics: Vec::new(),
        };
        let task = TaskPlacement {
            local_id: 0,
            global_id: 0,
            gpus: Vec::new(),
            seen: Vec::new(),
            rails: Vec::new(),
            cpus: CpuDecision::Keep {
                cpus: CpuSet::new(),
                why: String::new(),
            },
            mems: MemDecision::Keep { why: String::new() },
            threads,
            missed: None,
            reasons: Vec::new(),
        };
        let outer = [(
            "NIC_PLACEMENT",
            "v1 policy=closest gpus= nics= set:OMP_NUM_THREADS=7 set:OMP_PLACES=cores",
        )];
        let present: Present = present
            .iter()
            .chain(&outer)
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        let prepared = Prepared::new(
            &topology,
            &node,
            Default::default(),
            &Default::default(),
            &|_| None,
        );
        let evidence = Evidence {
            present: &present,
            read: &|_| None,
        };
        let variables = environment(&prepared, &topology, &node, &task, evidence);
        let ours = variables
            .iter()
            .filter(|variable| variable.name.starts_with("OMP_"));
        ours.map(|variable| match &variable.change {
            Change::Set(value) => format!("{}={value}", variable.name),
            Change::KeepUsers(value) => format!("{}: {value} stays", variable.name),
            Change::Remove => format!("{} goes", variable.name),
            Change::Leave => format!("{} is left", variable.name),
        })
        .collect()
    }

    #[test]
    fn nothing_is_set_unless_it_is_asked_for_and_what_an_outer_step_left_goes() {
        assert!(values(None, &[]).is_empty());
        assert_eq!(
            values(None, &[("OMP_NUM_THREADS", "4")]),
            ["OMP_NUM_THREADS: 4 stays"]
        );
        assert_eq!(
            values(None, &[("OMP_NUM_THREADS", "7")]),
            ["OMP_NUM_THREADS goes"]
        );
    }

    #[test]
    fn threads_are_counted_places_named_and_nobody_is_pinned() {
        let all = [
            "OMP_NUM_THREADS=14",
            "OMP_PLACES=cores",
            "OMP_PROC_BIND=false",
        ];
        assert_eq!(values(Some(14), &[]), all);
        let outer = values(Some(14), &[("OMP_PLACES", "cores")]);
        assert_eq!(outer, all, "an outer step's places are not the user's");
    }

    #[test]
    fn who_names_places_has_them() {
        let places = values(Some(14), &[("OMP_PLACES", "threads")]);
        assert_eq!(
            places[1..],
            ["OMP_PLACES: threads stays", "OMP_PROC_BIND is left"]
        );
        for name in ["GOMP_CPU_AFFINITY", "KMP_AFFINITY"] {
            assert_eq!(
                values(Some(14), &[(name, "0-3")])[1..],
                ["OMP_PLACES is left", "OMP_PROC_BIND is left"],
                "{name}"
            );
        }
    }
}
