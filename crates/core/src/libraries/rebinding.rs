//! Programs and runtimes that bind again, and so give up the CPUs or the memory that a task got, or most of these CPUs.
//!
//! What leaves the task's CPUs is told only where they are ours.  Not told: torchrun's `--numa-binding`, which takes CPUs of the
//! task's alone (torch/numa/binding.py, `_get_allowed_logical_cpu_indices_for_numa_node`).
#![forbid(unsafe_code)]

use super::Library;
use super::findings::{Checked, Doubt, TENSORRT_LLM, number, when};
use crate::topology::GpuVendor;

pub(super) const LIBRARY: Library =
    Library { name: "programs that bind again", doubts: DOUBTS, ..Library::NONE };

const PLACES: &str = "OMP_PLACES";
const PROC_BIND: &str = "OMP_PROC_BIND";
const GCC: &str = "GCC's OpenMP then holds the thread that loads it";

const DOUBTS: &[Doubt] = &[
    (TENSORRT_LLM, |checked, value| {
        let text = "TensorRT-LLM's workers then leave the task's CPUs for all of their GPU's NUMA node, where other tasks run: \
                    set it to `0`";
        when(checked.is_bound && value == "1", text)
    }),
    // `numactl --membind`; all CPUs of the node before issue 26983 (sgl-project/sglang's python/sglang/srt/utils/numa_utils.py,
    // `configure_subprocess`)
    ("SGLANG_NUMA_BIND_V2", |checked, value| {
        let is_on = ["1", "true", "yes", "y"].iter().any(|yes| value.eq_ignore_ascii_case(yes));
        let text = "SGLang's workers then get memory of their GPU's NUMA node alone, and end where that is full; older \
                    releases also leave the task's CPUs for all of that node: set it to `0`";
        when(checked.is_bound && is_on, text)
    }),
    // for each thread that chooses a GPU (ROCm/clr's rocclr/os/os_posix.cpp, `Os::setPreferredNumaNode`; hipamd's
    // `setCurrentDevice`)
    ("AMD_CPU_AFFINITY", |checked, value| {
        let is_on = value.eq_ignore_ascii_case("true") || number(value).is_some_and(|number| number != 0);
        let text = "a thread that chooses a GPU then leaves the task's CPUs for all of the GPU's NUMA node, where other tasks \
                    run: unset it";
        when(checked.is_bound && is_on && has_gpus_of(checked, GpuVendor::Amd), text)
    }),
    // all but `0`, and so it is without the variable (ROCm/ROCR-Runtime's core/util/lnx/os_linux.cpp, `os_thread`; core/util/flag.h)
    ("HSA_OVERRIDE_CPU_AFFINITY_DEBUG", |checked, value| {
        let text = "ROCm's own threads then leave the task's CPUs for all of the job: set it to `0`";
        when(checked.is_bound && value != "0" && has_gpus_of(checked, GpuVendor::Amd), text)
    }),
    // measured with GCC 12's libgomp: the mask after dlopen(3) is the first place's
    ("OMP_PROC_BIND OMP_PLACES", |checked, value| {
        let first = value.split(',').next().unwrap_or_default().trim();
        let is_on =
            ["true", "primary", "master", "close", "spread"].iter().any(|on| first.eq_ignore_ascii_case(on));
        let places = checked.value(PLACES).unwrap_or_default();
        held(checked, is_on && !is_wide(places), GCC)
    }),
    ("OMP_PLACES OMP_PROC_BIND", |checked, value| {
        let is_on = checked.value(PROC_BIND).is_none() && !is_wide(value);
        held(checked, is_on, GCC)
    }),
    ("GOMP_CPU_AFFINITY OMP_PROC_BIND", |checked, _| held(checked, checked.value(PROC_BIND).is_none(), GCC)),
    // llvm-project's openmp/docs/design/Runtimes.rst, KMP_AFFINITY
    ("KMP_AFFINITY", |checked, value| {
        let has = |word: &str| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word));
        let leaves = "LLVM's OpenMP then leaves the task's CPUs for all of the job: leave `norespect` out";
        let is_pinned = ["compact", "scatter", "balanced", "explicit"].into_iter().any(has) && !has("reset");
        let held =
            held(checked, is_pinned, "LLVM's OpenMP then holds the thread of the first parallel region");
        [when(checked.is_bound && has("norespect"), leaves), held].concat()
    }),
];

/// Where a GPU is used, threads that are not OpenMP's work beside its own: those of NCCL, UCX and PyTorch.
fn held(checked: &Checked, is_on: bool, what: &str) -> Vec<String> {
    let text = format!(
        "{what} to one place, often a core, and the threads that this one starts later, as NCCL's, stay there: unset it unless \
         OpenMP's threads do all the work"
    );
    when(is_on && !checked.topology.gpus.is_empty(), text)
}

fn has_gpus_of(checked: &Checked, vendor: GpuVendor) -> bool {
    checked.topology.gpus.iter().any(|gpu| gpu.vendor == vendor)
}

/// Do these places hold a NUMA node or more each?
fn is_wide(places: &str) -> bool {
    ["sockets", "numa_domains"].iter().any(|name| places.trim_start().starts_with(name))
}
