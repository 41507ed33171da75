//! The objects of the file, flat and in its order, with accessors for the readers.

use crate::import::{BadText, Result, mask, number, shown};
use nic_placement_core::topology::{Bitmap, CpuSet};
use roxmltree::{Document, Node};
use std::collections::BTreeMap;

/// As far as it matters here (`hwloc_obj_osdev_type_t`).
#[derive(Clone, Copy, Default)]
pub struct OsTypes {
    pub gpu: bool,
    pub network: bool,
    pub openfabrics: bool,
}

impl OsTypes {
    /// Numbers in versions 1 and 2; a bit for each in version 3, since a device may have several.
    fn of(text: &str, version: u32) -> OsTypes {
        let text = text.trim();
        match text.parse::<u32>() {
            Ok(number) if version >= 3 => OsTypes {
                gpu: number & (1 << 2 | 1 << 3) != 0,
                network: number & 1 << 4 != 0,
                openfabrics: number & 1 << 5 != 0,
            },
            Ok(number) => OsTypes {
                gpu: matches!(number, 1 | 5),
                network: number == 2,
                openfabrics: number == 3,
            },
            // lstopo's words, such as `Network,OpenFabrics`
            Err(_) => {
                let has = |wanted: &str| {
                    text.split([',', '|', ' ', ';'])
                        .any(|word| word.eq_ignore_ascii_case(wanted))
                };
                OsTypes {
                    gpu: has("GPU") || has("CoProc") || has("Co-Processor"),
                    network: has("Network") || has("Net"),
                    openfabrics: has("OpenFabrics"),
                }
            }
        }
    }
}

pub(super) struct Object<'d> {
    pub index: usize,
    /// its `type` (`hwloc_obj_type_t`)
    pub kind: &'d str,
    pub element: Node<'d, 'd>,
    pub parent: Option<usize>,
}

impl<'d> Object<'d> {
    pub fn attribute(&self, name: &str) -> Option<&'d str> {
        self.element
            .attribute(name)
            .filter(|value| !value.is_empty())
    }

    pub fn infos(&self) -> impl Iterator<Item = (&'d str, &'d str)> + use<'d> {
        infos(self.element)
    }

    pub fn info(&self, name: &str) -> Option<&'d str> {
        self.infos()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    pub fn bad(&self, problem: impl Into<String>) -> BadText {
        BadText::new(self.line(), problem)
    }

    /// Slow, since it scans all the text before the object: for errors only.
    pub fn line(&self) -> u32 {
        self.element
            .document()
            .text_pos_at(self.element.range().start)
            .row
    }

    /// The kernel's number of this object.
    pub fn os_index(&self) -> Result<Option<u32>> {
        let Some(text) = self.attribute("os_index") else {
            return Ok(None);
        };
        let number = number(text)
            .ok_or_else(|| self.bad(format!("os_index `{}`: expected a number", shown(text))))?;
        // `HWLOC_UNKNOWN_INDEX`
        Ok(Some(number).filter(|&number| number != u32::MAX))
    }

    pub fn set(&self, name: &str) -> Result<Option<CpuSet>> {
        let Some(text) = self.attribute(name) else {
            return Ok(None);
        };
        // `0xf...f`, an infinite set, is refused
        mask(text).map(Some).ok_or_else(|| {
            let (text, limit) = (shown(text), Bitmap::LIMIT);
            self.bad(format!(
                "{name} `{text}`: expected words such as `0x0000ffff,,0x0` of at most {limit} bits"
            ))
        })
    }

    pub fn os_types(&self, version: u32) -> OsTypes {
        self.attribute("osdev_type")
            .map_or(OsTypes::default(), |text| OsTypes::of(text, version))
    }
}

fn infos<'d>(element: Node<'d, 'd>) -> impl Iterator<Item = (&'d str, &'d str)> + use<'d> {
    children(element, "info")
        .filter_map(|pair| Some((pair.attribute("name")?, pair.attribute("value")?)))
}

pub fn children<'d>(
    element: Node<'d, 'd>,
    name: &'static str,
) -> impl Iterator<Item = Node<'d, 'd>> + use<'d> {
    element
        .children()
        .filter(move |child| child.has_tag_name(name))
}

pub(super) struct Objects<'d> {
    pub version: u32,
    pub root: Node<'d, 'd>,
    /// each object after the one around it
    pub objects: Vec<Object<'d>>,
}

impl<'d> Objects<'d> {
    pub fn new(document: &'d Document<'d>) -> Result<Objects<'d>> {
        let root = document.root_element();
        let bad =
            |problem: String| BadText::new(document.text_pos_at(root.range().start).row, problem);
        let name = root.tag_name().name();
        // hwloc 0.9 said `root`
        if !matches!(name, "topology" | "root") {
            return Err(bad(format!(
                "an element `{}`: expected hwloc's `topology`",
                shown(name)
            )));
        }
        let said = root.attribute("version").unwrap_or("1.0");
        let major = said.split('.').next().and_then(|major| major.parse().ok());
        let version = major
            .filter(|major| (1..=3).contains(major))
            .ok_or_else(|| {
                let said = shown(said);
                bad(format!(
                    "version `{said}` of hwloc's XML: expected 1, 2 or 3"
                ))
            })?;
        let mut file = Objects {
            version,
            root,
            objects: Vec::new(),
        };
        // objects stand in the root or in objects
        let mut indices = BTreeMap::from([(root, None)]);
        for element in root
            .descendants()
            .filter(|element| element.has_tag_name("object"))
        {
            let around = element.parent().and_then(|parent| indices.get(&parent));
            let Some(&parent) = around else { continue };
            let kind = match element.attribute("type").unwrap_or_default() {
                // version 1 called a package a socket until hwloc 1.11
                "Socket" => "Package",
                kind => kind,
            };
            let index = file.objects.len();
            indices.insert(element, Some(index));
            file.objects.push(Object {
                index,
                kind,
                element,
                parent,
            });
        }
        let machines: Vec<&Object> = file.of("Machine").collect();
        match machines[..] {
            [] => Err(bad("no object of type `Machine`".to_string())),
            [_] => Ok(file),
            [_, second, ..] => {
                Err(second.bad("a second object of type `Machine`: expected one machine"))
            }
        }
    }

    pub fn of(&self, kind: &'static str) -> impl Iterator<Item = &Object<'d>> {
        self.objects
            .iter()
            .filter(move |object| object.kind == kind)
    }

    /// The objects around `index`, nearest first.
    pub fn ancestors(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let parent = |index: usize| self.objects[index].parent;
        std::iter::successors(parent(index), move |&above| parent(above))
    }

    /// The nearest object of `kind` around `index`.
    pub fn above(&self, index: usize, kind: &'static str) -> Option<usize> {
        self.ancestors(index)
            .find(|&above| self.objects[above].kind == kind)
    }

    /// The file's infos on the whole machine; version 3 has them outside all objects.
    pub fn machine_info(&self, name: &str) -> Option<&'d str> {
        let machine = self.of("Machine").next().map(|machine| machine.element);
        infos(self.root)
            .chain(machine.into_iter().flat_map(infos))
            .find(|(key, value)| *key == name && !value.trim().is_empty())
            .map(|(_, value)| value)
    }
}
