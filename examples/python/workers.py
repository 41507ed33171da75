#!/usr/bin/env python3
"""A worker for each GPU, each placed by the module `nic_placement`: the wheel, `pip install nic_placement-*.whl`.

    python3 examples/python/workers.py                 starts them on this node
    python3 examples/python/workers.py dgx-h100        prints what they would get on a built-in machine
"""

import json
import multiprocessing
import os
import sys

import nic_placement


def work(rank, size):
    # before CUDA, NCCL and UCX start: import torch and the like below
    for line in nic_placement.plan(local_rank=rank, local_size=size).apply():
        print("worker {}: {}".format(rank, line))
    print("worker {}: UCX_NET_DEVICES={}".format(rank, os.environ.get("UCX_NET_DEVICES", "")))


def main(machine=None):
    try:
        size = len(json.loads(nic_placement.map(node=machine))["gpus"])
        plans = [nic_placement.plan(local_rank=rank, local_size=size, node=machine) for rank in range(size)]
    except nic_placement.Failure as failure:
        sys.exit(str(failure))
    for rank, plan in enumerate(plans):
        print("GPU {}  {}".format(rank, " ".join(plan.nics) or "-"))
    if machine is None:
        workers = [multiprocessing.Process(target=work, args=(rank, size)) for rank in range(size)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


if __name__ == "__main__":
    main(*sys.argv[1:2])
