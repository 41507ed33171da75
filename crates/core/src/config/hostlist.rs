//! Slurm's hostlist expressions, as `gpu[001-128],login1`: which node's name is one of them.
//!
//! A name is compared with the expression, which is never written out: `n[0-4000000000]` costs no more than `n1`.  As in
//! Slurm (src/common/hostlist.c) the zeros before the first number of a range say how many digits all of it have.
#![forbid(unsafe_code)]

/// Numbers in a range, each as many digits as that, at most: Slurm's numbers have 64 bits.
const MAX_DIGITS: usize = 18;
/// Brackets in one name, at most; Slurm itself takes two.
const MAX_BRACKETS: usize = 4;

/// Names of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostList(Vec<Vec<Piece>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// these letters
    Text(String),
    /// one of these numbers
    Numbers(Vec<Range>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u64,
    last: u64,
    /// digits, at least
    width: usize,
}

impl HostList {
    /// Reads an expression; the error says what is wrong with which part.
    pub fn parse(text: &str) -> Result<HostList, String> {
        let mut names = Vec::new();
        let mut rest = text;
        loop {
            let end = end_of_name(rest).ok_or_else(|| format!("`{}` has no `]`", shown(rest)))?;
            names.push(pieces(&rest[..end])?);
            match rest[end..].strip_prefix(',') {
                Some(next) => rest = next,
                None => return Ok(HostList(names)),
            }
        }
    }

    /// How many names it means.
    pub fn count(&self) -> u64 {
        let of_piece = |piece: &Piece| match piece {
            Piece::Text(_) => 1,
            Piece::Numbers(ranges) => {
                let sizes = ranges.iter().map(|range| (range.last - range.first).saturating_add(1));
                sizes.fold(0, u64::saturating_add)
            }
        };
        let of_name = |pieces: &Vec<Piece>| pieces.iter().map(of_piece).fold(1, u64::saturating_mul);
        self.0.iter().map(of_name).fold(0, u64::saturating_add)
    }

    /// Is a node one of them?
    pub fn has(&self, node: &str) -> bool {
        self.0.iter().any(|pieces| matches(pieces, node))
    }
}

/// Where the first name ends: at a comma outside of brackets, or at the end; `None` where a bracket stays open.
fn end_of_name(text: &str) -> Option<usize> {
    let mut is_open = false;
    for (at, letter) in text.char_indices() {
        match letter {
            '[' => is_open = true,
            ']' => is_open = false,
            ',' if !is_open => return Some(at),
            _ => {}
        }
    }
    (!is_open).then_some(text.len())
}

fn pieces(name: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let (text, bracket) = match rest.split_once('[') {
            Some((text, bracket)) => (text, Some(bracket)),
            None => (rest, None),
        };
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if !text.chars().all(is_letter) {
            return Err(format!("`{}` is no name of a node", shown(name)));
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text.to_string()));
        }
        let Some(bracket) = bracket else { break };
        let (numbers, after) = bracket.split_once(']').unwrap_or((bracket, ""));
        let numbers: Option<Vec<Range>> = numbers.split(',').map(range).collect();
        pieces.push(Piece::Numbers(numbers.ok_or_else(|| {
            format!("`{}`: expected numbers in the brackets, as `[001-128,130]`", shown(name))
        })?));
        rest = after;
    }
    let brackets = pieces.iter().filter(|piece| matches!(piece, Piece::Numbers(_))).count();
    match (pieces.is_empty(), brackets) {
        (true, _) => Err("a name of a node is missing".to_string()),
        (_, 0..=MAX_BRACKETS) => Ok(pieces),
        _ => Err(format!("`{}`: more than {MAX_BRACKETS} brackets in a name", shown(name))),
    }
}

fn range(text: &str) -> Option<Range> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |digits: &str| {
        let is_number =
            (1..=MAX_DIGITS).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| digits.parse::<u64>().ok()).flatten()
    };
    let range = Range { first: number(first)?, last: number(last)?, width: first.len() };
    (range.first <= range.last).then_some(range)
}

