#!/bin/bash
#
# Shows the plugin at work on a real Slurm, the same srun without and with the flag: two nodes that play a DGX H100, with a
# NUMA node for each socket; then one that plays a DGX A100, with four for each (NPS4).
# Expects the release build (`cargo build --release`) and root; `make demo` does the rest.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}/release
plugin=$(readlink -f "$target/libnic_placement.so") || true
if [ ! -e "$plugin" ]; then
    echo "demo: no \`$target/libnic_placement.so\`: run \`cargo build --release\`" >&2
    exit 1
fi

export NICP_DIR=${NICP_DIR:-/tmp/nic-placement-demo} NICP_BIN=$target/nic-placement
export NICP_PLUGSTACK="optional $plugin"
cluster=$here/cluster.sh
report="$NICP_DIR/bin/report CUDA_VISIBLE_DEVICES UCX_NET_DEVICES NCCL_IB_HCA"
# 14 CPUs a task are seven whole cores: no two tasks share one
command='srun -N2 --ntasks-per-node=8 -c14 --gpus-per-task=1'

bold='' plain=''
if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; fi
title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

# table: the lines of report.c as columns.  A task is marked that runs on another socket than its GPU, or on the same socket
# and another NUMA node.  $numa_nodes has the NUMA node of each GPU; they have $cores cores each, and lie in order on two
# sockets.
table() {
    sort -t= -k2n | awk -F'\t' -v numa_nodes="$numa_nodes" -v cores="$cores" '
        BEGIN { gpus = split(numa_nodes, of_gpu, " "); for (gpu in of_gpu) if (of_gpu[gpu] > last) last = of_gpu[gpu] }
        { for (i = 1; i <= NF; i++) { at = index($i, "="); value[substr($i, 1, at - 1)] = substr($i, at + 1) } }
        NR == 1 { printf "  %4s  %-4s  %3s  %-15s  %-16s  %-16s  %s\n", "task", "node", "GPU", "UCX_NET_DEVICES", "CPUs", "memory", "" }
        {
            # a hyperthread is numbered as its core, behind all cores
            here = int(int(value["cpus"]) % (cores * (last + 1)) / cores)
            home = of_gpu[value["CUDA_VISIBLE_DEVICES"] + 1]
            half = (last + 1) / 2
            far = int(here / half) != int(home / half)
            note = far ? "<- GPU on the other socket" : here != home ? "<- GPU on another NUMA node of the socket" : ""
            printf "  %4s  %-4s  %3s  %-15s  %-16s  %-16s  %s\n", value["rank"], value["node"], value["CUDA_VISIBLE_DEVICES"],
                value["UCX_NET_DEVICES"], value["cpus"], value["mem"], note
            fars += far; near += here == home
            nccl[value["NCCL_IB_HCA"]]++
        }
        END {
            for (list in nccl) printf "  NCCL_IB_HCA of %d tasks: %s\n", nccl[list], list == "-" ? "not set" : list
            printf "  tasks on the wrong socket: %d of %d", fars, NR
            if (last > 1) printf "; on their GPU'"'"'s own NUMA node: %d", near
            print ""
        }'
}

# show FLAG: run and show
show() {
    title "\$ $command${1:+ $1} ./train"
    # shellcheck disable=SC2086
    "$cluster" run $command $1 $report | table
}

"$cluster" down
# only a directory that the cluster has taken for its own is removed
trap '"$cluster" down; [ ! -e "$NICP_DIR/.nic-placement" ] || rm -rf "$NICP_DIR"' EXIT
title 'A private Slurm: slurmctld and two nodes, each of which plays a DGX H100'
numa_nodes='0 0 0 0 1 1 1 1' cores=56
"$cluster" up
"$cluster" run sinfo -N -o '  %8N %10T %6c %G'

show ''
show --nic-placement
echo "  preferred-many:0 is memory of NUMA node 0 first, and of the others where that has none left"

command='srun -n8 -c14 --gpus-per-task=1'
title "\$ $command --nic-placement=verbose ./train"
# shellcheck disable=SC2086
"$cluster" run $command --nic-placement=verbose true 2>&1 | sort -s -k3,3n

"$cluster" down
title 'One node that plays a DGX A100: eight NUMA nodes, and GPUs on four of them'
tree=$(mktemp -d)
trap '"$cluster" down; rm -rf "$tree"; [ ! -e "$NICP_DIR/.nic-placement" ] || rm -rf "$NICP_DIR"' EXIT
(cd "$here" && cargo run --locked --quiet --package nic-placement-testing -- dgx-a100) > "$tree/manifest"
"$NICP_BIN" snapshot --unpack "$tree/manifest" "$tree/dgx-a100" > /dev/null
export NICP_NODES=1 NICP_MACHINES=$tree/dgx-a100 NICP_SHAPES=2:64:2
numa_nodes='3 3 1 1 7 7 5 5' cores=16
"$cluster" up

# 32 CPUs a task, so that the step has CPUs on every NUMA node
command='srun -n8 -c32 --gpus-per-task=1'
show ''
show --nic-placement
cat <<'why'
  Each NUMA node has 32 CPUs, and each task asks for as many. So of two tasks with GPUs on one NUMA node one has room there, and
  the other has a NUMA node of the same socket. No task is farther from its GPU than Slurm had put it.
why
echo
