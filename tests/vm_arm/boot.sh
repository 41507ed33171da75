#!/bin/sh
# Boots Debian's arm64 kernel on an aarch64 server that qemu plays in software, runs a script there, prints what it printed and
# returns its exit status.  What it takes and returns is as for tests/vm/boot.sh:
#
#   tests/vm_arm/boot.sh MACHINE PROGRAM [ARGUMENT]…       by environment VM_ALSO, VM_OUT, VM_LIMIT, VM_QEMU
#
#   PROGRAM    a script: the guest has Debian's Slurm and dpkg and busybox's commands
#   VM_ALSO    files that go into /guest, separated by `:`
#
# By environment besides:
#   VM_PAGES   4k, unless said, 16k or 64k: the size of the kernel's pages
#   VM_CACHE   where packages are kept unpacked, ${XDG_CACHE_HOME:-~/.cache}/nic-placement/arm unless said
#   VM_DOMAINS no: all root complexes are in PCI domain 0000, as qemu has them
#
# The first boot of a machine is followed by a second: the tables of its firmware are read in a guest, and then changed
# (domains.py).
#
# Needs Debian bookworm's apt-get on amd64, gcc for this machine and for aarch64, make and python3.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
vm=$here/../vm
machine=$1
program=$2
shift 2
pages=${VM_PAGES:-4k}
cache=${VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nic-placement/arm}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)

for tool in gcc aarch64-linux-gnu-gcc make python3; do
    command -v $tool > /dev/null || { echo "this machine has no $tool" >&2 && exit 77; }
done

# ---- for every guest, made once ----

cpio_of() { (cd "$1" && find . | "$busybox" cpio -o -H newc 2> /dev/null); }
build() {
    cd "$build"
    if [ ! -e pci_ids.so ] || [ "$vm/pci_ids.c" -nt pci_ids.so ]; then
        gcc -Wall -O1 -shared -fPIC -o pci_ids.so "$vm/pci_ids.c"
    fi
    if [ ! -e task ] || [ "$here/task.c" -nt task ]; then
        aarch64-linux-gnu-gcc -Wall -O1 -static -o task "$here/task.c"
    fi
    if [ ! -e rdma_nics.ko ] || [ "$vm/rdma_nics.c" -nt rdma_nics.ko ] || [ "$kernel/done" -nt rdma_nics.ko ]; then
        mkdir -p module
        cp "$vm/rdma_nics.c" module/
        echo 'obj-m := rdma_nics.o' > module/Makefile
        # a kernel with BTF wants pahole for its modules
        make -s -C "$kernel/headers/usr/src/linux-headers-$version" M="$PWD/module" ARCH=arm64 \
            CROSS_COMPILE=aarch64-linux-gnu- CC=aarch64-linux-gnu-gcc CONFIG_DEBUG_INFO_BTF_MODULES= modules > log 2>&1 ||
            { cat log >&2 && exit 125; }
        aarch64-linux-gnu-strip --strip-debug -o rdma_nics.ko module/rdma_nics.ko
    fi
    if [ ! -e root.cpio ] || [ "$cache/root/done" -nt root.cpio ] || [ "$kernel/done" -nt root.cpio ]; then
        cpio_of "$cache/root" > root.cpio
        (cd "$kernel/root" && find lib | "$busybox" cpio -o -H newc 2> /dev/null) >> root.cpio
    fi
    cd - > /dev/null
}

kernel=$cache/kernel-$pages
build=$cache/build-$pages
mkdir -p "$build"
exec 9> "$cache/lock"
flock 9
sh "$here/fetch.sh" "$cache" "$pages"
version=$(cat "$kernel/done")
unpacked=$cache/host
libraries=$unpacked/usr/lib/x86_64-linux-gnu:$unpacked/lib/x86_64-linux-gnu:$unpacked/usr/lib/x86_64-linux-gnu/pulseaudio
busybox=$unpacked/bin/busybox
build
exec 9>&-

# ---- this guest ----

for old in "$cache"/run.*; do [ -d "/proc/${old##*.}" ] || rm -rf "$old"; done
run=$cache/run.$$
rm -rf "$run"
root=$run/root
for folder in bin dev etc guest out proc run sys tmp var; do mkdir -p "$root/$folder"; done
trap 'rm -rf "$run"' EXIT
trap 'exit 130' INT TERM
out=${VM_OUT:-$run/out}
mkdir -p "$out"
out=$(cd "$out" && pwd)
for old in stdout stderr status console; do rm -f "$out/$old"; done

