//! What the strings of the file mean, one function for each kind of value.
#![forbid(unsafe_code)]

use super::text::Text;
use super::{BadTopology, MAX_TENTHS_GT, MAX_TEXT, MAX_WIDTH, printable};
use crate::topology::pci;
use crate::topology::{
    BadDeviceName, Bitmap, DeviceName, LinkRate, Network, PciAddress, PciParent, SubnetPrefix,
};
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;

pub(super) type Result<T> = std::result::Result<T, BadTopology>;

/// Where a value stands, such as `nics[3].ports[1].state`.  Every value of every file is read with its place, and a step
/// waits for that, so it becomes text only where something is wrong.
#[derive(Clone, Copy)]
pub(super) struct Place {
    steps: [(&'static str, Option<usize>); 3],
    /// how many steps there are
    depth: usize,
}

impl Place {
    /// A field of the file.
    pub(super) fn of(field: &'static str) -> Place {
        Place { steps: [(field, None), ("", None), ("", None)], depth: 1 }
    }

    /// A field of what stands here.
    pub(super) fn field(mut self, field: &'static str) -> Place {
        if let Some(free) = self.steps.get_mut(self.depth) {
            (*free, self.depth) = ((field, None), self.depth + 1);
        }
        self
    }

    /// The item of the list that stands here.
    pub(super) fn nth(mut self, item: usize) -> Place {
        self.steps[self.depth - 1].1 = Some(item);
        self
    }

    /// Another field beside this one.
    pub(super) fn beside(mut self, field: &'static str) -> Place {
        self.steps[self.depth - 1] = (field, None);
        self
    }
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (name, index)) in self.steps.iter().take(self.depth).enumerate() {
            f.write_str(if number > 0 { "." } else { "" })?;
            f.write_str(name)?;
            index.map_or(Ok(()), |index| write!(f, "[{index}]"))?;
        }
        Ok(())
    }
}

/// Values that may occur once, each with the place where it was seen first.  A file that this project writes is in order,
/// so what comes in order is kept in a list, and only the rest in a tree.
pub(super) struct Once<T> {
    ordered: Vec<(T, Place)>,
    others: BTreeMap<T, Place>,
}

impl<T: Ord + Display> Once<T> {
    pub(super) fn new() -> Once<T> {
        Once { ordered: Vec::new(), others: BTreeMap::new() }
    }

    /// Where `value` was seen first.
    pub(super) fn first_place(&self, value: &T) -> Option<Place> {
        let ordered = self.ordered.binary_search_by(|(seen, _)| seen.cmp(value));
        ordered.ok().map(|at| self.ordered[at].1).or_else(|| self.others.get(value).copied())
    }

    pub(super) fn add(&mut self, place: Place, value: T) -> Result<()> {
        if self.ordered.last().is_none_or(|(last, _)| *last < value) && self.others.is_empty() {
            self.ordered.push((value, place));
            return Ok(());
        }
        if let Some(first) = self.first_place(&value) {
            return Err(twice(place, value, first));
        }
        self.others.insert(value, place);
        Ok(())
    }
}

pub(super) fn twice(place: Place, value: impl Display, first: impl Display) -> BadTopology {
    let value = printable(&value.to_string(), 80);
    BadTopology::Twice { place: place.to_string(), value, first: first.to_string() }
}

pub(super) fn wrong(place: Place, value: impl Display, expected: impl Display) -> BadTopology {
    let value = printable(&value.to_string(), 80);
    BadTopology::Value { place: place.to_string(), value, expected: expected.to_string() }
}

pub(super) fn dangling(place: Place, value: impl Display, list: &'static str) -> BadTopology {
    BadTopology::Dangling { place: place.to_string(), value: value.to_string(), list }
}

pub(super) fn at_most(place: Place, count: usize, most: usize) -> Result<()> {
    if count > most {
        return Err(BadTopology::TooMany { place: place.to_string(), count, most });
    }
    Ok(())
}

pub(super) fn optional<T>(text: &Option<Text>, read: impl FnOnce(&str) -> Result<T>) -> Result<Option<T>> {
    text.as_deref().map(read).transpose()
}

pub(super) fn device_name(place: Place, text: &str) -> Result<DeviceName> {
    text.parse().map_err(|expected: BadDeviceName| wrong(place, text, expected))
}

/// A word that stands where programs also find device names.
pub(super) fn name(place: Place, text: &str) -> Result<String> {
    Ok(device_name(place, text)?.into())
}

