"""All calls of the C interface by ctypes, for the tests."""

import ctypes
import json
import os


class Failure(Exception):
    """A call without an answer; `status` is one of `enum nic_placement_status`."""

    def __init__(self, status, why):
        super().__init__(why)
        self.status = status


class NicPlacement:
    """The library; one object serves all threads."""

    def __init__(self, library=os.environ.get("NIC_PLACEMENT_CORE", "libnic_placement_core.so.0")):
        self._library = ctypes.CDLL(library)
        # a plain `c_char_p` would be turned into bytes, and the pointer that is to be freed lost
        for name in ("plan", "map", "task", "render"):
            call = getattr(self._library, "nic_placement_" + name)
            call.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)]
            call.restype = ctypes.c_int
        self._library.nic_placement_free.argtypes = [ctypes.c_void_p]
        self._library.nic_placement_free.restype = None
        self._library.nic_placement_version.argtypes = []
        self._library.nic_placement_version.restype = ctypes.c_char_p

    def version(self):
        return self._library.nic_placement_version().decode()

    def ask(self, name, **fields):
        """The text that a call answers to a request with these fields."""
        request = {"format": "nic-placement request", "version": 1, **fields}
        text = json.dumps(request).encode()
        answer = ctypes.c_void_p()
        status = getattr(self._library, "nic_placement_" + name)(text, len(text), ctypes.byref(answer))
        try:
            said = ctypes.string_at(answer).decode() if answer else ""
        finally:
            self._library.nic_placement_free(answer)
        if status != 0:
            raise Failure(status, said)
        return said

    def plan(self, **fields):
        return json.loads(self.ask("plan", **fields))

    def map(self, format="json", **fields):
        return self.ask("map", map=format, **fields)

    def task(self, **fields):
        return json.loads(self.ask("task", **fields))

    def environment(self, present=os.environ, **fields):
        """What a process's environment becomes; `present` is what it would have without us."""
        answer = json.loads(self.ask("render", environment=dict(present), **fields))
        gone = set(answer["unset"])
        return {name: value for name, value in present.items() if name not in gone} | answer["set"]
