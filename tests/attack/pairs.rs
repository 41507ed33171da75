//! Runs pairs of lines on a cluster, those of different nodes at the same time, and reads what they did.

use crate::judge::Set;
use crate::line::Pair;
use crate::slurm::bed::Bed;
use crate::slurm::task::{Task, numbers};
use crate::targets::Target;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;

/// What one half of a pair did.
#[derive(Debug, Clone)]
pub struct Half {
    pub code: i32,
    /// the tasks that reported, by rank
    pub tasks: Vec<Task>,
    /// the other lines that it wrote, in an order of their own, because those of several tasks mix
    pub stdout: Vec<String>,
    /// numbers of jobs and processes, and the order, are not the same twice
    pub stderr: Vec<String>,
    pub seconds: f64,
}

impl Half {
    /// Did Slurm run nothing?
    pub fn is_refused(&self) -> bool {
        self.tasks.is_empty() && self.code != 0
    }

    /// Was it the cgroups, which other clusters on this machine also make and remove?  The plugin touches none.
    pub fn is_disturbed(&self) -> bool {
        self.stderr
            .iter()
            .any(|line| line.contains("cgroup") && line.contains("No such file"))
    }

    /// What a task had, to be compared with another run.
    pub fn bindings(&self) -> Vec<(Vec<usize>, String, String, Vec<usize>)> {
        let of_task = |task: &Task| {
            let gpus = task.env("CUDA_VISIBLE_DEVICES").unwrap_or("-").to_string();
            let open = task.open().into_iter().collect();
            (
                task.cpus().into_iter().collect(),
                task.mem().to_string(),
                gpus,
                open,
            )
        };
        self.tasks.iter().map(of_task).collect()
    }
}

/// What a pair did.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub without: Half,
    pub with: Half,
    /// the cores of the jobs that held a part of the node, as Slurm counts them, with the threads of each
    pub held: Vec<Set>,
    /// did each of those jobs start?
    pub is_busy: bool,
}

/// A pair and where it runs.
pub struct Job<'p> {
    pub index: u64,
    pub target: Target,
    pub pair: &'p Pair,
}

/// Runs them and returns what they did, in their order.  `round` tells the folders of a second run from the first one's.
pub fn run(bed: &Bed, jobs: &[Job], round: usize) -> Vec<Outcome> {
    let script = bed.site.repository.join("tests/attack/pairs.sh");
    let mut by_node: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    let folders: Vec<PathBuf> = jobs.iter().map(|job| write(bed, job, round)).collect();
    for (job, folder) in jobs.iter().zip(&folders) {
        by_node
            .entry(job.target.node)
            .or_default()
            .push(folder.clone());
    }
    let said_of = |node: &str| bed.dir.join(format!("pairs.{node}.said"));
    let start = |(node, folders): (&str, Vec<PathBuf>)| -> (PathBuf, Child) {
        let said = fs::File::create(said_of(node)).expect("a file");
        let mut shell = bed.program("bash");
        shell
            .env("NICP_DIR", &bed.dir)
            .arg(&script)
            .arg(node)
            .args(folders)
            .stdout(said.try_clone().expect("a file"))
            .stderr(said);
        (said_of(node), shell.spawn().expect("`bash`"))
    };
    let shells: Vec<(PathBuf, Child)> = by_node.into_iter().map(start).collect();
    for (said, mut shell) in shells {
        let ended = shell.wait().expect("`bash`");
        assert!(
            ended.success(),
            "{}",
            fs::read_to_string(said).expect("a file")
        );
    }
    jobs.iter()
        .zip(&folders)
        .map(|(job, folder)| read(job, folder))
        .collect()
}

fn write(bed: &Bed, job: &Job, round: usize) -> PathBuf {
    let folder = bed.dir.join(format!("pairs/{}.{round}", job.index));
    fs::create_dir_all(&folder).expect("a folder for the pair");
    let file =
        |name: &str, text: &str| fs::write(folder.join(name), format!("{text}\n")).expect("a file");
    file("without.sh", &job.pair.without);
    file("with.sh", &job.pair.with);
    for (k, holder) in job.pair.holders.iter().enumerate() {
        file(&format!("hold.{k}"), holder);
    }
    if job.pair.leaves_hole {
        file("hole", "");
    }
    folder
}

fn read(job: &Job, folder: &Path) -> Outcome {
    let text = |name: &str| {
        String::from_utf8_lossy(&fs::read(folder.join(name)).unwrap_or_default()).into_owned()
    };
    let half = |name: &str| {
        let stdout = text(&format!("{name}.out"));
        let code = text(&format!("{name}.code"));
        let words: Vec<f64> = code
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let mut others: Vec<String> = stdout
            .lines()
            .filter(|line| !line.starts_with("rank="))
            .map(str::to_string)
            .collect();
        others.sort();
        Half {
            code: words.first().map_or(-1, |code| *code as i32),
            tasks: Task::all_in(&stdout),
            stdout: others,
            stderr: complaints(&text(&format!("{name}.err"))),
            seconds: if words.len() == 3 {
                words[2] - words[1]
            } else {
                0.0
            },
        }
    };
    let holders = job.pair.holders.len();
    let started = |k: &usize| folder.join(format!("held.{k}")).exists();
    let held =
        (usize::from(job.pair.leaves_hole)..holders).map(|k| cpu_ids(&text(&format!("job.{k}"))));
    Outcome {
        without: half("without"),
        with: half("with"),
        held: held.collect(),
        is_busy: (0..holders).all(|k| started(&k)),
    }
}

/// The lines of a half's stderr, without what differs from run to run.
fn complaints(text: &str) -> Vec<String> {
    // srun may say that it waits for the last job's end, names the tasks that end together in one line, and tells of a job's
    // end where it hears of that before it asks
    let by_chance =
        "srun: job |salloc: |srun: error: n|srun: Job allocation |srun: Force Terminated ";
    let of_itself = |line: &&str| by_chance.split('|').any(|start| line.starts_with(start));
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| !of_itself(line))
        .map(|line| {
            let mut plain = String::new();
            for letter in line.chars() {
                match letter.is_ascii_digit() {
                    true if plain.ends_with('#') => {}
                    true => plain.push('#'),
                    false => plain.push(letter),
                }
            }
            plain
        })
        .collect();
    lines.sort();
    lines
}

/// `CPU_IDs=0-7` of `scontrol -d show job`: threads numbered core by core.
fn cpu_ids(text: &str) -> Set {
    let list = text
        .split_whitespace()
        .find_map(|word| word.strip_prefix("CPU_IDs="));
    numbers(list.unwrap_or_default())
        .into_iter()
        .map(|cpu| cpu as u32)
        .collect()
}

/// Prints what a pair wrote, and what the node's log says of us.
pub fn show_all(bed: &Bed, job: &Job) {
    let folder = bed.dir.join(format!("pairs/{}.0", job.index));
    for name in [
        "without.sh",
        "without.out",
        "without.err",
        "with.sh",
        "with.out",
        "with.err",
        "job.0",
        "job.1",
    ] {
        let text = fs::read(folder.join(name)).unwrap_or_default();
        print!("{name}:\n{}", String::from_utf8_lossy(&text));
    }
    let log =
        fs::read(bed.dir.join(format!("log/slurmd.{}.log", job.target.node))).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    log.lines()
        .filter(|line| line.contains("nic-placement"))
        .for_each(|line| println!("{line}"));
}
