//! Routes `log` records to Slurm's log; by default the user sees only errors of srun, sbatch and
//! salloc.
//!
//! In these commands `slurm_error` and `slurm_info` print on the terminal. On a node both write
//! slurmd's log; in a task `slurm_error` also prints on the task's stderr.
//!
//! Only this file calls Slurm's log. [`one_line`] keeps a text from ending a line or moving a
//! cursor.
#![forbid(unsafe_code)]

use log::{Level, LevelFilter, Log, Metadata, Record};
use nic_placement_core::diagnostic::line::one_line;
use slurm_spank::{Context, LogLevel, slurm_spank_log, spank_log};
use std::sync::atomic::{AtomicU8, Ordering};

const COMMAND: u8 = 0;
const NODE: u8 = 1;
const TASK: u8 = 2;
/// slurmstepd under `observe`: warnings are verbose, since `tell_admin` logs them in one line.
const OBSERVER: u8 = 3;
static WHERE: AtomicU8 = AtomicU8::new(COMMAND);

struct ToSlurm;

impl Log for ToSlurm {
    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    fn log(&self, record: &Record) {
        let level = match (record.level(), WHERE.load(Ordering::Relaxed)) {
            (Level::Error, COMMAND | NODE | OBSERVER) => LogLevel::Error,
            (Level::Error | Level::Warn, TASK) => LogLevel::Info,
            (Level::Warn, NODE) => LogLevel::Info,
            (Level::Warn | Level::Info, _) => LogLevel::Verbose,
            (Level::Error, _) => LogLevel::Info,
            (Level::Debug, _) => LogLevel::Debug,
            (Level::Trace, _) => LogLevel::Debug2,
        };
        spank_log(
            level,
            &one_line(&format!("nic-placement: {}", record.args())),
        );
    }

    fn flush(&self) {}
}

/// Prints on the user's terminal, in a command or a task.
pub(super) fn say(line: &str) {
    slurm_spank_log(&one_line(&format!("nic-placement: {line}")));
}

/// Logs at slurmd's default level; the user does not see the line.
pub(super) fn tell_admin(line: &str) {
    spank_log(LogLevel::Info, &one_line(&format!("nic-placement: {line}")));
}

/// A second call keeps the first logger.
pub(super) fn install(context: Context) {
    if context == Context::Remote {
        WHERE.store(NODE, Ordering::Relaxed);
    }
    let _ = log::set_logger(&ToSlurm);
}

/// Sets `log`'s level by Slurm's (`log_level_t`, src/common/log.h), or the highest if Slurm's is
/// unknown. Lines that Slurm would drop are not formatted: this saves a tenth of a hook's time.
pub(super) fn up_to(slurms_level: Option<i32>) {
    log::set_max_level(match slurms_level {
        Some(5) => LevelFilter::Debug,
        Some(4) => LevelFilter::Info,
        // on a node our warnings are Slurm's `info` (3)
        Some(..4) => LevelFilter::Warn,
        Some(6..) | None => LevelFilter::Trace,
    });
}

pub(super) fn in_observer() {
    WHERE.store(OBSERVER, Ordering::Relaxed);
}

pub(super) fn in_task() {
    WHERE.store(TASK, Ordering::Relaxed);
}
