//! What undoes a task's CPUs and memory is told.

use super::*;
use crate::judge::rebinding::{Row, rows};
use nic_placement_core::step::program::known_of;

/// What is said of a program of these words on a node of such GPUs.
fn told(vendor: GpuVendor, is_bound: bool, words: &[&str], values: &[(&str, &str)]) -> Vec<String> {
    let mut topology = topology();
    topology.gpus.iter_mut().for_each(|gpu| gpu.vendor = vendor);
    let words = known_of(&WORDS, words.iter().copied());
    told_by(
        Fabric::Unsaid,
        2,
        &topology,
        &Task::default(),
        values,
        &words,
        |checked| checked.is_bound = is_bound,
    )
}

#[test]
fn each_row_of_the_table_has_all_fields_and_known_signs() {
    assert!(rows().count() >= 17);
    for row in rows() {
        let Row {
            when,
            conditions,
            of,
            does,
            instead,
        } = row;
        assert!(
            ["always", "bound", "amd", "gpus", "nics"].contains(&when),
            "`{when}`"
        );
        assert!(
            [of, does, instead]
                .iter()
                .all(|text| !text.is_empty() && !text.contains('\t')),
            "{row:?}"
        );
        for condition in conditions.split(' ') {
            let name = condition
                .trim_start_matches('!')
                .split(['=', '!'])
                .next()
                .unwrap();
            let is_word = !known_of(&WORDS, [&*format!("{name}x"), name].into_iter()).is_empty();
            assert!(
                nic_placement_core::libraries::wanted::is_variable_name(name) || is_word,
                "`{condition}`"
            );
        }
    }
}

/// The rows of this beginning that are told, by the subject.
fn subjects(is_bound: bool, words: &[&str], values: &[(&str, &str)]) -> Vec<String> {
    let told = told(GpuVendor::Nvidia, is_bound, words, values);
    told.iter()
        .map(|line| line.split('`').nth(1).unwrap().to_string())
        .collect()
}

#[test]
fn a_variable_by_which_a_program_leaves_the_tasks_cpus_is_told_where_they_are_ours() {
    for (vendor, name, value, words) in [
        (
            GpuVendor::Nvidia,
            "TLLM_NUMA_AWARE_WORKER_AFFINITY",
            "1",
            "set it to `0`",
        ),
        // `SGLANG_NUMA_BIND_V2=0` would not end it
        (
            GpuVendor::Nvidia,
            "SGLANG_NUMA_BIND_V2",
            "1",
            "set `SGLANG_AUTO_NUMA_BIND=0`",
        ),
        (
            GpuVendor::Nvidia,
            "SGLANG_SET_CPU_AFFINITY",
            "1",
            "0 in all tasks that see one GPU",
        ),
        (
            GpuVendor::Nvidia,
            "NVSHMEM_CPU_AFFINITY",
            "AUTO",
            "(NVSHMEM 3.8, since 3.7): set it to `OFF`",
        ),
        (
            GpuVendor::Nvidia,
            "CCL_WORKER_OFFLOAD",
            "1",
            "(oneCCL 2022.2): set it to `0`",
        ),
        (
            GpuVendor::Nvidia,
            "NCCL_NET_PLUGIN",
            "uccl",
            "set `UCCL_PIN_TO_NUMA=0`",
        ),
        (
            GpuVendor::Nvidia,
            "NCCL_NET_PLUGIN",
            "/opt/libnccl-net-uccl.so",
            "NIC's NUMA node",
        ),
        (
            GpuVendor::Nvidia,
            "SGLANG_NUMA_BIND_V2",
            "True",
            "memory of their GPU's NUMA node alone",
        ),
        (GpuVendor::Amd, "AMD_CPU_AFFINITY", "1", "unset it"),
        (
            GpuVendor::Amd,
            "HSA_OVERRIDE_CPU_AFFINITY_DEBUG",
            "1",
            "for all of the job, also by default",
        ),
        (
            GpuVendor::Nvidia,
            "KMP_AFFINITY",
            "norespect,none",
            "leave `norespect` out",
        ),
    ] {
        let bound = told(vendor, true, &[], &[(name, value)]);
        assert!(
            bound.len() == 1 && bound[0].contains(words),
            "{name}={value}: {bound:?}"
        );
        assert_eq!(
            told(vendor, false, &[], &[(name, value)]),
            [""; 0],
            "{name}={value}, not bound"
        );
    }
    for (name, value) in [
        ("TLLM_NUMA_AWARE_WORKER_AFFINITY", "0"),
        ("TLLM_NUMA_AWARE_WORKER_AFFINITY", "2"),
        ("SGLANG_NUMA_BIND_V2", "0"),
        ("SGLANG_NUMA_BIND_V2", "false"),
        ("SGLANG_SET_CPU_AFFINITY", "False"),
        ("NVSHMEM_CPU_AFFINITY", "off"),
        ("CCL_WORKER_OFFLOAD", "0"),
        ("NCCL_NET_PLUGIN", "libnccl-net-ofi.so"),
        ("UCCL_PIN_TO_NUMA", "1"),
        ("AMD_CPU_AFFINITY", "0"),
        ("AMD_CPU_AFFINITY", "false"),
        ("HSA_OVERRIDE_CPU_AFFINITY_DEBUG", "0"),
    ] {
        assert_eq!(
            told(GpuVendor::Amd, true, &[], &[(name, value)]),
            [""; 0],
            "{name}={value}"
        );
    }
    for name in ["AMD_CPU_AFFINITY", "HSA_OVERRIDE_CPU_AFFINITY_DEBUG"] {
        assert_eq!(
            told(GpuVendor::Nvidia, true, &[], &[(name, "1")]),
            [""; 0],
            "{name}: ROCm's"
        );
    }
}

