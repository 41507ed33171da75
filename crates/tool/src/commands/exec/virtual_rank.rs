//! torchrun's `--virtual-local-rank`: each worker has a GPU of its own, and `LOCAL_RANK=0`.
#![forbid(unsafe_code)]

use nic_placement_core::libraries::Present;

/// The worker's number on its node, where torchrun made `LOCAL_RANK` 0 for all (PyTorch,
/// torch/distributed/elastic/agent/server/local_elastic_agent.py, `_set_local_rank_env`): nodes with as many workers each have
/// their numbers one after another.
pub(super) fn number(values: &Present) -> Option<u32> {
    let number = |name: &str| values.get(name)?.parse::<u32>().ok();
    let one_gpu = |list: &String| !list.is_empty() && !list.contains(',');
    let by_torchrun = values.contains_key("TORCHELASTIC_RUN_ID") && number("LOCAL_RANK") == Some(0);
    if !by_torchrun || !values.get("CUDA_VISIBLE_DEVICES").is_some_and(one_gpu) {
        return None;
    }
    let (of, node) = (number("LOCAL_WORLD_SIZE")?, number("GROUP_RANK")?);
    let is_even = number("GROUP_WORLD_SIZE")?.checked_mul(of) == number("WORLD_SIZE");
    let number = number("RANK")?.checked_sub(node.checked_mul(of)?)?;
    (is_even && number < of).then_some(number)
}

#[cfg(test)]
mod tests {
    /// The number of torchrun's worker 5 of node 1, after these changes.
    fn number(changes: &[(&str, &str)]) -> Option<u32> {
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
        super::number(&all.map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    #[test]
    fn torchruns_workers_with_a_gpu_each_are_told_apart() {
        assert_eq!(number(&[]), Some(5));
        assert_eq!(number(&[("RANK", "8")]), Some(0));
        for (name, value) in [
            ("LOCAL_RANK", "5"),
            ("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7"),
            ("CUDA_VISIBLE_DEVICES", ""),
            ("WORLD_SIZE", "12"),
            ("RANK", "7"),
            ("RANK", "16"),
            ("GROUP_RANK", "4294967295"),
        ] {
            assert_eq!(number(&[(name, value)]), None, "{name}={value}");
        }
    }
}
