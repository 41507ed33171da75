//! Real launchers in real jobs: their daemons, which srun starts, and the ranks that these start.
//!
//! MPICH 4 and Open MPI 4 are Debian's; the newest ones come from PyPI (tests/exec/install.sh).  The ranks are the task that
//! reports: no MPI program is needed to see what a launcher hands on.

use super::suite::*;
use crate::slurm::site::launchers;

pub const CASES: &[Case] = cases![
    the_ranks_of_mpich_4_have_their_own_nics_by_exec_and_without_it_no_other_tasks:
        |bed| hydra(bed, &launcher(bed, "", "mpiexec.mpich")),
    the_ranks_of_mpich_5_have_their_own_nics_by_exec_and_without_it_no_other_tasks:
        |bed| hydra(bed, &launcher(bed, "mpich-5.0.2", "mpiexec")),
    the_ranks_of_intel_mpi_have_their_own_nics_by_exec_and_without_it_no_other_tasks:
        |bed| hydra(bed, &launcher(bed, "impi-rt-2021.19.0", "mpiexec")),
    open_mpi_5_hands_its_ranks_what_the_step_has_and_exec_gives_each_its_own,
    a_number_of_an_mpirun_around_srun_is_not_that_of_slurms_task,
];
pub const WITH_CGROUPS: &[Case] =
    cases![the_ranks_below_a_daemon_have_the_nics_of_the_gpus_that_its_step_may_open];

/// A launcher's command: Debian's, or that of a wheel, whose folder is named.
fn launcher(bed: &Bed, wheel: &str, command: &str) -> String {
    // the libraries of a wheel's programs lie beside them, and Intel MPI looks for its own by this variable
    let root = match wheel {
        "" => bed.site.root.join("usr"),
        _ => launchers().join(wheel),
    };
    let path = root.join("bin").join(command);
    if !path.is_file() {
        skip(format!(
            "there is no `{}`: tests/exec/install.sh",
            path.display()
        ));
    }
    format!("I_MPI_ROOT={} {}", root.display(), path.display())
}

/// `exec` on a node that is played, where the program's CPUs are its own again.
fn exec(bed: &Bed, words: &str) -> String {
    let (tool, dir) = (bed.tool(), bed.dir.display());
    format!("env LD_PRELOAD={dir}/bin/fakecpu.so {tool} exec {words} --")
}

/// The job's script runs to its end.
fn job(bed: &Bed, options: &str, script: &str) -> Ran {
    let script = format!("#!/bin/bash\n{script}\necho ended: $?\n");
    let ran = bed.run(&bed.submit(&format!("-w n0 -N1 {options}"), &script));
    assert!(ran.stdout.contains("ended: 0"), "{}", ran.stdout);
    ran
}

const ONE_GPU_EACH: &str = "-n8 -c14 --gpus-per-task=1";
/// Ranks, and GPUs of the node.
const ALL: usize = 8;

/// Each rank has the NIC of its own GPU, and one list for NCCL.
#[track_caller]
fn are_placed(ranks: &[Task]) {
    let all_nics = ucx_of_all(0..ALL);
    assert_eq!((ranks.len(), nics_of(ranks).len()), (ALL, ALL), "{ranks:?}");
    all(ranks, |rank| {
        rank.ucx().len() == 1
            && all_nics.iter().any(|nic| *nic == rank.ucx()[0])
            && rank.is_listed()
    });
}

/// Hydra lays mpiexec's own environment over that of its daemon's step: its GPUs are the job's, whatever that step has.
fn hydra(bed: &Bed, mpiexec: &str) {
    let ranks = format!("{mpiexec} -n 8 $report");
    let without = job(bed, ONE_GPU_EACH, &ranks).tasks;
    assert_eq!(without.len(), ALL);
    all(&without, |rank| {
        rank.is_untouched() && rank.gpus().len() == ALL
    });
    for words in ["", "strict", "single-numa-node,verbose"] {
        let flag = asked(words, &format!("{ONE_GPU_EACH} @"));
        let with = job(bed, &flag, &ranks);
        assert_eq!(with.tasks, without, "`{words}`");
        let told = "put `nic-placement exec --` before the ranks";
        let told = with.stdout.matches(told);
        assert_eq!(told.count(), 1, "{}", with.stdout);
        // the words are for the ranks, each of which has a GPU on one NUMA node
        let by_exec = format!("{mpiexec} -n 8 {} $report", exec(bed, words));
        are_placed(&job(bed, &flag, &by_exec).tasks);
    }
}

