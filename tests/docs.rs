//! Compares the documents with the program: generated tables, shown commands, named files and tests.
//!
//! ```text
//! cargo test --test docs              fails if a document and the program differ
//! BLESS=1 cargo test --test docs      rewrites the generated blocks
//! ```

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
#[path = "docs/units.rs"]
mod units;

use nic_placement_core::config::options::{OPTIONS, Place, Spec, at};
use nic_placement_core::config::releases::{RELEASES, of_version};
use nic_placement_core::config::words::Switch;
use nic_placement_core::config::{Admin, Conf, Words};
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
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages: BTreeSet<String> = names
        .filter(|name| ![".svg", ".png"].iter().any(|ending| name.ends_with(ending)))
        .map(|name| format!("docs/{name}"))
        .collect();
    assert!(pages.iter().all(|name| name.ends_with(".md")), "{pages:?}: a page that no test reads");
    pages.into_iter().collect()
}

/// Everything that is held to the program; a new page below docs/ is held from its first day.
fn documents() -> Vec<String> {
    NAMED.iter().map(ToString::to_string).chain(pages()).collect()
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
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

// ---- generated blocks ----

/// How one kind of document writes one option, and what comes before the options.
struct Style {
    head: fn(&str) -> String,
    entry: fn(&Spec) -> String,
}

const MARKDOWN: Style = Style {
    head: |block| format!("| {block} | |\n|---|---|\n"),
    entry: |spec| {
        format!("| `{}` | {} |\n", spec.spelling().replace('|', "\\|"), spec.sentence().replace('|', "\\|"))
    },
};
const ROFF: Style = Style {
    head: |_| String::new(),
    entry: |spec| match spec.value {
        "" => format!(".TP\n.B {}\n{}\n", roff(spec.name), roff(&spec.sentence())),
        value => format!(".TP\n.BI {}= {}\n{}\n", roff(spec.name), roff(value), roff(&spec.sentence())),
    },
};
const COMMENTS: Style = Style {
    head: |_| String::new(),
    entry: |spec| format!("#   {:<22}  {}\n", spec.spelling(), spec.sentence()),
};

fn is_policy(spec: &Spec) -> bool {
    let words = Words::parse(spec.name).map(|words| words.policy);
    spec.place == Place::Option && matches!(words, Ok(Some(Switch::On(_))))
}

fn block(name: &str, style: &Style) -> String {
    let entries: String = match name {
        "words" => at(Place::Option).map(style.entry).collect(),
        "arguments" => at(Place::Plugstack).map(style.entry).collect(),
        "policies" => OPTIONS.iter().filter(|spec| is_policy(spec)).map(style.entry).collect(),
        "releases" => return releases(),
        "checks" => return nic_placement_cli::doctor::report::markdown(),
        "draining" => return nic_placement_cli::doctor::report::draining(),
        unknown => panic!("there is no generated block `{unknown}`"),
    };
    (style.head)(name) + &entries
}

/// One line of tests/slurm/releases.tsv, which `make test-slurms` writes.
struct Run {
    version: String,
    distribution: String,
    /// cases: passed, failed, skipped
    counts: [u32; 3],
    /// of the library
    sha256: String,
}

fn runs() -> Vec<Run> {
    let run = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [version, distribution, passed, failed, skipped, sha256] = fields[..] else {
            panic!("tests/slurm/releases.tsv: {line}")
        };
        Run {
            version: version.to_string(),
            distribution: distribution.to_string(),
            counts: [passed, failed, skipped].map(|count| count.parse().expect("a count of cases")),
            sha256: sha256.to_string(),
        }
    };
    read("tests/slurm/releases.tsv").lines().filter(|line| !line.starts_with('#')).map(run).collect()
}

/// What ran on which release.
fn releases() -> String {
    let runs = runs();
    let mut out = "| Slurm | run on | passed | failed | skipped |\n|---|---|---|---|---|\n".to_string();
    for release in &RELEASES {
        let of_it: Vec<&Run> = runs.iter().filter(|run| of_version(&run.version) == Some(release)).collect();
        for run in &of_it {
            let [passed, failed, skipped] = run.counts;
            let Run { version, distribution, .. } = run;
            let name = release.name();
            out.push_str(&format!(
                "| {name} | {version} ({distribution}) | {passed} | {failed} | {skipped} |\n"
            ));
        }
        if of_it.is_empty() {
            out.push_str(&format!("| {} | not tested | | | |\n", release.name()));
        }
    }
    let libraries: BTreeSet<&str> = runs.iter().map(|run| run.sha256.as_str()).collect();
    let libraries: Vec<&str> = libraries.into_iter().collect();
    out + &format!("\nThe library of all these runs: sha256 `{}`\n", libraries.join("`, `"))
}

