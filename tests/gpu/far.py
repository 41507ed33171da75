"""Becomes a program on these CPUs, with its memory from these NUMA nodes alone: far.py CPUS NODES PROGRAM…"""

import ctypes
import os
import sys

from witnesses import cpus

SET_MEMPOLICY, BIND = 238, 2  # x86_64's number; set_mempolicy(2)

os.sched_setaffinity(0, cpus(sys.argv[1]))
mask = sum(1 << node for node in cpus(sys.argv[2]))
words = (ctypes.c_ulong * 17)(*((mask >> 64 * word) & (1 << 64) - 1 for word in range(16)))
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
if libc.syscall(ctypes.c_long(SET_MEMPOLICY), ctypes.c_long(BIND), words, ctypes.c_ulong(1024)):
    sys.exit("far.py: set_mempolicy: %s" % os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[3], sys.argv[3:])
