//! The generator of srun lines: the same line for the same seed, index and machine.

use crate::rng::Rng;
use crate::targets::Target;

/// A pair: a line to run without the plugin and with it, and what else goes on at the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pair {
    pub without: String,
    pub with: String,
    /// jobs that hold a part of the node
    pub holders: Vec<String>,
    /// the first of them ends before the pair begins, and leaves a hole
    pub leaves_hole: bool,
    /// the number that each task asked for, as hardware threads
    pub asked: Option<u32>,
    pub has_gpus: bool,
    /// the user said where the tasks run, or where their memory is
    pub cpu_bind: bool,
    pub mem_bind: bool,
    pub gives_up_share: bool,
    pub gives_up_memory: bool,
    /// task k uses the k-th GPU that it sees
    pub promises_gpu: bool,
}

const WORDS: &[(u32, &str)] = &[
    (26, ""),
    (12, "=bind=core"),
    (7, "=bind=numa"),
    (4, "=bind=none"),
    (7, "=spread"),
    (7, "=rail"),
    (6, "=mem=strict"),
    (4, "=mem=none"),
    (5, "=omp=on"),
    (4, "=numa"),
    (3, "=gpu=local-id"),
    (3, "=bind=core,mem=strict"),
    (2, "=bind=numa,mem=strict"),
    (2, "=spread,bind=core,omp=on"),
    // no word: the admin's `default=` for a partition
    (8, "default"),
];

const DISTRIBUTIONS: &[&str] = &[
    "block",
    "cyclic",
    "block:block",
    "block:cyclic",
    "block:fcyclic",
    "cyclic:block",
    "cyclic:cyclic",
    "*:fcyclic",
    "*:block",
    "plane=2",
    "cyclic:cyclic:cyclic",
    "block:block:cyclic",
    "block:fcyclic:fcyclic",
    "block:cyclic:fcyclic",
];

/// A machine's CPUs and GPUs that are left.
struct Room {
    cores: u32,
    threads: u32,
    gpus: u32,
}

impl Room {
    fn cpus(&self) -> u32 {
        self.cores * self.threads
    }
}

/// The pair of an index for a release of Slurm, like 22.05.
pub fn pair(release: (u32, u32), seed: u64, index: u64, target: &Target) -> Pair {
    let mut rng = Rng::new(seed, index);
    let mut pair = Pair::default();
    let mut room = Room {
        cores: target.cores(),
        threads: target.threads,
        gpus: target.gpus,
    };
    if rng.percent(30) {
        hold(&mut rng, target, &mut room, &mut pair);
    }
    let word = rng.below(100);
    let mut reach = 0;
    let (_, word) = WORDS
        .iter()
        .find(|(weight, _)| {
            reach += weight;
            word < reach
        })
        .copied()
        .unwrap_or(WORDS[0]);
    pair.gives_up_share = word.contains("bind=numa");
    pair.gives_up_memory = word.contains("mem=strict");
    pair.promises_gpu = word.contains("gpu=local-id");
    let mut options = options(&mut rng, release, target, &room, &mut pair);
    // `--cpu-bind=none` binds to nothing, and the user's own `bind=` holds beside it
    let binds = word.contains("bind=") && !word.contains("bind=none");
    pair.cpu_bind &= !(binds && options.iter().any(|option| option == "--cpu-bind=none"));
    let program = match rng.below(100) {
        0..90 => "$report",
        90..95 => r#"bash -c "$report; echo out; echo err >&2; exit \$((SLURM_PROCID % 3))""#,
        _ => r#"bash -c "$report; exit 7""#,
    };
    let (flag, partition) = match word {
        "default" => (String::new(), "q"),
        word => (format!(" --nic-placement{word}"), "p"),
    };
    // a job with more than its step: the step's own numbers count
    let job = (rng.percent(20)).then(|| salloc(&mut rng, &room, &pair, &options));
    // since 23.11 srun takes the job's `-c` for its own where it was given none (SLURM_CPUS_PER_TASK in srun(1))
    if release >= (23, 11) {
        pair.asked = pair.asked.or(job.as_ref().and_then(|(_, cpus)| *cpus));
    }
    let around = match rng.below(6) {
        // slurmd of 22.05 ends at some of these, also without the plugin (task/affinity, `lllp_distribution`)
        1 | 2 if release < (23, 11) && options.iter().any(|of| of.starts_with("--hint=")) => 3,
        around => around,
    };
    let variables = by_variables(&mut rng, &mut options);
    if rng.percent(8) {
        options.push(rng.of(EXTRAS).into());
    }
    let options = options.join(" ");
    let line = |partition, flag: &str| {
        let number = &target.node[1..];
        let place = format!("-p {partition}{number} -w {} -N1", target.node);
        let Some((all, _)) = &job else {
            return format!("{variables}srun {place}{flag} {options} {program}");
        };
        match around {
            // `sbatch -W` asks after 2 and 10 seconds
            0 => format!(
                "rm -f end; job=$({variables}sbatch{flag} --parsable -o end.out -e end.err {place} {all} <<'END'\n\
                 #!/bin/bash\nsrun {options} {program}\necho $? > end\nEND\n) || exit\n\
                 while squeue -h -j $job 2> /dev/null | grep -q .; do sleep 0.1; done\n\
                 cat end.out; cat end.err >&2; exit $(cat end)"
            ),
            // the inner srun takes what slurmd set in the outer task for the user's own
            1 | 2 => format!(
                "{variables}salloc --quiet {place} {all} srun{flag} --overlap -n1 \
                 bash -c '{}srun{flag} --overlap {options} {program}'",
                ["unset SLURM_CPU_BIND; ", ""][around as usize % 2]
            ),
            _ => format!("{variables}salloc --quiet {place} {all} srun{flag} {options} {program}"),
        }
    };
    (pair.without, pair.with) = (line("p", ""), line(partition, &flag));
    pair
}

