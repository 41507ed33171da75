#!/bin/sh
# Makes the RDMA devices of both nodes say that they are quick (1: 200 Gb/s), or what soft RoCE says of a 1 Gb/s interface (0).
srun -N2 -n2 --ntasks-per-node=1 sh -c "echo $1 > /sys/module/rdma_rxe/parameters/quick"
