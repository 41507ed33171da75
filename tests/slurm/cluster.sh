#!/bin/bash
#
# A private Slurm on this one machine, from a distribution's own packages.  Its nodes play other machines.
#
#   cluster.sh up        start munged, slurmctld and the slurmd "nodes" n0, n1 ...; return once all are idle
#   cluster.sh down      end all of it; nothing stays running, mounted or left among the cgroups
#   cluster.sh restart nK  end a node's slurmd and start it anew; the node's steps go on
#   cluster.sh status    what runs, and what Slurm says of its nodes
#   cluster.sh env       shell lines for `eval`: with them, srun and friends talk to this cluster
#   cluster.sh run CMD…  run one command that way
#
# All traffic is on the loopback interface, all files are below $NICP_DIR, and munge has its own key and socket.  If this
# machine has a real Slurm or munge, the script neither reads nor disturbs it.
#
# Each node sees its own MACHINE.  slurmd runs in a private mount namespace in which
#   /sys          is the `sys` of a machine tree (and nothing of the real /sys but its cgroups),
#   /proc/driver  is the tree's `proc/driver`, where the NVIDIA driver lists its GPUs,
#   /proc/sys/kernel/hostname  is the node's name,
#   /dev          is a container's /dev plus /dev/nvidiaN and /dev/infiniband/uverbsN as character devices without a
#                 driver: opening one gives ENXIO, or EPERM if a device cgroup forbids it.
# slurmstepd, its plugins and the tasks inherit the namespace (machine.sh makes it).  A preloaded shim (fakecpu.c) plays
# the CPUs and NUMA nodes that do not exist here.
#
# Needs root: mount namespaces, mknod, and slurmd itself.
#
# Knobs, all from the environment:
#   NICP_DIR        the private directory                                      /tmp/nic-placement-slurm
#   NICP_NODES      how many nodes                                             2
#   NICP_MACHINES   a directory with an unpacked machine tree for all nodes, or a list `n0=DIR n1=DIR`; a node that the
#                   list leaves out has the default machine                    a DGX H100 (testing/)
#   NICP_SHAPES     SOCKETS:CORES:THREADS for all nodes, or a list `n1=1:32:1` 2:56:2 (a DGX H100)
#   NICP_PLUGSTACK  the text of plugstack.conf, `\n` between its lines         (empty: no plugin)
#   NICP_AUTODETECT the word of gres.conf by which slurmd finds the GPUs itself (empty: gres.conf lists them)
#   NICP_GRES       minor or pci: gres.conf has a line for each GPU with the cores of its own socket, in the order of the minor
#                   numbers or of the PCI addresses; or a list `n0=minor`      (empty: half of the GPUs a socket)
#   NICP_PRELOAD    a library that slurmd and slurmstepd load before all others (LD_PRELOAD)
#   NICP_STEPD      a program that slurmd runs in place of slurmstepd (slurmd -d), such as one that runs it under valgrind
#   NICP_CGROUP     yes: jobs live in cgroups (v1) and may open their own GPUs only (ConstrainDevices)       no
#   NICP_RAM        yes: with NICP_CGROUP, jobs have no more memory than they asked for (ConstrainRAMSpace)     no
#   NICP_EXTRA      more lines for slurm.conf, `\n` between them; with SlurmctldParameters=enable_configless the nodes have no
#                   files of Slurm's: slurmctld sends them
#   NICP_PORT       port of slurmctld; node nK listens on NICP_PORT+10+K       26817
#   NICP_ROOT       a folder with another distribution, whose Slurm and munge are used in place of this machine's    /
#   NICP_BIND       paths of this machine that are to be seen inside NICP_ROOT, beside $NICP_DIR and this repository
#   NICP_BIN        the nic-placement command that unpacks the default machine  target/release/nic-placement
#
# To change the plugin's line without a restart, edit $NICP_DIR/etc/plugstack.conf: each srun and each slurmstepd reads it
# anew.  $NICP_DIR/log has the logs; $NICP_DIR/bin/report is the task that prints its binding.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
dir=${NICP_DIR:-/tmp/nic-placement-slurm}
nodes=${NICP_NODES:-2}
machines=${NICP_MACHINES:-}
shapes=${NICP_SHAPES:-2:56:2}
cgroup=${NICP_CGROUP:-no}
port=${NICP_PORT:-26817}
bin=${NICP_BIN:-$here/../../target/release/nic-placement}
root=${NICP_ROOT:-/}

cargo=$(command -v cargo || true)
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export SLURM_CONF=$dir/etc/slurm.conf
munge_socket=$dir/munge/socket
last=$((nodes - 1))

