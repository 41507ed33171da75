//! The runner of the cases, and the checks of their tables.

pub use crate::slurm::bed::{Bed, Ran, asked, srun, while_another_job_has_gpus};
pub(crate) use crate::slurm::cases::cases;
pub use crate::slurm::cases::skip;
pub use crate::slurm::machines::*;
pub use crate::slurm::plugins::between;
pub use crate::slurm::task::{Set, Task, all, each, numbers};
pub use std::collections::BTreeSet;
pub use std::fs;
pub use std::path::{Path, PathBuf};
pub use std::process::Command;

use crate::slurm::cases::Tally;
use crate::slurm::site::Site;
use std::process::ExitCode;
use std::time::Instant;

/// A case: its name is the sentence that it proves.
pub type Case = (&'static str, fn(&Bed));

/// Steps of tasks with a GPU each.
pub const TWO: &str = "srun -w n0 -n2 --gpus-per-task=1 @ $report";
pub const EIGHT: &str = "srun -w n0 -n8 --gpus-per-task=1 @ $report";
/// Deals GPUs in order, and tasks over the sockets in turn, on every release: half of the tasks are on the wrong socket.
pub const ACROSS: &str = "--gres=gpu:8 --gpu-bind=map_gpu:0,1,2,3,4,5,6,7 -m block:cyclic";
/// Two tasks on a whole node, one on each socket; each task's GPUs are on the other socket.
pub const CROSSED: &str = "-w n0 -n2 -c112 -m block:block --gres=gpu:8 --gpu-bind=map_gpu:4,0";
/// A step inside one that holds the job's resources, which it may use.
pub const INNER: &str = "srun --overlap -n1 -c8 --gres=gpu:1 --cpu-bind=none";

/// An outer srun with all GPUs and one task, which runs `inner`.
pub fn nested(inner: &str) -> String {
    format!("srun -w n0 -n1 -c8 --gres=gpu:8 @ bash -c '{inner}'")
}

/// A program as another user.
pub const NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups";

/// A step's tasks, without the option and with it.
pub struct Pair<'b> {
    bed: &'b Bed<'b>,
    bare: Vec<Task>,
    with: Vec<Task>,
}

impl Pair<'_> {
    pub fn tasks(&self) -> &[Task] {
        &self.with
    }

    #[track_caller]
    pub fn each(&self, is: impl Fn(&Task, &Task) -> bool) {
        each(&self.bare, &self.with, is);
    }
}

/// Rows of steps that run without the option and with it: `name: tasks "options of srun, or the whole line" [its words]
/// (the plugin's arguments) => checks`.
macro_rules! rows {
    ($($name:ident: $tasks:literal $line:literal $([$words:literal])? $(($conf:literal))? => $($check:expr),+;)*) => {
        &[$((stringify!($name), |bed| {
            let words = [concat!($($words)?), concat!($($conf)?)];
            $crate::end_to_end::suite::row(bed, words, $tasks, $line, &[$(&$check),+])
        })),*]
    };
}
pub(crate) use rows;

pub fn row(
    bed: &Bed,
    [words, conf]: [&str; 2],
    tasks: usize,
    line: &str,
    checks: &[&dyn Fn(&Pair)],
) {
    let is_whole = line.contains('@');
    let line = if is_whole {
        line.to_string()
    } else {
        srun(line)
    };
    bed.plugin(conf);
    let (bare, with) = bed.both(words, tasks, &line);
    let pair = Pair { bed, bare, with };
    checks.iter().for_each(|check| check(&pair));
}

/// Each task is so.
pub fn is(is: impl Fn(&Task) -> bool) -> impl Fn(&Pair) {
    move |pair| all(&pair.with, &is)
}

/// Each task has the NICs of exactly the GPUs that its vendor variable lists, and the node's list.
pub fn own(pair: &Pair) {
    assert_own(&pair.with);
}

#[track_caller]
pub fn assert_own(tasks: &[Task]) {
    all(tasks, |task| {
        task.is_own() && task.is_listed() && task.env("NIC_PLACEMENT").is_some()
    });
}

/// Each task has so many NICs.
pub fn nics(count: usize) -> impl Fn(&Pair) {
    is(move |task| task.ucx().len() == count)
}

/// All tasks have so many different ones.
pub fn different(count: usize) -> impl Fn(&Pair) {
    move |pair| assert_eq!(nics_of(&pair.with).len(), count, "{:?}", pair.with)
}

pub fn nics_of(tasks: &[Task]) -> BTreeSet<&str> {
    tasks.iter().flat_map(Task::ucx).collect()
}

/// The tasks have the NICs of these GPUs, in turn.
pub fn dealt(gpus: &'static [&'static [usize]]) -> impl Fn(&Pair) {
    move |pair| {
        for (task, gpus) in pair.with.iter().zip(gpus.iter().cycle()) {
            assert_eq!(task.ucx(), ucx_of_all(gpus.iter().copied()), "{task:?}");
        }
    }
}

/// Each task has the NICs of as many GPUs as it may open, told by its device nodes.
pub fn open(count: usize) -> impl Fn(&Pair) {
    move |pair| assert_open(pair.bed, &pair.with, count)
}

