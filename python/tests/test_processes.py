"""Processes that Python starts, threads that were there before, and what can be had no more."""

import ctypes
import dataclasses
import json
import multiprocessing
import os
import sys
import tempfile
import threading

import pytest

import nic_placement
from conftest import PLACE, TELL
from nic_placement import _late

DGX = {"node": {"machine": "dgx-h100"}}
# GPU k's NIC on a DGX H100
NICS = ["mlx5_{}:1".format(number) for number in (0, 3, 4, 5, 6, 9, 10, 11)]

KEPT = "memory: threads that were started before keep their policy"

WORKER = (
    TELL
    + """
import sys
import torch.distributed as dist
import nic_placement
plan = nic_placement.plan()
said = plan.apply()
dist.init_process_group("gloo")
number = __import__("torch").tensor([dist.get_rank()])
dist.all_reduce(number)
tell([*said, str(dist.get_rank()), str(number.item())])
"""
)

STARTED = (
    TELL
    + """
import multiprocessing, sys
import nic_placement
def work(rank):
    tell([*nic_placement.plan(local_rank=rank, local_size=8).apply(), str(rank)])
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    started = [context.Process(target=work, args=(rank,)) for rank in range(8)]
    [process.start() for process in started]
    [process.join() for process in started]
"""
)

ACTORS = (
    TELL
    + """
import sys
import nic_placement
import ray
@ray.remote(num_cpus=1, num_gpus=1)
class Actor:
    def place(self, rank):
        said = nic_placement.plan(local_rank=rank, local_size=8).apply()
        return told([os.environ["CUDA_VISIBLE_DEVICES"], *said])
ray.init(num_cpus=8, num_gpus=8, include_dashboard=False, _temp_dir=sys.argv[1], _node_ip_address="127.0.0.1")
actors = [Actor.remote() for rank in range(4)]
for line in ray.get([actor.place.remote(rank) for rank, actor in enumerate(actors)]):
    os.write(1, line)
ray.shutdown()
"""
)

TWICE = TELL + "import nic_placement; " + "tell(nic_placement.plan().apply()); " * 2


def check_eight(told):
    """Each has its GPU's NIC, CPUs and memory of its GPU's NUMA node, and one list for all."""
    assert [one["has"]["UCX_NET_DEVICES"].split(",")[0] for one in told] == NICS
    for number, one in enumerate(told):
        near = [*range(0, 56), *range(112, 168)] if number < 4 else [*range(56, 112), *range(168, 224)]
        assert one["cpus"] == near
        assert one["memory"] == [5, 1 if number < 4 else 2]
        assert one["has"]["NCCL_IB_HCA"] == told[0]["has"]["NCCL_IB_HCA"]


def test_torchrun(node, tmp_path):
    pytest.importorskip("torch", reason="no torch for this Python: Debian has it in python3-torch")
    # 1.13 of Debian 12 knows a way to send outputs by its number alone, and not 0, the default, on Python 3.11
    run = "TMPDIR={} {} -m torch.distributed.run --standalone --redirects 2 --tee 2 --nproc_per_node=8 {}/WORKER.py"
    told = node.run(run.format(tmp_path, sys.executable, node.folder), {"WORKER": WORKER})
    told.sort(key=lambda one: int(one["said"][0]))
    assert [one["said"] for one in told] == [[str(rank), "28"] for rank in range(8)]
    check_eight(told)


