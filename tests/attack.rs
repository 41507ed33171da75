//! Attacks the rule that no task is worse off with the plugin than without: runs srun lines by chance, each without and with
//! it, on a real Slurm whose nodes play several machines, and lets a judge compare (`tests/attack/judge.rs`).
//!
//! ```text
//! cargo build --release && cargo test --test attack    120 pairs
//! ATTACK=3000 ATTACK_SEED=2 cargo test --test attack   more, and others
//! ATTACK_ONLY=17 cargo test --test attack              one of them, and all that it wrote
//! NICP_ROOT=FOLDER cargo test --test attack            on the Slurm of another distribution (tests/slurm/releases.sh)
//! ```
//!
//! The same seed gives the same lines on the same release of Slurm.  A pair in which the judge finds something runs once more.
//! It is void if Slurm itself does not do the same then, without the plugin, or if nothing is found then.  Pairs that are made
//! worse on purpose show each time that the judge finds what it looks for.

#[path = "attack/checks.rs"]
mod checks;
#[path = "attack/finds.rs"]
mod finds;
#[allow(dead_code, reason = "its own tests run where a test harness is")]
#[path = "attack/judge.rs"]
mod judge;
#[path = "attack/line.rs"]
mod line;
#[path = "attack/pairs.rs"]
mod pairs;
#[path = "attack/rng.rs"]
mod rng;
#[path = "../testing/slurm/mod.rs"]
mod slurm;
#[path = "attack/targets.rs"]
mod targets;

use finds::{finds, kind, shown, told};
use line::Pair;
use pairs::{Job, Outcome};
use slurm::bed::Bed;
use slurm::site::Site;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;
use targets::{Attacked, Facts, Target, clusters, target};

/// The pairs of one run.
pub struct Attack {
    release: (u32, u32),
    seed: u64,
    pairs: Vec<(u64, Target, Pair)>,
    /// show all that they did
    is_one: bool,
}

/// What came of them.
#[derive(Default)]
pub struct Tally {
    passed: usize,
    failed: usize,
    /// Slurm ran neither half
    refused: usize,
    /// Slurm itself did not do the same twice
    void: usize,
    /// the plugin set something in the half with it
    placed: usize,
    /// a task had other CPUs or another memory policy with it
    changed: usize,
    /// `(kind, how large the pair is, index)` and what is said of it
    finds: BTreeMap<(String, usize, u64), String>,
}

