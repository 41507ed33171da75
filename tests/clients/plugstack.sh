#!/bin/sh
# Gives the plugin other arguments in plugstack.conf, on both nodes.
#
#   plugstack.sh [ARGUMENT]…
srun -N2 -n2 --ntasks-per-node=1 sh -c "echo 'optional /guest/libnic_placement.so $*' > /etc/slurm/plugstack.conf"
