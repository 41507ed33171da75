#!/bin/sh
# Counts the instructions of each hook on aarch64, by callgrind in a guest, and on this machine beside it: the fake Slurm on a
# DGX H100 with 8 tasks and no node file, as tests/host/instructions.rs has it.
#
#   instructions.sh AARCH64.so [X86_64.so]      such as target/portable/aarch64-unknown-linux-gnu/release/libnic_placement.so
#
# Needs what boot.sh needs, valgrind, cargo, and nic-placement in PATH for the machine's files.  Prints a line for each hook: that of a
# process in which it ran.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cache=${VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nic-placement/arm}
mkdir -p "$cache"
sh "$here/fetch.sh" "$cache" 4k
(cd "$work" && APT_CONFIG=$cache/apt/conf apt-get -qq -o APT::Sandbox::User=root download valgrind && dpkg-deb -x valgrind_*.deb unpacked)
mkdir "$work/valgrind"
cp "$work"/unpacked/usr/libexec/valgrind/callgrind-arm64-linux "$work"/unpacked/usr/libexec/valgrind/default.supp \
    "$work"/unpacked/usr/libexec/valgrind/vgpreload_core-arm64-linux.so "$work"/unpacked/usr/bin/valgrind.bin "$work/valgrind"
(cd "$here" && cargo run --locked --quiet --package nic-placement-testing -- dgx-h100) > "$work/machine"
nic-placement snapshot --unpack "$work/machine" "$work/tree" > /dev/null
cat > "$work/count.sh" << 'COUNT'
# count.sh FOLDER VALGRIND LIBRARY
for hook in init init_post_opt task_init; do
    mkdir -p "/tmp/counted.$$/$hook"
    tasks=
    for gpu in 0 1 2 3 4 5 6 7; do tasks="$tasks --task CUDA_VISIBLE_DEVICES=$gpu"; done
    # shellcheck disable=SC2086  # a list of words
    "$2" --tool=callgrind --toggle-collect=slurm_spank_$hook --callgrind-out-file="/tmp/counted.$$/$hook/%p" \
        "$1/spank_host" --log-level 3 --so "$3" --arg "sysfs=$1/tree" --arg default=closest,bind=none,mem=none \
        --arg cache=0 --network "$1/tree" $tasks > /dev/null 2>&1
    echo "$(uname -m) $hook $(cat "/tmp/counted.$$/$hook"/* | sed -n 's/^totals: //p' | sort -n | tail -n 1)"
done
rm -rf "/tmp/counted.$$"
COUNT
cc -O1 -rdynamic -o "$work/spank_host" "$here/../host/spank_host.c" -ldl
[ $# -lt 2 ] || sh "$work/count.sh" "$work" "$(command -v valgrind)" "$2"
aarch64-linux-gnu-gcc -O1 -rdynamic -o "$work/spank_host" "$here/../host/spank_host.c" -ldl
cp "$1" "$work/library.so"
# the fake machine's NICs have no device nodes, there as here
printf 'rmmod ib_uverbs\nexport VALGRIND_LIB=/guest/valgrind\nsh /guest/count.sh /guest /guest/valgrind/valgrind.bin /guest/library.so\n' > "$work/run.sh"
VM_ALSO=$work/valgrind:$work/spank_host:$work/tree:$work/library.so:$work/count.sh \
    "$here/boot.sh" "$here/grace.guest" "$work/run.sh"
