#!/usr/bin/env python3
"""Makes fuzz/corpus and fuzz/dictionaries from the project's own machines, documents and outputs: fuzz/corpus.py TOOL.

TOOL is a built nic-placement.  The same tree gives the same files.  Inputs that fuzzers found are kept beside them, as
corpus/TARGET/found-*.
"""
import io, json, pathlib, re, subprocess, sys, tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS, DICTIONARIES = ROOT / "fuzz/corpus", ROOT / "fuzz/dictionaries"
MACHINES, MODELS = ROOT / "tests/machines", ROOT / "crates/node/src/platform/models"
tool = str(pathlib.Path(sys.argv[1]).resolve())


def run(*arguments):
    return subprocess.run([tool, *arguments], check=True, capture_output=True).stdout


def seed(target, name, content):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def table(text):
    """The rows of a Rust table of options: their names."""
    return re.findall(r'^\s+(?:\w+\()?"([a-z-]+)"', text, re.M)


def dictionary(target, words):
    DICTIONARIES.mkdir(exist_ok=True)
    def escaped(word):
        return "".join(c if " " <= c <= "~" and c not in '"\\' else "".join(f"\\x{b:02x}" for b in c.encode()) for c in word)
    lines = [f'"{escaped(word)}"' for word in dict.fromkeys(words) if word]
    (DICTIONARIES / f"{target}.dict").write_text("\n".join(lines) + "\n")


small = ["dgx-spark", "gh200", "aws-g5"]
options = (ROOT / "crates/core/src/config/options.rs").read_text()
names = table(options) + re.findall(r'name: "([a-z-]+)"', options)
libraries = [word for file in sorted((ROOT / "crates/core/src/libraries").glob("*.rs"))
             for word in re.findall(r'(?:^    word: |const (?:WORD|ONE_EACH|WITH_GPUS): &str = )"([a-z-]+)"', file.read_text(), re.M)]
variables = sorted({name for file in (ROOT / "crates/core/src").rglob("*.rs")
                    for name in re.findall(r'(?<=["\s])[A-Z][A-Z0-9]+_[A-Z0-9_]+(?=["\s])', file.read_text())})
facts = re.findall(r'(?:of_task|of_node|map_file)\(\s*"([a-z_:]+)"', (ROOT / "crates/core/src/libraries/template.rs").read_text())
facts = ["{" + fact + "}" for fact in facts]

# words
transcripts = "\n".join(file.read_text() for file in sorted(MACHINES.rglob("*.transcript")))
said = sorted(set(re.findall(r"--nic-placement=(\S+)|--options? (\S+)", transcripts)))
for nth, line in enumerate(["closest,strict,env=ucx+nccl,no-env=NCCL_*", "off\nobserve\nrail,nics-per-task=2",
                            "spread,bind=core,mem=strict,omp=on,verbose\n(null)\nhelp", "gpu=local-id,env=none,UCX_NET_DEVICES,no-env=none",
                            "numa,dry-run,best-effort\nall,single-numa-node\nmem=prefer,restricted"]):
    seed("words", f"said-{nth}", line)
words = [n + "=" if f'"{n}", "' in options else n for n in names]
dictionary("words", names + [n + "=" for n in names] + libraries + ["auto", "none", "on", "off", "+", ",", "(null)", "core", "numa", "prefer", "strict", "visible", "local-id"] + variables[:20])

# the admin's words
example = (ROOT / "plugstack.conf.example").read_text()
seed("plugstack", "example", "\n".join(re.findall(r"[a-z-]+=[^\s\[\]…]+", example)))
seed("plugstack", "sets", "set=A={nics}\nset=B={map:vllm};C={{x}}\nset=SGLANG_FILE={map_file:sglang}\nset=NCCL_CROSS_NIC=0\nfabric=isolated-rails")
seed("plugstack", "lists", "include=mlx5_?,0000:18:00.0\nexclude=10.1.0.0/16,fe80:0000:0000:0001\nrails=ib*\nlets-through=PHB:85,SYS:0\ncache=0\nrollout=10%,observe")
seed("conf", "example", re.sub(r"(?m)^#(?=[A-Za-z ])", "", (ROOT / "nic-placement.conf.example").read_text()))
seed("conf", "nodes", "default=observe exclude=mlx5_9 # storage\nPartitionName=train,debug default=closest rollout=10% set=A_FILE={map_file:json}\n"
     "NodeName=gpu[001-004] topology=/etc/a.json \\\n    trust-topology\nnodename=gpu002 PARTITIONNAME=train default=off disable\n")
