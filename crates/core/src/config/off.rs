//! What an admin may have meant by "off", however it is written.
//!
//! A switch that is not understood must not leave placement on: a user's job would be the first to notice.
#![forbid(unsafe_code)]

use super::options::{ARGUMENTS, AdminLevel, WORDS, is_near};
use super::rollout::Rollout;
use super::words::{Switch, Words};
use crate::diagnostic::{Diagnostic, Shown};

/// The argument that no user can get around.
const DISABLE: &str = "disable";
/// The argument that turns placement off for steps whose user does not ask.
const DEFAULT_OFF: &str = "default=off";

/// Finds arguments at `place` that seem to mean "off" and, as written, turn nothing off; returns the argument that they
/// stand for, and the log's line.
pub(super) fn misspelt_off(
    place: &str,
    level: AdminLevel,
    arguments: &[&str],
) -> Option<(&'static str, Diagnostic)> {
    let all = || arguments.iter().copied();
    let off = off_in(all())?;
    // a line for a partition can say no more
    let off = if level < AdminLevel::Node { DEFAULT_OFF } else { off };
    if all().filter_map(exact).any(|argument| argument == off) {
        return None;
    }
    let odd: Vec<&str> = all().filter(|word| !is_taken(word)).collect();
    let odd = if odd.is_empty() { arguments } else { &odd }.join(" ");
    let subject = format!("{place}: {}", Shown::message(&odd, 80));
    Some((off, Diagnostic::new(subject, finding(off))))
}

/// The argument that words stand for which may mean "off", also those of a line that cannot be read.
pub(super) fn off_in<'a>(words: impl Iterator<Item = &'a str> + Clone) -> Option<&'static str> {
    // the later in the alphabet is the stronger
    words.clone().filter_map(exact).max().max(loose(words.filter(|word| !is_taken(word))))
}

/// The log's sentence about words that are read as this argument.
pub(super) fn finding(argument: &str) -> String {
    format!("is read as off: write `{argument}`")
}

/// The argument that turns off, as the parser knows it.
fn exact(word: &str) -> Option<&'static str> {
    let is_off = |words: &str| Words::parse(words).is_ok_and(|words| words.policy == Some(Switch::Off));
    match word.split_once('=').unwrap_or((word, "")) {
        ("disable", "" | "yes") => Some(DISABLE),
        ("default", words) if is_off(words) => Some(DEFAULT_OFF),
        _ => None,
    }
}

/// True if the parser takes the word, or names it as another argument's mistake.
fn is_taken(word: &str) -> bool {
    match word.split_once('=').unwrap_or((word, "")) {
        ("disable", value) => matches!(value, "" | "yes" | "no"),
        ("default", words) => !words.is_empty() && Words::parse(words).is_ok(),
        ("rollout", share) => Rollout::parse(share).is_some(),
        (name, _) => ARGUMENTS.iter().any(|spec| spec.name == name),
    }
}

/// Reads words as a person would: without case, quotes and invisible letters, with `:` for `=` (YAML) and blanks around it
/// (slurm.conf).
fn loose<'a>(words: impl Iterator<Item = &'a str>) -> Option<&'static str> {
    let mut plain = String::new();
    for letter in words.flat_map(|word| word.chars().chain([' '])) {
        match letter {
            '=' | ':' => plain += " = ",
            ',' | ';' | ' ' => plain.push(' '),
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => plain.push(letter.to_ascii_lowercase()),
            _ => {}
        }
    }
    let words: Vec<&str> = plain.split_whitespace().collect();
    let names_default = words.iter().any(|word| is_default(word));
    let meaning = |(at, word): (usize, &&str)| {
        let value = if words.get(at + 1) == Some(&"=") { words.get(at + 2).copied() } else { None };
        let is_no = matches!(value, Some("0" | "n" | "no" | "none" | "false" | "never"));
        let is_off = value.is_some_and(says_off);
        let means_on = ["enabl", "activ", "placement", "plugin"].iter().any(|part| word.contains(part));
        let is_known = || WORDS.iter().chain(ARGUMENTS).any(|spec| spec.name == *word);
        match word {
            // a value is read with its name
            _ if at > 0 && words[at - 1] == "=" => None,
            word if says_off(word) && is_no => None,
            &"off" if names_default => Some(DEFAULT_OFF),
            word if says_off(word) => Some(DISABLE),
            word if is_default(word) => (is_no || is_off).then_some(DEFAULT_OFF),
            _ => ((is_off || is_no && means_on) && !is_known()).then_some(DISABLE),
        }
    };
    words.iter().enumerate().filter_map(meaning).max()
}

