#!/bin/sh
# Boots a real Linux on a machine that qemu plays in software (NUMA nodes, PCIe switches, GPUs, RDMA NICs), runs a program
# there, prints what it printed and returns its exit status.
#
#   tests/vm/boot.sh MACHINE PROGRAM [ARGUMENT]…
#
#   MACHINE    a description such as tests/vm/dgx.guest; describe.awk says what may be in it
#   PROGRAM    runs in the guest as root, with its shared libraries; the guest has busybox's commands besides
#
# By environment:
#   VM_ALSO    what else the guest gets, separated by `:`: a program, by path or by name, goes into /bin with its shared
#              libraries; the content of a folder goes into / as it is
#   VM_OUT     a folder that the guest sees as /out, where the program starts; it keeps what the program writes there, with
#              its `stdout`, `stderr` and `status`, and the kernel's `console`
#   VM_LIMIT   seconds until the guest is given up, 900 unless said
#   VM_WIRE    FOLDER/1 or FOLDER/2: joins two guests, of which each has one of these.  Their NICs are then Ethernet
#              functions on one wire, for a driver that PROGRAM loads; eth0 of both is on another, behind the same driver
#   VM_THREADS single, unless said, or multi: for all CPUs of the guest, or for each
#   VM_QEMU    further arguments of qemu, separated by blanks
#   VM_CACHE   where packages are kept unpacked, ${XDG_CACHE_HOME:-~/.cache}/nic-placement-vm unless said
#
# Status: the program's; 2 if MACHINE is not understood; 77 if this machine cannot run guests, with the reason; 124 if the
# guest took too long; 125 if the program never ended, with the last lines of the guest's kernel.
#
# Needs Debian bookworm's apt-get on amd64, gcc and make.  Nothing is installed (fetch.sh).  The NICs and GPUs are functions with the right
# ids (pci_ids.c), and a kernel module gives the NICs their RDMA devices (rdma_nics.c): they can be seen, but move no data.
set -eu

if [ $# -lt 2 ]; then
    sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
machine=$1
program=$2
shift 2
cache=${VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nic-placement-vm}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)

# ---- what every guest needs, made once ----

build() {
    headers=$cache/kernel/headers/usr/src/linux-headers-$version
    mkdir -p "$cache/build/module"
    cd "$cache/build"
    if [ ! -e pci_ids.so ] || [ "$here/pci_ids.c" -nt pci_ids.so ]; then
        gcc -Wall -O1 -shared -fPIC -o pci_ids.so "$here/pci_ids.c"
    fi
    if [ ! -e tsc_khz ] || [ "$here/tsc_khz.c" -nt tsc_khz ]; then
        gcc -Wall -O1 -o tsc_khz "$here/tsc_khz.c"
    fi
    if [ ! -e rdma_nics.ko ] || [ "$here/rdma_nics.c" -nt rdma_nics.ko ] || [ ../kernel/done -nt rdma_nics.ko ]; then
        cp "$here/rdma_nics.c" module/
        echo 'obj-m := rdma_nics.o' > module/Makefile
        make -s -C "$headers" M="$PWD/module" modules > log 2>&1 || { cat log >&2 && exit 125; }
        strip --strip-debug -o rdma_nics.ko module/rdma_nics.ko
    fi
    cd - > /dev/null
}

for tool in gcc make strip; do
    command -v $tool > /dev/null || { echo "this machine has no $tool" >&2 && exit 77; }
done
exec 9> "$cache/lock"
flock 9 # two guests may start at the same time
sh "$here/fetch.sh" "$cache"
version=$(cat "$cache/kernel/done")
build
exec 9>&-

# ---- this guest ----

# a guest that was killed leaves its folder; a process id may have come round
for old in "$cache"/run.*; do [ -d "/proc/${old##*.}" ] || rm -rf "$old"; done
run=$cache/run.$$
rm -rf "$run"
mkdir "$run"
trap 'rm -rf "$run"' EXIT
trap 'exit 130' INT TERM
root=$run/root
mkdir "$root"
# Folders first: files that are put into them below then follow their links, such as lib -> usr/lib.
printf '%s\n' "${VM_ALSO:-}" | tr : '\n' > "$run/also"
while IFS= read -r also; do
    [ ! -d "$also" ] || cp -a "$also/." "$root/"
done < "$run/also"
mkdir -p "$root/bin" "$root/dev" "$root/proc" "$root/sys" "$root/tmp" "$root/out" "$root/guest" "$root/lib64" \
    "$root/lib/x86_64-linux-gnu"
out=${VM_OUT:-$run/out}
mkdir -p "$out"
out=$(cd "$out" && pwd)
for old in stdout stderr status console; do rm -f "$out/$old"; done

