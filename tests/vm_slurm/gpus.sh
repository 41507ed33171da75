#!/bin/sh
# Plays the GPUs' driver in a guest: device nodes, and what NVIDIA's shows in /proc.  Leaves a line for each GPU in the file
# `gpus`: its number, device node, CPUs, NUMA node and folder.
set -eu

# The functions have the ids of GPUs and no driver.  For NVIDIA's, this makes from /sys alone what the driver would show.  The
# first two have each other's minor number, as on machines where the driver's order is not the order of the bus.  Majors 240
# to 254 are for local use and have no driver.  So open(2) gives ENXIO if it is allowed, and EPERM if a device cgroup forbids
# it.
minor=0
for function in /sys/bus/pci/devices/*; do
    case $(cat "$function/vendor" "$function/class" | tr '\n' ' ') in
        '0x10de 0x0302'*) vendor=nvidia ;;
        '0x1002 0x1200'*) vendor=amd ;;
        *) continue ;;
    esac
    number=$minor
    if [ $vendor = nvidia ]; then
        case $minor in 0) number=1 ;; 1) number=0 ;; esac
        [ $minor -gt 0 ] || mount -t tmpfs none /proc/driver
        mkdir -p "/proc/driver/nvidia/gpus/${function##*/}"
        printf 'Model: \t\t H100\nBus Location: \t %s\nDevice Minor: \t %s\n' "${function##*/}" $number \
            > "/proc/driver/nvidia/gpus/${function##*/}/information"
    fi
    mknod -m 666 "/dev/$vendor$number" c 240 $number
    echo "$number /dev/$vendor$number $(cat "$function/local_cpulist") $(cat "$function/numa_node")" \
        "$(readlink -f "$function")" >> gpus
    minor=$((minor + 1))
done
