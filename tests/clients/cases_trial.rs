//! The trial between two guests: a real Slurm, kernel, ucx_perftest and ib_write_bw; NVIDIA's driver is played.

use super::nodes::*;
use nic_placement_fleet::trial::report::{self, Effect, TrialReport};

pub const COMMANDS: &str = "\
trial.log TRIAL_TOOL=/guest/nic-placement TRIAL_OUT=/out/trial TRIAL_ROUNDS=2 \
    LD_LIBRARY_PATH=/guest/played \
    sbatch --wait -N2 --output=/out/trial.said /guest/trial.sbatch; code=$?; cat \
    /out/trial.said; exit $code
";

pub const CASES: &[Case] = cases![
    the_trial_makes_a_report_that_says_that_its_driver_is_played,
    what_lstopo_says_of_the_guest_is_what_we_found,
    in_each_way_the_driver_has_the_gpus_that_we_took_for_the_task_s,
    the_figures_of_both_sides_are_there_and_what_is_missing_is_named,
];

fn report(nodes: &Nodes) -> TrialReport {
    let report = report::read(nodes.answer("trial/report.json").as_bytes());
    report.unwrap_or_else(|why| panic!("{why}: {}", nodes.said("trial.log")))
}

fn the_trial_makes_a_report_that_says_that_its_driver_is_played(nodes: &Nodes) {
    let is_so = nodes.succeeded("trial.log");
    assert!(is_so, "{}", nodes.answer("trial.log"));
    let report = report(nodes);
    let machine = &report.machine;
    let is_so = report.played && machine.contains("4 x H100") && machine.contains("5 x ");
    assert!(is_so, "{report:?}");
    for name in ["Linux", "Slurm", "nic-placement", "UCX"] {
        assert!(report.releases.contains_key(name), "{name}: {report:?}");
    }
    let shown = nodes.answer("trial/report.md");
    assert!(shown.contains("this is no result"), "{shown}");
    // no name or address of a host
    let text = nodes.answer("trial/report.json");
    let is_so = !text.contains("192.168.7") && !text.contains("\"n0");
    assert!(is_so, "{text}");
}

fn what_lstopo_says_of_the_guest_is_what_we_found(nodes: &Nodes) {
    let report = report(nodes);
    let witness = |program| {
        let witness = report
            .witnesses
            .iter()
            .find(|witness| witness.program == program);
        witness.unwrap_or_else(|| panic!("{report:?}"))
    };
    let lstopo = witness("lstopo");
    assert!(lstopo.agrees() && lstopo.compared >= 21, "{lstopo:?}");
    let smi = witness("nvidia-smi topo -m");
    assert_eq!(smi.not_tried.as_deref(), Some("no `nvidia-smi` here"));
}

fn in_each_way_the_driver_has_the_gpus_that_we_took_for_the_task_s(nodes: &Nodes) {
    let ways = report(nodes).ways;
    assert_eq!(ways.len(), 9, "{ways:?}");
    assert_eq!(ways[8].not_tried.as_deref(), Some("no `torchrun` here"));
    for way in &ways {
        assert!(way.differ.is_empty() && way.other_order == 0, "{way:?}");
    }
    let first = &ways[0];
    let found = [first.tasks, first.agree, first.near.near, first.near.known];
    // Slurm deals the CPUs without a look at the GPUs
    assert!(found == [4; 4] && first.near_without.near < 4, "{first:?}");
    let is_so = ways.iter().filter(|way| way.agree > 0).count() >= 5;
    assert!(is_so, "{ways:?}");
}

fn the_figures_of_both_sides_are_there_and_what_is_missing_is_named(nodes: &Nodes) {
    let report = report(nodes);
    let effect = |program| -> &Effect {
        let effect = report
            .effects
            .iter()
            .find(|effect| effect.program.starts_with(program));
        effect.unwrap_or_else(|| panic!("{report:?}"))
    };
    for program in ["ib_write_bw", "ucx_perftest"] {
        let effect = effect(program);
        for side in ["near", "far"] {
            let figures = effect.figures.get(side);
            let is_there =
                figures.is_some_and(|of| !of.is_empty() && of.values().all(|one| *one > 0.0));
            assert!(is_there, "{side}: {effect:?}");
        }
    }
    assert_eq!(effect("copies to").figures["near"].len(), 2, "{report:?}");
    let found = effect("osu_bw").not_tried.as_deref();
    assert_eq!(found, Some("no `osu_bw` here"));
}
