//! What the fake Slurm printed of a step, as tests ask about it.

use super::NIC_OF_GPU;

/// What was seen of a step.
pub struct Played {
    /// exit status: 255 where srun would have refused the option
    pub status: Option<i32>,
    /// its command line and the daemon's environment
    pub(super) words: String,
    /// all that was printed
    pub text: String,
}

impl std::fmt::Display for Played {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = self.words.get(..4000).unwrap_or(&self.words);
        write!(f, "--- {words}\n--- its events\n{}---", self.text)
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

impl LogLine {
    pub fn has(&self, words: &[&str]) -> bool {
        words.iter().all(|word| self.text.contains(word))
    }
}

impl Played {
    /// What happened during `when`.
    pub fn events(&self, when: &str) -> Vec<&str> {
        let lines = self.text.lines();
        let all = lines.filter_map(|line| line.strip_prefix(when)?.strip_prefix(": "));
        all.collect()
    }

    /// Everything that was logged, in order.
    pub fn log(&self) -> Vec<LogLine> {
        const LEVELS: &str = "error,log,info,verbose,debug,debug2,debug3";
        let parsed = self.text.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ": ");
            let (when, level, text) = (parts.next()?, parts.next()?, parts.next().unwrap_or(""));
            let is_level = LEVELS.split(',').any(|each| each == level);
            is_level.then(|| LogLine {
                when: when.into(),
                level: level.into(),
                text: text.into(),
            })
        });
        parsed.collect()
    }

    /// The texts that were logged at this level.
    pub fn told(&self, level: &str) -> Vec<String> {
        let lines = self.log().into_iter().filter(|line| line.level == level);
        lines.map(|line| line.text).collect()
    }

    /// What the user sees of it: the levels that slurmstepd copies to a task's stderr and srun to its own.
    pub fn shown_to_the_user(&self) -> Vec<LogLine> {
        let is_shown = |line: &LogLine| line.level == "error" || line.level == "log";
        self.log().into_iter().filter(is_shown).collect()
    }

    /// True where a line of the log has all of these.
    pub fn said(&self, words: &[&str]) -> bool {
        self.log().iter().any(|line| line.has(words))
    }

    /// True where one at this level has them.
    pub fn said_at(&self, level: &str, words: &[&str]) -> bool {
        let mut lines = self.log().into_iter();
        lines.any(|line| line.level == level && line.has(words))
    }

    /// True where one that the user sees has them.
    pub fn showed(&self, words: &[&str]) -> bool {
        self.shown_to_the_user().iter().any(|line| line.has(words))
    }

    /// The files that were opened during a hook.
    pub fn opened(&self, hook: &str) -> Vec<&str> {
        let events = self.events(hook).into_iter();
        let all = events.filter_map(|event| event.strip_prefix("opened "));
        all.collect()
    }

    /// The hook's return code.
    pub fn returned(&self, when: &str) -> Option<i32> {
        let mut events = self.events(when).into_iter();
        events.find_map(|event| event.strip_prefix("returned ")?.parse().ok())
    }

    /// How many tasks there were.
    pub fn tasks(&self) -> usize {
        (0..)
            .take_while(|task| !self.events(&format!("task {task}")).is_empty())
            .count()
    }

    fn of_task(&self, task: usize, begin: &str) -> Option<String> {
        self.events(&format!("task {task}"))
            .iter()
            .find_map(|event| Some(event.strip_prefix(begin)?.to_string()))
    }

    /// The exit status of a task; 0: its program was started.
    pub fn exit(&self, task: usize) -> Option<i32> {
        self.of_task(task, "exit ")?.parse().ok()
    }

    /// A variable of the environment that a task's program would start with.
    pub fn env(&self, task: usize, name: &str) -> Option<String> {
        self.of_task(task, &format!("env {name}="))
    }

    /// A variable that srun, sbatch or salloc would hand down.
    pub fn left(&self, name: &str) -> Option<&str> {
        let mut left = self.events("left").into_iter();
        left.find_map(|event| {
            event
                .strip_prefix("env ")?
                .strip_prefix(name)?
                .strip_prefix('=')
        })
    }

    /// The whole environment that a task's program would start with.
    pub fn whole_env(&self, task: usize) -> Vec<String> {
        let events = self.events(&format!("task {task}"));
        let all = events.iter();
        all.filter_map(|event| Some(event.strip_prefix("env ")?.to_string()))
            .collect()
    }

    /// The CPUs of a task's program, as a list of ranges.
    pub fn cpus(&self, task: usize) -> Option<String> {
        self.of_task(task, "cpus ")
    }

    /// The memory policy of a task's program; `None` where the kernel does not let it be read.
    pub fn memory(&self, task: usize) -> Option<String> {
        self.of_task(task, "memory ")
    }

    /// Every change of the environment that was tried, as `setenv …` and `unsetenv …`.
    pub fn changes_tried(&self) -> Vec<&str> {
        let lines = self.text.lines();
        let events = lines.filter_map(|line| Some(line.split_once(": ")?.1));
        events
            .filter(|event| event.starts_with("setenv ") || event.starts_with("unsetenv "))
            .collect()
    }
}

