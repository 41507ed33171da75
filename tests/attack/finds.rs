//! What a pair shows: whether the user is worse off with the plugin, in sentences.

use crate::judge::{self, Memory, Set, Step};
use crate::line::Pair;
use crate::pairs::{Half, Outcome};
use crate::slurm::task::{Task, numbers};
use crate::targets::{Facts, Target};

/// In what the half with the plugin is worse; empty if in nothing.
pub fn finds(facts: &Facts, target: &Target, pair: &Pair, outcome: &Outcome) -> Vec<String> {
    let Outcome { without, with, .. } = outcome;
    let mut found = Vec::new();
    if without.code != with.code {
        found.push(format!(
            "the exit status is {}, without it {}",
            with.code, without.code
        ));
    }
    for (stream, before, after) in [
        ("stdout", &without.stdout, &with.stdout),
        ("stderr", &without.stderr, &with.stderr),
    ] {
        if before != after {
            found.push(format!("{stream} has {after:?}, without it {before:?}"));
        }
    }
    // a step takes a fifth of a second; the machine may be busy with something else
    if with.seconds > 4.0 * without.seconds + 3.0 {
        found.push(format!(
            "it took {:.1} s, without it {:.1}",
            with.seconds, without.seconds
        ));
    }
    if without.is_refused() {
        return found;
    }
    if without.tasks.iter().any(|task| !task.is_untouched()) {
        found.push("the half that must be without the plugin is touched by it".into());
    }
    let step = step(facts, target, pair, outcome);
    found.extend(judge::worse(&facts.machine, &step));
    if without.tasks.len() != with.tasks.len() {
        return found;
    }
    for (id, (before, after)) in without.tasks.iter().zip(&with.tasks).enumerate() {
        if (gpus(facts, before), before.env("CUDA_VISIBLE_DEVICES"))
            != (gpus(facts, after), after.env("CUDA_VISIBLE_DEVICES"))
        {
            found.push(format!("task {id} sees other GPUs"));
        }
        if pair.cpu_bind && before.cpus() != after.cpus() {
            found.push(format!(
                "task {id} runs on other CPUs than the user's --cpu-bind gave it"
            ));
        }
        if pair.mem_bind && before.mem() != after.mem() {
            found.push(format!(
                "task {id} has another memory policy than the user's --mem-bind gave it"
            ));
        }
    }
    found
}

fn step(facts: &Facts, target: &Target, pair: &Pair, outcome: &Outcome) -> Step {
    let tasks = |half: &Half| {
        let task = |task: &Task| judge::Task {
            cpus: set(task.cpus()),
            memory: memory(task.mem()),
        };
        half.tasks.iter().map(task).collect::<Vec<_>>()
    };
    let seen: Vec<Vec<usize>> = outcome
        .with
        .tasks
        .iter()
        .map(|task| gpus(facts, task))
        .collect();
    // the promise counts where all tasks see the same GPUs, one for each of them at least
    let is_promised = pair.promises_gpu
        && seen
            .iter()
            .all(|gpus| *gpus == seen[0] && gpus.len() >= seen.len());
    let home = |(task, gpus): (&Task, &Vec<usize>)| {
        let own = match is_promised {
            true => &gpus[task.local()..=task.local()],
            false => &gpus[..],
        };
        own.iter()
            .filter(|_| pair.has_gpus)
            .map(|gpu| facts.gpus[*gpu].numa)
            .collect()
    };
    // thread T of core C is Slurm's CPU C * threads + T
    let core_of = |cpu: &u32| facts.machine.cores[(cpu / target.threads) as usize].clone();
    Step {
        without: tasks(&outcome.without),
        with: tasks(&outcome.with),
        homes: outcome.with.tasks.iter().zip(&seen).map(home).collect(),
        asked: pair.asked,
        foreign: outcome.held.iter().flatten().flat_map(core_of).collect(),
        gives_up_share: pair.gives_up_share,
        gives_up_memory: pair.gives_up_memory,
    }
}

