#!/bin/sh
# What runs in the guest: the checks of binding.rs, then one node with its own Slurm, on which each of COMMANDS is run.  Runs
# in /out.
#
#   node.sh MACHINE PROGRAM CONSTRAIN COMMANDS
#
#   MACHINE    its name
#   PROGRAM    the test program, in /guest
#   CONSTRAIN  yes: tasks may open their own GPUs only and have their job's cores only (ConstrainDevices, ConstrainCores)
#   COMMANDS   lines `NAME COMMAND…`: what COMMAND says is left in /out/NAME and /out/NAME.stderr, its status in
#              /out/NAME.status
set -eu
machine=$1
task="/guest/$2 task"
constrain=$3
commands=$4
export task

# how long it took, for people
ready() { awk -v what="$1" '{ printf "%s after %s s\n", what, $1 }' /proc/uptime >> times; }

# ---- GPUs ----

# The functions have the ids of GPUs and no driver.  For NVIDIA's, this makes from /sys alone what the driver would show.  The
# first two have each other's minor number, as on machines where the driver's order is not the order of the bus.  Majors 240
# to 254 are for local use and have no driver.  So open(2) gives ENXIO if it is allowed, and EPERM if a device cgroup forbids
# it.
minor=0
files=
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

for device in /sys/class/infiniband/*; do
    [ -e "$device/device" ] || continue
    echo "${device##*/} $(cat "$device/device/numa_node") $(cut -d: -f1 "$device/ports/1/state")" \
        "$(cat "$device/ports/1/link_layer") $(readlink -f "$device/device")" >> nics
done
ready 'the devices are there'
"/guest/$2" checks "$machine" > checks
ready 'the checks are done'

# ---- Slurm ----

hostname n0
# the resolver answers for those families only of which some interface has an address that is not the loopback's own
ip address add 192.0.2.1/32 dev lo
mkdir -p /etc/slurm /run/munge /var/spool/slurm /var/log/slurm /var/lib/munge /var/run
chmod 755 / /etc /run /run/munge
head -c 128 /dev/urandom > /etc/munge.key
chmod 600 /etc/munge.key
# Slurm counts cores, and both machines have two CPUs to a core, one after the other; releases after 22.05 refuse cores that
# are not whole sockets
sort -n gpus | while read -r _ file cpus _; do
    cpus=$(cat "/sys/devices/system/cpu/cpu${cpus%-*}/topology/package_cpus_list")
    first=${cpus%-*}
    last=${cpus#*-}
    echo "Name=gpu File=$file Cores=$((first / 2))-$((last / 2))"
done > /etc/slurm/gres.conf
{
    echo 'CgroupPlugin=cgroup/v2'
    # only Slurm manages the cgroups here
    echo 'IgnoreSystemd=yes'
    echo 'CgroupAutomount=yes'
    echo "ConstrainDevices=$constrain"
    echo "ConstrainCores=$constrain"
} > /etc/slurm/cgroup.conf
cat > /etc/slurm/slurm.conf << CONF
ClusterName=guest
SlurmctldHost=n0(192.0.2.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=/run/munge/socket
StateSaveLocation=/var/spool/slurm/ctld
SlurmdSpoolDir=/var/spool/slurm/d
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/out/slurmctld.log
SlurmdLogFile=/out/slurmd.log
SlurmdDebug=debug
PlugStackConfig=/etc/slurm/plugstack.conf
ProctrackType=proctrack/cgroup
TaskPlugin=task/affinity,task/cgroup
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_min_interval=1000,batch_sched_delay=0
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
GresTypes=gpu
NodeName=n0 NodeAddr=192.0.2.1 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=200 Gres=gpu:$minor
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
CONF
echo 'optional /guest/libnic_placement.so' > /etc/slurm/plugstack.conf
mkdir -p /var/spool/slurm/ctld /var/spool/slurm/d
# systemd would normally make this
mkdir /sys/fs/cgroup/system.slice
munged --force --key-file=/etc/munge.key --socket=/run/munge/socket --pid-file=/run/munge/pid --seed-file=/run/munge/seed \
    --log-file=/out/munged.log
unhappy() {
    echo "$1" >&2
    timeout 5 sinfo -N -o '%N %T %E' >&2 || true
    tail -n 20 munged.log slurmctld.log slurmd.log >&2
    exit 1
}
slurmctld || unhappy 'slurmctld did not start'
slurmd || unhappy 'slurmd did not start'
tries=0
until timeout 5 sinfo -h -o %T 2> /dev/null | grep -q idle; do
    pidof slurmctld > /dev/null || unhappy 'slurmctld has ended'
    pidof slurmd > /dev/null || unhappy 'slurmd has ended'
    sleep 0.2
    tries=$((tries + 1))
    [ $tries -lt 100 ] || unhappy 'the node did not become idle'
done
ready 'the node is idle'
echo "$commands" | while read -r name command; do
    code=0
    timeout 120 sh -c "$command" > "$name" 2> "$name.stderr" < /dev/null || code=$?
    echo $code > "$name.status"
    ready "$name"
done