fn matches(pieces: &[Piece], name: &str) -> bool {
    match pieces.split_first() {
        None => name.is_empty(),
        Some((Piece::Text(text), rest)) => {
            name.strip_prefix(text.as_str()).is_some_and(|after| matches(rest, after))
        }
        Some((Piece::Numbers(ranges), rest)) => {
            let digits = name.bytes().take(MAX_DIGITS).take_while(u8::is_ascii_digit).count();
            // what follows may begin with digits too
            (1..=digits).any(|length| {
                let (number, after) = name.split_at(length);
                ranges.iter().any(|range| range.has(number)) && matches(rest, after)
            })
        }
    }
}

impl Range {
    /// Is it one of these, written as these are?
    fn has(self, digits: &str) -> bool {
        let Ok(number) = digits.parse::<u64>() else { return false };
        let written = digits.len() == self.width || digits.len() > self.width && !digits.starts_with('0');
        written && (self.first..=self.last).contains(&number)
    }
}

fn shown(text: &str) -> String {
    crate::diagnostic::Shown::word(text, 60).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(list: &str, node: &str) -> bool {
        HostList::parse(list).unwrap().has(node)
    }

    #[test]
    fn a_name_is_one_of_an_expression_as_in_slurm() {
        for (list, inside, outside) in [
            ("gpu1", "gpu1", "gpu10"),
            ("gpu1,login", "login", "gpu"),
            ("gpu[001-128]", "gpu001", "gpu1"),
            ("gpu[001-128]", "gpu128", "gpu129"),
            ("gpu[8-12]", "gpu10", "gpu08"),
            ("gpu[1-3,7]", "gpu7", "gpu4"),
            ("gpu[1-3,7],cpu[1-2]", "cpu2", "cpu3"),
            ("rack[1-2]-node[01-16]", "rack2-node16", "rack2-node6"),
            ("n[1-2][1-2]", "n12", "n13"),
            ("n[1-12]1", "n121", "n131"),
            ("n[0-4000000000]", "n3999999999", "n4000000001"),
            ("a.b-c_d", "a.b-c_d", "a"),
        ] {
            assert!(has(list, inside), "`{inside}` is one of `{list}`");
            assert!(!has(list, outside), "`{outside}` is none of `{list}`");
        }
        assert!(!has("gpu[1-3]", ""), "a node without a name is none of them");
        assert!(!has("gpu[1-3]", "gpu999999999999999999999999999999"));
    }

    #[test]
    fn names_are_counted_without_being_written_out() {
        for (list, count) in [
            ("gpu1", 1),
            ("gpu[001-128],login1", 129),
            ("r[1-2]n[1,3-4]", 6),
            ("n[0-4000000000]", 4_000_000_001),
            ("n[0-999999999999999999][0-999999999999999999]", u64::MAX),
        ] {
            assert_eq!(HostList::parse(list).unwrap().count(), count, "`{list}`");
        }
    }

    #[test]
    fn what_is_no_expression_is_named() {
        for (list, words) in [
            ("", "missing"),
            ("gpu1,", "missing"),
            ("gpu[1-3", "no `]`"),
            ("gpu[]", "expected numbers"),
            ("gpu[a-b]", "expected numbers"),
            ("gpu[3-1]", "expected numbers"),
            ("gpu[-3]", "expected numbers"),
            ("gpu[1-2-3]", "expected numbers"),
            ("gpu[[1]]", "expected numbers"),
            ("gpu]", "no name of a node"),
            ("gpu*", "no name of a node"),
            ("gpu[1][2][3][4][5]", "more than 4 brackets"),
            ("g\u{1b}[1]", "no name of a node"),
        ] {
            let why = HostList::parse(list).unwrap_err();
            assert!(why.contains(words), "`{list}`: {why}");
            assert!(!why.contains('\u{1b}'), "{why}");
        }
    }
}
