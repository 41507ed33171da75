"""`plan().apply()` does what `nic-placement exec` does: variables, CPUs and memory are equal."""

import os

import pytest

EIGHT = "LOCAL_WORLD_SIZE=8"
UUID = "CUDA_VISIBLE_DEVICES=GPU-00000000-0000-0000-0000-000000000006"
SLURM = "SLURM_LOCALID=2 SLURM_PROCID=2 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=8 SLURM_STEP_NUM_TASKS=8"

CASES = [
    "LOCAL_RANK=1 " + EIGHT,
    "LOCAL_RANK=7 " + EIGHT,
    "LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 CUDA_VISIBLE_DEVICES=4,5",
    "LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 CUDA_VISIBLE_DEVICES=5,1",
    "LOCAL_RANK=0 CUDA_VISIBLE_DEVICES=3 " + EIGHT,
    "LOCAL_RANK=0 CUDA_VISIBLE_DEVICES=7,99,1 LOCAL_WORLD_SIZE=2",
    "LOCAL_RANK=6 " + UUID + " " + EIGHT,
    "CUDA_VISIBLE_DEVICES= LOCAL_RANK=2 " + EIGHT,
    "LOCAL_RANK=1 LOCAL_WORLD_SIZE=16",
    "LOCAL_RANK=9 LOCAL_WORLD_SIZE=8",
    "LOCAL_RANK=0 LOCAL_WORLD_SIZE=1",
    "LOCAL_RANK=5",
    "",
    "CUDA_VISIBLE_DEVICES=6",
    "OMPI_COMM_WORLD_LOCAL_RANK=3 OMPI_COMM_WORLD_LOCAL_SIZE=4",
    "FLUX_TASK_LOCAL_ID=3 FLUX_JOB_SIZE=16 FLUX_JOB_NNODES=2",
    "MPI_LOCALRANKID=4 MPI_LOCALNRANKS=8 " + SLURM,
    "RANK=2 LOCAL_RANK=2 " + SLURM,
    SLURM,
    SLURM + " SLURM_CPU_BIND_TYPE=mask_cpu: SLURM_CPU_BIND_LIST=0x3f",
    "UCX_NET_DEVICES=mlx5_7:1 LOCAL_RANK=1 " + EIGHT,
    "UCX_TLS=tcp NCCL_IB_HCA=mlx5_0 LOCAL_RANK=1 " + EIGHT,
    "SLURM_NIC_PLACEMENT=rail,mem=strict,omp=on LOCAL_RANK=1 " + EIGHT,
    "SLURM_NIC_PLACEMENT=bind=core LOCAL_RANK=5 " + EIGHT,
    "SLURM_NIC_PLACEMENT=bind=none,env=ucx LOCAL_RANK=5 " + EIGHT,
    "SLURM_NIC_PLACEMENT=off LOCAL_RANK=1 " + EIGHT,
    "SLURM_NIC_PLACEMENT=bind=numa LOCAL_RANK=5",
    "SLURM_NIC_PLACEMENT=bind=core LOCAL_RANK=5 " + EIGHT + " taskset -c 56-69",
    "LOCAL_RANK=1 " + EIGHT + " taskset -c 14-27",
    "LOCAL_RANK=1 " + EIGHT + " taskset -c 60-67",
]


@pytest.mark.parametrize("case", CASES)
def test_the_same_as_exec(node, case):
    variables, program = (case.split(" taskset", 1) + [None])[:2]
    launched = "env {}{} ".format(variables, " taskset" + program if program else "")
    by_exec, by_plan = node.run("{0} $TOOL exec -- $TELL; {0} $PLACE".format(launched))
    assert by_plan.pop("said") == by_exec.pop("said") == []
    assert by_plan == by_exec


# as root, which plays the node, `plan()` follows no SLURM_CONF: the environment that it is given may be a user's
@pytest.mark.skipif(os.path.exists("/etc/slurm/slurm.conf"), reason="root reads this machine's own slurm.conf first")
def test_the_admins_line_of_plugstack_conf_holds(node):
    (node.folder / "plugstack.conf").write_text("optional nic_placement.so exclude=mlx5_5\n")
    # where a configless slurmd keeps its files, in the node's own namespace of mounts
    sent = "mount -t tmpfs none /run && mkdir -p /run/slurm/conf && cd /run/slurm/conf && : > slurm.conf"
    sent += " && mv {} . && export SLURM_CONF=$PWD/slurm.conf; ".format(node.folder / "plugstack.conf")
    line = "env LOCAL_RANK=3 {0} $TOOL exec -- $TELL; env LOCAL_RANK=3 {0} $PLACE".format(EIGHT)
    by_exec, by_plan = node.run(sent + line)
    assert by_plan.pop("said") == by_exec.pop("said") == []
    assert by_plan == by_exec
    assert "mlx5_5:" not in by_plan["has"]["NCCL_IB_HCA"]