/// The GPUs that a program sees, as CUDA counts: those that it can open, in PCI order, and of them those that
/// `CUDA_VISIBLE_DEVICES` numbers.
pub fn gpus(facts: &Facts, task: &Task) -> Vec<usize> {
    let open = task.open();
    let openable: Vec<usize> = (0..facts.gpus.len())
        .filter(|gpu| open.contains(&facts.gpus[*gpu].minor))
        .collect();
    match task.env("CUDA_VISIBLE_DEVICES") {
        None => openable,
        Some(_) => task
            .gpus()
            .into_iter()
            .filter_map(|number| openable.get(number).copied())
            .collect(),
    }
}

fn set(numbers: impl IntoIterator<Item = usize>) -> Set {
    numbers.into_iter().map(|number| number as u32).collect()
}

fn memory(policy: &str) -> Memory {
    let (mode, nodes) = policy.split_once(':').unwrap_or((policy, ""));
    match mode {
        "preferred" | "preferred-many" => Memory::Preferred(set(numbers(nodes))),
        "bind" | "interleave" => Memory::Bound(set(numbers(nodes))),
        _ => Memory::Local,
    }
}

/// A sentence without its numbers.
fn plain(sentence: &str) -> String {
    let mut plain = String::new();
    for letter in sentence.chars() {
        match letter {
            '0'..='9' | '.' if plain.ends_with('N') => {}
            '0'..='9' => plain.push('N'),
            letter => plain.push(letter),
        }
    }
    plain
}

/// A find's kind: its first sentence without the numbers, and how the plugin was to bind.
pub fn kind(pair: &Pair, found: &[String]) -> String {
    let bind = ["bind=core", "bind=numa", "bind=none"]
        .into_iter()
        .find(|word| pair.with.contains(word));
    format!(
        "{} ({})",
        plain(found.first().map_or("", String::as_str)),
        bind.unwrap_or("bind=auto")
    )
}

/// The sentences, of those that differ by numbers alone the first two.
pub fn told(found: &[String]) -> String {
    let mut text = String::new();
    let mut kinds: Vec<String> = found.iter().map(|sentence| plain(sentence)).collect();
    kinds.dedup();
    for kind in kinds {
        let alike: Vec<&String> = found
            .iter()
            .filter(|sentence| plain(sentence) == kind)
            .collect();
        alike
            .iter()
            .take(2)
            .for_each(|sentence| text += &format!("  * {sentence}\n"));
        if alike.len() > 2 {
            text += &format!("  * and {} more like it\n", alike.len() - 2);
        }
    }
    text
}

/// What each task had in both halves, a line each.
pub fn shown(facts: &Facts, outcome: &Outcome) -> String {
    let mut text = String::new();
    let tasks = outcome.without.tasks.len().max(outcome.with.tasks.len());
    for id in 0..tasks {
        let (before, after) = (outcome.without.tasks.get(id), outcome.with.tasks.get(id));
        let near = after
            .or(before)
            .map_or(Vec::new(), |task| gpus(facts, task));
        let near: Vec<String> = near
            .into_iter()
            .map(|gpu| {
                let gpu = &facts.gpus[gpu];
                format!("{} on node {}", &gpu.address[5..], gpu.numa)
            })
            .collect();
        let part = |task: Option<&Task>| match task {
            Some(task) => format!("{} mem {}", ranges(&set(task.cpus())), task.mem()),
            None => "-".into(),
        };
        let near = if near.len() > 3 {
            format!("{} GPUs", near.len())
        } else {
            near.join(", ")
        };
        text += &format!(
            "    task {id} ({near}): {} -> {}\n",
            part(before),
            part(after)
        );
    }
    for held in outcome.held.iter().filter(|held| !held.is_empty()) {
        text += &format!("    another job has Slurm's CPUs {}\n", ranges(held));
    }
    text
}

/// `0-2,8`
fn ranges(numbers: &Set) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let range = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}
