//! Which symbols the library exports to Slurm, and which it needs from Slurm, as the linker sees them.

#[path = "host/harness.rs"]
mod harness;

use harness::compiler::symbols;
use harness::{
    c_compiler, compile, manifest_path, panicking_plugin, plugin, private_folder, stderr,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Everything that is exported.  `spank_option_callback` is the slurm-spank crate's and is not used.
const EXPORTS: [&str; 7] = [
    "plugin_name",
    "plugin_type",
    "plugin_version",
    "slurm_spank_init",
    "slurm_spank_init_post_opt",
    "slurm_spank_task_init",
    "spank_option_callback",
];

/// What Slurm 22.05, the oldest release that we serve, offers to a plugin that is loaded without lazy binding
/// (its slurm/spank.h; `spank_prepend_task_argv` came with 23.11).
const OFFERED_SINCE_22_05: [&str; 21] = [
    "slurm_api_version",
    "slurm_debug",
    "slurm_debug2",
    "slurm_debug3",
    "slurm_error",
    "slurm_info",
    "slurm_spank_log",
    "slurm_verbose",
    "spank_context",
    "spank_get_item",
    "spank_getenv",
    "spank_job_control_getenv",
    "spank_job_control_setenv",
    "spank_job_control_unsetenv",
    "spank_option_getopt",
    "spank_option_register",
    "spank_remote",
    "spank_setenv",
    "spank_strerror",
    "spank_symbol_supported",
    "spank_unsetenv",
];

/// Where the library lies that every Slurm process links: Debian's, an rpm's of Slurm's own spec, a site's own.
const LIBSLURMFULL: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/slurm-wlm/libslurmfull.so",
    "/usr/lib64/slurm/libslurmfull.so",
    "/opt/slurm/lib64/slurm/libslurmfull.so",
    "/opt/slurm/lib/slurm/libslurmfull.so",
];

/// What a hook of a test build says before it does what it was asked for.
const OF_TEST_BUILDS: [&[u8]; 2] = [b"asked to panic in", b"asked for `"];

#[test]
fn the_library_that_is_shipped_fails_in_no_hook_on_request() {
    let has = |library: &Path, text: &[u8]| {
        let bytes = fs::read(library).expect("it is built");
        bytes.windows(text.len()).any(|window| window == text)
    };
    for text in OF_TEST_BUILDS {
        assert!(!has(&plugin(), text), "{}", String::from_utf8_lossy(text));
        // the test build has it, so it would be seen
        if let Some(library) = panicking_plugin() {
            assert!(has(&library, text), "{}", String::from_utf8_lossy(text));
        }
    }
}

/// What the plugin asks of the process that loads it.
fn asked_of_slurm() -> Option<Vec<String>> {
    let undefined = symbols(&plugin(), "--undefined-only")?;
    let names = undefined.into_iter().map(|(_, name)| name);
    let is_slurms = |name: &String| name.starts_with("spank_") || name.starts_with("slurm_");
    Some(names.filter(is_slurms).collect())
}

#[test]
fn the_library_exports_its_hooks_and_nothing_else() {
    let Some(defined) = symbols(&plugin(), "--defined-only") else {
        return;
    };
    let mut names: Vec<_> = defined.into_iter().map(|(_, name)| name).collect();
    names.sort();
    assert_eq!(names, EXPORTS);
}

