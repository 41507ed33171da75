//! What undoes a task's CPUs and memory is told.

use super::*;
use crate::judge::rebinding::rows;
use crate::tests::cells;
use nic_placement_core::libraries::wanted::is_variable_name;
use nic_placement_core::step::program::known_of;

/// The findings on a program of these words on a node of such GPUs.
fn told(vendor: GpuVendor, is_bound: bool, words: &str, values: &[&str]) -> Vec<String> {
    let mut topology = topology();
    topology.gpus.iter_mut().for_each(|gpu| gpu.vendor = vendor);
    let words = known_of(&WORDS, words.split('|'));
    told_by(&topology, values, &Task::default(), &words, |checked| {
        checked.is_bound = is_bound;
    })
}

#[test]
fn each_row_of_the_table_has_all_fields_and_known_signs() {
    assert!(rows().count() >= 17);
    for row in rows() {
        let when = ["always", "bound", "amd", "gpus", "nics", "verbs"];
        assert!(when.contains(&row.when), "`{}`", row.when);
        let is_text = |text: &&str| !text.is_empty() && !text.contains('\t');
        let texts = [row.of, row.does, row.instead];
        assert!(texts.iter().all(is_text), "{row:?}");
        for condition in row.conditions.split(' ') {
            let name = condition.trim_start_matches('!');
            let name = name.split(['=', '!']).next().unwrap();
            let is_word = !known_of(&WORDS, [&*format!("{name}x"), name].into_iter()).is_empty();
            assert!(is_variable_name(name) || is_word, "`{condition}`");
        }
    }
}

/// The subjects of the rows that are told.
fn subjects(is_bound: bool, words: &str, values: &[&str]) -> Vec<String> {
    let told = told(GpuVendor::Nvidia, is_bound, words, values);
    let subjects = told.iter().map(|line| line.split('`').nth(1).unwrap());
    subjects.map(str::to_string).collect()
}

#[test]
fn a_variable_by_which_a_program_leaves_the_tasks_cpus_is_told_where_they_are_ours() {
    use GpuVendor::{Amd, Nvidia};
    for row in [
        "TLLM_NUMA_AWARE_WORKER_AFFINITY=1 | set it to `0`",
        // `SGLANG_NUMA_BIND_V2=0` would not end it
        "SGLANG_NUMA_BIND_V2=1 | set `SGLANG_AUTO_NUMA_BIND=0`",
        "SGLANG_NUMA_BIND_V2=True | GPU's NUMA node alone",
        "SGLANG_SET_CPU_AFFINITY=1 | 0 in all tasks that",
        "NVSHMEM_CPU_AFFINITY=AUTO | 3.7): set it to `OFF`",
        "CCL_WORKER_OFFLOAD=1 | 2022.2): set it to `0`",
        "NCCL_NET_PLUGIN=uccl | set `UCCL_PIN_TO_NUMA=0`",
        "NCCL_NET_PLUGIN=/opt/libnccl-net-uccl.so | NIC's NUMA node",
        "AMD_CPU_AFFINITY=1 | unset it",
        "HSA_OVERRIDE_CPU_AFFINITY_DEBUG=1 | of the job, also by",
        "KMP_AFFINITY=norespect,none | leave `norespect` out",
    ] {
        let [value, part] = cells(row);
        let is_amds = value.starts_with("AMD") || value.starts_with("HSA");
        let vendor = if is_amds { Amd } else { Nvidia };
        let bound = told(vendor, true, "", &[value]);
        let is_right = bound.len() == 1 && bound[0].contains(part);
        assert!(is_right, "{value}: {bound:?}");
        let found = told(vendor, false, "", &[value]);
        assert_eq!(found, [""; 0], "{value}, not bound");
    }
    for value in "TLLM_NUMA_AWARE_WORKER_AFFINITY=0 TLLM_NUMA_AWARE_WORKER_AFFINITY=2 \
                  SGLANG_NUMA_BIND_V2=0 SGLANG_NUMA_BIND_V2=false SGLANG_SET_CPU_AFFINITY=False \
                  NVSHMEM_CPU_AFFINITY=off CCL_WORKER_OFFLOAD=0 NCCL_NET_PLUGIN=libnccl-net-ofi.so \
                  UCCL_PIN_TO_NUMA=1 AMD_CPU_AFFINITY=0 AMD_CPU_AFFINITY=false \
                  HSA_OVERRIDE_CPU_AFFINITY_DEBUG=0"
        .split(' ')
    {
        assert_eq!(told(Amd, true, "", &[value]), [""; 0], "{value}");
    }
    // ROCm's
    for value in ["AMD_CPU_AFFINITY=1", "HSA_OVERRIDE_CPU_AFFINITY_DEBUG=1"] {
        assert_eq!(told(Nvidia, true, "", &[value]), [""; 0], "{value}");
    }
}

