//! Compares the documents with the program: generated tables, shown commands, named files and tests.
//!
//! ```text
//! cargo test --test docs              fails if a document and the program differ
//! BLESS=1 cargo test --test docs      rewrites the generated blocks
//! ```

#[path = "docs/blocks.rs"]
mod blocks;
#[path = "docs/interfaces.rs"]
mod interfaces;
#[path = "docs/man.rs"]
mod man;
#[path = "docs/named.rs"]
mod named;
#[path = "docs/pictures.rs"]
mod pictures;
#[path = "docs/quoted.rs"]
mod quoted;
#[path = "docs/shown.rs"]
mod shown;
#[path = "docs/support.rs"]
mod support;
#[path = "docs/units.rs"]
mod units;
#[path = "docs/variables.rs"]
mod variables;

use nic_placement_core::config::options::{ARGUMENTS, Spec, WORDS};
use nic_placement_core::config::releases::RELEASES;
use nic_placement_core::config::{Admin, Conf, Words};
use nic_placement_core::wish::Switch;
use nic_placement_fleet::doctor::releases::{name, of_version};
use nic_placement_launch::plugstack::check_conf;
use shown::{shown_commands, shows};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is no page below docs/.
const NAMED: &str = "README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md SECURITY.md benches/README.md plugstack.conf.example \
                     nic-placement.conf.example packaging/man/nic-placement.1 packaging/man/nic-placement.8";

/// Everything that is held to the program; a new page below docs/ is held from its first day.
fn documents() -> Vec<String> {
    let names = fs::read_dir(path("docs")).unwrap().map(Result::unwrap);
    // docs/results has sites' reports
    let files = names.filter(|entry| entry.file_type().unwrap().is_file());
    let names = files.map(|entry| format!("docs/{}", entry.file_name().to_string_lossy()));
    let mut pages: Vec<String> = names.filter(|name| !name.ends_with(".svg")).collect();
    let unread = pages.iter().find(|name| !name.ends_with(".md"));
    assert_eq!(unread, None, "an unread page");
    pages.sort();
    NAMED.split(' ').map(str::to_string).chain(pages).collect()
}

/// Each line of each document, as it reads, with the document's name.
fn lines() -> Vec<(String, String)> {
    let of = |name: String| {
        let text = read(&name).replace("\\-", "-");
        let lines = text.lines();
        let lines: Vec<_> = lines.map(|line| (name.clone(), line.to_string())).collect();
        lines
    };
    documents().into_iter().flat_map(of).collect()
}

