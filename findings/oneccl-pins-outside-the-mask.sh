#!/bin/bash
# oneCCL pins a worker thread of each process to the machine's last CPUs, outside of the mask that the process inherited.
#
# oneCCL 2022.2.0 (PyPI: oneccl-devel's archive for CPUs), 2026-11-27, on a machine with CPUs 0 and 1: the threads of a process
# that was started on CPU 0, after one allreduce
#
#   0 1        one thread runs on CPU 1
#   0          with CCL_WORKER_OFFLOAD=0, and with CCL_WORKER_AFFINITY=0
#
# On a shared node that CPU is another job's; on a node of one job the worker is far from the process's memory and NIC.
# Needs g++ and hwloc's library (Debian: libhwloc15).  Ends with 1 if that changed, with 77 where it cannot be shown.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check --no-deps oneccl==2022.2.0 oneccl-devel==2022.2.0 \
    intel-cmplr-lib-rt==2026.2.0 mpich==5.0.2
lib=$work/venv/lib

first=$(python3 -c 'import os; print(min(os.sched_getaffinity(0)))')
[ "$(nproc --all)" -gt $((first + 1)) ] || { echo 'skipped: one CPU alone'; exit 77; }
ldconfig -p | grep -q 'libhwloc.so.15 ' && command -v g++ > /dev/null || { echo 'skipped: no g++ or libhwloc.so.15'; exit 77; }
g++ -std=c++17 -I"$work/venv/include" -o "$work/program" -x c++ - -x none "$lib/ccl/cpu/lib/libccl.a" "$lib/libccl.so.2.0" \
    -L"$lib" -l:libintlc.so.5 -lsvml -lirng -limf -l:libhwloc.so.15 -ldl -lpthread -Wl,-rpath,"$lib" << 'END'
#include <cstdlib>
#include <oneapi/ccl.hpp>
#include <vector>
int main() {
    ccl::init();
    auto one = ccl::create_communicator(1, 0, ccl::create_main_kvs());
    std::vector<float> from(1024, 1), to(1024);
    ccl::allreduce(from.data(), to.data(), 1024, ccl::reduction::sum, one).wait();
    return system("sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$PPID/task/*/status | sort -u | xargs");
}
// VTune's hooks, to which the archive refers
#define HOOK(name) void *__itt_##name##_ptr__3_0;
extern "C" {
HOOK(domain_create) HOOK(event_create) HOOK(event_start) HOOK(event_end) HOOK(metadata_add) HOOK(string_handle_create)
HOOK(task_begin) HOOK(task_end) HOOK(thread_set_name)
}
END

# the CPUs of its threads; one process without a launcher, over tcp of the node itself
threads() {
    env CCL_ATL_TRANSPORT=ofi FI_PROVIDER=tcp CCL_PROCESS_LAUNCHER=none CCL_LOCAL_RANK=0 CCL_LOCAL_SIZE=1 \
        LD_LIBRARY_PATH="$(dirname "$(find "$lib" -name libfabric.so.1)")" "$@" taskset -c "$first" "$work/program" |
        grep -v CCL_WARN
}
default=$(threads) off=$(threads CCL_WORKER_OFFLOAD=0) named=$(threads CCL_WORKER_AFFINITY="$first")
echo "started on CPU $first: threads on $default; CCL_WORKER_OFFLOAD=0: $off; CCL_WORKER_AFFINITY=$first: $named"
[[ $default == "$first "* ]] && [ "$off" = "$first" ] && [ "$named" = "$first" ]
