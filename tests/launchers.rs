//! Launchers that people install today, in jobs of two nodes of a real Slurm whose nodes play a DGX H100: is a rank worse off
//! with the plugin, and does it have what the documents say?
//!
//! ```text
//! make test-launchers                                    all of them, and docs/launchers.md's table
//! LAUNCHERS=MPICH cargo test --test launchers            those with that word in their name; the table stays as it is
//! ```
//!
//! Needs root, Debian's Slurm packages and the launchers (tests/exec/install.sh).  Without LAUNCHERS= it says so and passes.
//! Each job runs in four ways: as it is, with the option, with `exec` before the ranks' program, and with both.  The launchers
//! see the played CPUs too, so that they bind their ranks as they would there.  What came of it is in tests/launchers/results.tsv.

#[allow(dead_code, reason = "the cases of end_to_end use the rest")]
#[path = "end_to_end/bed.rs"]
mod bed;
#[path = "launchers/jobs.rs"]
mod jobs;
#[path = "launchers/judge.rs"]
mod judge;
#[allow(dead_code, reason = "the cases of end_to_end use the rest")]
#[path = "end_to_end/machines.rs"]
mod machines;
#[allow(dead_code, reason = "the cases of end_to_end use the rest")]
#[path = "end_to_end/plugins.rs"]
mod plugins;
#[allow(dead_code, reason = "the cases of end_to_end use the rest")]
#[path = "end_to_end/report.rs"]
mod report;
#[allow(dead_code, reason = "the cases of end_to_end use the rest")]
#[path = "end_to_end/site.rs"]
mod site;

use bed::Bed;
use jobs::{JOBS, Job};
use judge::{Ranks, faults};
use machines::{Cluster, dgx, plain};
use site::{Site, Unfit};
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Instant;

/// The two ways to ask for placement, each off or on: `(the option, exec)`.
pub const WAYS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

const RECORD: &str = "tests/launchers/results.tsv";
const HEADING: &str = "# made by `make test-launchers`\n# launcher\trelease\tstarts ranks by\twithout\toption\texec\tboth\n";

fn main() -> ExitCode {
    let Ok(word) = std::env::var("LAUNCHERS") else {
        println!("skipped: LAUNCHERS=all or a launcher's name asks for it");
        return ExitCode::SUCCESS;
    };
    let site = match Site::new() {
        Ok(site) => site,
        Err(Unfit::Skip(reason)) => {
            println!("skipped: {reason}");
            return ExitCode::SUCCESS;
        }
        Err(Unfit::Broken(reason)) => {
            eprintln!("launchers: {reason}");
            return ExitCode::FAILURE;
        }
    };
    let cluster = Cluster {
        name: "launchers",
        nodes: &[dgx, dgx],
        ..plain()
    };
    let bed = match Bed::up(&site, &cluster, &[]) {
        Ok(bed) => bed,
        Err(reason) => {
            println!("FAILED the cluster did not come up: {reason}");
            return ExitCode::FAILURE;
        }
    };
    let (mut record, mut failed, mut skipped) = (HEADING.to_string(), 0, 0);
    for job in JOBS {
        if word != "all" && !job.name.contains(&word) {
            skipped += 1;
            continue;
        }
        let lacks = job.lacks(&bed);
        if let Some(path) = lacks {
            println!(
                "skipped {}: there is no `{path}`: tests/exec/install.sh",
                job.title()
            );
            skipped += 1;
            continue;
        }
        let start = Instant::now();
        let (row, found) = a_job_is_no_worse_off_in_any_way(job, &bed);
        record.push_str(&row);
        let took = start.elapsed().as_secs_f64();
        if found.is_empty() {
            println!("ok {} ({took:.1} s)\n    {}", job.title(), row.trim_end());
        } else {
            failed += 1;
            println!(
                "FAILED {} ({took:.1} s)\n    {}",
                job.title(),
                row.trim_end()
            );
            found.iter().for_each(|line| println!("    {line}"));
            if word != "all" {
                println!("{}", bed.transcript.borrow());
            }
        }
    }
    println!(
        "{} launchers, {failed} failed, {skipped} skipped",
        JOBS.len() - skipped
    );
    if failed > 0 {
        return ExitCode::FAILURE;
    }
    if skipped == 0 {
        std::fs::write(site.repository.join(RECORD), record).expect("a file of the checkout");
    }
    let _ = std::fs::remove_dir_all(&site.dir);
    ExitCode::SUCCESS
}

/// The job in four ways: its line of the record, and all that is wrong.
fn a_job_is_no_worse_off_in_any_way(job: &Job, bed: &Bed) -> (String, Vec<String>) {
    let mut row = format!("{}\t{}\t{}", job.name, job.release, job.shown);
    let (mut found, mut without) = (Vec::new(), Ranks::default());
    bed.transcript.borrow_mut().clear();
    for (option, exec) in WAYS {
        let way = job.way(option, exec);
        let ranks = Ranks::of(&job.run(bed, option, exec));
        found.extend(
            faults(&way, &without, &ranks)
                .iter()
                .map(|fault| format!("{way:?}: {fault}")),
        );
        write!(row, "\t{}", ranks.told()).expect("a string");
        if (option, exec) == WAYS[0] {
            without = ranks;
        }
    }
    (row + "\n", found)
}
