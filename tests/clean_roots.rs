//! The packages as an admin meets them: in clean roots of Debian 12 and 13, each with a Slurm of its own that runs there.
//!
//! ```text
//! make test-packages                          makes the packages and runs all of this
//! PACKAGES=all cargo test --test clean_roots -- upgrade    cases with that word in their name; what was packed before
//! BLESS=1 PACKAGES=all cargo test --test clean_roots       writes the mistakes' lines into docs/admin.md
//! ```
//!
//! Without PACKAGES=all, or without the packages, roots or tools, it says so and passes.

#[path = "tool/answer.rs"]
mod answer;
#[path = "packages/arm.rs"]
mod arm;
#[path = "packages/contents.rs"]
mod contents;
#[path = "packages/dist.rs"]
mod dist;
#[path = "packages/guide.rs"]
mod guide;
#[path = "packages/mistakes.rs"]
mod mistakes;
#[path = "packages/release.rs"]
mod release;
#[path = "docs/shown.rs"]
mod shown;

use answer::Answer;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::thread;

pub(crate) use answer::checkout as path;

pub(crate) fn text(output: &Output) -> String {
    Answer::new("", output.clone()).both()
}

/// A package that `make deb` or `make rpm` made.
pub(crate) fn package(name: &str) -> PathBuf {
    path("target/packages").join(name)
}

/// Tool and plugin, as the guide has them.
pub(crate) const FIRST: &str =
    "nic-placement_1.0.0-1_amd64.deb slurm-spank-nic-placement_1.0.0-1_amd64.deb";
pub(crate) const SECOND: &str =
    "nic-placement_1.0.0-2_amd64.deb slurm-spank-nic-placement_1.0.0-2_amd64.deb";
pub(crate) const NAMES: &str = "nic-placement slurm-spank-nic-placement";

/// The packages of a build, by what follows their names: the tool and the plugin first.
pub(crate) fn files_of(of: &str) -> [String; 4] {
    let devel = if of.ends_with(".rpm") { "devel" } else { "dev" };
    let devel = format!("libnic-placement-core-{devel}");
    [
        "nic-placement",
        "slurm-spank-nic-placement",
        "libnic-placement-core0",
        &devel,
    ]
    .map(|name| format!("{name}{of}"))
}

/// A clean root in which a Slurm with two nodes runs; what is written there is in memory, and gone with it.
pub(crate) struct Root {
    pub(crate) name: &'static str,
    dir: PathBuf,
    port: &'static str,
}

impl Root {
    fn folder(name: &str) -> PathBuf {
        let home = std::env::var_os("HOME").unwrap_or_else(|| "/root".into());
        let cache = std::env::var_os("XDG_CACHE_HOME")
            .map_or_else(|| Path::new(&home).join(".cache"), PathBuf::from);
        cache.join("nic-placement").join(format!("slurm-{name}"))
    }

    fn cluster(&self, words: &[&str]) -> Command {
        let mut command = Command::new(path("tests/slurm/cluster.sh"));
        command.args(words).current_dir("/").stdin(Stdio::null());
        command
            .env("NICP_DIR", &self.dir)
            .env("NICP_PORT", self.port);
        command.env("NICP_ROOT", Self::folder(self.name));
        command
            .env("NICP_BIND", path("target/packages"))
            .env("NICP_BIN", answer::TOOL);
        command.env_remove("SLURM_CONF");
        command
    }

    /// Starts it; plugstack.conf is the root's own, as the distribution made it.
    fn up(name: &'static str, port: &'static str) -> Self {
        let dir = std::env::temp_dir().join(format!("nic-placement-clean-{name}"));
        let root = Self { name, dir, port };
        let output = root.cluster(&["up"]).output().expect("cluster.sh");
        assert!(output.status.success(), "{}", text(&output));
        let conf = root.dir.join("etc/plugstack.conf");
        fs::remove_file(&conf).unwrap();
        std::os::unix::fs::symlink("/etc/slurm/plugstack.conf", conf).unwrap();
        let log = format!("{}/log", root.dir.display());
        root.ok(&format!(
            "rm -rf /var/log/slurm && ln -s {log} /var/log/slurm"
        ));
        root
    }

