"""Places a process of Python beside its GPU's RDMA NICs, as `nic-placement exec` places a program.

    import nic_placement

    for line in nic_placement.plan().apply():      # before CUDA, NCCL and UCX start
        print(line)

The library `libnic_placement_core.so.0` decides, as for the Slurm plugin. `apply()` alone changes something.
"""

import ctypes
import dataclasses
import json
import os
import re
import shutil
import subprocess
from typing import Any, Dict, FrozenSet, Iterable, List, Mapping, Optional, Sequence, Set, Tuple, Union

from . import _memory

__all__ = ["Failure", "Plan", "map", "plan", "verify", "version"]

_NAME = "libnic_placement_core.so.0"
_BAD_REQUEST, _NO_ANSWER = 2, 4


class Failure(Exception):
    """Why there is no answer, in the library's words; `status` is one of `enum nic_placement_status` in its header."""

    def __init__(self, why: str, status: int = _NO_ANSWER) -> None:
        super().__init__(why)
        self.status = status


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a process is to have."""

    #: PCI addresses
    gpus: Tuple[str, ...]
    #: RDMA devices and ports, such as `mlx5_0:1`
    nics: Tuple[str, ...]
    #: a list such as `0-55,112-167`
    cpus: str
    #: NUMA nodes as such a list; empty if the memory policy stays
    memory: str
    #: what changes: values, and None for a variable that goes
    environment: Mapping[str, Optional[str]]
    #: why it is so, a line each
    reasons: Tuple[str, ...]
    #: what the process lacks
    shortfalls: Tuple[str, ...] = ()
    #: a strict word was given: `apply()` fails where the placement cannot be had
    strict: bool = False
    #: a strict word fails the process for its shortfalls
    fails: bool = False
    #: memory comes from these NUMA nodes alone, as `mem=strict` asks
    fence: bool = False
    #: the node that `plan()` was given
    node: Any = None

    def __str__(self) -> str:
        """Lines for people: what the process has, what changes, and why."""
        changes = ["unset " + name if value is None else name + "=" + value for name, value in self.environment.items()]
        devices = [" ".join(of) or "none" for of in (self.gpus, self.nics)]
        head = "GPU {}  NIC {}  CPUs {}  memory {}".format(*devices, self.cpus or "unknown", self.memory or "any")
        return "\n".join([head, *("  " + line for line in (*changes, *self.reasons, *self.shortfalls))])

    def apply(self) -> Tuple[str, ...]:
        """Sets variables, CPUs and memory of this process; returns what could not be changed, or not any more."""
        if self.fails:
            raise Failure("; ".join(self.shortfalls))
        _placed_on[:] = [self.node]
        late = _late()
        for name, value in self.environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        failures = _bind(_numbers(self.cpus)) if self.cpus else []
        threads = len(os.listdir("/proc/self/task"))
        if self.memory:
            why = _memory.set_policy(_numbers(self.memory), self.fence)
            if why is not None:
                failures.append("memory: NUMA node {} wanted: {}".format(self.memory, why))
            elif threads > 1:
                late.append("memory: threads that were started before keep their policy: {}".format(threads - 1))
        if self.strict and failures:
            raise Failure("; ".join(failures))
        return tuple(late + failures)


def plan(
    local_rank: Optional[int] = None,
    local_size: Optional[int] = None,
    words: Optional[str] = None,
    arguments: Sequence[str] = (),
    node: Union[None, str, Mapping[str, Any]] = None,
) -> Plan:
    """What this process is to have.

    `local_rank` of `local_size` processes on the node: without them, by the launcher's variables, as `exec` finds them.
    `words` are those of `srun --nic-placement`, and beat SLURM_NIC_PLACEMENT's.
    `arguments` stand for those of the plugin's line in plugstack.conf, which is then not read.
    `node` is another node: a built-in machine's name, or as in the C library's request {"topology": …}. After `apply()` it stays.
    """
    node = _described(node)
    if _placed_on and _placed_on[0] != node:
        raise Failure("this process is placed already, on {}".format(_placed_on[0] or "this node"), _BAD_REQUEST)
    about = {"local_rank": local_rank, "local_size": local_size, "words": words, "arguments": arguments, "node": node}
    answer = json.loads(_ask("process", {"environment": _environment(), **about}))
    return Plan(
        gpus=tuple(answer["gpus"]),
        nics=tuple(answer["nics"]),
        cpus=answer["cpus"],
        memory=answer["mems"],
        environment={**dict.fromkeys(answer["unset"]), **answer["set"]},
        reasons=tuple(answer["reasons"]),
        shortfalls=tuple(answer["shortfalls"]),
        strict=answer["strict"],
        fails=answer["fails"],
        fence=answer["fence"],
        node=node,
    )


def map(format: str = "json", **request: Any) -> str:
    """Which NICs each GPU has, as `nic-placement map --format` prints it; `request` as the library's header says."""
    return _ask("map", {"map": format, "environment": _environment(), **request, "node": _described(request.get("node"))})


