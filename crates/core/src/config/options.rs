//! The option table: every word of the option and every argument of plugstack.conf, once.
//!
//! The parsers know no other words, and the help text, the man page and the messages about typos are made from it.
#![forbid(unsafe_code)]

/// Where a word may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// in `--nic-placement=`, `SLURM_NIC_PLACEMENT` and `default=`
    Option,
    /// behind the plugin's path in plugstack.conf, and in the configuration file
    Plugstack,
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// where it may stand
    pub place: Place,
    /// its name
    pub name: &'static str,
    /// what may follow `=`; empty for words that take no value
    pub value: &'static str,
    /// one sentence
    pub help: &'static str,
    /// the narrowest line of the configuration file on which an argument may stand
    pub reach: Reach,
}

/// For how few an argument may be said, from any to all.
///
/// A step tells its partition by a variable of its environment (`SLURM_JOB_PARTITION`), which srun sends and its user could
/// have sent otherwise.  So a line for a partition holds nothing that a user must not choose: no path that root opens, and
/// no switch that a user must not get around.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// also on a line for partitions
    Partition,
    /// also on a line for nodes, and on one for the whole cluster
    Node,
    /// on the plugin's line of plugstack.conf alone
    Plugstack,
}

const fn word(name: &'static str, value: &'static str, help: &'static str) -> Spec {
    Spec { place: Place::Option, name, value, help, reach: Reach::Partition }
}

const fn argument(name: &'static str, value: &'static str, help: &'static str) -> Spec {
    Spec { place: Place::Plugstack, name, value, help, reach: Reach::Partition }
}

const fn of_nodes(name: &'static str, value: &'static str, help: &'static str) -> Spec {
    Spec { place: Place::Plugstack, name, value, help, reach: Reach::Node }
}

const fn of_plugstack(name: &'static str, value: &'static str, help: &'static str) -> Spec {
    Spec { place: Place::Plugstack, name, value, help, reach: Reach::Plugstack }
}

/// All of them, in the order of the help text.
pub const OPTIONS: &[Spec] = &[
    word("closest", "", "each GPU the NIC that gives it the most bandwidth, evenly used (the default)"),
    word(
        "rail",
        "",
        "GPU k the k-th NIC, or the k-th group of them where there are several for each, the same on every node",
    ),
    word(
        "spread",
        "",
        "as closest, and a job alone on the node also uses the NICs of GPUs that it does not have",
    ),
    word("numa", "", "each GPU all good NICs of its NUMA node"),
    word("all", "", "each GPU all good NICs of the node"),
    word("off", "", "no placement"),
    word("observe", "", "work everything out, log it in one line for each step and node, and change nothing"),
    word("help", "", "print this and exit"),
    word("verbose", "", "one line for each task: GPUs, NICs, CPUs, memory, variables, and why"),
    word("dry-run", "", "print those lines and change nothing"),
    word(
        "nics-per-task",
        "auto|N",
        "NICs for each GPU under closest, rail and spread: its even part of its nearest ones where these are more than the \
         GPUs that share them, else one (default), or 1 to 8",
    ),
    word("best-effort", "", "run every task, whatever it got (the default)"),
    word(
        "strict",
        "",
        "fail a task whose placement cannot be had, instead of running it without; srun -K ends the others too, which may \
         otherwise wait for it",
    ),
    word(
        "restricted",
        "",
        "as strict, and fail a task whose NICs or CPUs are far from its GPUs though near ones exist",
    ),
    word(
        "single-numa-node",
        "",
        "as strict, and fail a task whose GPUs, NICs and CPUs are not all on one NUMA node",
    ),
    word(
        "gpu",
        "visible|local-id",
        "the GPUs that a task uses: all that it sees (default), or where all tasks see the same, the one of its local id, \
         which you promise",
    ),
    word(
        "bind",
        "auto|numa|core|none",
        "a task's CPUs, where srun was given no --cpu-bind: near its GPUs where that leaves every task its part \
         (default), its GPUs' NUMA node whatever it holds, whole cores of its own there, or those that Slurm gave it",
    ),
    word(
        "mem",
        "prefer|strict|none",
        "a task's memory, where srun was given no --mem-bind: near nodes first (default; none with bind=none), or alone",
    ),
    word("omp", "on|off", "set OMP_NUM_THREADS to the task's cores, and let no runtime pin (default off)"),
    word(
        "env",
        "LIBRARY,…",
        "only these libraries' variables: ucx, nccl, nvshmem, cray-mpich, site, rocshmem, deepep, openmpi (those eight: \
         default), nvshmem-pe, libfabric, mooncake, mori, oneccl, ucx-gda, none; or a variable by its name",
    ),
    word(
        "no-env",
        "NAME,…",
        "never these variables; NCCL_* means all whose names begin so, and none takes back what was said before",
    ),
    argument(
        "default",
        "WORDS",
        "words of the option for steps that do not say, off or observe among them; without it placement is off",
    ),
    argument(
        "rollout",
        "PERCENT%[,observe]",
        "default= holds for so many of a hundred jobs, by their ids; the others are off, or observed (default 100%)",
    ),
    of_nodes("disable", "", "no step is placed, whoever asks and however"),
    of_plugstack("conf", "FILE", "where the configuration file is (default /etc/nic-placement.conf)"),
    argument(
        "include",
        "NIC,…",
        "use only these NICs, whatever speaks against them: names, PCI addresses, interfaces, * and ?, or subnets",
    ),
    argument("exclude", "NIC,…", "never use these NICs"),
    argument(
        "rails",
        "NIC,…",
        "the rails in their order, for the policy rail (default: the good NICs in PCI order)",
    ),
    argument(
        "lets-through",
        "PATH:PERCENT,…",
        "what kinds of paths let through on this site's machines (default PHB:85,NODE:70,SYS:45)",
    ),
    argument(
        "fabric",
        "routed|isolated-rails",
        "do the NICs of different rails reach each other? if not, no task is held to one (default: by the rails' subnets)",
    ),
    argument(
        "set",
        "NAME=TEMPLATE",
        "a variable of your own, repeatable, or several with ; between them: {nic} {nics} {gpu} {numa} {local_id} and others \
         of the task, {rails} {machine} and others of the node",
    ),
    of_nodes(
        "cache",
        "SECONDS",
        "how old the node file may be for a step to use it instead of reading /sys (default 900; 0: never)",
    ),
    of_nodes("node-file", "PATH", "where the node file is (default /run/nic-placement/node.json)"),
    of_nodes("topology", "FILE", "the node as this file describes it, instead of reading /sys"),
    of_nodes("machine", "NAME", "the node as this built-in model describes it, instead of reading /sys"),
    of_nodes("sysfs", "DIR", "read sys/ and proc/ below this directory instead of /"),
    of_nodes("trust-topology", "", "bind by topology=, machine= or sysfs= as if it were read from this node"),
];

