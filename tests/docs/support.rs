//! docs/support.md: what ran where, from the models of machines and support.tsv.

use super::named::has_test;
use super::*;
use nic_placement_node::platform::MODELS;

/// One line of support.tsv.
struct Row {
    table: String,
    what: String,
    how: String,
    by: String,
}

fn rows(table: &str) -> Vec<Row> {
    let row = |fields: Vec<String>| {
        let [table, what, how, by] = fields.try_into().expect("four fields");
        Row {
            table,
            what,
            how,
            by,
        }
    };
    let is_meant = |row: &Row| {
        let is_library = !["system", "node"].contains(&&*row.table);
        row.table == table || table == "libraries" && is_library
    };
    let all = blocks::rows_of("tests/docs/support.tsv");
    all.into_iter().map(row).filter(is_meant).collect()
}

pub fn block(table: &str) -> String {
    if table == "machines" {
        return machines();
    }
    let line = |Row {
                    table: library,
                    what,
                    how,
                    by,
                }: Row| {
        let of = match table {
            "libraries" => format!("{library} "),
            _ => String::new(),
        };
        let by = match &*how {
            _ if by.is_empty() => by,
            "run" => format!(", `{by}`"),
            _ => format!(", {by}"),
        };
        format!("- {of}{what}: **{how}**{by}\n")
    };
    rows(table).into_iter().map(line).collect()
}

/// The files of a folder and of those in it, as one text.
/// The text of all Rust and shell files below a folder.
pub fn sources(folder: &str) -> String {
    let mut out = String::new();
    for entry in fs::read_dir(path(folder)).unwrap().map(Result::unwrap) {
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        match entry.file_type().unwrap().is_dir() {
            true => out.push_str(&sources(&name)),
            false if name.ends_with(".rs") || name.ends_with(".sh") => out.push_str(&read(&name)),
            false => {}
        }
    }
    out
}

fn machines() -> String {
    let slurms = ["testing", "tests/end_to_end", "tests/attack"];
    let slurms = slurms.map(sources).concat();
    let is_played = |name: &str| slurms.contains(&format!("\"{name}\""));
    let is_held = |name: &str| path(&format!("tests/machines/{name}")).exists();
    let row = |how: &str, is_such: &dyn Fn(&str) -> bool| {
        let names = MODELS.iter();
        let names = names.map(|model| model.name).filter(|name| is_such(name));
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        match names.is_empty() {
            true => String::new(),
            false => format!("| {how} | {} |\n", names.join(", ")),
        }
    };
    let played = row("played in a real Slurm", &is_played);
    let others = row("only its plans, held byte for byte", &|name| {
        is_held(name) && !is_played(name)
    });
    let neither = row("neither", &|name| !is_held(name) && !is_played(name));
    format!("| run | built-in machines |\n|---|---|\n{played}{others}{neither}")
}

/// A table of what ran is worth what its tests are.
#[test]
fn what_is_called_run_names_a_test_that_is_there_and_every_library_has_a_row() {
    let tests = ["tests", "crates"].map(sources).concat();
    let mut run = 0;
    for row in ["system", "node", "libraries"]
        .iter()
        .flat_map(|table| rows(table))
    {
        match &*row.how {
            "run" => assert!(has_test(&tests, &row.by), "no test `{}`", row.by),
            "read" => assert!(!row.by.is_empty(), "{}: what was read?", row.what),
            other => assert_eq!(other, "not run", "{}", row.what),
        }
        run += usize::from(row.how == "run");
    }
    assert!(run >= 10, "{run}");
    let libraries: BTreeSet<String> = rows("libraries").into_iter().map(|row| row.table).collect();
    for line in sources("crates/core/src/libraries").lines() {
        let name = line.strip_prefix("    name: \"");
        let name = name.and_then(|rest| rest.strip_suffix("\","));
        let is_so = name.is_none_or(|name| libraries.contains(name));
        assert!(is_so, "support.tsv: {line}");
    }
}
