//! Test builds of the plugin alone: the faults that an argument of plugstack.conf asks for, as `panic=HOOK`.
#![forbid(unsafe_code)]

use crate::SpankHandle;
use std::sync::Mutex;

/// The faults: to panic; to give Slurm the answer of a failure; to sleep; to take memory and keep it; to lose some.
const FAULTS: [&str; 5] = ["panic", "error", "sleep", "hunger", "leak"];
const SLEEP_MS: u32 = 1000;
const HUNGER: usize = 64 << 20;

/// The fault that was asked for, and its hook.
static ASKED: Mutex<Option<(&str, String)>> = Mutex::new(None);

fn parse(argument: &str) -> Option<(&'static str, String)> {
    let (fault, hook) = argument.split_once('=')?;
    let all = FAULTS.iter().find(|known| **known == fault);
    all.map(|known| (*known, hook.to_string()))
}

pub(crate) fn is_asked_by(argument: &str) -> bool {
    parse(argument).is_some()
}

/// Plays the fault that plugstack.conf asks for in this hook, by `panic=` and its like.
pub(crate) fn provoke(spank: &SpankHandle, hook: &str) {
    let arguments = spank.plugin_argv().unwrap_or_default();
    if let Some(asked) = arguments.iter().find_map(|argument| parse(argument)) {
        *ASKED.lock().unwrap() = Some(asked);
    }
    provoke_by(hook);
}

fn asked_in(hook: &str) -> Option<&'static str> {
    let asked = ASKED.lock().ok()?.clone()?;
    (asked.1 == hook).then_some(asked.0)
}

// std's newer function takes a type of the clock's, which this package has no use for
#[allow(deprecated)]
pub(crate) fn provoke_by(hook: &str) {
    let Some(fault) = asked_in(hook) else { return };
    assert!(fault != "panic", "asked to panic in `{hook}`");
    log::error!("asked for `{fault}` in `{hook}`");
    match fault {
        "sleep" => std::thread::sleep_ms(SLEEP_MS),
        // a byte that is not 0, so that each page is there, and out of the compiler's sight
        "hunger" => std::mem::forget(std::hint::black_box(vec![1u8; HUNGER])),
        // several, since the address of the last one may stay in a register or on the stack
        "leak" => (0..16).for_each(|_| std::mem::forget(std::hint::black_box(vec![1u8; 4096]))),
        _ => {}
    }
}

pub(crate) fn answer(hook: &str, answer: i32) -> i32 {
    if asked_in(hook) == Some("error") {
        -1
    } else {
        answer
    }
}
