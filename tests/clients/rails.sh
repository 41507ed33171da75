#!/bin/sh
# Makes the guest's NICs move data: rail0, rail1, … in the order of describe.awk, each with an RDMA device mlx5_N of soft
# RoCE, and eth0.
#
#   rails.sh SIDE      1 or 2, which the guests' addresses end with
#   rails.sh up RAIL   brings one up again, with the routes and neighbours that it loses when it goes down
set -eu

# a port has its state and its addresses from a worker of the kernel
wait_for() {
    tries=0
    until grep -q ACTIVE "$1/state" && cat "$1/gid_attrs/ndevs/1" > /dev/null 2>&1; do
        sleep 0.1
        tries=$((tries + 1))
        [ $tries -lt 200 ] || { echo "$1: $(cat "$1/state")" >&2 && exit 1; }
    done
}
up() {
    own=10.1.${1#rail}.$(($(hostname | tr -d n) + 1))
    ip link set "$1" up
    # who asks its own NIC for its own address, as UCX does for a try, would wait seconds for an answer
    /bin/ip neigh replace "$own" dev "$1" lladdr "$(cat /sys/class/net/$1/address)" nud permanent
    ip route add 10.1.0.0/16 dev "$1" metric $((100 + ${1#rail}))
    ip route add 10.1.0.0/16 dev "$1" table $((100 + ${1#rail}))
}
if [ "$1" = up ]; then
    up "$2"
    wait_for "/sys/class/infiniband/mlx5_${2#rail}/ports/1"
    exit
fi
side=$1

insmod /guest/configfs.ko # rdma_cm asks for it
modprobe rdma_ucm
modprobe udp_tunnel
modprobe ip6_udp_tunnel
modprobe crc32_generic # the kernel asks for the checksum by /sbin/modprobe, which is not here
# a packet is to be seen when it arrives: an emulated timer would hold it back
insmod /guest/e1000e.ko InterruptThrottleRate=0,0,0,0,0,0,0,0
ip link set eth0 up
ip address add 192.168.7.$side/24 dev eth0
# the driver's board 3 is the 82574, which qemu plays
echo '15b3 1021 ffffffff ffffffff 0 0 3' > /sys/bus/pci/drivers/e1000e/new_id
insmod /guest/rdma_rxe.ko

# Each address is asked for on its own NIC alone, and answers from there.  A packet for an address of this very node leaves
# by its sender's NIC too: the table of local addresses comes after those of the rails.
for setting in arp_ignore=1 arp_announce=2 accept_local=1 rp_filter=0; do
    echo "${setting#*=}" > "/proc/sys/net/ipv4/conf/all/${setting%=*}"
done
# busybox's shell prefers its own `ip`, which knows less
/bin/ip rule add pref 200 lookup local
/bin/ip rule del pref 0
for interface in /sys/class/net/eth*; do
    [ "$(cat "$interface/device/subsystem_vendor")" = 0x15b3 ] || continue
    number=$(($(cat "$interface/device/subsystem_device")))
    rail=rail$number
    address=10.1.$number.$side
    ip link set "${interface##*/}" name $rail
    ip link set $rail mtu 4200
    # an IPv6 address would come back before IPv4's after a loss of the link, and the port's addresses change places
    echo 1 > /proc/sys/net/ipv6/conf/$rail/disable_ipv6
    ip address add "$address/24" dev $rail
    /bin/ip rule add pref $((100 + number)) oif $rail lookup $((100 + number))
    up $rail
done
number=0
while [ -e /sys/class/net/rail$number ]; do
    rdma link add mlx5_$number type rxe netdev rail$number
    number=$((number + 1))
done
for port in /sys/class/infiniband/*/ports/1; do
    wait_for "$port"
done
