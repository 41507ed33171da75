# shellcheck shell=sh
# For the programs of guests with Slurm, which read this with `.` and run in /out.

# how long it took, for people
ready() { awk -v what="$1" '{ printf "%s after %s s\n", what, $1 }' /proc/uptime >> times; }

# a line in the file `nics` for each NIC that is a PCI function: its name, NUMA node, state, link layer and folder
nics() {
    for device in /sys/class/infiniband/*; do
        [ -e "$device/device" ] || continue
        echo "${device##*/} $(cat "$device/device/numa_node") $(cut -d: -f1 "$device/ports/1/state")" \
            "$(cat "$device/ports/1/link_layer") $(readlink -f "$device/device")" >> nics
    done
}

# one node with a Slurm of its own, by the words of slurm.sh for it: the first is `yes` where tasks are constrained
node() {
    hostname n0
    # the resolver answers for those families only of which some interface has an address that is not the loopback's own
    ip address add 192.0.2.1/32 dev lo
    sh /guest/slurm.sh "$1" 192.0.2.1 1 'NodeName=n0 NodeAddr=192.0.2.1'
    ready 'the node is idle'
}

# lines `NAME COMMAND…`: what COMMAND says is left in /out/NAME and /out/NAME.stderr, its status in /out/NAME.status
each() {
    echo "$1" | while read -r name command; do
        code=0
        echo "$name, 120 s at most" > doing
        timeout 120 sh -c "$command" > "$name" 2> "$name.stderr" < /dev/null || code=$?
        echo $code > "$name.status"
        ready "$name"
    done
}
