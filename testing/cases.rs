//! Cases that a program runs one after another and counts, and the reasons why it runs none.
#![allow(dead_code, unused_imports, unused_macros)] // each program uses a part

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

/// `cases![a_first_case, a_second: |bed| of_one_line(bed)]` as a table: a case's name is the sentence that it proves.
macro_rules! cases {
    (@ $case:ident) => { $case };
    (@ $case:ident $run:expr) => { $run };
    ($($case:ident $(: $run:expr)?),* $(,)?) => {
        &[$((stringify!($case), cases!(@ $case $($run)?))),*]
    };
}
pub(crate) use cases;

/// Why a program has no cluster or guest.
pub enum Unfit {
    /// something that this machine lacks, and may lack
    Skip(String),
    /// something that should be there
    Broken(String),
}

impl Unfit {
    /// The end of a program that has none.
    pub fn end(self, program: &str) -> ExitCode {
        match self {
            Unfit::Skip(reason) => {
                println!("skipped: {reason}");
                ExitCode::SUCCESS
            }
            Unfit::Broken(reason) => {
                eprintln!("{program}: {reason}");
                ExitCode::FAILURE
            }
        }
    }
}

/// A case that cannot run here says why by `skip`.
struct Skipped(String);

pub fn skip(reason: impl Into<String>) -> ! {
    panic_any(Skipped(reason.into()))
}

/// Place and reason of the last panic: the hook notes it, the runner prints it.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Runs cases and counts.
#[derive(Default)]
pub struct Tally {
    /// the wanted cases have one of them in their names
    words: Vec<String>,
    passed: usize,
    failed: usize,
    skipped: usize,
    /// each failure in a line: said again at the end, after hundreds of lines
    failures: Vec<String>,
}

impl Tally {
    /// Of the words of the command line.
    pub fn new() -> Tally {
        std::panic::set_hook(Box::new(|panic| {
            *LAST_PANIC.lock().unwrap() = panic.to_string()
        }));
        let words = std::env::args().skip(1);
        Tally {
            words: words.filter(|word| !word.starts_with('-')).collect(),
            ..Tally::default()
        }
    }

    pub fn wants(&self, name: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| name.contains(word))
    }

    /// The value of `make`, or its panic's reason.
    pub fn caught<T>(make: impl FnOnce() -> T) -> Result<T, String> {
        catch_unwind(AssertUnwindSafe(make)).map_err(|_| LAST_PANIC.lock().unwrap().clone())
    }

    /// Runs a wanted case; `shown` is printed if it fails.
    pub fn run(&mut self, name: &str, case: impl FnOnce(), shown: impl FnOnce() -> String) {
        if !self.wants(name) {
            return;
        }
        let start = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(case));
        let took = start.elapsed().as_secs_f64();
        match result.map_err(|panic| panic.downcast::<Skipped>()) {
            Ok(()) => {
                self.passed += 1;
                println!("ok {name} ({took:.2} s)");
            }
            Err(Ok(skipped)) => self.skip(1, name, &skipped.0),
            Err(Err(_)) => {
                let why = LAST_PANIC.lock().unwrap().clone();
                println!("FAILED {name} ({took:.2} s)");
                let lines = format!("{why}\n{}", shown());
                lines.lines().for_each(|line| println!("    {line}"));
                let line = why.lines().nth(1).unwrap_or(&why);
                self.failed += 1;
                self.failures.push(format!("{name}: {line}"));
            }
        }
    }

    /// So many cases cannot run.
    pub fn skip(&mut self, cases: usize, of: &str, why: &str) {
        self.skipped += cases;
        println!("skipped {of}: {why}");
    }

    /// So many cases fail together.
    pub fn fail(&mut self, cases: usize, why: String) {
        self.failed += cases;
        println!("FAILED {why}");
        self.failures.push(why);
    }

    /// Prints the sums; how many failed.
    pub fn end(self) -> usize {
        for failure in &self.failures {
            println!("FAILED {failure}");
        }
        let (passed, failed, skipped) = (self.passed, self.failed, self.skipped);
        println!("{passed} passed, {failed} failed, {skipped} skipped");
        failed
    }
}
