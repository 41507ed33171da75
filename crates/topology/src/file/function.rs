//! A PCI function in a topology file: a line of text, as this project writes it, or an object with
//! the same fields.
//!
//! `0000:18:00.0 below 0000:17:00.0; class 0x020700; numa_node 0; link 32.0 GT/s x16` is a third as
//! long as such an object.

use crate::PciFunction;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};
use std::fmt;

/// A line's fields after address and parent, in order.
pub const FIELDS: [&str; 12] = [
    "class",
    "vendor",
    "device",
    "subsystem",
    "numa_node",
    "local_cpus",
    "link",
    "link.current",
    "link.max",
    "physfn",
    "vfs",
    "iommu",
];

impl Serialize for PciFunction {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        // no recursion: serde's `remote` derives an inherent function of this name
        PciFunction::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for PciFunction {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<PciFunction, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = PciFunction;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a PCI function, a line or an object")
            }

            fn visit_str<E: Error>(self, line: &str) -> Result<PciFunction, E> {
                let fields = fields(line).map_err(E::custom)?;
                PciFunction::deserialize(Value::Object(fields)).map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<PciFunction, A::Error> {
                PciFunction::deserialize(MapAccessDeserializer::new(fields))
            }
        }
        if from.is_human_readable() {
            from.deserialize_any(Reader)
        } else {
            PciFunction::deserialize(from)
        }
    }
}

fn fields(line: &str) -> Result<Map<String, Value>, String> {
    let mut parts = line.split(';').map(str::trim);
    let Some((address, parent)) = parts.next().and_then(|place| place.split_once(" below ")) else {
        return Err(format!(
            "`{line}` does not begin like `0000:18:00.0 below 0000:17:00.0`"
        ));
    };
    let (mut fields, mut link) = (Map::new(), Map::new());
    fields.insert("address".to_string(), address.into());
    fields.insert("parent".to_string(), parent.into());
    for part in parts {
        let (field, text) = part.split_once(' ').unwrap_or((part, ""));
        let value = match field {
            "numa_node" | "vfs" => text
                .parse::<u32>()
                .map_err(|_| format!("`{field}`: `{text}` is no number"))?
                .into(),
            _ => Value::from(text),
        };
        let is_twice = match field {
            "link" => {
                link.insert("max".to_string(), text.into()).is_some()
                    | link.insert("current".to_string(), value).is_some()
            }
            "link.current" | "link.max" => link.insert(field[5..].to_string(), value).is_some(),
            _ if !FIELDS.contains(&field) => {
                return Err(format!("`{field}` is no field of a PCI function"));
            }
            _ => fields.insert(field.to_string(), value).is_some(),
        };
        if is_twice {
            return Err(format!("`{field}` stands twice"));
        }
    }
    fields.insert("link".to_string(), link.into());
    Ok(fields)
}
