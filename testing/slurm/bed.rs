//! Clusters, and commands on them.

use super::machines::Cluster;
use super::site::Site;
use super::task::{Task, VARIABLES, all};
use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A command with the option and these words in place of `@`.
pub fn asked(words: &str, command: &str) -> String {
    let is = if words.is_empty() { "" } else { "=" };
    command.replace('@', &format!("--nic-placement{is}{words}"))
}

/// A step on n0 with these options of srun.
pub fn srun(options: &str) -> String {
    format!("srun -w n0 {options} @ $report")
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
    /// its knobs of `cluster.sh`
    knobs: Vec<(&'static str, String)>,
    /// all that the current case ran, to be shown if it fails
    pub transcript: RefCell<String>,
    /// how long each node's log was when the current case began
    log_starts: RefCell<Vec<u64>>,
    nodes: usize,
    guard: Child,
}

/// A command's end.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    /// the tasks that reported
    pub tasks: Vec<Task>,
    pub took: Duration,
}

impl Ran {
    /// It ended so, and so many tasks reported.
    #[track_caller]
    pub fn ended(self, code: i32, tasks: usize) -> Ran {
        let found = (self.code, self.tasks.len());
        assert_eq!(found, (code, tasks), "{}", self.stderr);
        self
    }

    #[track_caller]
    pub fn failed(self) -> Ran {
        assert_ne!(self.code, 0);
        self
    }

    /// Its user was told so, so many times.
    #[track_caller]
    pub fn says(self, times: usize, text: &str) -> Ran {
        let found = self.stderr.matches(text).count();
        assert_eq!(found, times, "{text}: {}", self.stderr);
        self
    }

    /// Lines of the plugin on the user's terminal.
    pub fn told(&self) -> Vec<&str> {
        let ours = |line: &&str| line.contains("nic-placement: ");
        self.stderr.lines().filter(ours).collect()
    }
}

impl<'w> Bed<'w> {
    /// Brings a cluster up, with `more` knobs of `cluster.sh` than the cluster names.
    pub fn up(
        site: &'w Site,
        cluster: &Cluster,
        more: &[(&'static str, String)],
    ) -> Result<Bed<'w>, String> {
        let dir = site.dir.join(cluster.name);
        let nodes = cluster.nodes.iter().enumerate();
        let machines = nodes.map(|(k, machine)| format!("n{k}={} ", machine(site).display()));
        let yes_or_no = |is: bool| if is { "yes" } else { "no" }.to_string();
        let autodetect = cluster.autodetect.and_then(|word| word(site));
        let preload = cluster
            .preload
            .map(|library| library(site).display().to_string());
        let mut knobs = vec![
            ("NICP_DIR", dir.display().to_string()),
            ("NICP_NODES", cluster.nodes.len().to_string()),
            ("NICP_MACHINES", machines.collect()),
            ("NICP_PLUGSTACK", (cluster.plugstack)(site)),
            ("NICP_ROOT", site.root.display().to_string()),
            ("NICP_BIND", site.shared()),
            (
                "NICP_AUTODETECT",
                autodetect.unwrap_or_default().to_string(),
            ),
            ("NICP_EXTRA", (cluster.extra)(site)),
            ("NICP_SHAPES", cluster.shape.unwrap_or_default().to_string()),
            ("NICP_PRELOAD", preload.unwrap_or_default()),
            ("NICP_CGROUP", yes_or_no(cluster.cgroups)),
            ("NICP_RAM", yes_or_no(cluster.ram)),
        ];
        knobs.extend_from_slice(more);
        // Takes the cluster down when this process ends.  The end closes the pipe, whatever its cause.  Until then it holds a
        // hundred ports below those that the kernel hands out, and alone on this machine has cgroups: Slurm names them by the
        // node, so that two clusters with an n0 would share them.
        const GUARD: &str = r#"
            exec 8> /run/lock/nic-placement.cgroups
            [ $NICP_CGROUP = no ] || flock 8
            for ((k = PPID; k < PPID + 120; k++)); do
                exec 9> /run/lock/nic-placement.ports.$((k % 120))
                ! flock --nonblock 9 || break
            done
            echo $((20000 + k % 120 * 100)); read -r _; "$0" down > /dev/null 2>&1"#;
        let mut guard = Command::new("setsid")
            .args(["bash", "-c", GUARD])
            .arg(site.repository.join("tests/slurm/cluster.sh"))
            .envs(knobs.clone())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("`setsid`: {e}"))?;
        let mut port = String::new();
        let said = BufReader::new(guard.stdout.take().expect("a pipe")).read_line(&mut port);
        said.map_err(|e| e.to_string())?;
        knobs.push(("NICP_PORT", port.trim().to_string()));
        let bed = Bed {
            site,
            knobs,
            transcript: RefCell::default(),
            log_starts: RefCell::default(),
            nodes: cluster.nodes.len(),
            guard,
            dir,
        };
        bed.cluster(&["up"], &site.dir.join(format!("{}.up", cluster.name)))?;
        Ok(bed)
    }

