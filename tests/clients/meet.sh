#!/bin/sh
# A task that meets its peer by IP address (by_address.c): the one in n0 listens, the one in n1 connects to ADDRESS and sends
# a message of 1 MiB.
#
#   meet.sh ADDRESS
#
# By environment:
#   CONNECTS_BARE   the one in n1 has none of the plugin's words to UCX, as a client from outside the step has none
#   OTHER_ROOT   a folder with another release of UCX
set -eu
port=$((15000 + SLURM_JOB_ID % 1000))
said=/tmp/met.$port
if [ "$SLURM_NODEID" = 0 ]; then
    chroot "${OTHER_ROOT:-/}" /guest/by_address $port 1048576 > "$said" &
    running=$!
    until grep -q . "$said" 2> /dev/null; do sleep 0.1; done
    # the other may start
    nc -l -p $((port + 1000)) > /dev/null < /dev/null
else
    [ -z "${CONNECTS_BARE:-}" ] || unset UCX_NET_DEVICES UCX_SOCKADDR_TLS_PRIORITY
    until nc n0 $((port + 1000)) < /dev/null > /dev/null 2>&1; do sleep 0.2; done
    chroot "${OTHER_ROOT:-/}" /guest/by_address $port 1048576 "$1" > "$said" &
    running=$!
fi
code=0
wait $running || code=$?
echo "task node=n$SLURM_NODEID local=0 status=$code ucx=${UCX_NET_DEVICES:--} said=$(tr ' \n' '_,' < "$said")"
exit $code
