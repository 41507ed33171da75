//! The plugin is installed on one side only, listed twice, built for another Slurm, or listed as required.

use crate::harness::{Bed, Case, Ran, cases, skip};
use crate::machines::ucx_of;
use crate::plugins::unknown_slurm;
use crate::report::Task;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

pub const CASES: &[Case] = cases![
    without_the_plugin_on_the_login_node_srun_knows_no_option_and_the_variable_still_asks,
    without_the_plugin_on_a_compute_node_the_job_runs_and_its_log_says_so,
    a_plugin_that_is_listed_twice_places_once,
    a_required_plugin_places_and_its_faults_fail_no_job,
    a_release_that_is_not_known_refuses_the_plugin_in_one_line_and_the_job_runs,
    a_build_for_another_release_is_refused_in_one_line_and_the_job_runs,
];

pub const CASES_UNKNOWN_ON_THE_NODE: &[Case] =
    cases![a_node_whose_release_is_not_known_refuses_the_plugin_in_one_line_and_the_job_runs,];

const COMMAND: &str = "srun -w n0 -n2 --gpus-per-task=1 @ $report";

fn assert_placed(tasks: &[Task]) {
    assert_eq!(tasks.len(), 2);
    for task in tasks {
        assert_eq!(task.ucx(), [ucx_of(task.gpus()[0])], "of {task:?}");
    }
}

/// Runs a command as on a login node with that plugstack.conf; the nodes keep theirs.
fn on_a_login_node(bed: &Bed, plugstack: &str, command: &str) -> Ran {
    let folder = bed.site.dir.join("login");
    fs::create_dir_all(&folder).expect("a folder for the login node");
    let configuration = fs::read_to_string(bed.configuration()).expect("slurm.conf");
    let lines = configuration
        .lines()
        .map(|line| match line.starts_with("PlugStackConfig=") {
            true => format!(
                "PlugStackConfig={}\n",
                folder.join("plugstack.conf").display()
            ),
            false => format!("{line}\n"),
        });
    let conf = bed.configuration().with_file_name("login.conf");
    fs::write(&conf, lines.collect::<String>()).expect("login.conf");
    fs::write(folder.join("plugstack.conf"), format!("{plugstack}\n")).expect("plugstack.conf");
    bed.run(&format!("SLURM_CONF={} {command}", conf.display()))
}

fn without_the_plugin_on_the_login_node_srun_knows_no_option_and_the_variable_still_asks(
    bed: &Bed,
) {
    let ran = on_a_login_node(bed, "", &COMMAND.replace('@', "--nic-placement"));
    assert_ne!(ran.code, 0);
    assert!(
        ran.stderr.contains("unrecognized option '--nic-placement'"),
        "{}",
        ran.stderr
    );
    let ran = on_a_login_node(bed, "", &COMMAND.replace('@', ""));
    assert!(ran.code == 0 && ran.tasks.iter().all(Task::is_untouched));
    let asked = format!(
        "env SLURM_NIC_PLACEMENT=closest {}",
        COMMAND.replace('@', "")
    );
    let ran = on_a_login_node(bed, "", &asked);
    assert_eq!(ran.code, 0);
    assert_placed(&ran.tasks);
}

fn without_the_plugin_on_a_compute_node_the_job_runs_and_its_log_says_so(bed: &Bed) {
    let line = bed.site.plugstack_line("");
    let ran = on_a_login_node(bed, &line, &COMMAND.replace('@', "--nic-placement"));
    assert_placed(&ran.tasks);
    bed.plugstack("");
    let ran = on_a_login_node(bed, &line, &COMMAND.replace('@', "--nic-placement"));
    assert_eq!((ran.code, ran.tasks.len(), ran.stderr.as_str()), (0, 2, ""));
    assert!(ran.tasks.iter().all(Task::is_untouched));
    assert!(
        bed.log("n0").contains("option \"nic-placement\" not found"),
        "Slurm's own line"
    );
}

fn a_plugin_that_is_listed_twice_places_once(bed: &Bed) {
    let once = bed.tasks(2, &COMMAND.replace('@', "--nic-placement"));
    assert_placed(&once);
    let line = bed.site.plugstack_line("");
    bed.plugstack(&format!("{line}\n{line}"));
    let (_, twice) = bed.without_and_with("--nic-placement", 2, COMMAND);
    assert_eq!(twice, once);
    for second in ["disable", "default=of"] {
        bed.plugstack(&format!("{line}\n{}", bed.site.plugstack_line(second)));
        let tasks = bed.tasks(2, &COMMAND.replace('@', "--nic-placement"));
        assert!(
            tasks.len() == 2 && tasks.iter().all(Task::is_untouched),
            "`{second}` in the second line"
        );
    }
}

