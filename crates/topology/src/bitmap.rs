//! Sets of CPUs and NUMA nodes, in the kernel's list and mask formats.

use super::text::serde_as_text;
use crate::diagnostic::Shown;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Logical CPUs by os index (hwloc's `cpuset`).
pub type CpuSet = Bitmap;
/// NUMA nodes by os index (hwloc's `nodeset`).
pub type NodeSet = Bitmap;

/// A set of numbers below [`Bitmap::LIMIT`].
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bitmap {
    // the last word is never zero, so equal sets have equal words
    words: Vec<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadBitmap {
    /// cut to 80 characters
    text: String,
    expected: &'static str,
}

impl BadBitmap {
    fn new(text: &str, expected: &'static str) -> BadBitmap {
        let text = text.chars().take(80).collect();
        BadBitmap { text, expected }
    }
}

impl fmt::Display for BadBitmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (text, expected) = (Shown::word(&self.text, 80), self.expected);
        write!(f, "`{text}` is not a set: expected {expected}")
    }
}

impl Bitmap {
    /// Linux's largest `CONFIG_NR_CPUS`.
    pub const LIMIT: u32 = 8192;
    const MAX_WORDS: usize = (Bitmap::LIMIT / 64) as usize;

    pub fn new() -> Bitmap {
        Bitmap::default()
    }

    /// Adds `member`, if it is below [`Bitmap::LIMIT`].
    pub fn insert(&mut self, member: u32) {
        self.insert_range(member..=member);
    }

    fn insert_range(&mut self, members: RangeInclusive<u32>) {
        let (low, high) = (*members.start(), (*members.end()).min(Bitmap::LIMIT - 1));
        if low > high {
            return;
        }
        let (first, last) = ((low / 64) as usize, (high / 64) as usize);
        if self.words.len() <= last {
            self.words.resize(last + 1, 0);
        }
        for (word, bits) in self.words.iter_mut().enumerate().take(last + 1).skip(first) {
            let from = if word == first { low % 64 } else { 0 };
            let to = if word == last { high % 64 } else { 63 };
            *bits |= (u64::MAX >> (63 - to)) & (u64::MAX << from);
        }
    }

    pub fn contains(&self, member: u32) -> bool {
        let word = self.words.get((member / 64) as usize);
        word.is_some_and(|word| word >> (member % 64) & 1 == 1)
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub fn len(&self) -> usize {
        let counts = self.words.iter().map(|word| word.count_ones() as usize);
        counts.sum()
    }

    /// Members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                Some(index as u32 * 64 + bit)
            })
        })
    }

    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    pub fn intersection(&self, other: &Bitmap) -> Bitmap {
        let pairs = self.words.iter().zip(&other.words);
        Bitmap::from_words(pairs.map(|(a, b)| a & b).collect())
    }

    pub fn union(&self, other: &Bitmap) -> Bitmap {
        let mut both = self.clone();
        both.add(other);
        both
    }

    pub fn add(&mut self, other: &Bitmap) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    pub fn is_subset(&self, other: &Bitmap) -> bool {
        let mut pairs = self.words.iter().zip(&other.words);
        self.words.len() <= other.words.len() && pairs.all(|(mine, theirs)| mine & !theirs == 0)
    }

    pub fn intersects(&self, other: &Bitmap) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// 64-bit words, the lowest members first, as in masks of system calls.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The inverse of [`Bitmap::words`]; drops members from [`Bitmap::LIMIT`] on.
    pub fn from_words(mut words: Vec<u64>) -> Bitmap {
        words.truncate(Bitmap::MAX_WORDS);
        while words.last() == Some(&0) {
            words.pop();
        }
        Bitmap { words }
    }

    /// Parses the list format of `cpulist` files: `0-3,8,10-12`; empty text is the empty set.
    pub fn from_list(text: &str) -> Result<Bitmap, BadBitmap> {
        let mut set = Bitmap::new();
        for part in text.split(',').filter(|_| !text.trim().is_empty()) {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (Ok(low), Ok(high)) = (low.trim().parse(), high.trim().parse()) else {
                return Err(BadBitmap::new(text, "a list such as `0-3,8`"));
            };
            if high >= Bitmap::LIMIT {
                return Err(BadBitmap::new(text, "numbers below 8192"));
            }
            if low > high {
                return Err(BadBitmap::new(text, "ranges from low to high"));
            }
            set.insert_range(low..=high);
        }
        Ok(set)
    }

    /// Parses a hexadecimal mask: `ff`, `0xff`, or with the kernel's commas `00000001,ffffffff`.
    pub fn from_mask(text: &str) -> Result<Bitmap, BadBitmap> {
        let bad = |expected| BadBitmap::new(text, expected);
        let no_mask = || bad("a hexadecimal mask such as `0xff`");
        let trimmed = text.trim();
        let digits = trimmed
            .strip_prefix("0x")
            .or(trimmed.strip_prefix("0X"))
            .unwrap_or(trimmed);
        let mut words = Vec::new();
        let digits = digits.chars().rev().filter(|&digit| digit != ',');
        for (position, digit) in digits.enumerate() {
            let value = digit.to_digit(16).ok_or_else(no_mask)?;
            if position / 16 == words.len() {
                if words.len() == Bitmap::MAX_WORDS {
                    return Err(bad("at most 8192 bits"));
                }
                words.push(0u64);
            }
            words[position / 16] |= u64::from(value) << (position % 16 * 4);
        }
        if words.is_empty() {
            return Err(no_mask());
        }
        Ok(Bitmap::from_words(words))
    }
}