fn the_ranks_below_a_daemon_have_the_nics_of_the_gpus_that_its_step_may_open(bed: &Bed) {
    let mpiexec = launcher(bed, "mpich-5.0.2", "mpiexec");
    let plain = format!("{mpiexec} -n 8 $report");
    let by_exec = format!("{mpiexec} -n 8 {} $report", exec(bed, ""));
    let without = job(bed, ONE_GPU_EACH, &plain).tasks;
    // the variable names the job's eight; from 23.11 on MPICH 5 says `--external-launcher`, by which the step has them all
    let opens = if bed.site.release < (23, 11) { 1 } else { ALL };
    assert_eq!(without.len(), ALL);
    all(&without, |rank| {
        (rank.gpus().len(), rank.open().len()) == (ALL, opens)
    });
    let flag = format!("{ONE_GPU_EACH} --nic-placement");
    assert_eq!(job(bed, &flag, &plain).tasks, without);
    let placed = job(bed, &flag, &by_exec).tasks;
    match opens {
        ALL => are_placed(&placed),
        _ => all(&placed, |rank| rank.ucx() == ucx_of_all(rank.open())),
    }
    are_placed(&job(bed, "-n8 -c14 --gres=gpu:8 --nic-placement", &by_exec).tasks);
}

fn open_mpi_5_hands_its_ranks_what_the_step_has_and_exec_gives_each_its_own(bed: &Bed) {
    let mpirun = launcher(bed, "openmpi-5.0.11", "mpirun");
    // now and then it waits for its daemon after all ranks have ended, without the plugin too: then it is started anew
    let ranks = |before: &str| {
        let mpirun = format!("timeout 12 env {mpirun} --allow-run-as-root --bind-to none");
        let again = "scancel $SLURM_JOB_ID.$step; sleep 1";
        let step = format!("{mpirun} -n 8 {before} $report > ranks && break; {again}");
        format!("for step in 0 1 2; do {step}; done; cat ranks")
    };
    let options = "-n8 -c14 --gres=gpu:8";
    let without = job(bed, options, &ranks("")).tasks;
    assert_eq!(without.len(), ALL);
    all(&without, Task::is_untouched);
    let options = format!("{options} --nic-placement=strict");
    are_placed(&job(bed, &options, &ranks(&exec(bed, ""))).tasks);
}

fn a_number_of_an_mpirun_around_srun_is_not_that_of_slurms_task(bed: &Bed) {
    let mpirun = launcher(bed, "", "mpirun.openmpi");
    let mpirun = format!("{mpirun} --allow-run-as-root --oversubscribe --bind-to none");
    let exec = exec(bed, "");
    // one rank of two calls srun, as the ranks of a workflow do
    let step = format!("srun -w n0 -n4 -c14 --gres=gpu:8 {exec} $report");
    let first = format!("[ $OMPI_COMM_WORLD_RANK = 0 ] || exec {step}");
    all(
        &bed.tasks(4, &format!("{mpirun} -n 2 bash -c '{first}'")),
        |task| {
            let near = cpus_near(task.local());
            task.ucx() == [ucx_of(task.local())] && task.cpus().is_subset(&near)
        },
    );
    // a launcher in a task of srun: the ranks' numbers are its own, and Slurm's is that of the task
    let mpiexec = launcher(bed, "", "mpiexec.mpich");
    let ranks = format!("env {mpiexec} -launcher fork -n 4 {exec} $report");
    let inside = bed.tasks(4, &format!("srun -w n0 -n1 -c56 --gres=gpu:8 {ranks}"));
    let four = ucx_of_all(0..4);
    all(&inside, |task| task.ucx().len() == 1);
    assert_eq!(nics_of(&inside), four.iter().map(String::as_str).collect());
}
