//! The node's map files (GPUs to NICs): `set=` names them, and `nic-placement refresh` writes them
//! beside the node file.

use nic_placement_core::config::Admin;
use nic_placement_core::libraries::wanted::MapFile;
use nic_placement_core::maps::{Format, KEPT};
use nic_placement_node::discover::root::{Author, read_unlinked};
use std::path::{Path, PathBuf};

/// Most bytes of a map; the largest node of a topology file needs fewer.
pub const MAX_BYTES: usize = 1024 * 1024;

/// Paths of the map files that the admin's templates name.
pub fn places(admin: &Admin) -> Vec<(Format, PathBuf)> {
    let is_named = |format| {
        admin
            .templates
            .iter()
            .any(|template| template.map_files().any(|of| of == format))
    };
    let node_file = Path::new(&admin.node_file.path);
    let kept = KEPT.iter().filter(|(format, _)| is_named(*format));
    kept.map(|(format, extension)| (*format, node_file.with_extension(extension)))
        .collect()
}

/// Reads the maps. A link, or a file that `author` excludes, is refused: its owner could change the
/// NICs of every task. Without `author` the process only plans, perhaps for another node: no file
/// is read, and every map counts as existing.
pub fn find(admin: &mut Admin, author: Option<Author>) {
    for (format, place) in places(admin) {
        let path = place.display().to_string();
        let text = match author.map(|author| read_unlinked(&place, MAX_BYTES, author)) {
            None => None,
            Some(Ok(bytes)) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            Some(Err(unreadable)) => {
                match unreadable.problem.is_absent() {
                    true => log::debug!("there is no `{path}`"),
                    false => log::warn!("{unreadable}: no task is told of it"),
                }
                continue;
            }
        };
        admin.map_files.push(MapFile { format, path, text });
    }
}
