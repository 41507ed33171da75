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
fn a_manifest_is_read_and_written_back_byte_for_byte() {
    // the empty line inside a block has no space after its bar
    let manifest = parse(SMALL).unwrap();
    assert_eq!(text(&manifest).replace("| \n", "|\n"), SMALL);
    assert_eq!(
        manifest.list("sys/devices/pci0000:15/0000:1b:00.0"),
        ["label", "net", "numa_node"]
    );
    assert_eq!(manifest.list("sys/nowhere"), Vec::<String>::new());
}

#[test]
fn carriage_returns_in_a_files_text_stay_and_those_of_an_editor_go() {
    let manifest = parse("# nic-placement machine 1\nsys/a\n| one\r\r\n| two\rthree\n").unwrap();
    assert_eq!(
        manifest.get("sys/a"),
        Some(&Entry::File("one\r\r\ntwo\rthree".to_string()))
    );
    assert_eq!(parse(&text(&manifest)), Ok(manifest));
    let edited = SMALL.replace('\n', "\r\n");
    assert_eq!(parse(&edited), parse(SMALL));
}

#[test]
fn names_and_targets_that_no_line_can_hold_are_escaped_and_read_back() {
    let mut manifest = Manifest::default();
    for name in [
        "sys/a = b",
        "sys/a -> b",
        "sys/a\nb",
        "sys/\u{1b}\u{2028}",
        "sys/a\\u{20}b",
        "sys/a\\",
        "sys/ ",
    ] {
        manifest.insert(&format!("{name}/file"), Entry::File("1".to_string()));
        manifest.insert(&format!("{name}/folder "), Entry::Directory);
        manifest.insert(
            &format!("{name}/link"),
            Entry::Link(format!("../{}\n", &name[4..])),
        );
    }
    let written = text(&manifest);
    assert_eq!(written.lines().count(), 1 + 7 * 3);
    assert_eq!(parse(&written), Ok(manifest));
    let hidden = "# nic-placement machine 1\nsys/\\u{2e}./\\u{2e}\\u{2e}/etc/passwd = x\n";
    assert!(
        parse(hidden)
            .unwrap_err()
            .to_string()
            .contains("is not a path")
    );
    let hidden = "# nic-placement machine 1\nsys/a -> ../\\u{2e}\\u{2e}/etc\n";
    assert!(
        parse(hidden)
            .unwrap_err()
            .to_string()
            .contains("leaves the tree")
    );
}

#[test]
fn a_hostile_manifest_is_refused_with_the_line_and_the_reason() {
    for (text, reason) in [
        ("", "expected `# nic-placement machine 1`"),
        (
            "# nic-placement machine 2\n",
            "found `# nic-placement machine 2`",
        ),
        (
            "# nic-placement machine 1\n| lost\n",
            "line 2: text that belongs to no file",
        ),
        (
            "# nic-placement machine 1\nsys/../etc/passwd = x\n",
            "line 2: `sys/../etc/passwd` is not a path",
        ),
        (
            "# nic-placement machine 1\n/etc/passwd = x\n",
            "line 2: `/etc/passwd` is not a path",
        ),
        (
            "# nic-placement machine 1\nsys/a -> ../../etc\n",
            "line 2: the link's target `../../etc` leaves",
        ),
        (
            "# nic-placement machine 1\nsys/a hello\n",
            "line 2: expected ` = text` or ` -> target`",
        ),
        (
            "# nic-placement machine 1\nsys/a -> b\nsys/a/c = 1\n",
            "`sys/a/c` lies below `sys/a`",
        ),
        (
            // in the order of paths `a-b` stands between
            "# nic-placement machine 1\nsys/a = 1\nsys/a-b = 1\nsys/a/b/c/\n",
            "`sys/a/b/c` lies below `sys/a`",
        ),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(reason), "`{text}` gave `{error}`");
    }
}

#[test]
fn what_is_refused_is_shown_on_one_line() {
    for text in [
        "\u{1b}[2J",
        "# nic-placement machine 1\nsys/\0 a",
        "# nic-placement machine 1\nsys/a -> ../../\u{202e}",
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(!error.chars().any(disturbs), "{error:?}");
    }
}

#[test]
fn a_link_is_resolved_where_it_stands_and_never_above_the_root() {
    assert_eq!(
        normalise("sys/class/net/eth0", "../../devices/x").as_deref(),
        Some("sys/devices/x")
    );
    assert_eq!(normalise("sys/a", "/sys/b").as_deref(), Some("sys/b"));
    assert_eq!(normalise("sys/a", "../../x"), None);
}
