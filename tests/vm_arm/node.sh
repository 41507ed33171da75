#!/bin/sh
# Runs in the guest, in /out: one node with its own Slurm, on which commands are run before and after our packages are
# installed.
#
#   node.sh WITHOUT WITH
#
#   WITHOUT   lines `NAME COMMAND…` for a node that has nothing of ours: what COMMAND says is left in /out/NAME and
#             /out/NAME.stderr, its status in /out/NAME.status
#   WITH      such lines for a node with the packages, whose plugin is in plugstack.conf as its own file says
set -eu
without=$1
with=$2
task=/guest/task
export task PATH=/usr/bin:/usr/sbin:/bin:/sbin

ready() { awk -v what="$1" '{ printf "%s after %s s\n", what, $1 }' /proc/uptime >> times; }
each() {
    echo "$1" | while read -r name command; do
        code=0
        echo "$name, 120 s at most" > doing
        timeout 120 sh -c "$command" > "$name" 2> "$name.stderr" < /dev/null || code=$?
        echo $code > "$name.status"
        ready "$name"
    done
}
sh /guest/gpus.sh
for device in /sys/class/infiniband/*; do
    echo "${device##*/} $(cat "$device/device/numa_node") $(cut -d: -f1 "$device/ports/1/state")" \
        "$(cat "$device/ports/1/link_layer") $(readlink -f "$device/device")" >> nics
done
cat /sys/devices/system/cpu/cpu*/topology/physical_package_id | sort -nu > packages
ls -d /sys/devices/system/cpu/cpu0/cache/index3 > third-cache 2> /dev/null || :
ready 'the devices are there'
hostname n0
# the resolver answers for those families only of which some interface has an address that is not the loopback's own
ip address add 192.0.2.1/32 dev lo
THREADS=1 PLUGIN='' sh /guest/slurm.sh yes 192.0.2.1 1 'NodeName=n0 NodeAddr=192.0.2.1'
ready 'the node is idle'
each "$without"
echo 'dpkg' > doing
/usr/bin/dpkg --install /guest/*.deb > dpkg 2>&1 || { cat dpkg >&2 && exit 1; }
ready 'the packages are installed'
echo 'include /usr/share/nic-placement/*.conf' > /etc/slurm/plugstack.conf
each "$with"
