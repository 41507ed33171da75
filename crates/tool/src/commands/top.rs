//! `nic-placement top`: which tasks use which NIC now, and how fast.
#![forbid(unsafe_code)]

mod print;

use super::Failure;
use super::counters::{Open, Reading, opener};
use super::page::Page;
use super::processes::Processes;
use super::request::{NodeOptions, node_in_time, number};
use nic_placement_core::config::NodeSource;
use nic_placement_core::policy;
use nic_placement_core::topology::Topology;
use nic_placement_core::wish::Wish;
use nic_placement_program as sys;
use nic_placement_traffic::counters::Sample;
use nic_placement_traffic::growth::growth;
use nic_placement_traffic::planned::{self, PlannedNics};
use nic_placement_traffic::report::{self, NicTraffic};
use nic_placement_traffic::tasks::{PlacedTask, tasks};
use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

/// each task's NICs now: tasks by the plugin's marker, bytes by the kernel's counters
///
/// A table of NICs, with what each sent and received in the last seconds, and a table of placed tasks with their GPUs, NICs
/// and the path between. Root sees all tasks, a user those of one's own. What counts is told as by `measure`; other programs'
/// bytes are in it. On a terminal the tables are printed again and again, until Ctrl-C; elsewhere once.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  nic-placement top
  nic-placement top -d 10 --once
  nic-placement top --json")]
pub(super) struct TopOptions {
    /// seconds between two looks (default: 2)
    #[arg(
        short,
        long,
        value_name = "SECONDS",
        default_value = "2",
        hide_default_value = true
    )]
    #[arg(allow_negative_numbers = true, value_parser = number(1, 3600))]
    delay: u32,
    /// print once, after one delay
    #[arg(long, help_heading = "Output")]
    once: bool,
    /// once, as versioned JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    node: NodeOptions,
}

/// Time that cards are waited for.
const PATIENCE: Duration = Duration::from_secs(2);

struct Known {
    topology: Topology,
    plan: PlannedNics,
}

struct Look<'a> {
    name: String,
    known: Option<&'a Known>,
    seconds: f64,
    nics: Vec<NicTraffic>,
    tasks: Vec<PlacedTask>,
    processes: Processes,
}

pub(super) fn run(options: &TopOptions, page: &mut Page) -> Result<(), Failure> {
    let source = options.node.source();
    let open = opener(&source);
    let known = known(source);
    let none = PlannedNics::new();
    let plan = known.as_ref().map_or(&none, |known| &known.plan);
    let (mut before, mut silent) = read(&open, &BTreeSet::new());
    let mut begun = Instant::now();
    let stdout = io::stdout();
    let goes_on = stdout.is_terminal() && !options.once && !options.json;
    loop {
        thread::sleep(Duration::from_secs(options.delay.into()));
        let (after, silent_now) = read(&open, &silent);
        let seconds = begun.elapsed().as_secs_f64();
        begun = Instant::now();
        silent.extend(silent_now);
        let Some(root) = open() else {
            return Err("top: the node's files are gone".into());
        };
        let processes = Processes::of(&root);
        let look = Look {
            name: root
                .read("proc/sys/kernel/hostname")
                .unwrap_or_else(|| "this node".to_string()),
            known: known.as_ref(),
            seconds,
            nics: report::of_node(&growth(&before, &after, &silent), plan).0,
            tasks: tasks(&processes.placed),
            processes,
        };
        before = after;
        match (options.json, goes_on) {
            (true, _) => page.exact(&print::json(&look)),
            (false, false) => print::tables(&look, page),
            (false, true) => {
                show(&look, &stdout)?;
                continue;
            }
        }
        return Ok(());
    }
}

/// Clears the terminal and prints what fits on it, without a mode of the terminal that would outlive us.
fn show(look: &Look, stdout: &io::Stdout) -> Result<(), Failure> {
    let columns = sys::terminal_columns(stdout.as_fd());
    let lines = usize::from(sys::terminal_lines(stdout.as_fd()).unwrap_or(24)).max(4);
    let mut page = Page::new(false, true).with_columns(columns);
    print::tables(look, &mut page);
    let text = String::from_utf8_lossy(page.as_bytes()).into_owned();
    let count = text.lines().count();
    // ECMA-48: to the first place, and clear
    let mut screen = "\x1b[H\x1b[2J".to_string();
    match count < lines {
        true => screen.push_str(&text),
        false => {
            text.lines().take(lines - 2).for_each(|line| {
                screen.push_str(line);
                screen.push('\n');
            });
            screen.push_str(&format!(
                "… {} more lines: --once prints all\n",
                count - (lines - 2)
            ));
        }
    }
    let mut stdout = stdout.lock();
    match stdout
        .write_all(screen.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err("top: the terminal is gone".into())
        }
        other => Ok(other?),
    }
}

fn read(open: &Open, silent: &BTreeSet<String>) -> (Sample, BTreeSet<String>) {
    let mut reading = Reading::begin(open, silent);
    reading.wait(PATIENCE);
    reading.end()
}

/// Where a card does not answer in time, no plan is shown.
fn known(source: NodeSource) -> Option<Known> {
    let topology = node_in_time(source).recv_timeout(PATIENCE).ok().flatten()?;
    let plan = planned::of_node(&topology, &policy::map(&topology, &Wish::default()));
    Some(Known { topology, plan })
}
