//! Tests the checker itself on small samples: it must find every breach and must let correct source pass.

use super::*;

/// What the check reports of one file that has no other fault.
fn verdict(file: &str, body: &str) -> Vec<String> {
    let head = if may_hold_unsafe(file) {
        "//! A file.\n"
    } else {
        "//! A file.\n#![forbid(unsafe_code)]\n"
    };
    breaches(&[Source::new(file, &format!("{head}{body}"))])
}

#[test]
fn a_file_that_keeps_to_the_walls_passes() {
    let body = "use crate::{diagnostic::Diagnostic, topology::{self, Bitmap as Set}};\n\
                use super::candidates;\n\
                // std::fs, HashMap, crate::plan and todo!() in a comment /* crate::node\n\
                const TEXT: &str = \"std::fs \\\" crate::plan\"; const RAW: &str = r#\"dbg!(\" crate::plan)\"#;\n\
                const BYTES: &[u8] = b\"crate::plan\"; const C: [char; 3] = ['\"', '\\'', '\\u{27}'];\n\
                fn f<'a>(x: &'a str) -> &'a str { std::mem::size_of::<u8>(); x }\n\
                #[cfg(test)]\nmod tests { use crate::discover::Root; fn t() { std::fs::read(\"x\"); } }\n";
    assert_eq!(verdict("crates/core/src/policy/closest.rs", body), [""; 0]);
}

#[test]
fn an_arrow_against_the_stream_is_found_however_it_is_written() {
    let ways = [
        "use crate::plan;",
        "use crate::plan::json as p;",
        "use crate::{topology, plan::json};",
        "use {std::fmt, crate::{topology::{Bitmap, Pu as P}, plan}};",
        "use super::super::plan;",
        "use super::super::{topology, plan};",
        "pub use crate :: plan :: json;",
        "fn f() { crate::plan::new() }",
        "fn f() { let x: Vec<crate::plan::Plan> = g(); }",
        "mod inner { use super::super::super::plan; }",
        "macro_rules! m { () => { $crate::plan::new() } }",
    ];
    for way in ways {
        assert_eq!(
            verdict("crates/core/src/policy/closest.rs", way),
            ["crates/core/src/policy/closest.rs:3: `policy` must not use `plan`"],
            "{way}"
        );
    }
    let said = |file: &str, body: &str| {
        verdict(file, body)
            .join("\n")
            .replace(&format!("{file}:3: "), "")
    };
    let core = |module: &str, body: &str| said(&format!("crates/core/src/{module}.rs"), body);
    assert_eq!(
        core("node", "use super::plan;"),
        "`node` must not use `plan`"
    );
    assert_eq!(
        core("plan", "use crate::node;"),
        "`plan` must not use `node`"
    );
    assert_eq!(
        core("plan/json", "use crate::node;"),
        "`plan` must not use `node`"
    );
    let import = |body: &str| said("crates/formats/src/import/nccl/write.rs", body);
    assert_eq!(
        import("use crate::describe;"),
        "`formats::import` must not use `formats`"
    );
    assert_eq!(
        import("use nic_placement_core::plan::Plan;"),
        "`formats::import` must not use `plan`"
    );
    assert_eq!(
        import("use nic_placement_core::{topology, plan};"),
        "`formats::import` must not use `plan`"
    );
    assert_eq!(
        import("use nic_placement_core as core;"),
        "`formats::import` must not use `core`"
    );
    assert_eq!(
        import("use nic_placement_sys::affinity;"),
        "`formats::import` must not use `sys`"
    );
    assert_eq!(
        said("crates/sys/src/memory.rs", "use nic_placement_core::step;")
            .lines()
            .count(),
        1
    );
    assert_eq!(
        said("src/task.rs", "use nic_placement_formats::describe;"),
        "`plugin` must not use `formats`"
    );
}