pub(super) fn free_text(place: Place, text: &str) -> Result<String> {
    if text.chars().any(char::is_control) || text.chars().count() > MAX_TEXT {
        return Err(wrong(
            place,
            text,
            format!("at most {MAX_TEXT} characters, none of them a control character"),
        ));
    }
    Ok(text.to_string())
}

pub(super) fn network(place: Place, text: &str) -> Result<Network> {
    text.parse().map_err(|_| wrong(place, text, "an IPv4 network such as `10.1.0.0/16`"))
}

pub(super) fn subnet(place: Place, text: &str) -> Result<SubnetPrefix> {
    text.parse()
        .map_err(|_| wrong(place, text, "an InfiniBand subnet's prefix such as `fe80:0000:0000:0001`"))
}

pub(super) fn word<T: Copy>(place: Place, text: &str, words: &[(&str, T)]) -> Result<T> {
    words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning).ok_or_else(|| {
        let known: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        wrong(place, text, format!("one of {}", known.join(", ")))
    })
}

pub(super) fn pci_address(place: Place, text: &str) -> Result<PciAddress> {
    text.parse().map_err(|_| wrong(place, text, "a PCI address such as `0000:1b:00.0`"))
}

pub(super) fn parent(place: Place, text: &str) -> Result<PciParent> {
    if let Some(host) = text.strip_prefix("pci").and_then(|_| text.parse().ok()) {
        return Ok(PciParent::Host(host));
    }
    let bridge = text.parse().map_err(|_| {
        wrong(
            place,
            text,
            "the bridge above, such as `0000:17:00.0`, or the host bridge, such as `pci0000:15`",
        )
    })?;
    Ok(PciParent::Bridge(bridge))
}

pub(super) fn hex(place: Place, text: &str, most: usize, expected: &str) -> Result<u32> {
    let digits = text.strip_prefix("0x").unwrap_or_default();
    pci::hex(digits.as_bytes(), most).ok_or_else(|| wrong(place, text, expected))
}

pub(super) fn link_rate(place: Place, text: &str) -> Result<LinkRate> {
    read_link_rate(text).ok_or_else(|| wrong(place, text, "speed and lanes such as `32.0 GT/s x16`"))
}

/// Byte by byte: each function of a node file has one, and a step waits for them.
fn read_link_rate(text: &str) -> Option<LinkRate> {
    /// A number of at most four digits, and what stands after it.
    fn number(text: &[u8]) -> Option<(u32, &[u8])> {
        let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let add = |number, digit: &u8| number * 10 + u32::from(digit - b'0');
        (1..=4).contains(&digits).then(|| (text[..digits].iter().fold(0, add), &text[digits..]))
    }
    let (whole, rest) = number(text.as_bytes())?;
    let (tenths, rest) = match rest {
        [b'.', tenth @ b'0'..=b'9', rest @ ..] => (u32::from(tenth - b'0'), rest),
        _ => (0, rest),
    };
    let (width, rest) = number(rest.strip_prefix(b" GT/s x")?)?;
    let tenths_gt = whole * 10 + tenths;
    let known = (1..=MAX_TENTHS_GT).contains(&tenths_gt) && (1..=MAX_WIDTH).contains(&width);
    (known && rest.is_empty()).then_some(LinkRate { tenths_gt, width })
}

/// The kernel's list format.  No number may occur twice: the kernel never repeats one, and repeats would let
/// a small text cost much work.
pub(super) fn list(place: Place, text: &str) -> Result<Bitmap> {
    let mut set = Bitmap::new();
    ranges(place, text, |part, mut members| {
        let range = members.clone();
        if members.any(|member| set.contains(member)) {
            return Err(each_once(place, part));
        }
        set.insert_range(range);
        Ok(())
    })?;
    Ok(set)
}

/// Hands on each part of a list with its members.
pub(super) fn ranges(
    place: Place,
    text: &str,
    mut take: impl FnMut(&str, RangeInclusive<u32>) -> Result<()>,
) -> Result<()> {
    if text.trim().is_empty() {
        return Ok(());
    }
    for part in text.split(',') {
        if part.trim().is_empty() {
            return Err(wrong(place, text, "a list such as `0-3,8`"));
        }
        take(part, Bitmap::range(part).map_err(|bad| wrong(place, bad.text, bad.expected))?)?;
    }
    Ok(())
}

pub(super) fn each_once(place: Place, part: &str) -> BadTopology {
    wrong(place, part, "each number once")
}
