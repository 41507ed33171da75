//! The story in one place: node + step + settings -> plan.  The plugin and the tool both call it.
#![forbid(unsafe_code)]

use crate::config::{Admin, Settings, Source};
use crate::diagnostic::Diagnostic;
use crate::discover::{Manifest, Root, Scope, archive, discover, root};
use crate::import;
use crate::placement::{Binding, NodePlacement, TaskPlacement};
use crate::platform;
use crate::platform::recognise::{Identity, recognise, supply};
use crate::policy::{self, Selection};
use crate::render::Prepared;
use crate::step::{Step, Task};
use crate::topology::{self, Gpu, Provenance, Topology};
use std::fmt;
use std::path::Path;

/// Why there is no topology.
#[derive(Debug)]
pub enum NoTopology {
    /// the file or directory cannot be read
    Unreadable(String, std::io::Error),
    /// the file is not a topology
    Bad(String, String),
    /// there is no such model
    NoModel(String),
}

impl fmt::Display for NoTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoTopology::Unreadable(path, error) => write!(f, "cannot read `{path}`: {error}"),
            NoTopology::Bad(path, problem) => write!(f, "`{path}` is no topology: {problem}"),
            NoTopology::NoModel(name) => {
                let known: Vec<&str> = platform::names().collect();
                write!(f, "no built-in machine is called `{name}`; known: {}", known.join(", "))
            }
        }
    }
}

impl std::error::Error for NoTopology {}

/// The node, from wherever the admin or the user of the tool wants it read.
pub fn read_node(source: &Source, scope: Scope) -> Result<(Topology, Vec<Diagnostic>), NoTopology> {
    match source {
        Source::Live => Ok(read_root(&Root::live(), scope, Provenance::ThisSystem)),
        Source::Sysfs(path) => {
            let root = Root::directory(Path::new(path))
                .map_err(|error| NoTopology::Unreadable(path.clone(), error))?;
            Ok(read_root(&root, scope, Provenance::Captured(path.clone())))
        }
        Source::Machine(name) => platform::model(name)
            .map(|topology| (topology, Vec::new()))
            .ok_or(NoTopology::NoModel(name.clone())),
        Source::Topology(path) => {
            let unreadable = |error| NoTopology::Unreadable(path.clone(), error);
            if Path::new(path).is_dir() {
                return read_node(&Source::Sysfs(path.clone()), scope);
            }
            let limit = if scope == Scope::Full { MAX_FILE } else { MAX_STEP_FILE };
            let bytes = root::read_file(Path::new(path), limit).map_err(unreadable)?;
            describe(path, &bytes, scope).map_err(|problem| NoTopology::Bad(path.clone(), problem))
        }
    }
}

/// A live or captured node: what its bus shows, and where it is a known machine what that bus hides.
fn read_root(root: &Root, scope: Scope, provenance: Provenance) -> (Topology, Vec<Diagnostic>) {
    let (mut topology, mut diagnostics) = discover(root, scope, provenance);
    let known =
        recognise(&identity(root), &topology).and_then(|model| Some((model.name, model.topology().ok()?)));
    if let Some((name, model)) = known {
        let supplied = supply(&mut topology, &model);
        topology.supplied_by = (!supplied.is_empty()).then(|| name.to_string());
        diagnostics.extend(supplied);
    }
    (topology, diagnostics)
}

/// What a node says it is (the kernel's drivers/firmware/dmi-id.c; AWS names its instance types there).
pub fn identity(root: &Root) -> Identity {
    let read =
        |name: &str| root.read(&format!("sys/devices/virtual/dmi/id/{name}")).filter(|text| !text.is_empty());
    Identity {
        product: read("product_name"),
        vendor: read("sys_vendor"),
        board: read("board_name"),
        chassis_asset_tag: read("chassis_asset_tag"),
        cloud_shape: None,
    }
}

/// Bytes of a file that describes a node, at most: a tar of all of `/sys` has some 100 MB.
pub const MAX_FILE: usize = 256 * 1024 * 1024;

/// The same, read for a step: slurmstepd holds it in memory, as root.
const MAX_STEP_FILE: usize = 16 * 1024 * 1024;

/// What a file can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// the project's own topology JSON
    Json,
    /// a snapshot, or a tar of a machine's `/sys`
    Sysfs,
    /// hwloc's XML
    Hwloc,
    /// NCCL's XML
    Nccl,
    /// the matrix of `nvidia-smi topo -m`
    Smi,
}

/// Reads a node from a file of whatever format.
fn describe(name: &str, bytes: &[u8], scope: Scope) -> Result<(Topology, Vec<Diagnostic>), String> {
    describe_as(name, bytes, scope, format_of(bytes)?)
}

/// What the content looks like.
pub fn format_of(bytes: &[u8]) -> Result<Format, String> {
    if archive::is_tar(bytes) {
        return Ok(Format::Sysfs);
    }
    let compressed = [&b"\x1f\x8b"[..], b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd"];
    if compressed.iter().any(|magic| bytes.starts_with(magic)) {
        return Err("it is compressed: unpack it first".to_string());
    }
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]).into_owned();
    let start = head.trim_start_matches('\u{feff}').trim_start();
    Ok(match start {
        text if Manifest::is_manifest(text) => Format::Sysfs,
        text if text.starts_with('{') => Format::Json,
        text if text.starts_with('<') && text.contains("<topology") => Format::Hwloc,
        text if text.starts_with('<') => Format::Nccl,
        text if text.contains("GPU") || text.contains("NIC") || text.contains("topology matrix") => {
            Format::Smi
        }
        text => {
            let line: String = text.lines().next().unwrap_or_default().chars().take(40).collect();
            return Err(format!(
                "line 1 is `{}`, expected topology JSON, a snapshot, a tar, hwloc or NCCL XML, or the text of \
                 `nvidia-smi topo -m`",
                line.escape_debug()
            ));
        }
    })
}

