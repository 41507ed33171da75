#!/bin/sh
# A task that sends to its peer and is sent the same: the task of the same local id on the other node, by UCX's own test
# program.  Prints which GPU and NIC it has.
#
#   pair.sh [SIZE]      bytes of each message, 262144 unless said; `parts`: as many more as its local id is larger,
#                       so that the bytes of a NIC tell whose they are
#
# By environment:
#   TIMES      how many messages, 3 unless said
#   WAIT_FOR   a file of n0 that must be there before they start
#   ACROSS     the peer is the task of the other local id, of two
#   OTHER_ROOT   a folder with another release of UCX, and then the test program is by_worker.c
#   ENGINE     as LIBRARY of engine.py, which is then the test program
set -eu
gpus=
for file in /dev/nvidia[0-9]*; do
    # no driver is behind it: a device that may be opened answers ENXIO
    if (: < "$file") 2>&1 | grep -q 'No such device or address'; then gpus=$gpus${gpus:+,}${file#/dev/nvidia}; fi
done
size=${1:-262144}
times=${TIMES:-3}
[ "$size" != parts ] || size=$((131072 * (1 + SLURM_LOCALID)))
echo "task node=n$SLURM_NODEID local=$SLURM_LOCALID gpus=$gpus sent=$((times * size)) ucx=${UCX_NET_DEVICES:--}" \
    "cpus=$(sed -n 's/^Cpus_allowed_list:[[:blank:]]*//p' /proc/self/status)"
# the one in n0, whose peer waits for it
[ "$SLURM_NODEID" != 0 ] || until [ -e "${WAIT_FOR:-/}" ]; do sleep 0.1; done
peers=$SLURM_LOCALID
[ -z "${ACROSS:-}" ] || peers=$(((SLURM_LOCALID + SLURM_NODEID) % 2))
port=$((13337 + peers + 16 * (SLURM_JOB_ID % 16)))
peer=
[ "$SLURM_NODEID" = 0 ] || peer=n0
# shellcheck disable=SC2086  # an address or nothing
[ -z "${ENGINE:-}" ] || exec chroot /other/host env LD_LIBRARY_PATH="/engines/$ENGINE" python3 /guest/engine.py "$ENGINE" $port "$size" "$times" $peer
if [ -n "${OTHER_ROOT:-}" ]; then
    # shellcheck disable=SC2086  # the same
    exec chroot "$OTHER_ROOT" /guest/by_worker $port "$size" "$times" $peer
fi
set -- -p $port -t tag_lat -s "$size" -n "$times" -w 0
if [ "$SLURM_NODEID" = 0 ]; then
    exec ucx_perftest "$@" > /dev/null
fi
said=/tmp/perftest.$port
# the server may start later
tries=0
code=0
until ucx_perftest "$@" $peer > "$said" 2>&1 || { code=$? && ! grep -q 'Connection refused' "$said"; } || [ $tries -ge 40 ]; do
    tries=$((tries + 1))
    code=0
    sleep 0.3
done
grep -q '^Final' "$said" || { cat "$said" >&2 && exit $((code ? code : 1)); }