#[test]
fn an_arrow_with_the_stream_may_cross_crates() {
    for (file, body) in [
        ("src/lib.rs", "use nic_placement_core::config::releases;"),
        (
            "src/task.rs",
            "use crate::{bind, option}; use nic_placement_core::plan::Plan; use nic_placement_sys as sys;",
        ),
        (
            "crates/tool/src/commands/plan.rs",
            "use nic_placement_core::plan; use nic_placement_formats::import;",
        ),
        (
            "crates/formats/src/import/smi.rs",
            "use nic_placement_core::{diagnostic::Diagnostic, topology::Topology};",
        ),
        (
            "crates/core/src/lib.rs",
            "pub use plan::Plan; pub use nic_placement_topology as topology;",
        ),
    ] {
        assert_eq!(verdict(file, body), [""; 0], "{file}: {body}");
    }
}

#[test]
fn a_module_that_no_arrow_names_is_found() {
    let said = verdict("crates/core/src/helpers.rs", "fn f() {}");
    assert_eq!(
        said,
        ["crates/core/src/helpers.rs:1: `helpers` is in no arrow of tests/architecture.rs"]
    );
}

#[test]
fn some_arrows_reach_a_part_of_a_module_only() {
    let sys = |body: &str| verdict("crates/sys/src/lib.rs", body).len();
    assert_eq!(sys("use nic_placement_topology::bitmap::CpuSet;"), 0);
    assert_eq!(sys("use nic_placement_topology::{CpuSet, NodeSet};"), 0);
    assert_eq!(sys("use nic_placement_topology::Topology;"), 1);
    assert_eq!(sys("use nic_placement_topology::diagnostic;"), 1);
    let core =
        |module: &str, body: &str| verdict(&format!("crates/core/src/{module}.rs"), body).len();
    assert_eq!(
        core("config/mod", "use crate::libraries::wanted::Libraries;"),
        0
    );
    assert_eq!(
        core("config/mod", "use crate::libraries::ucx::variables;"),
        1
    );
    assert_eq!(
        core("config/mod", "use crate::placement::NodePlacement;"),
        1
    );
    assert_eq!(core("plan", "use nic_placement_node::discover::Root;"), 1);
}

