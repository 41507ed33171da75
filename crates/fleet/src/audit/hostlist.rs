//! Names of nodes as Slurm writes many of them: `gpu[001-128,130]`.

use std::collections::{BTreeMap, BTreeSet};

/// Digits of a number in a name, at most: what a 64-bit integer holds.
const MOST_DIGITS: usize = 18;

/// A name around its last number: what stands before it, its digits, what stands behind.
fn parts(name: &str) -> Option<(&str, &str, &str)> {
    let end = name.rfind(|letter: char| letter.is_ascii_digit())? + 1;
    let start = name[..end]
        .trim_end_matches(|letter: char| letter.is_ascii_digit())
        .len();
    let digits = &name[start..end];
    (digits.len() <= MOST_DIGITS).then(|| (&name[..start], digits, &name[end..]))
}

/// `scontrol show hostnames` takes it apart.
pub fn compressed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: BTreeSet<&str> = names.into_iter().collect();
    // `10` is of the same series as `08` where there is one, else of that of `8`
    let padded: BTreeSet<(&str, &str, usize)> = names
        .iter()
        .filter_map(|name| parts(name))
        .filter(|(_, digits, _)| digits.len() > 1 && digits.starts_with('0'))
        .map(|(before, digits, after)| (before, after, digits.len()))
        .collect();
    // a name without a number stands before those that go on with one
    let mut series: BTreeMap<(&str, &str, Option<usize>), BTreeSet<u64>> = BTreeMap::new();
    for name in &names {
        match parts(name) {
            Some((before, digits, after)) => {
                let width = digits.len();
                let width = if padded.contains(&(before, after, width)) {
                    width
                } else {
                    0
                };
                series
                    .entry((before, after, Some(width)))
                    .or_default()
                    .insert(digits.parse().unwrap_or_default());
            }
            None => {
                series.entry((name, "", None)).or_default();
            }
        }
    }
    series
        .iter()
        .map(|((before, after, width), numbers)| {
            let Some(width) = *width else {
                return before.to_string();
            };
            let ranges = ranges(numbers, width);
            match (numbers.len(), ranges.as_slice()) {
                (1, [only]) => format!("{before}{only}{after}"),
                _ => format!("{before}[{}]{after}", ranges.join(",")),
            }
        })
        .collect::<Vec<_>>()
        .join(",")
}

fn ranges(numbers: &BTreeSet<u64>, width: usize) -> Vec<String> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    runs.iter()
        .map(|(first, last)| {
            if first == last {
                format!("{first:0width$}")
            } else {
                format!("{first:0width$}-{last:0width$}")
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_numbers_of_one_width_become_ranges_and_no_other_name_is_lost() {
        for (names, wanted) in [
            ("gpu002 gpu001 gpu003 gpu007", "gpu[001-003,007]"),
            ("n9 n10 n11 n8", "n[8-11]"),
            ("rack1-gpu08 rack1-gpu10 rack1-gpu09", "rack1-gpu[08-10]"),
            ("a1-ib a2-ib login", "a[1-2]-ib,login"),
            ("login login1 login2", "login,login[1-2]"),
            ("g g8051 g007", "g,g8051,g007"),
            ("n1 n01", "n1,n01"),
            ("gpu7", "gpu7"),
            ("n00000000000000000001", "n00000000000000000001"),
            ("ü1 ü2 2\u{fffd}1", "2\u{fffd}1,ü[1-2]"),
        ] {
            assert_eq!(compressed(names.split(' ')), wanted);
        }
        assert_eq!(compressed([]), "");
    }
}
