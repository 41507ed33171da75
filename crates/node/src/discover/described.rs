//! What a description of a node states and `/sys` cannot show, kept in the same tree below `sys/nic-placement`, which no
//! kernel has.
//!
//! ```text
//! sys/nic-placement/paths/0001:00:00.0 = 0101:00:00.0 PIX
//! sys/nic-placement/roles = mlx5_8 storage
//! sys/nic-placement/slingshot = hsi0
//! sys/nic-placement/models = 0000:63:00.0 Vega 20
//! sys/nic-placement/supplied_by =
//! ```
//!
//! `synthesise` writes it, so that the snapshot of a model, of a matrix or of a file says what these say.  It is not
//! read on a live system.
#![forbid(unsafe_code)]

use super::Root;
use super::manifest::{Entry, Manifest};
use nic_placement_topology::diagnostic::{Diagnostic, Shown};
use nic_placement_topology::{
    Gpu, GpuVendor, Nic, NicKind, NicRole, PathType, PciAddress, Topology,
};

const PLACE: &str = "sys/nic-placement";
const ROLES: [NicRole; 3] = [NicRole::Compute, NicRole::Storage, NicRole::Management];

/// Adds files for the facts of `topology` that the tree lacks.
pub fn write(topology: &Topology, manifest: &mut Manifest) {
    let mut file =
        |name: &str, text: String| manifest.insert(&format!("{PLACE}/{name}"), Entry::File(text));
    // always there, so that no known machine is looked for in what is described
    file(
        "supplied_by",
        topology.supplied_by.clone().unwrap_or_default(),
    );
    let roles: Vec<String> = topology
        .nics
        .iter()
        .filter_map(|nic| Some(format!("{} {}", nic.name, nic.role?)))
        .collect();
    if !roles.is_empty() {
        file("roles", roles.join("\n"));
    }
    let by_interface = |nic: &&Nic| nic.kind == NicKind::Slingshot && !nic.name.starts_with("cxi");
    let slingshot: Vec<&str> = topology
        .nics
        .iter()
        .filter(by_interface)
        .map(|nic| nic.name.as_str())
        .collect();
    if !slingshot.is_empty() {
        file("slingshot", slingshot.join("\n"));
    }
    // NVIDIA's driver tells its own
    let others = topology
        .gpus
        .iter()
        .filter(|gpu| gpu.vendor != GpuVendor::Nvidia);
    let models: Vec<String> = others
        .filter_map(|gpu| Some(format!("{} {}", gpu.address, gpu.model.as_ref()?)))
        .collect();
    if !models.is_empty() {
        file("models", models.join("\n"));
    }
    let mut gpus: Vec<PciAddress> = topology.stated_paths.keys().map(|(gpu, _)| *gpu).collect();
    gpus.dedup();
    for gpu in gpus {
        let of_gpu = topology
            .stated_paths
            .iter()
            .filter(|((of, _), _)| *of == gpu);
        let lines: Vec<String> = of_gpu
            .map(|((_, nic), kind)| format!("{nic} {kind}"))
            .collect();
        file(&format!("paths/{gpu}"), lines.join("\n"));
    }
}

/// Adds a description's facts to the topology; `false` without one.  A line that does not fit the node is reported.
pub fn read(root: &Root, topology: &mut Topology, diagnostics: &mut Vec<Diagnostic>) -> bool {
    let Some(supplied_by) = root.read(&format!("{PLACE}/supplied_by")) else {
        return false;
    };
    topology.supplied_by = Some(supplied_by).filter(|name| !name.is_empty());
    let mut take_lines = |name: &str, take: &dyn Fn(&mut Topology, &str) -> Option<()>| {
        let place = format!("{PLACE}/{name}");
        for line in root.read(&place).unwrap_or_default().lines() {
            if take(topology, line).is_none() {
                let finding = format!("`{}` means nothing on this node", Shown::word(line, 80));
                diagnostics.push(Diagnostic::new(format!("/{place}"), finding));
            }
        }
    };
    take_lines("roles", &role);
    take_lines("slingshot", &slingshot);
    take_lines("models", &model);
    for name in root.list(&format!("{PLACE}/paths"), |name| {
        name.parse::<PciAddress>().is_ok()
    }) {
        let gpu = name.parse().ok();
        take_lines(&format!("paths/{name}"), &|topology, line| {
            path(topology, gpu?, line)
        });
    }
    true
}

