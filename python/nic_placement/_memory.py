"""set_mempolicy(2), which the C library has no function for: the calling thread's memory policy."""

import ctypes
import errno
import os
import platform
from typing import AbstractSet, Optional

# Linux: include/uapi/linux/mempolicy.h
_PREFERRED, _BIND, _PREFERRED_MANY = 1, 2, 5
# set_mempolicy's number, by architecture
_CALLS = {"x86_64": 238, "aarch64": 237}
_WORDS = 16
_Mask = ctypes.c_ulong * (_WORDS + 1)
# the kernel takes the number of bits plus one
_MAX_NODE = ctypes.c_ulong(_WORDS * 64 + 1)

_c_library = ctypes.CDLL(None, use_errno=True)
_c_library.syscall.restype = ctypes.c_long


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
    call = _CALLS.get(platform.machine())
    if call is None:
        return errno.ENOSYS
    done = _c_library.syscall(ctypes.c_long(call), ctypes.c_long(mode), mask, _MAX_NODE)
    return ctypes.get_errno() if done != 0 else 0
