//! The node's map beside the node file, for engines.

use super::super::request::whole_node;
use super::super::{output, tell};
use nic_placement_core::config::Admin;
use nic_placement_core::maps::{Format, Subject, write};
use nic_placement_core::plan::Plan;
use nic_placement_core::topology::{GpuIndex, Topology};
use nic_placement_node::discover::root::{Author, read_unlinked};
use nic_placement_process::maps;
use std::fs;
use std::io;
use std::path::Path;

/// Keeps the maps that the admin's templates name, as for a step without words. One that cannot be made is removed. Other files
/// stay: another program may have written them.
pub(super) fn keep(topology: Topology, place: &Path, mut admin: Admin) -> Result<(), String> {
    admin.node_file.path = place.display().to_string();
    let places = maps::places(&admin);
    if places.is_empty() {
        return Ok(());
    }
    let plan = whole_node(topology, admin)?;
    for (format, file) in places {
        match written(&plan, format) {
            // an engine that starts now may be reading it
            Ok(text) if is_there(&file, &text) => {}
            Ok(text) => output::write(&file, text.as_bytes())?,
            Err(why) => {
                tell(&format!("no `{}`: {why}", file.display()));
                remove(&file)?;
            }
        }
    }
    Ok(())
}

fn is_there(file: &Path, text: &str) -> bool {
    read_unlinked(file, maps::MAX_BYTES, Author::Anyone).is_ok_and(|old| old == text.as_bytes())
}

fn written(plan: &Plan, format: Format) -> Result<String, String> {
    let gpus: Vec<GpuIndex> = plan.node.gpu_indices().collect();
    if gpus.is_empty() {
        return Err("the node has no GPU".to_string());
    }
    let subject = Subject {
        topology: &plan.node,
        node: &plan.map,
        gpus: &gpus,
    };
    write(format, subject).map_err(|why| why.to_string())
}

fn remove(file: &Path) -> Result<(), String> {
    output::check(file)?;
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("cannot remove `{}`: {error}", file.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn a_map_is_kept_for_each_template_that_names_one_and_goes_where_it_cannot_be_had() {
        let name = format!("nic-placement-for-engines-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let dgx = || nic_placement_node::platform::model("dgx-h100").unwrap();
        let kept = |arguments: &[&str]| {
            let (admin, doubts) = Admin::parse(arguments.iter().copied());
            assert!(doubts.is_empty(), "{doubts:?}");
            keep(dgx(), &folder.join("node.json"), admin).unwrap();
            let names = fs::read_dir(&folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name());
            let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
            names.sort();
            names
        };
        let both = ["node.map-json.json", "node.map-sglang.json"];
        assert_eq!(kept(&["set=X={nic}"]), [""; 0]);
        let arguments = ["set=X={map_file:sglang}", "set=Y={map_file:json}"];
        assert_eq!(kept(&arguments), both);
        let sglang = folder.join("node.map-sglang.json");
        let text = || fs::read_to_string(&sglang).unwrap();
        assert!(text().starts_with(r#"{"0":"mlx5_0","1":"mlx5_3","2":"#));
        let first = fs::metadata(&sglang).unwrap();
        assert_eq!(first.permissions().mode() & 0o7777, 0o644);
        kept(&["set=X={map_file:sglang}"]);
        // the same is not written again
        assert_eq!(fs::metadata(&sglang).unwrap().ino(), first.ino());
        kept(&["set=X={map_file:sglang}", "exclude=mlx5_0"]);
        assert!(!text().contains(r#""mlx5_0""#), "the admin's word counts");
        // no map without NICs
        let without = kept(&["set=X={map_file:sglang}", "exclude=*"]);
        assert_eq!(without, both[..1]);
        // no template asks for it
        fs::write(&sglang, "another's").unwrap();
        assert_eq!(kept(&[]), both);
        assert_eq!(text(), "another's");
        fs::remove_file(&sglang).unwrap();
        std::os::unix::fs::symlink("elsewhere", &sglang).unwrap();
        for arguments in [
            &["set=X={map_file:sglang}"][..],
            &["set=X={map_file:sglang}", "exclude=*"],
        ] {
            let (admin, _) = Admin::parse(arguments.iter().copied());
            let why = keep(dgx(), &folder.join("node.json"), admin).unwrap_err();
            assert!(why.contains("is a symbolic link") && sglang.is_symlink());
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
