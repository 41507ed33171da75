//! The part of NCCL's XML that we write, with its reader's limits (src/graph/xml.cc, `xmlGetNode` and `xmlLoadSub`), and what it
//! does with elements.

use std::collections::BTreeMap;

/// `MAX_STR_LEN`: bytes of a name or a value, with the quote and the NUL.
const MAX_STR_LEN: usize = 255;
/// `MAX_ATTR_COUNT`
const MAX_ATTR_COUNT: usize = 16;
/// `MAX_SUBS` of NCCL 2.21 to 2.28; 2.30 has 640.
const MAX_SUBS: usize = 128;
/// `NCCL_TOPO_XML_MAX_NODES`
pub const MAX_ELEMENTS: usize = 256;

/// How an element was made: two of different kinds are never one (`xmlFindNode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HowMade {
    /// by NCCL
    Made,
    /// `<x>`
    Open,
    /// `<x/>`
    Single,
}

#[derive(Debug, Clone)]
pub struct Element {
    pub name: String,
    pub kind: HowMade,
    pub parent: Option<usize>,
    pub inside: Vec<usize>,
    attributes: BTreeMap<String, String>,
}

impl Element {
    pub fn get(&self, key: &str) -> Option<&str> {
        self.attributes.get(key).map(String::as_str)
    }

    /// `xmlSetAttr`
    pub fn set(&mut self, key: &str, value: &str) {
        self.attributes.insert(key.to_string(), value.to_string());
        assert!(self.attributes.len() <= MAX_ATTR_COUNT, "beyond its end");
    }

    /// `xmlSetAttrIfUnset`
    pub fn set_if_unset(&mut self, key: &str, value: &str) {
        if self.get(key).is_none() {
            self.set(key, value);
        }
    }
}

/// A file, or what NCCL made of it.
#[derive(Debug, Clone, Default)]
pub struct Xml {
    /// in the order in which NCCL keeps them
    pub elements: Vec<Element>,
}

impl Xml {
    /// The first element of this name that fits.
    pub fn find(&self, name: &str, fits: impl Fn(&Element) -> bool) -> Option<usize> {
        let is_it = |element: &Element| element.name == name && fits(element);
        self.elements.iter().position(is_it)
    }

    /// The first element of this name inside another.
    pub fn child(&self, parent: usize, name: &str) -> Option<usize> {
        let mut inside = self.elements[parent].inside.iter().copied();
        inside.find(|&index| self.elements[index].name == name)
    }

    /// `xmlAddNode`
    pub fn add(&mut self, parent: Option<usize>, name: &str) -> usize {
        let new = self.elements.len();
        let kind = HowMade::Made;
        self.elements.push(Element {
            name: name.to_string(),
            kind,
            parent,
            inside: Vec::new(),
            attributes: BTreeMap::new(),
        });
        if let Some(parent) = parent {
            self.elements[parent].inside.push(new);
        }
        new
    }

    /// `ncclTopoTrimXml`: what leads to an element that is kept.
    pub fn trimmed(&self, root: usize) -> Option<Tree> {
        let mut element = self.elements[root].clone();
        let is_kept = element.get("keep") == Some("1");
        element.attributes.remove("keep");
        let inside = element.inside.iter();
        let inside: Vec<Tree> = inside.filter_map(|&at| self.trimmed(at)).collect();
        (is_kept || !inside.is_empty()).then_some(Tree { element, inside })
    }

    /// `ncclTopoFuseXml`
    pub fn fuse(&mut self, tree: &Tree) {
        if self.elements.is_empty() {
            self.graft(None, tree);
        } else {
            self.fuse_inside(0, tree);
        }
    }

    fn fuse_inside(&mut self, here: usize, tree: &Tree) {
        for below in &tree.inside {
            let same = |index: &usize| {
                let (a, b) = (&self.elements[*index], &below.element);
                (&a.name, a.kind, &a.attributes) == (&b.name, b.kind, &b.attributes)
            };
            match self.elements[here].inside.iter().copied().find(same) {
                Some(known) => self.fuse_inside(known, below),
                None => self.graft(Some(here), below),
            }
        }
    }