/// What few users write.
const EXTRAS: &[&str] = &[
    "--exact",
    "--gres-flags=disable-binding",
    "--gres-flags=enforce-binding",
    "-B 1",
    "--ntasks-per-socket=4",
    "--cpus-per-gpu=6",
    "--export=NONE",
];

/// srun reads these options from variables too.
const VARIABLES: &[(&str, &str)] = &[
    ("--cpu-bind=", "SLURM_CPU_BIND"),
    ("--mem-bind=", "SLURM_MEM_BIND"),
    ("--gpu-bind=", "SLURM_GPU_BIND"),
    ("--hint=", "SLURM_HINT"),
    ("--threads-per-core=", "SLURM_THREADS_PER_CORE"),
    ("-m ", "SLURM_DISTRIBUTION"),
];

/// Takes options away that it says by variables.
fn by_variables(rng: &mut Rng, options: &mut Vec<String>) -> String {
    let mut variables = String::new();
    options.retain(|option| {
        let of_option = |(start, _): &&(&str, &str)| option.starts_with(start);
        let known = VARIABLES.iter().find(of_option);
        let Some((start, name)) = known.filter(|_| rng.percent(20)) else {
            return true;
        };
        variables += &format!("{name}={} ", &option[start.len()..]);
        false
    });
    variables
}

/// Other jobs on the node, and what they leave.
fn hold(rng: &mut Rng, target: &Target, room: &mut Room, pair: &mut Pair) {
    let cores = target.cores();
    let mut take = |tasks: u32, cpus: u32, gpus: u32, more: &str| {
        let needs = tasks * cpus.div_ceil(target.threads);
        if needs + 2 > room.cores || gpus + 1 > room.gpus {
            return;
        }
        room.cores -= needs;
        room.gpus -= gpus;
        let gres = if gpus > 0 {
            format!(" --gres=gpu:{gpus}")
        } else {
            String::new()
        };
        pair.holders.push(format!("-n{tasks} -c{cpus}{gres}{more}"));
    };
    let few = rng.of(&[1, 2, 4, 6, 8, 14, 20, 26]);
    let most = target.gpus / 2;
    match rng.below(4) {
        0 => {
            let gpus = 1 + rng.below(most);
            take(1, few, gpus, "");
        }
        1 => {
            let cpus = rng.of(&[
                cores,
                cores - 4,
                cores / 2 + 6,
                cores / 2,
                cores * target.threads * 3 / 4,
            ]);
            let gpus = rng.of(&[0, 0, 1]);
            take(1, cpus, gpus, "");
        }
        2 => {
            let (tasks, way) = (
                1 + rng.below(6),
                rng.of(&["block:block", "cyclic:cyclic", "block:fcyclic"]),
            );
            take(tasks, few, 0, &format!(" -m {way}"));
        }
        _ => {
            take(1, few, 0, "");
            let cpus = rng.of(&[2, 4, 6, 14, 28, cores / 2]);
            let tasks = rng.of(&[1, 2, 3]);
            take(tasks, cpus, 0, " -m block:cyclic");
            pair.leaves_hole = pair.holders.len() == 2;
        }
    }
}

