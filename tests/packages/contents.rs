//! The packages themselves: what they hold, what they want of the system, and an rpm's life in a clean root.

use super::{Root, files_of, package, path, text};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn run(program: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(path("")).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    let is_so = output.status.success();
    assert!(is_so, "{program} {arguments:?}: {}", text(&output));
    text(&output)
}

/// The files of all packages of a build, unpacked anew below cargo's folder for tests.  No file is in two of them.
pub fn unpacked(of: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{of}.d"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let into = folder.display().to_string();
    let mut files = 0;
    let count = || run("find", &[&into, "!", "-type", "d"]).lines().count();
    for name in files_of(of) {
        let file = package(&name).display().to_string();
        let (unpack, list) = match name.ends_with(".deb") {
            true => (
                format!("dpkg-deb -x '{file}' '{into}'"),
                format!("dpkg-deb -c '{file}'"),
            ),
            false => (
                format!("rpm2cpio '{file}' | (cd '{into}' && cpio -idm --quiet)"),
                format!("rpm -qplv '{file}'"),
            ),
        };
        run("sh", &["-c", &unpack]);
        let listed = run("sh", &["-c", &format!("{list} | grep -c '^[^d]'")]);
        let listed: usize = listed.trim().parse().unwrap();
        files += listed;
        assert_eq!(count(), files, "{name}: a file of two");
    }
    folder
}

/// Builds, and where each puts libraries.
const BUILDS: [(&str, &str); 4] = [
    ("_1.0.0-1_amd64.deb", "/usr/lib/x86_64-linux-gnu"),
    ("_1.0.0-1_arm64.deb", "/usr/lib/aarch64-linux-gnu"),
    ("-1.0.0-1.x86_64.rpm", "/usr/lib64"),
    ("-1.0.0-1.aarch64.rpm", "/usr/lib64"),
];

pub fn the_packages_of_a_build_hold_what_is_listed() {
    let listed = fs::read_to_string(path("packaging/contents.txt")).unwrap();
    for (name, libraries) in BUILDS {
        let folder = unpacked(name);
        let folder = folder.display().to_string();
        let found = run("find", &[&folder, "!", "-type", "d", "-printf", "/%P\n"]);
        // man pages are packed; each package has its licences and, for Debian, its own folder
        let ends = ["/changelog.Debian.gz", "/built-with"];
        let begins = [
            "/usr/share/licenses/",
            "/usr/share/doc/slurm-spank-",
            "/usr/share/doc/lib",
        ];
        let is_own = |line: &&str| {
            ends.iter().any(|end| line.ends_with(end))
                || begins.iter().any(|begin| line.starts_with(begin))
        };
        let found = found.lines().filter(|line| !is_own(line));
        let found = found.map(|line| line.trim_end_matches(".gz").to_string());
        let found: BTreeSet<String> = found.collect();
        let wanted = listed.lines().filter_map(|line| line.split(' ').next());
        let wanted = wanted.map(|file| file.replace("/usr/lib/x86_64-linux-gnu", libraries));
        let wanted: BTreeSet<String> = wanted.collect();
        assert_eq!(found, wanted, "{name}");
    }
}

pub fn nothing_newer_than_glibc_2_28_is_wanted_and_no_libslurm() {
    for (name, libraries) in BUILDS {
        let folder = unpacked(name);
        let core = format!("{libraries}/libnic_placement_core.so.0");
        let plugin = "/usr/lib/nic-placement/libnic_placement.so";
        for file in [plugin, &core, "/usr/bin/nic-placement"] {
            let file = format!("{}{file}", folder.display());
            let said = run("readelf", &["-W", "-d", "-V", &file]);
            let versions = said.split("Name: GLIBC_").skip(1);
            let versions = versions.filter_map(|rest| rest.split_whitespace().next());
            let numbers = |version: &str| {
                let parts = version.split('.');
                parts.map(|number| number.parse().unwrap_or(0)).collect()
            };
            let newest: Option<Vec<u32>> = versions.map(numbers).max();
            let is_so = newest.as_ref().is_some_and(|newest| *newest <= vec![2, 28]);
            assert!(is_so, "{file}: {newest:?}");
            for line in said.lines().filter(|line| line.contains("(NEEDED)")) {
                let is_so = !line.contains("slurm") && !line.contains("gcc_s");
                assert!(is_so, "{file}: {line}");
            }
        }
    }
    let debs = ["_1.0.0-1_amd64.deb", "_1.0.0-1_arm64.deb"];
    for name in debs.into_iter().flat_map(files_of) {
        let file = package(&name).display().to_string();
        let depends = run("dpkg-deb", &["-f", &file, "Depends"]);
        let is_devel = name.contains("-dev_") && depends == "libnic-placement-core0 (= 1.0.0-1)\n";
        let is_so = is_devel || depends == "libc6 (>= 2.28)\n";
        assert!(is_so, "{name}: {depends}");
    }
    for name in files_of("-1.0.0-1.x86_64.rpm") {
        let file = package(&name).display().to_string();
        let required = run("rpm", &["-qp", "--requires", &file]);
        let has_libc = required.contains("libc.so.6(GLIBC_2.28)(64bit)");
        assert!(name.contains("-devel-") || has_libc, "{required}");
        let other = ["slurm", "gcc_s"]
            .iter()
            .find(|other| required.to_lowercase().contains(*other));
        assert_eq!(other, None, "{required}");
        let licences = run("rpm", &["-qpL", &file]);
        for licence in ["/LICENSE-APACHE\n", "/LICENSE-MIT\n"] {
            assert!(licences.contains(licence), "{licences}");
        }
    }
}

