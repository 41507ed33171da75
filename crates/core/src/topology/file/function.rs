//! One PCI function of a file: a line of text, as this project writes it, or an object with the same fields.
//!
//! A node has a hundred functions, and each step reads them.  A line takes a fifth of the time of an object, and a third of
//! its place in the library, where the built-in machines are.
#![forbid(unsafe_code)]

use super::text::Text;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt::{self, Write};

/// Such as `0000:18:00.0 below 0000:17:00.0; class 0x020700; numa_node 0; link 32.0 GT/s x16`: after the function and what
/// it is below each field with its value.  `link` is both rates of a link, where they are the same.
// `remote` makes the object's reader a function beside the trait, which reads both
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, remote = "Self", bound(deserialize = "'de: 'a"))]
pub(super) struct PciFunction<'a> {
    pub address: Text<'a>,
    /// a bridge, `0000:17:00.0`, or a host bridge, `pci0000:15`
    pub parent: Text<'a>,
    pub class: Option<Text<'a>>,
    pub vendor: Option<Text<'a>>,
    pub device: Option<Text<'a>>,
    /// vendor and device, as in `1000:a096`
    pub subsystem: Option<Text<'a>>,
    pub numa_node: Option<u32>,
    pub local_cpus: Option<Text<'a>>,
    #[serde(default)]
    pub link: Link<'a>,
    pub physfn: Option<Text<'a>>,
    pub vfs: Option<u32>,
    pub iommu: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, bound(deserialize = "'de: 'a"))]
pub(super) struct Link<'a> {
    pub current: Option<Text<'a>>,
    pub max: Option<Text<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for PciFunction<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = PciFunction<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a PCI function, a line or an object")
            }

            fn visit_borrowed_str<E: Error>(self, line: &'de str) -> Result<PciFunction<'de>, E> {
                PciFunction::of_line(line, Text::from)
            }

            fn visit_str<E: Error>(self, line: &str) -> Result<PciFunction<'de>, E> {
                PciFunction::of_line(line, Text::of)
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<PciFunction<'de>, A::Error> {
                PciFunction::deserialize(MapAccessDeserializer::new(fields))
            }
        }
        from.deserialize_any(Reader)
    }
}

impl<'a> PciFunction<'a> {
    fn of_line<'l, E: Error>(
        line: &'l str,
        text: impl Fn(&'l str) -> Text<'a>,
    ) -> Result<PciFunction<'a>, E> {
        let (place, mut rest) = cut(line, b';');
        let (address, parent) = cut(place, b' ');
        let Some(parent) = parent.and_then(|parent| parent.strip_prefix("below ")) else {
            return Err(E::custom(format_args!(
                "`{line}` does not begin like `0000:18:00.0 below 0000:17:00.0`"
            )));
        };
        let mut function =
            PciFunction { address: text(address), parent: text(parent), ..PciFunction::default() };
        while let Some(parts) = rest {
            let part;
            (part, rest) = cut(parts, b';');
            let (field, value) = cut(part.trim_start_matches(' '), b' ');
            let value = value.unwrap_or("");
            let number =
                || value.parse().map_err(|_| E::custom(format_args!("`{field}`: `{value}` is no number")));
            let (to, and_to) = match field {
                "class" => (&mut function.class, None),
                "vendor" => (&mut function.vendor, None),
                "device" => (&mut function.device, None),
                "subsystem" => (&mut function.subsystem, None),
                "local_cpus" => (&mut function.local_cpus, None),
                "link" => (&mut function.link.current, Some(&mut function.link.max)),
                "link.current" => (&mut function.link.current, None),
                "link.max" => (&mut function.link.max, None),
                "physfn" => (&mut function.physfn, None),
                "iommu" => (&mut function.iommu, None),
                "numa_node" | "vfs" => {
                    let to = if field == "vfs" { &mut function.vfs } else { &mut function.numa_node };
                    if to.replace(number()?).is_some() {
                        return Err(twice(field));
                    }
                    continue;
                }
                _ => return Err(E::custom(format_args!("`{field}` is no field of a PCI function"))),
            };
            for to in and_to.into_iter().chain([to]) {
                if to.replace(text(value)).is_some() {
                    return Err(twice(field));
                }
            }
        }
        Ok(function)
    }

    fn line(&self) -> String {
        let mut line = format!("{} below {}", self.address, self.parent);
        let mut add = |field: &str, value: Option<&dyn fmt::Display>| {
            // a String takes every text
            value.map(|value| write!(line, "; {field} {value}"));
        };
        fn shown<T: fmt::Display>(value: &Option<T>) -> Option<&dyn fmt::Display> {
            value.as_ref().map(|value| value as &dyn fmt::Display)
        }
        add("class", shown(&self.class));
        add("vendor", shown(&self.vendor));
        add("device", shown(&self.device));
        add("subsystem", shown(&self.subsystem));
        add("numa_node", shown(&self.numa_node));
        add("local_cpus", shown(&self.local_cpus));
        let Link { current, max } = &self.link;
        match (current.as_deref(), max.as_deref()) {
            (Some(current), Some(max)) if current == max => add("link", Some(&current)),
            _ => {
                add("link.current", shown(current));
                add("link.max", shown(max));
            }
        }
        add("physfn", shown(&self.physfn));
        add("vfs", shown(&self.vfs));
        add("iommu", shown(&self.iommu));
        line
    }
}

impl Serialize for PciFunction<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.line())
    }
}

/// What stands before the first such byte, which is ASCII, and after it.  The standard library's search for a character is
/// made for long texts, and takes ten times as long for these.
fn cut(text: &str, at: u8) -> (&str, Option<&str>) {
    match memchr::memchr(at, text.as_bytes()) {
        Some(place) => (&text[..place], Some(&text[place + 1..])),
        None => (text, None),
    }
}

fn twice<E: Error>(field: &str) -> E {
    E::custom(format_args!("`{field}` stands twice"))
}
