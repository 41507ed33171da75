//! The snippets and recipes: that the plugin understands their lines, that the packages have the paths which they name, and
//! that each program which reads such a file accepts it, where it is here.

use super::{path, read};
use nic_placement_core::config::Admin;
use std::process::{Command, Stdio};

/// Does a package hold this path?
fn is_packed(wanted: &str) -> bool {
    read("packaging/contents.txt")
        .lines()
        .any(|line| line.split(' ').next() == Some(wanted))
}

/// A line of plugstack.conf: `optional`, the packages' library, and arguments that are understood.
fn is_understood(line: &str, file: &str) {
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("optional"), "{file}: `{line}`");
    let library = words
        .next()
        .unwrap_or_default()
        .replace("@plugin@", "/usr/lib/nic-placement/libnic_placement.so");
    assert!(is_packed(&library), "{file}: `{library}` is in no package");
    let (_, diagnostics) = Admin::parse(words);
    assert_eq!(diagnostics, [], "{file}: `{line}`");
}

/// `None`, and a line, where the program is not here.
fn accepts(program: &str, arguments: &[&str], input: Option<&str>) -> Option<String> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(path(""))
        .stdin(Stdio::null());
    if let Some(file) = input {
        command.stdin(std::fs::File::open(path(file)).unwrap());
    }
    let Ok(output) = command.output() else {
        println!("skipped: there is no `{program}`");
        return None;
    };
    assert!(
        output.status.success(),
        "{program} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_lines_that_packages_bring_are_understood_and_name_what_they_hold() {
    let shared = read("packaging/plugstack/share.conf");
    let lines: Vec<&str> = shared
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    is_understood(lines[0], "share.conf");
}

/// YAML as a list of `path: value`, by python's reader.
fn yaml(file: &str) -> Option<String> {
    let probe = Command::new("python3").args(["-c", "import yaml"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no python3 with yaml");
        return None;
    }
    accepts(
        "python3",
        &[
            "-c",
            "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))",
        ],
        Some(file),
    )
}

#[test]
fn slinkys_values_include_a_folder_that_both_images_have() {
    let text = read("packaging/slinky/values.yaml");
    let line = text
        .lines()
        .map(str::trim)
        .find(|line| line.starts_with("include /usr/share/nic-placement"));
    let pattern = line
        .and_then(|line| line.strip_prefix("include "))
        .expect("the include");
    let folder = pattern
        .strip_suffix("/*.conf")
        .expect("a pattern, so that an image without the package goes on");
    assert!(
        is_packed(&format!("{folder}/90-nic-placement.conf")),
        "{folder}"
    );
    let pyxis = text.find("include /usr/share/pyxis").expect("pyxis");
    assert!(
        pyxis < text.find("include /usr/share/nic-placement").unwrap(),
        "pyxis comes before"
    );
    for image in ["slurmd", "login"] {
        let file = read(&format!("packaging/slinky/Dockerfile.{image}"));
        assert!(
            file.contains(&format!("-f Dockerfile.{image} "))
                && file.contains("ARG BASE\nFROM ${BASE}\n")
        );
        assert!(
            text.contains(&format!("repository: MY/{image}"))
                && file.contains("/usr/lib/nic-placement/")
        );
    }
    if let Some(parsed) = yaml("packaging/slinky/values.yaml") {
        let values: serde_json::Value = serde_json::from_str(&parsed).expect("JSON");
        let lines = values["configFiles"]["plugstack.conf"]
            .as_str()
            .expect("a text");
        assert!(
            lines.lines().all(|line| line.starts_with("include /")),
            "{lines}"
        );
    }
}

#[test]
fn soperators_entry_becomes_a_line_that_is_understood() {
    let Some(parsed) = yaml("packaging/soperator/values.yaml") else {
        return;
    };
    let values: serde_json::Value = serde_json::from_str(&parsed).expect("JSON");
    let plugins = values["plugStackConfig"]["customPlugins"]
        .as_array()
        .expect("a list");
    for plugin in plugins {
        assert_eq!(plugin["required"], false);
        let arguments = plugin["arguments"].as_object().expect("a map");
        let words = arguments
            .iter()
            .map(|(name, value)| format!(" {name}={}", value.as_str().expect("a text")));
        let line = format!(
            "optional {}{}",
            plugin["path"].as_str().expect("a path"),
            words.collect::<String>()
        );
        is_understood(&line, "soperator");
    }
    assert_eq!(plugins.len(), 1);
}

#[test]
fn spacks_recipe_is_python_and_of_this_version() {
    let file = "packaging/spack/packages/nic_placement/package.py";
    let text = read(file);
    assert!(
        text.contains(&format!("    version(\"{}\")\n", env!("CARGO_PKG_VERSION"))),
        "{text}"
    );
    let rust = read("Cargo.toml")
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \"").map(str::to_string));
    assert!(
        text.contains(&format!(
            "rust@{}:",
            rust.expect("a version").trim_end_matches('"')
        )),
        "{text}"
    );
    // what stands for Spack's own modules says what would be run
    let spack = r#"