#[test]
fn a_name_that_is_reserved_for_others_is_found() {
    let wrong = [
        ("crates/tool/src/main.rs", "use slurm_spank::SpankHandle;"),
        ("crates/sys/src/memory.rs", "use slurm_spank::SpankHandle;"),
        (
            "crates/core/src/policy/mod.rs",
            "fn f() { unused(libc::getpid()) }",
        ),
        ("src/task.rs", "use libc::c_int;"),
        ("src/task.rs", "use libc::{EINVAL, getpid};"),
        ("src/task.rs", "use libc as c;"),
        ("src/nics.rs", "fn f() { File::open(x); }"),
        ("crates/core/src/config/mod.rs", "use std::{fmt, fs};"),
        (
            "crates/core/src/config/mod.rs",
            "fn f() { std::fs::read(x); }",
        ),
        (
            "crates/core/src/libraries/mod.rs",
            "fn f() { File::open(x); }",
        ),
        (
            "crates/formats/src/import/smi.rs",
            "fn f() { std::fs::read(x); }",
        ),
        (
            "crates/tool/src/commands/map.rs",
            "use std::fs;\nfn f() { fs::read_to_string(x); }",
        ),
        (
            "crates/tool/src/commands/map.rs",
            "fn f() { std::fs::File::open(x); }",
        ),
        (
            "crates/formats/src/import/smi.rs",
            "fn f() { std::env::var(x); }",
        ),
        (
            "crates/formats/src/import/mod.rs",
            "use std::time::Instant;",
        ),
        (
            "crates/node/src/discover/gpu.rs",
            "fn f() { std::env::var(x); }",
        ),
        ("crates/sys/src/access.rs", "fn f() { std::env::var(x); }"),
        ("crates/node/src/lib.rs", "use std::time::Duration;"),
        ("crates/node/src/lib.rs", "fn f() { Instant::now(); }"),
        ("src/lib.rs", "fn f() { std::thread::spawn(g); }"),
        (
            "crates/tool/src/main.rs",
            "use std::collections::{BTreeMap, HashMap};",
        ),
        (
            "crates/tool/src/main.rs",
            "#[cfg(test)]\nmod tests { use std::collections::HashSet; }",
        ),
        ("crates/core/src/step.rs", "fn f() { todo!() }"),
        ("crates/core/src/step.rs", "#[test]\nfn f() { dbg!(1); }"),
        (
            "crates/core/src/step.rs",
            "fn f() { unimplemented!(\"later\") }",
        ),
    ];
    for (file, body) in wrong {
        assert_eq!(
            verdict(file, body).len(),
            1,
            "{file}: {body}: {:?}",
            verdict(file, body)
        );
    }
    let right = [
        ("src/task.rs", "use slurm_spank::SpankHandle;"),
        (
            "src/task.rs",
            "use libc::{EINVAL, O_CLOEXEC}; fn f() -> i32 { libc::ENOENT }",
        ),
        ("crates/sys/src/affinity.rs", "use libc::c_int;"),
        (
            "src/lib.rs",
            "pub extern \"C\" fn slurm_spank_init() -> libc::c_int { 0 }",
        ),
        (
            "crates/node/src/discover/root.rs",
            "fn f() { std::fs::File::open(x); }",
        ),
        (
            "crates/node/src/discover/root/open.rs",
            "fn f() { std::fs::File::open(x); }",
        ),
        (
            "crates/sys/src/access.rs",
            "use std::fs::File; fn f(directory: &File) {}",
        ),
        (
            "crates/tool/src/commands/snapshot.rs",
            "fn f() { std::fs::write(x, y); std::time::Instant::now(); }",
        ),
        (
            "crates/formats/src/import/smi.rs",
            "#[cfg(test)]\nmod tests { fn t() { std::fs::read(\"x\"); } }",
        ),
        (
            "crates/core/src/config/mod.rs",
            "const X: &str = env!(\"CARGO_PKG_VERSION\"); fn todo() { self.env() }",
        ),
    ];
    for (file, body) in right {
        assert_eq!(verdict(file, body), [""; 0], "{file}: {body}");
    }
}

#[test]
fn a_file_without_its_head_is_found() {
    let rules = |file: &str, text: &str| breaches(&[Source::new(file, text)]);
    let step = "crates/core/src/step.rs";
    assert_eq!(
        rules(step, "//! A file.\n#![forbid(unsafe_code)]\n"),
        [""; 0]
    );
    assert_eq!(rules(step, "//! A file.\n").len(), 1);
    assert_eq!(
        rules(
            step,
            "//! A file.\nuse std::fmt;\n// #![forbid(unsafe_code)]\n"
        )
        .len(),
        1
    );
    assert_eq!(
        rules(step, "// A file.\n#![forbid(unsafe_code)]\n").len(),
        1
    );
    // of what C calls one file alone needs none
    assert_eq!(rules("crates/capi/src/lib.rs", "//! A file.\n"), [""; 0]);
    assert_eq!(rules("crates/capi/src/calls.rs", "//! A file.\n").len(), 1);
    assert_eq!(rules("src/task.rs", "//! A file.\n").len(), 1);
    assert_eq!(rules("crates/tool/src/lib.rs", "//! A file.\n").len(), 1);
    assert_eq!(rules("src/lib.rs", "//! A file.\n"), [""; 0]);
    assert_eq!(rules("crates/sys/src/memory.rs", "//! A file.\n"), [""; 0]);
    let long = format!(
        "//! A file.\n#![forbid(unsafe_code)]\n{}",
        "\n".repeat(MAX_LINES)
    );
    assert_eq!(
        rules(step, &long),
        [format!("{step}:642: a file has no more than 640 lines")]
    );
}

