//! Manifests read, written and refused.

use super::*;

const SMALL: &str = "# nic-placement machine 1
proc/driver/nvidia/gpus/0000:1b:00.0/information
| Model: \t\t NVIDIA H100
|
| Device Minor: \t 0
sys/bus/pci/devices/0000:1b:00.0 -> ../../../devices/pci0000:15/0000:1b:00.0
sys/devices/pci0000:15/0000:1b:00.0/label =
sys/devices/pci0000:15/0000:1b:00.0/net/
sys/devices/pci0000:15/0000:1b:00.0/numa_node = -1
";

#[test]
fn a_manifest_is_written_back_byte_for_byte_with_the_carriage_returns_of_its_files() {
    // the empty line inside a block has no space after its bar
    let manifest = parse(SMALL).unwrap();
    assert_eq!(text(&manifest).replace("| \n", "|\n"), SMALL);
    let names = manifest.list("sys/devices/pci0000:15/0000:1b:00.0");
    assert_eq!(names, ["label", "net", "numa_node"]);
    assert!(manifest.list("sys/nowhere").is_empty());
    let manifest = parse("# nic-placement machine 1\nsys/a\n| one\r\r\n| two\rthree\n").unwrap();
    let kept = Entry::File("one\r\r\ntwo\rthree".to_string());
    assert_eq!(manifest.get("sys/a"), Some(&kept));
    assert_eq!(parse(&text(&manifest)), Ok(manifest));
    let edited = SMALL.replace('\n', "\r\n");
    assert_eq!(parse(&edited), parse(SMALL));
}

#[test]
fn names_and_targets_that_no_line_can_hold_are_escaped_and_read_back() {
    let mut manifest = Manifest::default();
    let names = "sys/a = b|sys/a -> b|sys/a\nb|sys/\u{1b}\u{2028}|sys/a\\u{20}b|sys/a\\|sys/ ";
    for name in names.split('|') {
        let link = Entry::Link(format!("../{}\n", &name[4..]));
        manifest.insert(&format!("{name}/file"), Entry::File("1".to_string()));
        manifest.insert(&format!("{name}/folder "), Entry::Directory);
        manifest.insert(&format!("{name}/link"), link);
    }
    let written = text(&manifest);
    assert_eq!(written.lines().count(), 1 + 7 * 3);
    assert_eq!(parse(&written), Ok(manifest));
}

#[test]
fn a_hostile_manifest_is_refused_with_the_line_and_the_reason() {
    for (text, reason) in [
        ("| lost\n", "line 2: text that belongs"),
        ("sys/../etc/passwd = x\n", "line 2: `sys/../etc/passwd`"),
        ("/etc/passwd = x\n", "line 2: `/etc/passwd` is not"),
        ("sys/\\u{2e}./\\u{2e}\\u{2e}/etc = x\n", "is not a path"),
        ("sys/a -> ../../etc\n", "line 2: the link's target"),
        ("sys/a -> ../\\u{2e}\\u{2e}/etc\n", "leaves the tree"),
        ("sys/a hello\n", "line 2: expected ` = text`"),
        ("sys/a -> b\nsys/a/c = 1\n", "`sys/a/c` lies below `sys/a`"),
        // in the order of paths `a-b` stands between
        ("sys/a = 1\nsys/a-b = 1\nsys/a/b/c/\n", "`sys/a/b/c` lies"),
    ] {
        let error = parse(&format!("# nic-placement machine 1\n{text}")).unwrap_err();
        assert!(error.to_string().contains(reason), "`{text}`: {error}");
    }
    for text in ["", "# nic-placement machine 2\n"] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains("expected `# nic-placement machine 1`"));
    }
}

#[test]
fn a_link_is_resolved_where_it_stands_and_never_above_the_root() {
    for (path, target, wanted) in [
        ("sys/class/net/e", "../../devices/x", Some("sys/devices/x")),
        ("sys/a", "/sys/b", Some("sys/b")),
        ("sys/a", "../../x", None),
    ] {
        let found = normalise(path, target);
        assert_eq!(found.as_deref(), wanted, "{path} {target}");
    }
}
