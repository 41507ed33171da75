//! The plugin is installed on one side only, listed twice, built for another Slurm, or listed as required.

use super::faults::assert_the_node_becomes_idle;
use super::suite::*;
use crate::slurm::plugins::unknown_slurm;

pub const CASES: &[Case] = cases![
    without_the_plugin_on_the_login_node_srun_knows_no_option_and_the_variable_still_asks,
    without_the_plugin_on_a_compute_node_the_job_runs_and_its_log_says_so,
    a_plugin_that_is_listed_twice_places_once,
    a_required_plugin_places_and_its_faults_fail_no_job,
    a_release_that_is_not_known_refuses_the_plugin_in_one_line_and_the_job_runs,
    a_build_for_another_release_is_refused_in_one_line_and_the_job_runs,
];

pub const UNKNOWN_ON_THE_NODE: &[Case] =
    cases![a_node_whose_release_is_not_known_refuses_the_plugin_in_one_line_and_the_job_runs];

/// Runs a command as on a login node with that plugstack.conf; the nodes keep theirs.
fn on_a_login_node(bed: &Bed, plugstack: &str, command: &str) -> Ran {
    let own = bed.file("login-plugstack.conf", &format!("{plugstack}\n"));
    let text = fs::read_to_string(bed.configuration()).expect("slurm.conf");
    let lines = text
        .lines()
        .map(|line| match line.starts_with("PlugStackConfig=") {
            true => format!("PlugStackConfig={own}\n"),
            false => format!("{line}\n"),
        });
    let conf = bed.file("etc/login.conf", &lines.collect::<String>());
    bed.run(&format!("SLURM_CONF={conf} {command}"))
}

fn without_the_plugin_on_the_login_node_srun_knows_no_option_and_the_variable_still_asks(
    bed: &Bed,
) {
    let bare = TWO.replace('@', "");
    let ran = on_a_login_node(bed, "", &asked("", TWO)).failed();
    ran.says(1, "unrecognized option '--nic-placement'");
    let ran = on_a_login_node(bed, "", &bare).ended(0, 2);
    all(&ran.tasks, Task::is_untouched);
    let variable = format!("env SLURM_NIC_PLACEMENT=closest {bare}");
    let ran = on_a_login_node(bed, "", &variable).ended(0, 2);
    all(&ran.tasks, Task::is_own);
}

fn without_the_plugin_on_a_compute_node_the_job_runs_and_its_log_says_so(bed: &Bed) {
    let line = bed.site.plugstack_line("");
    let ran = || on_a_login_node(bed, &line, &asked("", TWO)).ended(0, 2);
    all(&ran().tasks, Task::is_own);
    bed.plugstack("");
    let without = ran();
    assert_eq!(without.stderr, "");
    all(&without.tasks, Task::is_untouched);
    // Slurm's own line
    assert_ne!(bed.logged("n0", "option \"nic-placement\" not found"), 0);
}

fn a_plugin_that_is_listed_twice_places_once(bed: &Bed) {
    let once = bed.with("", 2, TWO);
    all(&once, Task::is_own);
    let line = bed.site.plugstack_line("");
    bed.plugstack(&format!("{line}\n{line}"));
    assert_eq!(bed.both("", 2, TWO).1, once);
    for second in ["disable", "default=of"] {
        bed.plugstack(&format!("{line}\n{}", bed.site.plugstack_line(second)));
        all(&bed.with("", 2, TWO), Task::is_untouched);
    }
}

/// A required plugin.
fn require(bed: &Bed, arguments: &str) {
    let line = bed.site.plugstack_line(arguments);
    bed.plugstack(&line.replacen("optional", "required", 1));
}

fn a_required_plugin_places_and_its_faults_fail_no_job(bed: &Bed) {
    require(bed, "");
    all(&bed.both("", 2, TWO).1, Task::is_own);
    let broken = format!("topology={}", bed.file("broken.json", "no topology"));
    for arguments in ["no-such-argument", "topology=/nowhere.json", &broken] {
        require(bed, arguments);
        bed.with("", 2, TWO);
        bed.with("", 2, &bed.batch("@", "srun $report"));
    }
    assert_the_node_becomes_idle(bed);
}

/// Slurm's line about a library for another release.
const REFUSAL: &str = "Incompatible Slurm plugin ";

/// If Slurm refuses the plugin, the job runs, and each program that refuses it prints that one line, and nothing of ours.
#[track_caller]
fn refused(ran: Ran) -> Ran {
    let ran = ran.ended(0, 2).says(1, REFUSAL).says(0, "nic-placement: ");
    all(&ran.tasks, Task::is_untouched);
    ran
}

/// A program that has libslurm inside finds its own `slurm_api_version` before a preloaded one.
fn skip_with_libslurm_inside(bed: &Bed) {
    let mut listed = Command::new("chroot");
    let listed = listed
        .arg(&bed.site.root)
        .args(["ldd", "/usr/bin/srun"])
        .output();
    if !String::from_utf8_lossy(&listed.expect("`ldd`").stdout).contains("libslurm") {
        skip("libslurm is inside this Slurm's programs");
    }
}

fn a_release_that_is_not_known_refuses_the_plugin_in_one_line_and_the_job_runs(bed: &Bed) {
    skip_with_libslurm_inside(bed);
    all(&bed.with("", 2, TWO), Task::is_own);
    let library = unknown_slurm(bed.site);
    let command = format!("LD_PRELOAD={} {}", library.display(), TWO.replace('@', ""));
    refused(bed.run(&command));
    // a required plugin then ends srun; that is why plugstack.conf.example says `optional`
    require(bed, "");
    bed.run(&command).failed().says(1, REFUSAL);
}

fn a_node_whose_release_is_not_known_refuses_the_plugin_in_one_line_and_the_job_runs(bed: &Bed) {
    skip_with_libslurm_inside(bed);
    let ran = bed.ask("", TWO).ended(0, 2);
    assert_eq!(ran.stderr, "");
    all(&ran.tasks, Task::is_untouched);
    assert_eq!(bed.logged("n0", REFUSAL), 1);
}

fn a_build_for_another_release_is_refused_in_one_line_and_the_job_runs(bed: &Bed) {
    let built = std::env::var_os("NIC_PLACEMENT_STAMPED_SO").map(PathBuf::from);
    let Some(library) = built.filter(|library| library.exists()) else {
        skip("`make test` builds the other library")
    };
    bed.plugstack(&format!("optional {}", library.display()));
    refused(bed.run(&TWO.replace('@', ""))).says(1, "(31.02.0)");
    assert_eq!(bed.logged("n0", REFUSAL), 1);
}
