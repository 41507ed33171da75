//! Shared objects in C that play other plugins and other releases to the plugin under test.

use crate::site::Site;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Compiles `source` below tests/slurm as a shared object of that name, stamped for the Slurm that runs.
fn compile(site: &Site, source: &str, name: &str) -> PathBuf {
    let library = site.dir.join(name);
    if !library.exists() {
        let (major, minor) = site.release;
        let source = site.repository.join("tests/slurm").join(source);
        let mut command = Command::new("cc");
        command
            .args(["-Wall", "-Wextra", "-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(source);
        command.arg(format!("-DRELEASE={}", major << 16 | minor << 8));
        assert!(
            command.status().is_ok_and(|status| status.success()),
            "`cc` of {name}"
        );
    }
    library
}

/// The plugstack.conf line of a plugin with pyxis' name, which gives the first task's variables to all tasks of the node.
pub fn pyxis(site: &Site) -> String {
    let library = compile(site, "container_env.c", "spank_pyxis.so");
    let folder = site.dir.join("containers");
    fs::create_dir_all(&folder).expect("a folder for the stand-in of pyxis");
    format!(
        "optional {} {} UCX_NET_DEVICES NCCL_IB_HCA NIC_PLACEMENT",
        library.display(),
        folder.display()
    )
}

/// The plugstack.conf line of a plugin that does `actions` in its hooks (tests/slurm/between.c).
pub fn between(site: &Site, actions: &str) -> String {
    format!(
        "optional {} {actions}",
        compile(site, "between.c", "between.so").display()
    )
}

/// A library that, preloaded, makes a Slurm program report an unknown release.
pub fn unknown_slurm(site: &Site) -> PathBuf {
    compile(site, "unknown_slurm.c", "unknown_slurm.so")
}