awk -v folder="$run" -v rom=,romfile= -f "$vm/describe.awk" "$machine"
cp "$run/nics" "$build/rdma_nics.ko" "$build/task" "$program" "$root/guest/"
printf '%s\n' "${VM_ALSO:-}" | tr : '\n' | while IFS= read -r also; do
    [ -z "$also" ] || cp -a "$also" "$root/guest/"
done
cp "$vm/init.sh" "$root/init"
chmod +x "$root/init"
# made by scripts of packages, of which none has run
printf '%s\n' 'root:x:0:0:root:/:/bin/sh' 'user:x:1000:1000:user:/tmp:/bin/sh' > "$root/etc/passwd"
printf '%s\n' 'root:x:0:' 'user:x:1000:' > "$root/etc/group"
printf '%s\n' 'passwd: files' 'group: files' 'hosts: files' > "$root/etc/nsswitch.conf"
printf '%s\n' '127.0.0.1 localhost' '192.0.2.1 n0' > "$root/etc/hosts"
for alternative in "$cache"/root/usr/sbin/*-wlm "$cache"/root/usr/bin/*-wlm; do
    name=${alternative#"$cache/root/"}
    mkdir -p "$root/${name%/*}"
    ln -s "${name##*/}" "$root/${name%-wlm}"
done
{
    printf 'sh /guest/%s' "${program##*/}"
    for argument; do
        printf " '%s'" "$(printf '%s' "$argument" | sed "s/'/'\\\\''/g")"
    done
    echo
} > "$root/guest/command"

set --
while IFS= read -r argument; do
    set -- "$@" "$argument"
done < "$run/arguments"
: > "$run/initrd"
if [ "${VM_DOMAINS:-}" != no ]; then
    tables=$build/tables-$(printf '%s\n' "$@" "${VM_QEMU:-}" | md5sum | cut -c1-12)
    if [ ! -s "$tables/IORT" ]; then
        rm -rf "$tables"
        VM_DOMAINS=no VM_ALSO='' VM_OUT=$tables "$0" "$machine" "$here/tables.sh" ||
            { echo 'boot.sh: the tables of the firmware are not read' >&2 && exit 125; }
    fi
    [ -s "$tables/IORT" ] || { echo 'boot.sh: no tables of the firmware' >&2 && exit 125; }
    # shellcheck disable=SC2046  # a list of numbers
    python3 "$here/domains.py" "$tables" "$run/acpi" $(sed -n 's/.*bus_nr=\([0-9]*\).*/\1/p' "$run/arguments")
    cpio_of "$run/acpi" > "$run/initrd" # the kernel looks for them in an archive that is not compressed, and the first
fi
cat "$build/root.cpio" >> "$run/initrd"
cpio_of "$root" >> "$run/initrd"

# ---- the boot ----

# The shell waits for a background process alone in a way that a signal interrupts; `timeout` passes TERM on, then KILL.
trap 'kill "$emulator" 2> /dev/null' INT TERM
# shellcheck disable=SC2086  # VM_QEMU is a list of words
timeout --foreground -k 5 "${VM_LIMIT:-900}" env "LD_PRELOAD=$build/pci_ids.so" "LD_LIBRARY_PATH=$libraries" \
    "PCI_IDS=$(cat "$run/ids")" "$unpacked/usr/bin/qemu-system-aarch64" -L "$unpacked/usr/share/qemu" \
    -nodefaults -no-user-config -display none -no-reboot -serial "file:$out/console" \
    -machine virt,gic-version=3 -accel "tcg,thread=${VM_THREADS:-multi}" -cpu neoverse-n1 "$@" \
    -fsdev "local,id=out,path=$out,security_model=none" -device virtio-9p-pci,fsdev=out,mount_tag=out,bus=pcie.0,romfile= \
    -bios "$unpacked/usr/share/qemu-efi-aarch64/QEMU_EFI.fd" \
    -kernel "$kernel/root/boot/vmlinuz-$version" -initrd "$run/initrd" -append "console=ttyAMA0 panic=-1" \
    ${VM_QEMU:-} < /dev/null > "$run/qemu" 2>&1 &
. "$vm/ended.sh"
