"""NIXL or Mooncake between two tasks: each writes messages into the other's memory, which must arrive whole.

    engine.py LIBRARY PORT BYTES TIMES [HOST]     as by_worker.c; LIBRARY is `nixl` or `mooncake`, in /engines
"""

import ctypes
import os
import pickle
import socket
import sys
import time
import unittest.mock

library, port, size, times, *host = sys.argv[1:]
size, times = int(size), int(times)
out, arrived = (ctypes.create_string_buffer(size) for _ in range(2))
own, others = ctypes.addressof(out), ctypes.addressof(arrived)


def met():
    """A connection to the other, which may start later."""
    if not host:
        with socket.create_server(("", int(port))) as listens:
            return listens.accept()[0]
    for _ in range(600):
        try:
            return socket.create_connection((host[0], int(port)))
        except OSError:
            time.sleep(0.1)
    sys.exit("the other is not there")


def told(said):
    """Tells the other something, and returns what it told."""
    stream.write(pickle.dumps(said))
    stream.flush()
    return pickle.load(stream)


def nixl():
    # asked for tensors alone, and slow to start
    sys.modules["torch"] = unittest.mock.MagicMock()
    from nixl_cu12._api import nixl_agent, nixl_agent_config

    agent = nixl_agent(f"agent {os.environ['SLURM_NODEID']}", nixl_agent_config(backends=["UCX"]))
    agent.register_memory([(at, size, 0, "") for at in (own, others)], "DRAM")
    metadata, there = told((agent.get_agent_metadata(), others))
    other = agent.add_remote_agent(metadata)
    ends = [agent.get_xfer_descs([(at, size, 0)], "DRAM") for at in (own, there)]

    def write():
        handle = agent.initialize_xfer("WRITE", *ends, other)
        state = agent.transfer(handle)
        while state == "PROC":
            state = agent.check_xfer_state(handle)
        agent.release_xfer_handle(handle)
        return state == "DONE"

    return write


def mooncake():
    from mooncake.engine import TransferEngine

    engine, address = TransferEngine(), f"192.168.7.{int(os.environ['SLURM_NODEID']) + 1}"
    if engine.initialize(address, "P2PHANDSHAKE", "rdma", "") or any(engine.register_memory(at, size) for at in (own, others)):
        sys.exit("mooncake did not start")
    there, other = told((others, f"{address}:{engine.get_rpc_port()}"))
    return lambda: engine.transfer_sync_write(other, own, there, size) == 0


sys.path.insert(0, f"/engines/{library}")
stream = met().makefile("rwb")
write = {"nixl": nixl, "mooncake": mooncake}[library]()
for number in range(1, int(times) + 1):
    ctypes.memset(own, number, size)
    told(number)
    if not write():
        sys.exit("not written")
    told(number)
    if arrived.raw != bytes([number]) * size:
        sys.exit("not what was sent")
