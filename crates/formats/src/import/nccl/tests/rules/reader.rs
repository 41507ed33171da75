//! NCCL's XML reader, byte for byte (src/graph/xml.cc, `xmlGetNode` and `xmlLoadSub`), and what it does with elements.

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

/// An element.
#[derive(Debug, Clone)]
pub struct Element {
    /// its name
    pub name: String,
    /// how it was made
    pub kind: HowMade,
    /// the element around it
    pub parent: Option<usize>,
    /// the elements in it
    pub inside: Vec<usize>,
    attributes: Vec<(String, String)>,
}

impl Element {
    /// An attribute's value.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.attributes
            .iter()
            .find(|(known, _)| known == key)
            .map(|(_, value)| value.as_str())
    }

    /// `xmlSetAttr`
    pub fn set(&mut self, key: &str, value: &str) {
        match self.attributes.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value.to_string(),
            None => self.attributes.push((key.to_string(), value.to_string())),
        }
        assert!(
            self.attributes.len() <= MAX_ATTR_COUNT,
            "NCCL writes beyond its attributes"
        );
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
        self.elements
            .iter()
            .position(|element| element.name == name && fits(element))
    }

    /// The first element of this name inside another.
    pub fn child(&self, parent: usize, name: &str) -> Option<usize> {
        self.elements[parent]
            .inside
            .iter()
            .copied()
            .find(|&index| self.elements[index].name == name)
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
            attributes: Vec::new(),
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
        element.attributes.retain(|(key, _)| key != "keep");
        let inside: Vec<Tree> = element
            .inside
            .iter()
            .filter_map(|&index| self.trimmed(index))
            .collect();
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
                a.name == b.name
                    && a.kind == b.kind
                    && a.attributes.len() == b.attributes.len()
                    && b.attributes
                        .iter()
                        .all(|(key, value)| a.get(key) == Some(value))
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
        tree.inside
            .iter()
            .for_each(|below| self.graft(Some(new), below));
    }
}

/// An element with what is in it.
pub struct Tree {
    element: Element,
    inside: Vec<Tree>,
}

/// Reads a file.  An element that NCCL would pass over is an error too: we write none.
pub fn load(text: &str) -> Result<Xml, String> {
    let mut bytes = Bytes {
        text: text.as_bytes(),
        at: 0,
    };
    let mut xml = Xml::default();
    let mut open: Vec<usize> = Vec::new();
    while let Some((name, kind, attributes)) = bytes.element()? {
        let Some(kind) = kind else {
            let last = open.pop().ok_or(format!("`</{name}>` closes nothing"))?;
            if xml.elements[last].name != name {
                return Err(format!(
                    "XML Mismatch : {} / {name}",
                    xml.elements[last].name
                ));
            }
            continue;
        };
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
        if !known.contains(&name.as_str()) {
            return Err(format!("Ignoring element {name} in `{around}`"));
        }
        let new = xml.add(parent, &name);
        xml.elements[new].kind = kind;
        xml.elements[new].attributes = attributes;
        let version = xml.elements[new].get("version");
        if name == "system" && !matches!(version, Some("1" | "2")) {
            return Err(format!("XML Topology has wrong version {version:?}"));
        }
        if parent.is_some_and(|parent| xml.elements[parent].inside.len() > MAX_SUBS) {
            return Err(format!(
                "Error : XML parser is limited to {MAX_SUBS} subnodes"
            ));
        }
        // one place is kept for the element that is being read
        if xml.elements.len() >= MAX_ELEMENTS {
            return Err(format!(
                "Error : XML parser is limited to {MAX_ELEMENTS} nodes"
            ));
        }
        if kind == HowMade::Open {
            open.push(new);
        }
    }
    match open.last() {
        Some(&last) => Err(format!(
            "XML Parse : unterminated {}",
            xml.elements[last].name
        )),
        None => Ok(xml),
    }
}

struct Bytes<'a> {
    text: &'a [u8],
    at: usize,
}

/// A name, how it ends (`None`: it closes), and its attributes.
type Tag = (String, Option<HowMade>, Vec<(String, String)>);

impl Bytes<'_> {
    fn next(&mut self) -> Result<u8, String> {
        let byte = self
            .text
            .get(self.at)
            .copied()
            .ok_or("XML Parse : Unexpected EOF")?;
        self.at += 1;
        Ok(byte)
    }

    /// `xmlGetToken` and `xmlGetValue`: a name, its value if one follows, and the byte after.
    fn token(&mut self, takes_value: bool) -> Result<(String, Option<String>, u8), String> {
        let mut name = Vec::new();
        loop {
            match self.next()? {
                b'=' if !takes_value => return Err("XML Parse : Unexpected value".to_string()),
                b'=' => break,
                end @ (b' ' | b'>' | b'/' | b'\n' | b'\r') => return Ok((text(name)?, None, end)),
                byte => name.push(byte),
            }
        }
        let quote = self.next()?;
        if !matches!(quote, b'"' | b'\'') {
            return Err("XML Parse : Expected (double) quote.".to_string());
        }
        let mut value = Vec::new();
        loop {
            match self.next()? {
                byte if byte == quote => break,
                byte => value.push(byte),
            }
        }
        Ok((text(name)?, Some(text(value)?), self.next()?))
    }

    fn element(&mut self) -> Result<Option<Tag>, String> {
        while matches!(self.text.get(self.at), Some(b' ' | b'\n' | b'\r')) {
            self.at += 1;
        }
        if self.at == self.text.len() {
            return Ok(None);
        }
        match self.next()? {
            b'<' => {}
            other => {
                return Err(format!(
                    "XML Parse error : expecting '<', got '{}'",
                    other as char
                ));
            }
        }
        let (name, _, mut end) = self.token(false)?;
        if name.is_empty() && end == b'/' {
            let (name, _, end) = self.token(false)?;
            return if end == b'>' {
                Ok(Some((name, None, Vec::new())))
            } else {
                Err(format!("after {name}"))
            };
        }
        let mut attributes = Vec::new();
        while end == b' ' {
            let (key, value, after) = self.token(true)?;
            attributes.push((key, value.ok_or("an attribute without a value")?));
            end = after;
        }
        if attributes.len() > MAX_ATTR_COUNT {
            return Err("XML Parse : Ignoring extra attributes".to_string());
        }
        match end {
            b'>' => Ok(Some((name, Some(HowMade::Open), attributes))),
            b'/' if self.next()? == b'>' => Ok(Some((name, Some(HowMade::Single), attributes))),
            other => Err(format!("XML Parse : expected >, got '{}'", other as char)),
        }
    }
}

/// A name or a value, if it fits where NCCL keeps it; it knows no entities.
fn text(bytes: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(bytes).map_err(|bad| bad.to_string())?;
    match text.len() >= MAX_STR_LEN - 1 || text.contains(['&', '<']) {
        true => Err(format!(
            "Error : value {text} too long (max {MAX_STR_LEN}), or with an entity"
        )),
        false => Ok(text),
    }
}