/// What the step asks for, one option after another; each fits the room alone, and most of them together.
fn options(
    rng: &mut Rng,
    release: (u32, u32),
    target: &Target,
    room: &Room,
    pair: &mut Pair,
) -> Vec<String> {
    let mut tasks = rng.of(&[1, 1, 2, 2, 2, 3, 4, 4, 4, 5, 6, 7, 8, 8, 8, 16]);
    let overcommits = rng.percent(5);
    if !overcommits {
        tasks = tasks.min(room.cores);
    }
    let (request, in_step) = gpus(rng, room, &mut tasks);
    let mut options = vec![format!("-n{tasks}")];
    options.extend(request);
    pair.has_gpus = in_step > 0;
    if in_step > 0 && rng.percent(45) {
        options.push(format!("--gpu-bind={}", gpu_bind(rng, tasks, in_step)));
    }
    // 24.11 lets such jobs wait for ever: more tasks than CPUs, and a task's own GPUs with one thread of each core
    let is_new = release >= (23, 2);
    let is_per_task = options
        .iter()
        .any(|option| option.contains("gpus-per-task"));
    // one of these excludes the others
    let (hint, one_thread) = match rng.below(100) {
        0..6 => ("--hint=compute_bound", true),
        6..12 => ("--hint=memory_bound", true),
        12..17 => ("--hint=nomultithread", true),
        17..20 => ("--hint=multithread", false),
        20..24 => ("--ntasks-per-core=1", true),
        24..28 => ("--threads-per-core=1", true),
        _ => ("", false),
    };
    let (hint, one_thread) = if is_new && is_per_task && one_thread {
        ("", false)
    } else {
        (hint, one_thread)
    };
    options.extend(
        Some(hint)
            .filter(|hint| !hint.is_empty())
            .map(str::to_string),
    );
    let of_one = if one_thread { room.threads } else { 1 };
    if rng.percent(66) {
        let most = room.cpus() / of_one / tasks;
        // Slurm lets a step wait for ever whose threads do not fill the cores that they need
        let filled = |cpus: u32| {
            let cores = tasks * cpus.div_ceil(room.threads);
            cpus == 1 || (tasks * cpus) % room.threads == 0 && (cores <= room.cores || overcommits)
        };
        let fits = |cpus: u32| filled(cpus) && (cpus <= most || overcommits && cpus < 8);
        let usual = rng.of_fitting(
            &[1, 2, 2, 3, 4, 4, 6, 7, 8, 14, 16, 20, 28, 40, 56, 112, most],
            fits,
        );
        if let Some(cpus) = usual.filter(|cpus| *cpus > 0) {
            options.push(format!("-c{cpus}"));
            pair.asked = Some(asked(&options, cpus, room.threads));
        }
    }
    if rng.percent(52) {
        options.push(format!("-m {}", rng.of(DISTRIBUTIONS)));
    }
    if pair.holders.is_empty() && rng.percent(9) {
        options.push("--exclusive".into());
    }
    if overcommits && !(is_new && (pair.asked.is_some() || one_thread)) {
        options.push("--overcommit".into());
    }
    if hint.is_empty() && rng.percent(14) {
        let cpus: Vec<u32> = (0..tasks).map(|_| rng.below(target.cpus())).collect();
        let bind = rng.of(&[
            "none",
            "cores",
            "sockets",
            "ldoms",
            "threads",
            "rank",
            "rank_ldom",
            "map_cpu:",
            "mask_cpu:",
            "map_ldom:",
            "mask_ldom:",
        ]);
        // 24.11 says that it ignores `rank`
        pair.cpu_bind = bind != "rank" || release < (24, 11);
        let nodes = |number: u32| number % target.numa_nodes;
        let of_task = |cpu: &u32| match bind {
            "map_cpu:" => cpu.to_string(),
            "mask_cpu:" => format!("0x{}{}", 1 << (cpu % 4), "0".repeat(*cpu as usize / 4)),
            "map_ldom:" => nodes(*cpu).to_string(),
            _ => format!("{:#x}", 1 << nodes(*cpu)),
        };
        let list = cpus.iter().map(of_task).collect::<Vec<_>>().join(",");
        let list = if bind.ends_with(':') {
            list
        } else {
            String::new()
        };
        options.push(format!("--cpu-bind={bind}{list}"));
    } else if rng.percent(4) {
        options.push("--cpu-bind=verbose".into());
    }
    if rng.percent(12) {
        let node = rng.below(target.numa_nodes);
        let bind = rng.of(&[
            "local",
            "rank",
            "none",
            "map_mem:",
            "mask_mem:0x",
            "prefer,map_mem:",
        ]);
        let list = match bind {
            "mask_mem:0x" => format!("{:x}", 1 << node | 1 << rng.below(target.numa_nodes)),
            bind if bind.ends_with(':') => format!("{node},{}", rng.below(target.numa_nodes)),
            _ => String::new(),
        };
        pair.mem_bind = true;
        options.push(format!("--mem-bind={bind}{list}"));
    }
    options
}

