"""A DGX H100 that is played, as tests/exec does: `/sys`, `/dev` and CPUs are its own (root, a C compiler, util-linux).

NIC_PLACEMENT_TOOL names the tool; `make test-wheel` sets it.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

SOURCE = pathlib.Path(__file__).parents[2]
TOOL = os.environ.get("NIC_PLACEMENT_TOOL", shutil.which("nic-placement") or "")

# what a process has: the variables, the CPUs, the mode of the memory policy and its NUMA nodes
TELL = """
import ctypes, json, os, platform
def told(said=()):
    mode, mask = ctypes.c_int(), (ctypes.c_ulong * 17)()
    number = {"x86_64": 239, "aarch64": 236}[platform.machine()]
    ctypes.CDLL(None).syscall(number, ctypes.byref(mode), mask, ctypes.c_ulong(1025), None, 0)
    ours = ("UCX", "NCCL", "NVSHMEM", "NIC", "OMP")
    has = {name: value for name, value in os.environ.items() if name.split("_")[0] in ours}
    cpus = sorted(os.sched_getaffinity(0))
    line = json.dumps({"has": has, "cpus": cpus, "memory": [mode.value, mask[0]], "said": list(said)})
    return (line + "\\n").encode()
def tell(said=()):
    os.write(1, told(said))
"""
PLACE = "import nic_placement; plan = nic_placement.plan(); tell(plan.apply())"


class Node:
    def __init__(self, folder):
        self.folder = folder
        self.tool = TOOL

    def run(self, line, programs=None, **variables):
        """What the processes of a shell's line told; `$TELL` and `$PLACE` are Python programs."""
        texts = {"TELL": TELL + "tell()", "PLACE": TELL + PLACE, **(programs or {})}
        for name, text in texts.items():
            (self.folder / (name + ".py")).write_text(text)
        # the launcher is this shell, and has the variables of no process
        line = "export LD_PRELOAD={}; {}".format(self.folder / "fakecpu.so", line)
        machine = [SOURCE / "tests/slurm/machine.sh", "enter", self.folder / "node", "no", "sh", "-c", line]
        names = ("PATH", "HOME", "PYTHONPATH", "NIC_PLACEMENT_CORE", "LD_LIBRARY_PATH")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        kept.update({name: "{} {}.py".format(sys.executable, self.folder / name) for name in texts}, TOOL=TOOL, **variables)
        # as root `exec` follows a slurmd of this machine to its plugstack.conf
        kept["SLURM_CONF"] = str(self.folder / "slurm.conf")
        command = ["unshare", "--mount", *map(str, machine)]
        pipe = subprocess.PIPE
        done = subprocess.run(command, env=kept, stdout=pipe, stderr=pipe, timeout=300, universal_newlines=True)
        assert done.returncode == 0, done.stderr
        print(done.stderr)  # which pytest shows of a test that fails
        return [json.loads(told) for told in done.stdout.splitlines() if told.startswith("{")]


@pytest.fixture(scope="session")
def node(tmp_path_factory):
    if not TOOL:
        pytest.skip("no `nic-placement` in PATH")
    if os.geteuid() != 0 or not shutil.which("cc") or not shutil.which("unshare"):
        pytest.skip("a node is played by root, with a C compiler and util-linux")
    folder = tmp_path_factory.mktemp("node")
    made = ["cargo", "run", "-q", "--locked", "-p", "nic-placement-testing", "dgx-h100"]
    text = subprocess.run(made, check=True, cwd=SOURCE, stdout=subprocess.PIPE).stdout
    (folder / "machine").write_bytes(text)
    subprocess.run([TOOL, "snapshot", "--unpack", folder / "machine", folder / "tree"], check=True)
    state = '-DSTATE="{}"'.format(folder / "cpus")
    source = SOURCE / "tests/slurm/fakecpu.c"
    shim = folder / "fakecpu.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", state, "-o", shim, source, "-ldl", "-pthread"], check=True)
    prepare = [SOURCE / "tests/slurm/machine.sh", "prepare", folder / "tree", folder / "node"]
    subprocess.run(prepare, check=True, stdout=subprocess.DEVNULL)
    return Node(folder)
