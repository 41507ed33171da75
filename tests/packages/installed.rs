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
    fs::copy(env!("CARGO_BIN_EXE_nic-placement"), built.join("nic-placement")).unwrap();
    (built, root)
}

/// `None`, and a line, where there is no `make`.
fn make(goal: &str, built: &Path, root: &Path, words: &[&str]) -> Option<String> {
    let mut command = Command::new("make");
    command.args(["--silent", "--no-print-directory", goal]).args(words).current_dir(path(""));
    command.arg(format!("built={}", built.display())).arg(format!("DESTDIR={}", root.display()));
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
            found.insert(format!("{name} -> {}", fs::read_link(&entry).unwrap().display()));
        } else {
            found.insert(format!("{name} {:o}", metadata.permissions().mode() & 0o7777));
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
    let (_, call) =
        script.split_once("make --silent --no-print-directory install").expect("its call of make");
    let call = call.split("\"DESTDIR=").next().unwrap().replace(['\\', '"'], " ");
    let words =
        call.split_whitespace().filter(|word| !word.starts_with("built=") && !word.starts_with("tool="));
    words.map(|word| word.replace("$libdir", "/usr/lib/x86_64-linux-gnu")).collect()
}

#[test]
fn a_package_holds_what_is_listed_and_nothing_else() {
    let (built, root) = built("package");
    let words = words_of_packages();
    if make("install", &built, &root, &words.iter().map(String::as_str).collect::<Vec<_>>()).is_none() {
        return;
    }
    let list: String = listed(&root).iter().map(|line| format!("{line}\n")).collect();
    is_as_made("packaging/contents.txt", &list);
    // each place that was chosen stands in the files that name it
    let text = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    let last = |name: &str| text(&format!("{name}/90-nic-placement.conf")).lines().last().map(str::to_string);
    let line = "optional /usr/lib/nic-placement/libnic_placement.so";
    assert_eq!(last("usr/share/nic-placement").as_deref(), Some(line));
    let unit = text("usr/lib/systemd/system/nic-placement-refresh.service");
    assert!(unit.contains("ExecStart=/usr/bin/nic-placement refresh"), "{unit}");
    let example = text("usr/share/doc/nic-placement/plugstack.conf.example");
    assert!(
        example.contains("optional /usr/lib/nic-placement/") && !example.contains("/usr/local"),
        "{example}"
    );
    documents_are_whole_and_name_the_places_of_the_package(&root.join("usr/share/doc/nic-placement"));
    let pc = text("usr/lib/x86_64-linux-gnu/pkgconfig/nic-placement-core.pc");
    assert!(pc.contains("libdir=/usr/lib/x86_64-linux-gnu\n") && !pc.contains('@'), "{pc}");
    fs::remove_dir_all(root.parent().unwrap()).unwrap();
}

/// README says how to build from source, so that its places are those of `make install`.
fn documents_are_whole_and_name_the_places_of_the_package(folder: &Path) {
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    for name in ["CHANGELOG.md", "SECURITY.md"] {
        assert!(text(name) == read(name), "{name} is beside the pages that name it");
    }
    let pages = fs::read_dir(path("docs")).unwrap().map(|entry| entry.unwrap().file_name());
    let pages: Vec<_> =
        pages.map(|name| name.into_string().unwrap()).filter(|name| name.ends_with(".md")).collect();
    assert!(pages.len() > 5, "{pages:?}");
    for name in pages {
        let (found, source) = (text(&format!("docs/{name}")), read(&format!("docs/{name}")));
        let (places, file) =
            ("/usr/local/lib/slurm/libnic_placement.so", "/usr/lib/nic-placement/libnic_placement.so");
        assert!(
            found == source.replace(places, file).replace("/usr/local/bin/nic-pl", "/usr/bin/nic-pl"),
            "{name}"
        );
        // a PATH is no place of ours
        let named = ["/usr/local/lib", "/usr/local/bin/nic", "/usr/local/etc", "/usr/local/share"];
        assert!(!named.iter().any(|place| found.contains(place)), "{name}");
    }
}

/// A folder of Slurm's is the admin's, often the whole cluster's by a link to NFS, and perhaps read-only: a package that has a
/// file in it asks at each upgrade, takes it from all nodes with the first that it leaves, or cannot be unpacked.
#[test]
fn a_package_holds_nothing_in_etc_and_its_scripts_change_nothing_of_slurm_s() {
    let listed = read("packaging/contents.txt");
    assert!(!listed.lines().any(|line| line.starts_with("/etc")), "{listed}");
    for file in ["packaging/package.sh", "packaging/rpm/nic-placement.spec", "Makefile"] {
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
    assert!(installed.contains("/usr/local/lib/slurm/libnic_placement.so 755"), "{installed:?}");
    // a folder that many a plugstack.conf includes gets nothing unasked
    assert!(!installed.iter().any(|line| line.starts_with("/etc/")), "{installed:?}");
    fs::write(root.join("run/nic-placement/node.json"), "{}").unwrap();
    make("uninstall", &built, &root, &[]);
    assert_eq!(listed(&root), before);
    assert!(!root.join("run/nic-placement").exists());
    assert!(!root.join("usr/local/share/nic-placement").exists());
    fs::remove_dir_all(root.parent().unwrap()).unwrap();
}