#[test]
fn a_release_is_called_tested_where_all_cases_passed_on_it_with_the_one_library() {
    let runs = runs();
    let passed: BTreeSet<&str> =
        runs.iter().filter(|run| run.counts[0] > 0 && run.counts[1] == 0).map(|run| &*run.version).collect();
    let tested: BTreeSet<&str> = RELEASES.iter().filter_map(|release| release.tested).collect();
    assert_eq!(tested, passed, "crates/core/src/config/releases.rs and tests/slurm/releases.tsv");
    assert!(runs.iter().all(|run| run.sha256.len() == 64 && run.sha256 == runs[0].sha256), "one library");
}

/// Text for a man page, in ASCII.
fn roff(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '…' => out.push_str("..."),
            other if other.is_ascii() => out.push(other),
            other => out.push_str(&format!("\\[u{:04X}]", other as u32)),
        }
    }
    // groff takes a line that begins with a dot for a request
    if out.starts_with('.') { format!("\\&{out}") } else { out }
}

/// The document with its blocks as they should be, and how many it has.
fn with_blocks(name: &str, text: &str) -> (String, usize) {
    let style = match name.rsplit('.').next() {
        Some("md") => MARKDOWN,
        Some("example") => COMMENTS,
        _ => ROFF,
    };
    let (mut out, mut blocks, mut inside) = (String::new(), 0, false);
    for line in text.lines() {
        let marker = line.trim_start_matches(['<', '!', '-', '.', '\\', '"', '#', ' ']);
        let marker = marker.strip_prefix("generated: ").map(|rest| rest.trim_end_matches([' ', '-', '>']));
        inside &= marker != Some("end");
        if !inside {
            out.push_str(line);
            out.push('\n');
        }
        if let Some(block_name) = marker.filter(|word| *word != "end") {
            assert!(!inside, "{name}: the block before `{block_name}` has no end");
            out.push_str(&block(block_name, &style));
            (blocks, inside) = (blocks + 1, true);
        }
    }
    assert!(!inside, "{name}: the last block has no end");
    (out, blocks)
}

#[test]
fn generated_blocks_are_those_of_the_option_table() {
    let mut blocks = 0;
    for name in &documents() {
        let text = read(name);
        let (wanted, count) = with_blocks(name, &text);
        blocks += count;
        if std::env::var_os("BLESS").is_some() && wanted != text {
            fs::write(path(name), &wanted).unwrap();
        } else {
            assert!(wanted == text, "{name} is not as the option table: `BLESS=1 cargo test --test docs`");
        }
    }
    assert!(blocks >= 8, "only {blocks} generated blocks were found");
}

#[test]
fn a_block_is_replaced_and_nothing_else() {
    let text = "before\n<!-- generated: words -->\nold\n<!-- generated: end -->\nafter\n";
    let (new, blocks) = with_blocks("x.md", text);
    assert!(new.starts_with("before\n<!-- generated: words -->\n| words |"));
    assert!(new.ends_with("|\n<!-- generated: end -->\nafter\n"));
    assert!(new.contains("bind=auto\\|numa\\|core\\|none") && !new.contains("\nold\n"));
    assert_eq!((with_blocks("x.md", &new).0, blocks), (new, 1));
}

// ---- commands and their output ----

/// Checks the tool's commands in a document that every reader can run; the others need the reader's own node or file.
fn checked_commands(document: &str) -> usize {
    let mut checked = 0;
    for (command, shown) in shown_commands(&read(document)) {
        let Some(arguments) = command.strip_prefix("nic-placement ") else { continue };
        // a built-in machine, or a file of the checkout
        if !["--machine ", " tests/"].iter().any(|source| arguments.contains(source)) {
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
            let Some((_, rest)) = line.split_once("nic-placement exec ") else { continue };
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
        for line in text.lines().filter(|line| line.contains("srun ") && line.contains("check --json |")) {
            assert!(line.contains("srun -K0 -l "), "{name}: {line}");
            shown += 1;
        }
    }
    assert!(shown >= 3, "only {shown} were found");
}

#[test]
fn dots_stand_for_lines_and_for_the_rest_of_a_line() {
    let holds = |shown: &str, printed: &[&str]| {
        shows(&shown.lines().map(str::to_string).collect::<Vec<_>>(), printed)
    };
    assert!(holds("a\n…\nd", &["a", "b", "c", "d"]) && holds("…\nd", &["d"]) && holds("a …", &["a  b"]));
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
                    .take_while(|letter| letter.is_ascii_alphanumeric() || ",=+-_".contains(*letter))
                    .collect();
                // `WORD` stands for any
                let value =
                    if value.starts_with(|letter: char| letter.is_ascii_uppercase()) { "" } else { &value };
                // the documents show one typo on purpose
                let value = value.trim_end_matches(['-', ',']);
                assert!(value == "closet" || Words::parse(value).is_ok(), "{name}: `{named}{value}`");
                words += usize::from(!value.is_empty());
            }
        }
    }
    assert!(words >= 5, "only {words} were found");
}

