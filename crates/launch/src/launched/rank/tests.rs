//! Each launcher by its variables, one inside another, and what is no number.

use super::*;
use crate::tests::{cells, present};

fn values(text: &str) -> Present {
    present(text.split(' '))
}

fn numbering(text: &str) -> Numbering {
    find(&values(text), None, None)
}

/// `number/of said`, number and count among all.
fn found(text: &str) -> String {
    let found = numbering(text);
    let rank = found.rank.map_or("-".to_string(), |rank| {
        let of = rank.of.map_or("?".to_string(), |of| of.to_string());
        format!("{}/{of} {}", rank.number, rank.said)
    });
    let (global, total) = (found.global, found.total);
    let doubt = found.doubt.map(|doubt| format!(", {doubt}"));
    format!("{rank}, {global} of {total}{}", doubt.unwrap_or_default())
}

#[test]
fn each_launcher_is_known_by_its_own_variables() {
    for row in [
        "LOCAL_RANK=3 LOCAL_WORLD_SIZE=8 RANK=11 WORLD_SIZE=16 | 3/8 LOCAL_RANK=3, 11 of 16",
        "LOCAL_RANK=3 LOCAL_SIZE=8 | 3/8 LOCAL_RANK=3, 3 of 8",
        "LOCAL_RANK=3 | 3/? LOCAL_RANK=3, 3 of 1",
        "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4 OMPI_COMM_WORLD_RANK=5 \
         OMPI_COMM_WORLD_SIZE=8 | 1/4 OMPI_COMM_WORLD_LOCAL_RANK=1, 5 of 8",
        "MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_LOCAL_SIZE=4 MV2_COMM_WORLD_RANK=5 \
         MV2_COMM_WORLD_SIZE=8 | 1/4 MV2_COMM_WORLD_LOCAL_RANK=1, 5 of 8",
        "MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4 PMI_RANK=5 PMI_SIZE=8 | 1/4 MPI_LOCALRANKID=1, 5 of 8",
        "PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=4 PALS_RANKID=5 PMI_SIZE=8 | 1/4 PALS_LOCAL_RANKID=1, 5 of 8",
        "PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=4 PMI_RANK=5 PMI_SIZE=8 | 1/4 PMI_LOCAL_RANK=1, 5 of 8",
        "FLUX_TASK_LOCAL_ID=1 FLUX_JOB_SIZE=8 FLUX_JOB_NNODES=2 FLUX_TASK_RANK=5 \
         | 1/4 FLUX_TASK_LOCAL_ID=1, 5 of 8",
        "FLUX_TASK_LOCAL_ID=1 FLUX_JOB_SIZE=7 FLUX_JOB_NNODES=2 | 1/? FLUX_TASK_LOCAL_ID=1, 1 of 1",
        // twelve as eight and four
        "FLUX_TASK_LOCAL_ID=6 FLUX_JOB_SIZE=12 FLUX_JOB_NNODES=2 FLUX_TASK_RANK=6 \
         | 6/? FLUX_TASK_LOCAL_ID=6, 6 of 12",
        "SLURM_LOCALID=2 SLURM_NODEID=2 SLURM_STEP_TASKS_PER_NODE=8(x2),4 SLURM_PROCID=18 \
         SLURM_STEP_NUM_TASKS=20 | 2/4 SLURM_LOCALID=2, 18 of 20",
        // a batch script is no task of a step
        "SLURM_LOCALID=0 SLURM_PROCID=0 SLURM_NODEID=0 SLURM_TASKS_PER_NODE=8 | -, 0 of 1",
        // no numbers
        "LOCAL_RANK=first | -, 0 of 1",
        "LOCAL_RANK=-1 | -, 0 of 1",
        "LOCAL_RANK= MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 | 1/2 MPI_LOCALRANKID=1, 1 of 2",
        "LOCAL_RANK=8 LOCAL_WORLD_SIZE=8 | -, 0 of 8, `LOCAL_RANK=8` is not below size 8: ignored",
        "LOCAL_RANK=0 LOCAL_WORLD_SIZE=4000000000 | 0/? LOCAL_RANK=0, 0 of 1",
    ] {
        let [variables, expected] = cells(row);
        assert_eq!(found(variables), expected, "{variables}");
    }
    let uneven = "SLURM_LOCALID=0 SLURM_NODEID=9 SLURM_STEP_TASKS_PER_NODE=8(x2";
    for none in ["LOCAL_RANK=4000000000", uneven] {
        assert!(found(none).starts_with("-, "), "{none}");
    }
}

