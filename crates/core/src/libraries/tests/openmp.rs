//! Threads and places, in a step inside one of ours that set both.

use super::*;

fn values(threads: Option<usize>, present: &[&str]) -> Vec<String> {
    let outer =
        "NIC_PLACEMENT=v1 policy=closest gpus= nics= set:OMP_NUM_THREADS=7 set:OMP_PLACES=cores";
    let mut situation = here().env(&[outer]).env(present);
    situation.task.threads = threads;
    let told = situation.told().into_iter();
    let ours = told.filter(|(name, ..)| name.starts_with("OMP_"));
    ours.map(|(name, change, _)| match change {
        Change::Set(value) => format!("{name}={value}"),
        Change::KeepUsers(value) => format!("{name}: {value} stays"),
        Change::Remove => format!("{name} goes"),
        Change::Leave => format!("{name} is left"),
    })
    .collect()
}

#[test]
fn threads_and_places_are_set_where_asked_for_and_a_users_own_places_stay() {
    let threads = "OMP_NUM_THREADS=14";
    let all = [threads, "OMP_PLACES=cores", "OMP_PROC_BIND=false"];
    let left = [all[0], "OMP_PLACES is left", "OMP_PROC_BIND is left"];
    let kept = [all[0], "OMP_PLACES: threads stays", "OMP_PROC_BIND is left"];
    for (threads, present, expected) in [
        (None, &[][..], &[][..]),
        (None, &["OMP_NUM_THREADS=4"], &["OMP_NUM_THREADS: 4 stays"]),
        (None, &["OMP_NUM_THREADS=7"], &["OMP_NUM_THREADS goes"]),
        (Some(14), &[], &all),
        // an outer step's places are not the user's
        (Some(14), &["OMP_PLACES=cores"], &all),
        (Some(14), &["OMP_PLACES=threads"], &kept),
        (Some(14), &["GOMP_CPU_AFFINITY=0-3"], &left),
        (Some(14), &["KMP_AFFINITY=0-3"], &left),
    ] {
        let found = values(threads, present);
        assert_eq!(found, expected, "{threads:?} {present:?}");
    }
}