/// srun and slurmstepd have libc and the dynamic linker already; whatever else is named, each of them would load for us.
#[test]
fn the_library_loads_nothing_that_every_process_has_not_loaded_already() {
    let mut readelf = Command::new("readelf");
    readelf
        .args(["--dynamic", "--wide"])
        .arg(plugin())
        .env("LC_ALL", "C");
    let Ok(output) = readelf.output() else {
        println!("skipped: there is no `readelf`");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let needed = text
        .lines()
        .filter_map(|line| line.split_once("Shared library: ["));
    let needed: Vec<&str> = needed.map(|(_, name)| name).collect();
    assert!(!needed.is_empty(), "{text}");
    let is_loaded = |name: &&&str| name.starts_with("libc.so.6]") || name.starts_with("ld-linux");
    assert_eq!(needed.iter().find(|name| !is_loaded(name)), None);
}

#[test]
fn no_hook_is_exported_that_costs_every_job_a_process() {
    let Some(defined) = symbols(&plugin(), "--defined-only") else {
        return;
    };
    // Slurm's spank.c acts on the mere presence of these: slurmd then starts a helper for each job's prolog and epilog,
    // or works in a cloned child where it otherwise would not
    let costly =
        "job_prolog,job_epilog,user_init,task_post_fork,task_exit,task_init_privileged,exit";
    for hook in costly.split(',') {
        let symbol = format!("slurm_spank_{hook}");
        assert!(
            !defined.iter().any(|(_, name)| *name == symbol),
            "`{symbol}`"
        );
    }
    // written when the library is loaded: B is .bss, D is .data, R could not be written
    let version = defined.iter().find(|(_, name)| name == "plugin_version");
    let (kind, _) = version.expect("it is exported");
    assert!(matches!(kind, 'B' | 'D'), "{kind}");
}

#[test]
fn nothing_is_asked_of_slurm_that_22_05_does_not_have() {
    let Some(asked) = asked_of_slurm() else {
        return;
    };
    assert!(asked.iter().any(|name| name == "spank_setenv"), "{asked:?}");
    let newer = asked
        .iter()
        .find(|name| !OFFERED_SINCE_22_05.contains(&name.as_str()));
    assert_eq!(newer, None);
}

#[test]
fn the_slurm_that_is_installed_here_has_all_that_is_asked_of_it() {
    let mut libraries = LIBSLURMFULL.into_iter().map(Path::new);
    let Some(library) = libraries.find(|library| library.exists()) else {
        println!("skipped: none of {LIBSLURMFULL:?}");
        return;
    };
    let (Some(asked), Some(offered)) = (asked_of_slurm(), symbols(library, "--defined-only"))
    else {
        return;
    };
    let offered: BTreeSet<_> = offered.into_iter().map(|(_, name)| name).collect();
    assert_eq!(asked.iter().find(|name| !offered.contains(*name)), None);
}

/// Compiles a C file that consists of `text` against our header.
fn assert_compiles(name: &str, text: &str) {
    let source = private_folder(name).join("source.c");
    fs::write(&source, text).unwrap();
    let include = manifest_path("include");
    for standard in ["-std=c99", "-std=c11"] {
        let flags = [
            standard.as_ref(),
            "-Wpedantic".as_ref(),
            "-fsyntax-only".as_ref(),
            "-I".as_ref(),
            include.as_os_str(),
        ];
        let output = compile(flags, &source, []);
        assert!(output.status.success(), "{standard}:\n{}", stderr(&output));
    }
}

/// The compiler finds Slurm's headers: in /usr/include, or where CPATH says.
fn has_spank_h() -> bool {
    let source = private_folder("header-there").join("source.c");
    fs::write(&source, "#include <slurm/spank.h>\n").unwrap();
    let output = compile(["-fsyntax-only".as_ref()], &source, []);
    let there = output.status.success();
    if !there {
        println!("skipped: no <slurm/spank.h>: Debian's libslurm-dev, or CPATH");
    }
    there
}

/// Uses every declaration, so that the compiler checks each.
const USES: &str = "
int use(struct spank_handle *spank, char *argv[]);
int use(struct spank_handle *spank, char *argv[])
{
    int (*hooks[])(struct spank_handle *, int, char **) = {
        slurm_spank_init, slurm_spank_init_post_opt, slurm_spank_task_init };
    plugin_version = (uint32_t)(plugin_name[0] + plugin_type[0]);
    return hooks[0](spank, 0, argv) + hooks[1](spank, 0, argv) + hooks[2](spank, 0, argv);
}
";

#[test]
fn the_header_stands_alone_and_agrees_with_slurms() {
    if c_compiler().is_none() {
        return;
    }
    let (own, slurms) = (
        "#include <nic_placement_spank.h>\n",
        "#include <slurm/spank.h>\n",
    );
    assert_compiles("header-alone", &format!("{own}{own}{USES}"));
    if !has_spank_h() {
        return;
    }
    assert_compiles("header-after", &format!("{slurms}{own}{USES}"));
    assert_compiles("header-before", &format!("{own}{slurms}{USES}"));
    // one that disagreed would be noticed
    let source = private_folder("header-wrong").join("source.c");
    let other = "int slurm_spank_init(struct spank_handle *, int);\n";
    fs::write(&source, format!("{slurms}{other}")).unwrap();
    let output = compile(["-fsyntax-only".as_ref()], &source, []);
    let said = stderr(&output);
    let conflict = "conflicting types for 'slurm_spank_init'";
    assert!(
        !output.status.success() && said.contains(conflict),
        "{said}"
    );
}
