//! The parts of documents that are made from the option table, the checks and the runs on other releases.

use super::*;
use nic_placement_fleet::doctor::installation::TESTED;
use nic_placement_fleet::doctor::table::{CHECKS, CONFIGURATION, Check};
use nic_placement_fleet::trial::report::{self, TrialReport, TriedWay};
use nic_placement_launch::judge::rebinding::{self, Row};

/// The form in which one kind of document writes one option.
struct Style {
    entry: fn(&Spec) -> String,
}

const MARKDOWN: Style = Style {
    entry: |spec| {
        let sentence = spec.sentence();
        // the page says once what the mark means
        let sentence = sentence.replace("; not for a partition", " †");
        format!("- `{}`: {sentence}\n", spec.spelling())
    },
};
const ROFF: Style = Style {
    entry: |spec| match spec.value {
        "" => format!(".TP\n.B {}\n{}\n", roff(spec.name), roff(&spec.sentence())),
        value => format!(
            ".TP\n.BI {}= {}\n{}\n",
            roff(spec.name),
            roff(value),
            roff(&spec.sentence())
        ),
    },
};
const COMMENTS: Style = Style {
    entry: |spec| format!("#   {:<22}  {}\n", spec.spelling(), spec.sentence()),
};

fn is_policy(spec: &Spec) -> bool {
    let words = Words::parse(spec.name).map(|words| words.policy);
    matches!(words, Ok(Some(Switch::On(_))))
}

fn block(name: &str, style: &Style) -> String {
    match name {
        "words" => WORDS.iter().map(style.entry).collect(),
        "arguments" => ARGUMENTS.iter().map(style.entry).collect(),
        "policies" => WORDS
            .iter()
            .filter(|spec| is_policy(spec))
            .map(style.entry)
            .collect(),
        "releases" => releases(),
        "checks" => checks(),
        "results" => results(),
        "clusters" => clusters(),
        "difference" => format!("```diff\n{}```\n", read("tests/slurm/difference.diff")),
        "system" | "node" | "machines" | "libraries" => support::block(name),
        "interfaces" => interfaces::table(),
        "launchers" => launchers(),
        "binds-again" => rebinding(|row| row.when != "nics"),
        "chooses-again" => rebinding(|row| row.when == "nics"),
        unknown => panic!("there is no generated block `{unknown}`"),
    }
}

/// The programs that give up what a task got, as the plugin tells of them.
fn rebinding(is_meant: fn(&Row) -> bool) -> String {
    let found = |row: &Row| {
        let name = row
            .conditions
            .split([' ', '=', '!'])
            .next()
            .unwrap_or_default();
        let more = if name.contains(char::is_uppercase) {
            ""
        } else {
            "…"
        };
        format!("`{name}{more}`")
    };
    let mut out =
        "| variable, or word of the command | of | instead |\n|---|---|---|\n".to_string();
    let rows: Vec<Row> = rebinding::rows().filter(is_meant).collect();
    for alike in rows.chunk_by(|one, next| (one.of, one.instead) == (next.of, next.instead)) {
        let mut names: Vec<String> = alike.iter().map(found).collect();
        names.dedup();
        let Row { of, instead, .. } = &alike[0];
        out.push_str(&format!("| {} | {of} | {instead} |\n", names.join(", ")));
    }
    out
}

/// All checks, and when one drains a node.
fn checks() -> String {
    let row = |check: &Check| {
        let drains = check.says("fail").filter(|_| check.code != CONFIGURATION);
        let when = drains.map_or(String::new(), |when| {
            format!(" **Drains the node if** {when}")
        });
        format!("- `{}`: {}{when}\n", check.code, check.title)
    };
    CHECKS.iter().map(row).collect()
}

/// One line of tests/slurm/releases.tsv, which `make test-slurms` writes.
pub struct Run {
    pub version: String,
    /// a distribution's name, `source-shared` or `source-static`
    pub from: String,
    /// cases: passed, failed, skipped
    counts: [u32; 3],
    /// of the library
    sha256: String,
}

pub fn runs() -> Vec<Run> {
    let run = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [version, from, passed, failed, skipped, sha256] = fields[..] else {
            panic!("tests/slurm/releases.tsv: {line}")
        };
        Run {
            version: version.to_string(),
            from: from.to_string(),
            counts: [passed, failed, skipped].map(|count| count.parse().expect("a count of cases")),
            sha256: sha256.to_string(),
        }
    };
    read("tests/slurm/releases.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(run)
        .collect()
}

/// The CPUs and NICs of launchers' ranks, from the record of `make test-launchers`.
fn launchers() -> String {
    let record = read("tests/launchers/results.tsv");
    let rows = record.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, release, by, ref ways @ ..] = fields[..] else {
            panic!("tests/launchers/results.tsv: {line}")
        };
        assert_eq!(ways.len(), 4, "{line}");
        format!("| {name} {release}, {by} | {} |\n", ways.join(" | "))
    };
    "| launcher | as it is | `--nic-placement` | `exec` | both |\n|---|---|---|---|---|\n"
        .to_string()
        + &rows.map(row).collect::<String>()
}

