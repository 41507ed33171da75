//! The checker itself, on small samples: what breaks a wall must be found, and what does not must pass.

use super::*;

/// What the check says about one file that is otherwise in order.
fn verdict(file: &str, body: &str) -> Vec<String> {
    let head = if may_hold_unsafe(file) { "//! A file.\n" } else { "//! A file.\n#![forbid(unsafe_code)]\n" };
    breaches(&[Source::new(file, &format!("{head}{body}"))])
}

#[test]
fn a_file_that_keeps_to_the_walls_passes() {
    let body = "use crate::{diagnostic::Diagnostic, topology::{self, Bitmap as Set}};\n\
                use super::candidates;\n\
                // std::fs, HashMap, crate::cli and todo!() in a comment /* crate::spank\n\
                const TEXT: &str = \"std::fs \\\" crate::cli\"; const RAW: &str = r#\"dbg!(\" crate::cli)\"#;\n\
                const BYTES: &[u8] = b\"crate::cli\"; const C: [char; 3] = ['\"', '\\'', '\\u{27}'];\n\
                fn f<'a>(x: &'a str) -> &'a str { std::mem::size_of::<u8>(); x }\n\
                #[cfg(test)]\nmod tests { use crate::discover::Root; fn t() { std::fs::read(\"x\"); } }\n";
    assert_eq!(verdict("src/policy/closest.rs", body), [""; 0]);
}

#[test]
fn an_arrow_against_the_stream_is_found_however_it_is_written() {
    let ways = [
        "use crate::cli;",
        "use crate::cli::plan as p;",
        "use crate::{topology, cli::plan};",
        "use {std::fmt, crate::{topology::{Bitmap, Pu}, cli}};",
        "use super::super::cli;",
        "use super::super::{step, cli};",
        "pub use crate :: cli :: plan;",
        "fn f() { crate::cli::main() }",
        "fn f() { let x: Vec<crate::cli::Words> = g(); }",
        "mod inner { use super::super::super::cli; }",
        "macro_rules! m { () => { $crate::cli::main() } }",
    ];
    for way in ways {
        assert_eq!(
            verdict("src/policy/closest.rs", way),
            ["src/policy/closest.rs:3: `policy` must not use `cli`"],
            "{way}"
        );
    }
    assert_eq!(
        verdict("src/pipeline.rs", "use super::cli;"),
        ["src/pipeline.rs:3: `pipeline` must not use `cli`"]
    );
    assert_eq!(
        verdict("src/spank/task.rs", "use crate::cli;"),
        ["src/spank/task.rs:3: `spank` must not use `cli`"]
    );
    assert_eq!(
        verdict("src/cli/mod.rs", "use crate::spank;"),
        ["src/cli/mod.rs:3: `cli` must not use `spank`"]
    );
}

#[test]
fn a_module_that_no_arrow_names_is_found() {
    let said = verdict("src/helpers.rs", "use crate::topology;");
    assert_eq!(said, ["src/helpers.rs:3: `helpers` is in no arrow of tests/architecture.rs"]);
}

#[test]
fn some_arrows_reach_a_part_of_a_module_only() {
    assert_eq!(verdict("src/sys/mod.rs", "use crate::topology::bitmap::CpuSet;"), [""; 0]);
    assert_eq!(verdict("src/sys/mod.rs", "use crate::topology::{CpuSet, NodeSet};"), [""; 0]);
    assert_eq!(verdict("src/sys/mod.rs", "use crate::topology::Topology;").len(), 1);
    assert_eq!(verdict("src/config/mod.rs", "use crate::render::Settings;"), [""; 0]);
    assert_eq!(verdict("src/config/mod.rs", "use crate::render::ucx::variables;").len(), 1);
    assert_eq!(verdict("src/config/mod.rs", "use crate::placement::{Policy, NodePlacement};").len(), 1);
}