    fn graft(&mut self, parent: Option<usize>, tree: &Tree) {
        let new = self.add(parent, &tree.element.name);
        self.elements[new].kind = tree.element.kind;
        self.elements[new].attributes = tree.element.attributes.clone();
        for below in &tree.inside {
            self.graft(Some(new), below);
        }
    }
}

/// An element with what is in it.
pub struct Tree {
    element: Element,
    inside: Vec<Tree>,
}

/// Reads a file.  An element that NCCL would pass over is an error too, and so is a blank that we do not write: we write none.
pub fn load(text: &str) -> Result<Xml, String> {
    let mut xml = Xml::default();
    let mut open: Vec<usize> = Vec::new();
    let mut rest = text.trim_start_matches([' ', '\n']);
    while !rest.is_empty() {
        let tag = rest.strip_prefix('<').and_then(|tag| tag.split_once('>'));
        let (tag, after) = tag.ok_or(format!("expecting a tag: {rest:.40}"))?;
        rest = after.trim_start_matches([' ', '\n']);
        if let Some(name) = tag.strip_prefix('/') {
            let last = open.pop().map(|last| &xml.elements[last].name);
            if last.is_none_or(|last| last != name) {
                return Err(format!("XML Mismatch : {last:?} / {name}"));
            }
            continue;
        }
        let (tag, kind) = match tag.strip_suffix('/') {
            Some(tag) => (tag, HowMade::Single),
            None => (tag, HowMade::Open),
        };
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let parent = open.last().copied();
        let around = parent.map_or("", |parent| xml.elements[parent].name.as_str());
        // the handlers of `ncclTopoXmlLoadSystem`, `…Cpu`, `…Pci`, `…Nic`, `…Gpu`
        let known: &[&str] = match around {
            "" => &["system"],
            "system" => &["cpu"],
            "cpu" => &["pci", "nic"],
            "pci" => &["pci", "gpu", "nic", "pcilink"],
            "nic" => &["net"],
            "gpu" => &["nvlink", "c2c"],
            _ => &[],
        };
        if !known.contains(&name) {
            return Err(format!("Ignoring element {name} in `{around}`"));
        }
        let new = xml.add(parent, name);
        xml.elements[new].kind = kind;
        xml.elements[new].attributes = self::attributes(attributes)?;
        let version = xml.elements[new].get("version");
        if name == "system" && !matches!(version, Some("1" | "2")) {
            return Err(format!("wrong version {version:?}"));
        }
        // one place is kept for the element that is being read
        let subs = parent.map_or(0, |parent| xml.elements[parent].inside.len());
        if subs > MAX_SUBS || xml.elements.len() >= MAX_ELEMENTS {
            return Err(format!("{subs} subnodes of {} nodes", xml.elements.len()));
        }
        if kind == HowMade::Open {
            open.push(new);
        }
    }
    match open.last() {
        Some(&last) => Err(format!("unterminated {}", xml.elements[last].name)),
        None => Ok(xml),
    }
}

/// `key="value" key="value"`; NCCL knows no entities.
fn attributes(mut rest: &str) -> Result<BTreeMap<String, String>, String> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let split = rest.split_once("=\"");
        let split = split.and_then(|(key, after)| Some((key, after.split_once('"')?)));
        let (key, (value, after)) = split.ok_or("an attribute without a value")?;
        if key.is_empty() || key.contains(' ') {
            return Err(format!("`{key}` without a value"));
        }
        if value.len() >= MAX_STR_LEN - 1 || value.contains(['&', '<']) {
            return Err(format!("{value} too long, or with an entity"));
        }
        found.push((key.to_string(), value.to_string()));
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    match found.len() <= MAX_ATTR_COUNT {
        true => Ok(found.into_iter().collect()),
        false => Err("Ignoring extra attributes".to_string()),
    }
}