    /// `cluster.sh` with these words, which says its reason if it fails.
    fn cluster(&self, words: &[&str], said: &Path) -> Result<(), String> {
        // to a file: the daemons inherit it, and a pipe would stay open as long as they live
        let file = fs::File::create(said).map_err(|e| e.to_string())?;
        let mut script = Command::new(self.site.repository.join("tests/slurm/cluster.sh"));
        script.args(words).envs(self.knobs.clone()).stderr(file);
        script.stdin(Stdio::null()).stdout(Stdio::null());
        let status = script.status().map_err(|e| format!("`cluster.sh`: {e}"))?;
        match status.success() {
            true => Ok(()),
            false => Err(fs::read_to_string(said).unwrap_or_default()),
        }
    }

    /// Sets plugstack.conf; srun and slurmstepd read it anew each time.
    pub fn plugstack(&self, text: &str) {
        self.note(&format!("plugstack.conf: {text}\n"));
        fs::write(self.dir.join("etc/plugstack.conf"), format!("{text}\n")).expect("its folder");
    }

    /// The usual plugstack.conf line with these arguments.
    pub fn plugin(&self, arguments: &str) {
        self.plugstack(&self.site.plugstack_line(arguments));
    }

    /// A program to run on the cluster, with `$report` in its environment, the task that reports.
    pub fn program(&self, program: &str) -> Command {
        let report = format!("{} {VARIABLES}", self.dir.join("bin/report").display());
        let mut process = self.inside(program);
        process.current_dir(&self.dir).stdin(Stdio::null());
        // a task must not inherit this test's own variables of Slurm and the libraries
        let foreign = [
            "SLURM", "SBATCH", "SALLOC", "UCX_", "NCCL_", "CUDA_", "NIC_", "LD_",
        ];
        for (name, _) in std::env::vars_os() {
            let own = name.to_string_lossy();
            if foreign.iter().any(|prefix| own.starts_with(prefix)) {
                process.env_remove(&name);
            }
        }
        process
            .env("SLURM_CONF", self.configuration())
            .env("report", report);
        process
    }

    /// Runs a shell command on the cluster; `$report` in it is the task that reports.
    pub fn run(&self, command: &str) -> Ran {
        self.run_within("60", command)
    }

    /// Runs one that may take so many seconds.
    pub fn run_within(&self, seconds: &str, command: &str) -> Ran {
        let mut process = self.program("timeout");
        process.args(["--kill-after=5", seconds, "bash", "-c", command]);
        // not to pipes: a process that outlives the time limit would hold them open
        let [out, err] = ["stdout", "stderr"].map(|name| self.dir.join(name));
        process.stdout(fs::File::create(&out).expect("a file"));
        process.stderr(fs::File::create(&err).expect("a file"));
        let start = Instant::now();
        let status = process.status().expect("`timeout`");
        let took = start.elapsed();
        let read = |file| String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned();
        let stdout = read(out);
        // srun may print that it waits for the last job's end; that does not matter here
        let waits = |line: &&str| !line.starts_with("srun: job ") && !line.starts_with("salloc: ");
        let stderr = read(err);
        let stderr = stderr.lines().filter(waits).map(|line| format!("{line}\n"));
        let ran = Ran {
            code: status.code().unwrap_or(-1),
            tasks: Task::all_in(&stdout),
            stdout,
            stderr: stderr.collect(),
            took,
        };
        if [124, 137].contains(&ran.code) {
            // a command that hangs must not hold up the next case
            let mut cancel = self.program("scancel");
            let _ = cancel.arg("--partition=all").status();
        }
        let (said, told, code) = (&ran.stdout, &ran.stderr, ran.code);
        self.note(&format!("$ {command}\n{said}{told}exit code {code}\n"));
        ran
    }

    /// Ends a node's slurmd and starts it anew; the steps on that node go on.
    pub fn restart(&self, node: &str) {
        let ended = self.cluster(&["restart", node], &self.dir.join("restarted"));
        assert_eq!(ended, Ok(()));
        self.note(&format!("slurmd of {node} was restarted\n"));
    }