/// Each fails the test, with all that was seen, where it is not so.
#[track_caller]
fn must(is: bool, what: impl std::fmt::Debug, played: &Played) {
    assert!(is, "{what:?}\n{played}");
}

impl Played {
    /// Every hook returned 0 and every task's program was started.
    #[track_caller]
    pub fn ok(&self) -> &Played {
        must(self.status == Some(0), self.status, self);
        for hook in ["init", "init_post_opt"] {
            must(self.returned(hook) == Some(0), hook, self);
        }
        for task in 0..self.tasks() {
            let answer = self.returned(&format!("task {task}"));
            must((answer, self.exit(task)) == (Some(0), Some(0)), task, self);
        }
        self
    }

    /// The step is as if the plugin did not exist.
    #[track_caller]
    pub fn untouched(&self) -> &Played {
        must(self.ok().changes_tried().is_empty(), "untouched", self);
        self
    }

    /// Every task got the NIC of its GPU, task `i` having GPU `i`.
    #[track_caller]
    pub fn near(&self) -> &Played {
        self.ok();
        for (task, nic) in NIC_OF_GPU.iter().enumerate().take(self.tasks()) {
            self.has(task, "UCX_NET_DEVICES", &format!("mlx5_{nic}:1"));
        }
        self
    }

    /// So, or left alone.
    #[track_caller]
    pub fn is_placed(&self, is: bool) -> &Played {
        if is { self.near() } else { self.untouched() }
    }

    #[track_caller]
    pub fn has(&self, task: usize, name: &str, value: &str) -> &Played {
        let found = self.env(task, name);
        let is = found.as_deref() == Some(value);
        must(is, (task, name, value, found), self);
        self
    }

    #[track_caller]
    pub fn lacks(&self, task: usize, names: &[&str]) -> &Played {
        for name in names {
            must(self.env(task, name).is_none(), (task, name), self);
        }
        self
    }

    /// A task's variables, as in a line of changes: `NAME=VALUE` is set, `-NAME` is not.
    #[track_caller]
    pub fn gets(&self, task: usize, variables: &str) -> &Played {
        for variable in variables.split(' ') {
            match (variable.strip_prefix('-'), variable.split_once('=')) {
                (Some(name), _) => self.lacks(task, &[name]),
                (None, Some((name, value))) => self.has(task, name, value),
                _ => panic!("`{variable}`"),
            };
        }
        self
    }

    /// A task's CPUs and memory policy.
    #[track_caller]
    pub fn bound(&self, task: usize, cpus: &str, memory: &str) -> &Played {
        let found = [self.cpus(task), self.memory(task)];
        let is = [cpus, memory].map(|each| Some(each.to_string())) == found;
        must(is, (task, cpus, memory, found), self);
        self
    }

    #[track_caller]
    pub fn on_cpus(&self, task: usize, cpus: &str) -> &Played {
        let found = self.cpus(task);
        must(found.as_deref() == Some(cpus), (task, cpus, found), self);
        self
    }

    #[track_caller]
    pub fn says(&self, words: &[&str]) -> &Played {
        must(self.said(words), words, self);
        self
    }

    #[track_caller]
    pub fn says_at(&self, level: &str, words: &[&str]) -> &Played {
        must(self.said_at(level, words), (level, words), self);
        self
    }

    #[track_caller]
    pub fn shows(&self, words: &[&str]) -> &Played {
        must(self.showed(words), words, self);
        self
    }

    /// The user sees nothing.
    #[track_caller]
    pub fn quiet(&self) -> &Played {
        must(self.shown_to_the_user().is_empty(), "quiet", self);
        self
    }

    /// There is one error line, and it has these words.
    #[track_caller]
    pub fn one_error(&self, words: &[&str]) -> &Played {
        let is = self.told("error").len() == 1 && self.said_at("error", words);
        must(is, ("one error", words), self);
        self
    }

    /// The task is ended, and its user sees a line with these words.
    #[track_caller]
    pub fn fails(&self, task: usize, words: &[&str]) -> &Played {
        must(self.exit(task) != Some(0), (task, "fails"), self);
        let stays = self.returned("init_post_opt") == Some(0);
        must(stays, "the node drains", self);
        self.shows(words)
    }
}