def test_rays_actors(node):
    """Ray gives each actor one GPU by a list, in a process with many threads.  Four of the eight are started."""
    pytest.importorskip("ray", reason="no ray for this Python")
    # the path of a socket of Ray's has 107 bytes at most
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:
        told = node.run("$ACTORS " + folder, {"ACTORS": ACTORS}, HOME=folder, RAY_USAGE_STATS_ENABLED="0", RAY_AUTH_MODE="disabled")
    told.sort(key=lambda one: int(one["said"][0]))
    assert [one["said"][0] for one in told] == ["0", "1", "2", "3"]
    for gpu, one in enumerate(told):
        assert one["has"]["UCX_NET_DEVICES"].split(",")[0] == NICS[gpu]
        assert one["has"]["NCCL_IB_HCA"] == told[0]["has"]["NCCL_IB_HCA"]
        assert (one["cpus"], one["memory"]) == ([*range(0, 56), *range(112, 168)], [5, 1])
        assert [said.split(":")[:2] for said in one["said"][1:]] == [KEPT.split(":")]


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_multiprocessing(node, method):
    told = node.run("$STARTED " + method, {"STARTED": STARTED})
    told.sort(key=lambda one: int(one["said"][-1]))
    assert [one["said"] for one in told] == [[str(rank)] for rank in range(8)]
    check_eight(told)


def test_a_second_time_changes_nothing(node):
    first, second = node.run("env LOCAL_RANK=5 LOCAL_WORLD_SIZE=8 $TWICE", {"TWICE": TWICE})
    assert first == second
    assert first["has"]["UCX_NET_DEVICES"].startswith(NICS[5])


def test_what_is_placed_stays(node):
    """As a task of a placed step has it, and a program that `exec` became."""
    slurm = "SLURM_LOCALID=2 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=8"
    torchrun = "LOCAL_RANK=2 LOCAL_WORLD_SIZE=8"
    for variables in (slurm, torchrun):
        line = "env {0} $TOOL exec -- $TELL; env {0} $TOOL exec -- $PLACE".format(variables)
        before, after = node.run(line)
        assert before == after


def test_workers_in_one_placed_task_get_a_part_of_it(node):
    """torchrun inside of a task with all GPUs: each worker gets its own NIC, of those that the task has."""
    worker = "env LOCAL_RANK=6 LOCAL_WORLD_SIZE=8 "
    line = "$TOOL exec --exclude mlx5_3 -- sh -c '$TELL; {0} $TOOL exec -- $TELL; {0} $PLACE'".format(worker)
    task, by_exec, worker = node.run(line)
    assert worker == by_exec
    assert "mlx5_11:1" in task["has"]["UCX_NET_DEVICES"]
    assert worker["has"]["UCX_NET_DEVICES"].startswith(NICS[6] + ",eth")
    assert "mlx5_3:" not in worker["has"]["NCCL_IB_HCA"] == task["has"]["NCCL_IB_HCA"]


def placed(**changes):
    """A plan that binds to the last of this process's CPUs."""
    last = max(os.sched_getaffinity(0))
    return dataclasses.replace(nic_placement.plan(**DGX), cpus=str(last), memory="", environment={}, **changes), {last}


def in_child(test):
    """Runs a test in a process of its own, since what it sets would stay."""
    process = multiprocessing.get_context("fork").Process(target=test)
    process.start()
    process.join()
    assert process.exitcode == 0


several = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one CPU")


@several
def test_a_thread_that_was_started_before_is_bound_too():
    def test():
        plan, wanted = placed()
        end, cpus = threading.Event(), []
        thread = threading.Thread(target=lambda: (end.wait(), cpus.append(os.sched_getaffinity(0))))
        thread.start()
        said = plan.apply()
        end.set()
        thread.join()
        assert (said, cpus, os.sched_getaffinity(0)) == ((), [wanted], wanted)

    in_child(test)


@several
def test_a_thread_that_bound_itself_stays_and_is_told():
    def test():
        plan, wanted = placed()
        first = {min(os.sched_getaffinity(0))}
        bound, end, cpus = threading.Event(), threading.Event(), []

        def work():
            os.sched_setaffinity(0, first)
            bound.set()
            end.wait()
            cpus.append(os.sched_getaffinity(0))

        thread = threading.Thread(target=work)
        thread.start()
        bound.wait()
        said = plan.apply()
        end.set()
        thread.join()
        assert said == ("threads that were bound before keep their CPUs: 1",)
        assert (cpus, os.sched_getaffinity(0)) == ([first], wanted)

    in_child(test)


