"""get_mempolicy(2) and set_mempolicy(2), which the C library has no functions for: the calling thread's memory policy."""

import ctypes
import errno
import os
import platform
from typing import AbstractSet, Optional

# Linux: include/uapi/linux/mempolicy.h
_DEFAULT, _PREFERRED, _BIND, _PREFERRED_MANY = 0, 1, 2, 5
_MODE_FLAGS = 7 << 13
# get and set, by architecture
_CALLS = {"x86_64": (239, 238), "aarch64": (236, 237)}
_WORDS = 16
_Mask = ctypes.c_ulong * (_WORDS + 1)
# the kernel takes the number of bits plus one
_MAX_NODE = ctypes.c_ulong(_WORDS * 64 + 1)

_c_library = ctypes.CDLL(None, use_errno=True)
_c_library.syscall.restype = ctypes.c_long


def taken(in_a_placed_step: bool) -> Optional[str]:
    """Why the policy is not ours to change, if so; a preference of NUMA nodes counts as the placed step's."""
    mode, mask = ctypes.c_int(), _Mask()
    calls = _CALLS.get(platform.machine())
    if calls is None:
        return "the memory policy cannot be read on this architecture"
    number = ctypes.c_long(calls[0])
    if _c_library.syscall(number, ctypes.byref(mode), mask, _MAX_NODE, ctypes.c_void_p(), ctypes.c_ulong()) != 0:
        return "the memory policy cannot be read: " + os.strerror(ctypes.get_errno())
    ours = (_DEFAULT, _PREFERRED, _PREFERRED_MANY) if in_a_placed_step else (_DEFAULT,)
    return None if mode.value & ~_MODE_FLAGS in ours else "a memory policy was set before"


def set_policy(nodes: AbstractSet[int], fence: bool) -> Optional[str]:
    """Prefers these NUMA nodes, or takes memory from them alone; returns why that failed."""
    mask = _Mask()
    for node in nodes:
        mask[node // 64] |= 1 << node % 64
    error = _set(_BIND if fence else _PREFERRED_MANY, mask)
    # Linux before 5.15 prefers one node alone
    if error == errno.EINVAL and not fence and len(nodes) == 1:
        error = _set(_PREFERRED, mask)
    return os.strerror(error) if error else None


def _set(mode: int, mask: "ctypes.Array[ctypes.c_ulong]") -> int:
    calls = _CALLS.get(platform.machine())
    if calls is None:
        return errno.ENOSYS
    done = _c_library.syscall(ctypes.c_long(calls[1]), ctypes.c_long(mode), mask, _MAX_NODE)
    return ctypes.get_errno() if done != 0 else 0