const SLURM: &str = "SLURM_LOCALID=2 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=4";

#[test]
fn the_innermost_launcher_counts() {
    let ompi = "OMPI_COMM_WORLD_LOCAL_RANK=5 OMPI_COMM_WORLD_LOCAL_SIZE=8";
    let torch = "LOCAL_RANK=7 LOCAL_WORLD_SIZE=8";
    for (inner, start) in [
        (torch.to_string(), "7/8 LOCAL_RANK=7, 7 of 8"),
        (ompi.to_string(), "5/8 OMPI_COMM_WORLD_LOCAL_RANK=5, 5 of 8"),
        (format!("{ompi} {torch}"), "7/8 LOCAL_RANK=7, 7 of 8"),
    ] {
        assert_eq!(found(&format!("{SLURM} {inner}")), start);
    }
}

#[test]
fn the_number_of_slurms_own_task_stands_over_those_of_launchers_around_srun() {
    let process = std::process::id();
    let task =
        |process| format!("SLURM_TASK_PID={process} {SLURM} SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=4");
    let (own, other) = (task(process), task(process + 1));
    for older in [
        "OMPI_COMM_WORLD_LOCAL_RANK=5 OMPI_COMM_WORLD_LOCAL_SIZE=8",
        "MPI_LOCALRANKID=5 MPI_LOCALNRANKS=8",
        "PALS_LOCAL_RANKID=5 PALS_LOCAL_SIZE=8",
        "FLUX_TASK_LOCAL_ID=5 FLUX_JOB_SIZE=8 FLUX_JOB_NNODES=1",
    ] {
        let slurms = found(&format!("{own} {older}"));
        assert_eq!(slurms, "2/4 SLURM_LOCALID=2, 2 of 4", "{older}");
        // of a launcher in the task
        let inner = found(&format!("{other} {older}"));
        assert!(inner.starts_with("5/8 "), "{older}: {inner}");
    }
    // programs choose their GPU by it; the batch script is task 0 of no step
    let script = format!("SLURM_TASK_PID={process} SLURM_LOCALID=0 SLURM_NODEID=0");
    for row in [
        format!("{own} LOCAL_RANK=5 LOCAL_WORLD_SIZE=8 | 5/8 LOCAL_RANK=5"),
        format!("{script} MPI_LOCALRANKID=5 MPI_LOCALNRANKS=8 | 5/8 MPI_LOCALRANKID=5"),
    ] {
        let [text, start] = cells(&row);
        assert!(found(text).starts_with(start), "{text}");
    }
}

/// Cray's variables, as Slurm's mpi/cray_shasta sets them in a task of step 40.0.
const BY_SLURM: &str = "PALS_APID=40.0 PALS_LOCAL_RANKID=1 PALS_RANKID=5 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=4 PMI_RANK=5 \
    PMI_SIZE=8 SLURM_JOB_ID=40 SLURM_STEP_ID=0 SLURM_LOCALID=1 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=4 SLURM_PROCID=5 \
    SLURM_STEP_NUM_TASKS=8";

#[test]
fn crays_variables_are_slurms_own_where_it_sets_them() {
    assert_eq!(found(BY_SLURM), "1/4 SLURM_LOCALID=1, 5 of 8");
    assert!(numbering(BY_SLURM).is_slurms());
    // 22.05 sets no count of the node
    let older = BY_SLURM.replace("PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=4", "");
    assert_eq!(found(&older), "1/4 SLURM_LOCALID=1, 5 of 8");
    // HPE's mpiexec in an allocation of Slurm's, or in another step of it
    for other in ["PALS_APID=5f3c-11", "PALS_APID=40.1", "PALS_APID=41.0"] {
        let pals = BY_SLURM.replace("PALS_APID=40.0", other) + " PALS_LOCAL_SIZE=2";
        assert_eq!(found(&pals), "1/2 PALS_LOCAL_RANKID=1, 5 of 8", "{other}");
    }
    let outside = "PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=4 PALS_RANKID=5 PMI_SIZE=8";
    assert_eq!(found(outside), "1/4 PALS_LOCAL_RANKID=1, 5 of 8");
}

