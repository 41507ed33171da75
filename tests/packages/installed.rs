//! What `make install` puts where, and that `make uninstall` takes it away: the packages are made of the same list.

use super::{is_as_made, path, read};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with files that stand for the libraries, and the tool, which prints its completions.
fn built(name: &str) -> (PathBuf, PathBuf) {
    let folder = path(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let (built, root) = (folder.join("built"), folder.join("root"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&built).unwrap();
    fs::create_dir_all(&root).unwrap();
    for library in ["libnic_placement.so", "libnic_placement_capi.so"] {
        fs::write(built.join(library), "a library").unwrap();
    }
    fs::copy(
        env!("CARGO_BIN_EXE_nic-placement"),
        built.join("nic-placement"),
    )
    .unwrap();
    (built, root)
}

/// `None`, and a line, where there is no `make`.
fn make(goal: &str, built: &Path, root: &Path, words: &[&str]) -> Option<String> {
    let mut command = Command::new("make");
    command
        .args(["--silent", "--no-print-directory", goal])
        .args(words)
        .current_dir(path(""));
    command
        .arg(format!("built={}", built.display()))
        .arg(format!("DESTDIR={}", root.display()));
    // a make that runs these tests hands down what it was told
    command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    let Ok(output) = command.output() else {
        println!("skipped: there is no `make`");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    Some(said)
}

/// All files below a folder, with their modes and where links lead.
fn files(folder: &Path, root: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap().path();
        let metadata = fs::symlink_metadata(&entry).unwrap();
        let name = format!("/{}", entry.strip_prefix(root).unwrap().display());
        if metadata.is_dir() {
            files(&entry, root, found);
        } else if metadata.is_symlink() {
            found.insert(format!(
                "{name} -> {}",
                fs::read_link(&entry).unwrap().display()
            ));
        } else {
            found.insert(format!(
                "{name} {:o}",
                metadata.permissions().mode() & 0o7777
            ));
        }
    }
}

fn listed(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    files(root, root, &mut found);
    found
}

/// The words of packaging/package.sh's own call, for Debian on x86_64.
fn words_of_packages() -> Vec<String> {
    let script = read("packaging/package.sh");
    let (_, call) = script
        .split_once("make --silent --no-print-directory install")
        .expect("its call of make");
    let call = call
        .split("\"DESTDIR=")
        .next()
        .unwrap()
        .replace(['\\', '"'], " ");
    let words = call.split_whitespace().filter(|word| {
        !["built=", "tool=", "HOMEPAGE="]
            .iter()
            .any(|own| word.starts_with(own))
    });
    words
        .map(|word| word.replace("$libdir", "/usr/lib/x86_64-linux-gnu"))
        .collect()
}

#[test]
fn a_package_holds_what_is_listed_and_nothing_else() {
    let (built, root) = built("package");
    let words = words_of_packages();
    if make(
        "install",
        &built,
        &root,
        &words.iter().map(String::as_str).collect::<Vec<_>>(),
    )
    .is_none()
    {
        return;
    }
    let list: String = listed(&root)
        .iter()
        .map(|line| format!("{line}\n"))
        .collect();
    is_as_made("packaging/contents.txt", &list);
    // each place that was chosen stands in the files that name it
    let text = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    let last = |name: &str| {
        text(&format!("{name}/90-nic-placement.conf"))
            .lines()
            .last()
            .map(str::to_string)
    };
    let line = "optional /usr/lib/nic-placement/libnic_placement.so";
    assert_eq!(last("usr/share/nic-placement").as_deref(), Some(line));
    let unit = text("usr/lib/systemd/system/nic-placement-refresh.service");
    assert!(
        unit.contains("ExecStart=/usr/bin/nic-placement refresh"),
        "{unit}"
    );
    let example = text("usr/share/doc/nic-placement/plugstack.conf.example");
    assert!(
        example.contains("optional /usr/lib/nic-placement/") && !example.contains("/usr/local"),
        "{example}"
    );
    documents_are_whole_and_name_the_places_of_the_package(
        &root.join("usr/share/doc/nic-placement"),
    );
    let pc = text("usr/lib/x86_64-linux-gnu/pkgconfig/nic-placement-core.pc");
    assert!(
        pc.contains("libdir=/usr/lib/x86_64-linux-gnu\n") && !pc.contains('@'),
        "{pc}"
    );
    fs::remove_dir_all(root.parent().unwrap()).unwrap();
}

/// README says how to build from source, so that its places are those of `make install`.
fn documents_are_whole_and_name_the_places_of_the_package(folder: &Path) {
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    assert!(text("CHANGELOG.md") == read("CHANGELOG.md"));
    let pages = fs::read_dir(path("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let pages: Vec<_> = pages
        .map(|name| name.into_string().unwrap())
        .filter(|name| name.ends_with(".md"))
        .collect();
    assert!(pages.len() > 5, "{pages:?}");
    for name in pages {
        let (found, source) = (text(&format!("docs/{name}")), read(&format!("docs/{name}")));
        // a page that names files of the source says so in two lines
        assert!(
            [0, 2].contains(&(found.lines().count() - source.lines().count())),
            "{name}"
        );
        // a PATH is no place of ours
        let named = [
            "/usr/local/lib",
            "/usr/local/bin/nic",
            "/usr/local/etc",
            "/usr/local/share",
        ];
        assert!(!named.iter().any(|place| found.contains(place)), "{name}");
    }
}

/// What a page leads to: the targets of its links, and the examples that its commands name.
fn named_by(page: &str) -> Vec<&str> {
    let links = page
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#']).next());
    let links = links.chain(
        page.split("<img src=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next()),
    );
    let words = page
        .split_whitespace()
        .filter(|word| word.starts_with('/') && word.contains("/examples/"));
    links
        .filter(|link| !link.is_empty() && !link.contains("://"))
        .chain(words)
        .collect()
}

#[test]
fn every_link_of_an_installed_page_leads_to_what_is_installed() {
    let (built, root) = built("links");
    if make("install", &built, &root, &["HOMEPAGE=https://example.org"]).is_none() {
        return;
    }
    let mut found = 0;
    for page in listed(&root)
        .iter()
        .filter_map(|line| line.strip_suffix(".md 644"))
    {
        let page = root.join(format!("{}.md", &page[1..]));
        let (text, folder) = (fs::read_to_string(&page).unwrap(), page.parent().unwrap());
        for target in named_by(&text) {
            let file = target
                .strip_prefix('/')
                .map_or_else(|| folder.join(target), |rest| root.join(rest));
            assert!(file.exists(), "{}: `{target}`", page.display());
            found += 1;
        }
        let is_told =
            text.contains("belong to the source <https://example.org>, which is not installed");
        assert!(is_told || !text.contains("`tests/"), "{}", page.display());
    }
    assert!(found > 60, "{found}");
    fs::remove_dir_all(root.parent().unwrap()).unwrap();
}

/// `ldconfig` by a program that notes its words and knows the libraries of one folder.
#[test]
fn the_loader_knows_the_library_after_install_or_the_admin_is_told() {
    let (built, root) = built("loader");
    let library = root.join("lib/libnic_placement_core.so.0");
    for (known, is_told) in [(library.as_path(), false), (Path::new("/elsewhere"), true)] {
        let ldconfig = built.join("ldconfig");
        let script = format!(
            "#!/bin/sh\necho \"$0 $*\" >> $0.log\necho '\t=> {}'\n",
            known.display()
        );
        fs::write(&ldconfig, script).unwrap();
        fs::set_permissions(&ldconfig, fs::Permissions::from_mode(0o755)).unwrap();
        let words = [
            format!("prefix={}", root.display()),
            format!("LDCONFIG={}", ldconfig.display()),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some(said) = make("install", &built, Path::new(""), &words) else {
            return;
        };
        assert_eq!(
            said.contains("install: programs do not find"),
            is_told,
            "{said}"
        );
        assert!(
            !is_told || said.contains(&format!("LD_LIBRARY_PATH={}/lib", root.display())),
            "{said}"
        );
    }
    assert_eq!(
        fs::read_to_string(built.join("ldconfig.log"))
            .unwrap()
            .lines()
            .count(),
        4
    );
    // into a folder that becomes a package nothing of this machine is changed
    make(
        "install",
        &built,
        &root,
        &[&format!("LDCONFIG={}", built.join("ldconfig").display())],
    );
    assert_eq!(
        fs::read_to_string(built.join("ldconfig.log"))
            .unwrap()
            .lines()
            .count(),
        4
    );
    fs::remove_dir_all(root.parent().unwrap()).unwrap();
}

/// A folder of Slurm's is the admin's, often the whole cluster's by a link to NFS, and perhaps read-only: a package that has a
/// file in it asks at each upgrade, takes it from all nodes with the first that it leaves, or cannot be unpacked.
#[test]
fn a_package_holds_nothing_in_etc_and_its_scripts_change_nothing_of_slurm_s() {
    let listed = read("packaging/contents.txt");
    assert!(
        !listed.lines().any(|line| line.starts_with("/etc")),
        "{listed}"
    );
    for file in [
        "packaging/package.sh",
        "packaging/rpm/nic-placement.spec",
        "Makefile",
    ] {
        for word in ["conffiles", "%config", "%dir /etc", "/etc/slurm "] {
            assert!(!read(file).contains(word), "{file}: {word}");
        }
    }
}

#[test]
fn uninstall_takes_away_what_install_put_there_and_nothing_else() {
    let (built, root) = built("uninstall");
    fs::create_dir_all(root.join("run/nic-placement")).unwrap();
    fs::create_dir_all(root.join("usr/local/lib/slurm")).unwrap();
    fs::write(root.join("usr/local/lib/slurm/other.so"), "another's").unwrap();
    let before = listed(&root);
    if make("install", &built, &root, &[]).is_none() {
        return;
    }
    let installed = listed(&root);
    assert!(
        installed.contains("/usr/local/lib/slurm/libnic_placement.so 755"),
        "{installed:?}"
    );
    // a folder that many a plugstack.conf includes gets nothing unasked
    assert!(
        !installed.iter().any(|line| line.starts_with("/etc/")),
        "{installed:?}"
    );
    fs::write(root.join("run/nic-placement/node.json"), "{}").unwrap();
    make("uninstall", &built, &root, &[]);
    assert_eq!(listed(&root), before);
    assert!(!root.join("run/nic-placement").exists());
    assert!(!root.join("usr/local/share/nic-placement").exists());
    fs::remove_dir_all(root.parent().unwrap()).unwrap();
}

/// The program that prints completions is a script here, so that the build ends before anything is packed.
#[test]
fn packages_that_name_no_maintainer_and_no_home_say_so() {
    let (built, root) = built("placeholders");
    fs::write(built.join("nic-placement"), "#!/bin/sh\n").unwrap();
    let said = |words: &[(&str, &str)]| {
        let mut command = Command::new(path("packaging/package.sh"));
        command
            .args(["deb", std::env::consts::ARCH, "0", "0"])
            .env("NICP_BUILT", &built);
        for name in ["MAKEFLAGS", "MAKELEVEL", "MAINTAINER", "HOMEPAGE"] {
            command.env_remove(name);
        }
        let output = command.envs(words.iter().copied()).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let bare = said(&[]);
    if bare.contains("package: no `") {
        return println!("skipped: {bare}");
    }
    assert!(
        bare.contains("no MAINTAINER='NAME <ADDRESS>'") && bare.contains("no HOMEPAGE=URL"),
        "{bare}"
    );
    let named = said(&[
        ("MAINTAINER", "Jane Doe <jane@example.org>"),
        ("HOMEPAGE", "https://example.org"),
    ]);
    assert!(named.contains("no symbol of glibc is wanted"), "{named}");
    assert!(
        !named.contains("MAINTAINER") && !named.contains("HOMEPAGE"),
        "{named}"
    );
    fs::remove_dir_all(root.parent().unwrap()).unwrap();
}
