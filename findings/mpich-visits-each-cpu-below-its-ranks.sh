#!/bin/bash
# MPICH's hydra_pmi_proxy binds itself to one CPU after the other while its ranks run, and a rank may find it on one of them.
#
# MPICH 5.0.2 (PyPI: mpich), 2026-11-28, on a machine with CPUs 0 and 1: `strace -f mpiexec -n 2` of a program with MPI_Init
#
#   proxy    execve("…/hydra_pmi_proxy", …)
#   rank 0   execve("…/program", …)
#   rank 1   execve("…/program", …)
#   proxy    sched_setaffinity(0, 8, [0])
#   proxy    sched_setaffinity(0, 8, [1])
#   proxy    sched_setaffinity(0, 8, [0 1])
#
# The first rank's MPI_Init asks the proxy for PMI_hwloc_xmlfile, and the proxy's hwloc (2.9.0rc2-git) visits each CPU of the
# machine, also those outside of its mask.  A tool that takes its parent's mask for the launcher's binding is misled meanwhile.
# None of it with HWLOC_COMPONENTS=-x86.  Needs cc, strace and an x86-64 CPU.
# Ends with 1 if that changed, with 77 where it cannot be shown.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mask=$(python3 -c 'import os; cpus = sorted(os.sched_getaffinity(0)); print(f"{cpus[0]},{cpus[-1]}")')
first=${mask%,*} last=${mask#*,}
[ "$first" != "$last" ] || { echo 'skipped: one CPU alone'; exit 77; }
[ "$(uname -m)" = x86_64 ] && command -v cc > /dev/null || { echo 'skipped: no x86-64 CPU or no cc'; exit 77; }
strace -o /dev/null -e inject=sched_setaffinity:delay_exit=1 true 2> /dev/null || { echo 'skipped: strace cannot trace'; exit 77; }
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check --no-deps mpich==5.0.2
lib=$work/venv/lib

# rank 0 waits for the other to run; rank 1 asks for its parent's mask for 5 s or until that is one CPU
cc -I"$work/venv/include" -o "$work/program" -x c - -x none -L"$lib" -lmpi -Wl,--disable-new-dtags,-rpath,"$lib:$lib/mpich" << 'END'
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
    int rank = atoi(getenv("PMI_RANK")), one = 0;
    cpu_set_t cpus;
    for (int times = 0; !one && times < (rank ? 500 : 100); times++) {
        usleep(10000);
        one = rank && !sched_getaffinity(getppid(), sizeof cpus, &cpus) && CPU_COUNT(&cpus) == 1;
    }
    if (rank)
        puts(one ? "rank 1 found its parent on one CPU" : "rank 1 found its parent on all CPUs");
    return MPI_Init(NULL, NULL) || MPI_Finalize();
}
END

# strace holds the proxy for 0.1 s after each change, for rank 1 to see it; then the proxy's masks, after the ranks that ran
traced() {
    taskset -c "$1" timeout 120 env "$2" strace -f -o "$work/trace" -e trace=execve,sched_setaffinity \
        -e inject=sched_setaffinity:delay_exit=100000 "$work/venv/bin/mpiexec" -n 2 "$work/program"
    awk -v program="\"$work/program\"," '
        /execve\(.*\/hydra_pmi_proxy", / { proxy = $1 }
        index($0, "execve(" program) { ranks++ }
        $1 == proxy && /sched_setaffinity\(/ { gsub(/.*\[|\].*/, ""); gsub(/ /, ","); print ranks + 0 " ranks: " $0 }' "$work/trace"
}
default=$(traced "$mask" -uHWLOC_COMPONENTS) outside=$(traced "$first" -uHWLOC_COMPONENTS)
without=$(traced "$mask" HWLOC_COMPONENTS=-x86)
printf '%s\n' "in mask $mask:" "$default" "in mask $first:" "$outside" "in mask $mask with HWLOC_COMPONENTS=-x86:" "$without"
[[ $default == *'on one CPU'*"2 ranks: $first"$'\n'*"2 ranks: $last"$'\n'*"2 ranks: $mask" ]] &&
    [[ $outside == *"2 ranks: $last"$'\n'*"2 ranks: $first" ]] && [ "$without" = 'rank 1 found its parent on all CPUs' ]
