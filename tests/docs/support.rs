//! docs/support.md: what ran where, from the models of machines and support.tsv.

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
    let row = |line: &str| {
        let fields: Vec<String> = line.split('\t').map(str::to_string).collect();
        let [table, what, how, by] = fields
            .try_into()
            .unwrap_or_else(|_| panic!("support.tsv: {line}"));
        Row {
            table,
            what,
            how,
            by,
        }
    };
    let lines = read("tests/docs/support.tsv");
    let rows = lines.lines().filter(|line| !line.starts_with('#')).map(row);
    rows.filter(|row| {
        table == "libraries" && !["system", "node"].contains(&&*row.table) || row.table == table
    })
    .collect()
}

pub fn block(table: &str) -> String {
    match table {
        "machines" => machines(),
        _ => {
            let mut out = String::new();
            for Row {
                table: library,
                what,
                how,
                by,
            } in rows(table)
            {
                let what = if table == "libraries" {
                    format!("{library} {what}")
                } else {
                    what
                };
                let by = match &*how {
                    _ if by.is_empty() => by,
                    "run" => format!(", `{by}`"),
                    _ => format!(", {by}"),
                };
                out.push_str(&format!("- {what}: **{how}**{by}\n"));
            }
            out
        }
    }
}

/// The files of a folder and of those in it, as one text.
fn sources(folder: &str) -> String {
    let mut out = String::new();
    for entry in fs::read_dir(path(folder)).unwrap().map(Result::unwrap) {
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        match entry.file_type().unwrap().is_dir() {
            true => out.push_str(&sources(&name)),
            false if name.ends_with(".rs") => out.push_str(&read(&name)),
            false => {}
        }
    }
    out
}

fn machines() -> String {
    let slurms = ["end_to_end", "attack"]
        .map(|folder| sources(&format!("tests/{folder}")))
        .concat();
    let named = |is_such: &dyn Fn(&str) -> bool| {
        let names = MODELS.iter().map(|model| model.name);
        let such: Vec<String> = names
            .filter(|name| is_such(name))
            .map(|name| format!("`{name}`"))
            .collect();
        such.join(", ")
    };
    let is_played = |name: &str| slurms.contains(&format!("\"{name}\""));
    let is_held = |name: &str| path(&format!("tests/machines/{name}")).exists();
    let played = named(&is_played);
    let others = named(&|name| is_held(name) && !is_played(name));
    let neither = named(&|name| !is_held(name) && !is_played(name));
    let rows = [
        ("played in a real Slurm", played),
        ("only its plans, held byte for byte", others),
        ("neither", neither),
    ];
    let rows = rows.iter().filter(|(_, names)| !names.is_empty());
    let rows: String = rows
        .map(|(how, names)| format!("| {how} | {names} |\n"))
        .collect();
    format!("| run | built-in machines |\n|---|---|\n{rows}")
}

/// A table of what ran is worth what its tests are.
#[test]
fn what_is_called_run_names_a_test_that_is_there_and_every_library_has_a_row() {
    let tests = ["tests", "crates"].map(sources).concat();
    let rules = read("tests/libraries/newest.sh");
    let mut run = 0;
    for row in ["system", "node", "libraries"]
        .iter()
        .flat_map(|table| rows(table))
    {
        match &*row.how {
            "run" => {
                assert!(
                    tests.contains(&format!("fn {}(", row.by))
                        || rules.contains(&format!("\n{}() {{", row.by)),
                    "no test `{}`",
                    row.by
                );
                run += 1;
            }
            "read" => assert!(!row.by.is_empty(), "{}: what was read?", row.what),
            other => assert_eq!(other, "not run", "{}", row.what),
        }
    }
    assert!(run >= 10, "{run}");
    let libraries: BTreeSet<String> = rows("libraries").into_iter().map(|row| row.table).collect();
    for line in sources("crates/core/src/libraries").lines() {
        let Some(name) = line
            .strip_prefix("    name: \"")
            .and_then(|rest| rest.strip_suffix("\","))
        else {
            continue;
        };
        assert!(
            libraries.contains(name),
            "no row of `{name}` in support.tsv"
        );
    }
}