#[test]
fn every_plugstack_line_of_the_example_is_understood() {
    let text = read("plugstack.conf.example");
    let lines: Vec<&str> =
        text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix("optional ")).collect();
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
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix('#')).filter(is_line).collect();
    assert!(lines.len() >= 6, "{lines:?}");
    let (conf, findings) = Conf::parse(lines.join("\n").as_bytes(), "x").expect("it is text");
    assert_eq!(findings, []);
    assert_eq!(Admin::check_conf(&conf, "x"), []);
}

/// Beside the blocks, which are compared byte for byte: whatever lists options lists the whole table, and in its words.
#[test]
fn whoever_lists_the_options_lists_the_whole_table() {
    let help = nic_placement_core::config::options::help();
    let [first, second] = ["plan", "exec"].map(|command| tool(&[command, "--help"]).replace('\n', " "));
    let unwrapped = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (first, second) = (unwrapped(&first), unwrapped(&second));
    let completions = ["bash", "zsh", "fish"].map(|shell| tool(&["completions", shell]));
    for spec in OPTIONS {
        assert!(help.contains(&format!("{}\n", spec.sentence())), "--nic-placement=help: {}", spec.name);
        let block = if spec.place == Place::Option { "words" } else { "arguments" };
        let page = if spec.place == Place::Option { "docs/user-guide.md" } else { "docs/configuration.md" };
        for name in [page, "packaging/man/nic-placement.8", "plugstack.conf.example"] {
            assert!(read(name).contains(&format!("generated: {block}")), "{name} has no `{block}`");
        }
        if spec.place == Place::Plugstack {
            continue;
        }
        let told = unwrapped(spec.help);
        if !["off", "observe", "help", "verbose", "dry-run"].contains(&spec.name) {
            assert!(first.contains(&told), "`plan --help` does not say what `{}` does", spec.name);
        }
        assert!(spec.name == "help" || second.contains(&told), "`exec --help`: `{}`", spec.name);
        for (shell, script) in ["bash", "zsh", "fish"].iter().zip(&completions) {
            assert!(
                spec.name == "help" || script.contains(spec.name),
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
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    for command in commands.lines().map(|line| line.split_whitespace().next().unwrap()) {
        assert!(page.contains(&format!(".SS {command}\n")), "the page has no `{command}`");
        for line in tool(&[command, "-h"])
            .lines()
            .filter(|line| line.starts_with("  -") || line.starts_with("      --"))
        {
            let option = line.trim_start().split("  ").next().unwrap().replace('-', "\\-");
            let option = option.split(" <").next().unwrap().rsplit(", ").next().unwrap();
            assert!(page.contains(&format!("\\fB{option}\\fR")), "the page has no `{option}` of `{command}`");
        }
    }
}

#[test]
fn man_pages_are_of_this_version_and_without_a_warning() {
    for name in NAMED.iter().filter(|name| name.contains("/man/")) {
        let text = read(name);
        assert!(text.is_ascii(), "{name} is not ASCII");
        let version = format!("\"nic-placement {}\"", env!("CARGO_PKG_VERSION"));
        assert!(text.lines().any(|line| line.starts_with(".TH") && line.contains(&version)), "{name}: .TH");
        match Command::new("groff").args(["-man", "-Tutf8", "-ww", "-z"]).arg(path(name)).output() {
            Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{name}"),
            Err(_) => println!("skipped: there is no `groff`"),
        }
    }
}

#[test]
fn the_changelog_knows_this_version() {
    let heading = format!("## [{}]", env!("CARGO_PKG_VERSION"));
    assert!(read("CHANGELOG.md").lines().any(|line| line.starts_with(&heading)), "no `{heading}`");
}
