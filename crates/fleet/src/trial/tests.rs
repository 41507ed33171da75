//! Tests of the comparisons and of the report.

use super::report::{Effect, FORMAT, TrialReport, TriedWay, VERSION, faults, middle, read};
use super::witness::{GpusBy, Witness};
use nic_placement_core::topology::{PathType, Topology};
use nic_placement_node::platform::model;
use serde_json::json;

fn compare(ours: &Topology, theirs: &Topology, by: GpusBy) -> (usize, Vec<String>) {
    let witness = Witness::of("lstopo", ours, theirs, by);
    (witness.compared, witness.differences)
}

fn dgx() -> Topology {
    model("dgx-h100").unwrap()
}

/// One of these begins and ends so.
#[track_caller]
fn has(told: &[String], start: &str, end: &str) {
    let is_it = |one: &String| one.starts_with(start) && one.ends_with(end);
    assert!(told.iter().any(is_it), "{told:?}");
}

#[test]
fn the_same_picture_has_no_difference_and_each_thing_that_another_program_says_otherwise_is_told() {
    let (compared, differences) = compare(&dgx(), &dgx(), GpusBy::Address);
    assert!(differences.is_empty(), "{differences:?}");
    // the counts of GPUs and NICs, the CPUs of each GPU, and each of eight with each of twelve
    assert!(compared >= 2 + 8 + 8 * 10, "{compared}");
    let ours = dgx();
    let mut theirs = dgx();
    let (gpu, nic) = (theirs.gpus[3].address, theirs.nics[0].address.unwrap());
    theirs.stated_paths.insert((gpu, nic), PathType::Sys);
    let (_, differences) = compare(&ours, &theirs, GpusBy::Address);
    assert_eq!(differences.len(), 1);
    has(&differences, "GPU 3 to mlx5_0: ", "SYS there");
    theirs.gpus.pop();
    theirs.nics.pop();
    let (_, differences) = compare(&ours, &theirs, GpusBy::Position);
    let told = differences;
    has(&told, "GPUs: 8 here, 7 there", "");
    has(&told, "NICs: ", "");
    has(&told, "GPU 7: ", " none there");
}

#[test]
fn nccl_s_graph_has_no_host_bridges_and_no_nic_whose_ports_are_down() {
    let (ours, mut theirs) = (dgx(), dgx());
    for gpu in ours.gpus.iter().map(|gpu| gpu.address) {
        for nic in ours.nics.iter().filter_map(|nic| nic.address) {
            if theirs.path_type(gpu, nic) == PathType::Node {
                theirs.stated_paths.insert((gpu, nic), PathType::Phb);
            }
        }
    }
    theirs.nics.pop();
    let (compared, differences) = compare(&ours, &theirs, GpusBy::Nccl);
    assert_eq!((differences, compared), (Vec::new(), 1 + 8 + 8 * 13));
    let (_, differences) = compare(&ours, &theirs, GpusBy::Address);
    has(&differences, "GPU 0 to mlx5_3: NODE here, PHB there", "");
    let (gpu, nic) = (theirs.gpus[3].address, theirs.nics[0].address.unwrap());
    theirs.stated_paths.insert((gpu, nic), PathType::Sys);
    let (_, differences) = compare(&ours, &theirs, GpusBy::Nccl);
    assert_eq!(differences, ["GPU 3 to mlx5_0: PHB here, SYS there"]);
}

#[test]
fn the_median_has_an_interval_from_ten_figures_on_and_rounds_are_compared_where_both_have_one() {
    assert_eq!(middle([]), None);
    let three = middle([3.0, 1.0, 2.0]).unwrap();
    assert_eq!((three.median, three.interval), (2.0, None));
    let ten = middle([9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0]).unwrap();
    assert_eq!((ten.median, ten.interval), (5.5, Some((2.0, 9.0))));
    let near = [(1, 50.0), (3, 40.0)].into();
    let far = [(1, 25.0), (2, 1.0), (3, 10.0)].into();
    let figures = [("near".to_string(), near), ("far".to_string(), far)].into();
    let effect = Effect {
        figures,
        ..Effect::default()
    };
    // of 50 and 25 percent
    let against = effect.against_near("far").map(|of| of.median);
    assert_eq!(against, Some(37.5));
}

