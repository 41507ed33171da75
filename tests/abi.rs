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
        assert!(
            !has(&plugin(), text),
            "{}: {}",
            plugin().display(),
            String::from_utf8_lossy(text)
        );
        // the test build has it, so it would be seen
        if let Some(library) = panicking_plugin() {
            assert!(
                has(&library, text),
                "{}: {}",
                library.display(),
                String::from_utf8_lossy(text)
            );
        }
    }
}

/// What the plugin asks of the process that loads it.
fn asked_of_slurm() -> Option<Vec<String>> {
    let undefined = symbols(&plugin(), "--undefined-only")?;
    let names = undefined.into_iter().map(|(_, name)| name);
    Some(
        names
            .filter(|name| name.starts_with("spank_") || name.starts_with("slurm_"))
            .collect(),
    )
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
    let output = Command::new("readelf")
        .args(["--dynamic", "--wide"])
        .arg(plugin())
        .env("LC_ALL", "C")
        .output();
    let Ok(output) = output else {
        println!("skipped: there is no `readelf`");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let needed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once("Shared library: ["))
        .map(|(_, name)| name)
        .collect();
    assert!(!needed.is_empty(), "{text}");
    let is_loaded = |name: &&&str| {
        ["libc.so.6]", "ld-linux"]
            .iter()
            .any(|known| name.starts_with(known))
    };
    let more: Vec<&&str> = needed.iter().filter(|name| !is_loaded(name)).collect();
    assert!(more.is_empty(), "{more:?}");
}

#[test]
fn no_hook_is_exported_that_costs_every_job_a_process() {
    let Some(defined) = symbols(&plugin(), "--defined-only") else {
        return;
    };
    // Slurm's spank.c acts on the mere presence of these: slurmd then starts a helper for each job's prolog and epilog,
    // or works in a cloned child where it otherwise would not
    let costly = [
        "job_prolog",
        "job_epilog",
        "user_init",
        "task_post_fork",
        "task_exit",
        "task_init_privileged",
        "exit",
    ];
    for hook in costly {
        let symbol = format!("slurm_spank_{hook}");
        assert!(
            defined.iter().all(|(_, name)| *name != symbol),
            "`{symbol}` is exported"
        );
    }
}

#[test]
fn nothing_is_asked_of_slurm_that_22_05_does_not_have() {
    let Some(asked) = asked_of_slurm() else {
        return;
    };
    assert!(
        asked.iter().any(|name| name == "spank_setenv"),
        "this is not the plugin: it asks for {asked:?}"
    );
    for name in &asked {
        assert!(
            OFFERED_SINCE_22_05.contains(&name.as_str()),
            "Slurm 22.05 has no `{name}`"
        );
    }
}

#[test]
fn the_slurm_that_is_installed_here_has_all_that_is_asked_of_it() {
    let Some(library) = LIBSLURMFULL
        .into_iter()
        .find(|library| Path::new(library).exists())
    else {
        println!("skipped: none of {LIBSLURMFULL:?}");
        return;
    };
    let (Some(asked), Some(offered)) = (
        asked_of_slurm(),
        symbols(Path::new(library), "--defined-only"),
    ) else {
        return;
    };
    let offered: BTreeSet<_> = offered.into_iter().map(|(_, name)| name).collect();
    for name in asked {
        assert!(offered.contains(&name), "`{library}` has no `{name}`");
    }
}

#[test]
fn the_version_can_be_written_when_the_library_is_loaded() {
    let Some(defined) = symbols(&plugin(), "--defined-only") else {
        return;
    };
    let (kind, _) = defined
        .iter()
        .find(|(_, name)| name == "plugin_version")
        .expect("it is exported");
    assert!(
        matches!(kind, 'B' | 'D'),
        "nm says `{kind}`; B is .bss, D is .data, R could not be written"
    );
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
    let there = compile(["-fsyntax-only".as_ref()], &source, [])
        .status
        .success();
    if !there {
        println!(
            "skipped: no <slurm/spank.h>: Debian has it in libslurm-dev, or CPATH names the folder that has slurm/"
        );
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
fn the_header_stands_alone() {
    if c_compiler().is_some() {
        assert_compiles(
            "header-alone",
            &format!("#include <nic_placement_spank.h>\n#include <nic_placement_spank.h>\n{USES}"),
        );
    }
}

#[test]
fn the_header_agrees_with_slurms() {
    if c_compiler().is_some() && has_spank_h() {
        let after = format!("#include <slurm/spank.h>\n#include <nic_placement_spank.h>\n{USES}");
        assert_compiles("header-after", &after);
        let before = format!("#include <nic_placement_spank.h>\n#include <slurm/spank.h>\n{USES}");
        assert_compiles("header-before", &before);
    }
}

#[test]
fn a_header_that_disagreed_with_slurms_would_be_noticed() {
    if c_compiler().is_some() && has_spank_h() {
        let source = private_folder("header-wrong").join("source.c");
        fs::write(
            &source,
            "#include <slurm/spank.h>\nint slurm_spank_init(struct spank_handle *, int);\n",
        )
        .unwrap();
        let output = compile(["-fsyntax-only".as_ref()], &source, []);
        assert!(!output.status.success());
        assert!(
            stderr(&output).contains("conflicting types for 'slurm_spank_init'"),
            "{}",
            stderr(&output)
        );
    }
}
