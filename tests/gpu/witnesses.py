"""Other programs' pictures of the node, each beside ours.

`nic-placement trial` reads the outputs by our importers; the comparisons here read the same outputs without any code of ours,
word for word.  A comparison is {program, not_tried, compared, differences: [{what, ours, theirs}]}.
"""

import json
import os
import re
import sys
import threading
from xml.etree import ElementTree


class Comparison:
    def __init__(self, program):
        self.program, self.compared, self.differences, self.not_tried = program, 0, [], None

    def add(self, what, ours, theirs):
        self.compared += 1
        if ours != theirs:
            self.differences.append({"what": what, "ours": str(ours), "theirs": str(theirs)})

    def as_json(self):
        return {
            "program": self.program,
            "not_tried": self.not_tried,
            "compared": self.compared,
            "differences": self.differences,
        }


def address(text):
    """`00000000:1B:00.0` and `0000:1b:00.0` are one."""
    found = re.fullmatch(r"(?:([0-9a-fA-F]+):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})(?:\.([0-7]))?", text.strip())
    if not found:
        return text.strip().lower()
    numbers = [int(part or "0", 16) for part in found.groups()]
    return "%04x:%02x:%02x.%x" % tuple(numbers)


def cpus(text):
    """The CPUs of `0-3,8`; of anything else, none."""
    found = set()
    for part in re.findall(r"\d+(?:-\d+)?", text or ""):
        first, _, last = part.partition("-")
        found.update(range(int(first), min(int(last or first), 1 << 16) + 1))
    return found


class Node:
    """Ours, from `nic-placement show --json` and the tables of `nic-placement show`."""

    def __init__(self, document, shown):
        self.gpus, self.nics = document["gpus"], document["nics"]
        self.nodes = {node["os_index"]: node for node in document["numa_nodes"]}
        self.functions, self.above = {}, {}
        for line in document["pci"]:
            name, _, rest = line.partition(" below ")
            words = dict(part.strip().split(" ", 1) for part in rest.split(";")[1:] if " " in part.strip())
            self.functions[name], self.above[name] = words, rest.partition(";")[0]
        self.paths = matrix_of_show(shown)

    def cpus_of(self, gpu):
        words = self.functions.get(gpu["address"], {})
        node = self.nodes.get(int(words.get("numa_node", -1)))
        if node is None and len(self.nodes) == 1:
            node = next(iter(self.nodes.values()))
        return cpus(node["cpus"]) if node else None

    def link(self, where):
        """`(32.0, 16)`, or None."""
        words = self.functions.get(where, {})
        found = re.match(r"([0-9.]+) GT/s x(\d+)", words.get("link.max") or words.get("link", ""))
        return (float(found[1]), int(found[2])) if found else None

    def link_with_port(self, where):
        """The lower of a function's and its port's, as in NCCL's dump (src/graph/xml.cc; the newest ask NVML for the present one)."""
        own, port = self.link(where), self.link(self.above.get(where))
        return own and port and (min(own[0], port[0]), min(own[1], port[1]))


def matrix_of_show(text):
    """{(GPU, NIC): word} of the table that `nic-placement show` prints below its tree; no file of a driver tells NVLinks."""
    paths, columns = {}, []
    for line in text.splitlines():
        words = line.split()
        heads = [re.fullmatch(r"GPU(\d+)", word) for word in words]
        if words and all(heads):
            columns = [int(head[1]) for head in heads]
        elif columns and len(words) == len(columns) + 1 and all(re.fullmatch(r"[A-Z?]+\d*|-", word) for word in words[1:]):
            if not re.fullmatch(r"GPU\d+", words[0]):
                paths.update({(gpu, words[0]): word for gpu, word in zip(columns, words[1:])})
        elif columns:
            columns = []
    return paths