#[test]
fn openmp_is_told_where_it_holds_all_later_threads_to_one_core() {
    let binding = "OMP_PROC_BIND=true; OMP_PROC_BIND=Spread,close OMP_PLACES=cores; OMP_PLACES=cores; \
                   GOMP_CPU_AFFINITY=0-7; KMP_AFFINITY=granularity=fine,compact,1,0";
    for values in binding.split("; ") {
        let values = &Vec::from_iter(values.split(' '));
        let held = told(GpuVendor::Nvidia, false, "", values);
        let is_told = held.len() == 1 && held[0].contains("as NCCL's, stay there");
        assert!(is_told, "{values:?}: {held:?}");
        let mut without_gpus = topology();
        without_gpus.gpus.clear();
        says(&without_gpus, values, &[]);
    }
    let free = "OMP_PROC_BIND=false OMP_PLACES=cores GOMP_CPU_AFFINITY=0-7; OMP_PROC_BIND=close OMP_PLACES=sockets; \
                OMP_PLACES=numa_domains(2); OMP_PROC_BIND=sideways; KMP_AFFINITY=compact,reset; \
                KMP_AFFINITY=none; KMP_AFFINITY=disabled";
    for values in free.split("; ") {
        let values = &Vec::from_iter(values.split(' '));
        says(&topology(), values, &[]);
    }
}

#[test]
fn a_program_that_binds_again_is_told_by_its_words() {
    let trt = "/usr/bin/trtllm-llmapi-launch|trtllm-serve|model";
    let said = told(GpuVendor::Nvidia, true, trt, &[]);
    // it leaves a mask that it finds
    let end = "set `TLLM_NUMA_AWARE_WORKER_AFFINITY=0`";
    assert!(said.len() == 1 && said[0].ends_with(end), "{said:?}");
    let found = subjects(true, trt, &["TLLM_NUMA_AWARE_WORKER_AFFINITY=0"]);
    assert_eq!(found, [""; 0]);
    for (words, subject) in [
        ("sglang|serve|model", "sglang"),
        ("python3|-m|sglang.launch_server", "sglang."),
        ("bash|-c|exec python -m sglang.launch_server", "sglang."),
    ] {
        for (is_bound, values, expected) in [
            (true, &[][..], &[subject][..]),
            // nothing of ours is undone
            (false, &[], &[]),
            (true, &["SGLANG_AUTO_NUMA_BIND=0"], &[]),
            // in the mask
            (true, &["SGLANG_NUMA_BIND_V2=0"], &[]),
            (true, &["SGLANG_NUMA_BIND_V2=1"], &["SGLANG_NUMA_BIND_V2=1"]),
        ] {
            let found = subjects(is_bound, words, values);
            assert_eq!(found, expected, "{words} {values:?}");
        }
    }
    for words in [
        "torchrun|--numa-binding=node|train.py",
        "vllm|serve|model|--no-numa-bind",
        // this one is not bound
        "vllm|serve|model|--numa-bind",
        "cat|trtllm|/data/sglang-logs",
    ] {
        assert_eq!(subjects(true, words, &[]), [""; 0], "{words}");
    }
}

#[test]
fn vllms_list_of_variables_with_nccls_in_it_is_told() {
    let told = ["leave `NCCL_IB_HCA` out"];
    for (list, parts) in [
        ("NCCL_IB_HCA:1", &told[..]),
        ("UCX_NET_DEVICES:1, NCCL_IB_HCA", &told),
        ("UCX_NET_DEVICES:1", &[]),
    ] {
        let list = format!("VLLM_NIC_SELECTION_VARS={list}");
        says(&topology(), &[&list], parts);
    }
}
