//! The table of interfaces in docs/configuration.md: each number is the source's.

use super::{path, quoted, read};

/// What it is | the formats of its JSON | numbers that are read | the file with the number | what stands before it there.
const INTERFACES: &str = r##"
topology file: `topology=`, `show --json`, `import` | topology | 1 | crates/topology/src/file.rs | VERSION: u64 =
snapshot, by its first line | | 1 | crates/formats/src/manifest.rs | HEADER: &str = "# nic-placement machine
`plan --json`, `show --gpu --json`, answers of the C interface | plan, explanation, task, environment, process | | crates/launch/src/answers.rs | VERSION: u32 =
map: `map`, `{map_file:json}` | map | | crates/core/src/maps.rs | VERSION: u32 =
request to the C interface | request | 1 | crates/capi/src/request.rs | VERSION: u32 =
C interface, `include/nic_placement.h` | | | crates/capi/build.rs | SONAME: &str = "
`check --json` | check | 2 | crates/fleet/src/audit/report.rs | VERSION: u64 =
`audit --json` | audit | | crates/fleet/src/audit/kinds.rs | VERSION: u32 =
`fabric --json` | fabric | | crates/fleet/src/fabric/rails.rs | VERSION: u32 =
`verify --json` | verify | 3 | crates/traffic/src/report.rs | VERSION: u32 =
`trial`'s report | trial | 2 | crates/fleet/src/trial/report.rs | VERSION: u32 =
`trial --probe` | probe | 1 | crates/fleet/src/trial/probe.rs | VERSION: u32 =
marker: the variable `NIC_PLACEMENT` | | v1 | crates/core/src/libraries/marker.rs | write!(line, "
node file | node file | that of the same release | crates/node/src/cache.rs | "CARGO_PKG_VERSION"), "-
"##;

fn rows() -> impl Iterator<Item = [&'static str; 5]> {
    let cells = |line: &'static str| line.split('|').collect::<Vec<_>>().try_into().unwrap();
    INTERFACES.trim().lines().map(cells)
}

pub fn table() -> String {
    let row = |[what, _, numbers, file, before]: [&str; 5]| {
        let source = read(file.trim());
        let (_, rest) = source.split_once(before.trim()).expect(before);
        let mut number = rest.trim_start().split([';', ',', '"', ' ']);
        let number = number.next().unwrap_or_default();
        format!("| {what}| {number} | {} |\n", numbers.trim())
    };
    let head = "| interface | number | read |\n|---|---|---|\n";
    head.to_string() + &rows().map(row).collect::<String>()
}

#[test]
fn each_format_of_the_source_stands_in_the_table_of_interfaces() {
    let mut source = String::new();
    for folder in ["src", "crates"] {
        quoted::source(&path(folder), &mut source);
    }
    let named = rows().flat_map(|row| row[1].split(','));
    let known = named.map(str::trim);
    let known: Vec<&str> = known.filter(|word| !word.is_empty()).collect();
    let literals = source.split("\"nic-placement ").skip(1);
    let literals = literals.filter_map(|rest| rest.split('"').next());
    let is_format = |text: &&str| {
        text.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b' ')
    };
    let found: Vec<&str> = literals.filter(is_format).map(str::trim_end).collect();
    assert!(found.len() >= 15, "only {found:?} were found");
    let unknown = found.iter().find(|format| !known.contains(format));
    assert_eq!(unknown, None, "tests/docs/interfaces.rs");
}
