#!/bin/bash
#
# One node of the private Slurm (cluster.sh) and the machine that it plays.
#
#   machine.sh prepare TREE NODE            copy a machine tree, `sys` and `proc`, to NODE and complete it for Slurm;
#                                           print the minor numbers of its GPUs
#   machine.sh enter NODE CGROUPS CMD…      in a fresh mount namespace (`unshare --mount`): let that machine be /sys,
#                                           /proc/driver and /dev, then become CMD; CGROUPS yes keeps /sys/fs/cgroup
#   machine.sh alone NODE CGROUPS CMD…      as enter, with a /run of its own, where an empty slurm.conf stands: root's tool asks
#                                           no slurmd that runs on this machine for its plugstack.conf
#   machine.sh root FOLDER PLACE PATH…      in a fresh mount namespace: make of another distribution in FOLDER, which is
#                                           not written to, a root at PLACE with this machine's /proc, /sys, /dev and
#                                           PATHs in it, then sleep there
set -eu

# gpu_minors TREE: the numbers that the driver gave to the machine's GPUs, the N of /dev/nvidiaN
gpu_minors() {
    sed -n 's/^Device Minor:[[:space:]]*//p' "$1"/proc/driver/nvidia/gpus/*/information 2>/dev/null | sort -n
}

# mask CPU…: sets $mask to the kernel's hexadecimal form, 32 bits to a word; a variable, since a subshell for each of
# hundreds of CPUs would be slow
mask() {
    local cpu word words=()
    for cpu; do words[cpu / 32]=$((${words[cpu / 32]:-0} | 1 << cpu % 32)); done
    mask=
    for ((word = mask_words - 1; word >= 0; word--)); do printf -v mask '%s%08x,' "$mask" "${words[word]:-0}"; done
    mask=${mask%,}
}

# complete_cpus SYS: writes the masks from which hwloc, inside slurmd, learns which CPUs share a core and a package.  A tree
# from `nic-placement snapshot` has only the numbers; without the masks Slurm would not number CPUs as /sys does.
complete_cpus() {
    local system=$1/devices/system cpu id package core key highest=0 mask mask_words node range ranges cpus
    local -A of_core=() of_package=() core_of=() package_of=()
    [ -e "$system/cpu/cpu0/topology/core_id" ] && [ ! -e "$system/cpu/cpu0/topology/core_cpus" ] || return 0
    for cpu in "$system"/cpu/cpu[0-9]*; do
        id=${cpu##*/cpu}
        read -r package < "$cpu/topology/physical_package_id"
        read -r core < "$cpu/topology/core_id"
        of_core[$package.$core]+=" $id" of_package[$package]+=" $id"
        core_of[$id]=$package.$core package_of[$id]=$package
        if [ "$id" -gt "$highest" ]; then highest=$id; fi
    done
    mask_words=$((highest / 32 + 1))
    # of_core and of_package turn from lists into masks
    # shellcheck disable=SC2086
    for key in "${!of_core[@]}"; do mask ${of_core[$key]}; of_core[$key]=$mask; done
    # shellcheck disable=SC2086
    for key in "${!of_package[@]}"; do mask ${of_package[$key]}; of_package[$key]=$mask; done
    for id in "${!core_of[@]}"; do
        # each under its new and its old name
        for key in core_cpus thread_siblings; do
            echo "${of_core[${core_of[$id]}]}" > "$system/cpu/cpu$id/topology/$key"
        done
        for key in package_cpus core_siblings; do
            echo "${of_package[${package_of[$id]}]}" > "$system/cpu/cpu$id/topology/$key"
        done
    done
    # libnuma learns from these which CPUs a NUMA node has, for --cpu-bind=rank_ldom and similar
    for node in "$system"/node/node[0-9]*; do
        IFS=, read -ra ranges < "$node/cpulist" || true
        cpus=()
        for range in "${ranges[@]}"; do
            for ((cpu = ${range%-*}; cpu <= ${range#*-}; cpu++)); do cpus+=("$cpu"); done
        done
        mask "${cpus[@]}"
        echo "$mask" > "$node/cpumap"
    done
    for key in online possible present; do echo "0-$highest" > "$system/cpu/$key"; done
}

prepare() {
    local tree=$1 node=$2
    if [ ! -d "$tree/sys" ]; then
        echo "machine: no machine tree in \`$tree\`: expected a directory \`sys\` in it" >&2
        exit 1
    fi
    rm -rf "$node"
    mkdir -p "$node/dev" "$node/proc/driver"
    cp -a "$tree/sys" "$node/sys"
    mkdir -p "$node/sys/fs/cgroup"
    if [ -d "$tree/proc/driver" ]; then cp -a "$tree/proc/driver/." "$node/proc/driver"; fi
    complete_cpus "$node/sys"
    gpu_minors "$node"
}

enter() {
    local node=$1 cgroups=$2 name
    shift 2
    # mounts from here on are invisible outside
    mount --make-rprivate /

    # /dev: a tmpfs, because the node's directory may lie on a file system that allows no devices
    mount -t tmpfs -o mode=755,size=1m tmpfs "$node/dev"
    cd "$node/dev"
    for name in null zero full random urandom tty; do
        touch $name
        mount --bind /dev/$name $name
    done
    mkdir pts shm infiniband
    mount --rbind /dev/pts pts
    mount --rbind /dev/shm shm
    ln -s pts/ptmx ptmx
    ln -s /proc/self/fd fd
    ln -s fd/0 stdin
    ln -s fd/1 stdout
    ln -s fd/2 stderr
    # major 240 is set aside for local use: no driver answers there
    for name in $(gpu_minors "$node"); do mknod -m 666 "nvidia$name" c 240 "$name"; done
    # a tree from `nic-placement snapshot` has them only in the class
    find "$node/sys/devices" "$node/sys/class" -path '*/infiniband_verbs/uverbs*' -prune -printf '%f\n' | sort -u |
        while read -r name; do mknod -m 666 "infiniband/$name" c 240 $((192 + ${name#uverbs})); done
    cd /
    mount --rbind "$node/dev" /dev

    # cgroups are hidden unless they are wanted: hwloc would learn from them how few CPUs this machine really has
    if [ "$cgroups" = yes ]; then mount --rbind /sys/fs/cgroup "$node/sys/fs/cgroup"; fi
    mount --rbind "$node/sys" /sys
    mount -o remount,bind,ro /sys
    mount --bind "$node/proc/driver" /proc/driver
    # the name by which the kernel knows this node
    basename "$node" > "$node/hostname"
    mount --bind "$node/hostname" /proc/sys/kernel/hostname
    exec "$@"
}

root() {
    local folder=$1 place=$2 path
    shift 2
    mount --make-rprivate /
    mount -t tmpfs -o mode=755,size=64m tmpfs "$place"
    mkdir "$place"/{upper,work,all}
    mount -t overlay -o "lowerdir=$folder,upperdir=$place/upper,workdir=$place/work" overlay "$place/all"
    place=$place/all
    for path in /proc /sys /dev /etc/hosts "$@"; do
        if [ -d "$path" ]; then mkdir -p "$place$path"; else mkdir -p "$place${path%/*}"; : >> "$place$path"; fi
        mount --rbind "$path" "$place$path"
    done
    : > "$place/.nic-placement"
    # not chroot: a step that joins its job's namespace gets that namespace's root, which would be this machine's
    mkdir "$place/.machine"
    cd "$place"
    pivot_root . .machine
    umount -l /.machine
    exec sleep infinity
}

alone() {
    mount --make-rprivate /
    mount -t tmpfs none /run
    mkdir -p /run/slurm/conf
    : > /run/slurm/conf/slurm.conf
    enter "$@"
}

case ${1:-} in
    prepare | enter | alone | root) "$@" ;;
    *) sed -n '3,14p' "$0"; exit 2 ;;
esac