fn a_required_plugin_places_and_its_faults_fail_no_job(bed: &Bed) {
    let required = |arguments: &str| {
        bed.site
            .plugstack_line(arguments)
            .replacen("optional", "required", 1)
    };
    bed.plugstack(&required(""));
    let (_, placed) = bed.without_and_with("--nic-placement", 2, COMMAND);
    assert_placed(&placed);
    let file = bed.file("broken.json", "no topology");
    for arguments in [
        "no-such-argument",
        "topology=/nowhere.json",
        &format!("topology={}", file.display()),
    ] {
        bed.plugstack(&required(arguments));
        assert_eq!(
            bed.tasks(2, &COMMAND.replace('@', "--nic-placement")).len(),
            2,
            "with `{arguments}`"
        );
        assert_eq!(
            bed.tasks(2, &bed.batch("--nic-placement", "srun $report"))
                .len(),
            2,
            "in a batch job"
        );
    }
    let state = bed.run("sinfo -h -n n0 -o %T").stdout;
    assert!(!state.contains("drain"), "the node is {state}");
}

/// Slurm's line about a library for another release.
fn refusals(text: &str) -> usize {
    text.lines()
        .filter(|line| line.contains("Incompatible Slurm plugin "))
        .count()
}

/// If Slurm refuses the plugin, the job runs, and each program that refuses it prints that one line.
fn assert_refused(ran: &Ran) {
    assert_eq!((ran.code, ran.tasks.len()), (0, 2), "{}", ran.stderr);
    assert!(ran.tasks.iter().all(Task::is_untouched));
    assert_eq!(refusals(&ran.stderr), 1, "{}", ran.stderr);
    assert!(
        !ran.stderr.contains("nic-placement: "),
        "nothing of ours has run: {}",
        ran.stderr
    );
}

/// A program that has libslurm inside finds its own `slurm_api_version` before a preloaded one.
fn skip_with_libslurm_inside(bed: &Bed) {
    let listed = Command::new("chroot")
        .arg(&bed.site.root)
        .args(["ldd", "/usr/bin/srun"])
        .output();
    if !String::from_utf8_lossy(&listed.expect("`ldd`").stdout).contains("libslurm") {
        skip("this Slurm has libslurm inside its programs: it can play no other release");
    }
}

fn a_release_that_is_not_known_refuses_the_plugin_in_one_line_and_the_job_runs(bed: &Bed) {
    skip_with_libslurm_inside(bed);
    assert_placed(&bed.tasks(2, &COMMAND.replace('@', "--nic-placement")));
    let preload = format!("LD_PRELOAD={}", unknown_slurm(bed.site).display());
    assert_refused(&bed.run(&format!("{preload} {}", COMMAND.replace('@', ""))));
    // a required plugin then ends srun; that is why plugstack.conf.example says `optional`
    bed.plugstack(
        &bed.site
            .plugstack_line("")
            .replacen("optional", "required", 1),
    );
    let ran = bed.run(&format!("{preload} {}", COMMAND.replace('@', "")));
    assert_ne!(ran.code, 0);
    assert_eq!(refusals(&ran.stderr), 1, "{}", ran.stderr);
}

fn a_node_whose_release_is_not_known_refuses_the_plugin_in_one_line_and_the_job_runs(bed: &Bed) {
    skip_with_libslurm_inside(bed);
    let ran = bed.run(&COMMAND.replace('@', "--nic-placement"));
    assert_eq!((ran.code, ran.tasks.len(), ran.stderr.as_str()), (0, 2, ""));
    assert!(ran.tasks.iter().all(Task::is_untouched));
    assert_eq!(
        refusals(&bed.log("n0")),
        1,
        "lines of the step in the node's log"
    );
}

/// The plugin built for a release that is not this one.
fn stamped_plugin() -> PathBuf {
    let built = std::env::var_os("NIC_PLACEMENT_STAMPED_SO").map(PathBuf::from);
    match built.filter(|library| library.exists()) {
        Some(library) => library,
        None => skip("no library with another stamp: `make test` builds one"),
    }
}

fn a_build_for_another_release_is_refused_in_one_line_and_the_job_runs(bed: &Bed) {
    bed.plugstack(&format!("optional {}", stamped_plugin().display()));
    let ran = bed.run(&COMMAND.replace('@', ""));
    assert_refused(&ran);
    assert!(
        ran.stderr.contains("(31.02.0)"),
        "the release of the build is named: {}",
        ran.stderr
    );
    assert_eq!(
        refusals(&bed.log("n0")),
        1,
        "lines of the step in the node's log"
    );
}
