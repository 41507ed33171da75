//! The checker itself, on small samples: it finds every breach and lets correct source pass.

use super::breaches;

/// `files | bodies of the last one | parts of what is told of each`; the files are those of the row above where there are none.
/// `⏎` ends a line, `…` stands for 640 lines, and `·` for nothing.
const SAMPLES: &str = r##"
core/policy/a | use crate::{diagnostic::Diagnostic, topology::{self, Bitmap as Set}};⏎use super::candidates; |
 | fn f() {} // std::fs, crate::plan in a comment /* crate::node⏎const TEXT: &str = "std::fs \" crate::plan"; |
 | const RAW: &str = r#"crate::plan"#; fn f<'a>(x: &'a str) -> &'a str { std::mem::size_of::<u8>(); x } |
 | /// Reads.⏎#[cfg(test)]⏎mod tests { use crate::discover::Root; fn t() { std::fs::read("x"); } } |
 | use crate::plan; ¦ use crate::plan::json as p; ¦ pub use crate :: plan :: json; | not use `plan`
 | use crate::{topology, plan::json}; ¦ use {std::fmt, crate::{topology::{Bitmap, Pu as P}, plan}}; | not use `plan`
 | use super::super::{topology, plan}; ¦ mod inner { use super::super::super::plan; } | not use `plan`
 | fn f() { crate::plan::new() } ¦ fn f() { use crate::{plan as p, topology as t}; } | not use `plan`
 | fn f() { let x: Vec<crate::plan::Plan> = vec![crate::topology::g()]; } | not use `plan`
 | fn f() { format!("{}", crate::plan::new()) } ¦ macro_rules! m { () => { $crate::plan::new() } } | not use `plan`
 | fn f() { unused(libc::getpid()) } ¦ fn f() { ::libc::getpid() } | call `libc`
core/plan | use crate::node; ¦ use nic_placement_node::discover::Root; | not use `node`
core/plan/json | use crate::node; ¦ use ::nic_placement_node::Root; | not use `node`
core/helpers: ¦ other/lib | fn f() {} | `core::helpers` is in no arrow ¦ `other` is in no arrow
core/lib | pub use plan::Plan; pub use nic_placement_topology as topology; |
core/config/mod | use crate::libraries::wanted::Libraries; |
 | use crate::libraries::ucx::variables; | `config` must not use `libraries`
 | use crate::placement::NodePlacement; | `config` must not use `placement`
 | use std::{fmt, fs}; ¦ fn f() { std::fs::read(x); } | open files
 | const X: &str = env!("CARGO_PKG_VERSION"); fn todo() { self.env() } |
formats/import/smi | use nic_placement_core::{diagnostic::D, topology::T}; |
 | use crate::describe; | `formats::import` must not use `formats`
 | use nic_placement_core::{topology, plan}; | `formats::import` must not use `plan`
 | use nic_placement_core as core; | `formats::import` must not use `core`
 | fn f() { std::env::var(x); } | see the environment
 | use std::time::Instant; | no clock
sys/memory | use nic_placement_core::step; | `sys` must not use `step`
 | use nic_placement_topology::{bitmap::CpuSet, NodeSet}; ¦ use std::fs::File; fn f(x: &File) {} ¦ unsafe fn f() {} |
 | use nic_placement_topology::Topology; ¦ use nic_placement_topology::diagnostic; | `sys` must not use `topology`
plugin/task | use crate::{bind, option}; use nic_placement_sys as sys; ¦ use slurm_spank::SpankHandle; |
 | use libc::{EINVAL, O_CLOEXEC}; fn f() -> i32 { libc::ENOENT } |
 | use nic_placement_formats::describe; | `plugin` must not use `formats`
 | use libc::c_int; ¦ use libc as c; ¦ use libc::*; | call `libc`
 | fn f() { File::open(x); } | open files
plugin/lib | use nic_placement_core::config::releases; ¦ pub extern "C" fn f() -> libc::c_int { unsafe {} } |
 | fn f() { std::thread::spawn(g); } | no thread
tool/commands/map | use nic_placement_formats::import; ¦ fn f() { std::fs::write(x, y); std::time::Instant::now(); } |
 | use slurm_spank::SpankHandle; | only the plugin names `slurm_spank`
 | use std::fs;⏎fn f() { fs::read_to_string(x); } ¦ fn f() { std::fs::File::open(x); } | only `discover::root` reads files
node/discover/root: fn f() { std::fs::read(x); } ¦ node/discover/root/open | fn f() { std::fs::File::open(x); } |
node/lib | use std::time::Duration; ¦ fn f() { Instant::now(); } | no clock
capi/lib | unsafe fn f() {} |
core/lib | fn f() { unsafe {} } ¦ ⏎// #![forbid(unsafe_code)]⏎use std::fmt;⏎#![forbid(unsafe_code)] | is not forbidden
plugin/task: unsafe fn f() {} ¦ capi/calls | unsafe fn f() {} | is not forbidden ¦ is not forbidden
plugin/task | // A file. | opens a file
 | … | 640 lines
 | let x = 1; /·/ Nobody's | names its subject
