#!/bin/bash
#
# How long a user waits for `srun -n1`, `-n8` and `-n64` on a node that plays a DGX H100, and what the hooks take inside the
# real slurmstepd.  benches/README.md says how and why.
#
#   cargo build --release && benches/srun.sh [ROUNDS]
#
# Four kinds in each round, in an order that is drawn anew: `none`, no plugin; `control`, no plugin once more; `loaded`, the
# plugin, not asked; `asked`, with the option.  Prints medians, and their ratios to `none` with 95 % bootstrap intervals.
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
rounds=${1:-25}
# as Slurm logs where nobody asks for more
export NICP_SLURMD_DEBUG=${NICP_SLURMD_DEBUG:-info}
export NICP_DIR=${NICP_DIR:-/tmp/nic-placement-bench} NICP_NODES=${NICP_NODES:-1}
cluster=$here/tests/slurm/cluster.sh
plugin=$(readlink -f "${NIC_PLACEMENT_SO:-${CARGO_TARGET_DIR:-$here/target}/release/libnic_placement.so}")
export NICP_BIN=${NICP_BIN:-$(dirname "$plugin")/nic-placement}

trap '"$cluster" down; [ ! -e "$NICP_DIR/.nic-placement" ] || rm -rf "$NICP_DIR"' EXIT
"$cluster" down
"$cluster" up
eval "$("$cluster" env)"
cd "$NICP_DIR"
# a home without files of libraries, as most users have it: the tasks look for them there
mkdir -p home
export HOME=$NICP_DIR/home
node_file=$NICP_DIR/node.json
nsenter --target "$(cut -d' ' -f1 pid/slurmd.n0)" --mount -- "$NICP_BIN" refresh --output "$node_file" > /dev/null
# a copy, as sites install it: of a file that a linker wrote here and there the kernel maps fewer pages around a fault, and
# init took twice as long
cp "$plugin" installed.so
ours="optional $NICP_DIR/installed.so node-file=$node_file"

line() { printf '%b\n' "$1" > "$NICP_DIR/etc/plugstack.conf"; }

# step TASKS FLAG: eight GPUs for each step, so that steps differ by their tasks alone
step() {
    # shellcheck disable=SC2086
    srun -n"$1" --gres=gpu:8 $2 /bin/true
}

# a step that follows at once would wait for the end of the job before it
idle() { until [ "$(sinfo -h -o %T)" = idle ]; do sleep 0.02; done; }

# time_one ROUND KIND TASKS
time_one() {
    local begin flag=
    idle
    case $2 in
        none | control) line '' ;;
        loaded) line "$ours" ;;
        asked) line "$ours" flag=--nic-placement ;;
    esac
    begin=${EPOCHREALTIME/./}
    step "$3" "$flag"
    echo "$1 n$3 $2 $((${EPOCHREALTIME/./} - begin))"
}

for round in $(seq "$rounds"); do
    for tasks in 1 8 64; do
        for kind in $(printf '%s\n' none control loaded asked | shuf); do time_one "$round" "$kind" "$tasks"; done
    done
done > rounds
awk -f "$here/benches/interval.awk" rounds | sort -V

# ---- the hooks, inside slurmstepd ----

release=$(slurmd -V | sed 's/[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1 \2/')
# shellcheck disable=SC2086
build() { cc -O2 -shared -fPIC -DRELEASE="$(set -- $release; echo $((10#$1 << 16 | 10#$2 << 8)))" -o "$1" "$2"; }
build between.so "$here/tests/slurm/between.c"
build floor.so "$here/benches/floor.c"
sed "s|NODE_FILE|$node_file|" "$here/benches/floor.list" > floor.list
before= after=
for hook in init init_post_opt user_init task_init; do
    before+=" $hook=begin" after+=" $hook=end:$NICP_DIR/hooks.@"
done

# hooks KIND LINE FLAG: our line between two of a plugin that reads the clock
hooks() {
    idle
    line "optional $NICP_DIR/between.so$before\n$2\noptional $NICP_DIR/between.so${after//@/$1}"
    step 8 "$3"
}
kinds='nothing floor off file live'
# LLNL/mpibind's plugin reads the node by hwloc in user_init: MPIBIND_SO= names it, built from its sources by
# cc -O2 -shared -fPIC -o mpibind_slurm.so slurm/plugin.c src/internals.c src/mpibind.c src/utils.c src/hwloc_utils.c -Isrc -lhwloc
[ -z "${MPIBIND_SO:-}" ] || kinds+=' mpibind'
# what a step asks that reads the node is a list of the node's own files
if command -v strace > /dev/null; then
    strace -f -s 4096 -o trace -p "$(cut -d' ' -f1 pid/slurmd.n0)" \
        -e trace=openat,readlink,statx,faccessat,faccessat2,getrusage 2> strace.log &
    tracer=$!
    # where it may follow nobody it has ended
    until grep -qs attached strace.log || ! kill -0 "$tracer" 2> /dev/null; do sleep 0.02; done
    hooks traced "$ours cache=0" --nic-placement
    kill -INT "$tracer" 2> /dev/null || true
    wait "$tracer" || true
    { echo 'init_post_opt environment'; awk -v hook=init_post_opt -f "$here/benches/asked.awk" trace || true; } > floor-live.list
    [ "$(wc -l < floor-live.list)" -gt 100 ] || { echo "strace saw too little: $(cat strace.log)" >&2; exit 1; }
    kinds+=' floor-live'
else
    echo 'floor-live: skipped, there is no strace'
fi
for _ in $(seq "$rounds"); do
    # shellcheck disable=SC2086
    for kind in $(printf '%s\n' $kinds | shuf); do
        case $kind in
            nothing) hooks nothing '' '' ;;
            floor | floor-live) hooks $kind "optional $NICP_DIR/floor.so $NICP_DIR/$kind.list" '' ;;
            off) hooks off "$ours" '' ;;
            file) hooks file "$ours" --nic-placement ;;
            live) hooks live "$ours cache=0" --nic-placement ;;
            mpibind) hooks mpibind "optional $MPIBIND_SO" --mpibind=on ;;
        esac
    done
done
echo 'inside slurmstepd, 8 tasks, between the hooks before ours and after it: microseconds of the clock, of the processor, page faults'
column() { cut -d' ' -f"$2" | sort -n | awk -v format="$1" '{ v[NR] = $1 } END { printf format, v[int((NR + 1) / 2)], v[1], v[NR] }'; }
for kind in $kinds; do
    for hook in init init_post_opt user_init task_init; do
        [ $hook != user_init ] || [ $kind = mpibind ] || continue
        grep "^$hook " "hooks.$kind" > of-hook
        printf '%-10s %-14s' "$kind" $hook
        column 'median %8.1f  least %8.1f  most %8.1f' 2 < of-hook
        column '   cpu %8.1f  least %8.1f' 3 < of-hook
        column '   faults %3d' 4 < of-hook
        echo "   n $(wc -l < of-hook)"
    done
done
