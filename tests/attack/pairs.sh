#!/bin/bash
#
# pairs.sh NODE FOLDER…: runs a pair of srun lines in each FOLDER, on a node that nothing else uses.
#
# A FOLDER has `without.sh` and `with.sh`, and for each other job that holds a part of the node meanwhile `hold.K`, srun's
# options; `hole` says that hold.0 ends before the pair begins.  It then has for each half what it wrote (.out, .err) and
# its exit status with the times of its begin and its end (.code), and for each holder what Slurm says of it (job.K).
set -u

node=$1 number=${1#n}
shift

# settle STATES: until no job in one of them is left on the node.  A job whose end Slurm has not noticed yet still has its CPUs,
# and the next one would get others.
settle() {
    local tries=200
    while [ "$(squeue -h -w "$node" -t "$1" -o %i)" ] && [ $((tries -= 1)) -gt 0 ]; do sleep 0.02; done
}

hold='
    if [ "$SLURM_PROCID" = 0 ]; then scontrol -d show job "$SLURM_JOB_ID" > "$0/job.$1"; touch "$0/held.$1"; fi
    tries=4000
    until [ -e "$0/release.$1" ] || [ $((tries -= 1)) -eq 0 ]; do sleep 0.03; done'

read -r slurmd _ < "$NICP_DIR/pid/slurmd.$node"
for folder; do
    # the pairs to come would all fail alike
    kill -0 "$slurmd" || { echo "slurmd of $node ended before $folder" >&2; exit 3; }
    cd "$folder" || exit
    holders=()
    settle running,completing
    for k in 0 1; do
        [ -e hold.$k ] || continue
        read -ra options < hold.$k
        timeout 120 srun -p "p$number" -w "$node" -N1 "${options[@]}" bash -c "$hold" "$folder" $k > hold.$k.said 2>&1 < /dev/null &
        holders+=($!)
        tries=200
        until [ -e held.$k ] || [ $((tries -= 1)) -eq 0 ]; do sleep 0.05; done
        if [ ! -e held.$k ]; then kill ${holders[-1]}; fi
    done
    if [ -e hole ]; then
        touch release.0
        wait "${holders[0]}"
    fi
    for half in without with; do
        settle completing
        begin=$EPOCHREALTIME
        timeout --kill-after=5 10 bash $half.sh > $half.out 2> $half.err < /dev/null
        echo "$? $begin $EPOCHREALTIME" > $half.code
        # a line that hangs must not hold up the next one
        case $(cat $half.code) in 124* | 137*) scancel --quiet -p "p$number,q$number" --state=pending ;; esac
    done
    touch release.0 release.1
    wait
done