#[test]
fn flux_is_inside_its_brokers_starter() {
    let flux = "FLUX_TASK_LOCAL_ID=3 FLUX_JOB_SIZE=16 FLUX_JOB_NNODES=2 FLUX_TASK_RANK=11";
    let uneven = flux.replace("FLUX_JOB_SIZE=16", "FLUX_JOB_SIZE=15");
    let expected = "3/8 FLUX_TASK_LOCAL_ID=3, 11 of 16";
    for broker in [
        BY_SLURM,
        "PALS_APID=5f3c-11 PALS_LOCAL_RANKID=0 PALS_LOCAL_SIZE=1 PALS_RANKID=1 PMI_LOCAL_RANK=0 \
         PMI_LOCAL_SIZE=1",
        "MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1",
        "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_RANK=1 \
         OMPI_COMM_WORLD_SIZE=2",
    ] {
        assert_eq!(found(&format!("{flux} {broker}")), expected, "{broker}");
        if !broker.contains("PMI_LOCAL_SIZE") {
            let found = found(&format!("{uneven} {broker}"));
            assert_eq!(found, "3/? FLUX_TASK_LOCAL_ID=3, 11 of 15", "{broker}");
        }
    }
    // mpiexec in Flux
    let hydra = format!("{flux} MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4 PMI_RANK=5 PMI_SIZE=8");
    assert_eq!(found(&hydra), "1/4 MPI_LOCALRANKID=1, 5 of 8");
    let one = "FLUX_TASK_LOCAL_ID=0 FLUX_JOB_SIZE=2 FLUX_JOB_NNODES=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1";
    assert!(found(one).starts_with("0/1 MPI_LOCALRANKID=0"));
}

#[test]
fn the_launcher_of_the_number_is_known_below_a_wrapper_that_says_it_again() {
    let ompi = "OMPI_COMM_WORLD_LOCAL_RANK=5 OMPI_COMM_WORLD_LOCAL_SIZE=8";
    let (by_ompi, by_torch) = (Some("OMPI_COMM_WORLD_LOCAL_RANK"), Some("LOCAL_RANK"));
    for (wrapper, number, size, expected) in [
        ("", None, None, by_ompi),
        ("LOCAL_RANK=5 LOCAL_WORLD_SIZE=8", None, None, by_ompi),
        ("", Some(5), Some(8), by_ompi),
        // the user's own
        ("", Some(4), None, None),
        // the count is left out
        ("LOCAL_RANK=5", None, None, by_ompi),
        ("LOCAL_RANK=4", None, None, by_torch),
        ("LOCAL_RANK=4 LOCAL_WORLD_SIZE=8", None, None, by_torch),
        ("LOCAL_RANK=5 LOCAL_WORLD_SIZE=6", None, None, by_torch),
    ] {
        let found = find(&values(&format!("{ompi} {wrapper}")), number, size);
        assert_eq!(found.numbered_by, expected, "{wrapper} {number:?}");
    }
    for row in [
        // torchrun in one process of mpirun
        "LOCAL_RANK | OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 LOCAL_RANK=0 \
         LOCAL_WORLD_SIZE=1",
        // all of them repeat it
        "PALS_LOCAL_RANKID | PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=4 MPI_LOCALRANKID=1 \
         MPI_LOCALNRANKS=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4",
        // Slurm's are known by their masks
        &format!("LOCAL_RANK | {BY_SLURM} LOCAL_RANK=1 LOCAL_WORLD_SIZE=4"),
    ] {
        let [expected, text] = cells(row);
        assert_eq!(numbering(text).numbered_by, Some(expected), "{text}");
    }
}

