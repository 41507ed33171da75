//! What undoes a task's CPUs and memory is told.
#![forbid(unsafe_code)]

use super::*;
use crate::step::program::rebinder;

/// What is said of a program of these words on a node of such GPUs.
fn told(vendor: GpuVendor, is_bound: bool, words: &[&str], values: &[(&str, &str)]) -> Vec<String> {
    let mut topology = topology();
    topology.gpus.iter_mut().for_each(|gpu| gpu.vendor = vendor);
    let rebinder = rebinder(words.iter().copied());
    told_by(Fabric::Unsaid, 2, &topology, &Task::default(), values, |checked| {
        checked.rebinder = rebinder;
        checked.is_bound = is_bound;
    })
}

#[test]
fn a_variable_by_which_a_program_leaves_the_tasks_cpus_is_told_where_they_are_ours() {
    for (vendor, name, value, words) in [
        (GpuVendor::Nvidia, "TLLM_NUMA_AWARE_WORKER_AFFINITY", "1", "set it to `0`"),
        (GpuVendor::Nvidia, "SGLANG_NUMA_BIND_V2", "1", "set it to `0`"),
        (GpuVendor::Nvidia, "SGLANG_NUMA_BIND_V2", "True", "memory of their GPU's NUMA node alone"),
        (GpuVendor::Amd, "AMD_CPU_AFFINITY", "1", "unset it"),
        (GpuVendor::Amd, "HSA_OVERRIDE_CPU_AFFINITY_DEBUG", "1", "all of the job: set it to `0`"),
        (GpuVendor::Nvidia, "KMP_AFFINITY", "norespect,none", "leave `norespect` out"),
    ] {
        let bound = told(vendor, true, &[], &[(name, value)]);
        assert!(bound.len() == 1 && bound[0].contains(words), "{name}={value}: {bound:?}");
        assert_eq!(told(vendor, false, &[], &[(name, value)]), [""; 0], "{name}={value}, not bound");
    }
    for (name, value) in [
        ("TLLM_NUMA_AWARE_WORKER_AFFINITY", "0"),
        ("TLLM_NUMA_AWARE_WORKER_AFFINITY", "2"),
        ("SGLANG_NUMA_BIND_V2", "0"),
        ("SGLANG_NUMA_BIND_V2", "false"),
        ("AMD_CPU_AFFINITY", "0"),
        ("AMD_CPU_AFFINITY", "false"),
        ("HSA_OVERRIDE_CPU_AFFINITY_DEBUG", "0"),
    ] {
        assert_eq!(told(GpuVendor::Amd, true, &[], &[(name, value)]), [""; 0], "{name}={value}");
    }
    for name in ["AMD_CPU_AFFINITY", "HSA_OVERRIDE_CPU_AFFINITY_DEBUG"] {
        assert_eq!(told(GpuVendor::Nvidia, true, &[], &[(name, "1")]), [""; 0], "{name}: ROCm's");
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
        assert!(held.len() == 1 && held[0].contains("as NCCL's, stay there"), "{values:?}: {held:?}");
        let mut without_gpus = topology();
        without_gpus.gpus.clear();
        assert_eq!(told_of(&without_gpus, &Task::default(), values), [""; 0], "{values:?}");
    }
    for values in [
        &[("OMP_PROC_BIND", "false"), ("OMP_PLACES", "cores"), ("GOMP_CPU_AFFINITY", "0-7")][..],
        &[("OMP_PROC_BIND", "close"), ("OMP_PLACES", "sockets")],
        &[("OMP_PLACES", "numa_domains(2)")],
        &[("OMP_PROC_BIND", "sideways")],
        &[("KMP_AFFINITY", "compact,reset")],
        &[("KMP_AFFINITY", "none")],
        &[("KMP_AFFINITY", "disabled")],
    ] {
        assert_eq!(told(GpuVendor::Nvidia, true, &[], values), [""; 0], "{values:?}");
    }
}

#[test]
fn a_program_that_binds_again_is_told_by_its_words() {
    let vllm = &["vllm", "serve", "model", "--numa-bind"][..];
    for words in [vllm, &["bash", "-c", "exec vllm serve model --numa_bind -tp 4"]] {
        let said = told(GpuVendor::Nvidia, true, words, &[]);
        assert!(said.len() == 1 && said[0].contains("vLLM's workers then leave"), "{words:?}: {said:?}");
    }
    assert_eq!(told(GpuVendor::Nvidia, false, vllm, &[]), [""; 0], "nothing of ours is undone");
    let trt = &["/usr/bin/trtllm-llmapi-launch", "trtllm-serve", "model"];
    let said = told(GpuVendor::Nvidia, true, trt, &[]);
    assert!(
        said.len() == 1 && said[0].ends_with("set `TLLM_NUMA_AWARE_WORKER_AFFINITY=0`"),
        "it leaves a mask that it finds: {said:?}"
    );
    assert_eq!(told(GpuVendor::Nvidia, true, trt, &[("TLLM_NUMA_AWARE_WORKER_AFFINITY", "0")]), [""; 0]);
    for words in [
        &["torchrun", "--numa-binding=node", "train.py"][..],
        &["vllm", "serve", "model", "--no-numa-bind"],
        &["cat", "trtllm"],
    ] {
        assert_eq!(told(GpuVendor::Nvidia, true, words, &[]), [""; 0], "{words:?}");
    }
}
