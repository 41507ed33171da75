"""This process among those of its node: its number, how its launcher bound it, the GPUs that it sees.

The rules are those of `nic-placement exec` (crates/tool/src/commands/exec, crates/core/src/gpus).  tests/test_exec.py
compares the two.
"""

import os
import re
from typing import Dict, FrozenSet, Iterable, List, Mapping, NamedTuple, Optional, Tuple

Environment = Mapping[str, str]

# the number on the node, and its counts, in the order in which launchers count: the innermost first
_LAUNCHERS: Tuple[Tuple[str, Tuple[str, ...]], ...] = (
    ("LOCAL_RANK", ("LOCAL_WORLD_SIZE", "LOCAL_SIZE")),
    ("OMPI_COMM_WORLD_LOCAL_RANK", ("OMPI_COMM_WORLD_LOCAL_SIZE",)),
    ("MV2_COMM_WORLD_LOCAL_RANK", ("MV2_COMM_WORLD_LOCAL_SIZE",)),
    ("MPI_LOCALRANKID", ("MPI_LOCALNRANKS",)),
    ("FLUX_TASK_LOCAL_ID", ()),
    ("PALS_LOCAL_RANKID", ("PALS_LOCAL_SIZE",)),
    ("PMI_LOCAL_RANK", ("PMI_LOCAL_SIZE",)),
    ("SLURM_LOCALID", ()),
)
_MPIS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_FLUX, _SLURM = "FLUX_TASK_LOCAL_ID", "SLURM_LOCALID"
_MOST_PROCESSES = 4096


class Rank(NamedTuple):
    """The process's number on its node, and the count where it is known."""

    number: int
    of: Optional[int]
    # the variable of the launcher that gave the number, None without one
    variable: Optional[str]
    by_user: bool


def _number(environment: Environment, name: str) -> Optional[int]:
    text = environment.get(name, "")
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None


def _slurms_count(environment: Environment) -> Optional[int]:
    """`SLURM_STEP_TASKS_PER_NODE`, such as `8(x2),4`, at the place of this node."""
    node = _number(environment, "SLURM_NODEID")
    for entry in re.finditer(r"(\d+)(?:\(x(\d+)\))?(?:,|$)", environment.get("SLURM_STEP_TASKS_PER_NODE", "")):
        if node is None:
            return None
        if node < int(entry[2] or 1):
            return int(entry[1])
        node -= int(entry[2] or 1)
    return None


def _fluxs_count(environment: Environment) -> Optional[int]:
    """An even share: Flux tells no count for the node."""
    tasks, nodes = _number(environment, "FLUX_JOB_SIZE"), _number(environment, "FLUX_JOB_NNODES")
    if not tasks or not nodes or tasks % nodes != 0:
        return None
    return tasks // nodes if (_number(environment, _FLUX) or 0) < tasks // nodes else None


def _count(environment: Environment, launcher: Tuple[str, Tuple[str, ...]]) -> Optional[int]:
    name, counts = launcher
    if name == _FLUX:
        return _fluxs_count(environment)
    if name == _SLURM:
        return _slurms_count(environment)
    return next((count for count in (_number(environment, other) for other in counts) if count), None)


def rank(environment: Environment, local_rank: Optional[int], local_size: Optional[int]) -> Optional[Rank]:
    """By the caller's words, else by the innermost launcher that gives a number; None without one."""
    step = "{}.{}".format(environment.get("SLURM_JOB_ID"), environment.get("SLURM_STEP_ID"))
    given: Dict[str, Tuple[int, Optional[int]]] = {}
    for launcher in _LAUNCHERS:
        name = launcher[0]
        number, count = _number(environment, name), _count(environment, launcher)
        # Slurm's mpi/cray_shasta sets these too
        is_slurms = name in ("PALS_LOCAL_RANKID", "PMI_LOCAL_RANK") and environment.get("PALS_APID") == step
        # it started Flux's brokers, and Flux this process
        started_flux = name in _MPIS and count == 1 and _FLUX in environment and _fluxs_count(environment) != 1
        # a batch script is number 0 of no step
        if number is not None and not is_slurms and not started_flux and (name != _SLURM or count is not None or given):
            given[name] = (number, count)
    innermost = next(iter(given), None)
    own, count = (local_rank, local_size) if innermost is None else given[innermost]
    own = own if local_rank is None else local_rank
    count = local_size or count
    if own is None:
        return None
    # a wrapper repeated the number in another variable, and left the count out
    same = [(name, other[1]) for name, other in given.items() if other[0] == own and other[1] is not None]
    if count is None:
        count = next((other for _, other in same if other and other > max(own, 1)), None)
    if own < 0 or own >= (_MOST_PROCESSES if count is None else count):
        return None
    launchers = [name for name, other in same if other == count and other > 1]
    return Rank(own, count, launchers[-1] if launchers else innermost, local_rank is not None)