def test_memory_of_threads_is_told():
    def test():
        plan = dataclasses.replace(nic_placement.plan(**DGX), cpus="", memory="0", environment={})
        end = threading.Event()
        thread = threading.Thread(target=end.wait)
        thread.start()
        said = plan.apply()
        end.set()
        # a sandbox may forbid set_mempolicy(2)
        assert len(said) == 1
        assert said[0].startswith((KEPT + ": 1", "memory: NUMA node 0 wanted"))

    in_child(test)


def test_what_cannot_be_had_is_told_and_fails_a_strict_process():
    def test():
        plan, _ = placed()
        absent = dataclasses.replace(plan, cpus="1000")
        assert absent.apply() == ("CPUs 1000 wanted: Invalid argument",)
        with pytest.raises(nic_placement.Failure, match="CPUs 1000 wanted"):
            dataclasses.replace(absent, strict=True).apply()
        lacking = dataclasses.replace(plan, fails=True, shortfalls=("no NIC",), environment={"UCX_NET_DEVICES": "x"})
        with pytest.raises(nic_placement.Failure, match="no NIC"):
            lacking.apply()
        assert "UCX_NET_DEVICES" not in os.environ

    in_child(test)


@pytest.mark.parametrize(
    "maps, opened, late",
    [
        ("/usr/lib/libcuda.so.1", "/dev/nvidia0", True),
        ("/usr/lib/libcuda.so.1", "/dev/null", False),
        ("/usr/lib/libcudart.so.12", "/dev/nvidia0", False),
        ("/usr/lib/libcuda.so.1", "/dev/nvidiactl", False),
    ],
)
def test_cuda_is_initialised_where_its_library_and_a_gpu_are_open(tmp_path, maps, opened, late):
    (tmp_path / "maps").write_text("7f00-7f01 r--p 00000000 00:00 0  {}\n".format(maps))
    (tmp_path / "fd").mkdir()
    (tmp_path / "fd" / "3").symlink_to(opened)
    assert bool(_late(str(tmp_path))) == late


def test_errors_have_the_librarys_words(monkeypatch):
    with pytest.raises(nic_placement.Failure, match="`words`: unknown word `fastest`"):
        nic_placement.plan(words="fastest", **DGX)
    with pytest.raises(nic_placement.Failure, match="no such machine: `nic-placement machines`"):
        nic_placement.plan(node="dgx-h10")
    with pytest.raises(nic_placement.Failure, match="`map`: no format is called so") as failure:
        nic_placement.map("prose", **DGX)
    assert failure.value.status == 2
    monkeypatch.setenv("PATH", "")
    with pytest.raises(nic_placement.Failure, match="not in PATH"):
        nic_placement.verify()


def test_a_library_that_is_not_there_says_what_to_install(monkeypatch):
    monkeypatch.setattr(nic_placement, "_loaded", [])
    monkeypatch.setenv("NIC_PLACEMENT_CORE", "/nowhere.so")
    with pytest.raises(nic_placement.Failure, match="/nowhere.so: .*: install the wheel, or the library's package"):
        nic_placement.plan()


def test_a_map_is_the_commands():
    assert [gpu["nics"][0]["name"] + ":1" for gpu in json.loads(nic_placement.map(**DGX))["gpus"]] == NICS
    assert nic_placement.map("vllm", gpus="0", **DGX).startswith("VLLM_GPU_NIC_PCIE_MAPPING=")


def test_bytes_that_are_no_text_stay_where_they_are(monkeypatch):
    monkeypatch.setenv("ODD", os.fsdecode(b"\xff"))
    assert nic_placement.plan(local_rank=0, local_size=8, **DGX).nics == ("mlx5_0:1",)
