#!/bin/bash
#
# Many steps on a private Slurm with two nodes, of mixed shapes, without the plugin, with it, and asked; some with a fault.
#
#   soak.sh [N]       run until N steps have been run in all, 10,000 by default; then print the report
#   soak.sh report    print the report of what has been run
#
# What has been run is kept in $SOAK_DIR, so that a soak which was cut off goes on where it was.  Step K is the same in every
# soak: its shape, what it is asked for and its fault come from its number alone.  A step fails if its exit code or its
# number of tasks is not what its command says, or if it takes more than a minute.
#
# Knobs: SOAK_DIR, target/soak in the repository by default; NIC_PLACEMENT_SO and NIC_PLACEMENT_PANIC_SO, the builds.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)
kept=${SOAK_DIR:-${CARGO_TARGET_DIR:-$repository/target}/soak}
plugin=$(readlink -f "${NIC_PLACEMENT_SO:-${CARGO_TARGET_DIR:-$repository/target}/release/libnic_placement.so}")
panics=${NIC_PLACEMENT_PANIC_SO:-$repository/target/panic/debug/libnic_placement.so}
export NICP_DIR=${NICP_DIR:-/var/tmp/nic-placement-soak} NICP_NODES=2 NICP_PORT=${NICP_PORT:-26917}
export NICP_BIN=${NICP_BIN:-$(dirname "$plugin")/nic-placement}
cluster=$here/cluster.sh
steps=$kept/steps.tsv daemons=$kept/daemons.tsv

report() {
    [ -s "$steps" ] || { echo 'soak: nothing has been run'; exit 1; }
    echo "machine: $(nproc) processors, $(uname -r), Slurm $(slurmd -V | cut -d' ' -f2)"
    awk -F'\t' '
        { launches++; kinds[$3]++; faults[$4]++; if ($7 != "ok") failed++ }
        END {
            printf "launches: %d, failures: %d\n", launches, failed
            for (kind in kinds) printf "  %s: %d", kind, kinds[kind]
            print ""
            printf "  with a fault:"
            for (fault in faults) if (fault != "-") printf " %s %d", fault, faults[fault]
            print ""
        }' "$steps"
    awk -F'\t' '$7 != "ok" { print "  failed: step " $1 ", " $2 ", " $3 ", fault " $4 ": exit code " $6 ", " $7 }' "$steps" |
        head -n 20
    echo 'milliseconds of the steps without a fault, by shape:'
    awk -F'\t' '$4 == "-" && $7 == "ok" { print $2 "\t" $3 "\t" $5 }' "$steps" | sort -t"$(printf '\t')" -k1,1 -k2,2 -k3,3n |
        awk -F'\t' '
            function flush() {
                if (n) printf "  %-12s %-8s median %6.0f  slowest %6.0f  n %d\n", shape, kind, ms[int((n + 1) / 2)], ms[n], n
                n = 0
            }
            $1 != shape || $2 != kind { flush(); shape = $1; kind = $2 }
            { ms[++n] = $3 }
            END { flush() }'
    echo 'slurmd, at the beginning and at the end of each run and between restarts of slurmd:'
    awk -F'\t' '{ printf "  step %-6s %s  %6d KiB  %3d descriptors\n", $1, $2, $3, $4 }' "$daemons" |
        awk '{ key = $3; line[key] = line[key] ? line[key] : $0; last[key] = $0; order[++n] = key }
             END { for (i = 1; i <= n; i++) if (!done[order[i]]++) { print line[order[i]]; print last[order[i]] } }'
}

if [ "${1:-}" = report ]; then report; exit; fi
wanted=${1:-10000}
mkdir -p "$kept"
done_steps=0
if [ -e "$steps" ]; then done_steps=$(wc -l < "$steps"); fi
if [ "$done_steps" -ge "$wanted" ]; then report; exit; fi

exec 9> "$kept/lock"
flock --nonblock 9 || { echo "soak: another soak runs in \`$kept\`" >&2; exit 1; }
trap 'for job in $(jobs -p); do kill "$job" 2> /dev/null || true; done; "$cluster" down; [ ! -e "$NICP_DIR/.nic-placement" ] || rm -rf "$NICP_DIR"' EXIT
"$cluster" down
"$cluster" up 9>&-
eval "$("$cluster" env)"
cd "$NICP_DIR"
tree=$NICP_DIR/node/n0/sys
own=$NICP_DIR/plugin.so
node_file=$NICP_DIR/node.json
report=$NICP_DIR/bin/report

# under a name of this process' own: a loop that is ended may leave its last copy half done
install_plugin() { cp "$plugin" "$own.$BASHPID" && mv -f "$own.$BASHPID" "$own"; }
install_plugin
write_node_file() {
    nsenter --target "$(cut -d' ' -f1 "$NICP_DIR/pid/slurmd.n0")" --mount -- "$NICP_BIN" refresh --output "$node_file" > /dev/null
}
write_node_file

# sample STEP: memory and descriptors of both slurmd, each known by its process
sample() {
    local node pid
    for node in n0 n1; do
        pid=$(cut -d' ' -f1 "$NICP_DIR/pid/slurmd.$node")
        printf '%s\t%s\t%s\t%s\n' "$1" "$node=$pid" "$(sed -n 's/^VmRSS:[[:space:]]*\([0-9]*\).*/\1/p' "/proc/$pid/status")" \
            "$(find "/proc/$pid/fd" -mindepth 1 | wc -l)"
    done >> "$daemons"
}

