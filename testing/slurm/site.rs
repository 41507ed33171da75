//! The things under test: the repository, its build, and the Slurm that runs.

use super::cases::{Unfit, skip};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

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
        let identity = Command::new("id").arg("-u").output();
        let identity = identity.map_err(|e| Unfit::Broken(format!("`id`: {e}")))?;
        if identity.stdout != b"0\n" {
            return Err(Unfit::Skip("only root plays machines".into()));
        }
        let root = std::env::var_os("NICP_ROOT").map_or(PathBuf::from("/"), PathBuf::from);
        for program in ["slurmctld", "slurmd", "srun", "munged", "cc"] {
            let place = if program == "cc" {
                Path::new("/")
            } else {
                &root
            };
            let is_in = |folder| place.join(folder).join(program).exists();
            if !is_in("usr/sbin") && !is_in("usr/bin") {
                let why = format!("no `{program}` here: `tests/slurm/install.sh` installs it");
                return Err(Unfit::Skip(why));
            }
        }
        let mut namespace = Command::new("unshare");
        let namespace = namespace
            .args(["--mount", "true"])
            .stderr(Stdio::null())
            .status();
        if !namespace.is_ok_and(|status| status.success()) {
            return Err(Unfit::Skip("root without mount namespaces".into()));
        }
        let repository = PathBuf::from(env!("NIC_PLACEMENT_ROOT"));
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or(repository.join("target"), PathBuf::from);
        let plugin = std::env::var_os("NIC_PLACEMENT_SO")
            .map_or(target.join("release/libnic_placement.so"), PathBuf::from);
        // Slurm needs a plugin's absolute path
        let built = |path: PathBuf| {
            let why = format!("no `{}`: run `cargo build --release`", path.display());
            fs::canonicalize(&path).map_err(|_| Unfit::Broken(why))
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

    /// Goes with its folder, unless something failed.
    pub fn end(&self, failed: usize) -> ExitCode {
        match failed {
            0 => drop(fs::remove_dir_all(&self.dir)),
            _ => println!("the logs are in `{}`", self.dir.display()),
        }
        ExitCode::from(u8::from(failed > 0))
    }

    /// As `plugin_version` has it.
    pub fn version(&self) -> u32 {
        self.release.0 << 16 | self.release.1 << 8
    }

    /// The plugstack.conf line of the plugin under test.
    pub fn plugstack_line(&self, arguments: &str) -> String {
        format!("optional {} {arguments}", self.plugin.display())
    }

    /// The plugstack.conf line of the plugin built so that its hooks fail on request; the cases that need it are
    /// skipped without.
    pub fn failing(&self, arguments: &str) -> String {
        let usual = || {
            self.repository
                .join("target/panic/debug/libnic_placement.so")
        };
        let built = std::env::var_os("NIC_PLACEMENT_PANIC_SO").map_or_else(usual, PathBuf::from);
        if !built.exists() {
            skip("no build with `--features panic-in-hooks`");
        }
        format!("optional {} {arguments}", built.display())
    }

    /// The paths of this machine, beside the repository, that the nodes must see: the libraries, and those of the cases.
    pub fn shared(&self) -> String {
        let others = ["NIC_PLACEMENT_PANIC_SO", "NIC_PLACEMENT_STAMPED_SO"].map(std::env::var_os);
        let libraries = others
            .into_iter()
            .flatten()
            .map(PathBuf::from)
            .chain([self.plugin.clone()]);
        let folders = libraries.filter_map(|library| Some(library.parent()?.to_path_buf()));
        let all = folders.chain([self.dir.clone(), launchers()]);
        all.map(|folder| format!("{} ", folder.display())).collect()
    }

    /// The output of the tool with these words.
    fn tool(&self, words: &[&str]) -> String {
        let ran = Command::new(&self.command).args(words).output();
        let ran = ran.expect("the tool");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{words:?}: {said}");
        String::from_utf8(ran.stdout).expect("text")
    }

    /// The topology file of a DGX H100, from the project's own model.
    pub fn topology_file(&self) -> String {
        self.tool(&["show", "--machine", "dgx-h100", "--json"])
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
            fs::write(&manifest, nic_placement_testing::snapshot_of(model)).expect("a file");
            let [from, to] = [&manifest, &tree].map(|path| path.to_str().expect("text"));
            self.tool(&["snapshot", "--unpack", from, to]);
            change(&tree);
        }
        tree
    }
}

/// The release that `slurmd -V` says in that distribution.
fn release_in(root: &Path) -> Result<(u32, u32), Unfit> {
    let output = Command::new("chroot")
        .arg(root)
        .args(["slurmd", "-V"])
        .output();
    let said = output
        .map_err(|e| Unfit::Broken(format!("`slurmd -V`: {e}")))?
        .stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    let numbers = said
        .split(|c: char| !c.is_ascii_digit())
        .flat_map(str::parse);
    match numbers.collect::<Vec<u32>>()[..] {
        [major, minor, ..] => Ok((major, minor)),
        _ => Err(Unfit::Broken(format!("no release in `{said}`"))),
    }
}