/// `mlx5_8 storage`
fn role(topology: &mut Topology, line: &str) -> Option<()> {
    let (name, word) = line.split_once(' ')?;
    let role = ROLES.into_iter().find(|role| role.to_string() == word)?;
    topology.nics.iter_mut().find(|nic| nic.name == *name)?.role = Some(role);
    Some(())
}

/// `hsi0`
fn slingshot(topology: &mut Topology, line: &str) -> Option<()> {
    let mut interfaces = topology
        .nics
        .iter_mut()
        .filter(|nic| nic.kind == NicKind::Ethernet);
    interfaces.find(|nic| nic.name == *line)?.kind = NicKind::Slingshot;
    Some(())
}

/// `0000:63:00.0 Vega 20`
fn model(topology: &mut Topology, line: &str) -> Option<()> {
    let (address, model) = line.split_once(' ')?;
    let address: PciAddress = address.parse().ok()?;
    if model.chars().any(char::is_control) {
        return None;
    }
    let is_its = |gpu: &&mut Gpu| gpu.address == address && gpu.model.is_none();
    topology.gpus.iter_mut().find(is_its)?.model = Some(model.to_string());
    Some(())
}

/// `0101:00:00.0 PIX`
fn path(topology: &mut Topology, gpu: PciAddress, line: &str) -> Option<()> {
    let (nic, word) = line.split_once(' ')?;
    let kind = PathType::ALL
        .into_iter()
        .find(|kind| kind.to_string() == word)?;
    let nic: PciAddress = nic.parse().ok()?;
    topology.gpu_index(gpu)?;
    topology
        .nics
        .iter()
        .find(|known| known.address == Some(nic))?;
    topology.stated_paths.insert((gpu, nic), kind);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::synthesise::synthesise;
    use super::*;
    use crate::discover::Scope;
    use crate::read_root;
    use nic_placement_topology::Provenance;

    #[test]
    fn a_described_node_is_as_it_says_and_lines_about_others_are_told() {
        let model = crate::platform::model("azure-nd96isr-h100-v5").unwrap();
        let mut manifest = synthesise(&model);
        let captured = |manifest: &Manifest, provenance: Provenance| {
            read_root(&Root::manifest(manifest.clone()), Scope::Full, provenance)
        };
        let captured_here = Provenance::Captured("here".to_string());
        let (node, said) = captured(&manifest, captured_here.clone());
        assert_eq!((node.stated_paths, said), (model.stated_paths, vec![]));
        assert!(
            model
                .nics
                .iter()
                .zip(&node.nics)
                .all(|(was, is)| was.role == is.role)
        );
        let mut file = |name: &str, text: &str| {
            manifest.insert(&format!("{PLACE}/{name}"), Entry::File(text.to_string()));
        };
        file("roles", "mlx5_0 storage\nmlx5_0 fun\nmlx5_99 storage\n");
        file(
            "paths/0001:00:00.0",
            "0101:00:00.0 SYS\n0101:00:00.0\n0099:00:00.0 PIX",
        );
        file("paths/0099:00:00.0", "0101:00:00.0 PIX");
        file("slingshot", "mlx5_0");
        file("models", "0001:00:00.0 another");
        let (node, said) = captured(&manifest, captured_here);
        assert_eq!(node.nics[0].role, Some(NicRole::Storage));
        let said: Vec<String> = said.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 7, "{said:?}");
        assert_eq!(
            said[0],
            "`/sys/nic-placement/roles`: `mlx5_0 fun` means nothing on this node"
        );
        // the live system describes itself
        assert!(
            captured(&manifest, Provenance::ThisSystem)
                .0
                .nics
                .iter()
                .all(|nic| nic.role != Some(NicRole::Storage))
        );
    }
}
