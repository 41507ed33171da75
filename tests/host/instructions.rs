//! How many instructions each hook takes, under callgrind, against the table in benches/instructions.tsv: it grows by no accident.

use super::*;
use node::Node;

const TABLE: &str = "benches/instructions.tsv";
/// What may differ between compilers and C libraries, in percent.
const TOLERATED: u64 = 10;

/// Instructions of one call of a hook: in the step's process, or in the first task.
fn counted(step: &Step, name: &str, hook: &str) -> u64 {
    let folder = private_folder(&format!("callgrind {name} {hook}").replace(' ', "-"));
    let collect = format!("--toggle-collect=slurm_spank_{hook}");
    let out = format!("--callgrind-out-file={}/%p", folder.display());
    let output = valgrind::ran(step, &["--tool=callgrind", &collect, &out]);
    assert!(output.status.success(), "{}", harness::stderr(&output));
    let totals = fs::read_dir(&folder).expect("its folder").map(|entry| {
        let text = fs::read_to_string(entry.expect("a file").path()).expect("its figures");
        let line = text.lines().find_map(|line| line.strip_prefix("totals: "));
        let line = line.expect("a total");
        line.parse::<u64>().expect("a number")
    });
    // each task is forked from the step's process, and has what that has done until then, or nothing
    totals.max().expect("a process")
}

#[test]
fn a_hook_takes_no_more_instructions_than_the_table_says() {
    let plugin = harness::plugin();
    if !plugin
        .components()
        .any(|part| part.as_os_str() == "release")
    {
        return println!("skipped: `{}` is no release build", plugin.display());
    }
    if !valgrind::is_there() {
        return;
    }
    let node = Node::new("instructions");
    // Slurm's default log level
    let step = || node.step().word("--log-level", "3");
    let cases = [
        ("node file", step()),
        ("no node file", step().arg("cache=0")),
    ];
    let mut table = String::from(
        "# instructions of one call, DGX H100, 8 tasks; BLESS=1 cargo test --test host writes it\n",
    );
    for (name, step) in &cases {
        for hook in ["init", "init_post_opt", "task_init"] {
            table += &format!("{name}\t{hook}\t{}\n", counted(step, name, hook));
        }
    }
    let path = harness::manifest_path(TABLE);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &table).expect("the table can be written");
    }
    let known = fs::read_to_string(&path).expect("the table");
    let rows = |text: &str| -> Vec<(String, u64)> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let rows = lines.filter_map(|line| line.rsplit_once('\t'));
        rows.map(|(what, count)| (what.to_string(), count.parse().expect("a number")))
            .collect()
    };
    let (known, found) = (rows(&known), rows(&table));
    assert_eq!(known.len(), found.len(), "BLESS=1 writes the table anew");
    for ((what, known), (_, found)) in known.iter().zip(&found) {
        assert!(
            *found <= known + known * TOLERATED / 100,
            "{what}: {found} instructions, {known} in {TABLE}: why?\n{table}"
        );
    }
}
