//! Slurm's hostlist expressions, such as `gpu[001-128],login1`.
//!
//! A match compares a name with ranges, so `n[0-4000000000]` costs as little as `n1`. As in Slurm
//! (src/common/hostlist.c), a range pads numbers to the width of its first: `n[08-10]` has `n08`.

use crate::diagnostic::Shown;

/// Limit on a number's digits, since Slurm's numbers have 64 bits.
const MAX_DIGITS: usize = 18;
/// Limit on brackets in one name; Slurm takes two.
const MAX_BRACKETS: usize = 4;
/// Limit on letters outside brackets; Linux allows host names of 64.
const MAX_LETTERS: usize = 255;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostList(Vec<Vec<Piece>>);

/// Letters, then a number in `ranges`; without ranges, the end of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    letters: String,
    ranges: Vec<Range>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u64,
    last: u64,
    /// least number of digits
    width: usize,
}

impl HostList {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut is_open = false;
        let names = text.split(|letter| {
            is_open = letter == '[' || is_open && letter != ']';
            letter == ',' && !is_open
        });
        names.map(pieces).collect::<Result<_, _>>().map(Self)
    }

    /// The number of names, or [`u64::MAX`] if larger.
    pub fn count(&self) -> u64 {
        let of_range = |range: &Range| (range.last - range.first).saturating_add(1);
        let of_piece = |piece: &Piece| {
            let sizes = piece.ranges.iter().map(of_range);
            sizes.fold(0, u64::saturating_add).max(1)
        };
        let names = self.0.iter();
        names
            .map(|pieces| pieces.iter().map(of_piece).fold(1, u64::saturating_mul))
            .fold(0, u64::saturating_add)
    }

    pub fn has(&self, node: &str) -> bool {
        self.0.iter().any(|pieces| matches(pieces, node))
    }
}

fn pieces(name: &str) -> Result<Vec<Piece>, String> {
    let wrong = |why: &str| Err(format!("`{}`{why}", Shown::word(name, 60)));
    if name.is_empty() {
        return Err("a name of a node is missing".to_string());
    }
    if name.rfind('[') > name.rfind(']') {
        return wrong(" has no `]`");
    }
    let mut pieces = Vec::new();
    let (mut rest, mut length) = (name, 0);
    while !rest.is_empty() {
        let (letters, bracket) = rest.split_once('[').unwrap_or((rest, ""));
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if !letters.chars().all(is_letter) {
            return wrong(" is no name of a node");
        }
        let (numbers, after) = bracket.split_once(']').unwrap_or_default();
        let ranges = match bracket {
            "" => Some(Vec::new()),
            _ => numbers.split(',').map(range).collect(),
        };
        let Some(ranges) = ranges else {
            return wrong(": expected numbers in the brackets, as `[001-128,130]`");
        };
        length += letters.len();
        let letters = letters.to_string();
        pieces.push(Piece { letters, ranges });
        rest = after;
    }
    if length > MAX_LETTERS {
        return wrong(&format!(": more than {MAX_LETTERS} letters in a name"));
    }
    if name.matches('[').count() > MAX_BRACKETS {
        return wrong(&format!(": more than {MAX_BRACKETS} brackets in a name"));
    }
    Ok(pieces)
}

fn range(text: &str) -> Option<Range> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |digits: &str| -> Option<u64> {
        let is_number =
            digits.len() <= MAX_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
        digits.parse().ok().filter(|_| is_number)
    };
    let range = Range {
        first: number(first)?,
        last: number(last)?,
        width: first.len(),
    };
    (range.first <= range.last).then_some(range)
}

fn matches(pieces: &[Piece], name: &str) -> bool {
    let Some((Piece { letters, ranges }, rest)) = pieces.split_first() else {
        return name.is_empty();
    };
    let Some(name) = name.strip_prefix(letters.as_str()) else {
        return false;
    };
    if ranges.is_empty() {
        return matches(rest, name);
    }
    let digits = name.bytes().take(MAX_DIGITS);
    let digits = digits.take_while(u8::is_ascii_digit).count();
    // the next piece may begin with digits, as in `n[1-12]1`
    (1..=digits).any(|length| {
        let (number, after) = name.split_at(length);
        ranges.iter().any(|range| range.has(number)) && matches(rest, after)
    })
}

impl Range {
    /// True for a number of this range, padded with zeros to the width.
    fn has(self, digits: &str) -> bool {
        let length = digits.len();
        (length == self.width || length > self.width && !digits.starts_with('0'))
            && digits
                .parse()
                .is_ok_and(|number| (self.first..=self.last).contains(&number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(list: &str, node: &str) -> bool {
        HostList::parse(list).unwrap().has(node)
    }

    #[test]
    fn a_name_is_one_of_an_expression_as_in_slurm() {
        for (list, inside, outside) in rows! {
            "gpu1", "gpu1", "gpu10"; "gpu1,login", "login", "gpu"; "gpu[001-128]", "gpu001", "gpu1";
            "gpu[001-128]", "gpu128", "gpu129"; "gpu[8-12]", "gpu10", "gpu08";
            "gpu[1-3,7]", "gpu7", "gpu4"; "gpu[1-3,7],cpu[1-2]", "cpu2", "cpu3";
            "rack[1-2]-node[01-16]", "rack2-node16", "rack2-node6";
            "n[1-2][1-2]", "n12", "n13"; "n[1-12]1", "n121", "n131";
            "n[0-4000000000]", "n3999999999", "n4000000001"; "a.b-c_d", "a.b-c_d", "a";
        } {
            assert!(has(list, inside), "`{inside}` is one of `{list}`");
            assert!(!has(list, outside), "`{outside}` is none of `{list}`");
        }
        // a node without a name
        assert!(!has("gpu[1-3]", ""));
        assert!(!has("gpu[1-3]", "gpu999999999999999999999999999999"));
    }

    #[test]
    fn names_are_counted_without_being_written_out() {
        for (list, count, names) in rows! {
            "gpu1,login", 2, "gpu1 login"; "n[08-10,7]", 4, "n08 n09 n10 n7";
            "r[1-2]n[1-2]x", 4, "r1n1x r1n2x r2n1x r2n2x"; "n[98-101]", 4, "n98 n99 n100 n101";
            "gpu[001-128],login1", 129, "gpu128 login1"; "n[0-4000000000]", 4_000_000_001, "n0";
            "n[0-999999999999999999][0-999999999999999999]", u64::MAX, "n00";
        } {
            let list = HostList::parse(list).unwrap();
            assert!(names.split(' ').all(|name| list.has(name)), "{names}");
            assert_eq!(list.count(), count, "{names}");
        }
    }

    #[test]
    fn a_list_that_is_no_expression_is_named() {
        for (list, words) in rows! {
            "", "missing"; "gpu1,", "missing"; "gpu[1-3", "no `]`"; "gpu[]", "expected numbers";
            "gpu[a-b]", "expected numbers"; "gpu[3-1]", "expected numbers";
            "gpu[-3]", "expected numbers"; "gpu[1-2-3]", "expected numbers";
            "gpu[[1]]", "expected numbers"; "gpu]", "no name of a node";
            "gpu*", "no name of a node"; "gpu[1][2][3][4][5]", "more than 4 brackets";
            "g\u{1b}[1]", "no name of a node"; &"g".repeat(256), "more than 255 letters";
        } {
            let why = HostList::parse(list).unwrap_err();
            assert!(why.contains(words), "`{list}`: {why}");
            assert!(!why.contains('\u{1b}'), "{why}");
        }
    }
}
