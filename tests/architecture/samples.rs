//! The checker itself, on small samples: it finds every breach and lets correct source pass.

use super::*;

/// `file | body | the breach, or a part of it`; `⏎` ends a line.
const WALLS: &str = r##"
POLICY | use crate::{diagnostic::Diagnostic, topology::{self, Bitmap as Set}};⏎use super::candidates; |
POLICY | // std::fs, crate::plan in a comment /* crate::node⏎const TEXT: &str = "std::fs \" crate::plan"; |
POLICY | const RAW: &str = r#"crate::plan"#; fn f<'a>(x: &'a str) -> &'a str { std::mem::size_of::<u8>(); x } |
POLICY | /// Reads.⏎#[cfg(test)]⏎mod tests { use crate::discover::Root; fn t() { std::fs::read("x"); } } |
POLICY | use crate::plan; | `policy` must not use `plan`
POLICY | use crate::plan::json as p; | `policy` must not use `plan`
POLICY | use crate::{topology, plan::json}; | `policy` must not use `plan`
POLICY | use {std::fmt, crate::{topology::{Bitmap, Pu as P}, plan}}; | `policy` must not use `plan`
POLICY | use super::super::{topology, plan}; | `policy` must not use `plan`
POLICY | pub use crate :: plan :: json; | `policy` must not use `plan`
POLICY | fn f() { use crate::{plan as p, topology as t}; } | `policy` must not use `plan`
POLICY | fn f() { crate::plan::new() } | `policy` must not use `plan`
POLICY | fn f() { let x: Vec<crate::plan::Plan> = vec![crate::topology::g()]; } | `policy` must not use `plan`
POLICY | fn f() { format!("{}", crate::plan::new()) } | `policy` must not use `plan`
POLICY | mod inner { use super::super::super::plan; } | `policy` must not use `plan`
POLICY | macro_rules! m { () => { $crate::plan::new() } } | `policy` must not use `plan`
crates/core/src/plan.rs | use crate::node; | `plan` must not use `node`
crates/core/src/plan/json.rs | use crate::node; | `plan` must not use `node`
crates/core/src/plan.rs | use nic_placement_node::discover::Root; | `plan` must not use `node`
crates/core/src/helpers.rs | fn f() {} | `helpers` is in no arrow
crates/core/src/lib.rs | pub use plan::Plan; pub use nic_placement_topology as topology; |
CONFIG | use crate::libraries::wanted::Libraries; |
CONFIG | use crate::libraries::ucx::variables; | `config` may use of `libraries` only `wanted`
CONFIG | use crate::placement::NodePlacement; | `config` must not use `placement`
IMPORT | use nic_placement_core::{diagnostic::D, topology::T}; |
IMPORT | use crate::describe; | `formats::import` must not use `formats`
IMPORT | use nic_placement_core::{topology, plan}; | `formats::import` must not use `plan`
IMPORT | use nic_placement_core as core; | `formats::import` must not use `core`
SYS | use nic_placement_core::step; | `sys` must not use `step`
SYS | use nic_placement_topology::bitmap::CpuSet; |
SYS | use nic_placement_topology::{CpuSet, NodeSet}; |
SYS | use nic_placement_topology::Topology; | only `bitmap`
SYS | use nic_placement_topology::diagnostic; | only `bitmap`
TASK | use nic_placement_formats::describe; | `plugin` must not use `formats`
TASK | use crate::{bind, option}; use nic_placement_sys as sys; |
src/lib.rs | use nic_placement_core::config::releases; |
TOOL | use nic_placement_formats::import; |
TASK | use slurm_spank::SpankHandle; |
TOOL | use slurm_spank::SpankHandle; | only the plugin names `slurm_spank`
POLICY | fn f() { unused(libc::getpid()) } | call `libc`
TASK | use libc::c_int; | call `libc`
TASK | use libc as c; | call `libc`
TASK | use libc::{EINVAL, O_CLOEXEC}; fn f() -> i32 { libc::ENOENT } |
src/lib.rs | pub extern "C" fn f() -> libc::c_int { 0 } |
TASK | fn f() { File::open(x); } | open files
CONFIG | use std::{fmt, fs}; | open files
CONFIG | fn f() { std::fs::read(x); } | open files
IMPORT | fn f() { std::fs::read(x); } | open files
TOOL | use std::fs;⏎fn f() { fs::read_to_string(x); } | only `discover::root` reads files
TOOL | fn f() { std::fs::File::open(x); } | only `discover::root` reads files
TOOL | fn f() { std::fs::write(x, y); std::time::Instant::now(); } |
crates/node/src/discover/root.rs | fn f() { std::fs::File::open(x); } |
crates/node/src/discover/root/open.rs | fn f() { std::fs::File::open(x); } |
SYS | use std::fs::File; fn f(directory: &File) {} |
SYS | fn f() { std::env::var(x); } | see the environment
IMPORT | fn f() { std::env::var(x); } | see the environment
CONFIG | const X: &str = env!("CARGO_PKG_VERSION"); fn todo() { self.env() } |
IMPORT | use std::time::Instant; | no clock
crates/node/src/lib.rs | use std::time::Duration; | no clock
crates/node/src/lib.rs | fn f() { Instant::now(); } | no clock
src/lib.rs | fn f() { std::thread::spawn(g); } | no thread
"##;