admins = [n + "=" for n in names] + names + facts + ["NodeName=", "PartitionName=", "[001-128]", "\\\n", "#", "gpu001", "train", "/etc/a", "%", "observe", "_FILE=", "*", "?", "{{", "}}", ";"]
for target in ["plugstack", "conf"]:
    dictionary(target, admins + variables[:40])
for nth, text in enumerate(["SITE_NIC={nics}", "A_FILE={map_file:sglang}", "B={map:vllm} {{{rails}}}", "C={gpu}{gpu_address}{numa}{task_id}", "UCX_X={nic}:{port}"]):
    seed("plugstack", f"set-{nth}", f"set={text}\nenv=none+site")

# a task's variables
conf = "NCCL_IB_HCA==mlx5_0:1,mlx5_1\nNCCL_CROSS_NIC=1\0[x]\nUCX_NET_DEVICES=mlx5_0:1,eth0\n ;\0NVSHMEM_HCA_LIST = mlx5_2 # c\0"
route = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\neth0\t00000000\t0101000A\t0003\t0\t0\t100\t00000000\neth0\t0000000A\t00000000\t0001\t0\t0\t100\t000000FF\n"
inet6 = "fe80000000000000025090fffe000001 02 40 20 80     eth0\nfd000000000000000000000000000001 03 40 00 80      ib0\n"
ours = subprocess.run([tool, "plan", "--machine", "dgx-h100", "--gpus-per-task", "1", "--json"], check=True, capture_output=True).stdout
placed = json.loads(ours)["tasks"][0]
entries = placed.get("environment") or placed.get("variables") or []
pairs = [(v["name"], v["value"]) for v in entries if isinstance(v, dict) and v.get("value")] if isinstance(entries, list) else list(entries.items())
seed("environment", "nested", "aaa\n" + "\n".join(f"{n}={v}" for n, v in pairs) + "\nCUDA_VISIBLE_DEVICES=0\n")
seed("environment", "nvidia", "bQb\nCUDA_VISIBLE_DEVICES=0,1\nNCCL_IB_HCA=^mlx5_4\nUCX_TLS=rc,tcp\nUCX_NET_DEVICES=mlx5_0:1\nNCCL_CONF_FILE=/x\nOMP_NUM_THREADS=4\0" + conf + route + "\0" + inet6 + "\0NCCL_IB_HCA=x\n")
seed("environment", "amd", "cAc\nROCR_VISIBLE_DEVICES=GPU-1,0\nHIP_VISIBLE_DEVICES=0\nROCSHMEM_USE_IB_HCA=mlx5_0\nMORI_RDMA_DEVICES=^a\nNIC_PLACEMENT=v1 policy=rail gpus= nics= set:UCX_NET_DEVICES=a%20b\nUCX_NET_DEVICES=a b\0" + conf)
seed("environment", "slurm", "d~d\nSLURM_CPU_BIND_TYPE=mask_cpu:\nSLURM_CPU_BIND_LIST=0xff,0xff00\nSLURMD_TRES_BIND=gpu:per_task:1\nMPICH_OFI_NIC_POLICY=GPU\nSLINGSHOT_DEVICES=cxi0,cxi1\nFI_CXI_DEVICE_NAME=cxi0\n")
seed("environment", "list", "eee\nCUDA_VISIBLE_DEVICES=GPU-abc,MIG-x,3\nCUDA_DEVICE_ORDER=FASTEST_FIRST\nNVSHMEM_HCA_PE_MAPPING=mlx5_0:1:1\nNVSHMEM_ENABLE_NIC_PE_MAPPING=1\nHOME=/root\n\0" + conf + route)
dictionary("environment", [v + "=" for v in variables] + variables + ["mlx5_0:1", "^", "=", "set:", "v1 policy=closest gpus= nics=", "%20", "GPU-", "MIG-", "0x", "all", "none", "rc,", "tcp", "eth0", "\0", "\n", "cxi0", "rdmap0s6-rdm", "[section]", "\nUCX_NET_DEVICES="])

