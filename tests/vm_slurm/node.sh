#!/bin/sh
# What runs in the guest: the checks of binding.rs, then one node with its own Slurm, on which each of COMMANDS is run.  Runs
# in /out.
#
#   node.sh MACHINE PROGRAM CONSTRAIN COMMANDS
#
#   MACHINE    its name
#   PROGRAM    the test program, in /guest
#   CONSTRAIN  yes: tasks may open their own GPUs only and have their job's cores only (ConstrainDevices, ConstrainCores)
#   COMMANDS   lines `NAME COMMAND…` (each.sh)
set -eu
machine=$1
task="/guest/$2 task"
commands=$4
export task

. /guest/each.sh
sh /guest/gpus.sh
nics
ready 'the devices are there'
"/guest/$2" checks "$machine" > checks
ready 'the checks are done'
node "$3"
each "$commands"
