//! Each launcher by its variables, one inside another, and what is no number.

use super::*;

fn values(text: &str) -> Present {
    let pairs = text
        .split_whitespace()
        .filter_map(|word| word.split_once('='));
    pairs
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

/// `number/of said`, number and count among all.
fn found(text: &str) -> String {
    let Numbering {
        rank,
        global,
        total,
        doubt,
        ..
    } = find(&values(text), None, None);
    let rank = rank.map_or("-".to_string(), |rank| {
        format!(
            "{}/{} {}",
            rank.number,
            rank.of.map_or("?".to_string(), |of| of.to_string()),
            rank.said
        )
    });
    format!(
        "{rank}, {global} of {total}{}",
        doubt.map(|doubt| format!(", {doubt}")).unwrap_or_default()
    )
}

#[test]
fn each_launcher_is_known_by_its_own_variables() {
    for (variables, expected) in [
        (
            "LOCAL_RANK=3 LOCAL_WORLD_SIZE=8 RANK=11 WORLD_SIZE=16",
            "3/8 LOCAL_RANK=3, 11 of 16",
        ),
        ("LOCAL_RANK=3 LOCAL_SIZE=8", "3/8 LOCAL_RANK=3, 3 of 8"),
        ("LOCAL_RANK=3", "3/? LOCAL_RANK=3, 3 of 1"),
        (
            "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4 OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8",
            "1/4 OMPI_COMM_WORLD_LOCAL_RANK=1, 5 of 8",
        ),
        (
            "MV2_COMM_WORLD_LOCAL_RANK=1 MV2_COMM_WORLD_LOCAL_SIZE=4 MV2_COMM_WORLD_RANK=5 MV2_COMM_WORLD_SIZE=8",
            "1/4 MV2_COMM_WORLD_LOCAL_RANK=1, 5 of 8",
        ),
        (
            "MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4 PMI_RANK=5 PMI_SIZE=8",
            "1/4 MPI_LOCALRANKID=1, 5 of 8",
        ),
        (
            "PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=4 PALS_RANKID=5 PMI_SIZE=8",
            "1/4 PALS_LOCAL_RANKID=1, 5 of 8",
        ),
        (
            "PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=4 PMI_RANK=5 PMI_SIZE=8",
            "1/4 PMI_LOCAL_RANK=1, 5 of 8",
        ),
        (
            "FLUX_TASK_LOCAL_ID=1 FLUX_JOB_SIZE=8 FLUX_JOB_NNODES=2 FLUX_TASK_RANK=5",
            "1/4 FLUX_TASK_LOCAL_ID=1, 5 of 8",
        ),
        (
            "FLUX_TASK_LOCAL_ID=1 FLUX_JOB_SIZE=7 FLUX_JOB_NNODES=2",
            "1/? FLUX_TASK_LOCAL_ID=1, 1 of 1",
        ),
        // twelve as eight and four
        (
            "FLUX_TASK_LOCAL_ID=6 FLUX_JOB_SIZE=12 FLUX_JOB_NNODES=2 FLUX_TASK_RANK=6",
            "6/? FLUX_TASK_LOCAL_ID=6, 6 of 12",
        ),
        (
            "SLURM_LOCALID=2 SLURM_NODEID=2 SLURM_STEP_TASKS_PER_NODE=8(x2),4 SLURM_PROCID=18 SLURM_STEP_NUM_TASKS=20",
            "2/4 SLURM_LOCALID=2, 18 of 20",
        ),
    ] {
        assert_eq!(found(variables), expected, "{variables}");
    }
}

#[test]
fn the_innermost_launcher_counts() {
    let slurm = "SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=1";
    let ompi = "OMPI_COMM_WORLD_LOCAL_RANK=5 OMPI_COMM_WORLD_LOCAL_SIZE=8";
    let torch = "LOCAL_RANK=7 LOCAL_WORLD_SIZE=8";
    assert_eq!(
        found(&format!("{slurm} {torch}")),
        "7/8 LOCAL_RANK=7, 7 of 8"
    );
    assert_eq!(
        found(&format!("{slurm} {ompi}")),
        "5/8 OMPI_COMM_WORLD_LOCAL_RANK=5, 5 of 8"
    );
    assert_eq!(
        found(&format!("{slurm} {ompi} {torch}")),
        "7/8 LOCAL_RANK=7, 7 of 8"
    );
}

#[test]
fn the_number_of_slurms_own_task_stands_over_those_of_launchers_around_srun() {
    let task = |process: u32| {
        format!(
            "SLURM_TASK_PID={process} SLURM_LOCALID=2 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=4 SLURM_PROCID=2 \
             SLURM_STEP_NUM_TASKS=4"
        )
    };
    let (own, other) = (task(std::process::id()), task(std::process::id() + 1));
    for older in [
        "OMPI_COMM_WORLD_LOCAL_RANK=5 OMPI_COMM_WORLD_LOCAL_SIZE=8",
        "MPI_LOCALRANKID=5 MPI_LOCALNRANKS=8",
        "PALS_LOCAL_RANKID=5 PALS_LOCAL_SIZE=8",
        "FLUX_TASK_LOCAL_ID=5 FLUX_JOB_SIZE=8 FLUX_JOB_NNODES=1",
    ] {
        assert_eq!(
            found(&format!("{own} {older}")),
            "2/4 SLURM_LOCALID=2, 2 of 4",
            "{older}"
        );
        assert!(
            found(&format!("{other} {older}")).starts_with("5/8 "),
            "{older}: of a launcher in the task"
        );
    }
    // programs choose their GPU by it
    assert!(
        found(&format!("{own} LOCAL_RANK=5 LOCAL_WORLD_SIZE=8")).starts_with("5/8 LOCAL_RANK=5")
    );
    // the batch script is task 0 of no step
    let script = format!(
        "SLURM_TASK_PID={} SLURM_LOCALID=0 SLURM_NODEID=0",
        std::process::id()
    );
    assert!(
        found(&format!("{script} MPI_LOCALRANKID=5 MPI_LOCALNRANKS=8"))
            .starts_with("5/8 MPI_LOCALRANKID=5")
    );
}

/// Cray's variables, as Slurm's mpi/cray_shasta sets them in a task of step 40.0.
const BY_SLURM: &str = "PALS_APID=40.0 PALS_LOCAL_RANKID=1 PALS_RANKID=5 PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=4 PMI_RANK=5 \
    PMI_SIZE=8 SLURM_JOB_ID=40 SLURM_STEP_ID=0 SLURM_LOCALID=1 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=4 SLURM_PROCID=5 \
    SLURM_STEP_NUM_TASKS=8";

#[test]
fn crays_variables_are_slurms_own_where_it_sets_them() {
    assert_eq!(found(BY_SLURM), "1/4 SLURM_LOCALID=1, 5 of 8");
    assert!(find(&values(BY_SLURM), None, None).is_slurms());
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
fn flux_is_inside_what_started_its_brokers() {
    let flux = "FLUX_TASK_LOCAL_ID=3 FLUX_JOB_SIZE=16 FLUX_JOB_NNODES=2 FLUX_TASK_RANK=11";
    let expected = "3/8 FLUX_TASK_LOCAL_ID=3, 11 of 16";
    let pals = "PALS_APID=5f3c-11 PALS_LOCAL_RANKID=0 PALS_LOCAL_SIZE=1 PALS_RANKID=1 PMI_LOCAL_RANK=0 PMI_LOCAL_SIZE=1";
    assert_eq!(found(&format!("{BY_SLURM} {flux}")), expected);
    assert_eq!(found(&format!("{pals} {flux}")), expected);
    let hydra = "MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4 PMI_RANK=5 PMI_SIZE=8";
    assert_eq!(
        found(&format!("{flux} {hydra}")),
        "1/4 MPI_LOCALRANKID=1, 5 of 8",
        "mpiexec in Flux"
    );
    let uneven = flux.replace("FLUX_JOB_SIZE=16", "FLUX_JOB_SIZE=15");
    for broker in [
        "MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1",
        "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2",
    ] {
        assert_eq!(
            found(&format!("{flux} {broker}")),
            expected,
            "{broker} started the broker"
        );
        assert_eq!(
            found(&format!("{uneven} {broker}")),
            "3/? FLUX_TASK_LOCAL_ID=3, 11 of 15"
        );
    }
    let one = "FLUX_TASK_LOCAL_ID=0 FLUX_JOB_SIZE=2 FLUX_JOB_NNODES=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=1";
    assert!(found(one).starts_with("0/1 MPI_LOCALRANKID=0"));
}

#[test]
fn who_gave_the_number_is_known_below_a_wrapper_that_says_it_again() {
    let numbered_by = |text: &str, number, size| find(&values(text), number, size).numbered_by;
    let ompi = "OMPI_COMM_WORLD_LOCAL_RANK=5 OMPI_COMM_WORLD_LOCAL_SIZE=8";
    let by_ompi = Some("OMPI_COMM_WORLD_LOCAL_RANK");
    assert_eq!(numbered_by(ompi, None, None), by_ompi);
    assert_eq!(
        numbered_by(
            &format!("{ompi} LOCAL_RANK=5 LOCAL_WORLD_SIZE=8"),
            None,
            None
        ),
        by_ompi
    );
    assert_eq!(numbered_by(ompi, Some(5), Some(8)), by_ompi);
    assert_eq!(numbered_by(ompi, Some(4), None), None, "the user's own");
    assert_eq!(
        numbered_by(&format!("{ompi} LOCAL_RANK=5"), None, None),
        by_ompi,
        "the count is left out"
    );
    for other in [
        "LOCAL_RANK=4",
        "LOCAL_RANK=4 LOCAL_WORLD_SIZE=8",
        "LOCAL_RANK=5 LOCAL_WORLD_SIZE=6",
    ] {
        assert_eq!(
            numbered_by(&format!("{ompi} {other}"), None, None),
            Some("LOCAL_RANK"),
            "{other}"
        );
    }
    let alone =
        "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1";
    assert_eq!(
        numbered_by(alone, None, None),
        Some("LOCAL_RANK"),
        "torchrun in one process of mpirun"
    );
    let pals = "PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4";
    assert_eq!(
        numbered_by(pals, None, None),
        Some("PALS_LOCAL_RANKID"),
        "all of them repeat it"
    );
    let slurm = format!("{BY_SLURM} LOCAL_RANK=1 LOCAL_WORLD_SIZE=4");
    assert_eq!(
        numbered_by(&slurm, None, None),
        Some("LOCAL_RANK"),
        "Slurm's are known by their masks"
    );
}

#[test]
fn slurms_own_number_and_count_are_known_in_whoever_s_words() {
    let slurm = "SLURM_LOCALID=2 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=4";
    let repeats = |more: &str, number, size| {
        find(&values(&format!("{slurm} {more}")), number, size).repeats_slurm
    };
    assert!(!repeats("", None, None), "it is Slurm's word itself");
    assert!(repeats("LOCAL_RANK=2 LOCAL_WORLD_SIZE=4", None, None));
    assert!(repeats("", Some(2), None) && repeats("", Some(2), Some(4)));
    assert!(
        repeats("LOCAL_RANK=2 RANK=2", None, None),
        "the number again, and no count of its own"
    );
    assert!(!repeats("LOCAL_RANK=1", None, None), "nobody says how many");
    assert!(!repeats("LOCAL_RANK=2 LOCAL_WORLD_SIZE=8", None, None));
    assert!(!repeats("LOCAL_RANK=1 LOCAL_WORLD_SIZE=4", None, None));
    assert!(!find(&values("LOCAL_RANK=2 LOCAL_WORLD_SIZE=4"), None, None).repeats_slurm);
}

#[test]
fn a_count_that_was_left_out_is_that_of_whoever_gave_the_same_number() {
    let slurm = "SLURM_LOCALID=2 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=4";
    let ompi = "OMPI_COMM_WORLD_LOCAL_RANK=2 OMPI_COMM_WORLD_LOCAL_SIZE=3";
    let of = |text: &str| find(&values(text), None, None).rank.unwrap().of;
    assert_eq!(
        of(&format!("{slurm} LOCAL_RANK=2 RANK=2")),
        Some(4),
        "pyxis with an image of PyTorch"
    );
    assert_eq!(
        of(&format!("{slurm} LOCAL_RANK=2 LOCAL_WORLD_SIZE=8")),
        Some(8),
        "its own count counts"
    );
    assert_eq!(of(&format!("{slurm} LOCAL_RANK=1")), None, "another number");
    assert_eq!(
        of(&format!("{slurm} {ompi} LOCAL_RANK=2")),
        Some(3),
        "the inner one"
    );
    assert_eq!(
        find(&values(slurm), Some(2), None).rank.unwrap().of,
        Some(4)
    );
    let cray =
        "PMI_LOCAL_RANK=6 PMI_LOCAL_SIZE=8 FLUX_TASK_LOCAL_ID=6 FLUX_JOB_SIZE=12 FLUX_JOB_NNODES=2";
    assert_eq!(
        of(cray),
        Some(8),
        "an uneven job of Flux, whose shell tells Cray's library"
    );
    let first = slurm.replace("LOCALID=2", "LOCALID=0") + " LOCAL_RANK=0";
    assert_eq!(of(&first), Some(4));
    assert_eq!(
        of(&first.replace("NODE=4", "NODE=1")),
        None,
        "it may be the first of those of Slurm's only task"
    );
    let nobody = slurm.replace("NODE=4", "NODE=2") + " LOCAL_RANK=2";
    assert_eq!(of(&nobody), None, "no count that its number is past");
}

#[test]
fn a_batch_script_is_no_task_of_a_step() {
    assert_eq!(
        found("SLURM_LOCALID=0 SLURM_PROCID=0 SLURM_NODEID=0 SLURM_TASKS_PER_NODE=8"),
        "-, 0 of 1"
    );
}

#[test]
fn what_is_no_number_is_told_of_and_counts_for_nothing() {
    assert_eq!(
        found("LOCAL_RANK=first"),
        "-, 0 of 1, `LOCAL_RANK=first` is no number: ignored"
    );
    assert_eq!(found("LOCAL_RANK=-1"), "-, 0 of 1");
    assert_eq!(
        found("LOCAL_RANK= MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2"),
        "1/2 MPI_LOCALRANKID=1, 1 of 2"
    );
    assert!(
        found("LOCAL_RANK=8 LOCAL_WORLD_SIZE=8")
            .contains("`LOCAL_RANK=8` is not below size 8: ignored")
    );
    assert!(found("LOCAL_RANK=4000000000").starts_with("-, "));
    assert_eq!(
        found("LOCAL_RANK=0 LOCAL_WORLD_SIZE=4000000000"),
        "0/? LOCAL_RANK=0, 0 of 1"
    );
    assert!(
        found("SLURM_LOCALID=0 SLURM_NODEID=9 SLURM_STEP_TASKS_PER_NODE=8(x2").starts_with("-, ")
    );
}

#[test]
fn the_user_s_own_word_beats_every_launcher() {
    let torch = values("LOCAL_RANK=7 LOCAL_WORLD_SIZE=8 RANK=15 WORLD_SIZE=16");
    let found = find(&torch, Some(2), None);
    let rank = found.rank.unwrap();
    assert_eq!(
        (rank.number, rank.of, rank.said.as_str()),
        (2, Some(8), "local rank 2")
    );
    assert_eq!(find(&torch, Some(2), Some(4)).rank.unwrap().of, Some(4));
}

/// The number of torchrun's worker 5 of node 1, after these changes.
fn virtual_number(changes: &[(&str, &str)]) -> Option<u32> {
    let worker = [
        ("TORCHELASTIC_RUN_ID", "none"),
        ("CUDA_VISIBLE_DEVICES", "5"),
        ("LOCAL_RANK", "0"),
        ("LOCAL_WORLD_SIZE", "8"),
        ("GROUP_RANK", "1"),
        ("GROUP_WORLD_SIZE", "2"),
        ("RANK", "13"),
        ("WORLD_SIZE", "16"),
    ];
    let all = worker.iter().chain(changes);
    super::virtual_number(
        &all.map(|(name, value)| (name.to_string(), value.to_string()))
            .collect(),
    )
}

#[test]
fn torchruns_workers_with_a_gpu_each_are_told_apart() {
    assert_eq!(virtual_number(&[]), Some(5));
    assert_eq!(virtual_number(&[("RANK", "8")]), Some(0));
    for (name, value) in [
        ("LOCAL_RANK", "5"),
        ("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7"),
        ("CUDA_VISIBLE_DEVICES", ""),
        ("WORLD_SIZE", "12"),
        ("RANK", "7"),
        ("RANK", "16"),
        ("GROUP_RANK", "4294967295"),
    ] {
        assert_eq!(virtual_number(&[(name, value)]), None, "{name}={value}");
    }
}

mod by_rank {
    use super::*;
    use crate::gpus::seen;
    use crate::gpus::tests::{dgx, gpus, grant};
    use nic_placement_core::step::Step;
    use nic_placement_core::topology::{GpuIndex, GpuVendor};

    const CUDA_ORDER: &str = "CUDA_DEVICE_ORDER";

    /// The GPUs of a process of this rank that has this list, and what is said of it.
    fn of_rank(list: Option<&str>, number: u32, of: Option<u32>) -> (Vec<usize>, Option<String>) {
        let topology = dgx();
        let rank = Rank {
            number,
            of,
            said: format!("LOCAL_RANK={number}"),
            by_user: false,
        };
        let (found, note) = gpu_by_rank(
            &topology,
            &grant(list),
            seen(&topology, &Step::default(), &grant(list)),
            Some(&rank),
        );
        (gpus(&found), note)
    }

    #[test]
    fn of_several_gpus_the_rank_names_one_in_the_program_s_order() {
        for number in 0..8 {
            assert_eq!(
                of_rank(None, number, Some(8)),
                (vec![number as usize], None)
            );
        }
        assert_eq!(of_rank(Some("6,2"), 0, Some(2)).0, [6]);
        assert_eq!(of_rank(Some("6,2"), 1, Some(2)).0, [2]);
        assert_eq!(
            of_rank(None, 1, Some(4)).0,
            [1],
            "fewer processes than GPUs: the k-th, not a block"
        );
        assert_eq!(of_rank(None, 1, None).0, [1]);
    }

    #[test]
    fn the_only_gpu_is_everybody_s() {
        for number in 0..8 {
            assert_eq!(of_rank(Some("5"), number, Some(8)), (vec![5], None));
        }
    }

    #[test]
    fn more_processes_than_gpus_claim_none_and_say_so() {
        let (all, note) = of_rank(Some("0,1,2,3"), 2, Some(8));
        assert_eq!(all, [0, 1, 2, 3]);
        assert!(
            note.unwrap().starts_with(
                "8 processes share the 4 GPUs that they see: which of them it will use"
            )
        );
        let (all, note) = of_rank(Some("0,1"), 5, None);
        assert_eq!(all, [0, 1]);
        assert!(
            note.unwrap()
                .starts_with("`LOCAL_RANK=5` is past the 2 GPUs that it sees")
        );
    }

    #[test]
    fn who_is_alone_may_drive_all_gpus_unless_the_user_names_its_rank() {
        assert_eq!(of_rank(Some("2,3"), 0, Some(1)), (vec![2, 3], None));
        let topology = dgx();
        let rank = Rank {
            number: 0,
            of: Some(1),
            said: "local rank 0".to_string(),
            by_user: true,
        };
        let (found, _) = gpu_by_rank(
            &topology,
            &grant(None),
            seen(&topology, &Step::default(), &grant(None)),
            Some(&rank),
        );
        assert_eq!(gpus(&found), [0]);
    }

    #[test]
    fn gpus_that_the_program_may_count_in_another_way_are_not_counted() {
        let of = |change: fn(&mut Topology)| {
            let mut topology = dgx();
            change(&mut topology);
            let rank = Rank {
                number: 1,
                of: Some(8),
                said: "LOCAL_RANK=1".to_string(),
                by_user: false,
            };
            let (found, note) = gpu_by_rank(
                &topology,
                &grant(None),
                seen(&topology, &Step::default(), &grant(None)),
                Some(&rank),
            );
            assert_eq!(found.own.len(), 8);
            note.unwrap()
        };
        assert!(
            of(|node| node.gpus[3].mig_instances = Some(2))
                .starts_with("a number may mean a MIG instance: ")
        );
        assert!(of(|node| node.gpus[3].vendor = GpuVendor::Amd).contains("several vendors"));
        let intel = |node: &mut Topology| {
            node.gpus
                .iter_mut()
                .for_each(|gpu| gpu.vendor = GpuVendor::Intel)
        };
        assert!(of(intel).starts_with("a number may mean a stack"));
        let mut unequal = dgx();
        unequal.gpus[3].model = Some("another".to_string());
        let mut ordered = grant(None);
        assert!(uncountable(&unequal, &[GpuIndex(1), GpuIndex(3)], &ordered).is_some());
        ordered
            .variables
            .insert(CUDA_ORDER, "FASTEST_FIRST".to_string());
        assert!(uncountable(&unequal, &[GpuIndex(1), GpuIndex(3)], &ordered).is_some());
        ordered
            .variables
            .insert(CUDA_ORDER, "PCI_BUS_ID".to_string());
        assert_eq!(
            uncountable(&unequal, &[GpuIndex(1), GpuIndex(3)], &ordered),
            None
        );
        let differ = of(|node| node.gpus[3].model = Some("another".to_string()));
        assert!(
            differ.starts_with("its GPUs differ, and `CUDA_DEVICE_ORDER` is not `PCI_BUS_ID`"),
            "{differ}"
        );
    }
}
