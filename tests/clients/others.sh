#!/bin/sh
# Makes root folders of other Linuxes in the guest, from what the host shares with it (nodes.rs), to `chroot` into:
# /other/NAME, with that one's /usr, and all else the guest's own.  Lines `NAME RELEASE [rdma]`, and `NAME ` of each
# library of engines.sh, are left in ./others.
set -eu

other() {
    root=/other/$1
    mkdir -p "$root/usr" "$root/etc" "$root/guest" "$root/dev" "$root/proc" "$root/sys" "$root/tmp"
    for name in bin sbin lib lib64; do ln -s usr/$name "$root/$name"; done
    cp -a /etc/. "$root/etc/"
    for place in guest dev dev/shm proc sys tmp; do mount --bind /$place "$root/$place"; done
}
share() {
    mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose "$1" "$2" 2> /dev/null
}

mkdir /releases
if share releases /releases; then
    for folder in /releases/*; do
        [ -d "$folder/usr" ] || continue
        other "${folder##*/}"
        mount --bind "$folder/usr" "/other/${folder##*/}/usr"
        rdma=
        [ ! -e "$folder/usr/lib/x86_64-linux-gnu/ucx/libuct_ib.so.0" ] || rdma=' rdma'
        echo "${folder##*/} $(cat "$folder/done" 2> /dev/null)$rdma" >> others
    done
fi
mkdir -p /other/host/usr
if share host /other/host/usr; then
    other host && echo 'host ' >> others
    mkdir /other/host/engines
    if share engines /other/host/engines; then for name in /other/host/engines/*/; do echo "$(basename "$name") " >> others; done; fi
fi
