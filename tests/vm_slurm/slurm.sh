#!/bin/sh
# Starts Slurm in a guest, whose name is n0 or that of a further node, and waits in n0 until all nodes are idle.
#
#   slurm.sh CONSTRAIN ADDRESS COUNT NODES
#
#   CONSTRAIN  yes: tasks may open their own GPUs only and have their job's cores only (ConstrainDevices, ConstrainCores)
#   ADDRESS    of n0
#   COUNT      how many nodes there are
#   NODES      slurm.conf's words for their names and addresses
#
# By environment:
#   THREADS    CPUs of a core, 2 unless said
#   PLUGIN     what plugstack.conf names, /guest/libnic_placement.so unless said; nothing if empty
#   NIC        a device node that is a generic resource `nic`: it is denied to steps that do not ask for --gres=nic:1
set -eu
constrain=$1
address=$2
count=$3
nodes=$4
threads=${THREADS:-2}
plugin=${PLUGIN-/guest/libnic_placement.so}

mkdir -p /etc/slurm /run/munge /var/spool/slurm /var/log/slurm /var/lib/munge /var/run
chmod 755 / /etc /run /run/munge
# all nodes of a cluster have the same
head -c 128 /guest/slurm.sh > /etc/munge.key
chmod 600 /etc/munge.key
# Slurm counts cores, and the CPUs of a core come one after the other; releases after 22.05 refuse cores that are not whole
# sockets
sort -n gpus | while read -r _ file cpus _; do
    cpus=$(cat "/sys/devices/system/cpu/cpu${cpus%-*}/topology/package_cpus_list")
    first=${cpus%-*}
    last=${cpus#*-}
    echo "Name=gpu File=$file Cores=$((first / threads))-$((last / threads))"
done > /etc/slurm/gres.conf
[ -z "${NIC:-}" ] || echo "Name=nic File=$NIC" >> /etc/slurm/gres.conf
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
SlurmctldHost=n0($address)
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
GresTypes=gpu${NIC:+,nic}
$nodes Sockets=2 CoresPerSocket=2 ThreadsPerCore=$threads RealMemory=200 Gres=gpu:$(grep -c . gpus)${NIC:+,nic:1}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
CONF
echo "${plugin:+optional $plugin}" > /etc/slurm/plugstack.conf
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
[ "$(hostname)" != n0 ] || slurmctld || unhappy 'slurmctld did not start'
slurmd || unhappy 'slurmd did not start'
[ "$(hostname)" = n0 ] || exit 0
tries=0
until [ "$(timeout 5 sinfo -h -t idle -o %D 2> /dev/null)" = "$count" ]; do
    pidof slurmctld > /dev/null || unhappy 'slurmctld has ended'
    pidof slurmd > /dev/null || unhappy 'slurmd has ended'
    sleep 0.2
    tries=$((tries + 1))
    [ $tries -lt 300 ] || unhappy 'not all nodes became idle'
done