/// True for `rollout`, `default`, and misspellings of `default` by one or two letters.
fn is_default(word: &str) -> bool {
    word == "rollout" || is_near(word.as_bytes(), b"default", 2)
}

/// True for `off`, and for `disable` with up to two letters wrong.
fn says_off(word: &str) -> bool {
    let is_off = word.split(['-', '_']).any(|part| part == "off");
    is_off
        || word.contains("disabl")
        || word.starts_with('d') && is_near(word.as_bytes(), DISABLE.as_bytes(), 2)
}

#[cfg(test)]
mod tests {
    use super::super::{Admin, Conf};
    use super::*;

    /// What a line behind `default=closest` makes of a step on `gpu1` in the partition `p`, and is it loud?
    fn found(line: &str, is_plugstack: bool) -> (Option<&'static str>, bool) {
        let (mut admin, mut findings) = match is_plugstack {
            true => Admin::parse("default=closest".split(' ').chain(line.split(' '))),
            false => Admin::parse(["default=closest"]),
        };
        if !is_plugstack {
            let (conf, more) = Conf::parse(line.as_bytes(), "/c").unwrap();
            findings.extend(more);
            findings.extend(admin.add_conf(&conf, "/c", "gpu1", Some("p")));
        }
        let off = match admin.default.policy {
            _ if admin.disabled => Some(DISABLE),
            Some(Switch::Off) => Some(DEFAULT_OFF),
            _ => None,
        };
        (off, !findings.is_empty())
    }

    const ALL: Option<&str> = Some(DISABLE);
    const UNASKED: Option<&str> = Some(DEFAULT_OFF);

    #[test]
    fn whatever_may_mean_off_is_off_and_the_log_says_so() {
        for (expected, lines) in [
            (
                ALL,
                "Disable|DISABLE=YES|Disabled|disabled=yes|disable=1|disable=true|disable=on|disable=off|disable=maybe|\
                 disable;|\"disable\"|--disable|disable: true|disable : true|disable = yes|disable = no|Disable = 1|\
                 disbale|disable-placement|dis\u{ad}able|\u{200b}disable|off|OFF|turn-off|placement=off|\
                 enabled=no|Enabled = No|\"enabled\": false,|enable=0|active=false|plugin=disabled|nic-placement=none|\
                 Nodes=ALL disable|default=closest Disabled|defualt=closest disabled|exclude=a, disable|\
                 default=closest disable=1|SLURM_NIC_PLACEMENT=off",
            ),
            (
                UNASKED,
                "default = off|default=\"off\"|default=Off|Default=off|DEFAULT=OFF|default: off|default: 'off'|\
                 default off|default=no|default=none|default=false|default=0|default=disabled|default=off;|\
                 defualt=off|default=off,verbos|default=closest,off|rollout=0|rollout = off|default=closest Default=Off",
            ),
            (
                None,
                "disable=0|disable=false|Disable=No|disabled: no|enabled=yes|default=closest,omp=off,verbos|omp=off|\
                 mem=none bind=none|default=clsest|cach=0|fabric=off|exclud=mlx5_0|trust-topology=off|default = closest|\
                 no-env=none|set=DISABLED=yes;LD_PRELOAD=/off",
            ),
        ] {
            for line in lines.split('|') {
                for is_plugstack in [false, true] {
                    assert_eq!(found(line, is_plugstack), (expected, true), "`{line}` {is_plugstack}");
                }
            }
        }
    }