say() { echo "cluster: $*" >&2; }
die() { say "$*"; exit 1; }

# for_node LIST NODE DEFAULT: a knob's value for one node; LIST is one value for all or `n0=A n1=B`
for_node() {
    local word
    case $1 in
        '') echo "$3" ;;
        n[0-9]*=*)
            for word in $1; do
                if [ "${word%%=*}" = "$2" ]; then echo "${word#*=}"; return; fi
            done
            echo "$3" ;;
        *) echo "$1" ;;
    esac
}

# ---------------------------------------------------------------------------------------------------- processes

# birth PID: when the process started, in clock ticks since boot.  With the pid it identifies the process for good.  Prints
# nothing for a process that has ended, even if init has not collected it yet.
birth() {
    local stat
    { read -r stat < "/proc/$1/stat"; } 2>/dev/null || return 1
    # the command's name is in parentheses and may hold anything: count the fields after it
    # shellcheck disable=SC2086
    set -- ${stat##*) }
    [ "$1" != Z ] && echo "${20}"
}

# running NAME: is the process we recorded under that name still there, and still that process?
running() {
    local pid born
    [ -r "$dir/pid/$1" ] && read -r pid born < "$dir/pid/$1" && [ "$(birth "$pid")" = "$born" ]
}

pid_of() { cut -d' ' -f1 "$dir/pid/$1"; }

# start NAME COMMAND…: in the background, in a session of its own.  COMMAND must not fork before it execs, so that the
# process we record is the daemon itself.
start() {
    local name=$1 pid
    shift
    setsid "$@" > "$dir/log/$name.out" 2>&1 < /dev/null &
    pid=$!
    echo "$pid $(birth $pid)" > "$dir/pid/$name"
}

# stop NAME: ask, wait up to 5 s, insist
stop() {
    local pid tries=100
    if running "$1"; then
        pid=$(pid_of "$1")
        kill -TERM "$pid" 2>/dev/null || true
        while running "$1" && [ $((tries -= 1)) -gt 0 ]; do sleep 0.05; done
        if running "$1"; then kill -KILL "$pid" 2>/dev/null || true; fi
    fi
    rm -f "$dir/pid/$1"
}

# step_daemons: pids of the slurmstepd processes of this cluster, known by the SLURM_CONF that they carry
step_daemons() {
    local proc
    for proc in /proc/[0-9]*; do
        case $(readlink "$proc/exe" 2>/dev/null) in
            */slurmstepd* | */valgrind/*)
                # the conf-cache of a configless node is below $dir too
                if tr '\0' '\n' 2>/dev/null < "$proc/environ" | grep -q "^SLURM_CONF=$dir/"; then
                    echo "${proc#/proc/}"
                fi ;;
        esac
    done
}

# kill_tree PID: the process and all below it
kill_tree() {
    local child
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null || true); do kill_tree "$child"; done
    kill -KILL "$1" 2>/dev/null || true
}

# the words before a command that make it one of the distribution that Slurm is of
into=()
find_root() {
    local place=/
    case $PWD/ in "$dir"/*) place=$PWD ;; esac
    if [ "$root" != / ] && running root; then
        into=(nsenter --target "$(pid_of root)" --mount --root --wdns="$place")
    fi
}

# enter_root: starts a process that keeps the other distribution mounted, with the paths of this machine that the cluster
# needs.  The mounts are invisible outside, and vanish with the last process in them.
enter_root() {
    local tries=100
    if [ "$root" = / ]; then return; fi
    mkdir -p "$dir/root"
    # shellcheck disable=SC2086
    start root unshare --mount "$here/machine.sh" root "$root" "$dir/root" "$dir" "$(readlink -f "$here/../..")" \
        ${NICP_BIND:-}
    find_root
    until "${into[@]}" test -e /.nic-placement 2> /dev/null; do
        if [ $((tries -= 1)) -eq 0 ] || ! running root; then
            die "\`$root\` cannot be entered: $(cat "$dir/log/root.out")"
        fi
        sleep 0.05
    done
}

# ---------------------------------------------------------------------------------------------------- machines

# default_machine: the tree of a DGX H100, from the project's own built-in model
default_machine() {
    local tree=$dir/machines/dgx-h100
    if [ ! -d "$tree/sys" ]; then
        [ -x "$bin" ] || die "no \`$bin\`: run \`cargo build --release\`, or name a machine tree in NICP_MACHINES"
        (cd "$here" && "$cargo" run --locked --quiet --package nic-placement-testing -- dgx-h100) > "$dir/machines/dgx-h100.manifest"
        "$bin" snapshot --unpack "$dir/machines/dgx-h100.manifest" "$tree" > /dev/null
    fi
    echo "$tree"
}

# ---------------------------------------------------------------------------------------------------- configuration

# numbers N…: as Slurm writes them in a file name, `[0,1,2]`
numbers() { local list=$*; echo "[${list// /,}]"; }

# gres_by_gpu NODE ORDER CORES: the lines of gres.conf of a node with so many cores to a socket, one for each GPU.  Slurm counts
# cores over the sockets, as Linux counts the first thread of each; 24.11 takes whole sockets only.
gres_by_gpu() {
    local place=$dir/node/$1 gpu minor near first
    for gpu in "$place"/proc/driver/nvidia/gpus/*; do
        minor=$(sed -n 's/^Device Minor:[[:space:]]*//p' "$gpu/information")
        read -r near < "$place/sys/bus/pci/devices/${gpu##*/}/numa_node"
        first=$(sed 's/[-,].*//' "$place/sys/devices/system/node/node$near/cpulist")
        first=$((first / $3 * $3))
        echo "$minor NodeName=$1 Name=gpu File=/dev/nvidia$minor Cores=$first-$((first + $3 - 1))"
    done | if [ "$2" = minor ]; then sort -n; else cat; fi | cut -d' ' -f2-
}

write_configuration() {
    local k node tree minors shape sockets cores threads half gres lines=''
    # a cluster would take up what an earlier one left: jobs, nodes that are down, machines of an older model.  The mark
    # says that we may clear the directory.
    if [ -d "$dir" ] && [ ! -e "$dir/.nic-placement" ] && [ -n "$(ls -A "$dir")" ]; then
        die "\`$dir\` is not empty and not of our making: name another one in NICP_DIR"
    fi
    mkdir -p "$dir"
    touch "$dir/.nic-placement"
    rm -rf "${dir:?}"/{etc,log,state,spool,machines,node,root}
    mkdir -p "$dir"/{etc,log,pid,bin,munge,state,spool,machines,node}
    chmod 755 "$dir" "$dir"/{etc,log,bin,state,spool,machines,node}
    chmod 711 "$dir/munge"
    if [ ! -s "$dir/munge/key" ]; then (umask 077; head -c 128 /dev/urandom > "$dir/munge/key"); fi

    : > "$dir/etc/gres.conf"
    for ((k = 0; k < nodes; k++)); do
        node=n$k
        tree=$(for_node "$machines" "$node" '')
        if [ -z "$tree" ]; then tree=$(default_machine); fi
        # shellcheck disable=SC2207
        minors=($("$here/machine.sh" prepare "$tree" "$dir/node/$node"))
        shape=$(for_node "$shapes" "$node" 2:56:2)
        IFS=: read -r sockets cores threads <<< "$shape"
        half=$((${#minors[@]} / 2))
        gres=
        if [ ${#minors[@]} -gt 0 ]; then gres="Gres=gpu:${#minors[@]},shard:$((4 * ${#minors[@]}))"; fi
        if [ -n "${NICP_AUTODETECT:-}" ]; then
            echo "NodeName=$node AutoDetect=$NICP_AUTODETECT" >> "$dir/etc/gres.conf"
        elif [ "$(for_node "${NICP_GRES:-}" "$node" '')" ]; then
            gres_by_gpu "$node" "$(for_node "$NICP_GRES" "$node" '')" "$cores" >> "$dir/etc/gres.conf"
        elif [ "$sockets" -ge 2 ] && [ "$half" -gt 0 ]; then
            # the first half of the GPUs is near the first half of the cores, as on every two-socket GPU server
            {
                echo "NodeName=$node Name=gpu File=/dev/nvidia$(numbers "${minors[@]:0:half}")" \
                    "Cores=0-$((sockets * cores / 2 - 1))"
                echo "NodeName=$node Name=gpu File=/dev/nvidia$(numbers "${minors[@]:half}")" \
                    "Cores=$((sockets * cores / 2))-$((sockets * cores - 1))"
            } >> "$dir/etc/gres.conf"
        elif [ ${#minors[@]} -gt 0 ]; then
            echo "NodeName=$node Name=gpu File=/dev/nvidia$(numbers "${minors[@]}")" >> "$dir/etc/gres.conf"
        fi
        # four shards of each GPU, for steps that ask for part of a GPU
        if [ ${#minors[@]} -gt 0 ]; then
            echo "NodeName=$node Name=shard Count=$((4 * ${#minors[@]}))" >> "$dir/etc/gres.conf"
        fi
        lines+="NodeName=$node NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=$((port + 10 + k))"
        lines+=" Sockets=$sockets CoresPerSocket=$cores ThreadsPerCore=$threads RealMemory=4000 $gres"$'\n'
    done

    printf '%b\n' "${NICP_PLUGSTACK:-}" > "$dir/etc/plugstack.conf"
    {
        echo 'CgroupPlugin=cgroup/v1'
        if [ "$cgroup" = yes ]; then printf '%s\n' ConstrainDevices=yes ConstrainCores=no "ConstrainRAMSpace=${NICP_RAM:-no}"; fi
    } > "$dir/etc/cgroup.conf"
    # for `srun --container`; the pattern is that of Slurm's containers.shtml
    local container='runc --rootless=true --root='$dir/oci' COMMAND %n.%u.%j.%s.%t'
    printf '%s\n' "RunTimeQuery=\"${container/COMMAND/state}\"" "RunTimeKill=\"${container/COMMAND/kill -a}\"" \
        "RunTimeDelete=\"${container/COMMAND/delete --force}\"" "RunTimeRun=\"${container/COMMAND/run} -b %b\"" \
        > "$dir/etc/oci.conf"
    # read if NICP_EXTRA asks for a separate /tmp for each job
    printf '%s\n' AutoBasePath=true "BasePath=$dir/containers" > "$dir/etc/job_container.conf"
    local proctrack=proctrack/linuxproc task=task/affinity
    if [ "$cgroup" = yes ]; then proctrack=proctrack/cgroup task=task/affinity,task/cgroup; fi

    cat > "$SLURM_CONF" <<CONF
ClusterName=nic-placement
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=$port
SlurmUser=root
SlurmdUser=root
# loopback only, and a munge of our own
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$munge_socket
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/state/slurmctld.pid
SlurmdPidFile=$dir/state/slurmd.%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
SlurmdDebug=${NICP_SLURMD_DEBUG:-debug}
$(if ! is_configless; then echo "PlugStackConfig=$dir/etc/plugstack.conf"; fi)
# the node has the CPUs listed below, whatever slurmd finds
SlurmdParameters=config_overrides
ProctrackType=$proctrack
TaskPlugin=$task
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
# jobs start at once, not at the next round of the scheduler; 23.11 leaves queued ones to its backfill
SchedulerParameters=sched_min_interval=1000,batch_sched_delay=0,bf_interval=1
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait=5
GresTypes=gpu,shard
${lines}PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
$(printf '%b' "${NICP_EXTRA:-}")
CONF
}

build_helpers() {
    if [ ! "$dir/bin/fakecpu.so" -nt "$here/fakecpu.c" ] || [ ! "$dir/bin/report" -nt "$here/report.c" ]; then
        cc -O1 -Wall -Wextra -shared -fPIC -DSTATE="\"$dir/state/fakecpu\"" -o "$dir/bin/fakecpu.so" \
            "$here/fakecpu.c" -ldl -pthread
        # the task uses the shim without an LD_PRELOAD in its environment: a task's LD_PRELOAD belongs to its user
        cc -O1 -Wall -Wextra -o "$dir/bin/report" "$here/report.c" "$dir/bin/fakecpu.so"
    fi
    # one record per pid, see fakecpu.c; of use to tasks of any user
    : > "$dir/state/fakecpu"
    chmod 666 "$dir/state/fakecpu"
}

# ---------------------------------------------------------------------------------------------------- commands

wait_until_idle() {
    local tries=120 states=
    while [ $((tries -= 1)) -gt 0 ]; do
        states=$("${into[@]}" sinfo -h -N -o '%N %T %E' 2>/dev/null | sort -u || true)
        if [ "$(grep -c ' idle ' <<< "$states")" -eq "$nodes" ]; then return; fi
        sleep 0.1
    done
    say "the nodes did not become idle; \`sinfo\` says: $states"
    tail -n 5 "$dir"/log/slurm*.log "$dir"/log/*.out >&2
    return 1
}

up() {
    local k
    if running slurmctld; then wait_until_idle; return; fi
    if [ "$cgroup" = yes ] && [ ! -e /sys/fs/cgroup/devices/devices.list ]; then
        die "\`NICP_CGROUP=yes\` needs the hierarchy \`devices\` of cgroup v1, which this machine lacks"
    fi
    stop_slurm
    write_configuration
    build_helpers
    enter_root
    rm -f "$munge_socket" "$munge_socket.lock"
    start munged "${into[@]}" munged --foreground --force --key-file="$dir/munge/key" --socket="$munge_socket" \
        --pid-file="$dir/munge/pid" --seed-file="$dir/munge/seed" --log-file="$dir/log/munged.log" --num-threads=2
    for _ in {1..100}; do
        if "${into[@]}" munge -S "$munge_socket" -n > /dev/null 2>&1; then break; fi
        sleep 0.02
    done
    start slurmctld "${into[@]}" slurmctld -D -f "$SLURM_CONF"
    for ((k = 0; k < nodes; k++)); do
        mkdir -p "$dir/spool/n$k"
        start_node "n$k"
    done
    wait_until_idle
    say "$nodes nodes are idle; \`eval \"\$($0 env)\"\` to use them"
}

is_configless() { [[ ${NICP_EXTRA:-} == *enable_configless* ]]; }

start_node() {
    local from=(-f "$SLURM_CONF") place=()
    if is_configless; then
        from=(--conf-server "127.0.0.1:$port")
        # before it has a slurm.conf, slurmd asks the munge in the usual place; its link /run/slurm/conf stays in the namespace
        # shellcheck disable=SC2016
        place=(sh -c 'mount -t tmpfs none /run && mkdir /run/munge && ln -s "$0" /run/munge/munge.socket.2 && exec "$@"'
            "$munge_socket")
        until "${into[@]}" timeout 5 scontrol ping 2> /dev/null | grep -q 'is UP'; do
            running slurmctld || die "slurmctld has ended: $(tail -n 5 "$dir/log/slurmctld.log")"
            sleep 0.05
        done
    fi
    start "slurmd.$1" "${into[@]}" unshare --mount "${place[@]}" "$here/machine.sh" enter "$dir/node/$1" "$cgroup" \
        env LD_PRELOAD="$dir/bin/fakecpu.so${NICP_PRELOAD:+ $NICP_PRELOAD}" slurmd -D ${NICP_STEPD:+-d "$NICP_STEPD"} -N "$1" "${from[@]}"
}

# restart NODE: its log goes on
restart() {
    local lines tries=100
    lines=$(wc -l < "$dir/log/slurmd.$1.log")
    stop "slurmd.$1"
    start_node "$1"
    until tail -n "+$((lines + 1))" "$dir/log/slurmd.$1.log" | grep -q 'slurmd started on'; do
        if [ $((tries -= 1)) -eq 0 ] || ! running "slurmd.$1"; then die "\`$1\` did not come back"; fi
        sleep 0.05
    done
}

stop_slurm() {
    local file pid
    for file in "$dir"/pid/slurmd.n*; do
        if [ -e "$file" ]; then stop "$(basename "$file")"; fi
    done
    for pid in $(step_daemons); do kill_tree "$pid"; done
    stop slurmctld
    stop munged
    stop root
}

down() {
    local tries=40 node cgroups
    [ -d "$dir/pid" ] || return 0
    if running slurmctld; then
        "${into[@]}" timeout 10 scancel --quiet --partition=all > /dev/null 2>&1 || true
        while [ -n "$(step_daemons)" ] && [ $((tries -= 1)) -gt 0 ]; do sleep 0.1; done
    fi
    stop_slurm
    rm -f "$munge_socket" "$munge_socket.lock"
    # those of this cluster's nodes, unless another cluster has a node of that name; rmdir takes empty cgroups only
    for node in $(seq -f 'n%g' 0 "$last"); do
        if pgrep -f "^slurmd .*-N $node " > /dev/null; then continue; fi
        for cgroups in /sys/fs/cgroup/*/"slurm_$node"; do
            if [ -d "$cgroups" ]; then find "$cgroups" -depth -type d -exec rmdir {} + 2>/dev/null || true; fi
        done
    done
    say 'down'
}

status() {
    local name code=0
    for name in munged slurmctld $(seq -f 'slurmd.n%g' 0 "$last"); do
        if running "$name"; then echo "$name runs as $(pid_of "$name")"; else echo "$name does not run"; code=1; fi
    done
    if running slurmctld; then "${into[@]}" sinfo -N -o '%8N %10T %6c %12G %E'; fi
    return $code
}

find_root
case ${1:-} in
    restart) [ -e "$dir/pid/slurmd.${2:-}" ] || die "no node \`${2:-}\` here"; restart "$2" ;;
    up | down) [ "$(id -u)" -eq 0 ] || die "\`$1\` needs root: mount namespaces, device nodes, slurmd"; "$1" ;;
    status) status ;;
    env) echo "export SLURM_CONF=$SLURM_CONF" ;;
    run) shift; exec "${into[@]}" "$@" ;;
    *) sed -n '3,10p' "$0"; exit 2 ;;
esac
