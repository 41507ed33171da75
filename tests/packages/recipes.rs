//! The snippets and recipes: that the plugin understands their lines, that the packages have the paths which they name, and
//! that each program which reads such a file accepts it, where it is here.

use super::{Answer, path, read};
use nic_placement_core::config::Admin;
use std::process::{Command, Stdio};

/// Does a package hold this path?
fn is_packed(wanted: &str) -> bool {
    let contents = read("packaging/contents.txt");
    let mut lines = contents.lines();
    lines.any(|line| line.split(' ').next() == Some(wanted))
}

/// A line of plugstack.conf: `optional`, the packages' library, and arguments that are understood.
fn is_understood(line: &str, file: &str) {
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("optional"), "{file}: `{line}`");
    let library = words.next().unwrap_or_default();
    let library = library.replace("@plugin@", "/usr/lib/nic-placement/libnic_placement.so");
    assert!(is_packed(&library), "{file}: `{library}` is in no package");
    let (_, diagnostics) = Admin::parse(words);
    assert_eq!(diagnostics, [], "{file}: `{line}`");
}

/// `None`, and a line, where the program is not here.
fn accepts(program: &str, arguments: &[&str], input: Option<&str>) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments);
    command.current_dir(path("")).stdin(Stdio::null());
    if let Some(file) = input {
        command.stdin(std::fs::File::open(path(file)).unwrap());
    }
    let Ok(output) = command.output() else {
        println!("skipped: there is no `{program}`");
        return None;
    };
    let answer = Answer::new(&format!("{program} {arguments:?}"), output);
    answer.ends(0);
    Some(answer.out)
}

#[test]
fn the_lines_that_packages_bring_are_understood_and_name_what_they_hold() {
    let shared = read("packaging/plugstack/share.conf");
    let lines = shared.lines();
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    is_understood(lines[0], "share.conf");
}

/// YAML as a list of `path: value`, by python's reader.
fn yaml(file: &str) -> Option<serde_json::Value> {
    let probe = Command::new("python3").args(["-c", "import yaml"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        println!("skipped: there is no python3 with yaml");
        return None;
    }
    let text = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))";
    let parsed = accepts("python3", &["-c", text], Some(file))?;
    Some(serde_json::from_str(&parsed).expect("JSON"))
}

#[test]
fn slinkys_values_include_a_folder_that_both_images_have() {
    let text = read("packaging/slinky/values.yaml");
    let mut lines = text.lines().map(str::trim);
    let line = lines.find(|line| line.starts_with("include /usr/share/nic-placement"));
    // a pattern, so that an image without the package goes on
    let folder = line.and_then(|line| line.strip_prefix("include ")?.strip_suffix("/*.conf"));
    let folder = folder.expect("a pattern");
    assert!(is_packed(&format!("{folder}/90-nic-placement.conf")));
    let [pyxis, own] =
        ["pyxis", "nic-placement"].map(|name| text.find(&format!("include /usr/share/{name}")));
    assert!(pyxis.is_some() && pyxis < own, "pyxis comes before");
    for image in ["slurmd", "login"] {
        let file = read(&format!("packaging/slinky/Dockerfile.{image}"));
        let build = format!("-f Dockerfile.{image} ");
        for part in [
            &build,
            "ARG BASE\nFROM ${BASE}\n",
            "/usr/lib/nic-placement/",
        ] {
            assert!(file.contains(part), "{image}: {part}");
        }
        assert!(text.contains(&format!("repository: MY/{image}")));
    }
    if let Some(values) = yaml("packaging/slinky/values.yaml") {
        let lines = &values["configFiles"]["plugstack.conf"];
        let lines = lines.as_str().expect("a text");
        let is_so = lines.lines().all(|line| line.starts_with("include /"));
        assert!(is_so, "{lines}");
    }
}

#[test]
fn soperators_entry_becomes_a_line_that_is_understood() {
    let values = yaml("packaging/soperator/values.yaml");
    let Some(values) = values else { return };
    let plugins = &values["plugStackConfig"]["customPlugins"];
    let plugins = plugins.as_array().expect("a list");
    for plugin in plugins {
        assert_eq!(plugin["required"], false);
        let mut line = format!("optional {}", plugin["path"].as_str().expect("a path"));
        for (name, value) in plugin["arguments"].as_object().expect("a map") {
            line += &format!(" {name}={}", value.as_str().expect("a text"));
        }
        is_understood(&line, "soperator");
    }
    assert_eq!(plugins.len(), 1);
}

#[test]
fn spacks_recipe_is_python_and_of_this_version() {
    let file = "packaging/spack/packages/nic_placement/package.py";
    let text = read(file);
    let manifest = read("Cargo.toml");
    let mut lines = manifest.lines();
    let rust = lines.find_map(|line| line.strip_prefix("rust-version = \""));
    let rust = rust.expect("a version").trim_end_matches('"');
    let version = format!("    version(\"{}\")\n", env!("CARGO_PKG_VERSION"));
    for part in [version, format!("rust@{rust}:")] {
        assert!(text.contains(&part), "{part}: {text}");
    }
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
        let called = run.lines();
        let called: Vec<&str> = called.filter(|line| line.starts_with("make ")).collect();
        let install = "make install prefix=/opt/p unitdir=/opt/p/lib/systemd/system";
        assert_eq!(called, ["make build", install]);
    }
}

#[test]
fn no_package_depends_on_slurm() {
    let control = read("packaging/deb/control");
    let own = "Depends: libnic-placement-core0 (= @version@)";
    let mut depends = control.lines().filter(|line| line.starts_with("Depends:"));
    let other = depends.find(|line| ![own, "Depends: libc6 (>= @glibc@)"].contains(line));
    assert_eq!(other, None);
    let spec = read("packaging/rpm/nic-placement.spec");
    let required = spec.lines().filter(|line| line.starts_with("Requires:"));
    let required: Vec<&str> = required.collect();
    let own = "Requires:       libnic-placement-core0 = %{nicp_version}-%{nicp_release}";
    assert_eq!(required, [own]);
}

#[test]
fn the_scripts_of_packages_are_sh_and_end_well_whatever_they_are_told() {
    let scripts = "nic-placement.postinst nic-placement.prerm nic-placement.postrm \
                   slurm-spank-nic-placement.postrm";
    for script in scripts.split(' ') {
        let file = format!("packaging/deb/{script}");
        let text = read(&file);
        let is_so = text.starts_with("#!/bin/sh\n") && text.contains("\nset -e\n");
        assert!(is_so, "{script}");
        accepts("sh", &["-n", &file], None);
        // dpkg's own words for what failed half-way
        for word in "abort-upgrade abort-remove failed-upgrade upgrade disappear".split(' ') {
            accepts("sh", &[&file, word, "0.0.1"], None);
        }
    }
    for script in ["package", "portable", "dist"] {
        accepts("bash", &["-n", &format!("packaging/{script}.sh")], None);
    }
}