/// The options of one place.
pub fn at(place: Place) -> impl Iterator<Item = &'static Spec> {
    OPTIONS.iter().filter(move |spec| spec.place == place)
}

/// The known names of one place, as messages list them.
pub fn known(place: Place) -> String {
    at(place).map(Spec::spelling).collect::<Vec<_>>().join(", ")
}

/// The known name that `word` was most likely meant to be: at most two letters away.
pub fn meant(place: Place, word: &str) -> Option<&'static str> {
    let near = at(place).map(|spec| (distance(spec.name, word), spec.name));
    near.filter(|(distance, name)| *distance <= 2 && *distance < name.len()).min().map(|(_, name)| name)
}

/// Letters to insert, delete or change (Levenshtein), where that may be two or fewer.
pub(super) fn distance(a: &str, b: &str) -> usize {
    // a file of unknown words asks 40,000 times
    if a.len().abs_diff(b.len()) > 2 {
        return usize::MAX;
    }
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

impl Spec {
    /// `verbose`, `omp=on|off`
    pub fn spelling(&self) -> String {
        match self.value {
            "" => self.name.to_string(),
            value => format!("{}={value}", self.name),
        }
    }

    /// What it does, and where an argument may not stand.
    pub fn sentence(&self) -> String {
        match self.reach {
            Reach::Partition => self.help.to_string(),
            Reach::Node => format!("{}; not for a partition", self.help),
            Reach::Plugstack => format!("{}; in plugstack.conf alone", self.help),
        }
    }
}

/// What `--nic-placement=help` prints.
pub fn help() -> String {
    let mut text = String::from(
        "--nic-placement[=WORD,...]  give every GPU task its nearest NIC, CPUs and memory\n\
         \n\
         The words, also in SLURM_NIC_PLACEMENT:\n",
    );
    let lines = |place| {
        let width = at(place).map(|spec| spec.spelling().chars().count()).max().unwrap_or(0);
        at(place)
            .map(move |spec| format!("  {:<width$}  {}\n", spec.spelling(), spec.sentence()))
            .collect::<String>()
    };
    text.push_str(&lines(Place::Option));
    text.push_str("\nThe admin's arguments, in plugstack.conf and /etc/nic-placement.conf:\n");
    text.push_str(&lines(Place::Plugstack));
    text.push_str(
        "\nThe nearest word counts: srun's own option, SLURM_NIC_PLACEMENT as it is set for that srun, what sbatch or\n\
         salloc were given, the admin's default: for the partition, the node, the cluster.  What you bound or set\n\
         yourself stays.\n",
    );
    text
}
