//! The runner of the cases.

use crate::bed::Skipped;
pub use crate::bed::{Bed, Ran, skip, while_another_job_has_gpus};
use crate::machines::Cluster;
use crate::site::Site;
use std::any::Any;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

/// A case: its name is the sentence that it proves.
pub type Case = (&'static str, fn(&Bed));

/// `cases![a_first_case, a_second]` as a table.
macro_rules! cases {
    ($($case:ident),* $(,)?) => { &[$((stringify!($case), $case)),*] };
}
pub(crate) use cases;

/// Where and why the last panic was: the hook notes it, the runner prints it.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Runs cases and counts.
pub struct Suite {
    site: Site,
    words: Vec<String>,
    passed: usize,
    failed: usize,
    skipped: usize,
    /// what failed, with the first line of why: said again at the end, after hundreds of lines
    failures: Vec<String>,
}

impl Suite {
    pub fn new(site: Site, words: Vec<String>) -> Suite {
        std::panic::set_hook(Box::new(|panic| {
            *LAST_PANIC.lock().unwrap() = panic.to_string()
        }));
        Suite {
            site,
            words,
            passed: 0,
            failed: 0,
            skipped: 0,
            failures: Vec::new(),
        }
    }

    /// Runs the wanted cases of `groups` on one cluster, which is up only for them.
    pub fn on(&mut self, cluster: Cluster, groups: &[&[Case]]) {
        let wanted =
            |name: &str| self.words.is_empty() || self.words.iter().any(|word| name.contains(word));
        let cases: Vec<&Case> = groups
            .iter()
            .flat_map(|group| group.iter())
            .filter(|case| wanted(case.0))
            .collect();
        if cases.is_empty() {
            return;
        }
        if cluster
            .autodetect
            .is_some_and(|word| word(&self.site).is_none())
        {
            self.skipped += cases.len();
            println!(
                "skipped {} cases on `{}`: this Slurm finds no GPUs without NVIDIA's library",
                cases.len(),
                cluster.name
            );
            return;
        }
        // Slurm 22.05 needs systemd's help for the cgroups of version 2
        if cluster.cgroups && !Path::new("/sys/fs/cgroup/devices/devices.list").exists() {
            self.skipped += cases.len();
            println!(
                "skipped {} cases on `{}`: no cgroup v1 `devices` hierarchy here",
                cases.len(),
                cluster.name
            );
            return;
        }
        let start = Instant::now();
        let bed = match catch_unwind(AssertUnwindSafe(|| Bed::up(&self.site, &cluster, &[]))) {
            Ok(Ok(bed)) => bed,
            failed => {
                let reason = failed.map_or_else(
                    |_| LAST_PANIC.lock().unwrap().clone(),
                    |up| up.err().unwrap(),
                );
                self.failures.push(format!(
                    "cluster `{}` did not come up: {reason}",
                    cluster.name
                ));
                println!(
                    "FAILED cluster `{}` did not come up: {reason}",
                    cluster.name
                );
                self.failed += cases.len();
                return;
            }
        };
        println!(
            "cluster `{}` is up ({:.2} s)",
            cluster.name,
            start.elapsed().as_secs_f64()
        );
        for (name, case) in cases {
            let start = Instant::now();
            let result = catch_unwind(AssertUnwindSafe(|| {
                bed.begin_case();
                case(&bed);
            }));
            let took = start.elapsed().as_secs_f64();
            match result.map_err(|panic: Box<dyn Any + Send>| panic.downcast::<Skipped>()) {
                Ok(()) => {
                    self.passed += 1;
                    println!("ok {name} ({took:.2} s)");
                }
                Err(Ok(skipped)) => {
                    self.skipped += 1;
                    println!("skipped {name}: {}", skipped.0);
                }
                Err(Err(_)) => {
                    self.failed += 1;
                    println!("FAILED {name} ({took:.2} s)");
                    let why = LAST_PANIC.lock().unwrap().clone();
                    for line in why.lines().chain(bed.transcript.borrow().lines()) {
                        println!("    {line}");
                    }
                    self.failures
                        .push(format!("{name}: {}", why.lines().nth(1).unwrap_or(&why)));
                }
            }
        }
    }

    pub fn finish(self) -> ExitCode {
        let Suite {
            site,
            passed,
            failed,
            skipped,
            failures,
            ..
        } = self;
        failures
            .iter()
            .for_each(|failure| println!("FAILED {failure}"));
        if failed > 0 {
            println!("the logs are in `{}`", site.dir.display());
        } else {
            let _ = fs::remove_dir_all(&site.dir);
        }
        println!("{passed} passed, {failed} failed, {skipped} skipped");
        if failed > 0 {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }
}
