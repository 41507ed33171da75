"""A worker of torchrun's: two steps of training that all workers do together (DDP over gloo), on data that are the same each
time.  Prints what came out, so that two runs can be compared, and what it found set."""
import hashlib
import os

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
# with other numbers of threads, sums are made in another order
torch.set_num_threads(1)
torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.Linear(256, 8)))
descent = torch.optim.SGD(model.parameters(), lr=0.1)
# each worker has its own part of the data
torch.manual_seed(10 + dist.get_rank())
losses = []
for _ in range(2):
    loss = model(torch.randn(16, 256)).square().mean()
    descent.zero_grad()
    loss.backward()
    descent.step()
    losses.append(float(loss).hex())
digest = hashlib.sha256()
for weights in model.parameters():
    digest.update(weights.detach().numpy().tobytes())
found = {name: value for name, value in os.environ.items() if name in ("UCX_NET_DEVICES", "OMP_NUM_THREADS") or "GLOO" in name}
words = {
    "node": "n" + os.environ["SLURM_NODEID"],
    "local": os.environ["SLURM_LOCALID"],
    "losses": ",".join(losses),
    "weights": digest.hexdigest(),
    "cpus": len(os.sched_getaffinity(0)),
    "gloo": ",".join(name for name in found if "GLOO" in name) or "-",
    "omp": found.get("OMP_NUM_THREADS", "-"),
    "ucx": found.get("UCX_NET_DEVICES", "-"),
}
print("task", *(f"{name}={value}" for name, value in words.items()), flush=True)
dist.destroy_process_group()
