//! What the fake Slurm printed of a step, as tests ask about it.

use super::NIC_OF_GPU;

/// What was seen of a step.
pub struct Played {
    /// exit status: 255 where srun would have refused the option
    pub status: Option<i32>,
    pub(super) text: String,
}

impl std::fmt::Display for Played {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "--- the step's events ---\n{}---", self.text)
    }
}

/// A line that reached one of Slurm's log functions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// during which hook: `init`, `option`, `init_post_opt`, `task 0`
    pub when: String,
    /// `error`, `log` (both shown to the user), `info`, `verbose`, `debug`, `debug2` or `debug3`
    pub level: String,
    /// the message
    pub text: String,
}

impl Played {
    /// What happened during `when`.
    pub fn events(&self, when: &str) -> Vec<&str> {
        self.text
            .lines()
            .filter_map(|line| line.strip_prefix(when)?.strip_prefix(": "))
            .collect()
    }

    /// Everything that was logged, in order.
    pub fn log(&self) -> Vec<LogLine> {
        const LEVELS: [&str; 7] = [
            "error", "log", "info", "verbose", "debug", "debug2", "debug3",
        ];
        let parsed = self.text.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ": ");
            let (when, level, text) = (parts.next()?, parts.next()?, parts.next().unwrap_or(""));
            let known = LEVELS.contains(&level);
            known.then(|| LogLine {
                when: when.into(),
                level: level.into(),
                text: text.into(),
            })
        });
        parsed.collect()
    }

    /// What the user sees of it: the levels that slurmstepd copies to a task's stderr and srun to its own.
    pub fn shown_to_the_user(&self) -> Vec<LogLine> {
        self.log()
            .into_iter()
            .filter(|line| line.level == "error" || line.level == "log")
            .collect()
    }

    /// The hook's return code.
    pub fn returned(&self, when: &str) -> Option<i32> {
        self.events(when)
            .iter()
            .find_map(|event| event.strip_prefix("returned ")?.parse().ok())
    }

    /// How many tasks there were.
    pub fn tasks(&self) -> usize {
        (0..)
            .take_while(|task| !self.events(&format!("task {task}")).is_empty())
            .count()
    }

    /// The exit status of a task; 0: its program was started.
    pub fn exit(&self, task: usize) -> Option<i32> {
        self.events(&format!("task {task}"))
            .iter()
            .find_map(|event| event.strip_prefix("exit ")?.parse().ok())
    }

    /// A variable of the environment that a task's program would start with.
    pub fn env(&self, task: usize, name: &str) -> Option<String> {
        let prefix = format!("env {name}=");
        self.events(&format!("task {task}"))
            .iter()
            .find_map(|event| event.strip_prefix(&prefix))
            .map(str::to_string)
    }

    /// A variable that srun, sbatch or salloc would hand down.
    pub fn left(&self, name: &str) -> Option<&str> {
        let left = self.events("left").into_iter();
        left.filter_map(|event| event.strip_prefix("env ")?.split_once('='))
            .find(|(n, _)| *n == name)
            .map(|(_, v)| v)
    }

    /// The whole environment that a task's program would start with.
    pub fn whole_env(&self, task: usize) -> Vec<String> {
        let events = self.events(&format!("task {task}"));
        events
            .iter()
            .filter_map(|event| event.strip_prefix("env "))
            .map(str::to_string)
            .collect()
    }

    /// The CPUs of a task's program, as a list of ranges.
    pub fn cpus(&self, task: usize) -> Option<String> {
        self.events(&format!("task {task}"))
            .iter()
            .find_map(|event| event.strip_prefix("cpus "))
            .map(str::to_string)
    }

    /// The memory policy of a task's program; `None` where the kernel does not let it be read.
    pub fn memory(&self, task: usize) -> Option<String> {
        self.events(&format!("task {task}"))
            .iter()
            .find_map(|event| event.strip_prefix("memory "))
            .map(str::to_string)
    }

    /// Every change of the environment that was tried, as `setenv …` and `unsetenv …`.
    pub fn changes_tried(&self) -> Vec<&str> {
        let events = self
            .text
            .lines()
            .filter_map(|line| Some(line.split_once(": ")?.1));
        events
            .filter(|event| event.starts_with("setenv ") || event.starts_with("unsetenv "))
            .collect()
    }

    /// Fails unless every hook returned 0 and every task's program was started.
    pub fn assert_nothing_failed(&self) {
        assert_eq!(self.status, Some(0), "{self}");
        for hook in ["init", "init_post_opt"] {
            assert_eq!(self.returned(hook), Some(0), "`{hook}`\n{self}");
        }
        for task in 0..self.tasks() {
            assert_eq!(
                self.returned(&format!("task {task}")),
                Some(0),
                "task {task}\n{self}"
            );
            assert_eq!(self.exit(task), Some(0), "task {task}\n{self}");
        }
    }

    /// Fails unless the step is as if the plugin did not exist.
    pub fn assert_untouched(&self) {
        self.assert_nothing_failed();
        assert_eq!(self.changes_tried(), Vec::<&str>::new(), "{self}");
    }

    /// Fails unless every task got the NIC of its GPU, task `i` having GPU `i`.
    pub fn assert_nearest_nics(&self) {
        self.assert_nothing_failed();
        for (task, nic) in NIC_OF_GPU.iter().enumerate().take(self.tasks()) {
            assert_eq!(
                self.env(task, "UCX_NET_DEVICES"),
                Some(format!("mlx5_{nic}:1")),
                "task {task}\n{self}"
            );
        }
    }
}
