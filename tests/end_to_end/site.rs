//! The things under test: the repository, its build, and the Slurm that runs.

use crate::bed::skip;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Why the tests cannot run here.
pub enum Unfit {
    /// something that this machine lacks, and may lack
    Skip(String),
    /// something that should be there
    Broken(String),
}

/// Files: the repository, what was built, and a private directory.
pub struct Site {
    pub repository: PathBuf,
    /// the distribution whose Slurm runs
    pub root: PathBuf,
    /// that Slurm's release, like 22.05
    pub release: (u32, u32),
    /// the plugin under test
    pub plugin: PathBuf,
    command: PathBuf,
    /// for what the tests make
    pub dir: PathBuf,
}

/// The folder of the launchers that tests/exec/install.sh got from PyPI.
pub fn launchers() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or("/root".into())).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    cache.join("nic-placement/launchers")
}

/// Where each run has its folder, by its process id.
const PLACE: &str = "/var/tmp/nic-placement-end-to-end.";

/// Removes the folders of runs that were killed, unless something is mounted in one.
fn remove_what_was_left() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for entry in fs::read_dir("/var/tmp").into_iter().flatten().flatten() {
        let path = entry.path();
        let pid = path
            .to_str()
            .and_then(|path| path.strip_prefix(PLACE)?.parse::<u32>().ok());
        let is_left = pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if is_left && !mounts.contains(&*path.to_string_lossy()) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

impl Site {
    pub fn new() -> Result<Site, Unfit> {
        // `make test` runs these beside the others
        if std::env::var("NIC_PLACEMENT_SKIP").is_ok_and(|kinds| kinds.contains("slurm")) {
            return Err(Unfit::Skip("NIC_PLACEMENT_SKIP=slurm".to_string()));
        }
        let identity = Command::new("id")
            .arg("-u")
            .output()
            .map_err(|e| Unfit::Broken(format!("`id`: {e}")))?;
        if identity.stdout != b"0\n" {
            return Err(Unfit::Skip(
                "needs root, to play machines in mount namespaces".into(),
            ));
        }
        let root = std::env::var_os("NICP_ROOT").map_or(PathBuf::from("/"), PathBuf::from);
        for program in ["slurmctld", "slurmd", "srun", "munged", "cc"] {
            let place = if program == "cc" {
                Path::new("/")
            } else {
                root.as_path()
            };
            if !["usr/sbin", "usr/bin"]
                .iter()
                .any(|dir| place.join(dir).join(program).exists())
            {
                return Err(Unfit::Skip(format!(
                    "no `{program}` here: `tests/slurm/install.sh` installs it"
                )));
            }
        }
        let namespace = Command::new("unshare")
            .args(["--mount", "true"])
            .stderr(Stdio::null())
            .status();
        if !namespace.is_ok_and(|status| status.success()) {
            return Err(Unfit::Skip(
                "this root may not make mount namespaces".into(),
            ));
        }
        let repository = PathBuf::from(env!("NIC_PLACEMENT_ROOT"));
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or(repository.join("target"), PathBuf::from);
        let plugin = std::env::var_os("NIC_PLACEMENT_SO")
            .map_or(target.join("release/libnic_placement.so"), PathBuf::from);
        let built = |path: PathBuf| {
            // Slurm needs a plugin's absolute path
            let why = |_| {
                Unfit::Broken(format!(
                    "no `{}`: run `cargo build --release`",
                    path.display()
                ))
            };
            fs::canonicalize(&path).map_err(why)
        };
        let command = built(plugin.with_file_name("nic-placement"))?;
        let plugin = built(plugin)?;
        // a separate folder, so that two runs do not meet; not in TMPDIR, which other users may be unable to reach, and not
        // in /tmp, because a job may have its own /tmp
        let dir = PathBuf::from(format!("{PLACE}{}", std::process::id()));
        remove_what_was_left();
        let release = release_in(&root)?;
        let site = Site {
            repository,
            root,
            release,
            plugin,
            command,
            dir,
        };
        fs::create_dir_all(site.dir.join("machines")).map_err(|e| Unfit::Broken(e.to_string()))?;
        Ok(site)
    }

    /// The plugstack.conf line of the plugin under test.
    pub fn plugstack_line(&self, arguments: &str) -> String {
        format!("optional {} {arguments}", self.plugin.display())
    }

    /// The plugin built so that its hooks panic on request; the cases that need it are skipped without.
    pub fn panicking_plugin(&self) -> PathBuf {
        let built = std::env::var_os("NIC_PLACEMENT_PANIC_SO").map_or_else(
            || {
                self.repository
                    .join("target/panic/debug/libnic_placement.so")
            },
            PathBuf::from,
        );
        if !built.exists() {
            skip(
                "no test build: `cargo build --features panic-in-hooks --target-dir target/panic`",
            );
        }
        built
    }

    /// The paths of this machine, beside the repository, that the nodes must see: the libraries, and what the cases make.
    pub fn shared(&self) -> String {
        let others = ["NIC_PLACEMENT_PANIC_SO", "NIC_PLACEMENT_STAMPED_SO"].map(std::env::var_os);
        let libraries = others
            .into_iter()
            .flatten()
            .map(PathBuf::from)
            .chain([self.plugin.clone()]);
        let folders = libraries.filter_map(|library| Some(library.parent()?.to_path_buf()));
        folders
            .chain([self.dir.clone(), launchers()])
            .map(|folder| format!("{} ", folder.display()))
            .collect()
    }

    /// The topology file of a DGX H100, from the project's own model.
    pub fn topology_file(&self) -> String {
        let shown = Command::new(&self.command)
            .args(["show", "--machine", "dgx-h100", "--json"])
            .output();
        String::from_utf8(shown.expect("`nic-placement show`").stdout).expect("JSON")
    }

    /// The tree of a DGX H100, from the project's own model, changed by `change`; made once.
    pub fn machine(&self, name: &str, change: impl Fn(&Path)) -> PathBuf {
        self.machine_of("dgx-h100", name, change)
    }

    /// The tree of a built-in machine, changed by `change`; made once.
    pub fn machine_of(&self, model: &str, name: &str, change: impl Fn(&Path)) -> PathBuf {
        let tree = self.dir.join("machines").join(name);
        if !tree.exists() {
            let manifest = self.dir.join(format!("machines/{model}.manifest"));
            fs::write(&manifest, nic_placement_testing::snapshot_of(model)).expect("the manifest");
            let unpacked = Command::new(&self.command)
                .args(["snapshot", "--unpack"])
                .arg(&manifest)
                .arg(&tree)
                .output();
            let unpacked = unpacked.expect("`nic-placement snapshot --unpack`");
            assert!(
                unpacked.status.success(),
                "unpack: {}",
                String::from_utf8_lossy(&unpacked.stderr)
            );
            change(&tree);
        }
        tree
    }
}

/// What `slurmd -V` says in that distribution.
fn release_in(root: &Path) -> Result<(u32, u32), Unfit> {
    let mut command = Command::new("chroot");
    let output = command.arg(root).args(["slurmd", "-V"]).output();
    let said = output
        .map_err(|e| Unfit::Broken(format!("`slurmd -V`: {e}")))?
        .stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    let numbers: Vec<u32> = said
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|n| n.parse().ok())
        .collect();
    match numbers[..] {
        [major, minor, ..] => Ok((major, minor)),
        _ => Err(Unfit::Broken(format!(
            "no release in `{said}`, which `slurmd -V` says"
        ))),
    }
}