#[track_caller]
pub fn assert_open(bed: &Bed, tasks: &[Task], count: usize) {
    let folders = gpu_folders(&dgx(bed.site));
    let minors: Vec<usize> = folders.iter().map(|folder| minor(folder)).collect();
    all(tasks, |task| {
        let open = task.open();
        let gpus = (0..minors.len()).filter(|gpu| open.contains(&minors[*gpu]));
        open.len() == count && task.ucx() == ucx_of_all(gpus) && task.is_listed()
    });
}

/// Each task runs where it ran.
pub fn stays(pair: &Pair) {
    pair.each(|bare, task| task.cpus() == bare.cpus());
}

/// And its memory comes from where it came.
pub fn as_bound(pair: &Pair) {
    pair.each(|bare, task| task.binding() == bare.binding());
}

/// Its memory is preferred near its GPU.
pub fn remembers(pair: &Pair) {
    let is_so = |task: &Task| task.prefers([numa_node_of(task.gpu())].into());
    all(&pair.with, is_so);
}

/// UCX chooses by itself.
pub fn unset(pair: &Pair) {
    all(&pair.with, |task| task.lacks(&["UCX_NET_DEVICES"]));
}

/// No task runs away from its GPU.
pub fn none_far(pair: &Pair) {
    assert_eq!(far(&pair.with), 0, "{:?}", pair.with);
}

/// All tasks run near their GPUs alone.
pub fn near(pair: &Pair) {
    all(&pair.with, Task::is_near);
}

/// No task runs on a CPU that the step had not.
pub fn inside(pair: &Pair) {
    let is_so = cpus_of(&pair.with).is_subset(&cpus_of(&pair.bare));
    assert!(is_so, "{:?}", pair.with);
}

pub fn cpus_of(tasks: &[Task]) -> Set {
    tasks.iter().flat_map(Task::cpus).collect()
}

/// Tasks with one GPU that run on none of the CPUs near it.
pub fn far(tasks: &[Task]) -> usize {
    tasks.iter().filter(|task| task.is_far()).count()
}

/// The numbers of `far`, where Slurm alone puts a task away from its GPU and the plugin none.
#[track_caller]
pub fn assert_moved(bare: &[Task], with: &[Task]) {
    assert!(far(bare) > 0 && far(with) == 0, "{with:?} had {bare:?}");
}

#[track_caller]
pub fn assert_no_poorer(bare: &[Task], with: &[Task]) {
    each(bare, with, |bare, task| {
        task.cpus().len() >= bare.cpus().len()
    });
}

/// Each task has whole cores, with both threads, and no core is in two tasks.
#[track_caller]
pub fn assert_cores_of_their_own(tasks: &[Task]) {
    let is_whole = |cpus: Set| cpus.iter().all(|cpu| cpus.contains(&((cpu + 112) % 224)));
    all(tasks, |task| is_whole(task.cpus()));
    assert_apart(tasks);
}

pub fn cores_of_their_own(pair: &Pair) {
    assert_cores_of_their_own(&pair.with);
}

/// No CPU is in two tasks.
#[track_caller]
pub fn assert_apart(tasks: &[Task]) {
    let count: usize = tasks.iter().map(|task| task.cpus().len()).sum();
    assert_eq!(count, cpus_of(tasks).len(), "{tasks:#?}");
}

pub struct Suite<'s> {
    site: &'s Site,
    tally: Tally,
    /// `HALF`: the cases of even or odd number, for two runs beside each other
    half: Option<usize>,
}

impl Suite<'_> {
    pub fn new(site: &Site) -> Suite<'_> {
        Suite {
            site,
            tally: Tally::new(),
            half: std::env::var("HALF")
                .ok()
                .map(|half| half.parse().expect("0 or 1")),
        }
    }

    /// Runs the wanted cases of `groups` on one cluster, which is up only for them.
    pub fn on(&mut self, cluster: Cluster, groups: &[&[Case]]) {
        let cases = groups.iter().flat_map(|group| group.iter()).enumerate();
        let is_ours = |number: usize| self.half.is_none_or(|half| number % 2 == half);
        let cases = cases.filter(|(number, case)| is_ours(*number) && self.tally.wants(case.0));
        let cases: Vec<&Case> = cases.map(|(_, case)| case).collect();
        if cases.is_empty() {
            return;
        }
        if let Some(why) = cluster.lacks(self.site) {
            return self
                .tally
                .skip(cases.len(), &format!("cases on `{}`", cluster.name), why);
        }
        let (site, start) = (self.site, Instant::now());
        let up = || Bed::up(site, &cluster, &[]);
        match Tally::caught(up).and_then(|up| up) {
            Ok(bed) => {
                let took = start.elapsed().as_secs_f64();
                println!("cluster `{}` is up ({took:.2} s)", cluster.name);
                for (name, case) in cases {
                    let case = || {
                        bed.begin_case();
                        case(&bed);
                    };
                    self.tally
                        .run(name, case, || bed.transcript.borrow().clone());
                }
            }
            Err(why) => {
                let why = format!("cluster `{}` did not come up: {why}", cluster.name);
                self.tally.fail(cases.len(), why);
            }
        }
    }

    pub fn end(self) -> ExitCode {
        self.site.end(self.tally.end())
    }
}
