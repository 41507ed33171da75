//! The launchers' library as they load it: what it exports and needs, the examples in C and Python, threads, valgrind.

#[path = "host/compiler.rs"]
mod compiler;
#[path = "capi/python.rs"]
mod python;
#[path = "docs/shown.rs"]
mod shown;

use compiler::{c_compiler, compile, library, manifest_path, private_folder, stderr, symbols};
use python::{HEAD, python};
use shown::{shown_commands, shows};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Everything that include/nic_placement.h declares, behind `nic_placement_`.
const EXPORTS: &str = "free map plan process render task version";

const SONAME: &str = "libnic_placement_core.so.0";

fn built() -> PathBuf {
    library("libnic_placement_capi.so", "NIC_PLACEMENT_CORE_SO")
}

/// A folder with the library under the names that `make install` gives it.
fn installed() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = private_folder("capi-lib");
        symlink(built(), folder.join(SONAME)).unwrap();
        symlink(SONAME, folder.join("libnic_placement_core.so")).unwrap();
        folder
    })
}

/// A request about a DGX H100, with more fields.
fn request(fields: &str) -> String {
    let comma = if fields.is_empty() { "" } else { ", " };
    let node = r#""node": {"machine": "dgx-h100"}"#;
    format!(r#"{{"format": "nic-placement request", "version": 1, {node}{comma}{fields}}}"#)
}

/// A C program that is linked with the library; `None` without a compiler.
fn program(name: &str, source: &str) -> Option<PathBuf> {
    c_compiler()?;
    let built = private_folder(name).join("program");
    let include = format!("-I{}", manifest_path("include").display());
    let library = format!("-L{}", installed().display());
    let flags = [&*include, &library, "-pthread", "-o"].map(OsStr::new);
    let flags = flags.into_iter().chain([built.as_os_str()]);
    let output = compile(flags, &manifest_path(source), ["-lnic_placement_core"]);
    assert!(output.status.success(), "{source}:\n{}", stderr(&output));
    Some(built)
}

/// Runs it where the dynamic linker finds the library.
fn run(command: &mut Command) -> Output {
    command.env("LD_LIBRARY_PATH", installed());
    command.output().unwrap()
}

/// The output of a command that ends well.
fn printed(command: &mut Command) -> String {
    stdout(&command.output().unwrap())
}

fn stdout(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", stderr(output));
    text
}

// ---- the library ----

#[test]
fn the_library_exports_what_its_header_declares_and_nothing_else() {
    let defined = symbols(&built(), "--defined-only");
    let Some(defined) = defined else { return };
    let mut names: Vec<_> = defined.into_iter().map(|(_, name)| name).collect();
    names.sort();
    let calls = EXPORTS.split(' ');
    let exports: Vec<_> = calls.map(|call| format!("nic_placement_{call}")).collect();
    assert_eq!(names, exports);
    let header = fs::read_to_string(manifest_path("include/nic_placement.h")).unwrap();
    for name in exports {
        let is_so = header.contains(&format!("{name}("));
        assert!(is_so, "the header has no `{name}`");
    }
    // it needs libc at least, and nothing of Slurm's
    let undefined = symbols(&built(), "--undefined-only").unwrap();
    let is_slurms = |(_, name): &&(char, String)| name.contains("slurm") || name.contains("spank");
    let slurms = undefined.iter().filter(is_slurms).count();
    assert!(undefined.len() > 20 && slurms == 0, "{undefined:?}");
}

#[test]
fn the_library_is_known_by_a_name_with_its_version() {
    let Ok(output) = Command::new("readelf").arg("-d").arg(built()).output() else {
        return println!("skipped: there is no `readelf`");
    };
    let text = stdout(&output);
    let is_so = text.contains(&format!("Library soname: [{SONAME}]"));
    assert!(is_so, "{text}");
    let libcs = ["libc.so", "libgcc_s.so", "ld-linux", "libm.so"];
    let mut needed = text.lines().filter(|line| line.contains("(NEEDED)"));
    let other = needed.find(|line| !libcs.iter().any(|lib| line.contains(lib)));
    assert_eq!(other, None);
}

#[test]
fn the_header_stands_alone_in_c_and_in_cpp() {
    if c_compiler().is_none() {
        return;
    }
    let source = private_folder("capi-header").join("source.c");
    let text = "#include <nic_placement.h>\n".repeat(2) + "int unused;\n";
    fs::write(&source, text).unwrap();
    let include = manifest_path("include");
    for language in [
        ["-xc", "-std=c99"],
        ["-xc", "-std=c17"],
        ["-xc++", "-std=c++11"],
    ] {
        let flags = [&language[..], &["-Wpedantic", "-fsyntax-only", "-I"]].concat();
        let flags = flags.into_iter();
        let flags = flags.map(OsStr::new).chain([include.as_os_str()]);
        let output = compile(flags, &source, []);
        if stderr(&output).contains("cc1plus") {
            println!("skipped: no C++ compiler");
            continue;
        }
        let is_so = output.status.success();
        assert!(is_so, "{language:?}:\n{}", stderr(&output));
    }
}

#[test]
fn what_make_installs_is_found_by_pkg_config_and_linked_by_its_versioned_name() {
    let missing = |tool: &str| Command::new(tool).arg("--version").output().is_err();
    if c_compiler().is_none() || ["make", "pkg-config"].iter().any(|tool| missing(tool)) {
        return println!("skipped: no `make`, or no `pkg-config`");
    }
    let folder = private_folder("capi-install");
    let (release, prefix) = (folder.join("target/release"), folder.join("prefix"));
    fs::create_dir_all(&release).unwrap();
    fs::copy(built(), release.join("libnic_placement_capi.so")).unwrap();
    fs::write(release.join("libnic_placement.so"), "").unwrap();
    fs::write(release.join("nic-placement"), "#!/bin/sh\n").unwrap();
    let tool = release.join("nic-placement");
    fs::set_permissions(tool, fs::Permissions::from_mode(0o755)).unwrap();
    let mut make = Command::new("make");
    make.current_dir(manifest_path(""))
        .env("CARGO_TARGET_DIR", folder.join("target"));
    printed(make.args(["install", &format!("prefix={}", prefix.display())]));

    let version = env!("CARGO_PKG_VERSION");
    let asked = |words: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
        printed(command.args(words).arg("nic-placement-core"))
    };
    assert_eq!(asked(&["--modversion"]).trim(), version);
    let program = folder.join("launch");
    let (source, flags) = (
        manifest_path("examples/c/launch.c"),
        asked(&["--cflags", "--libs"]),
    );
    let (source, built) = (source.display(), program.display());
    let line = format!("cc -o {built} {source} {flags}");
    printed(Command::new("sh").args(["-c", &line]));
    let mut command = Command::new(&program);
    command.env("LD_LIBRARY_PATH", prefix.join("lib"));
    printed(command.args(["--machine", "dgx-h100", "1", "true"]));
    // the program asks for this name, and not for the one that the linker took
    let linked = printed(Command::new("readelf").arg("-d").arg(&program));
    assert!(linked.contains(&format!("[{SONAME}]")), "{linked}");
}

