//! What `make install` puts where, and that `make uninstall` takes it away: the packages are made of the same list.

use super::{Answer, Place, TOOL, flat, is_as_made, path, read};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A folder with `built`, files that stand for the libraries, and the tool, which prints its
/// completions; and `root`.
fn built(name: &str) -> Place {
    let place = Place::new(&format!("installed-{name}"));
    for library in ["libnic_placement.so", "libnic_placement_capi.so"] {
        place.file(&format!("built/{library}"), "a library");
    }
    fs::copy(TOOL, place.at("built/nic-placement")).unwrap();
    fs::create_dir(place.at("root")).unwrap();
    place
}

/// `None`, and a line, where there is no `make`.
fn make(goal: &str, place: &Place, root: &str, words: &[&str]) -> Option<String> {
    let mut command = Command::new("make");
    command.args(["--silent", "--no-print-directory", goal]);
    command.args(words).current_dir(path(""));
    command.arg(format!("built={}", place.at("built")));
    command.arg(format!("DESTDIR={root}"));
    // a make that runs these tests hands down what it was told
    command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    let Ok(output) = command.output() else {
        println!("skipped: there is no `make`");
        return None;
    };
    let answer = Answer::new(goal, output);
    answer.ends(0);
    Some(answer.err)
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
            let target = fs::read_link(&entry).unwrap();
            found.insert(format!("{name} -> {}", target.display()));
        } else {
            let mode = metadata.permissions().mode() & 0o7777;
            found.insert(format!("{name} {mode:o}"));
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
    let mut call = script.split("make --silent --no-print-directory install");
    let call = call.nth(1);
    let call = call
        .and_then(|call| call.split("\"DESTDIR=").next())
        .expect("its call of make");
    let call = call.replace(['\\', '"'], " ");
    let call = call.replace("$libdir", "/usr/lib/x86_64-linux-gnu");
    let is_own = |word: &&str| {
        ["built=", "tool=", "HOMEPAGE="]
            .iter()
            .any(|own| word.starts_with(own))
    };
    call.split_whitespace()
        .filter(|word| !is_own(word))
        .map(str::to_string)
        .collect()
}

#[test]
fn a_package_holds_what_is_listed_and_nothing_else() {
    let place = built("package");
    let root = place.0.join("root");
    let words = words_of_packages();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if make("install", &place, &place.at("root"), &words).is_none() {
        return;
    }
    let list = listed(&root);
    let list: String = list.iter().map(|line| format!("{line}\n")).collect();
    is_as_made("packaging/contents.txt", &list);
    // each place that was chosen stands in the files that name it
    for (file, part) in [
        (
            "share/nic-placement/90-nic-placement.conf",
            "\noptional /usr/lib/nic-placement/libnic_placement.so\n",
        ),
        (
            "lib/systemd/system/nic-placement-refresh.service",
            "ExecStart=/usr/bin/nic-placement refresh",
        ),
        (
            "share/doc/nic-placement/plugstack.conf.example",
            "optional /usr/lib/nic-placement/",
        ),
        (
            "lib/x86_64-linux-gnu/pkgconfig/nic-placement-core.pc",
            "libdir=/usr/lib/x86_64-linux-gnu\n",
        ),
    ] {
        let text = place.read(&format!("root/usr/{file}"));
        let is_so = text.contains(part) && !text.contains("/usr/local");
        assert!(is_so, "{file}: {text}");
        assert!(!file.ends_with(".pc") || !text.contains('@'), "{text}");
    }
    documents_are_whole_and_name_the_places_of_the_package(
        &root.join("usr/share/doc/nic-placement"),
    );
}

/// README says how to build from source, so that its places are those of `make install`.
fn documents_are_whole_and_name_the_places_of_the_package(folder: &Path) {
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
    assert!(text("CHANGELOG.md") == read("CHANGELOG.md"));
    let pages = fs::read_dir(path("docs")).unwrap();
    let pages = pages.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let pages: Vec<_> = pages.filter(|name| name.ends_with(".md")).collect();
    assert!(pages.len() > 5, "{pages:?}");
    for name in pages {
        let (found, source) = (text(&format!("docs/{name}")), read(&format!("docs/{name}")));
        // a page that names files of the source says so in two lines
        let more = found.lines().count() - source.lines().count();
        assert!([0, 2].contains(&more), "{name}");
        // a PATH is no place of ours
        for place in ["lib", "bin/nic", "etc", "share"] {
            let is_so = !found.contains(&format!("/usr/local/{place}"));
            assert!(is_so, "{name}: {place}");
        }
    }
}

/// What a page leads to: the targets of its links, and the examples that its commands name.
fn named_by(page: &str) -> Vec<&str> {
    let targets = page.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split([')', '#']).next());
    let images = page.split("<img src=\"");
    let images = images.skip(1).filter_map(|rest| rest.split('"').next());
    let is_example = |word: &&str| word.starts_with('/') && word.contains("/examples/");
    let words = page.split_whitespace().filter(is_example);
    let links = targets
        .chain(images)
        .filter(|link| !link.is_empty() && !link.contains("://"));
    links.chain(words).collect()
}

