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

#[path = "launchers/jobs.rs"]
mod jobs;
#[path = "launchers/judge.rs"]
mod judge;
#[path = "../testing/slurm/mod.rs"]
mod slurm;

use jobs::{JOBS, Job};
use judge::{Ranks, faults};
use slurm::bed::Bed;
use slurm::cases::Unfit;
use slurm::machines::{Cluster, dgx};
use slurm::site::Site;
use std::fmt::Write;
use std::process::ExitCode;
use std::time::Instant;

/// The two ways to ask for placement, each off or on: `(the option, exec)`.
pub const WAYS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

const RECORD: &str = "tests/launchers/results.tsv";
const HEADING: &str = "# made by `make test-launchers`\n# launcher\trelease\tstarts ranks by\twithout\toption\texec\tboth\n";

fn main() -> ExitCode {
    let Ok(word) = std::env::var("LAUNCHERS") else {
        println!("skipped: LAUNCHERS= asks for them");
        return ExitCode::SUCCESS;
    };
    let site = match Site::new() {
        Ok(site) => site,
        Err(unfit) => return unfit.end("launchers"),
    };
    let bed = match Bed::up(&site, &Cluster::of("launchers", &[dgx, dgx]), &[]) {
        Ok(bed) => bed,
        Err(reason) => return Unfit::Broken(reason).end("launchers"),
    };
    let (mut record, mut failed, mut skipped) = (HEADING.to_string(), 0, 0);
    for job in JOBS {
        if word != "all" && !job.name.contains(&word) {
            skipped += 1;
            continue;
        }
        if let Some(path) = job.lacks(&bed) {
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
        let (took, title) = (start.elapsed().as_secs_f64(), job.title());
        let how = if found.is_empty() { "ok" } else { "FAILED" };
        println!("{how} {title} ({took:.1} s)\n    {}", row.trim_end());
        found.iter().for_each(|line| println!("    {line}"));
        failed += usize::from(!found.is_empty());
        if !found.is_empty() {
            println!("{}", bed.transcript.borrow());
        }
    }
    println!(
        "{} launchers, {failed} failed, {skipped} skipped",
        JOBS.len() - skipped
    );
    if failed + skipped == 0 {
        std::fs::write(site.repository.join(RECORD), record).expect("a file of the checkout");
    }
    drop(bed);
    site.end(failed)
}

/// The job in four ways: its line of the record, and all that is wrong.
fn a_job_is_no_worse_off_in_any_way(job: &Job, bed: &Bed) -> (String, Vec<String>) {
    let mut row = format!("{}\t{}\t{}", job.name, job.release, job.shown);
    let (mut found, mut without) = (Vec::new(), Ranks::default());
    bed.transcript.borrow_mut().clear();
    for (option, exec) in WAYS {
        let way = job.way(option, exec);
        let ranks = Ranks::of(&job.run(bed, option, exec));
        let faults = faults(&way, &without, &ranks).into_iter();
        found.extend(faults.map(|fault| format!("{way:?}: {fault}")));
        write!(row, "\t{}", ranks.told()).expect("a string");
        if (option, exec) == WAYS[0] {
            without = ranks;
        }
    }
    (row + "\n", found)
}
