#!/bin/sh
# What runs in each of the two guests: NICs that move data, GPUs that are played, and a Slurm over both.  In n0 each of
# COMMANDS is run, and the bytes of both nodes' NICs are counted around it.  Runs in /out.
#
#   node.sh SIDE [COMMANDS]
#
#   SIDE       1: n0, 2: n1
#   COMMANDS   lines `NAME COMMAND…`: what COMMAND says is left in /out/NAME and /out/NAME.stderr, its status in
#              /out/NAME.status, the counters in /out/NAME.before and /out/NAME.after
set -eu
side=$1
commands=${2:-}

. /guest/each.sh
hostname n$((side - 1))
mkdir /dev/shm
mount -t tmpfs none /dev/shm
sh /guest/rails.sh "$side"
ready 'the rails are there'
sh /guest/gpus.sh
sh /guest/others.sh
for device in /sys/class/infiniband/*; do echo "${device##*/} $(readlink -f "$device/device")" >> nics; done
nc -ll -p 99 -e /guest/count.sh &
# n1 ends with n0, whatever becomes of it
part() {
    for try in 1 2 3 4 5 6 7 8 9 10; do
        if nc n1 98 < /dev/null; then break; fi
        sleep 3
    done
}
[ "$side" = 2 ] || trap part EXIT
# so that a NIC can be hidden from a step, as containers and cgroups do
NIC=/dev/infiniband/uverbs4 sh /guest/slurm.sh yes 192.168.7.1 2 'NodeName=n[0-1]'
# mlx5_4 is for storage
echo 'optional /guest/libnic_placement.so fabric=routed exclude=mlx5_4' > /etc/slurm/plugstack.conf
ready 'Slurm is there'
if [ "$side" = 2 ]; then
    echo 'n0 to end' > doing
    nc -l -p 98
    exit 0
fi
count() {
    sh /guest/count.sh
    nc n1 99 < /dev/null
}
run() {
    code=0
    echo "$1, 900 s at most" > doing
    count > "$1.before"
    timeout 900 sh -c "$2" > "$1" 2> "$1.stderr" < /dev/null || code=$?
    count > "$1.after"
    echo $code > "$1.status"
    ready "$1"
}
echo "$commands" | while read -r name command; do
    run "$name" "$command"
done