#[test]
fn every_link_of_an_installed_page_leads_to_what_is_installed() {
    let place = built("links");
    let root = place.0.join("root");
    let words = ["HOMEPAGE=https://example.org"];
    if make("install", &place, &place.at("root"), &words).is_none() {
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
            let file = match target.strip_prefix('/') {
                Some(rest) => root.join(rest),
                None => folder.join(target),
            };
            assert!(file.exists(), "{}: `{target}`", page.display());
            found += 1;
        }
        let is_told = text.contains("to the source <https://example.org>, which is not");
        assert!(is_told || !text.contains("`tests/"), "{}", page.display());
    }
    assert!(found > 60, "{found}");
}

/// `ldconfig` by a program that notes its words and knows the libraries of one folder.
#[test]
fn the_loader_knows_the_library_after_install_or_the_admin_is_told() {
    let place = built("loader");
    let root = place.at("root");
    let calls = || place.read("built/ldconfig.log").lines().count();
    for (known, is_told) in [
        (place.at("root/lib"), false),
        ("/elsewhere".to_string(), true),
    ] {
        let library = format!("{known}/libnic_placement_core.so.0");
        let script = format!("echo \"$0 $*\" >> $0.log\necho '\t=> {library}'");
        let ldconfig = place.program("built/ldconfig", &script);
        let words = [format!("prefix={root}"), format!("LDCONFIG={ldconfig}")];
        let said = make("install", &place, "", &[&words[0], &words[1]]);
        let Some(said) = said else { return };
        let said = flat(&said);
        let found = said.contains("install: programs do not find");
        assert_eq!(found, is_told, "{said}");
        let advice = format!("LD_LIBRARY_PATH={root}/lib");
        assert!(!is_told || said.contains(&advice), "{said}");
    }
    assert_eq!(calls(), 4);
    // into a folder that becomes a package nothing of this machine is changed
    let word = format!("LDCONFIG={}", place.at("built/ldconfig"));
    make("install", &place, &root, &[&word]);
    assert_eq!(calls(), 4);
}

/// A folder of Slurm's is the admin's, often the whole cluster's by a link to NFS, and perhaps read-only: a package that has a
/// file in it asks at each upgrade, takes it from all nodes with the first that it leaves, or cannot be unpacked.
#[test]
fn a_package_holds_nothing_in_etc_and_its_scripts_change_nothing_of_slurm_s() {
    let listed = read("packaging/contents.txt");
    let is_so = !listed.lines().any(|line| line.starts_with("/etc"));
    assert!(is_so, "{listed}");
    for file in "packaging/package.sh packaging/rpm/nic-placement.spec Makefile".split(' ') {
        for word in ["conffiles", "%config", "%dir /etc", "/etc/slurm "] {
            assert!(!read(file).contains(word), "{file}: {word}");
        }
    }
}

#[test]
fn uninstall_takes_away_what_install_put_there_and_nothing_else() {
    let place = built("uninstall");
    let root = place.0.join("root");
    fs::create_dir_all(root.join("run/nic-placement")).unwrap();
    place.file("root/usr/local/lib/slurm/other.so", "another's");
    let before = listed(&root);
    if make("install", &place, &place.at("root"), &[]).is_none() {
        return;
    }
    let installed = listed(&root);
    let library = "/usr/local/lib/slurm/libnic_placement.so 755";
    assert!(installed.contains(library), "{installed:?}");
    // a folder that many a plugstack.conf includes gets nothing unasked
    let is_so = !installed.iter().any(|line| line.starts_with("/etc/"));
    assert!(is_so, "{installed:?}");
    place.file("root/run/nic-placement/node.json", "{}");
    make("uninstall", &place, &place.at("root"), &[]);
    assert_eq!(listed(&root), before);
    for folder in ["run/nic-placement", "usr/local/share/nic-placement"] {
        assert!(!root.join(folder).exists(), "{folder}");
    }
}

/// The program that prints completions is a script here, so that the build ends before anything is packed.
#[test]
fn packages_that_name_no_maintainer_and_no_home_say_so() {
    let place = built("placeholders");
    fs::write(place.at("built/nic-placement"), "#!/bin/sh\n").unwrap();
    let said = |words: &[(&str, &str)]| {
        let mut command = Command::new(path("packaging/package.sh"));
        command.args(["deb", std::env::consts::ARCH, "0", "0"]);
        command.env("NICP_BUILT", place.at("built"));
        for name in ["MAKEFLAGS", "MAKELEVEL", "MAINTAINER", "HOMEPAGE"] {
            command.env_remove(name);
        }
        Answer::of(command.envs(words.iter().copied()))
    };
    let bare = said(&[]);
    if bare.err.contains("package: no `") {
        return println!("skipped: {bare}");
    }
    bare.says(&["no MAINTAINER='NAME <ADDRESS>'", "no HOMEPAGE=URL"]);
    let own = [
        ("MAINTAINER", "Jane Doe <jane@example.org>"),
        ("HOMEPAGE", "https://example.org"),
    ];
    let named = said(&own);
    named.says(&["no symbol of glibc is"]);
    named.lacks(&["MAINTAINER", "HOMEPAGE"]);
}