impl FromStr for Bitmap {
    type Err = BadBitmap;

    fn from_str(text: &str) -> Result<Bitmap, BadBitmap> {
        Bitmap::from_list(text)
    }
}

serde_as_text!(
    Bitmap,
    "a list such as `0-3,8` of numbers below 8192",
    Vec<u64>,
    |set| set.words.clone(),
    |words| Some(Bitmap::from_words(words.clone())).filter(|set| set.words == words)
);

impl FromIterator<u32> for Bitmap {
    fn from_iter<T: IntoIterator<Item = u32>>(members: T) -> Bitmap {
        let mut set = Bitmap::new();
        members.into_iter().for_each(|member| set.insert(member));
        set
    }
}

impl fmt::Display for Bitmap {
    /// The kernel's list format, `0-3,8`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut members = self.iter().peekable();
        let mut comma = "";
        while let Some(low) = members.next() {
            let mut high = low;
            while members.next_if_eq(&(high + 1)).is_some() {
                high += 1;
            }
            write!(f, "{comma}{low}")?;
            if low < high {
                write!(f, "-{high}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for Bitmap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> Bitmap {
        Bitmap::from_list(list).unwrap()
    }

    #[test]
    fn a_list_and_a_mask_are_read_and_written_in_the_shortest_form() {
        for (list, shortest) in rows! {
            "", ""; "0", "0"; "0-3,8", "0-3,8"; "3,1,2", "1-3"; "0-55,112-167\n", "0-55,112-167";
        } {
            assert_eq!(set(list).to_string(), shortest);
        }
        for (mask, shortest) in rows! {
            "0xF0", "4-7"; "00000001,ffffffff\n", "0-32"; "0x10000000000000000", "64";
        } {
            assert_eq!(Bitmap::from_mask(mask).unwrap().to_string(), shortest);
        }
    }

    #[test]
    fn text_that_is_no_set_is_refused_on_one_line_and_never_fills_the_memory() {
        let both = "x|1-|3-1|99999999999g|-|1,\0,2|0-\n\u{1b}[2J|\u{202e}";
        for text in both.split('|').chain(["0-4294967295", "99999999999"]) {
            let told = Bitmap::from_list(text).unwrap_err().to_string();
            let is_right = !told.chars().any(crate::diagnostic::line::disturbs);
            assert!(is_right, "{told:?}");
        }
        for text in both.split('|').chain(["", "0x", "0xg", &"f".repeat(5000)]) {
            let told = Bitmap::from_mask(text).unwrap_err().to_string();
            let is_right = !told.chars().any(crate::diagnostic::line::disturbs);
            assert!(is_right, "{told:?}");
        }
    }

    #[test]
    fn a_range_is_the_same_as_its_members() {
        let edges = [0, 1, 62, 63, 64, 65, 127, 128, 200, 8190, 8191, 8192, 9000];
        for low in edges {
            for high in edges {
                let (mut range, mut one_by_one) = (set("3,64"), set("3,64"));
                range.insert_range(low..=high);
                (low..=high).for_each(|member| one_by_one.insert(member));
                assert_eq!(range, one_by_one, "{low}-{high}");
            }
        }
    }

    #[test]
    fn equal_sets_are_equal_however_they_were_made() {
        let far = set("3,200");
        assert_eq!(far.intersection(&set("0-7")), set("3"));
        assert!(set("3").is_subset(&far) && !far.is_subset(&set("3")));
        assert_eq!(far.union(&set("4")).len(), 3);
        assert!(!far.intersects(&set("4")));
    }
}