# trees
for nth, text in enumerate(["\x00", "\x01\x04\x00\x10\x05", "\x02\x00\x00\x20\x03", "\x03\x02\x00\x30\x01\x00", "\x44\x05\x00\x01", "\x80\x04\x00\x40\x8f\x06\x01\x01"]):
    seed("sysfs", f"changes-{nth}", text)
ipv6 = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     ib0\n"
information = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t GPU-65b0c0c6-9a0c-4f1b-8a3f-2f0f7f5c9d11\nBus Location: \t 0000:1b:00.0\nDevice Minor: \t 0\n"
seed("tables", "both", route + "\0" + ipv6 + "\0x\0" + "0-71\0" + inet6 + "\0" + information)
seed("tables", "ipv6", "Iface\n\0" + ipv6 + "\0DGXH100\0\0" + inet6)
dictionary("tables", ["eth0", "ib0", "00000000", "0101000A", "FFFFFFFF", "000000FF", "\t", "\n", "\0", "0003", "0200", "Device Minor:", "GPU UUID:", "Model:", "lo", "virtual"])

# descriptions of a node
for model in small + ["frontier"]:
    seed("topology", model, (MODELS / f"{model}.json").read_bytes())
seed("topology", "sample", (ROOT / "crates/topology/src/file/tests/sample.json").read_bytes())
for name in ["backwards", "broken", "unequal"]:
    seed("topology", name, (MACHINES / f"odd/{name}.json").read_bytes())
seed("topology", "lines", (ROOT / "crates/topology/src/file/tests/written.json").read_bytes())
written = (ROOT / "crates/topology/src/file/write.rs").read_text()
fields = re.search(r'ORDER: &str = "([^"]*)"', written)[1].replace("\\", " ").split()
json_words = [f'"{f}"' for f in fields] + ['"format"', '"version"', "null", "true", "0000:00:00.0", "PIX", "PXB", "PHB", "NODE", "SYS", " below ", "; ", "; link ", "; link.max ", "; numa_node ", "active", "down", "InfiniBand", "0-7", "-1", "1e9", "18446744073709551615"]
dictionary("topology", json_words)
for nth, changes in enumerate([b"\x00", b"\x01\x04\x00\x10\x05\x00\x03", b"\x02\x00\x01\x20\x30\x02\xff", b"\x03\x02\x00\x30\x01\x00\x00\x80\x01\x01", b"\x44\x05\x00\x01"]):
    seed("node_file", f"changes-{nth}", changes)
for name in ["dgx-a100-mig", "guest-four-nodes", "dgx-h100-nic-down"]:
    whole = (MACHINES / name / "node.machine").read_bytes()
    if len(whole) < 60000:
        seed("snapshot", name, whole)
seed("snapshot", "small", "# nic-placement machine 1\nproc/driver/nvidia/gpus/0000:1b:00.0/information\n| Model: x\n|\n| Device Minor: 0\nsys/a -> ../proc\nsys/b/\nsys/c =\nsys/d = 1\n")
dictionary("snapshot", ["# nic-placement machine 1\n", " -> ", " = ", "\n| ", "sys/bus/pci/devices/", "sys/class/infiniband/", "sys/devices/", "../", "proc/net/route", "/"])
archive = io.BytesIO()
with tarfile.open(fileobj=archive, mode="w", format=tarfile.USTAR_FORMAT) as tar:
    for path, text in [("./sys/devices/virtual/dmi/id/product_name", b"DGXH100\n"), ("sys/class/infiniband/mlx5_0/ports/1/state", b"4: ACTIVE\n")]:
        entry = tarfile.TarInfo(path)
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))
    link = tarfile.TarInfo("sys/bus/pci/devices/0000:1b:00.0")
    link.type, link.linkname = tarfile.SYMTYPE, "../../../devices/pci0000:15/0000:1b:00.0"
    tar.addfile(link)