fn report() -> TrialReport {
    let lstopo = Witness {
        compared: 90,
        ..Witness::of("lstopo", &dgx(), &dgx(), GpusBy::Address)
    };
    let smi = Witness::not_tried("nvidia-smi topo -m", "no `nvidia-smi` here");
    let way = json!({"command": "srun -n8 --gpus-per-task=1", "tasks": 8, "agree": 7, "other_order": 0,
        "differ": ["driver 0000:1b:00.0, we 0000:43:00.0"], "unasked": {}, "bound": 8, "bound_elsewhere": 0,
        "near": {"near": 8, "known": 8}, "near_without": {"near": 4, "known": 8}});
    let effect = json!({"program": "ib_write_bw", "unit": "Gb/s",
        "figures": {"near": {"1": 50.0, "2": 40.0}, "far": {"1": 25.0, "2": 30.0}}});
    let report = json!({"format": FORMAT, "version": VERSION, "nodes": 2, "releases": {"Linux": "6.8"},
        "machine": "8 x NVIDIA H100, 8 x verbs 400 Gb/s", "witnesses": [smi, lstopo], "ways": [way],
        "effects": [effect], "played": false});
    serde_json::from_value(report).unwrap()
}

#[test]
fn a_page_names_what_was_not_tried_and_what_differs_and_foreign_text_breaks_no_cell() {
    let page = report().to_markdown();
    for line in [
        "# Trial: 8 x NVIDIA H100, 8 x verbs 400 Gb/s",
        "2 nodes; Linux 6.8.",
        "| nvidia-smi topo -m | not tried: no `nvidia-smi` here | |",
        "| lstopo | 90 | none |",
        "| `srun -n8 --gpus-per-task=1` | 8 | 7 | 0 | driver 0000:1b:00.0, we 0000:43:00.0 |  | 8 of 8 | 8 of 8 | 4 of 8 |",
        "| ib_write_bw | 45.0 | - | 27.5 (62 %) | Gb/s |",
    ] {
        let mut lines = page.lines();
        assert!(lines.any(|other| other == line), "{line}: {page}");
    }
    let hostile = "a|b\n<script>\u{1b}[2J".to_string();
    let way = TriedWay {
        not_tried: Some(hostile.clone()),
        ..TriedWay::default()
    };
    let mut report = report();
    (report.machine, report.ways) = (hostile, vec![way]);
    let page = report.to_markdown();
    let escaped = "a\\|b&lt;script>[2J";
    assert!(page.starts_with(&format!("# Trial: {escaped}\n")), "{page}");
    assert!(page.contains(&format!("| `` | not tried: {escaped} |")));
}

#[test]
fn tasks_whose_gpus_differ_are_counted_also_where_they_are_not_told() {
    let way = TriedWay {
        tasks: 64,
        agree: 1,
        unasked: [("no driver".to_string(), 3)].into(),
        ..TriedWay::default()
    };
    assert_eq!(way.judged(), 61);
}

#[test]
fn a_report_that_cannot_be_taken_is_told_why() {
    let good = report();
    assert_eq!(faults(&good), Vec::<String>::new());
    assert_eq!(read(good.to_json().as_bytes()), Ok(good.clone()));
    let newer = good.to_json().replace("\"version\": 2", "\"version\": 3");
    let refused = |text: &str| read(text.as_bytes()).unwrap_err();
    assert!(refused(&newer).starts_with("version 3 of the report"));
    assert!(refused("{}").starts_with("no report of a trial"));
    let fault = |change: &dyn Fn(&mut TrialReport), word: &str| {
        let mut report = good.clone();
        change(&mut report);
        assert!(faults(&report).join("; ").contains(word), "{word}");
    };
    fault(&|of| of.played = true, "played");
    let nothing = |of: &mut TrialReport| {
        of.witnesses.clear();
        of.ways.clear();
    };
    fault(&nothing, "nothing was compared");
    let uuid = "x GPU-1a2b3c4d-0000-0000-0000-000000000000!";
    fault(&|of| of.machine = uuid.to_string(), "UUID");
}
