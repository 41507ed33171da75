//! libFuzzer's program: one for all targets, told by `NIC_PLACEMENT_FUZZ` which.
#![no_main]

use nic_placement_fuzz::targets::{self, Target};
use std::sync::OnceLock;

static TARGET: OnceLock<Target> = OnceLock::new();

fn chosen() -> Target {
    let name = std::env::var("NIC_PLACEMENT_FUZZ").unwrap_or_default();
    targets::named(&name).unwrap_or_else(|| {
        let known: Vec<&str> = targets::TARGETS.iter().map(|(name, ..)| *name).collect();
        eprintln!(
            "NIC_PLACEMENT_FUZZ=`{name}`: expected one of {}",
            known.join(", ")
        );
        std::process::exit(2)
    })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET.get_or_init(chosen)(data));
