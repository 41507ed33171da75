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
    let mut series: BTreeMap<(&str, &str), BTreeSet<(u64, &str)>> = BTreeMap::new();
    let mut plain: BTreeSet<&str> = BTreeSet::new();
    for name in names {
        match parts(name) {
            Some((before, digits, after)) => {
                let number = digits.parse().unwrap_or_default();
                series
                    .entry((before, after))
                    .or_default()
                    .insert((number, digits));
            }
            None => _ = plain.insert(name),
        }
    }
    let mut all: Vec<String> = plain.into_iter().map(String::from).collect();
    for ((before, after), numbers) in series {
        let ranges = ranges(&numbers);
        all.push(match numbers.len() {
            1 => format!("{before}{ranges}{after}"),
            _ => format!("{before}[{ranges}]{after}"),
        });
    }
    all.sort();
    all.join(",")
}

/// `n[8-10]` and `n[08-10]` are ranges, since Slurm gives each number as many digits as the first has.
fn ranges(numbers: &BTreeSet<(u64, &str)>) -> String {
    let mut runs: Vec<(&str, u64, &str)> = Vec::new();
    for &(number, digits) in numbers {
        match runs.last_mut() {
            Some((first, last, end))
                if *last + 1 == number
                    && format!("{number:0width$}", width = first.len()) == digits =>
            {
                (*last, *end) = (number, digits);
            }
            _ => runs.push((digits, number, digits)),
        }
    }
    let runs = runs
        .into_iter()
        .map(|(first, _, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        });
    runs.collect::<Vec<_>>().join(",")
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
            ("g g8051 g007", "g,g[007,8051]"),
            ("n1 n01", "n[01,1]"),
            ("gpu7", "gpu7"),
            ("n00000000000000000001", "n00000000000000000001"),
            ("ü1 ü2 2\u{fffd}1", "2\u{fffd}1,ü[1-2]"),
        ] {
            assert_eq!(compressed(names.split(' ')), wanted);
        }
        assert_eq!(compressed([]), "");
    }
}