// ---- the example in C ----

#[test]
fn a_launcher_in_c_starts_each_process_with_its_gpu_nic_and_variables() {
    let program = program("capi-launch", "examples/c/launch.c");
    let Some(program) = program else { return };
    let mut command = Command::new(&program);
    command.env_remove("UCX_NET_DEVICES");
    let line = "echo $CUDA_VISIBLE_DEVICES $UCX_NET_DEVICES";
    let output = run(command.args(["--machine", "dgx-h100", "8", "sh", "-c", line]));
    let nics = [0, 3, 4, 5, 6, 9, 10, 11].into_iter().enumerate();
    let expected = nics.map(|(gpu, nic)| format!("{gpu} mlx5_{nic}:1\n"));
    let expected: String = expected.collect();
    assert_eq!(stdout(&output), expected);
    let said = stderr(&output);
    let is_so = said.starts_with("process 0: GPU 0, NIC mlx5_0:1, CPUs 0-55,112-167\n");
    assert!(is_so, "{said}");
    let output = run(Command::new(&program).args(["--machine", "dgx-h10", "8", "true"]));
    assert_eq!(output.status.code(), Some(1));
    let why = "launch: `node`: `dgx-h10`: no such machine";
    assert!(stderr(&output).starts_with(why), "{}", stderr(&output));
}

#[test]
fn a_launcher_in_c_on_this_node_never_leaves_the_cpus_that_it_has() {
    let program = program("capi-here", "examples/c/launch.c");
    let Some(program) = program else { return };
    let line = "grep Cpus_allowed_list /proc/self/status; :";
    let output = run(Command::new(program).args(["1", "sh", "-c", line]));
    // a machine with a GPU binds; one without deals none, and says so
    match output.status.success() {
        true => assert!(stdout(&output).starts_with("Cpus_allowed_list:")),
        false => assert!(
            stderr(&output).contains("the allocation has 0"),
            "{output:?}"
        ),
    }
}

