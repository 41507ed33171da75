//! Clusters, and commands on them.

use crate::machines::Cluster;
use crate::report::{Task, VARIABLES};
use crate::site::Site;
use std::cell::RefCell;
use std::fs;
use std::panic::panic_any;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A case that cannot run here says why by `skip`.
pub struct Skipped(pub String);

pub fn skip(reason: impl Into<String>) -> ! {
    panic_any(Skipped(reason.into()))
}

/// A shell command that runs while another job on n0 holds that many GPUs.
pub fn while_another_job_has_gpus(gpus: usize, command: &str) -> String {
    format!(
        "rm -f held release
         srun -w n0 -n1 --gres=gpu:{gpus} bash -c 'touch held; until [ -e release ]; do sleep 0.05; done' &
         until [ -e held ]; do sleep 0.05; done
         {command}; code=$?
         touch release; wait; exit $code"
    )
}

/// A cluster that runs.
pub struct Bed<'w> {
    pub site: &'w Site,
    pub dir: PathBuf,
    /// what the cluster was brought up with
    knobs: Vec<(&'static str, String)>,
    /// what the current case ran, to be shown if it fails
    pub transcript: RefCell<String>,
    /// how long each node's log was when the current case began
    log_starts: RefCell<Vec<u64>>,
    nodes: usize,
    guard: Child,
}

/// What a command did.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    /// the tasks that reported
    pub tasks: Vec<Task>,
    pub took: Duration,
}

