#!/bin/sh
# What a rank of Open MPI finds itself with.
echo "rank=$OMPI_COMM_WORLD_RANK nics=${UCX_NET_DEVICES:--} cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)"
