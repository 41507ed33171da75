//! `omp=on`: `OMP_NUM_THREADS`, `OMP_PLACES` and `OMP_PROC_BIND` for OpenMP.
//!
//! Without `OMP_NUM_THREADS` a runtime starts a thread for each CPU of the mask, also in tasks that
//! share the mask. With `OMP_PLACES`, or a true `OMP_PROC_BIND`, a runtime pins its initial thread
//! to one core, which later threads inherit (GCC 12's libgomp, as in a Python program that imports
//! PyTorch; mpibind issue 41). So our places come with `OMP_PROC_BIND=false`: libgomp then ignores
//! the places. A user's `OMP_PROC_BIND=spread` then gives each thread a core (OpenMP 5.2, sections
//! 21.1.2, 21.1.6 and 21.1.7; GCC's libgomp/env.c).

use super::{Answer, Library, Query};

pub const LIBRARY: Library = Library {
    name: "OpenMP",
    variables: &[
        ("OMP_NUM_THREADS", num_threads),
        ("OMP_PLACES", places),
        ("OMP_PROC_BIND", proc_bind),
    ],
    // places of GCC's runtime, and of Intel's and LLVM's
    evidence: &["GOMP_CPU_AFFINITY", "KMP_AFFINITY"],
    ..Library::NONE
};

fn num_threads(query: &Query) -> Option<Answer> {
    let why = "the cores that are the task's part";
    Some(Answer::yes(query.task.threads?.to_string(), why))
}

fn places(query: &Query) -> Option<Answer> {
    let answer = Answer::yes("cores", "places for programs that bind their own threads");
    unless_user_says(query, None, answer)
}

/// No value if the user has `OMP_PLACES`, which `false` would disable.
fn proc_bind(query: &Query) -> Option<Answer> {
    let answer = Answer::yes("false", "a program that loads OpenMP keeps all its CPUs");
    unless_user_says(query, Some("OMP_PLACES"), answer)
}

/// No value if the user sets `more` or a variable of `evidence`; `None` without `omp=on`.
fn unless_user_says(query: &Query, more: Option<&str>, answer: Answer) -> Option<Answer> {
    query.task.threads?;
    let mut names = LIBRARY.evidence.iter().copied().chain(more);
    let name = names.find(|name| query.users(name).is_some());
    let no = |name| Answer::no(format!("the user's `{name}` says where threads run"));
    Some(name.map_or(answer, no))
}

#[cfg(test)]
mod tests {
    use crate::libraries::{Evidence, Prepared, Present, environment};
    use crate::placement::{Change, NodePlacement, Policy, TaskPlacement};
    use crate::topology::{Provenance, Topology};

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
            threads,
            ..TaskPlacement::default()
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