def verify() -> Dict[str, Any]:
    """What this process uses against its plan, as `nic-placement verify --json` says; it needs that command."""
    tool = shutil.which("nic-placement")
    if tool is None:
        raise Failure("`verify` needs the command `nic-placement`, which is not in PATH")
    command = [tool, "verify", "--json", "--pid", str(os.getpid())]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
    if not done.stdout:
        raise Failure(done.stderr.strip())
    answer: Dict[str, Any] = json.loads(done.stdout)
    return answer


def version() -> str:
    """The library's version."""
    text: bytes = _library().nic_placement_version()
    return text.decode()


def _described(node: Union[None, str, Mapping[str, Any]]) -> Optional[Mapping[str, Any]]:
    return {"machine": node} if isinstance(node, str) else node


#: the node of the plan that this process carried out
_placed_on: List[Optional[Mapping[str, Any]]] = []

_loaded: List[ctypes.CDLL] = []


def _library() -> ctypes.CDLL:
    """The wheel's own, or the one that `NIC_PLACEMENT_CORE` names, or the one that is installed."""
    if not _loaded:
        own = os.path.join(os.path.dirname(__file__), _NAME)
        path = os.environ.get("NIC_PLACEMENT_CORE") or (own if os.path.exists(own) else _NAME)
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            raise Failure("{}: install the wheel, or the library's package".format(error)) from None
        for name in ("map", "process"):
            call = getattr(library, "nic_placement_" + name)
            # not `c_char_p`: the pointer that is to be freed would be lost
            call.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]
        library.nic_placement_free.argtypes = [ctypes.c_void_p]
        library.nic_placement_free.restype = None
        library.nic_placement_version.restype = ctypes.c_char_p
        _loaded.append(library)
    return _loaded[0]


def _ask(name: str, fields: Mapping[str, Any]) -> str:
    library = _library()
    try:
        request = json.dumps({"format": "nic-placement request", "version": 1, **fields}).encode()
    except TypeError as error:
        raise Failure(str(error), _BAD_REQUEST) from error
    answer = ctypes.c_void_p()
    status = getattr(library, "nic_placement_" + name)(request, len(request), ctypes.byref(answer))
    said = ctypes.string_at(answer).decode() if answer else ""
    library.nic_placement_free(answer)
    if status != 0:
        raise Failure(said, status)
    return said


def _environment() -> Dict[str, str]:
    return {_text(name): _text(value) for name, value in os.environ.items()}


def _text(text: str) -> str:
    """JSON holds no bytes that are not UTF-8; a variable with such a value still counts as set."""
    return os.fsencode(text).decode(errors="replace")


def _numbers(text: str) -> FrozenSet[int]:
    """The numbers of a list such as `0-3,8`."""
    ranges = (part.partition("-") for part in text.split(",") if part)
    return frozenset(number for first, _, last in ranges for number in range(int(first), int(last or first) + 1))


def _list(numbers: Iterable[int]) -> str:
    """As `_numbers` reads it."""
    ranges: List[List[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else "{}-{}".format(first, last) for first, last in ranges)


def _bind(cpus: FrozenSet[int]) -> List[str]:
    """Binds all threads that run where this one does; those that were bound to other CPUs stay there."""
    before = os.sched_getaffinity(0)
    wanted = _list(cpus)
    if cpus == before:
        return []
    kept: Set[int] = set()
    done: Set[int] = set()
    # a thread that is started meanwhile by one that is not bound yet is found by the next look
    while True:
        found = {int(name) for name in os.listdir("/proc/self/task")} - done
        if not found:
            break
        for thread in found:
            done.add(thread)
            try:
                if os.sched_getaffinity(thread) in (before, cpus):
                    os.sched_setaffinity(thread, cpus)
                else:
                    kept.add(thread)
            except ProcessLookupError:
                pass
            except OSError as error:
                return ["CPUs {} wanted: {}".format(wanted, error.strerror)]
    got = os.sched_getaffinity(0)
    failures = [] if got == cpus else ["CPUs {} wanted, {} got".format(wanted, _list(got))]
    if kept:
        failures.append("threads that were bound before keep their CPUs: {}".format(len(kept)))
    return failures


# a runtime of GPUs, its library and its devices: a process has both only once the runtime is initialised
_RUNTIMES = (("CUDA", "/libcuda.so", "/dev/nvidia[0-9]"), ("ROCm", "/libhsa-runtime64.so", "/dev/kfd"))


def _late(process: str = "/proc/self") -> List[str]:
    with open(process + "/maps", errors="replace") as file:
        maps = file.read()
    opened = []
    for name in os.listdir(process + "/fd"):
        try:
            opened.append(os.readlink(os.path.join(process, "fd", name)))
        except OSError:
            pass
    return [
        "{} is initialised: its memory stays where it is, and a library that has started keeps its variables".format(name)
        for name, library, device in _RUNTIMES
        if library in maps and any(re.match(device, path) for path in opened)
    ]
