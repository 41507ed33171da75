#!/bin/sh
# Gets what a guest needs from Debian's archive into a cache folder: downloaded and unpacked, never installed.
#
#   fetch.sh CACHE
#
#   CACHE/host     qemu, a static busybox, lstopo and rdma, with those of their libraries that this machine lacks
#   CACHE/kernel   Debian's kernel with the modules that a guest loads, and its headers to build one more
#
# Status 77: a part cannot be downloaded here; stderr has the reason in one line.  A part that exists already is left alone.
set -eu

cache=$1
mkdir -p "$cache/debs"
cd "$cache"

cannot() {
    echo "$*" >&2
    exit 77
}

download() {
    # apt's own user may be unable to write into the cache
    (cd debs && apt-get -qq -o APT::Sandbox::User=root download "$@") > log 2>&1 || cannot "cannot fetch packages: $(tail -1 log)"
}

if [ -e host/done ] && [ -e kernel/done ]; then
    exit 0
fi
[ "$(id -u)" -eq 0 ] || cannot 'not root: the first run fetches packages with apt-get'
command -v apt-get > /dev/null || cannot 'this machine has no apt-get'
[ "$(dpkg --print-architecture)" = amd64 ] || cannot 'the guests are amd64, this machine is not'
if ! apt-cache show qemu-system-x86 2> log | grep -q '^Package'; then
    apt-get -qq update > log 2>&1 || cannot "apt-get update: $(tail -1 log)"
fi

if [ ! -e host/done ]; then
    rm -rf host
    mkdir host
    # a simulated installation names the packages that this machine lacks for these
    apt-get -s --no-install-recommends install qemu-system-x86 busybox-static hwloc-nox iproute2 > plan 2> log ||
        cannot "one of qemu-system-x86, busybox-static, hwloc-nox, iproute2 is not to be had: $(tail -1 log)"
    lacking=$(sed -n 's/^Inst \([^ ]*\) .*/\1/p' plan)
    # shellcheck disable=SC2086  # a list of names
    [ -z "$lacking" ] || download $lacking
    for package in $lacking; do
        dpkg-deb -x debs/"$package"_*.deb host
    done
    touch host/done
fi

if [ ! -e kernel/done ]; then
    rm -rf kernel
    mkdir -p kernel/root kernel/headers
    # such as 6.1.0-56-amd64
    version=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: linux-image-//p' | head -1)
    [ -n "$version" ] || cannot 'the archive has no linux-image-amd64: expected that of Debian bookworm'
    series=$(echo "$version" | cut -d. -f1,2)
    # rdma_nics.c is written for it
    [ "$series" = 6.1 ] || cannot "the archive's kernel is $version: expected bookworm's 6.1"
    common=linux-headers-${version%-amd64}-common
    download "linux-image-$version" "linux-headers-$version" "$common" "linux-kbuild-$series"

    # 9p: the folder shared with the host; infiniband: the core, and rxe, with what it needs of UDP and CRC
    dpkg-deb --fsys-tarfile debs/"linux-image-$version"_*.deb | tar -x -C kernel/root --wildcards \
        './boot/vmlinuz*' '*/modules.builtin*' '*/modules.order' '*/drivers/virtio/*' '*/fs/9p/*' '*/net/9p/*' '*/fs/netfs/*' \
        '*/fs/fscache/*' '*/drivers/infiniband/core/*' '*/drivers/infiniband/sw/rxe/*' '*/udp_tunnel.ko' '*/ip6_udp_tunnel.ko' \
        '*/crypto/crc32*'
    busybox=host/bin/busybox
    [ -e $busybox ] || busybox=busybox
    $busybox depmod -b "$cache/kernel/root" "$version"

    for package in "linux-headers-$version" "$common" "linux-kbuild-$series"; do
        dpkg-deb -x debs/"$package"_*.deb kernel/headers
    done
    # the packages name each other by absolute paths, but they are not unpacked there
    source=$cache/kernel/headers/usr/src
    echo "include $source/$common/Makefile" > "$source/linux-headers-$version/Makefile"
    echo "$version" > kernel/done
fi
rm -rf debs
