#!/bin/sh
# Gives the plugin other arguments in plugstack.conf, on both nodes.
#
#   plugstack.sh [ARGUMENT]…
#
# By environment:
#   FABRIC     what the admin says of the fabric, `fabric=routed` unless said: each rail has a network of its own, and the
#              guests' routes lead from each to all
set -- "${FABRIC-fabric=routed}" "$@"
srun -N2 -n2 --ntasks-per-node=1 sh -c "echo 'optional /guest/libnic_placement.so $*' > /etc/slurm/plugstack.conf"
