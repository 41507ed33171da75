//! The GPU of a process that a launcher started: of several that it sees, the one at its rank's place.
//!
//! Every launcher's processes see the same GPUs, and the k-th of them takes the k-th GPU: so PyTorch's documents tell
//! programs (`torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`), and so do the examples of MPI's.  It is a convention
//! and no evidence: the reason says so.  Processes that are fewer than the GPUs take the first ones, not blocks.
#![forbid(unsafe_code)]

use nic_placement_core::gpus::uncountable;
use nic_placement_core::step::{Claim, GpuGrant};
use nic_placement_core::topology::Topology;

/// A process among those that a launcher started on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// from 0
    pub number: u32,
    /// number of processes; `None` if neither a launcher nor the user says it
    pub of: Option<u32>,
    /// the variable or option that gave the number, such as `LOCAL_RANK=3`
    pub said: String,
    /// true if the user named the number, false for a launcher
    pub by_user: bool,
}

/// The GPUs that a process will use among those that it sees, as far as its rank tells; and why that tells nothing, if
/// it should.
pub fn gpu_by_rank(
    topology: &Topology,
    grant: &GpuGrant,
    seen: Claim,
    rank: Option<&Rank>,
) -> (Claim, Option<String>) {
    let count = seen.gpus.len();
    let Some(rank) = rank.filter(|_| count > 1) else {
        return (seen, None);
    };
    let Rank {
        number,
        of,
        said,
        by_user,
    } = rank;
    // a launcher's only process here may well use all GPUs, so its number chooses none; `--local-rank` does
    if *of == Some(1) && !by_user {
        return (seen, None);
    }
    let why = if of.is_some_and(|of| of as usize > count) {
        Some(format!(
            "{} processes share the {count} GPUs that they see",
            of.unwrap_or(0)
        ))
    } else if *number as usize >= count {
        Some(format!("`{said}` is past the {count} GPUs that it sees"))
    } else {
        uncountable(topology, &seen.gpus, grant)
    };
    if let Some(why) = why {
        let note =
            format!("{why}: which of them it will use is not known, so it gets the NICs of all");
        return (seen, Some(note));
    }
    let gpu = seen.gpus[*number as usize];
    let reason = format!(
        "`{said}` means by convention number {number} of the {count} that it sees ({})",
        seen.reason
    );
    (
        Claim {
            gpus: vec![gpu],
            reason,
        },
        None,
    )
}

#[cfg(test)]
mod tests {
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
        let (claim, note) = gpu_by_rank(
            &topology,
            &grant(list),
            seen(&topology, &Step::default(), &grant(list)),
            Some(&rank),
        );
        (gpus(&claim), note)
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
        let (claim, _) = gpu_by_rank(
            &topology,
            &grant(None),
            seen(&topology, &Step::default(), &grant(None)),
            Some(&rank),
        );
        assert_eq!(gpus(&claim), [0]);
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
            let (claim, note) = gpu_by_rank(
                &topology,
                &grant(None),
                seen(&topology, &Step::default(), &grant(None)),
                Some(&rank),
            );
            assert_eq!(claim.gpus.len(), 8);
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
