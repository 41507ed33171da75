//! A search for the input that costs most: it changes the dearest ones that it has, and keeps what costs more.
//!
//! It looks at no clock: the same seeds, cost and budget give the same input.
#![forbid(unsafe_code)]

use crate::changes::{Numbers, changed};

/// Inputs that are kept, at most.
const KEPT: usize = 24;

/// What one call costs besides what is counted: so the search of a cheap target ends too.
const CALL: u64 = 2000;

/// An input, and what it costs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Costly {
    /// what it costs
    pub cost: u64,
    /// the input
    pub input: Vec<u8>,
}

/// Where it looks, and how long.
pub struct Search<'s> {
    /// words that matter to the format
    pub words: &'s [Vec<u8>],
    /// bytes of an input, at most
    pub bound: usize,
    /// what all calls may cost together
    pub budget: u64,
}

impl Search<'_> {
    /// The dearest input of at most so many bytes that the budget finds, from these seeds; and how many were tried.
    pub fn worst(&self, seeds: &[Vec<u8>], cost: &mut dyn FnMut(&[u8]) -> u64) -> (Vec<Costly>, u64) {
        let mut numbers = Numbers::default();
        let (mut kept, mut spent, mut tried) = (Vec::new(), 0, 0);
        let mut try_one = |kept: &mut Vec<Costly>, input: Vec<u8>| {
            let cost = cost(&input);
            tried += 1;
            keep(kept, Costly { cost, input });
            cost + CALL
        };
        for seed in seeds {
            spent += try_one(&mut kept, seed[..seed.len().min(self.bound)].to_vec());
        }
        spent += try_one(&mut kept, Vec::new());
        while spent < self.budget {
            // the dearest more often than the others
            let place = numbers.below(kept.len()).min(numbers.below(kept.len()));
            let other = numbers.below(kept.len());
            let input = self.grown(&kept[place].input, &kept[other].input, &mut numbers);
            spent += try_one(&mut kept, input);
        }
        (kept, tried)
    }

    fn grown(&self, input: &[u8], other: &[u8], numbers: &mut Numbers) -> Vec<u8> {
        let mut grown = match numbers.below(3) {
            0 => repeated(input, self.bound, numbers),
            _ => changed(input, other, self.words, self.bound, numbers),
        };
        if numbers.below(3) == 0 {
            grown = changed(&grown, other, self.words, self.bound, numbers);
        }
        grown.truncate(self.bound);
        grown
    }
}

/// Keeps it where it is dearer than another: the dearest first, and of those that cost the same the shortest.
fn keep(kept: &mut Vec<Costly>, new: Costly) {
    let place = kept.partition_point(|old| old.cost > new.cost);
    match kept.get_mut(place).filter(|old| old.cost == new.cost) {
        Some(same) if same.input.len() > new.input.len() => *same = new,
        Some(_) => {}
        None => kept.insert(place, new),
    }
    kept.truncate(KEPT);
}

/// A piece of the input many times, as it is or with a number that counts: most parsers refuse a name that stands there twice.
pub fn repeated(input: &[u8], bound: usize, numbers: &mut Numbers) -> Vec<u8> {
    let ends = [b"\n", b",", b" ", b"\0", b";", b"}", b">", b"+"][numbers.below(8)];
    let mut cuts: Vec<usize> = (0..input.len()).filter(|at| input[*at] == ends[0]).map(|at| at + 1).collect();
    cuts.extend([0, input.len()]);
    cuts.sort_unstable();
    cuts.dedup();
    let first = numbers.below(cuts.len());
    let most = [2, 4, cuts.len()][numbers.below(3)];
    let last = (first + 1 + numbers.below(most)).min(cuts.len() - 1);
    let (first, last) = (cuts[first.min(last)], cuts[last]);
    let piece = &input[first..last];
    let room = bound.saturating_sub(input.len());
    let most = (room / piece.len().max(1)).min(100_000);
    let times = if numbers.below(2) == 0 { most } else { numbers.below(most + 1) };
    let mut more = Vec::new();
    match numbers.below(3) {
        0 => more = piece.repeat(times),
        how => {
            let at = numbers.below(piece.len() + 1);
            let base = [10, 16][how - 1];
            for nth in 0..times {
                if more.len() > room {
                    break;
                }
                counted(piece, at, nth, base, &mut more);
            }
        }
    }
    let mut grown = input[..last].to_vec();
    grown.append(&mut more);
    grown.extend_from_slice(&input[last..]);
    grown.truncate(bound);
    grown
}

/// The piece with a number in place of the digits from there, or put in there.
fn counted(piece: &[u8], at: usize, nth: usize, base: usize, into: &mut Vec<u8>) {
    let is_digit = |byte: &u8| if base == 10 { byte.is_ascii_digit() } else { byte.is_ascii_hexdigit() };
    let digits = piece[at..].iter().take_while(|byte| is_digit(byte)).count();
    into.extend_from_slice(&piece[..at]);
    let number = match base {
        10 => format!("{nth:0digits$}"),
        _ => format!("{nth:0digits$x}"),
    };
    into.extend_from_slice(number.as_bytes());
    into.extend_from_slice(&piece[at + digits..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_that_grows_with_the_square_of_the_commas_is_found() {
        let search = Search { words: &[], bound: 256, budget: 40_000_000 };
        let mut cost = |input: &[u8]| {
            let commas = input.iter().filter(|byte| **byte == b',').count() as u64;
            commas * commas
        };
        let (kept, tried) = search.worst(&[b"a,b".to_vec()], &mut cost);
        assert!(kept[0].cost > 200 * 200, "{} after {tried}", kept[0].cost);
        assert_eq!(search.worst(&[b"a,b".to_vec()], &mut cost).0, kept, "the same answer twice");
    }

    #[test]
    fn a_line_comes_again_with_a_number_that_counts() {
        let mut numbers = Numbers::default();
        let found = (0..2000).map(|_| repeated(b"name=a7\n", 64, &mut numbers));
        let found: Vec<String> = found.map(|text| String::from_utf8(text).unwrap()).collect();
        assert!(
            found.iter().any(|text| text.starts_with("name=a7\nname=a0\nname=a1\n")),
            "{:?}",
            &found[..20]
        );
    }
}