pub fn the_same_input_gives_the_same_package() {
    for (kind, of) in [
        ("deb", "_1.0.0-1_amd64.deb"),
        ("rpm", "-1.0.0-1.x86_64.rpm"),
    ] {
        let built = path("target/portable/x86_64-unknown-linux-gnu/release");
        let make = || {
            let mut command = Command::new(path("packaging/package.sh"));
            command.args([kind, "x86_64", "1.0.0", "1"]);
            command.env("NICP_BUILT", &built);
            command.env("MAINTAINER", "Nobody <nobody@example.org>");
            command.env("HOMEPAGE", "https://example.org");
            // the tests' own make would hand down its words
            let command = command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", text(&output));
            files_of(of).map(|name| fs::read(package(&name)).unwrap())
        };
        assert!(make() == make(), "{of}");
    }
}

pub fn lintian_finds_no_error() {
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error", "--allow-root"]);
    let packages = files_of("_1.0.0-1_amd64.deb").map(|name| package(&name));
    let Ok(output) = lintian.args(packages).output() else {
        return println!("      skipped: there is no `lintian`");
    };
    assert!(output.status.success(), "{}", text(&output));
}

/// With this machine's rpm in a root of Debian's, whose own database knows no glibc: so without its word on what is required.
pub fn the_rpm_is_installed_replaced_and_erased_without_a_trace() {
    let script = r#"
        set -eu
        root=$1 first=$2 second=$3 names='nic-placement slurm-spank-nic-placement'
        mount -t tmpfs tmpfs /mnt
        mkdir /mnt/upper /mnt/work /mnt/all
        mount -t overlay -o "lowerdir=$root,upperdir=/mnt/upper,workdir=/mnt/work" overlay /mnt/all
        # of EL's package filesystem
        mkdir -p /mnt/all/usr/share/licenses
        rpm="rpm --root /mnt/all --dbpath /tmp/rpmdb"
        list() { (cd /mnt/all && find . -path ./tmp -prune -o -path ./var/lib/rpm -prune -o -printf '%p %y %m\n' | LC_ALL=C sort); }
        # as EL's and SLES's own presets end
        mkdir -p /mnt/all/etc/systemd/system-preset
        echo 'disable *' > /mnt/all/etc/systemd/system-preset/99-default-disable.preset
        echo > /mnt/all/etc/systemd/system-preset/50-site.preset
        timer=/mnt/all/etc/systemd/system/timers.target.wants/nic-placement-refresh.timer
        $rpm --initdb
        list > /mnt/before
        $rpm -i --nodeps $first
        [ ! -L $timer ]
        $rpm -V --nodeps $names
        before=$(stat -c %i /mnt/all/usr/lib/nic-placement/libnic_placement.so)
        chroot /mnt/all nic-placement plan --machine dgx-h100 --gpus-per-task 1 > /dev/null
        # an admin's own line stays over an upgrade and a removal
        line=/mnt/all/etc/slurm/plugstack.conf.d/90-nic-placement.conf
        sed 's/$/ default=closest/' /mnt/all/usr/share/nic-placement/90-nic-placement.conf > $line
        cp $line /mnt/line
        mkdir -p /mnt/all/run/nic-placement
        $rpm -U --nodeps $second
        cmp $line /mnt/line
        test -d /mnt/all/run/nic-placement
        [ "$(stat -c %i /mnt/all/usr/lib/nic-placement/libnic_placement.so)" != "$before" ]
        $rpm -q nic-placement
        $rpm -e $names 2>&1 | grep 'plugstack.conf.d/90-nic-placement.conf` still names the plugin'
        cmp $line /mnt/line
        rm $line
        list > /mnt/after
        diff /mnt/before /mnt/after
        # a site's own preset enables the timer
        if [ -x /mnt/all/usr/bin/systemctl ]; then
            echo 'enable nic-placement-*.timer' > /mnt/all/etc/systemd/system-preset/50-site.preset
            $rpm -i --nodeps $first
            [ -L $timer ]
            $rpm -e $names
            list > /mnt/after
            diff /mnt/before /mnt/after
        fi
        "#;
    let files = ["-1.0.0-1.x86_64.rpm", "-1.0.0-2.x86_64.rpm"].map(|of| {
        let files = files_of(of).into_iter().take(2);
        let files = files.map(|name| package(&name).display().to_string());
        files.collect::<Vec<_>>().join(" ")
    });
    for name in ["bookworm", "trixie"] {
        let mut unshare = Command::new("unshare");
        unshare.args("--mount --propagation private bash -c".split(' '));
        unshare.args([script, "rpm"]);
        let output = unshare.arg(Root::folder(name)).args(&files).output();
        let output = output.unwrap();
        let said = text(&output);
        let is_newer = said.contains("nic-placement-1.0.0-2.x86_64\n");
        assert!(output.status.success() && is_newer, "{name}: {said}");
    }
}
