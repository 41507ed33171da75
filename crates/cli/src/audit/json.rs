//! The answer of an audit as versioned JSON, for programs.
#![forbid(unsafe_code)]

use super::facts::Class;
use super::kinds::{Audited, Difference};
use serde::Serialize;

/// Grows by one when a field changes its meaning or is removed, not with new fields.
pub const VERSION: u32 = 1;

/// A piece of the input that is no report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bad {
    /// the file's name, `-` for standard input
    pub input: String,
    /// the line where it begins, from 1; `null` where the file cannot be read
    pub line: Option<u64>,
    /// what is wrong with it
    pub why: String,
}

#[derive(Serialize)]
struct File<'a> {
    format: &'static str,
    version: u32,
    nodes: usize,
    kinds: Vec<Kind<'a>>,
    duplicates: Vec<Duplicate<'a>>,
    /// how many pieces of the input are no reports; `bad` has the first of them
    bad_count: usize,
    bad: &'a [Bad],
}

#[derive(Serialize)]
struct Kind<'a> {
    machine: &'a str,
    gpus: Vec<Counted<'a>>,
    nics: Vec<Counted<'a>>,
    nodes: &'a str,
    count: usize,
    differing: Vec<Differing<'a>>,
}

#[derive(Serialize)]
struct Counted<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest: Option<&'a str>,
    count: usize,
}

#[derive(Serialize)]
struct Differing<'a> {
    nodes: &'a str,
    count: usize,
    differences: Vec<Of<'a>>,
}

#[derive(Serialize)]
struct Of<'a> {
    of: &'static str,
    subject: &'a str,
    /// empty for that it is there
    what: &'a str,
    here: Option<&'a str>,
    kind: Option<&'a str>,
    shared_by: usize,
}

#[derive(Serialize)]
struct Duplicate<'a> {
    host: &'a str,
    reports: usize,
    alike: bool,
}

fn of(difference: &Difference) -> Of<'_> {
    let of = match difference.class {
        Class::Node => "node",
        Class::Numa => "numa_node",
        Class::Gpu => "gpu",
        Class::Nic => "nic",
        Class::Finding => "finding",
    };
    Of {
        of,
        subject: &difference.subject,
        what: &difference.what,
        here: difference.here.as_deref(),
        kind: difference.kind.as_deref(),
        shared_by: difference.shared_by,
    }
}

/// The whole answer.
pub fn write(audited: &Audited, bad_count: usize, bad: &[Bad]) -> String {
    let kinds = audited.kinds.iter().map(|kind| Kind {
        machine: &kind.inventory.machine,
        gpus: kind
            .inventory
            .gpus
            .iter()
            .map(|(model, count)| Counted { model, nearest: None, count: *count })
            .collect(),
        nics: kind
            .inventory
            .nics
            .iter()
            .map(|((model, path), count)| Counted { model, nearest: Some(path), count: *count })
            .collect(),
        nodes: &kind.nodes,
        count: kind.count,
        differing: kind
            .differing
            .iter()
            .map(|group| Differing {
                nodes: &group.nodes,
                count: group.count,
                differences: group.differences.iter().map(of).collect(),
            })
            .collect(),
    });
    let duplicates = audited.duplicates.iter();
    let file = File {
        format: "nic-placement audit",
        version: VERSION,
        nodes: audited.nodes,
        kinds: kinds.collect(),
        duplicates: duplicates
            .map(|of| Duplicate { host: &of.host, reports: of.reports, alike: of.alike })
            .collect(),
        bad_count,
        bad,
    };
    // JSON can hold all of these structures
    serde_json::to_string_pretty(&file).unwrap_or_default() + "\n"
}