#[test]
fn an_unsafe_block_without_its_reason_is_found() {
    let found = |body: &str| verdict("crates/sys/src/lib.rs", body).len();
    assert_eq!(
        found("fn f() {\n    // SAFETY: the buffer outlives the call\n    unsafe { g() }\n}"),
        0
    );
    assert_eq!(
        found(
            "fn f() {\n    // SAFETY: a long statement\n    let code =\n        unsafe { g() };\n}"
        ),
        0
    );
    assert_eq!(
        found("// SAFETY: two\n// lines\n#[allow(x)]\nunsafe impl Send for X {}"),
        0
    );
    assert_eq!(found("fn f() {\n    unsafe { g() }\n}"), 1);
    assert_eq!(found("unsafe impl Send for X {}"), 1);
    assert_eq!(
        found("// SAFETY: of another line\nlet x = 1;\nunsafe { g() }"),
        1
    );
    assert_eq!(found("// it is safe\nunsafe { g() }"), 1);
}

#[test]
fn a_module_of_tests_in_a_file_of_its_own_is_known_as_one() {
    let head = "//! A file.\n#![forbid(unsafe_code)]\n";
    let parent = Source::new(
        "crates/core/src/policy/mod.rs",
        &format!("{head}#[cfg(test)]\n#[rustfmt::skip]\nmod tests;\n"),
    );
    let uses_the_plan = format!("{head}use crate::plan;\n");
    let tests = |file: &str| Source::new(&format!("crates/core/src/policy/{file}"), &uses_the_plan);
    assert_eq!(
        breaches(&[parent, tests("tests.rs"), tests("tests/more.rs")]),
        [""; 0]
    );
    assert_eq!(breaches(&[tests("tests.rs")]).len(), 1);
}

// ---- circles ----

/// The circles between the siblings of a crate of these files, each as its uses.
fn knots(files: &[(&str, &str)]) -> Vec<String> {
    let source =
        |(file, text): &(&str, &str)| Source::new(&format!("crates/core/src/{file}"), text);
    let sources: Vec<Source> = files.iter().map(source).collect();
    let found = circles::circles(&circles::between_siblings(
        &sources,
        circles::uses(&sources),
    ));
    let shown = |circle: &Vec<Use>| {
        circle
            .iter()
            .map(Use::to_string)
            .collect::<Vec<_>>()
            .join("; ")
    };
    found
        .iter()
        .map(|circle| shown(circle).replace("crates/core/src/", ""))
        .collect()
}

const LIB: (&str, &str) = ("lib.rs", "pub mod a;\npub mod b;\npub mod c;\n");

#[test]
fn two_files_that_use_one_another_are_found_however_they_do_it() {
    let ways = [
        "use crate::a::f;",
        "use super::a::{f, g as i};",
        "use super::a::*;",
        "use crate::a;\nfn h() { a::f() }",
        "use super::a as other;\nfn h() { other::f() }",
        "use {std::fmt, crate::{c, a::f}};",
        "fn h() { super::a::f() }",
        "fn h(x: &crate::a::F) {}",
        "mod inner { fn h() { super::super::a::f() } }",
        "mod inner { use crate::a::f; }",
        "pub use crate::a::f;\nfn h() { f() }",
        "pub(super) use crate::a::F;\nfn h() -> Option<F> { None }",
    ];
    for way in ways {
        let found = knots(&[
            LIB,
            ("a.rs", "use crate::b::h;"),
            ("b.rs", way),
            ("c.rs", ""),
        ]);
        assert_eq!(found.len(), 1, "{way}");
        assert!(
            found[0].starts_with("a.rs:1: uses `h` of b.rs; b.rs:"),
            "{way}: {found:?}"
        );
        assert!(found[0].ends_with(" of a.rs"), "{way}: {found:?}");
    }
}

