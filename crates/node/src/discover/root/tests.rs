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
        let name = format!("nic-placement-root-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
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

    fn link(&self, name: &str, target: impl AsRef<Path>) -> PathBuf {
        let path = self.0.join(name);
        symlink(target, &path).unwrap();
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

/// The answer of `read`; one that waits fails the test instead of hanging it.
fn at_once<T: Send + 'static>(read: impl FnOnce() -> T + Send + 'static) -> T {
    let (answer, answered) = mpsc::channel();
    std::thread::spawn(move || answer.send(read()));
    let limit = Duration::from_secs(30);
    answered.recv_timeout(limit).expect("it waits")
}

fn notes(root: &Root) -> Vec<String> {
    root.notes().iter().map(ToString::to_string).collect()
}

fn is_root() -> bool {
    let is = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is {
        println!("skipped: not root");
    }
    is
}

/// The problem of a path that is not read.
fn refused(path: &Path, author: Author) -> Obstacle {
    let unreadable = read_file(path, 100, author).unwrap_err();
    assert_eq!(Path::new(&unreadable.path), path);
    unreadable.problem
}

// ---- what is no file ----

#[test]
fn a_pipe_is_not_waited_for_wherever_it_stands() {
    let place = Place::new("pipe");
    let pipe = place.0.join("sys/class/pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let (root, named) = (place.root(), pipe.clone());
    at_once(move || {
        let no_file = |problem| matches!(problem, Obstacle::Kind("a named pipe", "a regular file"));
        assert!(no_file(refused(&named, Author::Anyone)));
        assert_eq!(read_configuration(&named, 100), None);
        // it took a file's place after the caller looked
        let as_file = open::open_kernel_file(&named).map(drop);
        assert!(no_file(as_file.unwrap_err()));
        let as_tree = Root::directory(&named, Author::Anyone).map(drop);
        let no_directory = Obstacle::Kind("a named pipe", "a directory").to_string();
        assert_eq!(as_tree.unwrap_err().problem.to_string(), no_directory);
        root.lines("sys/class/pipe", |line| panic!("{line}"));
        assert_eq!(root.read("sys/class/pipe"), None);
        assert_eq!(root.list("sys/class/pipe", |_| true), [""; 0]);
        let notes = notes(&root);
        let told = "`/sys/class/pipe`: it is a named pipe";
        assert_eq!(notes.len(), 2);
        assert!(notes.iter().all(|note| note.starts_with(told)));
    });
    assert!(directory_descriptor(&pipe).is_err());
}

#[test]
fn devices_and_directories_are_named_for_what_they_are() {
    let of = |path: &str| refused(Path::new(path), Author::Anyone);
    let zero = of("/dev/zero");
    assert!(matches!(zero, Obstacle::Kind("a character device", _)));
    assert!(matches!(of("/proc"), Obstacle::Kind("a directory", _)));
    assert!(of("/nowhere").is_absent());
    assert_eq!(read_configuration(Path::new("/dev/zero"), 100), None);
}

/// The flags of an open file, as the kernel tells them (Documentation/filesystems/proc.rst).
fn flags(file: &File) -> i32 {
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).unwrap();
    let mut lines = told.lines();
    let flags = lines.find_map(|line| line.strip_prefix("flags:")).unwrap();
    i32::from_str_radix(flags.trim(), 8).unwrap()
}

#[test]
fn an_open_file_waits_for_no_other_and_stays_in_this_process() {
    let place = Place::new("flags");
    let path = place.file("file", "text");
    let no_wait = libc::O_NONBLOCK | libc::O_CLOEXEC;
    for (file, wanted) in rows! {
        open::open_kernel_file(&path).unwrap(), no_wait;
        open::open_resolved(&path).unwrap(), no_wait;
        directory_descriptor(&place.0).unwrap(), libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    } {
        assert_eq!(flags(&file) & wanted, wanted);
    }
    // a link took the place of the file, and of the directory
    assert!(open::open_resolved(&place.link("to-file", &path)).is_err());
    assert!(directory_descriptor(&place.link("link", &place.0)).is_err());
}

#[test]
fn links_in_a_circle_and_out_of_the_tree_lead_nowhere() {
    let (place, outside) = (Place::new("links"), Place::new("links-outside"));
    let secret = outside.file("secret", "secret");
    place.file("sys/class/real", "inside");
    place.link("sys/class/circle", "circle");
    place.link("sys/class/up", "../class");
    place.link("sys/class/secret", &secret);
    place.link("sys/class/outside", &outside.0);
    let root = place.root();
    for (path, text) in rows! {
        "circle", None; "up/up/up/real", Some("inside"); "secret", None; "outside/secret", None;
    } {
        let found = root.read(&format!("sys/class/{path}"));
        assert_eq!(found.as_deref(), text, "{path}");
    }
    for path in ["sys/class/circle", "sys/class/outside"] {
        assert_eq!(root.list(path, |_| true), [""; 0], "{path}");
    }
}

#[test]
fn a_link_that_leads_over_another_link_leads_nowhere_since_a_snapshot_could_not_tell_it() {
    let place = Place::new("over");
    fs::create_dir_all(place.0.join("sys/devices/device")).unwrap();
    place.file("sys/devices/device/file", "1");
    for (link, target) in rows! {
        "good", "../devices/device"; "bad", "good"; "lost", "good/nowhere"; "nowhere", "../nowhere";
        "to-nowhere", "nowhere";
    } {
        place.link(&format!("sys/class/{link}"), target);
    }
    let followed = |root: &Root| {
        let names = root.list("sys/class", |_| true).into_iter();
        let followed = names.filter_map(|name| root.follow(&format!("sys/class/{name}")));
        let read = |path: String| (root.read(&format!("{path}/file")), path);
        followed.map(read).collect::<Vec<_>>()
    };
    let mut root = place.root();
    root.record();
    let expected = [(Some("1"), "sys/devices/device"), (None, "sys/nowhere")];
    let expected = expected.map(|(text, path)| (text.map(str::to_string), path.to_string()));
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
    place.link("a", &elsewhere.0);
    assert_eq!(place.root().read("sys/name").as_deref(), Some("b"));
}

// ---- whose it is ----

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_or_tree_that_others_may_write_to_is_refused_where_roots_word_is_wanted() {
    if !is_root() {
        return;
    }
    let place = Place::new("author");
    let file = place.file("file", "text");
    for (mode, is_good) in rows! {
        0o644, true; 0o600, true; 0o755, true; 0o664, false; 0o602, false;
    } {
        set_mode(&file, mode);
        assert_eq!(read_file(&file, 100, Author::Anyone).unwrap(), b"text");
        if is_good {
            assert_eq!(read_file(&file, 100, Author::Root).unwrap(), b"text");
            continue;
        }
        let refusal = refused(&file, Author::Root);
        assert!(matches!(refusal, Obstacle::Writable(_)));
    }
    set_mode(&file, 0o644);
    chown(&file, Some(65534), None).unwrap();
    let refusal = refused(&file, Author::Root);
    assert!(matches!(refusal, Obstacle::Owner(65534)));
    let tree = |place: &Place| Root::directory(&place.0, Author::Root).map(drop);
    set_mode(&place.0, 0o755);
    assert!(tree(&place).is_ok());
    set_mode(&place.0, 0o775);
    place.root();
    // a tree inside the named directory is held to the same
    let outer = Place::new("author-inside");
    fs::remove_dir_all(outer.0.join("sys")).unwrap();
    set_mode(&outer.0, 0o755);
    let machine = outer.0.join("machine");
    fs::create_dir_all(machine.join("sys")).unwrap();
    set_mode(&machine, 0o777);
    for (place, path) in [(&place, &place.0), (&outer, &machine)] {
        let refusal = tree(place).unwrap_err();
        assert_eq!(Path::new(&refusal.path), path);
        assert!(matches!(refusal.problem, Obstacle::Writable(_)));
    }
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
    let last = |text: &str| {
        text.lines()
            .rfind(|line| line.contains('-'))
            .map(str::to_string)
    };
    assert_eq!(last(&Root::live().read(path).unwrap()), last(&expected));
    let mut lines = String::new();
    Root::live().lines(path, |line| lines = format!("{lines}{line}\n"));
    assert_eq!(last(&lines), last(&expected));
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
    let fits = root.read("sys/class/fits").unwrap();
    assert_eq!(fits.len(), Root::MAX_FILE);
    assert_eq!(notes(&root), [""; 0]);
    assert_eq!(root.read("sys/class/long"), None);
    let note = "`/sys/class/long`: it is longer than 65536";
    assert!(notes(&root).concat().starts_with(note));
    let long = place.0.join("sys/class/long");
    let refusal = read_file(&long, Root::MAX_FILE, Author::Anyone).unwrap_err();
    assert!(matches!(refusal.problem, Obstacle::TooLong(Root::MAX_FILE)));
}

/// A table of lines with 128 bytes each, as `/proc/net/route` has them, numbered from 0.
fn table(lines: usize) -> String {
    let line = |number| format!("{number:<127}\n");
    (0..lines).map(line).collect()
}

#[test]
fn a_table_is_read_line_by_line_and_a_cut_leaves_a_note_and_no_part_of_a_line() {
    const PATH: &str = "proc/net/route";
    let place = Place::new("table");
    let fit = Root::MAX_TABLE / 128;
    let part = |text: &str| text[..text.len() - 100].to_string();
    for (text, lines, is_cut) in rows! {
        table(0), 0, false; table(10_000), 10_000, false;
        // without an end of its last line
        part(&table(10_001)), 10_001, false; table(fit), fit, false; table(fit + 1), fit, true;
        format!("x{}", table(fit)), fit - 1, true; format!("{}x", table(fit)), fit, true;
    } {
        place.file(PATH, &text);
        let mut manifest = Manifest::default();
        manifest.insert(PATH, Entry::File(text.clone()));
        for mut root in [place.root(), Root::manifest(manifest)] {
            root.record();
            let mut found = Vec::new();
            root.lines(PATH, |line| found.push(line.to_string()));
            assert_eq!(found.len(), lines);
            let expected: Vec<&str> = text.lines().take(lines).map(str::trim_end).collect();
            assert!(found == expected);
            let notes = notes(&root).concat();
            let start = "`/proc/net/route`: longer than 4194304 bytes";
            assert_eq!(notes.starts_with(start), is_cut, "{lines} lines");
            assert_eq!(notes.is_empty(), !is_cut, "{lines} lines");
            let recorded = Entry::File(found.join("\n"));
            assert_eq!(root.recorded().get(PATH), Some(&recorded));
        }
    }
    let nothing = place.root();
    nothing.lines("proc/net/nothing", |line| panic!("{line}"));
    // a line that is not UTF-8 costs no other
    fs::write(place.0.join("proc/net/route"), b"one\ntw\xffo\nthree\n").unwrap();
    let mut found = Vec::new();
    let root = place.root();
    root.lines("proc/net/route", |line| found.push(line.to_string()));
    assert_eq!(found, ["one", "tw\u{fffd}o", "three"]);
}

#[test]
fn a_configuration_file_beyond_the_bound_says_so() {
    let place = Place::new("configuration");
    let path = place.file("nccl.conf", "NCCL_DEBUG=1\n");
    for (limit, text, is_cut) in [(13, "NCCL_DEBUG=1\n", false), (12, "NCCL_DEBUG=1", true)] {
        let read = read_configuration(&path, limit).unwrap();
        assert_eq!((read.text.as_str(), read.is_cut), (text, is_cut));
    }
}

#[test]
fn a_directory_with_more_names_than_any_has_is_seen_in_part_with_a_note() {
    let place = Place::new("names");
    for number in 0..=Root::MAX_ENTRIES {
        File::create(place.0.join(format!("sys/class/{number}"))).unwrap();
    }
    let root = place.root();
    for start in ["`/sys/class`: more than 16384 entries", ""] {
        assert_eq!(root.list("sys/class", |_| true).len(), Root::MAX_ENTRIES);
        let notes = notes(&root).concat();
        assert!(notes.starts_with(start) && notes.is_empty() == start.is_empty());
        let _ = fs::remove_file(place.0.join("sys/class/0"));
    }
}

#[test]
fn notes_are_bounded_too() {
    let place = Place::new("notes");
    let root = place.root();
    for number in 0..100 {
        let path = format!("sys/class/{number}");
        place.file(&path, &"x".repeat(Root::MAX_FILE + 1));
        root.read(&path);
    }
    assert_eq!(notes(&root).len(), 32);
}