/// Reads a node from a file of this format.
pub fn describe_as(
    name: &str,
    bytes: &[u8],
    scope: Scope,
    format: Format,
) -> Result<(Topology, Vec<Diagnostic>), String> {
    if archive::is_tar(bytes) && format == Format::Sysfs {
        let manifest = archive::read(bytes).map_err(|bad| bad.to_string())?;
        return Ok(read_root(&Root::manifest(manifest), scope, Provenance::Captured(name.to_string())));
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text.trim_start_matches('\u{feff}'),
        Err(error) => return Err(format!("not UTF-8 at byte {}", error.valid_up_to())),
    };
    let file = Provenance::File(name.to_string());
    match format {
        Format::Sysfs => {
            let manifest = Manifest::parse(text).map_err(|bad| bad.to_string())?;
            Ok(read_root(&Root::manifest(manifest), scope, Provenance::Captured(name.to_string())))
        }
        Format::Json => {
            Ok((topology::file::from_json(text, file).map_err(|bad| bad.to_string())?, Vec::new()))
        }
        Format::Hwloc => import::hwloc::read(text, file).map_err(|bad| bad.to_string()),
        Format::Nccl => import::nccl::read(text, file).map_err(|bad| bad.to_string()),
        Format::Smi => import::smi::read(text, file).map_err(|bad| bad.to_string()),
    }
}

/// Takes from a described node what is not on this one: a library that is told of a NIC that does not exist has none.
/// Ports get the state and rate that they have here and now, NICs and GPUs the device nodes, GPUs the UUIDs, order and MIG
/// instances: a task's evidence speaks of those.
pub fn confirm(topology: &mut Topology, live: &Topology) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    topology.nics.retain_mut(|nic| {
        let Some(here) = live.nics.iter().find(|here| here.name == nic.name) else {
            diagnostics.push(Diagnostic::new(&nic.name, "described, but not on this node: left out"));
            return false;
        };
        nic.ports = here.ports.clone();
        nic.uverbs = here.uverbs.clone();
        true
    });
    for gpu in &mut topology.gpus {
        let is_it = |here: &&Gpu| {
            (here.address, here.partition, here.vendor) == (gpu.address, gpu.partition, gpu.vendor)
        };
        if let Some(here) = live.gpus.iter().find(is_it) {
            *gpu = Gpu { model: gpu.model.take().or_else(|| here.model.clone()), ..here.clone() };
        }
    }
    diagnostics
}

/// The node-wide map.
pub fn place_node(topology: &Topology, admin: &Admin, settings: &Settings, step: &Step) -> NodePlacement {
    let alone = step.alone_on_node.then(|| policy::identity::of_the_step(topology, step));
    policy::place(topology, &request(admin, settings, alone.as_deref()))
}

/// What the settings ask the policy for.
pub fn request<'a>(admin: &'a Admin, settings: &Settings, alone: Option<&'a [usize]>) -> policy::Request<'a> {
    policy::Request {
        policy: settings.policy,
        nics_each: settings.nics_per_task.into(),
        selection: Some(&admin.selection),
        rails: &admin.rails,
        through: admin.through,
        alone,
    }
}

/// The node-wide map of a job that may not open some of the node's NICs: positions and reasons.
pub fn place_node_without(
    topology: &Topology,
    admin: &Admin,
    settings: &Settings,
    step: &Step,
    unopenable: Vec<(usize, String)>,
) -> NodePlacement {
    let selection = Selection { unopenable, ..admin.selection.clone() };
    place_node(topology, &Admin { selection, ..admin.clone() }, settings, step)
}

/// What of the tasks' variables is the same for all of them.  `read` reads a site's file on the node that is placed.
pub fn prepare(
    topology: &Topology,
    node: &NodePlacement,
    admin: &Admin,
    settings: &Settings,
    read: &dyn Fn(&str) -> Option<String>,
) -> Prepared {
    Prepared::new(topology, node, settings.setting(admin), read)
}

/// One task's share of the map; [`render::environment`](crate::render::environment) then tells what its program reads.
pub fn place_task(
    topology: &Topology,
    node: &NodePlacement,
    admin: &Admin,
    settings: &Settings,
    step: &Step,
    task: &Task,
) -> TaskPlacement {
    let &Settings { bind, mem, asked, omp, .. } = settings;
    let binding = Binding { bind, mem, asked, count_threads: omp, trust: admin.trust_topology };
    policy::task::place(topology, node, step, task, binding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::GpuVendor;

    #[test]
    fn a_described_gpu_has_the_device_node_and_the_order_that_it_has_on_this_node() {
        let gpu = |bus: u32| Gpu::new(format!("{bus:02x}:00.0").parse().unwrap(), GpuVendor::Amd);
        let mut described = Topology::empty("described", Provenance::Model("described".to_string()));
        described.gpus = vec![Gpu { model: Some("Model".to_string()), minor: Some(128), ..gpu(1) }, gpu(2)];
        let mut live = Topology::empty("live", Provenance::ThisSystem);
        live.gpus = vec![Gpu { minor: Some(131), runtime_index: Some(7), ..gpu(1) }];
        confirm(&mut described, &live);
        let here = Gpu { model: Some("Model".to_string()), ..live.gpus[0].clone() };
        assert_eq!(described.gpus, [here, gpu(2)]);
    }
}