wire=${VM_WIRE:-}
side=${wire##*/}
awk -v folder="$run" -v side="$side" -f "$here/describe.awk" "$machine"

# Programs and libraries that this machine lacks were unpacked below host/.
unpacked=$cache/host
libraries=$unpacked/usr/lib/x86_64-linux-gnu:$unpacked/lib/x86_64-linux-gnu:$unpacked/usr/lib/x86_64-linux-gnu/pulseaudio
place_of() {
    PATH=$PATH:/usr/sbin:/sbin:$unpacked/usr/bin:$unpacked/bin:$unpacked/sbin command -v "$1" ||
        { echo "boot.sh: no program \`$1\`" >&2 && exit 125; }
}

# A program into the guest's /bin, with the libraries that ldd finds for it (none for scripts and static programs).
bring() {
    place=$(place_of "$1")
    cp -L "$place" "$root/bin/"
    strip "$root/bin/${place##*/}" 2> /dev/null || true # a script has nothing to strip
    LD_LIBRARY_PATH=$libraries ldd "$place" 2> /dev/null | while read -r name arrow file _; do
        case $name$arrow in
            /*) library=$root/lib64/${name##*/} file=$name ;;
            *'=>') library=$root/lib/x86_64-linux-gnu/$name ;;
            *) continue ;;
        esac
        # a library from a folder of VM_ALSO may be of another Debian, and newer than this machine's programs need
        [ -e "$library" ] || cp -L "$file" "$library"
    done
}

bring busybox
bring "$program"
[ ! -e "$run/software" ] || bring rdma
while IFS= read -r also; do
    [ -z "$also" ] || [ -d "$also" ] || bring "$also"
done < "$run/also"

cp -a "$cache/kernel/root/lib/modules" "$root/lib/"
cp "$cache/build/rdma_nics.ko" "$run/nics" "$root/guest/"
[ ! -e "$run/software" ] || cp "$run/software" "$root/guest/"
cp "$here/init.sh" "$root/init"
chmod +x "$root/init" "$root/bin/${program##*/}"
{
    printf '%s' "${program##*/}"
    for argument; do
        printf " '%s'" "$(printf '%s' "$argument" | sed "s/'/'\\\\''/g")"
    done
} > "$root/guest/command"
busybox=$(place_of busybox)
(cd "$root" && find . | "$busybox" cpio -o -H newc 2> /dev/null) > "$run/initrd"

# ---- the boot ----

set --
while IFS= read -r argument; do
    set -- "$@" "$argument"
done < "$run/arguments"
if [ -n "$wire" ]; then
    for net in rails eth; do
        set -- "$@" -netdev "dgram,id=$net,local.type=unix,local.path=${wire%/*}/$net$side,remote.type=unix,remote.path=${wire%/*}/$net$((3 - side))"
    done
    set -- "$@" -netdev hubport,id=far,hubid=0,netdev=rails \
        -device "e1000e,netdev=eth,mac=52:54:00:02:00:0$side,romfile=,bus=pcie.0"
fi
qemu=$(place_of qemu-system-x86_64)
# One thread for all CPUs of the guest: with a thread for each, qemu 10.0 was seen to fail an assertion (iotlb_to_section).
# But programs that poll keep the others from it for a tenth of a second each.
# On a busy host the emulated timer can miss the kernel's self-test, which then panics: `no_timer_check` leaves it out.
# A silent guest is ended (watch.rs), so the kernel is not `quiet`, and has `earlyprintk`: without it the first word took 44 s
# on a host with 20 tasks for 2 CPUs, and with it 3 s, then 21 s of unpacking.  With `nosoftlockup` a CPU that is stuck is
# silent too; it would report itself every 20 s.
# Nor does it measure the TSC: it would by emulated timers, and where HPET and PIT differ it believes the PIT
# (pit_hpet_ptimer_calibrate_cpu).  Beside a busy host 8 guests of 92 found 89 to 999 MHz instead of 2596.  Their clocks then
# went up to 29 times too fast, so that waits ended early and the kernel took seconds for minutes.
# `mitigations=off` leaves out the two page tables of each process, between which an emulated CPU flushes its translations at
# each system call, and `pcie_ports=compat` the drivers for errors and power of ports: all boots of vm.rs took 108 s of CPU
# with them, and 72 without (Linux 6.1, qemu 7.2).
# A Nehalem is the oldest CPU that shows hyperthreads and a shared cache as a server does.
khz=$("$cache/build/tsc_khz")
# The shell waits for a background process alone in a way that a signal interrupts; `timeout` passes TERM on, then KILL.
trap 'kill "$emulator" 2> /dev/null' INT TERM
# shellcheck disable=SC2086  # VM_QEMU is a list of words
timeout --foreground -k 5 "${VM_LIMIT:-900}" env "LD_PRELOAD=$cache/build/pci_ids.so" "LD_LIBRARY_PATH=$libraries" \
    "PCI_IDS=$(cat "$run/ids")" "$qemu" -L "$unpacked/usr/share/qemu" -L "$unpacked/usr/share/seabios" \
    -nodefaults -no-user-config -display none -no-reboot -serial "file:$out/console" \
    -machine q35 -accel "tcg,thread=${VM_THREADS:-single}" -cpu Nehalem "$@" \
    -fsdev "local,id=out,path=$out,security_model=none" -device virtio-9p-pci,fsdev=out,mount_tag=out,bus=pcie.0 \
    -kernel "$cache/kernel/root/boot/vmlinuz-$version" -initrd "$run/initrd" \
    -append "console=ttyS0 earlyprintk=serial,ttyS0 panic=-1 no_timer_check nosoftlockup tsc_early_khz=$khz tsc=reliable mitigations=off pcie_ports=compat" \
    ${VM_QEMU:-} < /dev/null > "$run/qemu" 2>&1 &
. "$here/ended.sh"