fn main() -> ExitCode {
    let site = match Site::new() {
        Ok(site) => site,
        Err(unfit) => return unfit.end("attack"),
    };
    let start = Instant::now();
    let attack = Attack::from_environment(site.release);
    let mut tally = Tally::default();
    checks::of_the_generator(&attack, &mut tally);
    for (number, attacked) in clusters().iter().enumerate() {
        let pairs: Vec<_> = attack
            .pairs
            .iter()
            .filter(|(_, target, _)| target.cluster == number)
            .collect();
        if pairs.is_empty() {
            continue;
        }
        if let Some(why) = attacked.cluster.lacks(&site) {
            println!("skipped {} pairs: {why}", pairs.len());
            continue;
        }
        match Bed::up(&site, &attacked.cluster, &attacked.knobs) {
            Ok(bed) => {
                if number == 0 && !attack.is_one {
                    checks::of_the_judge(&bed, &mut tally);
                }
                attack.on(&bed, attacked, &pairs, &mut tally);
            }
            Err(reason) => {
                let name = attacked.cluster.name;
                println!("FAILED cluster `{name}` did not come up: {reason}");
                tally.failed += pairs.len();
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let Tally {
        passed,
        failed,
        refused,
        void,
        placed,
        changed,
        finds,
    } = tally;
    let mut of_kind: BTreeMap<&str, usize> = BTreeMap::new();
    for ((kind, ..), text) in &finds {
        *of_kind.entry(kind).or_default() += 1;
        print!("{text}");
    }
    of_kind
        .iter()
        .for_each(|(kind, times)| println!("{times} finds of the kind: {kind}"));
    println!(
        "seed {}, {seconds:.0} s; {placed} placed, {changed} bound anew, {refused} refused, {void} void",
        attack.seed
    );
    let skipped = refused + void;
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    site.end(failed)
}

impl Attack {
    fn from_environment(release: (u32, u32)) -> Attack {
        let number = |name: &str| {
            std::env::var(name)
                .ok()
                .and_then(|value| value.parse::<u64>().ok())
        };
        let seed = number("ATTACK_SEED").unwrap_or(1);
        let one = number("ATTACK_ONLY");
        let indices = one.map_or(0..number("ATTACK").unwrap_or(120), |index| index..index + 1);
        Attack {
            release,
            seed,
            pairs: indices.map(|index| drawn(release, seed, index)).collect(),
            is_one: one.is_some(),
        }
    }

    /// Runs pairs of one cluster, a part of them at a time, so that the output says how far it is.
    fn on(
        &self,
        bed: &Bed,
        attacked: &Attacked,
        pairs: &[&(u64, Target, Pair)],
        tally: &mut Tally,
    ) {
        let nodes = pairs.iter().map(|(_, target, _)| target.node);
        let facts: BTreeMap<&str, Facts> = nodes.map(|node| (node, Facts::of(bed, node))).collect();
        let mut done = 0;
        for part in pairs.chunks(240) {
            done += part.len();
            let jobs: Vec<Job> = part
                .iter()
                .map(|(index, target, pair)| Job {
                    index: *index,
                    target: *target,
                    pair,
                })
                .collect();
            let first = pairs::run(bed, &jobs, 0);
            let suspects: Vec<usize> = (0..jobs.len())
                .filter(|k| {
                    let job = &jobs[*k];
                    !first[*k].is_busy
                        || !finds(&facts[job.target.node], &job.target, job.pair, &first[*k])
                            .is_empty()
                })
                .collect();
            let again: Vec<Job> = suspects.iter().map(|k| Job { ..jobs[*k] }).collect();
            let second = pairs::run(bed, &again, 1);
            let mut second: BTreeMap<usize, Outcome> = suspects.into_iter().zip(second).collect();
            for (k, (job, outcome)) in jobs.iter().zip(&first).enumerate() {
                self.count(
                    &facts[job.target.node],
                    job,
                    outcome,
                    second.remove(&k),
                    tally,
                );
                if self.is_one {
                    print!("{}", shown(&facts[job.target.node], outcome));
                    pairs::show_all(bed, job);
                }
            }
            let (name, all, finds) = (attacked.cluster.name, pairs.len(), tally.finds.len());
            println!("`{name}`: {done} of {all} pairs, {finds} finds so far");
        }
    }

    fn count(
        &self,
        facts: &Facts,
        job: &Job,
        first: &Outcome,
        second: Option<Outcome>,
        tally: &mut Tally,
    ) {
        let Some(second) = second else {
            tally.refused += usize::from(first.without.is_refused());
            tally.passed += usize::from(!first.without.is_refused());
            tally.placed += usize::from(first.with.tasks.iter().any(|task| !task.is_untouched()));
            tally.changed += usize::from(first.without.bindings() != first.with.bindings());
            return;
        };
        let found = finds(facts, &job.target, job.pair, &second);
        let is_same = first.without.bindings() == second.without.bindings()
            && first.without.code == second.without.code;
        let is_disturbed = second.without.is_disturbed() || second.with.is_disturbed();
        if is_disturbed || !second.is_busy || !is_same || found.is_empty() {
            tally.void += 1;
            println!("void {}: {}", job.index, job.pair.with);
            return;
        }
        tally.failed += 1;
        let Pair {
            without,
            with,
            holders,
            leaves_hole,
            ..
        } = job.pair;
        let mut text = format!(
            "FIND ATTACK_SEED={} ATTACK_ONLY={} {}\n",
            self.seed, job.index, job.target.name
        );
        text += &format!("    without: {without}\n    with:    {with}\n");
        for (k, holder) in holders.iter().enumerate() {
            let when = if *leaves_hole && k == 0 {
                "has ended"
            } else {
                "runs meanwhile"
            };
            text += &format!("    another job {when}: srun {holder}\n");
        }
        text += &told(&found);
        text += &shown(facts, &second);
        let size = second.without.tasks.len() * 1000 + with.len() + 200 * holders.len();
        tally
            .finds
            .insert((kind(job.pair, &found), size, job.index), text);
    }
}

/// The pair of an index, and where it runs.
fn drawn(release: (u32, u32), seed: u64, index: u64) -> (u64, Target, Pair) {
    let target = target(index);
    (index, target, line::pair(release, seed, index, &target))
}
