//! The parts of documents that are made from the option table, the checks and the runs on other releases.

use super::*;
use nic_placement_fleet::doctor::table::{CHECKS, CONFIGURATION, Check};
use nic_placement_fleet::trial::report::{self, TrialReport, TriedWay};
use nic_placement_launch::judge::rebinding::{self, Row};

/// The form in which one kind of document writes one option.
type Style = fn(&Spec) -> String;

const MARKDOWN: Style = |spec| {
    // the page says once what the mark means
    let sentence = spec.sentence().replace("; not for a partition", " †");
    format!("- `{}`: {sentence}\n", spec.spelling())
};
const ROFF: Style = |spec| {
    let [name, value, sentence] = [spec.name, spec.value, &spec.sentence()].map(roff);
    match &*value {
        "" => format!(".TP\n.B {name}\n{sentence}\n"),
        value => format!(".TP\n.BI {name}= {value}\n{sentence}\n"),
    }
};
const COMMENTS: Style = |spec| format!("#   {:<22}  {}\n", spec.spelling(), spec.sentence());

fn is_policy(spec: &&Spec) -> bool {
    let words = Words::parse(spec.name).map(|words| words.policy);
    matches!(words, Ok(Some(Switch::On(_))))
}

fn block(name: &str, style: Style) -> String {
    match name {
        "words" => WORDS.iter().map(style).collect(),
        "arguments" => ARGUMENTS.iter().map(style).collect(),
        "policies" => WORDS.iter().filter(is_policy).map(style).collect(),
        "releases" => releases(),
        "checks" => checks(),
        "results" => results(),
        "clusters" => clusters(),
        "difference" => format!("```diff\n{}```\n", read("tests/slurm/difference.diff")),
        "system" | "node" | "machines" | "libraries" => support::block(name),
        "interfaces" => interfaces::table(),
        "launchers" => launchers(),
        "binds-again" => rebinding(|row| !["nics", "verbs"].contains(&row.when)),
        "chooses-again" => rebinding(|row| row.when == "nics"),
        unknown => panic!("there is no generated block `{unknown}`"),
    }
}

/// The programs that give up what a task got, as the plugin tells of them.
fn rebinding(is_meant: fn(&Row) -> bool) -> String {
    let found = |row: &Row| {
        let name = row.conditions;
        let name = name.split([' ', '=', '!']).next().unwrap_or_default();
        let is_variable = name.contains(char::is_uppercase);
        let more = if is_variable { "" } else { "…" };
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
        let when = drains.map(|when| format!(" **Drains the node if** {when}"));
        let when = when.unwrap_or_default();
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

/// The rows of a table in a file, without its remarks.
pub fn rows_of(name: &str) -> Vec<Vec<String>> {
    let text = read(name);
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split('\t').map(str::to_string).collect())
        .collect()
}

pub fn runs() -> Vec<Run> {
    let run = |fields: Vec<String>| {
        let [version, from, passed, failed, skipped, sha256] =
            fields.try_into().expect("six fields");
        let counts =
            [passed, failed, skipped].map(|count| count.parse().expect("a count of cases"));
        Run {
            version,
            from,
            counts,
            sha256,
        }
    };
    let all = rows_of("tests/slurm/releases.tsv");
    all.into_iter().map(run).collect()
}

/// The CPUs and NICs of launchers' ranks, from the record of `make test-launchers`.
fn launchers() -> String {
    let row = |fields: Vec<String>| {
        let [name, release, by, ways @ ..] = &fields[..] else {
            panic!("{fields:?}")
        };
        assert_eq!(ways.len(), 4, "{fields:?}");
        format!("| {name} {release}, {by} | {} |\n", ways.join(" | "))
    };
    let head =
        "| launcher | as it is | `--nic-placement` | `exec` | both |\n|---|---|---|---|---|\n";
    head.to_string()
        + &rows_of("tests/launchers/results.tsv")
            .into_iter()
            .map(row)
            .collect::<String>()
}

/// What ran on which release, and with which library.
fn releases() -> String {
    let runs = runs();
    let sha256 = &runs[0].sha256;
    let library = &sha256[..12];
    let mut out = format!("| Slurm | of | cases with library `{library}…` |\n|---|---|---|\n");
    for release in &RELEASES {
        let is_of_it = |run: &&Run| of_version(&run.version) == Some(release);
        for Run {
            version,
            from,
            counts: [passed, failed, skipped],
            ..
        } in runs.iter().filter(is_of_it)
        {
            let source = match &**from {
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
                "| {version} | {source} | {outcome}, {skipped} skipped |\n"
            ));
        }
        if !runs.iter().any(|run| is_of_it(&run)) {
            out.push_str(&format!("| {} | | not run |\n", name(release)));
        }
    }
    out + &format!("\nThat library: sha256 `{sha256}`\n")
}

#[test]
fn each_run_is_of_a_release_that_the_plugin_knows_with_the_one_library() {
    let runs = runs();
    assert!(runs.iter().all(|run| of_version(&run.version).is_some()));
    let is_one = |run: &Run| run.sha256.len() == 64 && run.sha256 == runs[0].sha256;
    assert!(runs.iter().all(is_one), "one library");
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
        let read = report::read(&fs::read(name).unwrap());
        let report = read.unwrap_or_else(|why| panic!("{}: {why}", name.display()));
        assert_eq!(report::faults(&report), [""; 0], "{}", name.display());
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
    let releases = Vec::from_iter(report.releases.values().cloned()).join(", ");
    let (machine, tried, far) = (&report.machine, tried.len(), Vec::from_iter(far).join(", "));
    let row =
        format!("| {machine} | {releases} | {agree} of {tried} | {right} of {judged} | {far} |");
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
    let letter = |letter: char| match letter {
        '\\' => "\\e".to_string(),
        '-' => "\\-".to_string(),
        '\'' => "\\(aq".to_string(),
        '`' => "\\(ga".to_string(),
        '…' => "...".to_string(),
        other if other.is_ascii() => other.to_string(),
        other => format!("\\[u{:04X}]", other as u32),
    };
    let out: String = text.chars().map(letter).collect();
    // groff takes a line that begins with a dot for a request
    let begin = if out.starts_with('.') { "\\&" } else { "" };
    format!("{begin}{out}")
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
        let marker = marker.strip_prefix("generated: ");
        let marker = marker.map(|rest| rest.trim_end_matches([' ', '-', '>']));
        inside &= marker != Some("end");
        if !inside {
            out.push_str(line);
            out.push('\n');
        }
        if let Some(of) = marker.filter(|word| *word != "end") {
            assert!(!inside, "{name}: the block before `{of}` has no end");
            out.push_str(&block(of, style));
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
        let (wanted, count) = with_blocks(name, &read(name));
        blocks += count;
        hold(name, &wanted);
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