def topo(node, text, to):
    """The matrix of `nvidia-smi topo -m`, whose columns are tabs apart; people's copies of it have blanks."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    names = dict(re.findall(r"^\s*(NIC\d+): (\S+)\s*$", text, re.M))
    head = next((line for line in lines if re.match(r"\s*GPU0(\s+(?!X\b)|$)", line)), "")
    columns = head.split("CPU Affinity")[0].split()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line != head and line.split()[:1]}
    rows = {name: cells for name, cells in rows.items() if name in columns}
    to.add("GPUs", len(node.gpus), sum(name.startswith("GPU") for name in rows))
    for index, gpu in enumerate(node.gpus):
        cells = rows.get("GPU%d" % index, [])
        for column, cell in zip(columns, cells):
            nic = names.get(column, column)
            if (index, nic) in node.paths:
                to.add("GPU %d to %s" % (index, nic), node.paths[index, nic], cell)
        near = cells[len(columns)] if "CPU Affinity" in head and len(cells) > len(columns) else ""
        if node.cpus_of(gpu) and cpus(near):
            to.add("CPUs of GPU %d" % index, in_short(node.cpus_of(gpu)), in_short(cpus(near)))


def in_short(numbers):
    """`0-3,8`"""
    parts, numbers = [], sorted(numbers)
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join("%d" % first if first == last else "%d-%d" % (first, last) for first, last in parts)


def smi_list(node, text, to):
    """`nvidia-smi -L`: the order of its numbers, models, UUIDs, MIG instances."""
    found = re.findall(r"^GPU (\d+): (.*) \(UUID: (GPU-[0-9a-fA-F-]+)\)((?:\n  +MIG .*)*)", text, re.M)
    to.add("GPUs", len(node.gpus), len(found))
    for gpu, (number, model, uuid, instances) in zip(node.gpus, found):
        if gpu.get("model"):
            to.add("model of GPU %s" % number, gpu["model"], model.strip())
        if gpu.get("uuid"):
            # the UUIDs stay in raw/
            same = gpu["uuid"].lower() == uuid.lower()
            to.add("UUID of GPU %s" % number, "the same", "the same" if same else "another")
        to.add("MIG instances of GPU %s" % number, gpu.get("mig_instances") or 0, instances.count("MIG "))


def smi_query(node, text, to):
    """`nvidia-smi -q`: minor number, UUID and the link's limits of each address."""
    gpus = {gpu["address"]: gpu for gpu in node.gpus}
    blocks = re.split(r"^GPU ", text, flags=re.M)[1:]
    to.add("GPUs", ",".join(sorted(gpus)), ",".join(sorted(address(block.split("\n")[0]) for block in blocks)))
    speeds = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
    for block in blocks:
        where = address(block.split("\n")[0])
        gpu = gpus.get(where)
        if not gpu:
            continue

        def value(name):
            found = re.search(r"^\s*%s\s*: (.*)$" % name, block, re.M)
            return found[1].strip() if found else None

        if gpu.get("model") and value("Product Name"):
            to.add("%s: model" % where, gpu["model"], value("Product Name"))
        if "minor" in gpu and (value("Minor Number") or "").isdigit():
            to.add("%s: minor number" % where, gpu["minor"], int(value("Minor Number")))
        # `Max` is what GPU and slot can do together; `Device Max`, of newer drivers, is the GPU's own
        link = re.search(r"Device Max\s*: (\d+).*?Link Width\s*\n\s*Max\s*: (\d+)x", block, re.S)
        if link and node.link(where):
            to.add("%s: link" % where, node.link(where), (speeds.get(int(link[1])), int(link[2])))


def lspci(node, text, to):
    """`lspci -Dnnvv`: NVIDIA's GPUs and what their links can."""
    found = {}
    for block in re.split(r"\n\n+", text):
        head = re.match(r"([0-9a-fA-F:.]+) .*?\[(03\d\d)\]: .*?\[10de:([0-9a-f]{4})\]", block)
        if head:
            cap = re.search(r"LnkCap:.*?Speed ([0-9.]+)GT/s.*?Width x(\d+)", block)
            found[address(head[1])] = (head[3], (float(cap[1]), int(cap[2])) if cap else None)
    ours = [gpu["address"] for gpu in node.gpus if gpu["vendor"] == "nvidia"]
    to.add("GPUs", ",".join(sorted(ours)), ",".join(sorted(found)))
    for where in ours:
        if where in found:
            device, link = found[where]
            to.add("%s: device" % where, node.functions.get(where, {}).get("device"), "0x" + device)
            if link and node.link(where):
                to.add("%s: link" % where, node.link(where), link)


def nccl(node, text, to):
    """The dump of NCCL's graph: addresses, links, and the CPUs of each GPU's NUMA node."""
    seen = {}

    def walk(element, affinity):
        if element.tag == "cpu":
            affinity = element.get("affinity")
        if element.tag == "pci" and element.find("gpu") is not None:
            seen[address(element.get("busid", ""))] = (element, affinity)
        for child in element:
            walk(child, affinity)

    walk(ElementTree.fromstring(text), None)
    ours = {gpu["address"]: gpu for gpu in node.gpus}
    # it knows the GPUs of its communicator alone
    for where, (element, affinity) in sorted(seen.items()):
        to.add("GPU at %s" % where, where in ours, True)
        if where not in ours:
            continue
        width, speed = element.get("link_width", ""), re.match(r"[0-9.]+", element.get("link_speed", ""))
        if node.link_with_port(where) and speed and width.isdigit() and int(width) > 0:
            to.add("%s: link" % where, node.link_with_port(where), (float(speed[0]), int(width)))
        if affinity and node.cpus_of(ours[where]):
            bits = int(affinity.replace(",", ""), 16)
            theirs = {bit for bit in range(bits.bit_length()) if bits >> bit & 1}
            to.add("CPUs of %s" % where, in_short(node.cpus_of(ours[where])), in_short(theirs))


TORCH = """
import os, torch, torch.distributed as d
torch.cuda.set_device(0)
d.init_process_group("nccl", init_method="file://" + os.environ["FIRST_STORE"], rank=0, world_size=1)
one = torch.ones(1, device="cuda"); d.all_reduce(one); torch.cuda.synchronize()
print("PyTorch", torch.__version__, "NCCL", ".".join(map(str, torch.cuda.nccl.version())))
for k in range(torch.cuda.device_count()):
    of = torch.cuda.get_device_properties(k)
    print(k, getattr(of, "pci_domain_id", 0), getattr(of, "pci_bus_id", ""), getattr(of, "pci_device_id", ""), of.name)
d.destroy_process_group()
"""