plugin/x/mod: #[cfg(test)]⏎#[rustfmt::skip]⏎mod tests; ¦ plugin/x/tests/a: use libc::c; ¦ plugin/x/tests | use libc::c; |
plugin/x/tests/a: use libc::c; ¦ plugin/x/tests | use libc::c; | call `libc` ¦ call `libc`
tool/a: pub struct Same; ¦ tool/b | pub enum Same {} ¦ pub trait Same {} | `Same` is a type of a.rs too
 | struct Same; ¦ pub(crate) struct Same; ¦ #[cfg(test)]⏎mod tests { pub struct Same; } |
tool/lib: ¦ tool/a: use crate::b::h; ¦ tool/c: ¦ tool/b | use crate::c::f; ¦ use crate::a; ¦ pub use crate::a::f; |
 | pub(crate) use super::a::{f, F};⏎fn g() { x.f(); f!() } ¦ const A: &str = "crate::a::f"; // crate::a::f |
 | use ::a::f;⏎fn h() { ::log::error!("a") } ¦ use std::a::f;⏎fn h() { let a = a; a.f() } |
 | #[cfg(test)]⏎mod tests { use crate::a::f; } ¦ fn f() { self::a::g() }⏎mod a { pub fn g() {} } |
 | fn h<'a>() -> impl Fn() + use<'a> { crate::c::f } |
 | use crate::a::f; ¦ use super::a::{f, g as i}; ¦ use super::a::*; | a.rs:3: uses `h` of b.rs ¦ b.rs:
 | use crate::a;⏎fn h() { a::f() } ¦ use super::a as other;⏎fn h() { other::f() } | a.rs:3: ¦ b.rs:
 | use {std::fmt, crate::{c, a::f}}; ¦ fn h() { super::a::f() } ¦ fn h(x: &crate::a::F) {} | a.rs:3: ¦ b.rs:
 | mod inner { fn h() { super::super::a::f() } } ¦ mod inner { use crate::a::f; } | a.rs:3: ¦ b.rs:
 | pub use crate::a::f;⏎fn h() { f() } ¦ pub(super) use crate::a::F;⏎fn h() -> Option<F> { None } | a.rs:3: ¦ b.rs:
tool/lib: ¦ tool/a: use crate::b::h; ¦ tool/b: ⏎use crate::c::i; ¦ tool/d: use crate::a::f; ¦ tool/c | ⏎⏎use crate::a::f; | \
 a.rs:3: uses `h` of b.rs ¦ b.rs:4: uses `i` of c.rs ¦ c.rs:5: uses `f` of a.rs
tool/lib: ¦ tool/a/mod: mod x;⏎mod y; ¦ tool/a/x: use crate::b::h; ¦ tool/a/y: ¦ tool/b | use crate::a::y::f; | \
 a/x.rs:3: uses `h` of b.rs ¦ b.rs:3: uses `f` of a/y.rs
tool/lib: ¦ tool/a/mod: mod x;⏎mod y;⏎pub use x::X; ¦ tool/a/x: use super::y::f; ¦ tool/a/y | use super::X; | \
 a/x.rs:3: uses `f` of a/y.rs ¦ a/y.rs:3: uses `X` of a/x.rs
tool/lib: ¦ tool/a/mod: mod x;⏎mod y;⏎pub struct S;⏎fn f() { x::f(); y::f() } ¦ tool/a/x: use super::y::f; ¦ tool/a/y | \
 use super::S; |
"##;

/// `crate/path: text` as a file, with this text if it has none, and with a head unless it begins with a comment or speaks of
/// `unsafe`.
fn file(file: &str, text: &str) -> (String, String) {
    let (name, text) = file.split_once(':').unwrap_or((file, text));
    let file = match name.split_once('/').expect(name) {
        ("plugin", path) => format!("src/{path}.rs"),
        (name, path) => format!("crates/{name}/src/{path}.rs"),
    };
    let head = (!text.starts_with("// ")).then_some("//! A file.\n");
    let forbids = (!text.contains("unsafe")).then_some("#![forbid(unsafe_code)]\n");
    let text = text.replace('⏎', "\n").replace('…', &"\n".repeat(640));
    let parts = [head, forbids, Some(text.trim_start_matches(' '))];
    (file, parts.into_iter().flatten().collect())
}

#[test]
fn each_breach_is_found_however_it_is_written_and_nothing_else() {
    let samples = SAMPLES.replace("\\\n", "").replace('·', "");
    let mut files = "";
    for row in samples.trim().lines() {
        let row: Vec<&str> = row.split(" |").map(str::trim).collect();
        files = if row[0].is_empty() { files } else { row[0] };
        for body in row[1].split(" ¦ ") {
            let sources: Vec<_> = files.split(" ¦ ").map(|of| file(of, body)).collect();
            let found = breaches(&sources).join("\n");
            let found = found.replace("crates/tool/src/", "");
            let (mut told, mut parts) = (found.lines(), row[2].split_terminator(" ¦ "));
            let is_told = parts.all(|part| told.next().is_some_and(|told| told.contains(part)));
            assert!(is_told && told.next().is_none(), "{body}: {found}");
        }
    }
}
