#!/bin/sh
# A node's part of a training by torchrun: one worker (step.py), which meets that of the other node by gloo.
#
#   torch.sh [astray]
#
#   astray     from now on the node's own name means 127.0.1.1 there, as Debian writes it into /etc/hosts: gloo takes that address
set -eu
if [ "${1:-}" = astray ]; then
    other=$((1 - SLURM_NODEID))
    printf '%s\n' '127.0.0.1 localhost' "127.0.1.1 n$SLURM_NODEID" "192.168.7.$((other + 1)) n$other" > /other/host/etc/hosts
fi
port=$((20000 + SLURM_JOB_ID % 1000))
# 1.13 of Debian 12 knows a way to send outputs by its number alone, and not 0, the default, on Python 3.11
exec chroot /other/host /usr/bin/torchrun --redirects 2 --tee 2 --nnodes 2 --nproc_per_node 1 --node_rank "$SLURM_NODEID" \
    --master_addr n0 --master_port $port /guest/step.py