/// What ran on which release, and with which library.
fn releases() -> String {
    let runs = runs();
    let sha256 = &runs[0].sha256;
    let mut out = format!(
        "| Slurm | of | cases with library `{}…` |\n|---|---|---|\n",
        &sha256[..12]
    );
    for release in &RELEASES {
        let of_it: Vec<&Run> = runs
            .iter()
            .filter(|run| of_version(&run.version) == Some(release))
            .collect();
        for Run {
            version,
            from,
            counts: [passed, failed, skipped],
            ..
        } in &of_it
        {
            let as_what = match &**from {
                "source-shared" => "source".to_string(),
                "source-static" => "source, static".to_string(),
                "noble" | "resolute" => format!("Ubuntu {from}"),
                _ => format!("Debian {from}"),
            };
            let outcome = match failed {
                0 => format!("{passed} passed"),
                _ => format!("{failed} of {} failed", passed + failed),
            };
            out.push_str(&format!(
                "| {version} | {as_what} | {outcome}, {skipped} skipped |\n"
            ));
        }
        if of_it.is_empty() {
            out.push_str(&format!("| {} | | not run |\n", name(release)));
        }
    }
    out + &format!("\nThat library: sha256 `{sha256}`\n")
}

#[test]
fn a_release_is_called_tested_where_all_cases_passed_on_it_with_the_one_library() {
    let runs = runs();
    let passed: BTreeSet<&str> = runs
        .iter()
        .filter(|run| run.counts[0] > 0 && run.counts[1] == 0)
        .map(|run| &*run.version)
        .collect();
    assert_eq!(
        BTreeSet::from(TESTED),
        passed,
        "crates/fleet/src/doctor/installation.rs and tests/slurm/releases.tsv"
    );
    assert!(
        TESTED.iter().all(|version| of_version(version).is_some()),
        "a version of no known release"
    );
    assert!(
        runs.iter()
            .all(|run| run.sha256.len() == 64 && run.sha256 == runs[0].sha256),
        "one library"
    );
}

/// The reports that sites sent, in docs/results.
fn sent() -> Vec<TrialReport> {
    let folder = path("docs/results");
    let mut names: Vec<_> = fs::read_dir(&folder)
        .map(|entries| entries.map(|entry| entry.unwrap().path()).collect())
        .unwrap_or_default();
    names.retain(|name| name.extension().is_some_and(|end| end == "json"));
    names.sort();
    let report = |name: &PathBuf| {
        let report = report::read(&fs::read(name).unwrap())
            .unwrap_or_else(|why| panic!("{}: {why}", name.display()));
        assert_eq!(
            report::faults(&report),
            Vec::<String>::new(),
            "{}",
            name.display()
        );
        report
    };
    names.iter().map(report).collect()
}

const RESULTS: &str = "| machine | releases | other programs that agree | tasks whose GPUs the driver confirms | far against near |\n\
                       |---|---|---|---|---|\n";

fn result(report: &TrialReport) -> String {
    let witnesses = report.witnesses.iter();
    let tried: Vec<_> = witnesses.filter(|of| of.not_tried.is_none()).collect();
    let agree = tried.iter().filter(|of| of.agrees()).count();
    let right: usize = report.ways.iter().map(|way| way.agree).sum();
    let judged: usize = report.ways.iter().map(TriedWay::judged).sum();
    let far = report.effects.iter().filter_map(|effect| {
        let share = effect.against_near("far")?.median;
        Some(format!("{} {share:.0} %", effect.program))
    });
    let releases = Vec::from_iter(report.releases.values().cloned());
    let row = format!(
        "| {} | {} | {agree} of {} | {right} of {judged} | {} |",
        report.machine,
        releases.join(", "),
        tried.len(),
        Vec::from_iter(far).join(", ")
    );
    row.replace('<', "&lt;") + "\n"
}

fn results() -> String {
    let rows: String = sent().iter().map(result).collect();
    match rows.is_empty() {
        true => "No site has sent a report yet.\n".to_string(),
        false => RESULTS.to_string() + &rows,
    }
}

fn clusters() -> String {
    match sent().len() {
        0 => "**No GPU cluster has run this yet.** The tests show what works, on a real Slurm whose nodes play GPU nodes.\n"
            .to_string(),
        1 => "Run on one kind of real node: [docs/results.md](docs/results.md).\n".to_string(),
        count => format!("Run on {count} kinds of real nodes: [docs/results.md](docs/results.md).\n"),
    }
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
    if out.starts_with('.') {
        format!("\\&{out}")
    } else {
        out
    }
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
        let marker = marker
            .strip_prefix("generated: ")
            .map(|rest| rest.trim_end_matches([' ', '-', '>']));
        inside &= marker != Some("end");
        if !inside {
            out.push_str(line);
            out.push('\n');
        }
        if let Some(block_name) = marker.filter(|word| *word != "end") {
            assert!(
                !inside,
                "{name}: the block before `{block_name}` has no end"
            );
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
            assert!(
                wanted == text,
                "{name} is not as the option table: `BLESS=1 cargo test --test docs`"
            );
        }
    }
    assert!(blocks >= 8, "only {blocks} generated blocks were found");
}

#[test]
fn a_block_is_replaced_and_nothing_else() {
    let text = "before\n<!-- generated: words -->\nold\n<!-- generated: end -->\nafter\n";
    let (new, blocks) = with_blocks("x.md", text);
    assert!(new.starts_with("before\n<!-- generated: words -->\n- `closest`: "));
    assert!(new.ends_with("\n<!-- generated: end -->\nafter\n"));
    assert!(new.contains("- `bind=auto|numa|core|none`: ") && !new.contains("\nold\n"));
    assert_eq!((with_blocks("x.md", &new).0, blocks), (new, 1));
}

// ---- commands and their output ----
