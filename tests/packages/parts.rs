//! What is linked into each file that is installed, as CycloneDX: made from cargo's own tree of dependencies.

use super::{is_as_made, path, read};
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
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(path(""))
        .output()
        .expect("cargo");
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
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
        let version = words
            .next()
            .expect("a version")
            .trim_start_matches('v')
            .to_string();
        let is_macro = crate_.contains("(proc-macro)");
        let compiling = is_macro || way.last().is_some_and(|(_, compiling)| *compiling);
        let part = Part {
            own: crate_.contains("(/"),
            licence: licence.replace('/', " OR "),
            name,
            version,
            compiling,
        };
        let purl = part.purl();
        if let Some((user, _)) = way.last() {
            uses.insert((user.clone(), purl.clone()));
        }
        way.push((purl.clone(), compiling));
        // what is linked in anywhere counts as linked in
        parts
            .entry(purl)
            .and_modify(|known| known.compiling &= compiling)
            .or_insert(part);
    }
    (parts.into_values().collect(), uses)
}

/// The sha256 of each crate, by Cargo.lock.
fn checksums() -> BTreeMap<String, String> {
    let field = |block: &str, name: &str| {
        let line = block
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name} = \"")));
        line.map(|rest| rest.trim_end_matches('"').to_string())
    };
    let lock = read("Cargo.lock");
    let of = |block: &str| {
        let purl = format!(
            "pkg:cargo/{}@{}",
            field(block, "name")?,
            field(block, "version")?
        );
        Some((purl, field(block, "checksum")?))
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
    let root = parts
        .iter()
        .find(|part| part.name == package)
        .expect("the package itself");
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
    let components = parts
        .iter()
        .filter(|part| *part != root)
        .map(component)
        .chain(added());
    let dependency = |part: &Part| {
        let purl = part.purl();
        let used = uses
            .iter()
            .filter(|(user, _)| *user == purl)
            .map(|(_, used)| used.as_str());
        let used: Vec<&str> = if part == root {
            used.chain(["rust-std", "libunwind"]).collect()
        } else {
            used.collect()
        };
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
        is_as_made(
            &format!("packaging/sbom/{file}.cdx.json"),
            &bill(file, package, kind),
        );
    }
}

/// Read back and asked cargo in another way, so that a mistake in the making does not stand on both sides.
#[test]
fn a_bill_has_the_lines_of_cargos_tree_and_no_other() {
    for (file, package, _) in FILES {
        let bill: Value =
            serde_json::from_str(&read(&format!("packaging/sbom/{file}.cdx.json"))).expect("JSON");
        let listed: BTreeSet<String> = bill["components"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|component| {
                Some(format!(
                    "{} v{}",
                    component["name"].as_str()?,
                    component["version"].as_str()?
                ))
            })
            .collect();
        let tree = cargo(&[
            "tree", "--locked", "-e", "normal", "-p", package, "--prefix", "none", "--format",
            "{p}",
        ]);
        let line = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        let wanted: BTreeSet<String> = tree
            .lines()
            .map(line)
            .filter(|line| !line.starts_with(&format!("{package} v")))
            .collect();
        assert_eq!(listed, wanted, "{file}");
        let linked = |name: &str| {
            bill["components"]
                .as_array()
                .expect("a list")
                .iter()
                .any(|component| component["name"] == name && component["scope"] == "required")
        };
        assert!(
            linked("libc") && linked("serde_json") && !linked("syn") && !linked("serde_derive"),
            "{file}"
        );
    }
}

#[test]
fn both_processors_link_the_same_crates() {
    for (file, package, _) in FILES {
        let [x86, arm] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]
            .map(|target| parts(package, target).0);
        assert_eq!(x86, arm, "{file}");
    }
}
