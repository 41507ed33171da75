#!/bin/sh
# Runs a command, and takes a NIC's link down in n0 while the command's bytes flow.  Status: the command's.
#
# UCX asks the NIC for 7 more tries of what is not answered.  To soft RoCE that says for ever (drivers/infiniband/sw/rxe/rxe_comp.c,
# `retry_cnt != 7`), to other NICs seven times.
#
#   lost.sh RAIL COMMAND…
set -eu
rail=$1
shift
# a UCX without RDMA has none to lose
[ "${OTHER_ROOT:-/}" = / ] || [ -e "$OTHER_ROOT/usr/lib/x86_64-linux-gnu/ucx/libuct_ib.so.0" ] || exit 0
# what leaves before is more than connecting costs
enough=1000000
sent() { cat "/sys/class/net/$rail/statistics/tx_bytes"; }
before=$(sent)
export UCX_RC_RETRY_COUNT=2
timeout 120 "$@" &
step=$!
until [ $(($(sent) - before)) -gt $enough ]; do
    kill -0 $step 2> /dev/null || { echo 'it ended before the link was lost' && exit 1; }
    sleep 0.1
done
ip link set "$rail" down
echo 'the link is down'
code=0
wait $step || code=$?
sh /guest/rails.sh up "$rail"
echo "ended with $code"
exit $code
