#!/bin/sh
# Gets what an aarch64 guest needs from Debian's archive into a cache folder: downloaded and unpacked, never installed.
#
#   fetch.sh CACHE 4k|16k
#
#   CACHE/host            qemu-system-aarch64 with those of its libraries that this machine lacks, a busybox and a UEFI
#   CACHE/root            what an aarch64 machine with Debian's Slurm and dpkg has, with dpkg's list of it
#   CACHE/kernel-PAGES    Debian's arm64 kernel with pages of 4 or 16 KiB, its modules, and headers to build one more
#
# Status 77: a part cannot be downloaded here; stderr has the reason in one line.  A part that exists already is left alone.
set -eu

cache=$1
pages=$2
mkdir -p "$cache"
cd "$cache"

cannot() {
    echo "$*" >&2
    exit 77
}

if [ -e host/done ] && [ -e root/done ] && [ -e "kernel-$pages/done" ]; then
    exit 0
fi
mkdir -p debs/amd64 debs/arm64 apt/lists/partial apt/cache/archives/partial
[ "$(id -u)" -eq 0 ] || cannot 'not root: the first run fetches packages with apt-get'
command -v apt-get > /dev/null || cannot 'this machine has no apt-get'
[ "$(dpkg --print-architecture)" = amd64 ] || cannot 'qemu and the cross compiler are taken for amd64, which this machine is not'

# amd64 COMMAND…, arm64 COMMAND…: apt's, for this machine, and for one of the other architecture that has nothing
amd64() { "$@"; }
arm64() { APT_CONFIG=$cache/apt/conf "$@"; }
# get ARCHITECTURE FOLDER NAME…: downloads and unpacks
get() {
    as=$1
    to=$2
    shift 2
    # apt's own user may be unable to write into the cache
    (cd "debs/$as" && $as apt-get -qq -o APT::Sandbox::User=root download "$@") > log 2>&1 ||
        cannot "cannot fetch packages: $(tail -1 log)"
    mkdir -p "$to"
    for package; do dpkg-deb -x "debs/$as/${package%%[:/]*}"_*.deb "$to"; done
}
# what_is_lacking ARCHITECTURE NAME…: a simulated installation names it
what_is_lacking() {
    as=$1
    shift
    $as apt-get -s --no-install-recommends install "$@" > plan 2> log || cannot "one of $* is not to be had: $(tail -1 log)"
    sed -n 's/^Inst \([^ ]*\) .*/\1/p' plan
}

[ -n "$(apt-cache show qemu-system-arm 2> log)" ] || apt-get -qq update > log 2>&1 || cannot "apt-get update: $(tail -1 log)"
# the same archive.  Debian 12's UEFI (2022.11) takes its flash for memory and so loses the NUMA nodes (edk2 789a72328553
# mends it): Debian 13's is taken
{
    apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) main' 'Origin: Debian' 'Identifier: Packages' | sort -u
    echo "deb $(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' | head -1) trixie main"
} > apt/list
printf '%s\n' 'Package: *' 'Pin: release n=trixie' 'Pin-Priority: 100' > apt/preferences
: > apt/status
cat > apt/conf << CONF
APT::Architecture "arm64"; APT::Architectures { "arm64"; }; APT::Sandbox::User "root";
Dir::State::Lists "$PWD/apt/lists"; Dir::State::status "$PWD/apt/status"; Dir::Cache "$PWD/apt/cache";
Dir::Etc::sourcelist "$PWD/apt/list"; Dir::Etc::sourceparts "/dev/null"; Dir::Etc::preferences "$PWD/apt/preferences";
Dir::Etc::preferencesparts "/dev/null"; Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
CONF
arm64 apt-get -qq update > log 2>&1 || cannot "apt-get update for arm64: $(tail -1 log)"

if [ ! -e host/done ]; then
    rm -rf host
    packages=$(what_is_lacking amd64 qemu-system-arm busybox-static)
    # shellcheck disable=SC2086  # a list of names
    get amd64 host $packages busybox-static
    get arm64 host qemu-efi-aarch64/trixie
    rm -rf host/usr/share/AAVMF # the same with room for variables, 385 MB
    touch host/done
fi

if [ ! -e root/done ]; then
    rm -rf root
    packages=$(what_is_lacking arm64 slurmctld slurmd slurm-client munge busybox-static dpkg tar libc-bin)
    # shellcheck disable=SC2086
    get arm64 root $packages
    for folder in doc man locale info perl perl5 i18n; do rm -rf "root/usr/share/$folder"; done
    mkdir -p root/var/lib/dpkg/info root/var/lib/dpkg/updates
    # no package's script has run: dpkg need only know what is there
    for package in $packages; do
        deb=$(echo "debs/arm64/${package%%:*}"_*.deb)
        dpkg-deb -f "$deb" | sed '/^Package:/a Status: install ok installed'
        echo
        if [ "$(dpkg-deb -f "$deb" Multi-Arch)" = same ]; then package=$package:arm64; fi
        dpkg-deb --fsys-tarfile "$deb" | tar -t | sed 's|^\./|/|; s|^/$|/.|; s|\(.\)/$|\1|' > "root/var/lib/dpkg/info/$package.list"
    done > root/var/lib/dpkg/status
    touch root/done
fi

if [ ! -e "kernel-$pages/done" ]; then
    kernel=kernel-$pages
    rm -rf "$kernel"
    case $pages in
        4k) image=linux-image-arm64 ;;
        # Debian has no other image with pages of this size for its release 12, and none of 64 KiB at all
        16k) image=linux-image-6.12-arm64-16k ;;
        *) echo "what are pages of $pages?" >&2 && exit 2 ;;
    esac
    # such as 6.1.0-56-arm64
    version=$(arm64 apt-cache depends $image | sed -n 's/.*Depends: linux-image-//p' | head -1)
    [ -n "$version" ] || cannot "the archive has no $image"
    common=${version%-arm64*}
    case $common in 6.1.*) kbuild=linux-kbuild-6.1 ;; *) kbuild=linux-kbuild-$common ;; esac
    get arm64 "$kernel/root" "linux-image-$version"
    # the module is cross-compiled
    get arm64 "$kernel/headers" "linux-headers-$version"
    get amd64 "$kernel/headers" "linux-headers-$common-common" "$kbuild"
    # the packages name each other by absolute paths, but they are not unpacked there
    source=$cache/$kernel/headers/usr/src
    echo "include $source/linux-headers-$common-common/Makefile" > "$source/linux-headers-$version/Makefile"
    # 9p: the folder shared with the host
    cd "$kernel/root/lib/modules/$version/kernel"
    for folder in drivers/virtio fs/9p net/9p fs/netfs fs/fscache drivers/infiniband/core; do
        [ ! -d $folder ] || (mkdir -p "$cache/$kernel/kept/${folder%/*}" && mv "$folder" "$cache/$kernel/kept/$folder")
    done
    cd "$cache"
    rm -rf "$kernel/root/lib/modules/$version/kernel" "$kernel/root/usr/share/doc"
    mv "$kernel/kept" "$kernel/root/lib/modules/$version/kernel"
    find "$kernel/root" -name '*.ko.xz' -exec xz -d {} +
    busybox=host/bin/busybox
    [ -e $busybox ] || busybox=busybox
    $busybox depmod -b "$cache/$kernel/root" "$version"
    echo "$version" > "$kernel/done"
fi
rm -rf debs
