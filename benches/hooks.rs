//! What a step pays: microseconds of each hook on a DGX H100's tree, placement on beside placement off.
//!
//! ```text
//! cargo bench --bench hooks
//! ```
//!
//! The fake Slurm of `tests/host` plays the same step again and again, each time in a fresh process, as Slurm does.
//! Both sides of a pair are measured in turns, so that a machine that slows down slows both.

#[path = "../tests/host/harness.rs"]
mod harness;
#[path = "../tests/host/node.rs"]
mod node;

use harness::Step;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Turns, and steps that each side plays in a turn.
const TURNS: usize = 10;
const STEPS_PER_TURN: usize = 40;

/// What is called, in order, and how often it is called.
const CALLS: [(&str, &str); 4] = [
    ("dlopen", "each process that loads the plugin"),
    ("init", "each process that loads the plugin"),
    ("init_post_opt", "each node of a step"),
    ("task_init", "each task"),
];

/// Microseconds of one call over all turns.
#[derive(Default)]
struct Times {
    medians: Vec<f64>,
    min: f64,
    max: f64,
    count: usize,
}

impl Times {
    fn add(&mut self, median: f64, min: f64, max: f64, count: usize) {
        self.min = if self.count == 0 {
            min
        } else {
            self.min.min(min)
        };
        self.max = self.max.max(max);
        self.medians.push(median);
        self.count += count;
    }

    /// The median of the turns' medians.
    fn median(&self) -> f64 {
        let mut sorted = self.medians.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// Adds one turn of a step: lines `time HOOK median M min A max B n COUNT`.
fn play(step: &Step, times: &mut BTreeMap<String, Times>) -> Result<(), String> {
    let host = harness::host().ok_or("there is no C compiler")?;
    let timed = step.clone().word("--repeat", STEPS_PER_TURN.to_string());
    let output = timed
        .command(host)
        .arg("--time")
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(harness::stderr(&output));
    }
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let words: Vec<_> = line.split(' ').collect();
        let [
            "time",
            hook,
            "median",
            median,
            "min",
            min,
            "max",
            max,
            "n",
            count,
        ] = words[..]
        else {
            return Err(format!("unexpected line `{line}`"));
        };
        let number = |word: &str| {
            word.parse::<f64>()
                .map_err(|_| format!("`{word}` is no number in `{line}`"))
        };
        let count = count
            .parse()
            .map_err(|_| format!("`{count}` is no count in `{line}`"))?;
        times.entry(hook.to_string()).or_default().add(
            number(median)?,
            number(min)?,
            number(max)?,
            count,
        );
    }
    Ok(())
}

/// Measures both and prints them side by side.
fn compare(title: &str, on: &Step, off: &Step) -> Result<(), String> {
    let (mut with, mut without) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..TURNS {
        play(on, &mut with)?;
        play(off, &mut without)?;
    }
    println!("{title}");
    println!(
        "  {:<14} {:>9} {:>9} {:>9} {:>9} {:>8} {:>6}",
        "us", "on", "min", "max", "off", "on/off", "n"
    );
    for (call, who) in CALLS {
        let (Some(on), Some(off)) = (with.get(call), without.get(call)) else {
            return Err(format!("`{call}` was not measured"));
        };
        println!(
            "  {call:<14} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>7.1}x {:>6}   {who}",
            on.median(),
            on.min,
            on.max,
            off.median(),
            on.median() / off.median(),
            on.count
        );
    }
    println!();
    Ok(())
}

fn measure() -> Result<(), String> {
    let step = || Step::on_dgx_h100().task_per_gpu();
    println!("plugin: {}", harness::plugin().display());
    println!(
        "medians of {TURNS} turns of {STEPS_PER_TURN} steps, DGX H100, 8 tasks of 1 GPU; off: the same step, `off`\n"
    );
    let off = step().arg("default=off");
    compare("default=closest", &step().arg("default=closest"), &off)?;
    compare(
        "default=closest, --nic-placement=verbose",
        &step().arg("default=closest").option("verbose"),
        &off,
    )?;
    let node = node::Node::new("bench");
    compare(
        "default=closest, this node's own /sys (played), from the node file beside reading it (`off`)",
        &node.step(),
        &node.step().arg("cache=0"),
    )
}

fn main() -> ExitCode {
    // `cargo test --benches` runs this too, but without `--bench`; figures of a debug build mean nothing
    if !std::env::args().any(|argument| argument == "--bench") {
        return ExitCode::SUCCESS;
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("hooks: {reason}");
            ExitCode::FAILURE
        }
    }
}
