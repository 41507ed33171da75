//! The table is whole, and each check finds what is sick and leaves what is healthy.

mod cases;
mod nics;
mod paths;
pub(crate) mod played;
mod users;
mod world;

use super::table::{CHECKS, Check, PAGE, codes, widest_code};
use super::{plain, reason};
use crate::audit::report::{Finding, Level};
use cases::Case;
use nic_placement_node::platform::MODELS;
use nic_placement_testing::synthesise::synthesise;
use serde_json::json;
use std::collections::BTreeSet;
use world::World;

#[test]
fn each_check_has_a_short_code_of_its_own_and_says_all_in_lines_that_are_its_title_or_an_item() {
    let known: BTreeSet<&str> = codes().collect();
    assert_eq!(known.len(), CHECKS.len(), "each code once");
    for check in CHECKS.iter() {
        let code = check.code;
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        assert!(code.len() <= 16 && code.bytes().all(is_letter));
        let rules = rules(check);
        assert!(check.title.ends_with('?') && !rules.is_empty(), "{code}");
        for word in ["reads", "why", "do", "source"] {
            let text = check.says(word).unwrap_or_default();
            assert!(text.len() > 5 && !text.ends_with('.'), "{code} {word}");
        }
        assert!(rules.is_sorted(), "{code}: from good to bad");
    }
    assert!(widest_code() <= 16);
    // an item that goes on in a second line would lose that line
    for section in PAGE.split("\n### ").skip(1) {
        let mut items = section.lines().skip(2).filter(|line| !line.is_empty());
        let is_item = |line: &str| line.starts_with("- **") && line.contains("** ");
        assert!(items.all(is_item), "{section}");
    }
}

/// The levels that a check's rules name.
fn rules(check: &Check) -> Vec<Level> {
    let known = [Level::Ok, Level::Note, Level::Warn, Level::Fail];
    let level = |word: &str| known.into_iter().find(|level| level.to_string() == word);
    let others = ["reads", "why", "do", "source"];
    let words = check.rows.iter().map(|(word, _)| *word);
    let words = words.filter(|word| !others.contains(word));
    words.map(|word| level(word).expect(check.code)).collect()
}

#[test]
fn no_machine_as_it_is_described_is_at_fault() {
    for model in MODELS {
        let topology = model.topology().unwrap();
        let described = World::described(topology.clone());
        let played = World::of(topology.clone());
        assert!(synthesise(&topology).iter().count() > 0);
        for (how, world) in [("described", described), ("played", played)] {
            for finding in world.findings() {
                let is_fine = finding.level <= Level::Note;
                assert!(is_fine, "{} {how}: {finding:?}", model.name);
            }
        }
    }
}

#[test]
fn each_check_has_a_healthy_case_and_a_sick_one_and_judges_them_as_its_rules_say() {
    let cases = cases::all();
    for check in CHECKS.iter() {
        let of_it = cases.iter().filter(|case| case.code == check.code);
        let is_healthy = |case: &&Case| case.worst.is_none_or(|level| level == Level::Ok);
        let (healthy, sick): (Vec<_>, Vec<_>) = of_it.partition(is_healthy);
        assert!(!healthy.is_empty() && !sick.is_empty(), "{}", check.code);
    }
    let wrong: Vec<String> = cases.iter().filter_map(misjudged).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// How the check judges the case otherwise than it should, if it does.
fn misjudged(case: &Case) -> Option<String> {
    let findings = case.world.of_check(case.code);
    let worst = findings.iter().map(|finding| finding.level).max();
    let rules = rules(Check::of(case.code).unwrap());
    // `ok` needs no rule: it is what no other rule names
    let is_stated = worst.is_none_or(|worst| worst == Level::Ok || rules.contains(&worst));
    // a `fail` names the device or file: the reason for which a node is drained is made of these names
    let is_named = |finding: &Finding| finding.level != Level::Fail || finding.about.is_some();
    let says = |finding: &Finding| finding.text.contains(case.says);
    let is_right = worst == case.worst
        && is_stated
        && findings.iter().all(is_named)
        && (case.says.is_empty() || findings.iter().any(says));
    let Case { code, name, .. } = case;
    (!is_right).then(|| format!("{code}, {name}: {findings:#?}"))
}

#[test]
fn a_check_that_is_switched_off_says_nothing_and_the_others_stay() {
    let world = World::of(world::model("dgx-h100"));
    let codes = |off: &str| -> BTreeSet<String> {
        let findings = world.without(off).into_iter();
        findings.map(|finding| finding.code).collect()
    };
    let (all, fewer) = (codes("none"), codes("pcie-link"));
    assert!(all.contains("pcie-link") && !fewer.contains("pcie-link"));
    assert_eq!(all.len(), fewer.len() + 1);
}

fn fail(code: &str, about: Option<&str>) -> Finding {
    let finding = json!({"level": "fail", "code": code, "about": about, "text": "at length"});
    serde_json::from_value(finding).unwrap()
}

#[test]
fn a_reason_names_what_fails_and_nothing_else_and_is_short_and_plain() {
    let mut good = fail("slurm", None);
    good.level = Level::Warn;
    let of_all_nodes = fail("configuration", Some("plugstack.conf"));
    assert_eq!(reason(&[good.clone(), of_all_nodes]), None);
    let (port, link) = (fail("nic-broken", Some("mlx5_4:1")), Some("0000:18:00.0"));
    let findings = [good, port, fail("pcie-link", link)];
    let line = "nic-broken mlx5_4:1, pcie-link 0000:18:00.0";
    assert_eq!(reason(&findings).as_deref(), Some(line));
    let odd = "\u{1b}[2J\n\"'`$(rm)\u{202e}ü ".repeat(3);
    for count in [1, 2, 9, 40] {
        for name in ["mlx5_0:1", &odd, &"x".repeat(300)] {
            let findings = (0..count).map(|_| fail("nic-broken", Some(name)));
            let line = plain(&reason(&findings.collect::<Vec<_>>()).unwrap());
            assert!(line.len() < 100 && line.starts_with("nic-placement: nic-broken"));
            let is_plain = |letter: char| letter.is_ascii_graphic() || letter == ' ';
            assert!(line.chars().all(is_plain), "{line}");
            assert!(!line.contains(['"', '\'', '`', '$', '\\']), "{line}");
        }
    }
}
