#!/bin/bash
# Intel MPI's mpiexec.hydra takes `--bind-to none`, and pins its ranks all the same.  It says so with I_MPI_DEBUG alone.
#
# Intel MPI 2021.19.0 (PyPI: impi-rt), 2026-11-27, in a mask of two CPUs:
#
#   $ mpiexec.hydra --bind-to none -n 2 grep Cpus_allowed_list /proc/self/status
#   Cpus_allowed_list:	0
#   Cpus_allowed_list:	1
#   $ I_MPI_DEBUG=1 mpiexec.hydra --bind-to none -n 2 true
#   Options -binding/-bind-to/-map-by/-membind are not supported and will be ignored.
#   $ mpiexec.hydra -genv I_MPI_PIN 0 -n 2 grep Cpus_allowed_list /proc/self/status
#   Cpus_allowed_list:	0,1
#   Cpus_allowed_list:	0,1
#
# MPICH's mpiexec.hydra has the same option, and binds nothing.  A script that says `--bind-to none` for both is pinned by one.
# Ends with 1 if that changed, with 77 where it cannot be shown.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check --no-deps impi-rt==2021.19.0
export I_MPI_ROOT=$work/venv HOME=$work

mask=$(python3 -c 'import os; cpus = sorted(os.sched_getaffinity(0)); print(f"{cpus[0]},{cpus[-1]}")')
[ "${mask%,*}" != "${mask#*,}" ] || { echo 'skipped: one CPU alone'; exit 77; }
ranks() {
    taskset -c "$mask" "$work/venv/bin/mpiexec.hydra" "$@" -n 2 sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status 2>&1 |
        sort -u | xargs
}

pinned=$(ranks --bind-to none) kept=$(ranks -genv I_MPI_PIN 0)
said=$(I_MPI_DEBUG=1 taskset -c "$mask" "$work/venv/bin/mpiexec.hydra" --bind-to none -n 2 true 2>&1)
echo "started on $mask: with --bind-to none ranks run on $pinned, with I_MPI_PIN=0 on $kept; I_MPI_DEBUG=1 says:"
grep ignored <<< "$said"
[ "$pinned" = "${mask/,/ }" ] && [[ $kept != *' '* ]]
