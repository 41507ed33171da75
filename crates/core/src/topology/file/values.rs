//! What the strings of the file mean, one function for each kind of value.
#![forbid(unsafe_code)]

use super::{BadTopology, MAX_TENTHS_GT, MAX_TEXT, MAX_WIDTH, printable};
use crate::topology::{
    BadDeviceName, Bitmap, DeviceName, LinkRate, Network, PciAddress, PciParent, SubnetPrefix,
};
use std::collections::BTreeMap;
use std::fmt::Display;

pub(super) type Result<T> = std::result::Result<T, BadTopology>;

/// Values that may occur once, each with the place where it was seen first.
pub(super) struct Once<T> {
    seen: BTreeMap<T, String>,
}

impl<T: Ord + Display> Once<T> {
    pub(super) fn new() -> Once<T> {
        Once { seen: BTreeMap::new() }
    }

    /// Where `value` was seen first; empty if never.
    pub(super) fn first_place(&self, value: &T) -> &str {
        self.seen.get(value).map_or("", String::as_str)
    }

    pub(super) fn add(&mut self, place: &str, value: T) -> Result<()> {
        if let Some(first) = self.seen.get(&value) {
            let value = printable(&value.to_string(), 80);
            return Err(BadTopology::Twice { place: place.to_string(), value, first: first.clone() });
        }
        self.seen.insert(value, place.to_string());
        Ok(())
    }
}

/// CPUs that may occur once: a step reads hundreds, so they are compared by sets.
#[derive(Default)]
pub(super) struct OnceCpus {
    all: Bitmap,
    sets: Vec<(String, Bitmap)>,
}

impl OnceCpus {
    pub(super) fn add(&mut self, place: String, cpus: &Bitmap) -> Result<()> {
        if self.all.intersects(cpus) {
            let cpu = self.all.intersection(cpus).first().unwrap_or_default();
            let first = self.sets.iter().find(|(_, set)| set.contains(cpu));
            let first = first.map_or_else(String::new, |(place, _)| place.clone());
            return Err(BadTopology::Twice { place, value: cpu.to_string(), first });
        }
        self.all = self.all.union(cpus);
        self.sets.push((place, cpus.clone()));
        Ok(())
    }
}

pub(super) fn wrong(place: &str, value: impl Display, expected: impl Display) -> BadTopology {
    let value = printable(&value.to_string(), 80);
    BadTopology::Value { place: place.to_string(), value, expected: expected.to_string() }
}

pub(super) fn dangling(place: &str, value: impl Display, list: &'static str) -> BadTopology {
    BadTopology::Dangling { place: place.to_string(), value: value.to_string(), list }
}

pub(super) fn at_most(place: &str, count: usize, most: usize) -> Result<()> {
    if count > most {
        return Err(BadTopology::TooMany { place: place.to_string(), count, most });
    }
    Ok(())
}

pub(super) fn optional<T>(text: &Option<String>, read: impl FnOnce(&str) -> Result<T>) -> Result<Option<T>> {
    text.as_deref().map(read).transpose()
}

pub(super) fn device_name(place: &str, text: &str) -> Result<DeviceName> {
    text.parse().map_err(|expected: BadDeviceName| wrong(place, text, expected))
}

/// A word that stands where programs also find device names.
pub(super) fn name(place: &str, text: &str) -> Result<String> {
    Ok(device_name(place, text)?.into())
}

pub(super) fn free_text(place: &str, text: &str) -> Result<String> {
    if text.chars().any(char::is_control) || text.chars().count() > MAX_TEXT {
        return Err(wrong(
            place,
            text,
            format!("at most {MAX_TEXT} characters, none of them a control character"),
        ));
    }
    Ok(text.to_string())
}

pub(super) fn network(place: &str, text: &str) -> Result<Network> {
    text.parse().map_err(|_| wrong(place, text, "an IPv4 network such as `10.1.0.0/16`"))
}

pub(super) fn subnet(place: &str, text: &str) -> Result<SubnetPrefix> {
    text.parse()
        .map_err(|_| wrong(place, text, "an InfiniBand subnet's prefix such as `fe80:0000:0000:0001`"))
}

pub(super) fn word<T: Copy>(place: &str, text: &str, words: &[(&str, T)]) -> Result<T> {
    words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning).ok_or_else(|| {
        let known: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        wrong(place, text, format!("one of {}", known.join(", ")))
    })
}

pub(super) fn pci_address(place: &str, text: &str) -> Result<PciAddress> {
    text.parse().map_err(|_| wrong(place, text, "a PCI address such as `0000:1b:00.0`"))
}

pub(super) fn parent(place: &str, text: &str) -> Result<PciParent> {
    if let Ok(host) = text.parse() {
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

pub(super) fn hex(place: &str, text: &str, most: usize, expected: &str) -> Result<u32> {
    let digits = text.strip_prefix("0x").unwrap_or_default();
    // from_str_radix accepts a sign, which no id has
    if digits.len() > most || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(wrong(place, text, expected));
    }
    u32::from_str_radix(digits, 16).map_err(|_| wrong(place, text, expected))
}

pub(super) fn link_rate(place: &str, text: &str) -> Result<LinkRate> {
    let number = |digits: &str| -> Option<u32> {
        // parse accepts a sign, and four digits cannot overflow what follows
        let fits = digits.len() <= 4 && digits.bytes().all(|digit| digit.is_ascii_digit());
        digits.parse().ok().filter(|_| fits)
    };
    let rate = || -> Option<LinkRate> {
        let (speed, width) = text.split_once(" GT/s x")?;
        let (whole, tenths) = speed.split_once('.').unwrap_or((speed, "0"));
        let tenths_gt = number(whole)? * 10 + number(tenths).filter(|_| tenths.len() == 1)?;
        let width = number(width)?;
        let known = (1..=MAX_TENTHS_GT).contains(&tenths_gt) && (1..=MAX_WIDTH).contains(&width);
        known.then_some(LinkRate { tenths_gt, width })
    };
    rate().ok_or_else(|| wrong(place, text, "speed and lanes such as `32.0 GT/s x16`"))
}

/// The kernel's list format.  No number may occur twice: the kernel never repeats one, and repeats would let
/// a small text cost much work.
pub(super) fn list(place: &str, text: &str) -> Result<Bitmap> {
    let mut set = Bitmap::new();
    if text.trim().is_empty() {
        return Ok(set);
    }
    for part in text.split(',') {
        let more = Bitmap::from_list(part).map_err(|bad| wrong(place, bad.text, bad.expected))?;
        if more.is_empty() {
            return Err(wrong(place, text, "a list such as `0-3,8`"));
        }
        if set.intersects(&more) {
            return Err(wrong(place, part, "each number once"));
        }
        set = set.union(&more);
    }
    Ok(set)
}
