//! The option's words and the admin's arguments, for parsers, help, man page and suggestions.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    pub name: &'static str,
    /// the placeholder behind `=`; empty for switches
    pub value: &'static str,
    pub help: &'static str,
    pub level: AdminLevel,
}

/// The narrowest scope that may set an argument.
///
/// A user can change `SLURM_JOB_PARTITION`, the source of a step's partition. So a partition's line
/// may hold no paths that root opens, and no switches that users must obey.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AdminLevel {
    Partition,
    /// lines for nodes and for the cluster
    Node,
    /// plugstack.conf alone
    Plugstack,
}

const fn option(name: &'static str, value: &'static str, help: &'static str) -> Spec {
    Spec {
        name,
        value,
        help,
        level: AdminLevel::Partition,
    }
}

const fn of_nodes(name: &'static str, value: &'static str, help: &'static str) -> Spec {
    Spec {
        level: AdminLevel::Node,
        ..option(name, value, help)
    }
}

impl Spec {
    pub fn spelling(&self) -> String {
        match self.value {
            "" => self.name.to_string(),
            value => format!("{}={value}", self.name),
        }
    }

    pub fn sentence(&self) -> String {
        let limit = match self.level {
            AdminLevel::Partition => "",
            AdminLevel::Node => "; not for a partition",
            AdminLevel::Plugstack => "; in plugstack.conf alone",
        };
        format!("{}{limit}", self.help)
    }
}

pub const WORDS: &[Spec] = &[
    option(
        "closest",
        "",
        "each GPU the NIC that gives it the most bandwidth, evenly used (the default)",
    ),
    option(
        "rail",
        "",
        "GPU k the k-th NIC, or the k-th of equal groups of NICs, the same on every node",
    ),
    option(
        "spread",
        "",
        "as closest, and a job alone on the node also uses the NICs of GPUs that it does not have",
    ),
    option("numa", "", "each GPU all good NICs of its NUMA node"),
    option("all", "", "each GPU all good NICs of the node"),
    option("off", "", "no placement"),
    option(
        "observe",
        "",
        "work everything out, log it in one line for each step and node, and change nothing",
    ),
    option("help", "", "print this and exit"),
    option(
        "verbose",
        "",
        "a row for each task: GPUs, NICs, CPUs, memory; below it the variables that are set, and why",
    ),
    option("dry-run", "", "print those lines and change nothing"),
    option(
        "nics-per-task",
        "auto|1-8",
        "NICs for each GPU under closest, rail and spread: 1 to 8, or auto (default), one, and more if its \
         nearest NICs outnumber the GPUs that share them",
    ),
    option(
        "best-effort",
        "",
        "run every task, whatever it got (the default)",
    ),
    option(
        "strict",
        "",
        "fail a task whose placement cannot be had; the others may wait for it unless srun has -K",
    ),
    option(
        "restricted",
        "",
        "as strict, and fail a task whose NICs or CPUs are far from its GPUs though near ones exist",
    ),
    option(
        "single-numa-node",
        "",
        "as strict, and fail a task whose GPUs, NICs and CPUs are not all on one NUMA node",
    ),
    option(
        "gpu",
        "visible|local-id",
        "the GPUs that a task uses: all that it sees (default), or, if you promise it, the one of its local id",
    ),
    option(
        "bind",
        "auto|numa|core|none",
        "a task's CPUs, where srun has no --cpu-bind: auto (default), near its GPUs if every task keeps its \
         share; numa, the NUMA node of its GPUs; core, whole cores of its own there; none, those that Slurm \
         gave it",
    ),
    option(
        "mem",
        "prefer|strict|none",
        "a task's memory, where srun has no --mem-bind: near NUMA nodes first (default), near NUMA nodes \
         alone, or as Slurm left it (default with bind=none)",
    ),
    option(
        "omp",
        "on|off",
        "set OMP_NUM_THREADS to the task's cores, and let no runtime pin (default off)",
    ),
    option(
        "env",
        "LIBRARY,…",
        "only these libraries' variables; by default ucx, nccl, nvshmem, cray-mpich, site, rocshmem, deepep \
         and openmpi; also nvshmem-pe, libfabric, mooncake, mori, mpich, mscclpp, oneccl, sockets, uccl, ucx-rails, ucx-gda, none, or a variable's name",
    ),
    option(
        "no-env",
        "NAME,…",
        "never these variables; NCCL_* means all whose names begin so; none means that all may be set again",
    ),
];