    #[test]
    fn what_the_parser_knows_is_taken_as_it_stands_and_silently() {
        for (expected, line) in [
            (ALL, "disable"),
            (ALL, "disable=yes"),
            (ALL, "\u{feff}disable"),
            (ALL, "disable # for the weekend\r\ndefault=closest\r\n"),
            (ALL, "disable\u{a0}"),
            (UNASKED, "\u{feff}default=off\r\n"),
            (UNASKED, "default=off,strict"),
            (None, "disable=no"),
            (None, "# disable"),
            (None, "default=off default=closest"),
            (None, "set=DISABLE=off exclude=off machine=disabled"),
            (None, "NodeName=off[1-2] exclude=a"),
        ] {
            assert_eq!(found(line, false), (expected, false), "`{line}`");
        }
    }

    #[test]
    fn it_is_off_for_the_nodes_of_its_line_and_for_all_where_these_cannot_be_read() {
        for (expected, line) in [
            (ALL, "NodeName=gpu[1-2] Disabled"),
            (UNASKED, "NodeName=gpu1 default = off"),
            (ALL, "NodeName=ALL disable"),
            (ALL, "nodename=DEFAULT disable=1"),
            (ALL, "NodeName=* disable"),
            (ALL, "NodeName = gpu2 disable"),
            (ALL, "NodeName=gpu2, disable"),
            (ALL, "NodeName=gpu[2 enabled=no"),
            (ALL, "disable NodeName=gpu2"),
            (UNASKED, "NodeName=gpu[2 default=off\nNodeName=gpu1 default=rail\nPartitionName=p default=all"),
            (UNASKED, "NodeName=gpu[2 default=Off"),
            // more than that no partition may say
            (UNASKED, "PartitionName=p disable"),
            (UNASKED, "PartitionName=p Disabled"),
            (UNASKED, "PartitionName=p NodeName=gpu1 disable"),
            (None, "NodeName=gpu[2 disable=no"),
            (None, "NodeName=gpu[2 default=closest"),
            (None, "NodeName=ALL default=rail"),
        ] {
            assert_eq!(found(line, false), (expected, true), "`{line}`");
        }
        for line in ["NodeName=gpu2 Disabled", "PartitionName=q Disabled"] {
            assert_eq!(found(line, false), (None, true), "`{line}`");
        }
    }

    #[test]
    fn the_finding_names_the_line_and_how_it_is_written() {
        let told = |line: &str| {
            let (conf, findings) = Conf::parse(line.as_bytes(), "/c").unwrap();
            assert!(!Admin::check_conf(&conf, "/c").is_empty() || line.starts_with("NodeName"), "{line}");
            findings.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(told("\nDisabled=1"), ["`/c:2: Disabled=1`: is read as off: write `disable`"]);
        assert_eq!(told("default = off"), ["`/c:1: default = off`: is read as off: write `default=off`"]);
        assert_eq!(
            told("NodeName=ALL disable"),
            [
                "`/c:1`: `NodeName=ALL` is no node's name: for all nodes leave it out; for all nodes it is read as off: \
              write `disable`"
            ]
        );
    }

    #[test]
    fn a_file_in_another_encoding_is_refused_as_a_whole_and_places_nobody() {
        let utf_16 = "disable".encode_utf16().flat_map(u16::to_le_bytes);
        for file in [utf_16.clone().collect(), [0xff, 0xfe].into_iter().chain(utf_16).collect::<Vec<u8>>()] {
            assert!(Conf::parse(&file, "/c").unwrap_err().to_string().contains("is no text: line 1"));
        }
    }
}
