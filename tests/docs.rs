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
const NAMED: [&str; 10] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benches/README.md",
    "plugstack.conf.example",
    "nic-placement.conf.example",
    "packaging/man/nic-placement.1",
    "packaging/man/nic-placement.8",
];

/// The pages below docs/, in order of their names.
fn pages() -> Vec<String> {
    let names = fs::read_dir(path("docs")).unwrap();
    // docs/results has sites' reports
    let files = names
        .map(Result::unwrap)
        .filter(|entry| entry.file_type().unwrap().is_file());
    let names = files.map(|entry| entry.file_name().into_string().unwrap());
    let pages: BTreeSet<String> = names
        .filter(|name| !name.ends_with(".svg"))
        .map(|name| format!("docs/{name}"))
        .collect();
    assert!(
        pages.iter().all(|name| name.ends_with(".md")),
        "{pages:?}: a page that no test reads"
    );
    pages.into_iter().collect()
}

/// Everything that is held to the program; a new page below docs/ is held from its first day.
fn documents() -> Vec<String> {
    NAMED
        .iter()
        .map(ToString::to_string)
        .chain(pages())
        .collect()
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("NIC_PLACEMENT_ROOT")).join(name)
}

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What the tool prints, stdout before stderr.
fn tool(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_nic-placement"))
        .args(arguments)
        .current_dir(path(""))
        .output()
        .unwrap();
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

// ---- generated blocks ----

/// Checks the tool's commands in a document that every reader can run; the others need the reader's own node or file.
fn checked_commands(document: &str) -> usize {
    let mut checked = 0;
    for (command, shown) in shown_commands(&read(document)) {
        let Some(arguments) = command.strip_prefix("nic-placement ") else {
            continue;
        };
        // a built-in machine, or a file of the checkout
        if !["--machine ", " tests/"]
            .iter()
            .any(|source| arguments.contains(source))
        {
            continue;
        }
        assert!(
            !arguments.contains(['|', '\'', '"', '>', '$']),
            "`{command}` needs a shell: it cannot be checked"
        );
        let printed = tool(&arguments.split_whitespace().collect::<Vec<_>>());
        let lines: Vec<&str> = printed.lines().collect();
        assert!(
            shows(&shown, &lines),
            "{document} shows another output of `{command}`, which prints:\n{printed}"
        );
        checked += 1;
    }
    checked
}

#[test]
fn the_documents_show_what_the_tool_prints() {
    let checked: usize = documents().iter().map(|name| checked_commands(name)).sum();
    assert!(checked >= 12, "only {checked} commands were checked");
}

#[test]
fn the_words_that_a_document_gives_to_exec_are_known() {
    let mut words = 0;
    for name in documents() {
        let text = read(&name).replace("\\-", "-");
        for line in text.lines().filter(|line| line.contains(" -- ")) {
            let Some((_, rest)) = line.split_once("nic-placement exec ") else {
                continue;
            };
            let given = rest.split_whitespace().next().unwrap_or_default();
            if given.starts_with(|letter: char| letter.is_ascii_lowercase()) {
                assert!(Words::parse(given).is_ok(), "{name}: `exec {given}`");
                words += 1;
            }
        }
    }
    assert!(words >= 4, "only {words} were found");
}

// where KillOnBadExit=1 the first node that warns cut off the reports of all others
#[test]
fn the_documents_ask_many_nodes_so_that_no_node_s_status_ends_the_others() {
    let mut shown = 0;
    for name in documents() {
        let text = read(&name).replace("\\-", "-");
        for line in text
            .lines()
            .filter(|line| line.contains("srun ") && line.contains("check --json |"))
        {
            assert!(line.contains("srun -K0 -l "), "{name}: {line}");
            shown += 1;
        }
    }
    assert!(shown >= 3, "only {shown} were found");
}

#[test]
fn dots_stand_for_lines_and_for_the_rest_of_a_line() {
    let holds = |shown: &str, printed: &[&str]| {
        shows(
            &shown.lines().map(str::to_string).collect::<Vec<_>>(),
            printed,
        )
    };
    assert!(
        holds("a\n…\nd", &["a", "b", "c", "d"]) && holds("…\nd", &["d"]) && holds("a …", &["a  b"])
    );
    assert!(!holds("a\nd", &["a", "b", "d"]) && !holds("a", &["a", "b"]) && !holds("a …", &["b"]));
    assert!(!holds("a\n…\nd", &["a", "b"]) && !holds("a", &[]));
}

#[test]
fn every_word_that_a_document_gives_to_the_option_is_known() {
    let mut words = 0;
    for name in documents() {
        let text = read(&name).replace("\\-", "-");
        for named in ["--nic-placement=", "SLURM_NIC_PLACEMENT=", "default="] {
            for (at, _) in text.match_indices(named) {
                let value: String = text[at + named.len()..]
                    .chars()
                    .take_while(|letter| {
                        letter.is_ascii_alphanumeric() || ",=+-_".contains(*letter)
                    })
                    .collect();
                // `WORD` stands for any
                let value = if value.starts_with(|letter: char| letter.is_ascii_uppercase()) {
                    ""
                } else {
                    &value
                };
                // the documents show one typo on purpose
                let value = value.trim_end_matches(['-', ',']);
                assert!(
                    value == "closet" || Words::parse(value).is_ok(),
                    "{name}: `{named}{value}`"
                );
                words += usize::from(!value.is_empty());
            }
        }
    }
    assert!(words >= 5, "only {words} were found");
}

#[test]
fn every_plugstack_line_of_the_example_is_understood() {
    let text = read("plugstack.conf.example");
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix("optional "))
        .collect();
    assert!(lines.len() >= 3, "{lines:?}");
    for line in lines {
        let (_, diagnostics) = Admin::parse(line.split_whitespace().skip(1));
        assert_eq!(diagnostics, [], "{line}");
    }
}

