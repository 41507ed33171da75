//! `omp=on`: `OMP_NUM_THREADS`, `OMP_PLACES` and `OMP_PROC_BIND`.
//!
//! Without `OMP_NUM_THREADS` a runtime starts a thread for each CPU of the mask, even if tasks
//! share the mask. With `OMP_PLACES`, or a true `OMP_PROC_BIND`, a runtime pins its initial thread
//! to one core, and threads started later stay on this core (GCC 12's libgomp, as in a Python
//! program that imports PyTorch; mpibind issue 41). So we set `OMP_PROC_BIND=false` too: libgomp
//! then ignores the places. If the user sets `OMP_PROC_BIND=spread`, our places give each thread a
//! core (OpenMP 5.2, sections 21.1.2, 21.1.6 and 21.1.7; GCC's libgomp/env.c).

use super::{Answer, Library, Query};

pub const LIBRARY: Library = Library {
    name: "OpenMP",
    variables: &[
        ("OMP_NUM_THREADS", num_threads),
        ("OMP_PLACES", places),
        ("OMP_PROC_BIND", proc_bind),
    ],
    // thread placement by GCC's runtime; by Intel's and LLVM's
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

/// No value if the user sets `more` or a variable of `evidence`; `None` without the task's
/// `threads`.
fn unless_user_says(query: &Query, more: Option<&str>, answer: Answer) -> Option<Answer> {
    query.task.threads?;
    let mut names = LIBRARY.evidence.iter().copied().chain(more);
    let name = names.find(|name| query.users(name).is_some());
    let no = |name| Answer::no(format!("the user's `{name}` says where threads run"));
    Some(name.map_or(answer, no))
}