#[test]
fn a_name_that_is_reserved_for_others_is_found() {
    let wrong = [
        ("src/cli/mod.rs", "use slurm_spank::SpankHandle;"),
        ("src/policy/mod.rs", "fn f() { unused(libc::EINVAL) }"),
        ("src/spank/task.rs", "use libc::c_int;"),
        ("src/config/mod.rs", "use std::{fmt, fs};"),
        ("src/config/mod.rs", "fn f() { std::fs::read(x); }"),
        ("src/render/mod.rs", "fn f() { File::open(x); }"),
        ("src/discover/gpu.rs", "fn f() { std::env::var(x); }"),
        ("src/pipeline.rs", "use std::time::Duration;"),
        ("src/pipeline.rs", "fn f() { Instant::now(); }"),
        ("src/spank/mod.rs", "fn f() { std::thread::spawn(g); }"),
        ("src/cli/mod.rs", "use std::collections::{BTreeMap, HashMap};"),
        ("src/cli/mod.rs", "#[cfg(test)]\nmod tests { use std::collections::HashSet; }"),
        ("src/step.rs", "fn f() { todo!() }"),
        ("src/step.rs", "#[test]\nfn f() { dbg!(1); }"),
        ("src/step.rs", "fn f() { unimplemented!(\"later\") }"),
    ];
    for (file, body) in wrong {
        assert_eq!(verdict(file, body).len(), 1, "{file}: {body}: {:?}", verdict(file, body));
    }
    let right = [
        ("src/spank/task.rs", "use slurm_spank::SpankHandle;"),
        ("src/sys/affinity.rs", "use libc::c_int;"),
        ("src/spank/mod.rs", "pub extern \"C\" fn slurm_spank_init() -> libc::c_int { 0 }"),
        ("src/discover/root.rs", "fn f() { std::fs::File::open(x); }"),
        ("src/sys/access.rs", "use std::fs::File; fn f(directory: &File) {}"),
        ("src/cli/snapshot.rs", "fn f() { std::fs::write(x, y); std::time::Instant::now(); }"),
        ("src/config/mod.rs", "const X: &str = env!(\"CARGO_PKG_VERSION\"); fn todo() { self.env() }"),
    ];
    for (file, body) in right {
        assert_eq!(verdict(file, body), [""; 0], "{file}: {body}");
    }
}

#[test]
fn a_file_without_its_head_is_found() {
    let rules = |file: &str, text: &str| breaches(&[Source::new(file, text)]);
    assert_eq!(rules("src/step.rs", "//! A file.\n#![forbid(unsafe_code)]\n"), [""; 0]);
    assert_eq!(rules("src/step.rs", "//! A file.\n").len(), 1);
    assert_eq!(rules("src/step.rs", "//! A file.\nuse std::fmt;\n// #![forbid(unsafe_code)]\n").len(), 1);
    assert_eq!(rules("src/step.rs", "// A file.\n#![forbid(unsafe_code)]\n").len(), 1);
    assert_eq!(rules("src/spank/task.rs", "//! A file.\n").len(), 1);
    assert_eq!(rules("src/spank/mod.rs", "//! A file.\n"), [""; 0]);
    assert_eq!(rules("src/sys/mempolicy.rs", "//! A file.\n"), [""; 0]);
    let long = format!("//! A file.\n#![forbid(unsafe_code)]\n{}", "\n".repeat(MAX_LINES));
    assert_eq!(rules("src/step.rs", &long), ["src/step.rs:452: a file has no more than 450 lines"]);
}

#[test]
fn an_unsafe_block_without_its_reason_is_found() {
    let found = |body: &str| verdict("src/sys/mod.rs", body).len();
    assert_eq!(found("fn f() {\n    // SAFETY: the buffer outlives the call\n    unsafe { g() }\n}"), 0);
    assert_eq!(
        found("fn f() {\n    // SAFETY: a long statement\n    let code =\n        unsafe { g() };\n}"),
        0
    );
    assert_eq!(found("// SAFETY: two\n// lines\n#[allow(x)]\nunsafe impl Send for X {}"), 0);
    assert_eq!(found("fn f() {\n    unsafe { g() }\n}"), 1);
    assert_eq!(found("unsafe impl Send for X {}"), 1);
    assert_eq!(found("// SAFETY: of another line\nlet x = 1;\nunsafe { g() }"), 1);
    assert_eq!(found("// it is safe\nunsafe { g() }"), 1);
}

#[test]
fn a_module_of_tests_in_a_file_of_its_own_is_known_as_one() {
    let head = "//! A file.\n#![forbid(unsafe_code)]\n";
    let parent =
        Source::new("src/policy/mod.rs", &format!("{head}#[cfg(test)]\n#[rustfmt::skip]\nmod tests;\n"));
    let tests = Source::new("src/policy/tests.rs", &format!("{head}use crate::platform::model;\n"));
    assert_eq!(breaches(&[parent, tests]), [""; 0]);
    let alone = Source::new("src/policy/tests.rs", &format!("{head}use crate::platform::model;\n"));
    assert_eq!(breaches(&[alone]).len(), 1);
}
