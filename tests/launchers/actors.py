"""Ray in each task of a step: eight actors with a GPU each, which run a command, and place themselves before if `--place` is its first word."""

import os
import subprocess
import sys
import tempfile

import ray


@ray.remote(num_cpus=1, num_gpus=1)
class Rank:
    def run(self, command, number):
        if command[0] == "--place":
            import nic_placement

            nic_placement.plan(local_rank=number, local_size=8).apply()
            command = command[1:]
        # Ray deals GPUs out in the order in which actors come up
        environment = dict(os.environ, LOCAL_RANK=os.environ["CUDA_VISIBLE_DEVICES"])
        return subprocess.run(command, stdout=subprocess.PIPE, env=environment).stdout


# the path of a socket of Ray's has 107 bytes at most
with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
    ray.init(num_cpus=8, num_gpus=8, include_dashboard=False, _temp_dir=folder, _node_ip_address="127.0.0.1")
    ranks = [Rank.remote() for _ in range(8)]
    for line in ray.get([rank.run.remote(sys.argv[1:], number) for number, rank in enumerate(ranks)]):
        os.write(1, line)
    ray.shutdown()
