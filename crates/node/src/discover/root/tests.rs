//! Reads of what is no file, of what is too long, of what belongs to another user.

use super::*;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

/// A directory that goes with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path =
            std::env::temp_dir().join(format!("nic-placement-root-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("sys/class")).unwrap();
        fs::create_dir_all(path.join("proc/net")).unwrap();
        Place(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn pipe(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        assert!(
            Command::new("mkfifo")
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        path
    }

    fn root(&self) -> Root {
        Root::directory(&self.0, Author::Anyone).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What `read` answers; one that waits fails the test instead of hanging it.
fn at_once<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> T {
    let (answer, answered) = mpsc::channel();
    std::thread::spawn(move || answer.send(read()));
    answered
        .recv_timeout(Duration::from_secs(30))
        .expect("it waits")
}

fn notes(root: &Root) -> Vec<String> {
    root.notes().iter().map(ToString::to_string).collect()
}

fn is_root() -> bool {
    let is = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is {
        println!("skipped: only root can give a file away");
    }
    is
}

// ---- what is no file ----

#[test]
fn a_pipe_is_not_waited_for_wherever_it_stands() {
    let place = Place::new("pipe");
    let pipe = place.pipe("sys/class/pipe");
    let refusal = format!(
        "`{}` is a named pipe: expected a regular file",
        pipe.display()
    );
    let named = pipe.clone();
    let read = at_once(move || {
        read_file(&named, 100, Author::Anyone)
            .unwrap_err()
            .to_string()
    });
    assert_eq!(read, refusal);
    let named = pipe.clone();
    assert_eq!(at_once(move || read_configuration(&named, 100)), None);
    // it took a file's place after the caller looked
    let named = pipe.clone();
    let opened = at_once(move || {
        open::open_kernel_file(&named)
            .map(drop)
            .unwrap_err()
            .to_string()
    });
    assert_eq!(opened, "is a named pipe: expected a regular file");
    let named = pipe.clone();
    let as_tree = at_once(move || {
        Root::directory(&named, Author::Anyone)
            .map(drop)
            .unwrap_err()
            .to_string()
    });
    assert_eq!(
        as_tree,
        format!("`{}` is a named pipe: expected a directory", pipe.display())
    );
    let root = place.root();
    let (text, lines, names, notes) = at_once(move || {
        let mut lines = 0;
        root.lines("sys/class/pipe", |_| lines += 1);
        (
            root.read("sys/class/pipe"),
            lines,
            root.list("sys/class/pipe", |_| true),
            notes(&root),
        )
    });
    assert_eq!((text, lines, names), (None, 0, Vec::new()));
    let note = "`/sys/class/pipe`: it is a named pipe: expected a regular file: not read";
    assert_eq!(notes, [note, note]);
    assert!(directory_descriptor(&pipe).is_err());
}

#[test]
fn devices_and_directories_are_named_for_what_they_are() {
    let refusal = |path: &str| {
        read_file(Path::new(path), 100, Author::Anyone)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refusal("/dev/zero"),
        "`/dev/zero` is a character device: expected a regular file"
    );
    assert_eq!(
        refusal("/proc"),
        "`/proc` is a directory: expected a regular file"
    );
    assert_eq!(
        refusal("/nowhere"),
        "cannot read `/nowhere`: No such file or directory (os error 2)"
    );
    assert_eq!(read_configuration(Path::new("/dev/zero"), 100), None);
}

/// The flags of an open file, as the kernel tells them (Documentation/filesystems/proc.rst).
fn flags(file: &File) -> i32 {
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).unwrap();
    let flags = told
        .lines()
        .find_map(|line| line.strip_prefix("flags:"))
        .unwrap();
    i32::from_str_radix(flags.trim(), 8).unwrap()
}

#[test]
fn what_is_opened_waits_for_nobody_and_stays_in_this_process() {
    let place = Place::new("flags");
    let path = place.file("file", "text");
    for file in [
        open::open_kernel_file(&path).unwrap(),
        open::open_resolved(&path).unwrap(),
    ] {
        let wanted = libc::O_NONBLOCK | libc::O_CLOEXEC;
        assert_eq!(flags(&file) & wanted, wanted);
    }
    symlink(&path, place.0.join("to-file")).unwrap();
    assert!(
        open::open_resolved(&place.0.join("to-file")).is_err(),
        "a link took the place of what was found"
    );
    let descriptor = directory_descriptor(&place.0).unwrap();
    let wanted = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    assert_eq!(flags(&descriptor) & wanted, wanted);
    symlink(&place.0, place.0.join("link")).unwrap();
    assert!(
        directory_descriptor(&place.0.join("link")).is_err(),
        "a link is no directory"
    );
}

#[test]
fn links_in_a_circle_and_out_of_the_tree_lead_nowhere() {
    let place = Place::new("links");
    let outside = Place::new("links-outside");
    outside.file("secret", "secret");
    symlink("circle", place.0.join("sys/class/circle")).unwrap();
    symlink("../class", place.0.join("sys/class/up")).unwrap();
    symlink(outside.0.join("secret"), place.0.join("sys/class/secret")).unwrap();
    symlink(&outside.0, place.0.join("sys/class/outside")).unwrap();
    place.file("sys/class/real", "inside");
    let root = place.root();
    assert_eq!(root.read("sys/class/circle"), None);
    assert_eq!(
        root.list("sys/class/circle", |_| true),
        Vec::<String>::new()
    );
    assert_eq!(
        root.read("sys/class/up/up/up/real").as_deref(),
        Some("inside")
    );
    assert_eq!(root.read("sys/class/secret"), None);
    assert_eq!(root.read("sys/class/outside/secret"), None);
    assert_eq!(
        root.list("sys/class/outside", |_| true),
        Vec::<String>::new()
    );
}

#[test]
fn a_link_that_leads_over_another_link_leads_nowhere_since_a_snapshot_could_not_tell_it() {
    let place = Place::new("over");
    fs::create_dir_all(place.0.join("sys/devices/device")).unwrap();
    place.file("sys/devices/device/file", "1");
    let links = [
        ("good", "../devices/device"),
        ("bad", "good"),
        ("lost", "good/nowhere"),
        ("nowhere", "../nowhere"),
        ("to-nowhere", "nowhere"),
    ];
    for (link, target) in links {
        symlink(target, place.0.join("sys/class").join(link)).unwrap();
    }
    let followed = |root: &Root| {
        let names = root.list("sys/class", |_| true);
        let followed = names
            .iter()
            .filter_map(|name| root.follow(&format!("sys/class/{name}")));
        followed
            .map(|path| (root.read(&format!("{path}/file")), path))
            .collect::<Vec<_>>()
    };
    let mut root = place.root();
    root.record();
    let read = |text: Option<&str>, path: &str| (text.map(str::to_string), path.to_string());
    let expected = [
        read(Some("1"), "sys/devices/device"),
        read(None, "sys/nowhere"),
    ];
    assert_eq!(followed(&root), expected);
    let snapshot = Manifest::parse(&root.recorded().to_string()).unwrap();
    assert_eq!(followed(&Root::manifest(snapshot.clone())), expected);
    // a snapshot edited by hand, where a link's target is a link
    let mut written = snapshot;
    written.insert("sys/class/bad", Entry::Link("good".to_string()));
    assert_eq!(followed(&Root::manifest(written)), expected);
}

#[test]
fn of_several_trees_in_a_directory_the_first_by_name_is_taken_and_none_that_is_elsewhere() {
    let (place, elsewhere) = (Place::new("several"), Place::new("several-elsewhere"));
    fs::remove_dir_all(place.0.join("sys")).unwrap();
    for name in ["c", "b", "d"] {
        fs::create_dir_all(place.0.join(name).join("sys")).unwrap();
        place.file(&format!("{name}/sys/name"), name);
    }
    symlink(&elsewhere.0, place.0.join("a")).unwrap();
    assert_eq!(place.root().read("sys/name").as_deref(), Some("b"));
}

// ---- whose it is ----

#[test]
fn what_others_may_write_to_is_not_gone_by_where_roots_word_is_wanted() {
    if !is_root() {
        return;
    }
    let place = Place::new("author");
    let file = place.file("file", "text");
    let set = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap()
    };
    let read = |author| read_file(&file, 100, author).map_err(|unreadable| unreadable.to_string());
    let tree = |author| {
        Root::directory(&place.0, author)
            .map(drop)
            .map_err(|why| why.to_string())
    };
    let named = file.display();
    for (mode, good) in [
        (0o644, true),
        (0o600, true),
        (0o755, true),
        (0o664, false),
        (0o602, false),
    ] {
        set(&file, mode);
        assert_eq!(read(Author::Anyone).as_deref(), Ok(&b"text"[..]));
        let expected = match good {
            true => Ok(b"text".to_vec()),
            false => Err(format!(
                "`{named}` can be written by others than root: chmod go-w"
            )),
        };
        assert_eq!(read(Author::Root), expected, "{mode:o}");
    }
    set(&file, 0o644);
    chown(&file, Some(65534), None).unwrap();
    assert_eq!(
        read(Author::Root),
        Err(format!(
            "`{named}` belongs to user 65534, not to root: chown root"
        ))
    );
    set(&place.0, 0o755);
    assert_eq!(tree(Author::Root), Ok(()));
    set(&place.0, 0o775);
    let named = place.0.display();
    assert_eq!(
        tree(Author::Root),
        Err(format!(
            "`{named}` can be written by others than root: chmod go-w"
        ))
    );
    assert_eq!(tree(Author::Anyone), Ok(()));
}

#[test]
fn a_tree_inside_the_named_directory_is_held_to_the_same() {
    if !is_root() {
        return;
    }
    let place = Place::new("author-inside");
    fs::remove_dir_all(place.0.join("sys")).unwrap();
    fs::set_permissions(&place.0, fs::Permissions::from_mode(0o755)).unwrap();
    let machine = place.0.join("machine");
    fs::create_dir_all(machine.join("sys")).unwrap();
    fs::set_permissions(&machine, fs::Permissions::from_mode(0o777)).unwrap();
    let refusal = Root::directory(&place.0, Author::Root)
        .map(drop)
        .unwrap_err();
    assert_eq!(Path::new(&refusal.path), machine);
    assert!(matches!(refusal.problem, Obstacle::Writable(_)));
}

// ---- how much of it ----

#[test]
fn a_file_of_procfs_is_read_to_its_end() {
    // some 20 lines for each mapping, so more than the page that one read gives; the last are the kernel's own or the stack's
    let path = "proc/self/smaps";
    let expected = fs::read_to_string(format!("/{path}")).unwrap_or_default();
    if !(4096..Root::MAX_FILE / 2).contains(&expected.len()) {
        println!("skipped: `/{path}` has {} bytes here", expected.len());
        return;
    }
    let names = |text: &str| {
        text.lines()
            .rfind(|line| line.contains('-'))
            .map(str::to_string)
    };
    assert_eq!(names(&Root::live().read(path).unwrap()), names(&expected));
    let mut lines = String::new();
    Root::live().lines(path, |line| lines = format!("{lines}{line}\n"));
    assert_eq!(names(&lines), names(&expected));
}

#[test]
fn an_attribute_of_a_kernel_with_larger_pages_is_read_to_its_end() {
    // aarch64's are of 4, 16 or 64 KiB
    for length in [0, 4095, 4096, 4097, 16384, Root::MAX_FILE] {
        let attribute = vec![b'x'; length];
        let read = read_all(&attribute[..], true);
        assert!(read.is_ok_and(|read| read == attribute), "{length}");
    }
}

#[test]
fn a_file_beyond_the_bound_is_passed_over_with_a_note() {
    let place = Place::new("long");
    place.file("sys/class/fits", &"x".repeat(Root::MAX_FILE));
    place.file("sys/class/long", &"x".repeat(Root::MAX_FILE + 1));
    let root = place.root();
    assert_eq!(
        root.read("sys/class/fits").map(|text| text.len()),
        Some(Root::MAX_FILE)
    );
    assert_eq!(notes(&root), Vec::<String>::new());
    assert_eq!(root.read("sys/class/long"), None);
    assert_eq!(
        notes(&root),
        ["`/sys/class/long`: it is longer than 65536 bytes: not read"]
    );
    let refusal = read_file(
        &place.0.join("sys/class/long"),
        Root::MAX_FILE,
        Author::Anyone,
    )
    .unwrap_err();
    assert!(matches!(refusal.problem, Obstacle::TooLong(Root::MAX_FILE)));
}

/// A table of lines with 128 bytes each, as `/proc/net/route` has them, numbered from 0.
fn table(lines: usize) -> String {
    (0..lines)
        .map(|number| format!("{number:<127}\n"))
        .collect()
}

#[test]
fn a_table_is_read_line_by_line_and_a_cut_leaves_a_note_and_no_part_of_a_line() {
    let place = Place::new("table");
    let fit = Root::MAX_TABLE / 128;
    let part = |text: &str| text[..text.len() - 100].to_string();
    let cut = "`/proc/net/route`: longer than 4194304 bytes: not read to its end";
    for (text, lines, is_cut) in [
        (table(0), 0, false),
        (table(10_000), 10_000, false),
        // without an end of its last line
        (part(&table(10_001)), 10_001, false),
        (table(fit), fit, false),
        (table(fit + 1), fit, true),
        (format!("x{}", table(fit)), fit - 1, true),
        (format!("{}x", table(fit)), fit, true),
    ] {
        place.file("proc/net/route", &text);
        let manifest = {
            let mut manifest = Manifest::default();
            manifest.insert("proc/net/route", Entry::File(text.clone()));
            manifest
        };
        for mut root in [place.root(), Root::manifest(manifest)] {
            root.record();
            let mut found = Vec::new();
            root.lines("proc/net/route", |line| found.push(line.to_string()));
            assert_eq!(found.len(), lines);
            assert!(
                found
                    .iter()
                    .map(String::as_str)
                    .eq(text.lines().take(lines).map(str::trim_end))
            );
            assert_eq!(
                notes(&root),
                if is_cut { vec![cut] } else { Vec::new() },
                "{lines} lines"
            );
            let recorded = Entry::File(found.join("\n"));
            assert_eq!(root.recorded().get("proc/net/route"), Some(&recorded));
        }
    }
    place
        .root()
        .lines("proc/net/nothing", |line| panic!("{line}"));
}

#[test]
fn a_line_that_is_not_utf8_costs_no_other() {
    let place = Place::new("utf8");
    fs::write(place.0.join("proc/net/route"), b"one\ntw\xffo\nthree\n").unwrap();
    let mut found = Vec::new();
    place
        .root()
        .lines("proc/net/route", |line| found.push(line.to_string()));
    assert_eq!(found, ["one", "tw\u{fffd}o", "three"]);
}

#[test]
fn a_configuration_file_beyond_the_bound_says_so() {
    let place = Place::new("configuration");
    let path = place.file("nccl.conf", "NCCL_DEBUG=1\n");
    let read = |limit| read_configuration(&path, limit).unwrap();
    assert_eq!(
        read(13),
        Beginning {
            text: "NCCL_DEBUG=1\n".to_string(),
            is_cut: false
        }
    );
    assert_eq!(
        read(12),
        Beginning {
            text: "NCCL_DEBUG=1".to_string(),
            is_cut: true
        }
    );
}

#[test]
fn a_directory_with_more_names_than_any_has_is_seen_in_part_with_a_note() {
    let place = Place::new("names");
    for number in 0..=Root::MAX_ENTRIES {
        File::create(place.0.join(format!("sys/class/{number}"))).unwrap();
    }
    let root = place.root();
    assert_eq!(root.list("sys/class", |_| true).len(), Root::MAX_ENTRIES);
    assert_eq!(
        notes(&root),
        ["`/sys/class`: more than 16384 entries: the others are not seen"]
    );
    fs::remove_file(place.0.join("sys/class/0")).unwrap();
    assert_eq!(root.list("sys/class", |_| true).len(), Root::MAX_ENTRIES);
    assert_eq!(notes(&root), Vec::<String>::new());
}

#[test]
fn notes_are_bounded_too() {
    let place = Place::new("notes");
    let root = place.root();
    for number in 0..100 {
        place.file(
            &format!("sys/class/{number}"),
            &"x".repeat(Root::MAX_FILE + 1),
        );
        root.read(&format!("sys/class/{number}"));
    }
    assert_eq!(notes(&root).len(), 32);
}
