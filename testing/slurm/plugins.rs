//! Shared objects in C that play other plugins and other releases to the plugin under test.

use super::site::Site;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Compiles a text in C as a shared object of that name.
pub fn compile(site: &Site, name: &str, text: &str) -> PathBuf {
    let source = site.dir.join(name).with_extension("c");
    fs::write(&source, text).expect("a source");
    let library = source.with_extension("so");
    let mut command = Command::new("cc");
    command.args(["-Wall", "-Wextra", "-shared", "-fPIC", "-o"]);
    command.args([&library, &source]);
    command.arg(format!("-DRELEASE={}", site.version()));
    let status = command.status();
    let is_so = status.is_ok_and(|status| status.success());
    assert!(is_so, "`cc` of {name}");
    library
}

/// The same of a file below tests/slurm, stamped for the Slurm that runs, once.
fn file(site: &Site, source: &str, name: &str) -> PathBuf {
    let library = site.dir.join(name).with_extension("so");
    if !library.exists() {
        let path = site.repository.join("tests/slurm").join(source);
        let text = fs::read_to_string(path).expect("a file of ours");
        compile(site, name, &text);
    }
    library
}

/// The plugstack.conf line of a plugin with pyxis' name, which gives the first task's variables to all tasks of the node.
pub fn pyxis(site: &Site) -> String {
    let library = file(site, "container_env.c", "spank_pyxis");
    let folder = site.dir.join("containers");
    fs::create_dir_all(&folder).expect("a folder");
    let (library, folder) = (library.display(), folder.display());
    format!("optional {library} {folder} UCX_NET_DEVICES NCCL_IB_HCA NIC_PLACEMENT")
}

/// The plugstack.conf line of a plugin that does `actions` in its hooks (tests/slurm/between.c).
pub fn between(site: &Site, actions: &str) -> String {
    let library = file(site, "between.c", "between");
    format!("optional {} {actions}", library.display())
}

/// A library that, preloaded, makes a Slurm program report an unknown release.
pub fn unknown_slurm(site: &Site) -> PathBuf {
    file(site, "unknown_slurm.c", "unknown_slurm")
}
