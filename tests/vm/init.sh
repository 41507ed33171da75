#!/bin/busybox sh
# The guest's first and only process: makes the RDMA devices, runs /guest/command in the folder that the host shares, and
# leaves its output and status there.
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
/bin/busybox --install -s /bin
mount -t devtmpfs none /dev
mount -t proc none /proc
mount -t sysfs none /sys
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs none /tmp

# the tests only read a disk's PCI function, so it needs no driver
for module in virtio_pci 9pnet_virtio 9p ib_uverbs; do
    modprobe $module
done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 out /out || poweroff -f

nics=$(cat /guest/nics)
[ -z "$nics" ] || insmod /guest/rdma_nics.ko nics="$nics"
ip link set lo up
for interface in /sys/class/net/eth*; do
    ip link set "${interface##*/}" up
done
if [ -e /guest/software ]; then
    # the kernel asks for the checksum by /sbin/modprobe, which is not here
    modprobe crc32_generic
    modprobe rdma_rxe
    rdma link add "$(cat /guest/software)" type rxe netdev eth0
fi
# an Ethernet port gets its addresses from a worker of the kernel, soon after its interface is up
for port in /sys/class/infiniband/*/ports/*; do
    tries=0
    while [ "$(cat "$port/link_layer")" = Ethernet ] && [ $tries -lt 50 ] && ! cat "$port/gid_attrs/ndevs/0" > /dev/null 2>&1; do
        sleep 0.1
        tries=$((tries + 1))
    done
done

# A guest whose console is silent is ended (watch.rs).  What is awaited is in `doing`, for the line that says so.
while :; do
    read -r up _ < /proc/uptime
    echo "alive after $up s" > /dev/console
    sleep 10
done &
# output goes into files: a serial console takes a guest's exit for each byte, and the kernel writes there too
cd /out || poweroff -f
read -r program < /guest/command
echo "${program%% *}" > doing
/bin/sh /guest/command > stdout 2> stderr
echo $? > status
poweroff -f