seed("archive", "small", archive.getvalue()[:4096])
dictionary("archive", ["ustar\x0000", "ustar  ", "sys/", "proc/", "0000644", "././@LongLink"])

# other programs' files
for path in sorted((ROOT / "crates/formats/src/import/hwloc/tests").glob("version_*.xml")):
    seed("hwloc", path.stem, path.read_bytes())
for name in ["sample", "written"]:
    seed("nccl", name, (ROOT / f"crates/formats/src/import/nccl/tests/{name}.xml").read_bytes())
seed("nccl", "spark", run("import", "--to", "nccl", str(MODELS / "dgx-spark.json")))
xml = [f for file in ["crates/formats/src/import/hwloc", "crates/formats/src/import/nccl"] for f in
       sorted({w for source in (ROOT / file).glob("*.rs") for w in re.findall(r'"([A-Za-z_]{2,30})"', source.read_text())})]
for target in ["hwloc", "nccl"]:
    dictionary(target, xml + ["<object ", "<info ", "/>", "</object>", "=\"", "&#10;", "<!DOCTYPE", "<pci ", "<cpu ", "<nic ", "<gpu ", "<net ", "0000:1b:00.0", "0x000000ff"])
matrix = (MACHINES / "formats/matrix.txt").read_text()
seed("matrix", "formats", matrix)
seed("matrix", "azure", (MACHINES / "azure-nd96isr-h100-v5/topo-m.txt").read_bytes())
seed("matrix", "rocm-smi", (MACHINES / "formats/rocm-smi.txt").read_bytes())
seed("matrix", "amd-smi", '[{"gpu": 0, "bdf": "0000:0c:00.0", "links": [{"gpu": 1, "bdf": "0000:22:00.0", "link_type": "XGMI"}]}, {"gpu": 1, "bdf": "0000:22:00.0", "links": []}]')
dictionary("matrix", ["GPU0", "GPU1", "NIC0", "mlx5_0", "PIX", "PXB", "PHB", "NODE", "SYS", " below ", "; ", "; link ", "; link.max ", "; numa_node ", " X ", "NV18", "CPU Affinity", "NUMA Affinity", "N/A", "\t", "NIC Legend:", "0-55", "Legend:", "PPU0", "ICN2", "LINK TYPE TABLE:", "(Topology) Numa Node: "])
three = (MACHINES / "audit/three.json").read_text()
seed("audit", "three", three[:12000])
seed("audit", "labelled", (MACHINES / "audit/labelled.txt").read_bytes()[:8000])
seed("audit", "small", '{"format":"nic-placement check","version":2,"host":"a"}\n1: {\n2: {"a": 1}\n1: }\n')
dictionary("audit", sorted(set(re.findall(r'"[a-z_]+"', three)))[:120] + ["\n{", "}\n", "0: {", "1: ", "\x1e"])
for nth, text in enumerate(["0-3,5,8191", "0xff,ff000000", "0000:1b:00.0", "10.1.0.0/16", "gpu[001-128,130],login1\ngpu005\ngpu1\n08\n10", "mlx5_*,ib?", "srun\n--het-group=0,2\n:\n--cpu-bind=cores", "cpu:type:x86,ven0000fam0006mod008F:feature:", "0:off;1:closest", "10%,observe"]):
    seed("lists", f"list-{nth}", text)
dictionary("lists", ["0x", "-", ",", "[", "]", "0000:", "/16", "*", "?", "--het-group=", "--cpu-bind=", ":", ";", "%", "fe80:", "8191", "fff"])