class Launcher(NamedTuple):
    """The nearest ancestor that the launcher did not number."""

    name: str
    cpus: FrozenSet[int]
    environment: Tuple[bytes, ...]


def _launcher(environment: Environment, numbered_by: Optional[str]) -> Optional[Launcher]:
    entry = None if numbered_by is None else os.fsencode(numbered_by + "=" + environment[numbered_by])
    process = os.getppid()
    for _ in range(32):
        try:
            with open("/proc/{}/environ".format(process), "rb") as file:
                entries = tuple(file.read().split(b"\0"))
        except OSError:
            entries = ()
        try:
            if entry is None or entry not in entries:
                with open("/proc/{}/comm".format(process)) as file:
                    return Launcher(file.read().strip(), frozenset(os.sched_getaffinity(process)), entries)
            with open("/proc/{}/stat".format(process)) as file:
                process = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            return None
    return None


def binding(environment: Environment, rank: Optional[Rank], cpus: FrozenSet[int]) -> Tuple[Optional[str], bool]:
    """What bound the process among others, if it was bound; and whether its list of GPUs is its own, not its launcher's."""
    if rank is None:
        return None, False
    if rank.variable == _SLURM:
        kind = environment.get("SLURM_CPU_BIND_TYPE", "").strip(":,")
        masks = environment.get("SLURM_CPU_BIND_LIST", "").split(",")
        if kind == "mask_cpu":
            bound = any(frozenset(_bits(int(mask, 16))) != cpus for mask in masks if mask)
        else:
            bound = kind not in ("", "none")
        return ("Slurm bound it" if bound else None), True
    launcher = _launcher(environment, rank.variable)
    if launcher is None:
        return (None if cpus >= _online() else "its launcher is not to be seen, and may have bound it"), False
    lists = [os.fsencode(name + "=" + environment[name]) for name in _LISTS if name in environment]
    own_list = bool(launcher.environment) and any(entry not in launcher.environment for entry in lists)
    return (None if launcher.cpus == cpus else "`{}` bound it".format(launcher.name)), own_list


def _bits(mask: int) -> Iterable[int]:
    return (bit for bit in range(mask.bit_length()) if mask >> bit & 1)


def _online() -> FrozenSet[int]:
    return cpu_set(_text("/sys/devices/system/cpu/online") or "")


def _text(path: str) -> Optional[str]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def cpus_of(nodes: Iterable[int]) -> FrozenSet[int]:
    """The CPUs of these NUMA nodes."""
    lists = (_text("/sys/devices/system/node/node{}/cpulist".format(node)) for node in nodes)
    return cpu_set(",".join(filter(None, lists)))


def cpu_set(text: str) -> FrozenSet[int]:
    """The numbers of a list such as `0-3,8`."""
    ranges = (part.partition("-") for part in text.split(",") if part)
    return frozenset(cpu for first, _, last in ranges for cpu in range(int(first), int(last or first) + 1))


