#!/bin/bash
# srun tells the tasks of one component of a heterogeneous step, by chance which, of another component's options: the last one's.
#
# Slurm 22.05.8 (Debian 12), 2026-11-27: SLURM_CPUS_PER_TASK and SLURM_MEM_BIND_TYPE in the tasks of 60 runs of
#
#   $ srun -n1 -c1 A : -n1 -c2 B : -n1 -c3 --mem-bind=local C
#
#   51 runs   A 3 local   B 2 -       C 3 local
#    7 runs   A 1 -       B 3 local   C 3 local
#    2 runs   A 1 -       B 2 -       C 3 local
#
# So OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK starts 3 threads on the one CPU of A, or on the two of B.  srun writes each component's
# options into its own environment in turn, and hands all of that to the component whose launch thread is first
# (pre_launch_srun_job; 26.05.3's source has the same).  What slurmd sets anew is right: with task/affinity, SLURM_CPU_BIND_TYPE.
# Needs root and Debian 12's archive in apt.  Ends with 1 if that changed, with 77 where it cannot be shown.
set -eu
skip() { echo "skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip 'slurmd needs root'
slurm=22.05.8-4+deb12u3 munge=0.5.15-2+deb12u1
work=$(mktemp -d)
daemons=()
end() {
    # a step's daemon is no child of ours, and ends with its job
    if [ ${#daemons[@]} = 5 ]; then
        timeout 10 scancel -Q -p all || true
        for _ in {1..50}; do [ -n "$(timeout 10 squeue -h)" ] || break; sleep 0.2; done
    fi
    [ ${#daemons[@]} = 0 ] || { kill "${daemons[@]}"; wait "${daemons[@]}"; } 2> /dev/null || true
    rm -rf "$work"
}
trap end EXIT

(cd "$work" && apt-get -qq -o APT::Sandbox::User=root download {slurmctld,slurmd,slurm-client,slurm-wlm-basic-plugins}=$slurm \
    {munge,libmunge2}=$munge libhwloc15 libnuma1 liblz4-1) || skip "apt has no Slurm $slurm"
for package in "$work"/*.deb; do dpkg -x "$package" "$work"; done
plugins=$(echo "$work"/usr/lib/*/slurm-wlm)
for name in "${!SLURM_@}" "${!SRUN_@}"; do unset "$name"; done
export PATH=$work/usr/sbin:$work/usr/bin:$PATH LD_LIBRARY_PATH=$plugins:${plugins%/*} SLURM_CONF=$work/slurm.conf

# three nodes on this host, on the loopback interface, with a munge of their own
read -r -a ports < <(python3 -c 'import socket
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(4)]
print(*(one.getsockname()[1] for one in held))')
host=$(uname -n)
host=${host%%.*}
(umask 077; head -c 128 /dev/urandom > "$work/key")
echo CgroupPlugin=cgroup/v1 > "$work/cgroup.conf"
mkdir "$work"/{state,n1,n2,n3}
cat > "$SLURM_CONF" << END
ClusterName=finding
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmUser=root
SlurmdUser=root
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
PluginDir=$plugins
AuthInfo=socket=$work/socket
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/%n.pid
# the nodes have the CPUs listed below, whatever slurmd finds
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
SelectType=select/linear
SchedulerParameters=sched_min_interval=1000,bf_interval=1
$(for k in 1 2 3; do echo "NodeName=n$k NodeHostname=$host NodeAddr=127.0.0.1 Port=${ports[k]} CPUs=3"; done)
PartitionName=all Nodes=ALL Default=YES
END
# start NAME COMMAND…
start() {
    "${@:2}" > "$work/$1.log" 2>&1 < /dev/null &
    daemons+=($!)
}
start munged munged --foreground --force --key-file="$work/key" --socket="$work/socket" --pid-file="$work/munged.pid" \
    --seed-file="$work/seed" --log-file="$work/munged.log"
for _ in {1..100}; do [ -S "$work/socket" ] && break; sleep 0.1; done
start slurmctld slurmctld-wlm -D
for k in 1 2 3; do start "n$k" slurmd-wlm -D -N "n$k" -d "$work/usr/sbin/slurmstepd-wlm"; done
for _ in {1..150}; do
    [ "$(sinfo -h -N -o %T 2> /dev/null | grep -cx idle)" = 3 ] && break
    sleep 0.2
done
[ "$(sinfo -h -N -o %T | grep -cx idle)" = 3 ] || { tail -n 3 "$work"/*.log; skip 'the nodes did not start'; }

# shellcheck disable=SC2016
task=(sh -c 'echo "$SLURM_PROCID $SLURM_CPUS_PER_TASK,${SLURM_MEM_BIND_TYPE:--}"')
a='3,local 2,- 3,local' b='1,- 3,local 3,local' neither='1,- 2,- 3,local'
# 60 runs, and more on a quiet machine, where nearly always A's thread is first
for ((run = 1; run <= 300; run++)); do
    timeout 60 srun -Q -n1 -c1 "${task[@]}" : -n1 -c2 "${task[@]}" : -n1 -c3 --mem-bind=local "${task[@]}" |
        sort -n | cut -d' ' -f2 | xargs >> "$work/seen"
    if [ $run -ge 60 ] && grep -qx "$a" "$work/seen" && grep -qx "$b" "$work/seen"; then break; fi
done
echo "$(srun -V): runs, and what their tasks A, B and C were told"
sort "$work/seen" | uniq -c | sort -nr
# never both
grep -qx "$a" "$work/seen" && grep -qx "$b" "$work/seen" && ! grep -vx -e "$a" -e "$b" -e "$neither" "$work/seen"
