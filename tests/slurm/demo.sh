#!/bin/bash
#
# Shows the plugin at work on a real Slurm: two nodes that play a DGX H100, the same srun without and with the flag.
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
command='srun -N2 --ntasks-per-node=8 --gpus-per-task=1'

bold='' plain=''
if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; fi
title() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

# table: the lines of report.c as columns.  A task far from its GPU, whose CPU is on the other socket, is marked.
table() {
    sort -t= -k2n | awk -F'\t' '
        { for (i = 1; i <= NF; i++) { at = index($i, "="); value[substr($i, 1, at - 1)] = substr($i, at + 1) } }
        NR == 1 { printf "  %4s  %-4s  %3s  %-15s  %-14s  %-16s  %s\n", "task", "node", "GPU", "UCX_NET_DEVICES", "CPUs", "memory", "" }
        {
            # GPUs 0-3 and CPUs 0-55, 112-167 are on the first socket
            far = (value["CUDA_VISIBLE_DEVICES"] > 3) != (int(value["cpus"] / 56) % 2)
            printf "  %4s  %-4s  %3s  %-15s  %-14s  %-16s  %s\n", value["rank"], value["node"], value["CUDA_VISIBLE_DEVICES"],
                value["UCX_NET_DEVICES"], value["cpus"], value["mem"], far ? "<- GPU on the other socket" : ""
            fars += far
            nccl[value["NCCL_IB_HCA"]]++
        }
        END {
            for (list in nccl) printf "  NCCL_IB_HCA of %d tasks: %s\n", nccl[list], list == "-" ? "not set" : list
            printf "  tasks on the wrong socket: %d of %d\n", fars, NR
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
"$cluster" up
"$cluster" run sinfo -N -o '  %8N %10T %6c %G'

show ''
show --nic-placement

command='srun -n8 --gpus-per-task=1'
title "\$ $command --nic-placement=verbose ./train"
# shellcheck disable=SC2086
"$cluster" run $command --nic-placement=verbose true 2>&1 | sort -k3n
echo