def cpu_list(cpus: Iterable[int]) -> str:
    """As `cpu_set` reads it."""
    ranges: List[List[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else "{}-{}".format(first, last) for first, last in ranges)


_LISTS = ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
_NVIDIA, _AMD = "0x10de", "0x1002"


class Gpu(NamedTuple):
    """A GPU of the node; its vendor and device are the numbers of PCI's list."""

    address: str
    uuid: str
    vendor: str
    device: str

    @classmethod
    def of(cls, gpu: Mapping[str, str]) -> "Gpu":
        files = ("/sys/bus/pci/devices/{}/{}".format(gpu["address"], name) for name in ("vendor", "device"))
        vendor, device = map(_text, files)
        return cls(gpu["address"], gpu.get("uuid") or "", vendor or _NVIDIA, device or "")

    def is_accessible(self) -> bool:
        """As a container's or a job's device cgroup says; a device file that is not known forbids nothing."""
        information = _text("/proc/driver/nvidia/gpus/{}/information".format(self.address))
        minor = re.search(r"^Device Minor:\s*(\d+)", information or "", re.MULTILINE)
        return minor is None or os.access("/dev/nvidia" + minor[1], os.R_OK | os.W_OK)


def seen(gpus: List[Gpu], environment: Environment) -> Optional[List[Gpu]]:
    """The GPUs that the vendor's runtime shows, in its order; None where that is not known, as with parts of GPUs."""
    if len({gpu.vendor for gpu in gpus}) > 1:
        return None
    visible: Optional[List[Gpu]] = [gpu for gpu in gpus if gpu.is_accessible()]
    vendor = gpus[0].vendor if gpus else _NVIDIA
    if vendor == _NVIDIA:
        lists = [environment.get("CUDA_VISIBLE_DEVICES")]
    elif vendor == _AMD:
        of_hip = environment.get("HIP_VISIBLE_DEVICES", environment.get("CUDA_VISIBLE_DEVICES"))
        lists = [environment.get("ROCR_VISIBLE_DEVICES"), of_hip]
    else:
        return None if environment.get("ZE_AFFINITY_MASK") else visible
    for text in lists:
        if text is not None and visible is not None:
            visible = _chosen(visible, text)
    return visible


def _chosen(gpus: List[Gpu], text: str) -> Optional[List[Gpu]]:
    """CUDA's rule: what follows an entry without a GPU does not count."""
    chosen: List[Gpu] = []
    for entry in text.split(","):
        entry = entry.strip()
        if entry.startswith("MIG-"):
            return None
        if entry.isdigit():
            named = gpus[int(entry) : int(entry) + 1]
        else:
            named = [gpu for gpu in gpus if entry.startswith("GPU-") and gpu.uuid.startswith(entry)]
        if len(named) != 1:
            break
        chosen += named
    return chosen if len(set(chosen)) == len(chosen) else None


def shares(
    gpus: List[Gpu], seen: List[Gpu], rank: Optional[Rank], own_list: bool, environment: Environment
) -> Tuple[List[List[Gpu]], Optional[str]]:
    """The GPUs of each process of the node, by their numbers; and why a number chose none, if so."""
    if rank is None:
        return [seen], None
    count = rank.of or rank.number + 1
    if len(seen) < 2:
        others = [[gpu] for gpu in gpus if gpu not in seen]
        # as many processes as GPUs have one each; which GPUs fewer have is not known
        if not seen or not own_list or count != len(gpus):
            return [seen] * count, None
        return (others[: rank.number] + [seen] + others[rank.number :])[:count], None
    # all processes but the only one take the GPU at the place of their number
    if count == 1 and rank.of == 1 and not rank.by_user:
        return [seen], None
    vendor = seen[0].vendor
    differ = len({gpu.device for gpu in seen}) > 1 and environment.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"
    if count > len(seen):
        why = "{} processes share the {} GPUs that they see".format(count, len(seen))
    elif vendor == _NVIDIA and differ:
        why = "its GPUs differ, and `CUDA_DEVICE_ORDER` is not `PCI_BUS_ID`"
    elif vendor not in (_NVIDIA, _AMD):
        why = "a number may mean a stack of its GPUs"
    else:
        return [[gpu] for gpu in seen[:count]], None
    return [seen] * count, why + ": which of them it will use is not known, so it gets the NICs of all"
