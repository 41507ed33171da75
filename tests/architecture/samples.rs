//! The checker itself, on small samples: it finds every breach and lets correct source pass.

use super::*;

/// `file | bodies | the breach of each, or a part of it`; `⏎` ends a line.
const WALLS: &str = r##"
POLICY | use crate::{diagnostic::Diagnostic, topology::{self, Bitmap as Set}};⏎use super::candidates; |
POLICY | // std::fs, crate::plan in a comment /* crate::node⏎const TEXT: &str = "std::fs \" crate::plan"; |
POLICY | const RAW: &str = r#"crate::plan"#; fn f<'a>(x: &'a str) -> &'a str { std::mem::size_of::<u8>(); x } |
POLICY | /// Reads.⏎#[cfg(test)]⏎mod tests { use crate::discover::Root; fn t() { std::fs::read("x"); } } |
POLICY | use crate::plan; ¦ use crate::plan::json as p; | not use `plan`
POLICY | use crate::{topology, plan::json}; ¦ use super::super::{topology, plan}; | not use `plan`
POLICY | use {std::fmt, crate::{topology::{Bitmap, Pu as P}, plan}}; | not use `plan`
POLICY | pub use crate :: plan :: json; ¦ fn f() { crate::plan::new() } | not use `plan`
POLICY | fn f() { use crate::{plan as p, topology as t}; } | not use `plan`
POLICY | fn f() { let x: Vec<crate::plan::Plan> = vec![crate::topology::g()]; } | not use `plan`
POLICY | fn f() { format!("{}", crate::plan::new()) } | not use `plan`
POLICY | mod inner { use super::super::super::plan; } | not use `plan`
POLICY | macro_rules! m { () => { $crate::plan::new() } } | not use `plan`
PLAN | use crate::node; ¦ use nic_placement_node::discover::Root; | not use `node`
crates/core/src/plan/json.rs | use crate::node; | not use `node`
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
SYS | use nic_placement_topology::bitmap::CpuSet; ¦ use std::fs::File; fn f(directory: &File) {} |
SYS | use nic_placement_topology::{CpuSet, NodeSet}; |
SYS | use nic_placement_topology::Topology; ¦ use nic_placement_topology::diagnostic; | only `bitmap
TASK | use nic_placement_formats::describe; | `plugin` must not use `formats`
TASK | use crate::{bind, option}; use nic_placement_sys as sys; ¦ use slurm_spank::SpankHandle; |
HOOKS | use nic_placement_core::config::releases; ¦ pub extern "C" fn f() -> libc::c_int { 0 } |
TOOL | use nic_placement_formats::import; |
TOOL | use slurm_spank::SpankHandle; | only the plugin names `slurm_spank`
POLICY | fn f() { unused(libc::getpid()) } | call `libc`
TASK | use libc::c_int; ¦ use libc as c; ¦ use libc::*; | call `libc`
TASK | use libc::{EINVAL, O_CLOEXEC}; fn f() -> i32 { libc::ENOENT } |
TASK | fn f() { File::open(x); } | open files
CONFIG | use std::{fmt, fs}; ¦ fn f() { std::fs::read(x); } | open files
IMPORT | fn f() { std::fs::read(x); } | open files
TOOL | use std::fs;⏎fn f() { fs::read_to_string(x); } | only `discover::root` reads files
TOOL | fn f() { std::fs::File::open(x); } | only `discover::root` reads files
TOOL | fn f() { std::fs::write(x, y); std::time::Instant::now(); } |
crates/node/src/discover/root.rs | fn f() { std::fs::File::open(x); } |
crates/node/src/discover/root/open.rs | fn f() { std::fs::File::open(x); } |
SYS | fn f() { std::env::var(x); } | see the environment
IMPORT | fn f() { std::env::var(x); } | see the environment
CONFIG | const X: &str = env!("CARGO_PKG_VERSION"); fn todo() { self.env() } |
IMPORT | use std::time::Instant; | no clock
NODE | use std::time::Duration; ¦ fn f() { Instant::now(); } | no clock
HOOKS | fn f() { std::thread::spawn(g); } | no thread
"##;

/// `how b.rs uses a.rs | 1, or 0 where it does not`: a.rs uses b.rs.
const CIRCLES: &str = r##"
use crate::a::f; ¦ use super::a::{f, g as i}; ¦ use super::a::*; | 1
use crate::a;⏎fn h() { a::f() } ¦ use super::a as other;⏎fn h() { other::f() } | 1
use {std::fmt, crate::{c, a::f}}; ¦ fn h() { super::a::f() } ¦ fn h(x: &crate::a::F) {} | 1
mod inner { fn h() { super::super::a::f() } } ¦ mod inner { use crate::a::f; } | 1
pub use crate::a::f;⏎fn h() { f() } ¦ pub(super) use crate::a::F;⏎fn h() -> Option<F> { None } | 1
use crate::c::f; ¦ use crate::a; ¦ pub use crate::a::f; | 0
pub(crate) use super::a::{f, F};⏎fn g() { x.f(); f!() } | 0
// crate::a::f⏎const A: &str = "crate::a::f"; ¦ use ::a::f;⏎fn h() { ::log::error!("a") } | 0
use std::a::f;⏎fn h() { let a = a; a.f() } ¦ #[cfg(test)]⏎mod tests { use crate::a::f; } | 0
fn f() { self::a::g() }⏎mod a { pub fn g() {} } | 0
fn h<'a>() -> impl Fn() + use<'a> { crate::c::f } | 0
"##;

/// `file: text ¦ … | each use of a circle`: an item is of the file that defines it, no two files of two folders need close a
/// circle, `super::X` is of x.rs, and a parent holds what its children share.
const CIRCLE: &str = "
a: use crate::b::h; ¦ b: //!⏎use crate::c::i; ¦ c: //!⏎//!⏎use crate::a::f; ¦ d: use crate::a::f; | \
    a.rs:1: uses `h` of b.rs ¦ b.rs:2: uses `i` of c.rs ¦ c.rs:3: uses `f` of a.rs
a/mod: mod x;⏎mod y; ¦ a/x: use crate::b::h; ¦ a/y: ¦ b: use crate::a::y::f; | \
    a/x.rs:1: uses `h` of b.rs ¦ b.rs:1: uses `f` of a/y.rs
a/mod: mod x;⏎mod y;⏎pub use x::X; ¦ a/x: use super::y::f; ¦ a/y: use super::X; | \
    a/x.rs:1: uses `f` of a/y.rs ¦ a/y.rs:1: uses `X` of a/x.rs
a/mod: mod x;⏎mod y;⏎pub struct Shared;⏎fn f() { x::f(); y::f() } ¦ a/x: use super::y::f; ¦ a/y: use super::Shared; |
";

fn file(file: &str, text: &str) -> Source {
    let (file, text) = (file.to_string(), text.to_string());
    Source { file, text }
}

/// The rows of a table, and their cells.
fn rows(table: &str) -> Vec<Vec<String>> {
    let cell = |cell: &str| cell.trim().replace('⏎', "\n");
    let row = |line: &str| line.split(" |").map(cell).collect();
    table.trim().lines().map(row).collect()
}

/// The circles among the siblings of a crate of these files, each `name: text`.
fn circles_of(files: &str) -> Vec<String> {
    let of_core = |each: &str| {
        let (name, text) = each.split_once(':').expect("a name");
        file(&format!("crates/core/src/{}.rs", name.trim()), text.trim())
    };
    let lib = of_core("lib: pub mod a; pub mod b; pub mod c;");
    let sources: Vec<Source> = files.split('¦').map(of_core).chain([lib]).collect();
    let found = circles(&source::modules(&sources)).into_iter();
    let short = found.map(|circle| circle.replace("crates/core/src/", ""));
    short.collect()
}

#[test]
fn each_breach_of_a_wall_is_found_however_it_is_written_and_nothing_else() {
    for row in rows(WALLS) {
        let name = match &*row[0] {
            "POLICY" => "crates/core/src/policy/closest.rs",
            "CONFIG" => "crates/core/src/config/mod.rs",
            "IMPORT" => "crates/formats/src/import/smi.rs",
            "SYS" => "crates/sys/src/memory.rs",
            "PLAN" => "crates/core/src/plan.rs",
            "NODE" => "crates/node/src/lib.rs",
            "HOOKS" => "src/lib.rs",
            "TASK" => "src/task.rs",
            "TOOL" => "crates/tool/src/commands/map.rs",
            name => name,
        };
        for body in row[1].split(" ¦ ") {
            let text = format!("//! A file.\n#![forbid(unsafe_code)]\n{body}");
            let sources = [file(name, &text)];
            let found = breaches(&sources, &source::modules(&sources));
            let told = found.iter().filter(|told| told.contains(&row[2])).count();
            let expected = usize::from(!row[2].is_empty());
            assert_eq!(
                (found.len(), told),
                (expected, expected),
                "{body}: {found:?}"
            );
        }
    }
}

#[test]
fn a_file_without_its_head_and_a_comment_without_its_subject_are_found() {
    let (root, head) = ("crates/core/src/lib.rs", "//! A file.\n");
    let forbidding = format!("{head}#![forbid(unsafe_code)]\n");
    let late = format!("{head}use std::fmt;\n// #![forbid(unsafe_code)]\n");
    let long = format!("{forbidding}{}", "\n".repeat(MAX_LINES));
    for (name, text, breaches) in [
        (root, &*forbidding, 0),
        (root, head, 1),
        (root, &late, 1),
        (root, &forbidding.replacen("//!", "//", 1), 1),
        (root, &long, 1),
        ("src/lib.rs", head, 0),
        ("crates/capi/src/lib.rs", head, 0),
        ("crates/sys/src/memory.rs", head, 0),
        ("src/task.rs", head, 1),
        ("crates/capi/src/calls.rs", head, 1),
        ("tests/a.rs", &["let x = 1; /", "/ nobody's"].concat(), 1),
    ] {
        assert_eq!(of_text(&file(name, text)).len(), breaches, "{name}: {text}");
    }
}

#[test]
fn a_module_of_tests_in_a_file_of_its_own_is_known_as_one() {
    let of_policy = |name: &str, text| file(&format!("crates/core/src/policy/{name}"), text);
    let parent = of_policy("mod.rs", "#[cfg(test)]\n#[rustfmt::skip]\nmod tests;\n");
    let tests = |name| of_policy(name, "use crate::plan;\n");
    let all = [parent, tests("tests.rs"), tests("tests/more.rs")];
    assert_eq!(source::modules(&all).len(), 1);
    assert_eq!(source::modules(&all[1..]).len(), 2);
}

#[test]
fn files_that_use_one_another_are_found_however_they_do_it_and_told_of_the_defining_file() {
    for row in rows(CIRCLES) {
        for used in row[0].split(" ¦ ") {
            let found = circles_of(&format!("a: use crate::b::h; ¦ b: {used} ¦ c:"));
            let told = found.len() == 2 && found[0].starts_with("a.rs:1: uses `h` of b.rs");
            assert!(
                told && found[1].starts_with("b.rs:") || found.is_empty(),
                "{found:?}"
            );
            assert_eq!(
                found.len(),
                if row[1] == "1" { 2 } else { 0 },
                "{used}: {found:?}"
            );
        }
    }
    for row in rows(CIRCLE) {
        assert_eq!(circles_of(&row[0]).join(" ¦ "), row[1]);
    }
}