#[test]
fn what_is_no_use_of_another_file_makes_no_circle() {
    let ways = [
        "use crate::c::f;",
        "use crate::a;",
        "pub use crate::a::f;",
        "pub(crate) use super::a::{f, F};\nfn g() { x.f(); f!() }",
        "// crate::a::f\nconst A: &str = \"crate::a::f\";",
        "use ::a::f;\nfn h() { ::log::error!(\"a\") }",
        "use std::a::f;\nfn h() { let a = a; a.f() }",
        "#[cfg(test)]\nmod tests { use crate::a::f; }",
        "fn f() { self::a::g() }\nmod a { pub fn g() {} }",
        "fn h() -> impl Fn() + use<'a> { crate::c::f }",
    ];
    for way in ways {
        assert_eq!(
            knots(&[
                LIB,
                ("a.rs", "use crate::b::h;"),
                ("b.rs", way),
                ("c.rs", "")
            ]),
            [""; 0],
            "{way}"
        );
    }
}

#[test]
fn a_longer_circle_is_shown_by_its_shortest_way() {
    let (a, b) = (
        ("a.rs", "use crate::b::h;"),
        ("b.rs", "//!\nuse crate::c::i;"),
    );
    assert_eq!(
        knots(&[LIB, a, b, ("c.rs", "//!\n//!\nuse crate::a::f;")]),
        ["a.rs:1: uses `h` of b.rs; b.rs:2: uses `i` of c.rs; c.rs:3: uses `f` of a.rs"]
    );
    assert_eq!(
        knots(&[LIB, a, b, ("c.rs", "use crate::{a::f, b::h};")]),
        ["b.rs:2: uses `i` of c.rs; c.rs:1: uses `h` of b.rs"]
    );
}

#[test]
fn a_name_is_used_of_the_file_that_defines_it_whatever_shows_it() {
    let (parent, a) = (
        ("a/mod.rs", "mod x;\nmod y;\npub use x::X;\n"),
        ("a/x.rs", "use super::y::f;"),
    );
    // `super::X` is of x.rs, which uses y.rs
    let found = knots(&[LIB, parent, a, ("a/y.rs", "use super::X;")]);
    assert_eq!(
        found,
        ["a/x.rs:1: uses `f` of a/y.rs; a/y.rs:1: uses `X` of a/x.rs"]
    );
    // `super::Shared` is the parent's own, and a parent holds what its children share
    let parent = (
        "a/mod.rs",
        "mod x;\nmod y;\npub struct Shared;\nfn f() { x::f(); y::f() }",
    );
    assert_eq!(
        knots(&[LIB, parent, a, ("a/y.rs", "use super::Shared;")]),
        [""; 0]
    );
}

#[test]
fn a_circle_between_two_folders_is_found_though_no_two_files_close_it() {
    let found = knots(&[
        LIB,
        ("a/mod.rs", "mod x;\nmod y;"),
        ("a/x.rs", "use crate::b::h;"),
        ("a/y.rs", ""),
        ("b.rs", "use crate::a::y::f;"),
    ]);
    assert_eq!(
        found,
        ["a/x.rs:1: uses `h` of b.rs; b.rs:1: uses `f` of a/y.rs"]
    );
}

// ---- functions ----

#[test]
fn a_functions_lines_are_counted_from_its_name_to_its_last_brace() {
    let text = "trait T {\n fn none(&self) -> [u8; 3];\n}\nstatic F: fn() = f;\n\
                fn f(\n x: [u8; 3],\n) -> u8 {\n let s = \"}\";\n fn inner() { }\n { 1 }\n}\nfn g() {}\n";
    let source = Source::new("crates/core/src/step.rs", text);
    let found: Vec<_> = functions::functions(&source)
        .into_iter()
        .map(|f| (f.name, f.line, f.lines))
        .collect();
    assert_eq!(
        found,
        [
            ("f".into(), 5, 7),
            ("inner".into(), 9, 1),
            ("g".into(), 12, 1)
        ]
    );
}
