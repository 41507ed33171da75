#!/bin/bash
#
# How long a user waits for `srun -n1` and `srun -n8` on a node that plays a DGX H100.  Compares three cases, alternated in
# one run: no plugin; the plugin loaded but not asked; the option given.  Prints the median and the least of each in
# milliseconds.
#
#   cargo build --release && benches/srun.sh [RUNS]
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
runs=${1:-25}
export NICP_DIR=${NICP_DIR:-/tmp/nic-placement-bench} NICP_NODES=${NICP_NODES:-1}
cluster=$here/tests/slurm/cluster.sh
plugin=$(readlink -f "${CARGO_TARGET_DIR:-$here/target}/release/libnic_placement.so")

trap '"$cluster" down; [ ! -e "$NICP_DIR/.nic-placement" ] || rm -rf "$NICP_DIR"' EXIT
"$cluster" down
"$cluster" up
eval "$("$cluster" env)"

# time_one NAME PLUGSTACK TASKS FLAG
time_one() {
    printf '%s\n' "$2" > "$NICP_DIR/etc/plugstack.conf"
    local start end
    start=$(date +%s%N)
    # shellcheck disable=SC2086
    srun -n"$3" --gpus-per-task=1 $4 /bin/true
    end=$(date +%s%N)
    echo "n$3 $1 $(((end - start) / 1000))"
}

for _ in $(seq "$runs"); do
    for tasks in 1 8; do
        time_one none '' "$tasks" ''
        time_one loaded "optional $plugin" "$tasks" ''
        time_one asked "optional $plugin" "$tasks" --nic-placement
    done
done | sort -k1,2 -k3n | awk '
    { key = $1 " " $2; count[key]++; value[key, count[key]] = $3 }
    END {
        for (key in count)
            printf "%-10s median %7.1f ms  least %7.1f ms\n", key, value[key, int((count[key] + 1) / 2)] / 1000, value[key, 1] / 1000
    }' | sort