# without PyTorch, and for several GPUs, since a dump has those of its communicator: the library alone, which has CUDA's runtime
ALONE = """
import ctypes, glob, sys
count = int(sys.argv[1])
paths = [p for s in sys.path for p in glob.glob(s + "/nvidia/nccl/lib/libnccl.so.2")] + ["libnccl.so.2"]
nccl = ctypes.CDLL(paths[0])
communicators, version = (ctypes.c_void_p * count)(), ctypes.c_int()
nccl.ncclGetVersion(ctypes.byref(version))
code = nccl.ncclCommInitAll(communicators, count, (ctypes.c_int * count)(*range(count)))
print("NCCL", version.value, "ncclCommInitAll answered", code)
sys.exit(code)
"""


def ask_nccl(run, gpus):
    """Its XML in raw/0/nccl.txt, or in nccl.why the reason why there is none."""
    dump = run.path("0/nccl")
    store = os.path.join(run.raw, "store")
    env = dict(
        os.environ,
        NCCL_TOPO_DUMP_FILE=dump,
        NCCL_DEBUG="INFO",
        NCCL_DEBUG_SUBSYS="INIT,GRAPH,NET",
        # one process and one GPU have nobody to talk to
        NCCL_SOCKET_IFNAME="lo",
        FIRST_STORE=store,
    )
    ended = run.do("0/pytorch", [sys.executable, "-c", TORCH], 120, env)
    if gpus > 1 and os.path.exists(dump):
        os.rename(dump, run.path("0/nccl-pytorch"))
    if not os.path.exists(dump):
        ended = run.do("0/libnccl", [sys.executable, "-c", ALONE, str(max(gpus, 1))], 60, env)
    if not os.path.exists(dump) and os.path.exists(run.path("0/nccl-pytorch")):
        os.rename(run.path("0/nccl-pytorch"), dump)
    if os.path.exists(store):
        os.remove(store)
    if not os.path.exists(dump):
        last = (ended.err.strip().splitlines() or [ended.why or "no dump"])[-1]
        run.write("0/nccl", last[:300] + "\n", "why")


ASKED = [
    ("0/nvidia-smi-topo", ["nvidia-smi", "topo", "-m"], 45),
    ("0/nvidia-smi-q", ["nvidia-smi", "-q"], 45),
    ("0/nvidia-smi-L", ["nvidia-smi", "-L"], 45),
    ("0/nvidia-smi-p2p", ["nvidia-smi", "topo", "-p2p", "r"], 45),
    ("0/nvidia-smi-c2c", ["nvidia-smi", "c2c", "-s"], 45),
    ("0/nvidia-smi-nvlink", ["nvidia-smi", "nvlink", "-s"], 45),
    ("0/lspci", ["lspci", "-Dnnvv"], 15),
    ("0/lspci-tree", ["lspci", "-Dtnn"], 15),
    # without the word it leaves out the CPUs that a container may not use
    ("0/lstopo", ["lstopo-no-graphics", "--disallowed", "--whole-io", "--of", "xml"], 30),
    ("0/rdma-link", ["rdma", "link"], 20),
    ("0/ibdev2netdev", ["ibdev2netdev", "-v"], 20),
    ("lscpu", ["lscpu"], 20),
]

READ = [
    ("nvidia-smi topo -m, word for word", "0/nvidia-smi-topo", topo),
    ("nvidia-smi -L, word for word", "0/nvidia-smi-L", smi_list),
    ("nvidia-smi -q, word for word", "0/nvidia-smi-q", smi_query),
    ("lspci", "0/lspci", lspci),
    ("NCCL's dump, word for word", "0/nccl", nccl),
]


def ask(run, gpus):
    """All at once: a driver answers each by itself, and one that hangs costs the others nothing."""
    threads = [threading.Thread(target=run.do, args=asked) for asked in ASKED]
    threads.append(threading.Thread(target=ask_nccl, args=(run, gpus)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def compare(run, tool):
    """Our picture, and the comparisons that need no code of ours."""
    shown = run.do("0/node", [tool, "show", "--json"], 30)
    table = run.do("show", [tool, "show"], 30, dict(os.environ, COLUMNS="1000"))
    if shown.why:
        return None, []
    node = Node(json.loads(shown.text), table.text)
    all_of = []
    for program, name, read_it in READ:
        to = Comparison(program)
        try:
            with open(run.path(name)) as file:
                read_it(node, file.read(), to)
        except OSError:
            to.not_tried = why(run, name)
        except Exception as error:  # a foreign text may be anything
            to.not_tried = "not understood: %s" % error
        all_of.append(to.as_json())
    return node, all_of


def why(run, name):
    try:
        with open(run.path(name, "why")) as file:
            return file.readline().strip()
    except OSError:
        return "no output"
