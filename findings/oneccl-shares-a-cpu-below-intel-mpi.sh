#!/bin/bash
# Below Intel MPI's mpiexec without pinning, oneCCL pins the worker threads of all ranks of a node to one CPU.
#
# oneCCL 2022.2.0 (PyPI: oneccl-devel's archive for CPUs) and Intel MPI 2021.19.0 (impi-rt), 2026-11-28, in a mask of two CPUs:
# `mpiexec.hydra -genv I_MPI_PIN 0 -n 2`, and the masks of each rank's threads after one allreduce
#
#   0: 0-1 1    1: 0-1 1    by default: I_MPI_PIN_INFO is 0,1 in both ranks, and both workers run on its last CPU
#   0: 0-1 1    1: 0-1 0    without I_MPI_PIN_INFO in the ranks' environment
#   0: 0-1 0    1: 0-1 1    with CCL_WORKER_AFFINITY=0,1, a list by local rank
#
# mpiexec sets I_MPI_PIN_INFO also with I_MPI_PIN=0, then to the same CPUs for each rank.  Only a rank that mpiexec pins has CPUs
# of its own in it.  Needs g++ and hwloc's library (Debian: libhwloc15).
# Ends with 1 if that changed, with 77 where it cannot be shown.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
pip() { "$work/venv/bin/pip" install -q --disable-pip-version-check --no-deps "$@"; }
pip oneccl==2022.2.0 oneccl-devel==2022.2.0 intel-cmplr-lib-rt==2026.2.0 impi-rt==2021.19.0
pip --prefix "$work/mpich" mpich==5.0.2 # mpi.h and libfabric
export I_MPI_ROOT=$work/venv HOME=$work CCL_ATL_TRANSPORT=ofi FI_PROVIDER=tcp
lib=$work/venv/lib

mask=$(python3 -c 'import os; cpus = sorted(os.sched_getaffinity(0)); print(f"{cpus[0]},{cpus[-1]}")')
[ "${mask%,*}" != "${mask#*,}" ] || { echo 'skipped: one CPU alone'; exit 77; }
ldconfig -p | grep -q 'libhwloc.so.15 ' && command -v g++ > /dev/null || { echo 'skipped: no g++ or libhwloc.so.15'; exit 77; }
g++ -std=c++17 -I"$work/venv/include" -I"$work/mpich/include" -o "$work/program" -x c++ - -x none "$lib/ccl/cpu/lib/libccl.a" \
    "$lib/libccl.so.2.0" -L"$lib" -lmpi -l:libintlc.so.5 -lsvml -lirng -limf -l:libhwloc.so.15 -ldl -lpthread \
    -Wl,--disable-new-dtags,-rpath,"$lib:$work/mpich/lib/mpich" << 'END'
#include <cstdlib>
#include <mpi.h>
#include <oneapi/ccl.hpp>
int main() {
    int rank, ranks = 2, sum = 0;
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    auto store = rank ? nullptr : ccl::create_main_kvs();
    auto address = store ? store->get_address() : ccl::kvs::address_type();
    MPI_Bcast(address.data(), address.size(), MPI_BYTE, 0, MPI_COMM_WORLD);
    auto both = ccl::create_communicator(ranks, rank, store ? store : ccl::create_kvs(address));
    ccl::allreduce(&rank, &sum, 1, ccl::reduction::sum, both).wait();
    int told = system("sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$PPID/task/*/status | uniq | xargs echo $PMI_RANK:");
    MPI_Finalize();
    return told || sum != 1;
}
// VTune's hooks, to which the archive refers
#define HOOK(name) void *__itt_##name##_ptr__3_0;
extern "C" {
HOOK(domain_create) HOOK(event_create) HOOK(event_start) HOOK(event_end) HOOK(metadata_add) HOOK(string_handle_create)
HOOK(task_begin) HOOK(task_end) HOOK(thread_set_name)
}
END

ranks() {
    taskset -c "$mask" timeout 120 "$work/venv/bin/mpiexec.hydra" -genv I_MPI_PIN 0 -n 2 "$@" | grep -v CCL_WARN | sort
}
workers() { tr ' ' '\n' <<< "$1" | grep -x '[0-9]*' | xargs; } # the threads with one CPU, by rank
info=$(ranks sh -c 'echo "$I_MPI_PIN $I_MPI_PIN_INFO"' | sort -u)
default=$(ranks "$work/program") without=$(ranks env -u I_MPI_PIN_INFO "$work/program")
named=$(ranks env CCL_WORKER_AFFINITY="$mask" "$work/program")
printf '%s\n' "in mask $mask with I_MPI_PIN and I_MPI_PIN_INFO $info: ranks' threads on" "$default" \
    'without I_MPI_PIN_INFO:' "$without" "with CCL_WORKER_AFFINITY=$mask:" "$named"
read -r first second <<< "$(workers "$without")"
[ "$info" = "0 $mask" ] && [ "$(workers "$default")" = "${mask#*,} ${mask#*,}" ] && [ "$first" != "$second" ] &&
    [ "$(workers "$named")" = "${mask/,/ }" ]
