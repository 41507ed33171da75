//! Reads a node from a file of any format.  The content decides the format, not the name.

use crate::{archive, import, manifest};
use nic_placement_core::config::NodeSource;
use nic_placement_core::diagnostic::{Diagnostic, Shown};
use nic_placement_core::topology::{Provenance, Topology, file};
use nic_placement_node::discover::root::{self, Author};
use nic_placement_node::discover::{Manifest, Root, Scope};
use nic_placement_node::{self as node, NoTopology, cache, read_root};
use std::io::{self, Read};
use std::path::Path;
use std::sync::OnceLock;

/// The node that `--machine` or `--topology` means, or this one.
pub fn read_node(
    source: &NodeSource,
    scope: Scope,
) -> Result<(Topology, Vec<Diagnostic>), NoTopology> {
    let NodeSource::Topology(path) = source else {
        return node::read(source, scope, Author::Anyone);
    };
    if Path::new(path).is_dir() {
        return node::read(&NodeSource::Sysfs(path.clone()), scope, Author::Anyone);
    }
    let bytes = contents(path)?;
    describe(path, &bytes, scope).map_err(|problem| NoTopology::Bad(path.clone(), problem))
}

/// GPUs of `rocm-smi` or `amd-smi`, and NICs of `rdma link` or `ibdev2netdev`.
pub fn read_with_links(gpus: &str, links: &str) -> Result<(Topology, Vec<Diagnostic>), NoTopology> {
    let bad = |problem| NoTopology::Bad(format!("{gpus}` and `{links}"), problem);
    let (text, beside) = (contents(gpus)?, contents(links)?);
    let texts = text_of(&text).and_then(|text| Ok((text, text_of(&beside)?)));
    let (text, beside) = texts.map_err(bad)?;
    import::smi::read_with_links(text, beside, Provenance::File(gpus.to_string()))
        .map_err(|error| bad(error.to_string()))
}

/// The bytes of a file, or of standard input for `-`; UTF-16 becomes UTF-8.
pub fn contents(path: &str) -> Result<Vec<u8>, NoTopology> {
    let bytes = match path {
        "-" => standard_input(),
        _ => {
            let read = root::read_file(Path::new(path), MAX_FILE, Author::Anyone);
            Ok(read.map_err(NoTopology::Unreadable)?)
        }
    };
    bytes
        .and_then(plain)
        .map_err(|problem| NoTopology::Bad(path.to_string(), problem))
}

/// A command may ask twice, and it can be read once.
fn standard_input() -> Result<Vec<u8>, String> {
    static READ: OnceLock<Result<Vec<u8>, String>> = OnceLock::new();
    READ.get_or_init(|| {
        let mut bytes = Vec::new();
        match io::stdin()
            .lock()
            .take(MAX_FILE as u64 + 1)
            .read_to_end(&mut bytes)
        {
            Ok(_) if bytes.len() > MAX_FILE => Err(format!("longer than {MAX_FILE} bytes")),
            Ok(_) => Ok(bytes),
            Err(error) => Err(error.to_string()),
        }
    })
    .clone()
}

/// Refuses packed bytes; UTF-16 with its mark, as PowerShell writes it, becomes UTF-8.
fn plain(bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let unit: fn([u8; 2]) -> u16 = match bytes.as_slice() {
        [0x1f, 0x8b, ..] => return Err(unpack("gzip", "zcat")),
        [b'B', b'Z', b'h', ..] => return Err(unpack("bzip2", "bzcat")),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => return Err(unpack("xz", "xzcat")),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => return Err(unpack("zstd", "zstdcat")),
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return Ok(bytes),
    };
    let units = bytes.chunks_exact(2);
    let is_whole = units.remainder().is_empty();
    let units: Vec<u16> = units.map(|pair| unit([pair[0], pair[1]])).collect();
    match String::from_utf16(&units) {
        Ok(text) if is_whole => Ok(text.into_bytes()),
        _ => Err("it begins as UTF-16 and is none".to_string()),
    }
}

fn unpack(packer: &str, program: &str) -> String {
    format!("{packer} packed it: `{program} FILE | nic-placement show --topology -` reads it")
}

/// `None` where the node was described otherwise, or cannot be read.
pub fn root_of(source: &NodeSource) -> Option<Root> {
    match source {
        NodeSource::Live => Some(Root::live()),
        NodeSource::Topology(path) if !Path::new(path).is_dir() => {
            let manifest = captured(&contents(path).ok()?)?;
            manifest.ok().map(Root::manifest)
        }
        NodeSource::Sysfs(path) | NodeSource::Topology(path) => {
            Root::directory(Path::new(path), Author::Anyone).ok()
        }
        NodeSource::Machine(_) => None,
    }
}

/// The most bytes of a file that describes a node: a tar of all of `/sys` has some 100 MB.
pub const MAX_FILE: usize = 256 * 1024 * 1024;

/// A node from the bytes of a file.
pub fn describe(
    name: &str,
    bytes: &[u8],
    scope: Scope,
) -> Result<(Topology, Vec<Diagnostic>), String> {
    if let Some(manifest) = captured(bytes) {
        let from = Provenance::Captured(name.to_string());
        return Ok(read_root(&Root::manifest(manifest?), scope, from));
    }
    let from = Provenance::File(name.to_string());
    if bytes.starts_with(cache::MAGIC) {
        let node = cache::from_bytes(bytes, from).map_err(|bad| bad.to_string())?;
        let written = format!("a node file, written {}", node.stamp.time);
        return Ok((node.topology, vec![Diagnostic::new(name, written)]));
    }
    let text = text_of(bytes)?;
    let start = text.trim_start();
    // as in a matrix' `GPU0`: prose has the word alone
    let has_number = |word: &str| {
        let mut after = text.split(word).skip(1);
        after.any(|after| after.starts_with(|c: char| c.is_ascii_digit()))
    };
    let read = if start.starts_with('{') {
        let node = file::from_json(text, from).map_err(|bad| bad.to_string())?;
        return Ok((node, Vec::new()));
    } else if start.starts_with('<') && text.contains("<topology") {
        import::hwloc::read(text, from)
    } else if start.starts_with('<') {
        import::nccl::read(text, from)
    } else if import::smi::amd::is_one(text) || has_number("GPU") || has_number("NIC") {
        import::smi::read(text, from)
    } else {
        let line = start.lines().next().unwrap_or_default();
        return Err(format!(
            "it begins with `{}`; expected topology JSON, a snapshot, a node file, a tar of /sys, XML of hwloc or NCCL, or the \
             text of `nvidia-smi topo -m`, `rocm-smi --showtopo` or `amd-smi topology`",
            Shown::word(line, 40)
        ));
    };
    read.map_err(|bad| bad.to_string())
}

fn text_of(bytes: &[u8]) -> Result<&str, String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("not UTF-8 at byte {}", error.valid_up_to()))?;
    Ok(text.trim_start_matches('\u{feff}'))
}

/// The files of a tar or a snapshot; `None` for another file.
fn captured(bytes: &[u8]) -> Option<Result<Manifest, String>> {
    let read = if archive::is_tar(bytes) {
        archive::read(bytes)
    } else {
        let text = text_of(bytes).ok()?;
        let start = text.trim_start();
        start
            .starts_with(manifest::HEADER)
            .then(|| manifest::parse(text))?
    };
    Some(read.map_err(|bad| bad.to_string()))
}
