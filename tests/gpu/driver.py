"""Answers of NVIDIA's driver in this process, asked of libcuda.so.1: one line of JSON.

    driver.py                             the devices in the driver's order
    driver.py hold                        the same, and stays until its stdin ends, so that the driver keeps the GPUs ready

The types and numbers are those of cuda.h.
"""

import ctypes
import json
import os
import sys

# stdout has our line alone; a library's words go to stderr
line = os.dup(1)
os.dup2(2, 1)

NO_DEVICE = 100
ATTRIBUTES = {
    "gpu_direct_rdma": 116,
    "dma_buf": 124,
    "host_numa_id": 134,
}


class Failed(Exception):
    pass


def ask():
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"devices": [], "error": "libcuda.so.1: %s" % error}
    answer = {"devices": []}

    def call(name, *arguments):
        try:
            function = getattr(cuda, name)
        except AttributeError:
            raise Failed("no `%s`" % name)
        code = function(*arguments)
        if code:
            raise Failed("`%s` answered %d" % (name, code))

    try:
        number = ctypes.c_int()
        call("cuDriverGetVersion", ctypes.byref(number))
        answer["version"] = number.value
        begun = cuda.cuInit(0)
        answer["init"] = begun
        if begun == NO_DEVICE:
            return answer
        if begun:
            raise Failed("`cuInit` answered %d" % begun)
        call("cuDeviceGetCount", ctypes.byref(number))
        for ordinal in range(min(number.value, 256)):
            device = ctypes.c_int()
            call("cuDeviceGet", ctypes.byref(device), ordinal)
            text = ctypes.create_string_buffer(257)
            call("cuDeviceGetPCIBusId", text, 256, device)
            one = {"address": text.value.decode("latin-1").lower()}
            call("cuDeviceGetName", text, 256, device)
            one["name"] = text.value.decode("latin-1")
            uuid = (ctypes.c_ubyte * 16)()
            # of a MIG instance the first names the GPU, the second the instance
            for name, function in (("uuid", "cuDeviceGetUuid"), ("uuid_v2", "cuDeviceGetUuid_v2")):
                if hasattr(cuda, function) and getattr(cuda, function)(uuid, device) == 0:
                    digits = bytes(uuid).hex()
                    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
                    one[name] = "-".join(parts)
            for name, attribute in ATTRIBUTES.items():
                if hasattr(cuda, "cuDeviceGetAttribute"):
                    if cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, device) == 0:
                        one[name] = number.value
            answer["devices"].append(one)
    except Failed as error:
        answer["error"] = str(error)
        answer["devices"] = []
    return answer


if __name__ == "__main__":
    said = ask()
    said["pid"] = os.getpid()
    names = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "SLURM_LOCALID", "SLURM_STEP_GPUS", "NIC_PLACEMENT")
    said["variables"] = {name: os.environ[name] for name in names if name in os.environ}
    os.write(line, (json.dumps(said) + "\n").encode())
    if sys.argv[1:] == ["hold"]:
        sys.stdin.read()