fn file(file: &str, text: &str) -> Source {
    Source {
        file: file.to_string(),
        text: text.to_string(),
    }
}

/// The rows of a table, and their cells.
fn rows(table: &str) -> Vec<Vec<String>> {
    let cell = |cell: &str| cell.trim().replace('⏎', "\n");
    let row = |line: &str| line.split(" |").map(cell).collect();
    table.trim().lines().map(row).collect()
}

#[test]
fn each_breach_of_a_wall_is_found_however_it_is_written_and_nothing_else() {
    for row in rows(WALLS) {
        let name = match &*row[0] {
            "POLICY" => "crates/core/src/policy/closest.rs",
            "CONFIG" => "crates/core/src/config/mod.rs",
            "IMPORT" => "crates/formats/src/import/smi.rs",
            "SYS" => "crates/sys/src/memory.rs",
            "TASK" => "src/task.rs",
            "TOOL" => "crates/tool/src/commands/map.rs",
            name => name,
        };
        let text = format!("//! A file.\n#![forbid(unsafe_code)]\n{}", row[1]);
        let sources = [file(name, &text)];
        let found = breaches(&sources, &source::modules(&sources));
        let is_found = |breach: &str| found.len() == 1 && found[0].contains(breach);
        assert!(
            if row[2].is_empty() {
                found.is_empty()
            } else {
                is_found(&row[2])
            },
            "{row:?}: {found:?}"
        );
    }
}

#[test]
fn a_file_without_its_head_and_a_comment_without_its_subject_are_found() {
    let (root, head) = ("crates/core/src/lib.rs", "//! A file.\n");
    let forbidding = format!("{head}#![forbid(unsafe_code)]\n");
    for (name, text, breaches) in [
        (root, forbidding.clone(), 0),
        (root, head.to_string(), 1),
        (
            root,
            format!("{head}use std::fmt;\n// #![forbid(unsafe_code)]\n"),
            1,
        ),
        (root, forbidding.replacen("//!", "//", 1), 1),
        (root, format!("{forbidding}{}", "\n".repeat(MAX_LINES)), 1),
        ("src/lib.rs", head.to_string(), 0),
        ("crates/capi/src/lib.rs", head.to_string(), 0),
        ("crates/sys/src/memory.rs", head.to_string(), 0),
        ("src/task.rs", head.to_string(), 1),
        ("crates/capi/src/calls.rs", head.to_string(), 1),
    ] {
        assert_eq!(
            head_breaches(&file(name, &text)).len(),
            breaches,
            "{name}: {text}"
        );
    }
    let comment = file("a", &["let x = 1; /", "/ nobody's"].concat());
    assert_eq!(nameless_comments(&comment), ["a:1: `nobody`"]);
}

#[test]
fn a_module_of_tests_in_a_file_of_its_own_is_known_as_one() {
    let of_policy = |name: &str, text| file(&format!("crates/core/src/policy/{name}"), text);
    let parent = of_policy("mod.rs", "#[cfg(test)]\n#[rustfmt::skip]\nmod tests;\n");
    let tests = |name| of_policy(name, "use crate::plan;\n");
    assert_eq!(
        source::modules(&[parent, tests("tests.rs"), tests("tests/more.rs")]).len(),
        1
    );
    assert_eq!(source::modules(&[tests("tests.rs")]).len(), 1);
}