for nth, text in enumerate(["0-2,3  ./train %t\n4-7\t'/usr/bin/numactl' -N 0 ./train\n", "# all\n* ./train a b\n", "0 \\\nhwloc-bind a\n1-3 ./train \\\n --long"]):
    seed("ranks", f"file-{nth}", text)
dictionary("ranks", ["numactl", "taskset", "hwloc-bind", "likwid-pin", "\\\n", "'", "#", "*", "0-3", "/usr/bin/", "%t"])

captured = ROOT / "crates/fleet/src/fabric/sources/tests"
for path in sorted(captured.iterdir()):
    if path.suffix in [".txt", ".json"]:
        seed("fabric", path.stem, path.read_bytes())
seed("fabric", "labelled", "n1: " + (captured / "lldpctl-json-one.json").read_text().replace("\n", "\nn1: ") + "\n---\nn2\n---\n{\"lldp\": {}}\n")
dictionary("fabric", ["Switch\t", "Ca\t", "Rt\t", "\"S-", "\"H-", "\"R-", "[1]", "[ext 5]", "(a00000001)", "\t\t# \"", " lid 1 ", "4xHDR", "switchguid=0x", "MF0;", ":MQM9700/U1", "\n{", "\n---\n", "n1: ", "\"lldp\":", "\"local-chassis\":", "\"interface\":", "\"chassis\":", "\"port\":", "\"id\":", "\"name\":", "\"descr\":", "\"value\":", "\"type\":", "\"mac\"", "\"local\"", "\"Bridge\"", "bluefield"])

# a launcher's requests
def request(name, node="dgx-h100", **fields):
    node = {"machine": node} if isinstance(node, str) else {"topology": node}
    seed("request", name, json.dumps({"format": "nic-placement request", "version": 1, "node": node, **fields}))


request("each", gpus_per_task=1, words="closest,bind=core", task=3, environment={"PATH": "/bin", "NCCL_IB_HCA": "mlx5_0", "NIC_PLACEMENT": "v1 policy=rail gpus= nics= set:UCX_NET_DEVICES=a", "UCX_NET_DEVICES": "a"})
request("listed", tasks=[{"gpus": "0-1"}, {"gpus": "7"}, {"gpus": ""}], cpus="0-31,112-127", alone_on_node=True, task=1, **{"as": "lines"})
request("arguments", "mi300x-8", arguments=["set=A={nics}", "set=B_FILE={map_file:json}", "exclude=mlx5_3", "rails=mlx5_*", "env=none+site"], tasks=4, gpus="0-3", cpus_per_task=8, words="rail,verbose")
request("process", local_rank=3, local_size=8, words="rail,strict", environment={"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4", "CUDA_VISIBLE_DEVICES": "0,1,2,5", "NIC_PLACEMENT": "v1 policy=rail gpus=0000:1b:00.0 nics=mlx5_0:1 set:UCX_NET_DEVICES=a"})
request("map", "gh200", map="openmpi", host="gpu001", words="bind=core", gpus="0")
request("sglang", "frontier", map="sglang", words="spread,env=default+cray-mpich+libfabric", gpus_per_task=2, **{"as": "lines"})
request("described", json.loads((MODELS / "dgx-spark.json").read_text()), tasks=2, words="numa,omp=on,mem=strict")
request("refused", "nothing", task=9, words="help", host="-")
asked = (ROOT / "crates/capi/src/request.rs").read_text()
asked = [f'"{name}"' for name in dict.fromkeys(re.findall(r"^    (?:pub\(crate\) )?(\w+):", asked, re.M)) if not name.startswith("_")]
known = sorted(file.stem for file in MODELS.glob("*.json"))
dictionary("request", asked + ['"format": "nic-placement request"', '"version": 1', '"machine"', '"topology"', '"as"', '"lines"', "null", "true", "[]", "{}", "4096", "4294967295", "-1"]
           + known + names + libraries + facts + ["set=", "exclude=", "mlx5_", "0-7", "json", "sglang", "mooncake", "vllm"] + variables[:40] + json_words)
