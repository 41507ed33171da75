#!/bin/sh
# What runs in the guest: the checks of binding.rs, then one node with its own Slurm, on which each of COMMANDS is run.  Runs
# in /out.
#
#   node.sh MACHINE PROGRAM CONSTRAIN COMMANDS
#
#   MACHINE    its name
#   PROGRAM    the test program, in /guest
#   CONSTRAIN  yes: tasks may open their own GPUs only and have their job's cores only (ConstrainDevices, ConstrainCores)
#   COMMANDS   lines `NAME COMMAND…`: what COMMAND says is left in /out/NAME and /out/NAME.stderr, its status in
#              /out/NAME.status
set -eu
machine=$1
task="/guest/$2 task"
commands=$4
export task

# how long it took, for people
ready() { awk -v what="$1" '{ printf "%s after %s s\n", what, $1 }' /proc/uptime >> times; }
sh /guest/gpus.sh
for device in /sys/class/infiniband/*; do
    [ -e "$device/device" ] || continue
    echo "${device##*/} $(cat "$device/device/numa_node") $(cut -d: -f1 "$device/ports/1/state")" \
        "$(cat "$device/ports/1/link_layer") $(readlink -f "$device/device")" >> nics
done
ready 'the devices are there'
"/guest/$2" checks "$machine" > checks
ready 'the checks are done'
hostname n0
# the resolver answers for those families only of which some interface has an address that is not the loopback's own
ip address add 192.0.2.1/32 dev lo
sh /guest/slurm.sh "$3" 192.0.2.1 1 'NodeName=n0 NodeAddr=192.0.2.1'
ready 'the node is idle'
echo "$commands" | while read -r name command; do
    code=0
    echo "$name, 120 s at most" > doing
    timeout 120 sh -c "$command" > "$name" 2> "$name.stderr" < /dev/null || code=$?
    echo $code > "$name.status"
    ready "$name"
done
