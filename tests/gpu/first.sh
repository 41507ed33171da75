#!/bin/bash
#
# The first hour with a real GPU, in less than eight minutes: do NVIDIA's driver and nic-placement say the same of this machine?
#
#   OUT=FOLDER first-hour/first.sh        as root; the results go to FOLDER (default ./first-results)
#
# `make first-hour` makes the folder that this script lies in.  It needs nothing else but x86_64 Linux, NVIDIA's driver and
# python3: no network, no package, no compiler.  What is missing (PyTorch, lspci, lstopo, cgroups, a second NUMA node) is named
# and left out; every program has its own time limit; the processes are ended by their numbers.
#
# FOLDER then has first.json, first.log (what was printed) and raw.tar.gz (all outputs as they were, with names of this host).
# `tests/gpu/result.sh FOLDER/first.json`, in a clone, makes the machine's file in docs/results of it.
#
# By environment: OUT, and LIMIT, the seconds in all (450).  Ends with 0 where everything that was compared agrees, 3 where
# something differs, 4 where there was nothing to compare, 1 where the script itself failed.
set -u

here=$(cd "$(dirname "$0")" && pwd)
limit=${LIMIT:-450}
python=$(command -v python3) || { echo 'first: no python3 here' >&2; exit 1; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 8))' || { echo "first: \`$python\` is older than 3.8" >&2; exit 1; }
# first.py keeps the limit; this one holds where a driver does not let go of it
exec timeout -k 5 "$((limit + 20))" "$python" -B "$here/first.py" "${OUT:-first-results}" "$limit"