#[test]
fn slurms_own_number_and_count_are_known_in_another_launchers_words() {
    for (more, number, size, expected) in [
        // Slurm's word itself
        ("", None, None, false),
        ("LOCAL_RANK=2 LOCAL_WORLD_SIZE=4", None, None, true),
        ("", Some(2), None, true),
        ("", Some(2), Some(4), true),
        // the number again, and no count of its own
        ("LOCAL_RANK=2 RANK=2", None, None, true),
        // no count is known
        ("LOCAL_RANK=1", None, None, false),
        ("LOCAL_RANK=2 LOCAL_WORLD_SIZE=8", None, None, false),
        ("LOCAL_RANK=1 LOCAL_WORLD_SIZE=4", None, None, false),
    ] {
        let found = find(&values(&format!("{SLURM} {more}")), number, size);
        assert_eq!(found.repeats_slurm, expected, "{more} {number:?}");
    }
    assert!(!numbering("LOCAL_RANK=2 LOCAL_WORLD_SIZE=4").repeats_slurm);
}

#[test]
fn a_count_that_was_left_out_is_that_of_the_launcher_with_the_same_number() {
    let ompi = "OMPI_COMM_WORLD_LOCAL_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=3";
    let uneven =
        "PMI_LOCAL_RANK=6 PMI_LOCAL_SIZE=8 FLUX_TASK_LOCAL_ID=6 FLUX_JOB_SIZE=12 FLUX_JOB_NNODES=2";
    let first = SLURM.replace("LOCALID=2", "LOCALID=0") + " LOCAL_RANK=0";
    for (text, of) in [
        // pyxis with an image of PyTorch
        (format!("{SLURM} LOCAL_RANK=2 RANK=2"), Some(4)),
        // its own count counts
        (format!("{SLURM} LOCAL_RANK=2 LOCAL_WORLD_SIZE=8"), Some(8)),
        (format!("{SLURM} LOCAL_RANK=1"), None),
        // the inner one
        (format!("{SLURM} {ompi} LOCAL_RANK=2"), Some(3)),
        // an uneven job of Flux, whose shell tells Cray's library
        (uneven.into(), Some(8)),
        (first.clone(), Some(4)),
        // it may be the first of those of Slurm's only task
        (first.replace("NODE=4", "NODE=1"), None),
        // no count that its number is past
        (SLURM.replace("NODE=4", "NODE=2") + " LOCAL_RANK=2", None),
    ] {
        assert_eq!(numbering(&text).rank.unwrap().of, of, "{text}");
    }
    let said = find(&values(SLURM), Some(2), None);
    assert_eq!(said.rank.unwrap().of, Some(4));
}

#[test]
fn the_user_s_own_word_beats_every_launcher() {
    let torch = values("LOCAL_RANK=7 LOCAL_WORLD_SIZE=8 RANK=15 WORLD_SIZE=16");
    for (size, of) in [(None, 8), (Some(4), 4)] {
        let rank = find(&torch, Some(2), size).rank.unwrap();
        let found = (rank.number, rank.of, rank.said.as_str());
        assert_eq!(found, (2, Some(of), "local rank 2"));
    }
}

#[test]
fn torchruns_workers_with_a_gpu_each_are_told_apart() {
    // worker 5 of node 1
    let worker = "TORCHELASTIC_RUN_ID=none CUDA_VISIBLE_DEVICES=5 LOCAL_RANK=0 LOCAL_WORLD_SIZE=8 \
                  GROUP_RANK=1 GROUP_WORLD_SIZE=2 RANK=13 WORLD_SIZE=16";
    let told_by = |change: &str| virtual_number(&values(&format!("{worker} {change}")));
    assert_eq!([told_by(""), told_by("RANK=8")], [Some(5), Some(0)]);
    let not = "LOCAL_RANK=5|CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7|CUDA_VISIBLE_DEVICES=|WORLD_SIZE=12|RANK=7|RANK=16|\
               GROUP_RANK=4294967295";
    for change in not.split('|') {
        assert_eq!(told_by(change), None, "{change}");
    }
    // the user's own number counts before it
    for (own, number) in [(None, 5), (Some(2), 2)] {
        let found = find(&values(worker), own, None);
        assert_eq!(found.rank.unwrap().number, number);
    }
}