/// `how b.rs uses a.rs | 1, or 0 where it does not`: a.rs uses b.rs.
const CIRCLES: &str = r##"
use crate::a::f; | 1
use super::a::{f, g as i}; | 1
use super::a::*; | 1
use crate::a;⏎fn h() { a::f() } | 1
use super::a as other;⏎fn h() { other::f() } | 1
use {std::fmt, crate::{c, a::f}}; | 1
fn h() { super::a::f() } | 1
fn h(x: &crate::a::F) {} | 1
mod inner { fn h() { super::super::a::f() } } | 1
mod inner { use crate::a::f; } | 1
pub use crate::a::f;⏎fn h() { f() } | 1
pub(super) use crate::a::F;⏎fn h() -> Option<F> { None } | 1
use crate::c::f; | 0
use crate::a; | 0
pub use crate::a::f; | 0
pub(crate) use super::a::{f, F};⏎fn g() { x.f(); f!() } | 0
// crate::a::f⏎const A: &str = "crate::a::f"; | 0
use ::a::f;⏎fn h() { ::log::error!("a") } | 0
use std::a::f;⏎fn h() { let a = a; a.f() } | 0
#[cfg(test)]⏎mod tests { use crate::a::f; } | 0
fn f() { self::a::g() }⏎mod a { pub fn g() {} } | 0
fn h<'a>() -> impl Fn() + use<'a> { crate::c::f } | 0
"##;

/// The circles among the siblings of a crate of these files.
fn knots(files: &[(&str, &str)]) -> Vec<String> {
    let lib = file(
        "crates/core/src/lib.rs",
        "pub mod a;\npub mod b;\npub mod c;\n",
    );
    let of_core = |(name, text): &(&str, &str)| file(&format!("crates/core/src/{name}.rs"), text);
    let sources: Vec<Source> = files.iter().map(of_core).chain([lib]).collect();
    let found = circles(&source::modules(&sources)).into_iter();
    found
        .map(|circle| circle.replace("crates/core/src/", ""))
        .collect()
}

const A: (&str, &str) = ("a", "use crate::b::h;");

#[test]
fn two_files_that_use_one_another_are_found_however_they_do_it() {
    for row in rows(CIRCLES) {
        let found = knots(&[A, ("b", &row[0]), ("c", "")]);
        assert_eq!(found.len().to_string(), row[1], "{row:?}");
        let begin = "a.rs:1: uses `h` of b.rs; b.rs:";
        let as_told = |circle: &String| circle.starts_with(begin) && circle.ends_with(" of a.rs");
        assert!(found.iter().all(as_told), "{row:?}: {found:?}");
    }
}

#[test]
fn a_circle_is_shown_by_its_shortest_way_and_by_the_file_that_defines_a_name() {
    let b = ("b", "//!\nuse crate::c::i;");
    let three = knots(&[A, b, ("c", "//!\n//!\nuse crate::a::f;")]);
    let told = "a.rs:1: uses `h` of b.rs; b.rs:2: uses `i` of c.rs; c.rs:3: uses `f` of a.rs";
    assert_eq!(three, [told]);
    let two = knots(&[A, b, ("c", "use crate::{a::f, b::h};")]);
    assert_eq!(two[1], "b.rs:2: uses `i` of c.rs; c.rs:1: uses `h` of b.rs");
    // of two folders no two files close it
    let (parent, x) = (("a/mod", "mod x;\nmod y;"), ("a/x", "use crate::b::h;"));
    let folders = knots(&[parent, x, ("a/y", ""), ("b", "use crate::a::y::f;")]);
    assert_eq!(
        folders,
        ["a/x.rs:1: uses `h` of b.rs; b.rs:1: uses `f` of a/y.rs"]
    );
    // `super::X` is of x.rs, which uses y.rs
    let (parent, x) = (
        ("a/mod", "mod x;\nmod y;\npub use x::X;"),
        ("a/x", "use super::y::f;"),
    );
    let shown = knots(&[parent, x, ("a/y", "use super::X;")]);
    assert_eq!(
        shown,
        ["a/x.rs:1: uses `f` of a/y.rs; a/y.rs:1: uses `X` of a/x.rs"]
    );
    // `super::Shared` is the parent's own, and a parent holds what its children share
    let parent = "mod x;\nmod y;\npub struct Shared;\nfn f() { x::f(); y::f() }";
    assert_eq!(
        knots(&[("a/mod", parent), x, ("a/y", "use super::Shared;")]),
        [""; 0]
    );
}
