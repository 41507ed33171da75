//! How a node's values stand in files: as text in JSON, which people read and write, and as numbers in the node file.
#![forbid(unsafe_code)]

use crate::diagnostic::Shown;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

/// Makes a type its text in JSON, by `Display` and `FromStr`, and another type in the node file.
macro_rules! serde_as_text {
    ($type:ty, $expected:expr, $raw:ty, $to_raw:expr, $from_raw:expr) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let raw: fn(&$type) -> $raw = $to_raw;
                if to.is_human_readable() {
                    to.collect_str(self)
                } else {
                    raw(self).serialize(to)
                }
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<$type, D::Error> {
                if from.is_human_readable() {
                    let text = String::deserialize(from)?;
                    return text
                        .parse()
                        .map_err(|_| crate::text::refused(&text, $expected));
                }
                let value: fn($raw) -> Option<$type> = $from_raw;
                value(<$raw>::deserialize(from)?).ok_or_else(|| serde::de::Error::custom($expected))
            }
        }
    };
}
pub(super) use serde_as_text;

pub(super) fn refused<E: Error>(text: &str, expected: &str) -> E {
    E::custom(format_args!(
        "found `{}`, expected {expected}",
        printable(text, 80)
    ))
}

/// `text` as one line of at most `most` characters, and whether that is all.
pub(super) fn printable(text: &str, most: usize) -> String {
    let more = if text.chars().nth(most).is_some() {
        "…"
    } else {
        ""
    };
    format!("{}{more}", Shown::message(text, most))
}

/// A module for `serde(with)`: an optional number of a PCI function as the text by which people know it.
macro_rules! option_as_text {
    ($module:ident, $type:ty, $show:expr, $parse:expr, $expected:expr) => {
        pub(super) mod $module {
            use super::*;

            pub(crate) fn serialize<S: Serializer>(
                value: &Option<$type>,
                to: S,
            ) -> Result<S::Ok, S::Error> {
                let show: fn($type) -> String = $show;
                if to.is_human_readable() {
                    value.map(show).serialize(to)
                } else {
                    value.serialize(to)
                }
            }

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<Option<$type>, D::Error> {
                if !from.is_human_readable() {
                    return Option::deserialize(from);
                }
                let parse: fn(&str) -> Option<$type> = $parse;
                let text = Option::<String>::deserialize(from)?;
                text.map(|text| parse(&text).ok_or_else(|| refused(&text, $expected)))
                    .transpose()
            }
        }
    };
}

option_as_text!(
    class,
    u32,
    |class| format!("0x{class:06x}"),
    |text| hex(text.strip_prefix("0x")?, 6),
    "a class of three bytes such as `0x030200`"
);
option_as_text!(
    id,
    u16,
    |id| format!("0x{id:04x}"),
    |text| hex(text.strip_prefix("0x")?, 4).map(|id| id as u16),
    "an id such as `0x10de`"
);
option_as_text!(
    ids,
    (u16, u16),
    |(vendor, device)| format!("{vendor:04x}:{device:04x}"),
    |text| {
        let (vendor, device) = text.split_once(':').filter(|_| text.len() == 9)?;
        Some((hex(vendor, 4)? as u16, hex(device, 4)? as u16))
    },
    "two ids such as `1000:a096`"
);

/// For `serde(with)`: a word that is left out where it says no more than that.
pub(super) mod unless_default {
    use super::*;

    pub(crate) fn serialize<T: Serialize + Default + PartialEq, S: Serializer>(
        value: &T,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        (*value != T::default()).then_some(value).serialize(to)
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
    }
}

/// A number of one to `most` (8 or fewer) hexadecimal digits, without the sign that the standard library would take.
pub(super) fn hex(digits: &str, most: usize) -> Option<u32> {
    let is_number = digits.len() <= most && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u32::from_str_radix(digits, 16).ok().filter(|_| is_number)
}