// ---- threads ----

fn requests() -> Vec<String> {
    let tasks =
        r#""tasks": [{"gpus": "7"}, {"gpus": "0,1"}, {"gpus": ""}], "task": 1, "as": "lines""#;
    let map = r#""words": "rail,strict", "gpus_per_task": 1, "map": "mooncake", "environment": {"NCCL_IB_HCA": "x"}"#;
    // the next fails in each call; the last is about this node, whatever it is, without its site's plugstack.conf
    let of_dgx = ["", tasks, map, r#""gpus": "8""#].map(request);
    let here =
        r#"{"format": "nic-placement request", "version": 1, "arguments": ["default=closest"]}"#;
    of_dgx.into_iter().chain([here.to_string()]).collect()
}

#[test]
fn calls_from_many_threads_have_the_answers_of_one() {
    let program = program("capi-threads", "tests/capi/threads.c");
    let Some(program) = program else { return };
    let text = stdout(&run(Command::new(program)
        .args(["8", "20"])
        .args(requests())));
    // a process that asks for itself names no GPUs, and has no answer in lines
    assert!(text.starts_with("00000000020000022220"), "{text}");
    let version = concat!(" ", env!("CARGO_PKG_VERSION"), "\n");
    assert!(text.ends_with(version), "{text}");
}

#[test]
fn valgrind_finds_no_byte_that_is_lost_or_not_theirs() {
    let program = program("capi-valgrind", "tests/capi/threads.c");
    let Some(program) = program else { return };
    if Command::new("valgrind").arg("--version").output().is_err() {
        return println!("skipped: there is no `valgrind`");
    }
    let mut command = Command::new("valgrind");
    let words =
        "--quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect";
    command.args(words.split(' ')).arg(program).args(["2", "1"]);
    let output = run(command.args(&requests()[1..4]));
    assert_eq!(stderr(&output), "");
    let text = stdout(&output);
    assert!(text.starts_with("0000200000"), "{text}");
}

// ---- the page for authors of launchers ----

fn page() -> String {
    fs::read_to_string(manifest_path("docs/launchers.md")).unwrap()
}

#[test]
fn the_page_shows_what_the_examples_print() {
    let launch = program("capi-page", "examples/c/launch.c");
    let Some(launch) = launch else { return };
    let mut checked = 0;
    for (command, shown) in shown_commands(&page()) {
        let words: Vec<&str> = command.split_whitespace().collect();
        let has_python = Command::new("python3").arg("--version").output().is_ok();
        let mut run_it = match words[0] {
            "./launch" => Command::new(&launch),
            "python3" if has_python => Command::new("python3"),
            // the tool's own are checked beside it
            _ => continue,
        };
        run_it.current_dir(manifest_path("")).args(&words[1..]);
        run_it.env("PYTHONDONTWRITEBYTECODE", "1");
        run_it.env("PYTHONPATH", python::search_path());
        let output = run(&mut run_it);
        let text = stdout(&output) + &stderr(&output);
        let lines: Vec<&str> = text.lines().collect();
        assert!(shows(&shown, &lines), "`{command}` prints:\n{text}");
        checked += 1;
    }
    assert!(checked >= 1);
}

#[test]
fn the_page_shows_what_the_library_answers() {
    let page = page();
    let mut checked = 0;
    for block in page.split("```json nic_placement_").skip(1) {
        let (call, rest) = block.split_once('\n').unwrap();
        let (request, rest) = rest.split_once("```").unwrap();
        let (_, answer) = rest.split_once("```text\n").unwrap();
        let (answer, _) = answer.split_once("```").unwrap();
        let ask = format!("library.ask('{call}', **json.loads('''{request}'''))");
        let text = format!("{HEAD}\nimport json\nprint({ask}, end='')");
        let Some(said) = python(&text) else { return };
        // the number of the node's plan has this release's version in it
        let number = |word| {
            if str::starts_with(word, "node=") {
                "node=…"
            } else {
                word
            }
        };
        let said: Vec<&str> = said.split(' ').map(number).collect();
        assert_eq!(said.join(" "), answer, "{call}");
        checked += 1;
    }
    assert_eq!(checked, 2);
}
