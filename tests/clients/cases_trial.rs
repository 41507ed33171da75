//! The trial between two guests: a real Slurm, kernel, ucx_perftest and ib_write_bw; NVIDIA's driver is played.

use crate::nodes::Nodes;
use crate::{Case, Command, cases};
use nic_placement_fleet::trial::report::{self, Effect, TrialReport};

pub const COMMANDS: &[Command] = &[(
    "trial.log",
    "TRIAL_TOOL=/guest/nic-placement TRIAL_OUT=/out/trial TRIAL_ROUNDS=2 LD_LIBRARY_PATH=/guest/played \
     sbatch --wait -N2 --output=/out/trial.said /guest/trial.sbatch; code=$?; cat /out/trial.said; exit $code",
)];

pub const CASES: &[Case] = cases![
    the_trial_makes_a_report_that_says_that_its_driver_is_played,
    what_rdma_link_says_of_the_guest_is_what_we_found,
    in_each_way_the_driver_has_the_gpus_that_we_took_for_the_task_s,
    the_figures_of_both_sides_are_there_and_what_is_missing_is_named,
];

fn report(nodes: &Nodes) -> TrialReport {
    report::read(nodes.answer("trial/report.json").as_bytes()).unwrap_or_else(|why| {
        panic!(
            "{why}: {}\n{}",
            nodes.answer("trial.log"),
            nodes.said("trial.log")
        )
    })
}

fn the_trial_makes_a_report_that_says_that_its_driver_is_played(nodes: &Nodes) {
    assert!(
        nodes.succeeded("trial.log"),
        "{}",
        nodes.answer("trial.log")
    );
    let report = report(nodes);
    assert!(report.played, "{report:?}");
    assert!(
        report.machine.contains("4 x H100") && report.machine.contains("5 x "),
        "{}",
        report.machine
    );
    for name in ["Linux", "Slurm", "nic-placement", "UCX"] {
        assert!(
            report.releases.contains_key(name),
            "{name}: {:?}",
            report.releases
        );
    }
    assert!(
        nodes
            .answer("trial/report.md")
            .contains("this is no result")
    );
    let text = nodes.answer("trial/report.json");
    assert!(
        !text.contains("192.168.7") && !text.contains("\"n0"),
        "a name or an address of a host: {text}"
    );
}

fn what_rdma_link_says_of_the_guest_is_what_we_found(nodes: &Nodes) {
    let report = report(nodes);
    let link = report
        .witnesses
        .iter()
        .find(|witness| witness.program == "rdma link")
        .unwrap();
    assert!(link.agrees() && link.compared >= 10, "{link:?}");
    let lstopo = report
        .witnesses
        .iter()
        .find(|witness| witness.program == "lstopo")
        .unwrap();
    assert!(lstopo.agrees() && lstopo.compared > 20, "{lstopo:?}");
    let smi = report
        .witnesses
        .iter()
        .find(|witness| witness.program == "nvidia-smi topo -m")
        .unwrap();
    assert_eq!(
        smi.not_tried.as_deref(),
        Some("no `nvidia-smi` here"),
        "{smi:?}"
    );
}

fn in_each_way_the_driver_has_the_gpus_that_we_took_for_the_task_s(nodes: &Nodes) {
    let report = report(nodes);
    assert_eq!(report.ways.len(), 9, "{report:?}");
    assert_eq!(
        report.ways[8].not_tried.as_deref(),
        Some("no `torchrun` here"),
        "{report:?}"
    );
    for way in &report.ways {
        assert!(way.differ.is_empty() && way.other_order == 0, "{way:?}");
    }
    let first = &report.ways[0];
    assert_eq!((first.tasks, first.agree), (4, 4), "{first:?}");
    assert_eq!((first.near.near, first.near.known), (4, 4), "{first:?}");
    assert!(
        first.near_without.near < 4,
        "Slurm deals the CPUs without a look at the GPUs: {first:?}"
    );
    let tried = report.ways.iter().filter(|way| way.agree > 0).count();
    assert!(tried >= 5, "{report:?}");
}

fn figures<'r>(report: &'r TrialReport, program: &str) -> &'r Effect {
    report
        .effects
        .iter()
        .find(|effect| effect.program.starts_with(program))
        .unwrap()
}

fn the_figures_of_both_sides_are_there_and_what_is_missing_is_named(nodes: &Nodes) {
    let report = report(nodes);
    for program in ["ib_write_bw", "ucx_perftest"] {
        let effect = figures(&report, program);
        for side in ["near", "far"] {
            let figures = effect
                .figures
                .get(side)
                .unwrap_or_else(|| panic!("{side}: {effect:?}"));
            assert!(
                !figures.is_empty() && figures.values().all(|figure| *figure > 0.0),
                "{effect:?}"
            );
        }
        let nics = &effect.bytes["near"];
        assert!(
            nics.values().max().is_some_and(|most| *most > 1_000_000),
            "{effect:?}"
        );
    }
    assert_eq!(
        figures(&report, "copies to").figures["near"].len(),
        2,
        "{report:?}"
    );
    let osu = figures(&report, "osu_bw");
    assert_eq!(
        osu.not_tried.as_deref(),
        Some("no `osu_bw` here"),
        "{osu:?}"
    );
}