#[test]
fn openmp_is_told_where_it_holds_all_later_threads_to_one_core() {
    for values in [
        &[("OMP_PROC_BIND", "true")][..],
        &[("OMP_PROC_BIND", "Spread,close"), ("OMP_PLACES", "cores")],
        &[("OMP_PLACES", "cores")],
        &[("GOMP_CPU_AFFINITY", "0-7")],
        &[("KMP_AFFINITY", "granularity=fine,compact,1,0")],
    ] {
        let held = told(GpuVendor::Nvidia, false, &[], values);
        assert!(
            held.len() == 1 && held[0].contains("as NCCL's, stay there"),
            "{values:?}: {held:?}"
        );
        let mut without_gpus = topology();
        without_gpus.gpus.clear();
        assert_eq!(
            told_of(&without_gpus, &Task::default(), values),
            [""; 0],
            "{values:?}"
        );
    }
    for values in [
        &[
            ("OMP_PROC_BIND", "false"),
            ("OMP_PLACES", "cores"),
            ("GOMP_CPU_AFFINITY", "0-7"),
        ][..],
        &[("OMP_PROC_BIND", "close"), ("OMP_PLACES", "sockets")],
        &[("OMP_PLACES", "numa_domains(2)")],
        &[("OMP_PROC_BIND", "sideways")],
        &[("KMP_AFFINITY", "compact,reset")],
        &[("KMP_AFFINITY", "none")],
        &[("KMP_AFFINITY", "disabled")],
    ] {
        assert_eq!(
            told(GpuVendor::Nvidia, true, &[], values),
            [""; 0],
            "{values:?}"
        );
    }
}

#[test]
fn a_program_that_binds_again_is_told_by_its_words() {
    let trt = &["/usr/bin/trtllm-llmapi-launch", "trtllm-serve", "model"][..];
    let said = told(GpuVendor::Nvidia, true, trt, &[]);
    assert!(
        said.len() == 1 && said[0].ends_with("set `TLLM_NUMA_AWARE_WORKER_AFFINITY=0`"),
        "it leaves a mask that it finds: {said:?}"
    );
    assert_eq!(
        told(
            GpuVendor::Nvidia,
            true,
            trt,
            &[("TLLM_NUMA_AWARE_WORKER_AFFINITY", "0")]
        ),
        [""; 0]
    );
    for (words, subject) in [
        (&["sglang", "serve", "model"][..], "sglang"),
        (&["python3", "-m", "sglang.launch_server"], "sglang."),
        (
            &["bash", "-c", "exec python -m sglang.launch_server"],
            "sglang.",
        ),
    ] {
        assert_eq!(subjects(true, words, &[]), [subject]);
        assert_eq!(
            subjects(false, words, &[]),
            [""; 0],
            "nothing of ours is undone"
        );
        assert_eq!(
            subjects(true, words, &[("SGLANG_AUTO_NUMA_BIND", "0")]),
            [""; 0]
        );
        assert_eq!(
            subjects(true, words, &[("SGLANG_NUMA_BIND_V2", "0")]),
            [""; 0],
            "in the mask"
        );
        assert_eq!(
            subjects(true, words, &[("SGLANG_NUMA_BIND_V2", "1")]),
            ["SGLANG_NUMA_BIND_V2=1"],
            "once"
        );
    }
    for words in [
        &["torchrun", "--numa-binding=node", "train.py"][..],
        &["vllm", "serve", "model", "--no-numa-bind"],
        // this one is not bound
        &["vllm", "serve", "model", "--numa-bind"],
        &["cat", "trtllm", "/data/sglang-logs"],
    ] {
        assert_eq!(
            told(GpuVendor::Nvidia, true, words, &[]),
            [""; 0],
            "{words:?}"
        );
    }
}

#[test]
fn vllms_list_of_variables_with_nccls_in_it_is_told() {
    for list in ["NCCL_IB_HCA:1", "UCX_NET_DEVICES:1, NCCL_IB_HCA"] {
        let told = told(
            GpuVendor::Nvidia,
            false,
            &[],
            &[("VLLM_NIC_SELECTION_VARS", list)],
        );
        assert!(
            told.len() == 1 && told[0].ends_with("leave `NCCL_IB_HCA` out"),
            "{told:?}"
        );
    }
    assert_eq!(
        subjects(
            true,
            &[],
            &[("VLLM_NIC_SELECTION_VARS", "UCX_NET_DEVICES:1")]
        ),
        [""; 0]
    );
}
