//! Serializes values as text in JSON and in compact form in the node file.

use crate::diagnostic::Shown;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

/// Serializes `$type` as its `Display` in JSON, and as `$raw` in the node file.
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

/// Implements `Display` by the variant's name in serde.
macro_rules! display_as_serialized {
    ($($type:ty)+) => {$(
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                serde::Serialize::serialize(self, f)
            }
        }
    )+};
}
pub(super) use display_as_serialized;

pub(super) fn refused<E: Error>(text: &str, expected: &str) -> E {
    let found = printable(text, 80);
    E::custom(format_args!("found `{found}`, expected {expected}"))
}

/// At most `most` characters of `text` on one line, then `…` if more follow.
pub(super) fn printable(text: &str, most: usize) -> String {
    let is_cut = text.chars().nth(most).is_some();
    let end = if is_cut { "…" } else { "" };
    format!("{}{end}", Shown::message(text, most))
}

/// A `serde(with)` module: `Option<$type>` as hexadecimal text in JSON.
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
    |text| hex(text.strip_prefix("0x")?, 4),
    "an id such as `0x10de`"
);
option_as_text!(
    ids,
    (u16, u16),
    |(vendor, device)| format!("{vendor:04x}:{device:04x}"),
    |text| {
        let (vendor, device) = text.split_once(':').filter(|_| text.len() == 9)?;
        Some((hex(vendor, 4)?, hex(device, 4)?))
    },
    "two ids such as `1000:a096`"
);

/// A `serde(with)` module that writes `null` for the type's default.
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

/// Parses at most `most` hexadecimal digits; `from_str_radix` alone would accept a sign.
pub(super) fn hex<T: TryFrom<u64>>(digits: &str, most: usize) -> Option<T> {
    let is_number = digits.len() <= most && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = u64::from_str_radix(digits, 16).ok().filter(|_| is_number)?;
    T::try_from(number).ok()
}