mod by_rank {
    use super::*;
    use crate::gpus::seen;
    use crate::gpus::tests::{dgx, gpus, grant};
    use nic_placement_core::step::Step;
    use nic_placement_core::topology::{GpuIndex, GpuVendor};

    /// The number, the count, and whether the user said them.
    type Numbers = (u32, Option<u32>, bool);

    /// The GPUs of a process of this rank that has this list, and the note on it.
    fn of_rank(node: &Topology, list: Option<&str>, rank: Numbers) -> (Vec<usize>, String) {
        let (number, of, by_user) = rank;
        let said = format!("LOCAL_RANK={number}");
        let rank = Rank {
            number,
            of,
            said,
            by_user,
        };
        let seen = seen(node, &Step::default(), &grant(list));
        let (found, note) = gpu_by_rank(node, &grant(list), seen, Some(&rank));
        (gpus(&found), note.unwrap_or_default())
    }

    #[test]
    fn of_several_gpus_the_rank_names_one_in_the_programs_order() {
        for number in 0..8 {
            // the only GPU is that of all
            for (list, gpu) in [(None, number as usize), (Some("5"), 5)] {
                let (found, note) = of_rank(&dgx(), list, (number, Some(8), false));
                assert_eq!((found, note.as_str()), (vec![gpu], ""));
            }
        }
        let past = "`LOCAL_RANK=5` is past the 2";
        let shared = "8 processes share the 4";
        for (list, rank, expected, start) in [
            (Some("6,2"), (0, Some(2), false), &[6][..], ""),
            (Some("6,2"), (1, Some(2), false), &[2], ""),
            // fewer processes than GPUs: the k-th, not a block
            (None, (1, Some(4), false), &[1], ""),
            (None, (1, None, false), &[1], ""),
            // a process alone may drive all GPUs unless the user names its rank
            (Some("2,3"), (0, Some(1), false), &[2, 3], ""),
            (None, (0, Some(1), true), &[0], ""),
            // more processes than GPUs
            (Some("0,1,2,3"), (2, Some(8), false), &[0, 1, 2, 3], shared),
            (Some("0,1"), (5, None, false), &[0, 1], past),
        ] {
            let (found, note) = of_rank(&dgx(), list, rank);
            assert_eq!(found, expected, "{list:?} {rank:?}");
            let is_right = note.starts_with(start) && note.is_empty() == start.is_empty();
            assert!(is_right, "{note}");
        }
    }

    #[test]
    fn gpus_that_the_program_may_count_in_another_way_are_not_counted() {
        let intel = |node: &mut Topology| {
            let gpus = node.gpus.iter_mut();
            gpus.for_each(|gpu| gpu.vendor = GpuVendor::Intel);
        };
        let differ = |node: &mut Topology| node.gpus[3].model = Some("another".to_string());
        let mig = |node: &mut Topology| node.gpus[3].mig_instances = Some(2);
        let amd = |node: &mut Topology| node.gpus[3].vendor = GpuVendor::Amd;
        let told = |change: fn(&mut Topology), part: &str| {
            let mut node = dgx();
            change(&mut node);
            let (found, note) = of_rank(&node, None, (1, Some(8), false));
            assert_eq!(found.len(), 8);
            assert!(note.contains(part), "{note}");
        };
        told(intel, "may mean a stack");
        told(mig, "may mean a MIG");
        told(amd, "several vendors");
        let order = "differ, and `CUDA_DEVICE_ORDER` is not `PCI_BUS_ID`";
        told(differ, order);
        let mut unequal = dgx();
        differ(&mut unequal);
        let mut ordered = grant(None);
        let (fast, bus) = (Some("FASTEST_FIRST"), Some("PCI_BUS_ID"));
        for (order, is_countable) in [(None, false), (fast, false), (bus, true)] {
            let order = order.map(|order| ("CUDA_DEVICE_ORDER", order.to_string()));
            ordered.variables.extend(order);
            let why = uncountable(&unequal, &[GpuIndex(1), GpuIndex(3)], &ordered);
            assert_eq!(why.is_none(), is_countable, "{why:?}");
        }
    }
}