    /// The folder with `sys` and `dev` of the machine that a node plays.
    pub fn machine(&self, node: &str) -> PathBuf {
        self.dir.join("node").join(node)
    }

    /// The number of a process that `cluster.sh` recorded.
    fn recorded(&self, name: &str) -> String {
        let recorded = fs::read_to_string(self.dir.join("pid").join(name)).expect("it runs");
        recorded.split(' ').next().unwrap_or_default().to_string()
    }

    /// The number of a node's slurmd process.
    pub fn slurmd(&self, node: &str) -> String {
        self.recorded(&format!("slurmd.{node}"))
    }

    /// slurm.conf.
    pub fn configuration(&self) -> PathBuf {
        self.dir.join("etc/slurm.conf")
    }

    /// The tool beside the plugin.
    pub fn tool(&self) -> String {
        self.site
            .plugin
            .with_file_name("nic-placement")
            .display()
            .to_string()
    }

    /// A program of the distribution that Slurm is of.
    fn inside(&self, program: &str) -> Command {
        if self.site.root == Path::new("/") {
            return Command::new(program);
        }
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.recorded("root"), "--mount", "--root"]);
        command
            .arg(format!("--wdns={}", self.dir.display()))
            .arg(program);
        command
    }

    /// `run`, and the command must succeed with `tasks` reports.
    #[track_caller]
    pub fn tasks(&self, tasks: usize, command: &str) -> Vec<Task> {
        self.run(command).ended(0, tasks).tasks
    }

    /// The same with `@` replaced by nothing.
    #[track_caller]
    pub fn bare(&self, tasks: usize, command: &str) -> Vec<Task> {
        self.tasks(tasks, &command.replace('@', ""))
    }

    /// The same with `@` replaced by the option and these words.
    #[track_caller]
    pub fn with(&self, words: &str, tasks: usize, command: &str) -> Vec<Task> {
        self.tasks(tasks, &asked(words, command))
    }

    /// Runs a command with the option and these words in place of `@`.
    pub fn ask(&self, words: &str, command: &str) -> Ran {
        self.run(&asked(words, command))
    }

    /// Runs the command twice, with `@` replaced by nothing and by the option with these words.  Returns the tasks
    /// without and with it.  Without it no task may show a trace of the plugin.
    #[track_caller]
    pub fn both(&self, words: &str, tasks: usize, command: &str) -> (Vec<Task>, Vec<Task>) {
        let without = self.bare(tasks, command);
        all(&without, Task::is_untouched);
        (without, self.with(words, tasks, command))
    }

    /// A command for `run`: submits a script with two tasks of one GPU each, waits for its end, prints its output.
    pub fn batch(&self, options: &str, script: &str) -> String {
        let options = format!("-w n0 -n2 --gpus-per-task=1 {options}");
        self.submit(&options, &format!("#!/bin/bash\n{script}"))
    }

    /// The same of a job with these options.
    pub fn submit(&self, options: &str, script: &str) -> String {
        self.file("script", script);
        // not `sbatch --wait`, which polls only every two seconds
        format!(
            "job=$(sbatch --parsable --output=script.out {options} script) || exit
             while [ \"$(squeue -h -j $job)\" ]; do sleep 0.1; done; cat script.out"
        )
    }

    /// All that a node's slurmd and slurmstepd have logged since the case began.
    pub fn log(&self, node: &str) -> String {
        let number: usize = node[1..].parse().expect("a node's name");
        let text = fs::read(self.log_file(number)).unwrap_or_default();
        let start = self.log_starts.borrow()[number] as usize;
        String::from_utf8_lossy(text.get(start..).unwrap_or_default()).into_owned()
    }

    /// The number of times that it has a text.
    pub fn logged(&self, node: &str, text: &str) -> usize {
        self.log(node).matches(text).count()
    }

    /// Lines of ours in it.
    pub fn ours(&self, node: &str) -> Vec<String> {
        let log = self.log(node);
        let ours = log.lines().filter(|line| line.contains("nic-placement: "));
        ours.map(str::to_string).collect()
    }

    fn log_file(&self, node: usize) -> PathBuf {
        self.dir.join(format!("log/slurmd.n{node}.log"))
    }

    /// A file in the cluster's directory, for a topology, a batch script and the like.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.dir.join(name);
        fs::write(&path, text).expect("a file for the case");
        path.display().to_string()
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
