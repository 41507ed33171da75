//! docs/support.md: what ran where, from the runs on releases of Slurm, the models of machines, and support.tsv.

use super::blocks::runs;
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
        "slurm" => slurm(),
        "machines" => machines(),
        _ => {
            let mut out = "| what | | by |\n|---|---|---|\n".to_string();
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
                let by = if how == "run" { format!("`{by}`") } else { by };
                out.push_str(&format!("| {what} | {how} | {by} |\n"));
            }
            out
        }
    }
}

fn slurm() -> String {
    let runs = runs();
    let mut out = "| Slurm | x86_64, a distribution's package | x86_64, from source | from source, static | aarch64 |\n\
                   |---|---|---|---|---|\n"
        .to_string();
    for release in &RELEASES {
        let ran = |is_such: &dyn Fn(&str) -> bool| {
            let of_it = runs
                .iter()
                .filter(|run| of_version(&run.version) == Some(release) && is_such(&run.from));
            of_it
                .map(|run| format!("run {}", run.version))
                .next()
                .unwrap_or("not run".to_string())
        };
        let package = ran(&|from| !from.starts_with("source"));
        let [shared, fixed] =
            ["source-shared", "source-static"].map(|kind| ran(&|from| from == kind));
        out.push_str(&format!(
            "| {} | {package} | {shared} | {fixed} | not run |\n",
            name(release)
        ));
    }
    out
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
    let mut out =
        "| kind | played in a real Slurm | plans held byte for byte | a real node |\n|---|---|---|---|\n"
            .to_string();
    for model in MODELS {
        let yes = |is: bool| if is { "run" } else { "not run" };
        let played = slurms.contains(&format!("\"{}\"", model.name));
        let held = path(&format!("tests/machines/{}", model.name)).exists();
        out.push_str(&format!(
            "| {} | {} | {} | not run |\n",
            model.title,
            yes(played),
            yes(held)
        ));
    }
    out
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
            "run" => {
                assert!(
                    tests.contains(&format!("fn {}(", row.by)),
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
