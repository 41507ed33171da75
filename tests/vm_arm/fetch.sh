#!/bin/sh
# Gets what an aarch64 guest needs from Debian's archive into a cache folder: downloaded and unpacked, never installed.
#
#   fetch.sh CACHE 4k|16k|64k
#
#   CACHE/host            qemu-system-aarch64 with those of its libraries that this machine lacks, a busybox and a UEFI
#   CACHE/root            what an aarch64 machine with Debian's Slurm and dpkg has, with dpkg's list of it
#   CACHE/kernel-PAGES    Debian's arm64 kernel with pages of 4 or 16 KiB, its modules, and headers to build one more; with pages of
#                         64 KiB one that is built from its source, in 7 minutes of two CPUs
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

# Debian has no kernel with pages of this size
if [ "$pages" = 64k ] && [ ! -e kernel-64k/done ]; then
    rm -rf kernel-64k
    get amd64 kernel-64k/deb linux-source-6.1
    mkdir kernel-64k/tree
    tar -xJf kernel-64k/deb/usr/src/linux-source-6.1.tar.xz -C kernel-64k/tree --strip-components=1
    cd kernel-64k/tree
    # without RTC_HCTOSYS the clock starts in 1970, which munge refuses
    printf 'CONFIG_%s\n' INFINIBAND=m INFINIBAND_USER_ACCESS=m NR_CPUS=32 NODES_SHIFT=4 $(printf '%s=y ' ARM64_64K_PAGES \
        ARM64_VA_BITS_48 SMP NUMA HOTPLUG_CPU EFI ACPI ACPI_TABLE_UPGRADE PCI PCIEPORTBUS PCI_MSI VIRTIO_MENU VIRTIO_PCI \
        BLK_DEV_INITRD BINFMT_ELF BINFMT_SCRIPT MODULES MODULE_UNLOAD TTY UNIX98_PTYS SERIAL_AMBA_PL011 SERIAL_AMBA_PL011_CONSOLE \
        PRINTK PROC_FS PROC_SYSCTL SYSFS TMPFS SHMEM DEVTMPFS NETWORK_FILESYSTEMS NET_9P NET_9P_VIRTIO 9P_FS MULTIUSER FUTEX EPOLL \
        EVENTFD SIGNALFD TIMERFD INOTIFY_USER POSIX_TIMERS ADVISE_SYSCALLS MEMBARRIER FILE_LOCKING AIO SYSVIPC POSIX_MQUEUE \
        CGROUPS MEMCG CGROUP_SCHED FAIR_GROUP_SCHED CPUSETS CGROUP_DEVICE CGROUP_FREEZER CGROUP_PIDS CGROUP_BPF CGROUP_CPUACCT \
        BPF_SYSCALL BPF_JIT NAMESPACES UTS_NS IPC_NS PID_NS NET_NS NET UNIX INET IPV6 PACKET NETDEVICES NET_CORE HIGH_RES_TIMERS \
        NO_HZ_IDLE KALLSYMS HUGETLBFS TRANSPARENT_HUGEPAGE MIGRATION COMPACTION DMIID DMI CROSS_MEMORY_ATTACH SECCOMP RTC_CLASS \
        RTC_DRV_PL031 RTC_DRV_EFI RTC_HCTOSYS CC_OPTIMIZE_FOR_PERFORMANCE) > wanted
    cross() { make -s ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- "$@" >> log 2>&1 || { tail -n 5 log >&2 && exit 1; }; }
    cross KCONFIG_ALLCONFIG=wanted allnoconfig
    cross -j"$(nproc)" Image modules
    cross INSTALL_MOD_PATH=../root INSTALL_MOD_STRIP=1 modules_install
    version=$(cat include/config/kernel.release)
    mkdir -p ../root/boot ../headers/usr/src
    cp arch/arm64/boot/Image "../root/boot/vmlinuz-$version"
    # what a module is built with
    rm -rf drivers fs net sound kernel mm lib crypto block security tools vmlinux* Documentation "../root/lib/modules/$version"/build \
        "../root/lib/modules/$version"/source ../deb
    cd "$cache"
    mv kernel-64k/tree "kernel-64k/headers/usr/src/linux-headers-$version"
    host/bin/busybox depmod -b "$cache/kernel-64k/root" "$version"
    echo "$version" > kernel-64k/done
elif [ ! -e "kernel-$pages/done" ]; then
    kernel=kernel-$pages
    rm -rf "$kernel"
    case $pages in
        4k) image=linux-image-arm64 ;;
        # Debian has no other image with pages of this size for its release 12
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
