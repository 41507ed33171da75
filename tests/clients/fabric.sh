#!/bin/sh
# A task that sends to its peer and is sent the same, by libfabric's own test program: three messages of 262144 bytes.
#
#   fabric.sh ARGUMENT…      of fi_pingpong
set -eu
echo "task node=n$SLURM_NODEID local=$SLURM_LOCALID sent=786432 device=${FI_VERBS_DEVICE_NAME:--}"
if [ "$SLURM_NODEID" = 0 ]; then
    exec fi_pingpong "$@" -I 3 -S 262144 > /dev/null
fi
said=/tmp/fabric.$SLURM_JOB_ID
# the server may start later
tries=0
until fi_pingpong "$@" -I 3 -S 262144 n0 > "$said" 2>&1 || grep -q fi_ "$said" || [ $tries -ge 20 ]; do
    tries=$((tries + 1))
    sleep 0.3
done
grep -q '^256k' "$said" || { cat "$said" >&2 && exit 1; }