import sys, types
class Prefix(str):
    def __getattr__(self, name): return Prefix(self + "/" + name)
for name in ["spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems", "spack", "spack.package"]:
    sys.modules[name] = types.ModuleType(name)
makefile = sys.modules["spack_repo.builtin.build_systems.makefile"] = types.ModuleType("makefile")
makefile.MakefilePackage = object
for name in ["license", "version", "depends_on", "make"]:
    setattr(sys.modules["spack.package"], name, lambda *words, name=name, **_: print(name, *words))
found = {}
exec(compile(sys.stdin.read(), "package.py", "exec"), found)
package = found["NicPlacement"]()
package.build(None, Prefix("/opt/p"))
package.install(None, Prefix("/opt/p"))
"#;
    if let Some(run) = accepts("python3", &["-c", spack], Some(file)) {
        let called: Vec<&str> = run
            .lines()
            .filter(|line| line.starts_with("make "))
            .collect();
        assert_eq!(
            called,
            [
                "make build",
                "make install prefix=/opt/p unitdir=/opt/p/lib/systemd/system"
            ]
        );
    }
}

#[test]
fn no_package_depends_on_slurm() {
    let control = read("packaging/deb/control");
    let depends: Vec<&str> = control
        .lines()
        .filter(|line| line.starts_with("Depends:"))
        .collect();
    let own = "Depends: libnic-placement-core0 (= @version@)";
    assert!(
        depends
            .iter()
            .all(|line| [own, "Depends: libc6 (>= @glibc@)"].contains(line)),
        "{depends:?}"
    );
    let spec = read("packaging/rpm/nic-placement.spec");
    let required: Vec<&str> = spec
        .lines()
        .filter(|line| line.starts_with("Requires:"))
        .collect();
    assert_eq!(
        required,
        ["Requires:       libnic-placement-core0 = %{nicp_version}-%{nicp_release}"]
    );
}

#[test]
fn the_scripts_of_packages_are_sh_and_end_well_whatever_they_are_told() {
    let scripts = ["postinst", "prerm", "postrm"].map(|script| format!("nic-placement.{script}"));
    for script in scripts
        .into_iter()
        .chain(["slurm-spank-nic-placement.postrm".to_string()])
    {
        let file = format!("packaging/deb/{script}");
        assert!(
            read(&file).starts_with("#!/bin/sh\n") && read(&file).contains("\nset -e\n"),
            "{script}"
        );
        accepts("sh", &["-n", &file], None);
        // dpkg's own words for what failed half-way
        for word in [
            "abort-upgrade",
            "abort-remove",
            "failed-upgrade",
            "upgrade",
            "disappear",
        ] {
            accepts("sh", &[&file, word, "0.0.1"], None);
        }
    }
    for script in [
        "packaging/package.sh",
        "packaging/portable.sh",
        "packaging/dist.sh",
    ] {
        accepts("bash", &["-n", script], None);
    }
}