    /// Runs a line of the shell in it, in the folder with the packages; stderr is where stdout is.
    pub(crate) fn run(&self, line: &str) -> Output {
        let packages = path("target/packages");
        let line = format!("cd {} && {{ {line}\n}} 2>&1", packages.display());
        self.cluster(&["run", "bash", "-c", &line])
            .output()
            .expect("cluster.sh")
    }

    pub(crate) fn ok(&self, line: &str) -> String {
        let output = self.run(line);
        let said = text(&output);
        assert!(output.status.success(), "{}: `{line}`: {said}", self.name);
        said
    }

    /// Every file of the root, with its kind and mode, without what the distribution's own programs keep.
    fn everything(&self) -> String {
        self.ok("find / -xdev \\( -path /tmp -o -path /var/log -o -path /var/cache -o -path /var/lib/dpkg \\) -prune -o \
                 -printf '%p %y %m\\n' | LC_ALL=C sort")
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = self.cluster(&["down"]).output();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

type Case = (&'static str, fn(&Root));

macro_rules! cases {
    ($($case:path),* $(,)?) => { &[$((stringify!($case), $case)),*] };
}

/// In this order, in each root.
const CASES: &[Case] = cases![
    guide::the_guide_is_as_it_happens_and_leaves_nothing,
    every_step_starts_while_the_package_is_replaced,
    an_upgrade_to_another_text_asks_nothing_and_the_admin_s_line_stays,
    a_folder_of_slurm_s_that_all_nodes_share_or_that_is_read_only_stays_as_it_is,
    a_line_without_its_library_stops_no_step,
    the_timer_is_enabled_unless_an_admin_disabled_it_and_goes_with_the_package,
    mistakes::each_mistake_prints_the_line_that_the_guide_shows,
];

/// Once; they need no Slurm.
const ALONE: &[(&str, fn())] = cases![
    contents::the_packages_of_a_build_hold_what_is_listed,
    contents::nothing_newer_than_glibc_2_28_is_wanted_and_no_libslurm,
    contents::the_same_input_gives_the_same_package,
    contents::lintian_finds_no_error,
    contents::the_rpm_is_installed_replaced_and_erased_without_a_trace,
    arm::the_library_for_arm_places_tasks_as_the_one_for_x86_does,
    arm::the_tool_for_arm_prints_the_same_bytes,
    dist::two_folders_give_the_same_release_on_two_days,
];

const STILL_NAMED: &str = "90-nic-placement.conf` still names the plugin";
const LINE: &str = "/etc/slurm/plugstack.conf.d/90-nic-placement.conf";
/// As the guide has it.
const ACTIVATE: &str =
    "cp /usr/share/nic-placement/90-nic-placement.conf /etc/slurm/plugstack.conf.d/";

/// dpkg unpacks a file beside the old one and renames it: a step loads the whole old library or the whole new one.
fn every_step_starts_while_the_package_is_replaced(root: &Root) {
    root.ok(&format!("dpkg -i {FIRST} && {ACTIVATE}"));
    let inode = || root.ok("stat -c %i /usr/lib/nic-placement/libnic_placement.so");
    let before = inode();
    let placed = thread::scope(|scope| {
        let steps = scope.spawn(|| {
            root.ok("for step in {1..50}; do srun --nic-placement=strict -n1 --gpus=1 printenv UCX_NET_DEVICES || exit; done")
        });
        let mut replaced = 0;
        while !steps.is_finished() {
            let package = if replaced % 2 == 0 { SECOND } else { FIRST };
            root.ok(&format!("dpkg -i {package}"));
            replaced += 1;
        }
        println!("      50 steps started while the package was replaced {replaced} times");
        assert!(replaced >= 2, "{replaced}");
        steps.join().expect("the steps")
    });
    // nothing but the value: no error of Slurm's between them
    assert_eq!(placed, "mlx5_0:1,eth0\n".repeat(50), "{}", root.name);
    root.ok(&format!("dpkg -i {SECOND}"));
    assert_ne!(inode(), before, "the file was replaced, not written over");
    root.ok(&format!("dpkg -P {NAMES}"));
}

/// stdin is /dev/null, as where a program does it on many nodes: an upgrade that asks leaves the package unconfigured.
fn an_upgrade_to_another_text_asks_nothing_and_the_admin_s_line_stays(root: &Root) {
    root.ok(&format!(
        "dpkg -i {FIRST} && {ACTIVATE} && sed -i '$s/$/ default=closest/' {LINE} && cp {LINE} /tmp/line"
    ));
    root.ok(&format!(
        "set -- {SECOND}; dpkg-deb -R $2 /tmp/other && find /tmp/other -name '*.conf' -exec sed -i '1i # another text' {{}} + &&
         dpkg-deb -b /tmp/other /tmp/other.deb && rm -r /tmp/other"
    ));
    root.ok("dpkg -i /tmp/other.deb");
    let status = root.ok("dpkg-query -Wf '${db:Status-Abbrev}' slurm-spank-nic-placement");
    assert_eq!(status, "ii ");
    let example = "/usr/share/nic-placement/*.conf";
    root.ok(&format!(
        "cmp {LINE} /tmp/line && grep -q 'another text' {example}"
    ));
    assert_eq!(
        root.ok("srun -n1 --gpus=1 printenv UCX_NET_DEVICES"),
        "mlx5_0:1,eth0\n"
    );
    root.ok(&format!("dpkg -P {NAMES} && cmp {LINE} /tmp/line"));
}

/// By a link to where NFS is mounted.  One node's package comes and goes, and the line of all others stays.
fn a_folder_of_slurm_s_that_all_nodes_share_or_that_is_read_only_stays_as_it_is(root: &Root) {
    root.ok("cp -a /etc/slurm /srv/slurm && rm -r /etc/slurm && ln -s /srv/slurm /etc/slurm");
    root.ok(&format!(
        "echo 'optional /usr/lib/nic-placement/libnic_placement.so' > {LINE}"
    ));
    let list = "cd /srv/slurm && find . -printf '%p %y %m %s %T@ %C@\\n' | LC_ALL=C sort";
    let before = root.ok(list);
    let read_only = "mount --bind /srv/slurm /srv/slurm && mount -o remount,bind,ro /srv/slurm";
    for first in [":", read_only] {
        let said = root.ok(&format!(
            "{first} && if touch /etc/slurm/new 2> /dev/null; then rm /etc/slurm/new; else echo read-only; fi
             dpkg -i {FIRST} && dpkg -i {SECOND} && dpkg -r {NAMES} && dpkg -i {FIRST} && dpkg -P {NAMES}; status=$?
             if mountpoint -q /srv/slurm; then umount /srv/slurm; fi; exit $status"
        ));
        assert_eq!(said.contains("read-only\n"), first == read_only, "{said}");
        assert_eq!(said.matches(STILL_NAMED).count(), 2, "{said}");
        let times = |list: &str| {
            let entries = list.lines().filter(|line| !line.starts_with(". "));
            entries.collect::<Vec<_>>().join("\n")
        };
        assert_eq!(times(&root.ok(list)), times(&before), "{}", root.name);
    }
}

fn a_line_without_its_library_stops_no_step(root: &Root) {
    root.ok(&format!("dpkg -i {FIRST} && {ACTIVATE}"));
    let said = root.ok(&format!("dpkg -r {NAMES}"));
    assert!(said.contains(STILL_NAMED), "{said}");
    let step = root.ok("srun -n2 --gpus-per-task=1 echo ran");
    assert_eq!(step.matches("ran\n").count(), 2, "{step}");
    assert!(step.contains("cannot open shared object file"), "{step}");
    root.ok(&format!("dpkg -P {NAMES} && rm {LINE}"));
    assert_eq!(root.ok("srun -n2 --gpus-per-task=1 echo ran"), "ran\nran\n");
    // and without the line nothing is loaded, nor missed
    root.ok(&format!("dpkg -i {FIRST}"));
    let asked = root.run("srun --nic-placement -n1 true");
    let said = text(&asked);
    assert!(
        said.contains("unrecognized option '--nic-placement'"),
        "{said}"
    );
    root.ok(&format!("dpkg -r {NAMES}"));
    assert_eq!(root.ok("srun -n1 echo ran"), "ran\n");
    root.ok(&format!("dpkg -P {NAMES}"));
    // a line that includes the package's own folder comes and goes with it
    root.ok("echo 'include /usr/share/nic-placement/*.conf' >> /etc/slurm/plugstack.conf");
    assert_eq!(root.ok("srun -n1 echo ran"), "ran\n");
    root.ok(&format!("dpkg -i {FIRST}"));
    let placed = root.ok("srun --nic-placement -n1 --gpus=1 printenv UCX_NET_DEVICES");
    assert_eq!(placed, "mlx5_0:1,eth0\n");
    root.ok(&format!("dpkg -P {NAMES}"));
    assert_eq!(root.ok("srun -n1 echo ran"), "ran\n");
}

/// Without a systemd that runs, as in a root that becomes an image: links are all that is made.
fn the_timer_is_enabled_unless_an_admin_disabled_it_and_goes_with_the_package(root: &Root) {
    let before = root.everything();
    let link = "/etc/systemd/system/timers.target.wants/nic-placement-refresh.timer";
    let is_enabled = || root.run(&format!("test -L {link}")).status.success();
    root.ok(&format!("dpkg -i {FIRST}"));
    assert!(is_enabled(), "{}", root.name);
    let again = |first: &str| {
        root.ok(&format!(
            "dpkg -i {first} && dpkg -r {NAMES} && dpkg -i {SECOND}"
        ))
    };
    again(SECOND);
    assert!(is_enabled(), "{}", root.name);
    // as `systemctl disable` does, which the root of Debian 12 lacks; no upgrade enables it again
    root.ok(&format!("rm {link}"));
    again(FIRST);
    assert!(!is_enabled(), "{}", root.name);
    // a login node has no GPU: the file is written, and says so
    root.ok("nic-placement refresh && test -s /run/nic-placement/node.cache");
    if root.run("command -v systemctl").status.success() {
        root.ok("systemctl enable nic-placement-watch.service");
    } else {
        println!(
            "      the watcher is skipped: no `systemctl` in {}",
            root.name
        );
    }
    root.ok("touch /etc/nic-placement.disabled && echo default=observe > /etc/nic-placement.conf");
    root.ok(&format!("dpkg -P {NAMES}"));
    assert_eq!(root.everything(), before);
    // and where the admin changed nothing
    root.ok(&format!("dpkg -i {FIRST} && dpkg -P {NAMES}"));
    assert_eq!(root.everything(), before);
}

/// Why nothing can be run.
fn missing() -> Option<String> {
    if std::env::var("PACKAGES").as_deref() != Ok("all") {
        return Some("`make test-packages` runs this".to_string());
    }
    let roots = ["bookworm", "trixie"].map(|name| Root::folder(name).join("usr/sbin/slurmd"));
    let debs = [
        "_1.0.0-1_amd64.deb",
        "_1.0.0-2_amd64.deb",
        "_1.0.0-1_arm64.deb",
    ];
    let packages = debs
        .into_iter()
        .chain(["-1.0.0-1.x86_64.rpm"])
        .flat_map(files_of);
    let packages = packages.map(|name| package(&name));
    let file = roots
        .into_iter()
        .chain(packages)
        .find(|file| !file.exists())?;
    Some(format!(
        "`{}` is not there: `make test-packages` makes it",
        file.display()
    ))
}

fn main() -> ExitCode {
    if let Some(reason) = missing() {
        println!("skipped: {reason}");
        return ExitCode::SUCCESS;
    }
    let words = std::env::args().skip(1);
    let wanted: Vec<String> = words.filter(|word| !word.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|word| name.contains(word));
    let (mut passed, mut failed) = (0, 0);
    let mut count = |name: String, case: &dyn Fn()| {
        let well = catch_unwind(AssertUnwindSafe(case)).is_ok();
        println!("{} {name}", if well { "ok    " } else { "FAILED" });
        *if well { &mut passed } else { &mut failed } += 1;
    };
    for (name, case) in ALONE.iter().filter(|(name, _)| is_wanted(name)) {
        count(name.to_string(), case);
    }
    for (root, port) in [("bookworm", "27317"), ("trixie", "27417")] {
        for (name, case) in CASES.iter().filter(|(name, _)| is_wanted(name)) {
            // each in a root that no case used before
            count(format!("{root}: {name}"), &|| case(&Root::up(root, port)));
        }
    }
    println!("{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}