/// The options that ask for GPUs, and how many the step then has.
fn gpus(rng: &mut Rng, room: &Room, tasks: &mut u32) -> (Option<String>, u32) {
    let most = room.gpus;
    let some = rng.of(&[
        most,
        most,
        (*tasks).min(most),
        1,
        2.min(most),
        most.div_ceil(2),
    ]);
    match rng.below(100) {
        0..48 => {
            let each = if rng.percent(20) { 2 } else { 1 };
            match *tasks * each <= most {
                true => (Some(format!("--gpus-per-task={each}")), *tasks * each),
                false => (Some(format!("--gres=gpu:{some}")), some),
            }
        }
        48..77 => (Some(format!("--gres=gpu:{some}")), some),
        77..87 => (Some(format!("--gpus={some}")), some),
        87..92 => (Some(format!("--gpus-per-node={some}")), some),
        92..96 => {
            let each = rng.of(&[1, 2]);
            *tasks = some * each;
            (Some(format!("--gpus={some} --ntasks-per-gpu={each}")), some)
        }
        _ => (None, 0),
    }
}

fn gpu_bind(rng: &mut Rng, tasks: u32, gpus: u32) -> String {
    let list = |rng: &mut Rng, of: fn(&mut Rng, u32) -> String| {
        (0..tasks)
            .map(|_| of(rng, gpus))
            .collect::<Vec<_>>()
            .join(",")
    };
    match rng.below(8) {
        0 | 1 => "closest".into(),
        2 => "verbose,closest".into(),
        3 => format!("single:{}", tasks.div_ceil(gpus)),
        4 => format!(
            "map_gpu:{}",
            list(rng, |rng, gpus| rng.below(gpus).to_string())
        ),
        5 => {
            let mask = |rng: &mut Rng, gpus| format!("{:#x}", 1 + rng.below((1u32 << gpus) - 1));
            format!("mask_gpu:{}", list(rng, mask))
        }
        6 => "none".into(),
        _ => match tasks <= gpus {
            true => format!("per_task:{}", gpus / tasks),
            false => "closest".into(),
        },
    }
}

/// The hardware threads of `-cN`: of N cores where a core has one thread.  `--ntasks-per-core` alone leaves N threads, and
/// no task less than a core (Slurm's step_mgr.c, `step_layout_create`).
fn asked(options: &[String], cpus: u32, threads: u32) -> u32 {
    let is_any = |words: &[&str]| {
        let mut options = options.iter();
        options.any(|option| words.iter().any(|word| option.contains(word)))
    };
    if is_any(&["_bound", "nomultithread", "--threads-per-core"]) {
        cpus * threads
    } else if is_any(&["--ntasks-per-core"]) {
        cpus.max(threads)
    } else {
        cpus
    }
}

/// What the job has around such a step: the same or more; and its `-c` where that is not the step's, as hardware threads.
fn salloc(rng: &mut Rng, room: &Room, pair: &Pair, step: &[String]) -> (String, Option<u32>) {
    if pair.holders.is_empty() && rng.percent(40) {
        return (format!("--exclusive --gres=gpu:{}", room.gpus), None);
    }
    let tasks: u32 = step[0][2..].parse().expect("-n");
    let needs = tasks * pair.asked.unwrap_or(room.threads);
    let wide = rng.of(&[8, 16, room.cores]).min(room.cores);
    let fits = |cpus: u32| {
        cpus * wide <= room.cpus()
            && cpus * wide >= needs
            && pair.asked.is_none_or(|asked| asked <= cpus)
    };
    match rng.of_fitting(&[1, 2, 4, 14, 28], fits) {
        Some(cpus) if rng.percent(70) => (
            format!("-n{wide} -c{cpus} --gres=gpu:{}", room.gpus),
            Some(asked(step, cpus, room.threads)),
        ),
        _ => {
            let sized = |option: &&String| !option.contains("bind=") && !option.starts_with("-m");
            (
                step.iter()
                    .filter(sized)
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(" "),
                None,
            )
        }
    }
}