#[test]
fn every_line_of_the_example_configuration_is_understood() {
    let text = read("nic-placement.conf.example");
    let is_line = |line: &&str| {
        ["default=", "NodeName=", "PartitionName=", "    rollout="]
            .iter()
            .any(|begin| line.starts_with(begin))
    };
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix('#'))
        .filter(is_line)
        .collect();
    assert!(lines.len() >= 6, "{lines:?}");
    let (conf, findings) = Conf::parse(lines.join("\n").as_bytes(), "x").expect("it is text");
    assert_eq!(findings, []);
    assert_eq!(check_conf(&conf, "x", "n"), []);
}

/// Beside the blocks, which are compared byte for byte: whatever lists options lists the whole table, and in its words.
#[test]
fn whoever_lists_the_options_lists_the_whole_table() {
    let help = nic_placement_core::config::options::help();
    let [first, second] =
        ["plan", "exec"].map(|command| tool(&[command, "--help"]).replace('\n', " "));
    let unwrapped = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (first, second) = (unwrapped(&first), unwrapped(&second));
    let completions = ["bash", "zsh", "fish"].map(|shell| tool(&["completions", shell]));
    for spec in WORDS.iter().chain(ARGUMENTS) {
        let is_word = WORDS.contains(spec);
        assert!(
            unwrapped(&help).contains(&spec.sentence()),
            "--nic-placement=help: {}",
            spec.name
        );
        let block = if is_word { "words" } else { "arguments" };
        let page = if is_word {
            "docs/user-guide.md"
        } else {
            "docs/configuration.md"
        };
        for name in [
            page,
            "packaging/man/nic-placement.8",
            "plugstack.conf.example",
        ] {
            assert!(
                read(name).contains(&format!("generated: {block}")),
                "{name} has no `{block}`"
            );
        }
        if !is_word {
            continue;
        }
        let told = unwrapped(spec.help);
        if !["off", "observe", "help", "verbose", "dry-run"].contains(&spec.name) {
            assert!(
                first.contains(&told),
                "`plan --help` does not say what `{}` does",
                spec.name
            );
        }
        assert!(
            spec.name == "help" || second.contains(&told),
            "`exec --help`: `{}`",
            spec.name
        );
        // fish's script has no words without an option, and a plan has none that switch off
        let is_planned = !["off", "observe", "verbose", "dry-run"].contains(&spec.name);
        for (shell, script) in ["bash", "zsh", "fish"].iter().zip(&completions) {
            assert!(
                spec.name == "help"
                    || script.contains(spec.name)
                    || (*shell == "fish" && !is_planned),
                "{shell} does not complete `{}`",
                spec.name
            );
        }
    }
}