pub const ARGUMENTS: &[Spec] = &[
    option(
        "default",
        "WORDS",
        "words for steps that give none; without it these are not placed",
    ),
    option(
        "rollout",
        "PERCENT%[,observe]",
        "default= holds for this share of the jobs, by their ids; the others are off, or observed (default \
         100%)",
    ),
    of_nodes("disable", "", "place no step, whoever asks"),
    Spec {
        level: AdminLevel::Plugstack,
        ..option(
            "conf",
            "FILE",
            "the configuration file (default /etc/nic-placement.conf)",
        )
    },
    option(
        "include",
        "NIC,…",
        "use only these NICs, also ones that would be left out: names, PCI addresses, interfaces, * and ?, \
         subnets",
    ),
    option("exclude", "NIC,…", "never use these NICs"),
    option(
        "rails",
        "NIC,…",
        "the rails in order, for the policy rail (default: the good NICs in PCI order)",
    ),
    option(
        "lets-through",
        "PATH:PERCENT,…",
        "what kinds of paths let through here (default PHB:90,NODE:90,SYS:45)",
    ),
    option(
        "fabric",
        "routed|isolated-rails",
        "do NICs of different rails reach each other? if not, no task is held to one (default: by the rails' \
         subnets)",
    ),
    option(
        "none-is",
        "kept|unbound",
        "tasks with --cpu-bind=none or SLURM_CPU_BIND=none, without the user's bind=: keep all CPUs (default), \
         or may be bound",
    ),
    option(
        "set",
        "NAME=TEMPLATE",
        "a variable, repeatable, or several joined by ; with facts as {nic} {gpu} {local_id} {rails} {machine}",
    ),
    of_nodes(
        "cache",
        "SECONDS",
        "how old a node file a step may use (default 900; 0: read /sys)",
    ),
    of_nodes(
        "node-file",
        "PATH",
        "the node file (default /run/nic-placement/node.cache)",
    ),
    of_nodes("topology", "FILE", "the node as this file describes it"),
    of_nodes(
        "machine",
        "NAME",
        "the node as this built-in model describes it",
    ),
    of_nodes("sysfs", "DIR", "read sys/ and proc/ below this directory"),
    of_nodes(
        "trust-topology",
        "",
        "bind also by topology=, machine= or sysfs=",
    ),
];

/// The end of a message on an unknown name: the nearest name, then `lists`.
pub(super) fn suggestion(table: &[Spec], name: &str, lists: &str) -> String {
    let near = |edits: usize| {
        let names = table.iter().map(|spec| spec.name);
        names
            .filter(|known| 2 * edits <= known.len())
            .filter(|known| is_near(known.as_bytes(), name.as_bytes(), edits))
            .min()
    };
    let meant = (1..=2)
        .find_map(near)
        .map_or(":".into(), |meant| format!(", did you mean `{meant}`?"));
    format!("{meant} {lists}")
}

/// True if at most `edits` insertions, deletions or changes of a byte make the texts equal.
pub fn is_near(one: &[u8], other: &[u8], edits: usize) -> bool {
    match (one, other) {
        _ if one.len().abs_diff(other.len()) > edits => false,
        ([x, one @ ..], [y, other @ ..]) if x == y => is_near(one, other, edits),
        ([_, one_rest @ ..], [_, other_rest @ ..]) => {
            let edited = [(one_rest, other_rest), (one_rest, other), (one, other_rest)];
            edits > 0
                && edited
                    .iter()
                    .any(|(one, other)| is_near(one, other, edits - 1))
        }
        _ => true,
    }
}

pub fn help() -> String {
    let lines = |table: &[Spec]| {
        let widths = table.iter().map(|spec| spec.spelling().chars().count());
        let width = widths.max().unwrap_or(0);
        let line = |spec: &Spec| {
            let mut text = format!("  {:<width$} ", spec.spelling());
            let mut column = width + 3;
            for word in spec.sentence().split(' ') {
                column += 1 + word.len();
                if column > 80 {
                    text += &format!("\n{:1$}", "", width + 3);
                    column = width + 4 + word.len();
                }
                text = text + " " + word;
            }
            text + "\n"
        };
        table.iter().map(line).collect::<String>()
    };
    format!(
        "--nic-placement[=WORD,...]  give every GPU task its nearest NIC, CPUs and memory\n\
         \n\
         The words, also in SLURM_NIC_PLACEMENT:\n{}\n\
         The admin's arguments, in plugstack.conf and /etc/nic-placement.conf:\n{}\n\
         The nearest word counts: srun's own option, SLURM_NIC_PLACEMENT as it is set for\n\
         that srun, what sbatch or salloc were given, the admin's default: for the\n\
         partition, the node, the cluster.  What you bound or set yourself stays.\n",
        lines(WORDS),
        lines(ARGUMENTS)
    )
}