# shape NUMBER: sets $shape, $command and the number of tasks that must report
shape() {
    case $(($1 % 7)) in
        0 | 1) shape=n1 tasks=1 command='-w n0 -n1 --gpus-per-task=1' ;;
        2) shape=n2 tasks=2 command='-w n0 -n2 --gpus-per-task=1' ;;
        3) shape=n8 tasks=8 command='-w n0 -n8 --gpus-per-task=1' ;;
        4) shape=2x4 tasks=8 command='-N2 --ntasks-per-node=4 --gpus-per-task=2' ;;
        5) shape=n4,bound tasks=4 command='-w n1 -n4 -c4 --gres=gpu:4 --cpu-bind=cores' ;;
        6) shape=n16,shared tasks=16 command='-w n0 -n16 --gres=gpu:8' ;;
    esac
}

# hooks that fail on request, and what is done to the node; a step without the plugin has the node's faults too
hooks=(init option init_post_opt task_init)
fault() {
    undo=:
    arguments="node-file=$node_file"
    library=$own
    case $1 in
        -) ;;
        panic | sleep | hunger)
            if [ -e "$panics" ]; then library=$panics arguments="$1=${hooks[$2 % 4]}"; fi ;;
        replaced) (while :; do install_plugin; sleep 0.02; done) & undo="{ kill $! && wait $!; } 2> /dev/null || true" ;;
        no-file) rm -f "$node_file"; undo=write_node_file ;;
        half-file) head -c 5000 "$node_file" > "$node_file.new"; mv -f "$node_file.new" "$node_file"; undo=write_node_file ;;
        device) mv "$tree/class/infiniband/mlx5_3" "$tree/class/infiniband/mlx5_33"
            undo="mv $tree/class/infiniband/mlx5_33 $tree/class/infiniband/mlx5_3" ;;
        no-class) mv "$tree/class/infiniband" "$tree/class/away"; undo="mv $tree/class/away $tree/class/infiniband" ;;
        arguments) arguments='topology=/nowhere defualt=closest exclude=mlx5_0' ;;
        slurmd) (sleep 0.1; "$cluster" restart n0 9>&- 2>> "$kept/restarts") & undo="wait $!; sample $3" ;;
    esac
}
faults=(panic sleep hunger no-file half-file device no-class arguments)

sample "$done_steps"
for ((step = done_steps + 1; step <= wanted; step++)); do
    RANDOM=$((step % 32768))
    number=$RANDOM number=$RANDOM
    shape $number
    kinds=(none asked loaded asked none asked)
    kind=${kinds[RANDOM % 6]}
    what=-
    if [ $((RANDOM % 10)) -eq 0 ]; then what=${faults[RANDOM % ${#faults[@]}]}; fi
    # 200 launches in a row while the library is renamed away under them
    if [ $((step % 2000)) -ge 301 ] && [ $((step % 2000)) -le 500 ]; then what=replaced; fi
    if [ $((step % 1000)) -eq 600 ]; then what=slurmd; fi
    fault "$what" "$number" "$step"
    ends=$((RANDOM % 3))
    flag=
    case $kind in
        none) line= ;;
        loaded) line="optional $library $arguments" ;;
        # a panic in srun's init leaves the option unknown there
        asked) line="optional $library $arguments default=closest"
            if [ "$arguments" != panic=init ] && [ "$((number % 2))" = 0 ]; then flag=--nic-placement; fi ;;
    esac
    printf '%s\n' "$line" > "$NICP_DIR/etc/plugstack.conf"
    begin=${EPOCHREALTIME/./}
    code=0
    # shellcheck disable=SC2086
    timeout --kill-after=5 60 srun --quiet $command $flag sh -c "$report NCCL_IB_HCA; exit $ends" > out 2> err < /dev/null || code=$?
    end=${EPOCHREALTIME/./}
    verdict=ok
    if [ "$code" -ne "$ends" ]; then verdict="exit code $code in place of $ends"; fi
    if [ "$(grep -c '^rank=' out)" -ne "$tasks" ]; then verdict="$(grep -c '^rank=' out) of $tasks tasks"; fi
    # a step that asked on a node without a fault is placed, every other one is not, or not always
    placed=$(grep -c 'NCCL_IB_HCA==' out) || true
    if [ "$what" = - ] && [ "$placed" -ne "$([ "$kind" = asked ] && echo "$tasks" || echo 0)" ]; then verdict="$placed placed"; fi
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$step" "$shape" "$kind" "$what" "$(((end - begin) / 1000))" "$code" "$verdict" >> "$steps"
    if [ "$verdict" != ok ]; then { echo "step $step: $verdict"; head -n 20 err; } >> "$kept/failures"; fi
    eval "$undo"
    if [ $((step % 250)) -eq 0 ]; then
        sample "$step"
        states=$(sinfo -h -N -o %T | sort | uniq -c | tr -s ' \n' ' ')
        case $states in *down* | *drain*) echo "step $step: nodes are $states" | tee -a "$kept/failures"; exit 1 ;; esac
        # slurmd's own logs grow by a megabyte in a hundred steps
        for log in "$NICP_DIR"/log/*.log; do : > "$log"; done
        echo "$step steps, $(awk -F'\t' '$7 != "ok"' "$steps" | wc -l) failures" >&2
    fi
done
sample "$wanted"
report
