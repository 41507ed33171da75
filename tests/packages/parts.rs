//! What is linked into each file that is installed, as CycloneDX: made from cargo's own tree of dependencies.

use super::{Answer, is_as_made, path, read};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// A file that is installed: its name, cargo's package, and CycloneDX's kind of it.
pub const FILES: [(&str, &str, &str); 3] = [
    ("libnic_placement", "nic-placement", "library"),
    ("libnic_placement_core", "nic-placement-capi", "library"),
    ("nic-placement", "nic-placement-cli", "application"),
];

/// A crate that is linked in, or that made code while compiling.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Part {
    pub name: String,
    pub version: String,
    /// an SPDX expression
    pub licence: String,
    /// it, or what uses it, runs in the compiler alone
    pub compiling: bool,
    /// of this project
    pub own: bool,
}

impl Part {
    fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

fn cargo(arguments: &[&str]) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    let answer = Answer::of(cargo.args(arguments).current_dir(path("")));
    answer.ends(0);
    answer.out
}

/// The parts of a package and which part uses which, by `cargo tree -e normal`.
pub fn parts(package: &str, target: &str) -> (BTreeSet<Part>, BTreeSet<(String, String)>) {
    let format = ["--prefix", "depth", "--no-dedupe", "--format", "|{p}|{l}"];
    let tree = [
        "tree", "--locked", "-e", "normal", "-p", package, "--target", target,
    ];
    let (mut parts, mut uses) = (BTreeMap::<String, Part>::new(), BTreeSet::new());
    // the way from the package to a line: what is there, and whether it runs in the compiler
    let mut way: Vec<(String, bool)> = Vec::new();
    for line in cargo(&[&tree[..], &format[..]].concat()).lines() {
        let [depth, crate_, licence] = line.split('|').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        way.truncate(depth.parse().expect("a depth"));
        let mut words = crate_.split(' ');
        let name = words.next().expect("a name").to_string();
        let version = words.next().expect("a version");
        let version = version.trim_start_matches('v').to_string();
        let is_macro = crate_.contains("(proc-macro)");
        let compiling = is_macro || way.last().is_some_and(|(_, compiling)| *compiling);
        let (own, licence) = (crate_.contains("(/"), licence.replace('/', " OR "));
        let part = Part {
            name,
            version,
            licence,
            compiling,
            own,
        };
        let purl = part.purl();
        if let Some((user, _)) = way.last() {
            uses.insert((user.clone(), purl.clone()));
        }
        way.push((purl.clone(), compiling));
        // what is linked in anywhere counts as linked in
        let known = parts.entry(purl).or_insert(part);
        known.compiling &= compiling;
    }
    (parts.into_values().collect(), uses)
}

/// The sha256 of each crate, by Cargo.lock.
fn checksums() -> BTreeMap<String, String> {
    let field = |block: &str, name: &str| {
        let begin = format!("{name} = \"");
        let line = block.lines().find_map(|line| line.strip_prefix(&begin));
        line.map(|rest| rest.trim_end_matches('"').to_string())
    };
    let lock = read("Cargo.lock");
    let of = |block: &str| {
        let (name, version) = (field(block, "name")?, field(block, "version")?);
        let part = format!("pkg:cargo/{name}@{version}");
        Some((part, field(block, "checksum")?))
    };
    lock.split("[[package]]").filter_map(of).collect()
}

/// What the linker adds beside the crates; which releases, the package's file `built-with` says.
fn added() -> [Value; 2] {
    [
        json!({
            "type": "library", "bom-ref": "rust-std", "name": "rust-std", "scope": "required",
            "description": "the standard library of the compiler that `built-with` names",
            "licenses": [{"expression": "MIT OR Apache-2.0"}],
        }),
        json!({
            "type": "library", "bom-ref": "libunwind", "name": "libunwind", "scope": "required",
            "description": "LLVM's unwinder, of the zig that `built-with` names",
            "licenses": [{"expression": "Apache-2.0 WITH LLVM-exception"}],
        }),
    ]
}

fn bill(file: &str, package: &str, kind: &str) -> String {
    let (parts, uses) = parts(package, "x86_64-unknown-linux-gnu");
    let sums = checksums();
    let root = parts.iter().find(|part| part.name == package);
    let root = root.expect("the package itself");
    let component = |part: &Part| {
        let mut component = json!({
            "type": "library", "bom-ref": part.purl(), "name": part.name, "version": part.version,
            "scope": if part.compiling { "excluded" } else { "required" },
            "licenses": [{"expression": part.licence}], "purl": part.purl(),
        });
        if let Some(sum) = sums.get(&part.purl()) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
        }
        component
    };
    let others = parts.iter().filter(|part| *part != root);
    let components = others.map(component).chain(added());
    let dependency = |part: &Part| {
        let purl = part.purl();
        let used = uses.iter().filter(|(user, _)| *user == purl);
        let added = ["rust-std", "libunwind"];
        let added = added.into_iter().filter(|_| part == root);
        let used: Vec<&str> = used.map(|(_, used)| used.as_str()).chain(added).collect();
        json!({"ref": purl, "dependsOn": used})
    };
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {
            "type": kind, "bom-ref": root.purl(), "name": file, "version": root.version,
            "licenses": [{"expression": root.licence}],
        }},
        "components": components.collect::<Vec<_>>(),
        "dependencies": parts.iter().map(dependency).collect::<Vec<_>>(),
    });
    serde_json::to_string_pretty(&bill).expect("JSON") + "\n"
}

#[test]
fn the_bill_of_each_file_names_every_crate_that_cargo_links_in() {
    for (file, package, kind) in FILES {
        let made = bill(file, package, kind);
        is_as_made(&format!("packaging/sbom/{file}.cdx.json"), &made);
    }
}

/// Read back and asked cargo in another way, so that a mistake in the making does not stand on both sides.
#[test]
fn a_bill_has_the_lines_of_cargos_tree_and_no_other() {
    for (file, package, _) in FILES {
        let bill = read(&format!("packaging/sbom/{file}.cdx.json"));
        let bill: Value = serde_json::from_str(&bill).expect("JSON");
        let components = bill["components"].as_array().expect("a list");
        let named = |part: &Value| {
            let (name, version) = (part["name"].as_str()?, part["version"].as_str()?);
            Some(format!("{name} v{version}"))
        };
        let listed: BTreeSet<String> = components.iter().filter_map(named).collect();
        let words = format!("tree --locked -e normal -p {package} --prefix none --format {{p}}");
        let tree = cargo(&words.split(' ').collect::<Vec<_>>());
        let line = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        let own = format!("{package} v");
        let wanted = tree.lines().map(line);
        let wanted: BTreeSet<String> = wanted.filter(|line| !line.starts_with(&own)).collect();
        assert_eq!(listed, wanted, "{file}");
        let linked = ["libc", "serde_json", "syn", "serde_derive"].map(|name| {
            let mut all = components.iter();
            all.any(|part| part["name"] == name && part["scope"] == "required")
        });
        assert_eq!(linked, [true, true, false, false], "{file}");
    }
}

#[test]
fn both_processors_link_the_same_crates() {
    for (file, package, _) in FILES {
        let targets = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
        let [x86, arm] = targets.map(|target| parts(package, target).0);
        assert_eq!(x86, arm, "{file}");
    }
}
