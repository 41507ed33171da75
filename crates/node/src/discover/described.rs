//! Facts that `/sys` cannot show, as files below `sys/nic-placement` of a captured tree.
//!
//! ```text
//! sys/nic-placement/paths/0001:00:00.0 = 0101:00:00.0 PIX
//! sys/nic-placement/roles = mlx5_8 storage
//! sys/nic-placement/slingshot = hsi0
//! sys/nic-placement/models = 0000:63:00.0 Vega 20
//! sys/nic-placement/supplied_by =
//! ```
//!
//! `synthesise` (testing) writes these files. Live discovery does not read them.

use super::{Root, is_address};
use nic_placement_topology::diagnostic::{Diagnostic, Shown};
use nic_placement_topology::{Gpu, NicKind, NicRole, PathType, PciAddress, Topology};

/// No kernel has this directory.
pub const PLACE: &str = "sys/nic-placement";
const ROLES: [NicRole; 3] = [NicRole::Compute, NicRole::Storage, NicRole::Management];

/// Adds the facts below [`PLACE`] to `node`, and reports lines that do not fit `node`. Returns
/// false if `supplied_by` is missing.
pub fn read(root: &Root, node: &mut Topology, diagnostics: &mut Vec<Diagnostic>) -> bool {
    let Some(supplied_by) = root.read(&format!("{PLACE}/supplied_by")) else {
        return false;
    };
    node.supplied_by = Some(supplied_by).filter(|name| !name.is_empty());
    let mut take_lines = |name: &str, take: &dyn Fn(&mut Topology, &str) -> Option<()>| {
        let place = format!("{PLACE}/{name}");
        for line in root.read(&place).unwrap_or_default().lines() {
            if take(node, line).is_none() {
                let finding = format!("`{}` means nothing on this node", Shown::word(line, 80));
                diagnostics.push(Diagnostic::new(format!("/{place}"), finding));
            }
        }
    };
    take_lines("roles", &role);
    take_lines("slingshot", &slingshot);
    take_lines("models", &model);
    for name in root.list(&format!("{PLACE}/paths"), is_address) {
        let gpu = name.parse().ok();
        take_lines(&format!("paths/{name}"), &|node, line| {
            path(node, gpu?, line)
        });
    }
    true
}

fn role(node: &mut Topology, line: &str) -> Option<()> {
    let (name, word) = line.split_once(' ')?;
    let role = ROLES.into_iter().find(|role| role.to_string() == word)?;
    node.nics.iter_mut().find(|nic| nic.name == *name)?.role = Some(role);
    Some(())
}

fn slingshot(node: &mut Topology, line: &str) -> Option<()> {
    let mut nics = node.nics.iter_mut();
    let nic = nics.find(|nic| nic.kind == NicKind::Ethernet && nic.name == *line)?;
    nic.kind = NicKind::Slingshot;
    Some(())
}

fn model(node: &mut Topology, line: &str) -> Option<()> {
    let (address, model) = line.split_once(' ')?;
    let address: PciAddress = address.parse().ok()?;
    if model.chars().any(char::is_control) {
        return None;
    }
    let is_its = |gpu: &&mut Gpu| gpu.address == address && gpu.model.is_none();
    node.gpus.iter_mut().find(is_its)?.model = Some(model.to_string());
    Some(())
}

fn path(node: &mut Topology, gpu: PciAddress, line: &str) -> Option<()> {
    let (nic, word) = line.split_once(' ')?;
    let mut kinds = PathType::ALL.into_iter();
    let kind = kinds.find(|kind| kind.to_string() == word)?;
    let nic: PciAddress = nic.parse().ok()?;
    node.gpu_index(gpu)?;
    node.nics.iter().find(|known| known.address == Some(nic))?;
    node.stated_paths.insert((gpu, nic), kind);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::synthesise::synthesise;
    use super::*;
    use crate::discover::Scope;
    use crate::discover::manifest::{Entry, Manifest};
    use crate::read_root;
    use nic_placement_topology::{Nic, Provenance};

    #[test]
    fn a_described_node_is_as_it_says_and_lines_about_others_are_told() {
        let model = crate::platform::model("azure-nd96isr-h100-v5").unwrap();
        let mut manifest = synthesise(&model);
        let captured = |manifest: &Manifest, provenance: Provenance| {
            read_root(&Root::manifest(manifest.clone()), Scope::Full, provenance)
        };
        let here = Provenance::Captured("here".to_string());
        let (node, said) = captured(&manifest, here.clone());
        assert_eq!((node.stated_paths, said), (model.stated_paths, vec![]));
        let roles = |nics: &[Nic]| nics.iter().map(|nic| nic.role).collect::<Vec<_>>();
        assert_eq!(roles(&node.nics), roles(&model.nics));
        let mut file = |name: &str, text: &str| {
            manifest.insert(&format!("{PLACE}/{name}"), Entry::File(text.to_string()));
        };
        file("roles", "mlx5_0 storage\nmlx5_0 fun\nmlx5_99 storage\n");
        let paths = "0101:00:00.0 SYS\n0101:00:00.0\n0099:00:00.0 PIX";
        file("paths/0001:00:00.0", paths);
        file("paths/0099:00:00.0", "0101:00:00.0 PIX");
        file("slingshot", "mlx5_0");
        file("models", "0001:00:00.0 another");
        let (node, said) = captured(&manifest, here);
        assert_eq!(node.nics[0].role, Some(NicRole::Storage));
        assert_eq!(said.len(), 7, "{said:?}");
        let first = said[0].to_string();
        assert!(first.starts_with("`/sys/nic-placement/roles`: `mlx5_0 fun` means nothing"));
        // the live system describes itself
        let (live, _) = captured(&manifest, Provenance::ThisSystem);
        assert!(!roles(&live.nics).contains(&Some(NicRole::Storage)));
    }
}