impl<'w> Bed<'w> {
    /// Brings a cluster up, with `more` knobs of `cluster.sh` than the cluster names.
    pub fn up(
        site: &'w Site,
        cluster: &Cluster,
        more: &[(&'static str, String)],
    ) -> Result<Bed<'w>, String> {
        let dir = site.dir.join(cluster.name);
        let script = site.repository.join("tests/slurm/cluster.sh");
        let machines: Vec<String> = cluster
            .nodes
            .iter()
            .enumerate()
            .map(|(k, machine)| format!("n{k}={}", machine(site).display()))
            .collect();
        let mut knobs = vec![
            ("NICP_DIR", dir.display().to_string()),
            ("NICP_NODES", cluster.nodes.len().to_string()),
            ("NICP_MACHINES", machines.join(" ")),
            ("NICP_PLUGSTACK", (cluster.plugstack)(site)),
            ("NICP_ROOT", site.root.display().to_string()),
            ("NICP_BIND", site.shared()),
            (
                "NICP_AUTODETECT",
                cluster
                    .autodetect
                    .and_then(|word| word(site))
                    .unwrap_or_default()
                    .to_string(),
            ),
            ("NICP_EXTRA", (cluster.extra)(site)),
            ("NICP_SHAPES", cluster.shape.unwrap_or_default().to_string()),
            (
                "NICP_PRELOAD",
                cluster
                    .preload
                    .map_or(String::new(), |library| library(site).display().to_string()),
            ),
            ("NICP_CGROUP", yes_or_no(cluster.cgroups)),
            ("NICP_RAM", yes_or_no(cluster.ram)),
            // one cluster at a time, below the ports that the kernel hands out
            (
                "NICP_PORT",
                (20_000 + std::process::id() % 120 * 100).to_string(),
            ),
        ];
        knobs.extend_from_slice(more);
        // Takes the cluster down when this process ends.  The end closes the pipe, whatever its cause.
        let guard = Command::new("setsid")
            .args(["bash", "-c", r#"read -r _; "$0" down 2> /dev/null"#])
            .arg(&script)
            .envs(knobs.clone())
            .stdin(Stdio::piped())
            .spawn()
            .map_err(|e| format!("`setsid`: {e}"))?;
        let bed = Bed {
            site,
            dir,
            knobs: knobs.clone(),
            transcript: RefCell::default(),
            log_starts: RefCell::default(),
            nodes: cluster.nodes.len(),
            guard,
        };
        // to a file: the daemons inherit it, and a pipe would stay open as long as they live
        let said = site.dir.join(format!("{}.up", cluster.name));
        let file = fs::File::create(&said).map_err(|e| e.to_string())?;
        let mut up = Command::new(&script);
        up.arg("up")
            .envs(knobs)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file);
        let status = up
            .status()
            .map_err(|e| format!("`{}`: {e}", script.display()))?;
        if !status.success() {
            return Err(fs::read_to_string(&said).unwrap_or_default());
        }
        Ok(bed)
    }

    /// Sets plugstack.conf; srun and slurmstepd read it anew each time.
    pub fn plugstack(&self, text: &str) {
        self.note(&format!("plugstack.conf: {text}\n"));
        fs::write(self.dir.join("etc/plugstack.conf"), format!("{text}\n"))
            .expect("plugstack.conf");
    }

    /// The usual plugstack.conf line with these arguments.
    pub fn plugin(&self, arguments: &str) {
        self.plugstack(&self.site.plugstack_line(arguments));
    }

    /// A program to run on the cluster, with `$report` in its environment, the task that reports.
    pub fn program(&self, program: &str) -> Command {
        let report = format!("{} {VARIABLES}", self.dir.join("bin/report").display());
        let mut process = self.inside(program);
        process.current_dir(&self.dir);
        for (name, _) in std::env::vars_os() {
            // a task must not inherit this test's own variables of Slurm and the libraries
            let name = name.to_string_lossy().into_owned();
            if [
                "SLURM", "SBATCH", "SALLOC", "UCX_", "NCCL_", "CUDA_", "NIC_", "LD_",
            ]
            .iter()
            .any(|prefix| name.starts_with(prefix))
            {
                process.env_remove(name);
            }
        }
        process
            .env("SLURM_CONF", self.configuration())
            .env("report", report)
            .stdin(Stdio::null());
        process
    }

    /// Runs a shell command on the cluster; `$report` in it is the task that reports.
    pub fn run(&self, command: &str) -> Ran {
        let mut process = self.program("timeout");
        process.args(["--kill-after=5", "60", "bash", "-c", command]);
        // not to pipes: a process that outlives the time limit would hold them open
        let (out, err) = (self.dir.join("stdout"), self.dir.join("stderr"));
        process
            .stdout(fs::File::create(&out).expect("a file"))
            .stderr(fs::File::create(&err).expect("a file"));
        let start = Instant::now();
        let status = process.status().expect("`timeout`");
        let took = start.elapsed();
        let read =
            |file: &Path| String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned();
        let stdout = read(&out);
        let ran = Ran {
            code: status.code().unwrap_or(-1),
            tasks: Task::all_in(&stdout),
            stdout,
            // srun may print that it waits for the last job's end; that does not matter here
            stderr: read(&err)
                .lines()
                .filter(|line| !line.starts_with("srun: job ") && !line.starts_with("salloc: "))
                .map(|line| format!("{line}\n"))
                .collect(),
            took,
        };
        if [124, 137].contains(&ran.code) {
            // a command that hangs must not hold up the next case
            let _ = self
                .inside("scancel")
                .arg("--partition=all")
                .env("SLURM_CONF", self.configuration())
                .status();
        }
        self.note(&format!(
            "$ {command}\n{}{}exit code {}\n",
            ran.stdout, ran.stderr, ran.code
        ));
        ran
    }

    /// Ends a node's slurmd and starts it anew; the steps on that node go on.
    pub fn restart(&self, node: &str) {
        let script = self.site.repository.join("tests/slurm/cluster.sh");
        let said = self.dir.join("restarted");
        let mut restart = Command::new(&script);
        restart
            .args(["restart", node])
            .envs(self.knobs.clone())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        restart.stderr(fs::File::create(&said).expect("a file"));
        let status = restart.status().expect("`cluster.sh`");
        assert!(
            status.success(),
            "{}",
            fs::read_to_string(&said).unwrap_or_default()
        );
        self.note(&format!("slurmd of {node} was restarted\n"));
    }

    /// The folder with `sys` and `dev` of the machine that a node plays.
    pub fn machine(&self, node: &str) -> PathBuf {
        self.dir.join("node").join(node)
    }

    /// The number of a node's slurmd process.
    pub fn slurmd(&self, node: &str) -> String {
        let recorded = fs::read_to_string(self.dir.join(format!("pid/slurmd.{node}")));
        recorded
            .expect("slurmd runs")
            .split(' ')
            .next()
            .unwrap_or_default()
            .to_string()
    }

    /// slurm.conf.
    pub fn configuration(&self) -> PathBuf {
        self.dir.join("etc/slurm.conf")
    }

    /// A program of the distribution that Slurm is of.
    fn inside(&self, program: &str) -> Command {
        if self.site.root == Path::new("/") {
            return Command::new(program);
        }
        let recorded =
            fs::read_to_string(self.dir.join("pid/root")).expect("the process that keeps the root");
        let mut command = Command::new("nsenter");
        command.args([
            "--target",
            recorded.split(' ').next().unwrap_or_default(),
            "--mount",
            "--root",
        ]);
        command
            .arg(format!("--wdns={}", self.dir.display()))
            .arg(program);
        command
    }

    /// `run`, and the command must succeed with `tasks` reports.
    pub fn tasks(&self, tasks: usize, command: &str) -> Vec<Task> {
        let ran = self.run(command);
        assert_eq!(ran.code, 0, "the exit code of `{command}`");
        assert_eq!(
            ran.tasks.len(),
            tasks,
            "the number of tasks that reported, of `{command}`"
        );
        ran.tasks
    }

    /// Runs the command twice, with `@` replaced by nothing and by `flag`.  Returns the tasks without and with the flag.
    /// Without it no task may show a trace of the plugin.
    pub fn without_and_with(
        &self,
        flag: &str,
        tasks: usize,
        command: &str,
    ) -> (Vec<Task>, Vec<Task>) {
        let without = self.tasks(tasks, &command.replace('@', ""));
        for task in &without {
            assert!(
                task.is_untouched(),
                "without the flag the plugin touched {task:?}"
            );
        }
        (without, self.tasks(tasks, &command.replace('@', flag)))
    }

    /// A command for `run`: submits a script with two tasks of one GPU each, waits for its end, prints what it printed.
    pub fn batch(&self, options: &str, script: &str) -> String {
        self.file("script", &format!("#!/bin/bash\n{script}"));
        // not `sbatch --wait`, which polls only every two seconds
        format!(
            "job=$(sbatch --parsable -w n0 -n2 --gpus-per-task=1 --output=script.out {options} script) || exit
             while [ \"$(squeue -h -j $job)\" ]; do sleep 0.1; done; cat script.out"
        )
    }

    /// What a node's slurmd and slurmstepd have logged since the case began.
    pub fn log(&self, node: &str) -> String {
        let number: usize = node[1..].parse().expect("a node's name");
        let text = fs::read(self.log_file(number)).unwrap_or_default();
        let start = self.log_starts.borrow()[number] as usize;
        String::from_utf8_lossy(text.get(start..).unwrap_or_default()).into_owned()
    }

    fn log_file(&self, node: usize) -> PathBuf {
        self.dir.join(format!("log/slurmd.n{node}.log"))
    }

    /// A file in the cluster's directory, for a topology, a batch script and the like.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.join(name);
        fs::write(&path, text).expect("a file for the case");
        path
    }

    fn note(&self, text: &str) {
        self.transcript.borrow_mut().push_str(text);
    }

    pub fn begin_case(&self) {
        self.transcript.borrow_mut().clear();
        let length = |node| fs::metadata(self.log_file(node)).map_or(0, |meta| meta.len());
        *self.log_starts.borrow_mut() = (0..self.nodes).map(length).collect();
        self.plugin("");
    }
}

impl Drop for Bed<'_> {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

fn yes_or_no(is: bool) -> String {
    if is { "yes" } else { "no" }.to_string()
}