// ---- man pages ----

#[test]
fn the_tools_man_page_is_its_table_of_commands() {
    let name = "packaging/man/nic-placement.1";
    let page = man::page();
    if std::env::var_os("BLESS").is_some() {
        fs::write(path(name), &page).unwrap();
    }
    assert!(
        page == read(name),
        "{name} differs: `BLESS=1 cargo test -p nic-placement-cli --test docs` writes it"
    );
    let help = tool(&["-h"]);
    let commands = help.lines().filter_map(|line| line.strip_prefix("  "));
    for command in commands.map(|line| line.split_whitespace().next().unwrap()) {
        assert!(
            page.contains(&format!(".SS {command}\n")),
            "the page has no `{command}`"
        );
        for line in tool(&[command, "-h"])
            .lines()
            .filter(|line| line.starts_with("  -") || line.starts_with("      --"))
        {
            let option = line
                .trim_start()
                .split("  ")
                .next()
                .unwrap()
                .replace('-', "\\-");
            let option = option
                .split([' ', '['])
                .find(|word| word.starts_with("\\-\\-"))
                .unwrap()
                .rsplit(", ")
                .next()
                .unwrap();
            assert!(
                page.contains(&format!("\\fB{option}\\fR")),
                "the page has no `{option}` of `{command}`"
            );
        }
    }
}

#[test]
fn man_pages_are_of_this_version_and_without_a_warning() {
    for name in NAMED.iter().filter(|name| name.contains("/man/")) {
        let text = read(name);
        assert!(text.is_ascii(), "{name} is not ASCII");
        let version = format!("\"nic-placement {}\"", env!("CARGO_PKG_VERSION"));
        assert!(
            text.lines()
                .any(|line| line.starts_with(".TH") && line.contains(&version)),
            "{name}: .TH"
        );
        match Command::new("groff")
            .args(["-man", "-Tutf8", "-ww", "-z"])
            .arg(path(name))
            .output()
        {
            Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{name}"),
            Err(_) => println!("skipped: there is no `groff`"),
        }
    }
}

/// And the cases that ran on them are counted in docs/releases.md's table alone.
#[test]
fn every_range_of_releases_is_that_of_the_table() {
    let (first, last) = (name(&RELEASES[0]), name(&RELEASES[RELEASES.len() - 1]));
    let packages = ["packaging/package.sh".to_string()];
    let mut found = 0;
    for name in documents().into_iter().chain(packages) {
        let words = read(&name).split_whitespace().collect::<Vec<_>>().join(" ");
        for rest in words.split(&format!("{first} to ")).skip(1) {
            assert!(
                rest.starts_with(&last),
                "{name}: `{first} to {}`",
                &rest[..5]
            );
            found += 1;
        }
        assert!(
            !words.contains(" cases with 2"),
            "{name} counts cases beside the table"
        );
    }
    assert!(found >= 4, "only {found} were found");
}

#[test]
fn the_changelog_knows_this_version() {
    let heading = format!("## [{}]", env!("CARGO_PKG_VERSION"));
    assert!(
        read("CHANGELOG.md")
            .lines()
            .any(|line| line.starts_with(&heading)),
        "no `{heading}`"
    );
}