/// A text in one line, with one blank between words.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Holds a file to this text, or writes it.
#[track_caller]
fn hold(name: &str, wanted: &str) {
    if std::env::var_os("BLESS").is_some() && read(name) != wanted {
        fs::write(path(name), wanted).unwrap();
    }
    assert!(read(name) == wanted, "{name} differs: BLESS=1 writes it");
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("NIC_PLACEMENT_ROOT")).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What the tool prints, stdout before stderr.
fn tool(line: &str) -> String {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_nic-placement"));
    tool.args(line.split_whitespace());
    let output = tool.current_dir(path("")).output().unwrap();
    [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat()
}

/// The tool's commands, and those of one with its options.
fn commands() -> Vec<String> {
    let help = tool("-h");
    let commands = help.lines().filter_map(|line| line.strip_prefix("  "));
    let words = commands.map(|line| line.split_whitespace().next().unwrap().to_string());
    words.collect()
}

// ---- commands and words ----

#[test]
fn the_documents_show_what_the_tool_prints() {
    let mut checked = 0;
    for document in documents() {
        for (command, shown) in shown_commands(&read(&document)) {
            // a built-in machine, or a file of the checkout; the others need the reader's own node
            // or file
            let can_be_run = command.contains("--machine ") || command.contains(" tests/");
            let Some(arguments) = command
                .strip_prefix("nic-placement ")
                .filter(|_| can_be_run)
            else {
                continue;
            };
            let is_so = !arguments.contains(['|', '\'', '"', '>', '$']);
            assert!(is_so, "`{command}` needs a shell");
            let printed = tool(arguments);
            let lines: Vec<&str> = printed.lines().collect();
            let is_so = shows(&shown, &lines);
            assert!(is_so, "{document}: `{command}` prints:\n{printed}");
            checked += 1;
        }
    }
    assert!(checked >= 12, "only {checked} commands were checked");
}

#[test]
fn every_word_that_a_document_gives_to_exec_or_to_the_option_is_known() {
    let (mut of_exec, mut words) = (0, 0);
    for (name, line) in lines() {
        let command = line.split_once("nic-placement exec ");
        let command = command.filter(|_| line.contains(" -- "));
        let given = command.and_then(|(_, rest)| rest.split_whitespace().next());
        let is_word = |given: &&str| given.starts_with(|letter: char| letter.is_ascii_lowercase());
        if let Some(given) = given.filter(is_word) {
            assert!(Words::parse(given).is_ok(), "{name}: `exec {given}`");
            of_exec += 1;
        }
        for named in ["--nic-placement=", "SLURM_NIC_PLACEMENT=", "default="] {
            for (at, _) in line.match_indices(named) {
                let value = &line[at + named.len()..];
                let is_of_value =
                    |letter: char| letter.is_ascii_alphanumeric() || ",=+-_".contains(letter);
                let end = value.find(|letter| !is_of_value(letter));
                let end = end.unwrap_or(value.len());
                let value = value[..end].trim_end_matches(['-', ',']);
                // `WORD` stands for any, and the documents show one typo on purpose
                let is_any = value.starts_with(|letter: char| letter.is_ascii_uppercase());
                let is_known = is_any || value == "closet" || Words::parse(value).is_ok();
                assert!(is_known, "{name}: `{named}{value}`");
                words += usize::from(!is_any && !value.is_empty());
            }
        }
    }
    let is_so = of_exec >= 4 && words >= 5;
    assert!(is_so, "only {of_exec} and {words} were found");
}

// where KillOnBadExit=1 the first node that warns cut off the reports of all others
#[test]
fn the_documents_ask_many_nodes_so_that_no_node_s_status_ends_the_others() {
    let asks =
        |line: &&(String, String)| line.1.contains("srun ") && line.1.contains("check --json |");
    let lines = lines();
    let shown: Vec<_> = lines.iter().filter(asks).collect();
    assert!(shown.len() >= 3, "{shown:?}");
    let is_so = shown.iter().all(|line| line.1.contains("srun -K0 -l "));
    assert!(is_so, "{shown:?}");
}

#[test]
fn dots_stand_for_lines_and_for_the_rest_of_a_line() {
    for (shown, printed, is_held) in [
        ("a\n…\nd", "a b c d", true),
        ("…\nd", "d", true),
        ("a …", "a__b", true),
        ("a\nd", "a b d", false),
        ("a", "a b", false),
        ("a …", "b", false),
        ("a\n…\nd", "a b", false),
        ("a", "", false),
    ] {
        let lines: Vec<String> = shown.lines().map(str::to_string).collect();
        let printed: Vec<&str> = printed.split_whitespace().collect();
        assert_eq!(shows(&lines, &printed), is_held, "{shown}: {printed:?}");
    }
}

#[test]
fn every_line_of_the_examples_is_understood() {
    let text = read("plugstack.conf.example");
    let lines = text.lines();
    let lines = lines.filter_map(|line| line.trim_start_matches('#').strip_prefix("optional "));
    let lines: Vec<&str> = lines.collect();
    assert!(lines.len() >= 3, "{lines:?}");
    for line in lines {
        let (_, diagnostics) = Admin::parse(line.split_whitespace().skip(1));
        assert_eq!(diagnostics, [], "{line}");
    }
    let text = read("nic-placement.conf.example");
    let begins = ["default=", "NodeName=", "PartitionName=", "    rollout="];
    let is_line = |line: &&str| begins.iter().any(|begin| line.starts_with(begin));
    let lines = text.lines().filter_map(|line| line.strip_prefix('#'));
    let lines: Vec<&str> = lines.filter(is_line).collect();
    assert!(lines.len() >= 6, "{lines:?}");
    let (conf, findings) = Conf::parse(lines.join("\n").as_bytes(), "x").expect("it is text");
    assert_eq!(findings, []);
    assert_eq!(check_conf(&conf, "x", "n"), []);
}

/// Beside the blocks, which are compared byte for byte: whatever lists options lists the whole table, and in its words.
#[test]
fn each_list_of_options_is_the_whole_table() {
    let help = flat(&nic_placement_core::config::options::help());
    let [plan, exec] = ["plan", "exec"].map(|command| flat(&tool(&format!("{command} --help"))));
    for spec in WORDS.iter().chain(ARGUMENTS) {
        let (name, told) = (spec.name, flat(spec.help));
        let is_so = help.contains(&spec.sentence());
        assert!(is_so, "--nic-placement=help: {name}");
        let (block, page) = match WORDS.contains(spec) {
            true => ("words", "docs/user-guide.md"),
            false => ("arguments", "docs/configuration.md"),
        };
        for page in [
            page,
            "packaging/man/nic-placement.8",
            "plugstack.conf.example",
        ] {
            let has = read(page).contains(&format!("generated: {block}"));
            assert!(has, "{page} has no `{block}`");
        }
        if block == "arguments" || name == "help" {
            continue;
        }
        // a plan has none that switch off
        let is_planned = !["off", "observe", "verbose", "dry-run"].contains(&name);
        let is_so = !is_planned || plan.contains(&told);
        assert!(is_so, "`plan --help`: `{name}`");
        assert!(exec.contains(&told), "`exec --help`: `{name}`");
    }
}

// ---- man pages ----

#[test]
fn the_tools_man_page_is_its_table_of_commands() {
    let page = man::page();
    hold("packaging/man/nic-placement.1", &page);
    for command in commands() {
        assert!(page.contains(&format!(".SS {command}\n")), "no `{command}`");
        for line in tool(&format!("{command} -h")).lines() {
            if !line.starts_with("  -") && !line.starts_with("      --") {
                continue;
            }
            let mut words = line.split([' ', '[', ',']);
            let option = words.find(|word| word.starts_with("--")).unwrap();
            let option = format!("\\fB{}\\fR", option.replace('-', "\\-"));
            assert!(page.contains(&option), "no `{option}` of `{command}`");
        }
    }
}

#[test]
fn man_pages_are_of_this_version_and_without_a_warning() {
    for name in NAMED.split(' ').filter(|name| name.contains("/man/")) {
        let text = read(name);
        assert!(text.is_ascii(), "{name} is not ASCII");
        let version = format!("\"nic-placement {}\"", env!("CARGO_PKG_VERSION"));
        let is_head = |line: &str| line.starts_with(".TH") && line.contains(&version);
        assert!(text.lines().any(is_head), "{name}: .TH");
        let mut groff = Command::new("groff");
        match groff
            .args(["-man", "-Tutf8", "-ww", "-z"])
            .arg(path(name))
            .output()
        {
            Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{name}"),
            Err(_) => println!("skipped: there is no `groff`"),
        }
    }
    let heading = format!("## [{}]", env!("CARGO_PKG_VERSION"));
    let changelog = read("CHANGELOG.md");
    let is_so = changelog.lines().any(|line| line.starts_with(&heading));
    assert!(is_so, "no `{heading}`");
}

/// And the cases that ran on them are counted in docs/releases.md's table alone.
#[test]
fn every_range_of_releases_is_that_of_the_table() {
    let (first, last) = (name(&RELEASES[0]), name(&RELEASES[RELEASES.len() - 1]));
    let packages = ["packaging/package.sh".to_string()];
    let mut found = 0;
    for name in documents().into_iter().chain(packages) {
        let words = flat(&read(&name));
        for rest in words.split(&format!("{first} to ")).skip(1) {
            let is_so = rest.starts_with(&last);
            assert!(is_so, "{name}: `{first} to {}`", &rest[..5]);
            found += 1;
        }
        let is_so = !words.contains(" cases with 2");
        assert!(is_so, "{name} counts cases beside the table");
    }
    assert!(found >= 4, "only {found} were found");
}
