"""The steps of first.sh, and first.json.  Usage: first.py OUT SECONDS."""

import ctypes
import glob
import json
import os
import re
import shutil
import signal
import sys
import tarfile
import threading
import time

import forms
import slurm
import witnesses
from run import MARK, Run, read, reap

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.path.join(HERE, "bin", "nic-placement")
PLUGIN = os.path.join(HERE, "lib", "libnic_placement.so")
# the places of the driver's files in containers and distributions
PROGRAMS = ("/usr/local/nvidia/bin", "/usr/sbin", "/sbin", "/usr/bin", "/usr/lib/wsl/lib")
LIBRARIES = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib", "/run/opengl-driver/lib")


class First:
    def __init__(self, out, seconds):
        self.run = Run(out, seconds)
        # a signal's handler may save while a save is under way
        self.lock = threading.RLock()
        self.result = {
            "format": "nic-placement first hour",
            "version": 1,
            "complete": False,
            "played": False,
            "seconds": 0,
            "steps": [],
            "could_not": self.run.could_not,
            "machine": {},
            "witnesses": [],
            "driver": {},
            "slurm": {},
            "copies": {},
            "gpudirect": {},
            "differences": [],
            "report": None,
        }
        self.log = open(os.path.join(out, "first.log"), "w")
        self.ways, self.work, self.cluster, self.undo = [], None, None, None
        # of another process's file no old figure may stay
        self.save()

    def say(self, text):
        line = "%6.1f s  %s" % (self.run.seconds(), text)
        print(line, flush=True)
        self.log.write(line + "\n")
        self.log.flush()

    def save(self):
        with self.lock:
            self.result["seconds"] = self.run.seconds()
            path = os.path.join(self.run.out, "first.json")
            with open(path + ".new", "w") as file:
                json.dump(self.result, file, indent=1, default=str)
                file.write("\n")
            os.replace(path + ".new", path)

    def step(self, name, work, needs=5):
        """A step that fails is told, and the next one begins; `needs` is in seconds."""
        begun, ended = self.run.seconds(), "ended"
        self.say(name)
        if self.run.left() < needs:
            ended = "no time was left"
        else:
            try:
                work()
            except Exception as error:
                ended = "%s: %s (line %d)" % (type(error).__name__, error, error.__traceback__.tb_next.tb_lineno)
        if ended != "ended":
            self.run.cannot("%s: %s" % (name, ended))
            self.say("  %s" % ended)
        seconds = round(self.run.seconds() - begun, 1)
        self.result["steps"].append({"step": name, "seconds": seconds, "ended": ended})
        self.save()

    def differ(self, text):
        self.result["differences"].append(text)

    # ---- the machine

    def machine(self):
        run, of = self.run, self.result["machine"]
        # before anything asks the driver: it prints a GPU's UUID once it has started the GPU
        keep_driver_files(run, "before")
        os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), *(path for path in PROGRAMS if os.path.isdir(path))])
        if not loads("libcuda.so.1"):
            for folder in LIBRARIES:
                if os.path.exists(os.path.join(folder, "libcuda.so.1")):
                    own = os.environ.get("LD_LIBRARY_PATH")
                    os.environ["LD_LIBRARY_PATH"] = folder + (os.pathsep + own if own else "")
                    of["libraries"] = folder
                    break
        of["kernel"] = os.uname().release
        found = re.search(r'^PRETTY_NAME="?([^"\n]*)', read("/etc/os-release"), re.M)
        of["system"] = found[1] if found else None
        of["container"] = container()
        of["cpus"] = len(os.sched_getaffinity(0))
        of["numa_nodes"] = len(glob.glob("/sys/devices/system/node/node[0-9]*"))
        of["gpu_files"] = sorted(glob.glob("/dev/nvidia[0-9]*"), key=lambda name: int(re.sub(r"\D", "", name)))
        of["cgroups"] = sorted({line.split(" - ")[1].split()[0] for line in lines("/proc/self/mountinfo") if " - cgroup" in line})
        of["seccomp"] = next((line.split()[1] for line in lines("/proc/self/status") if line.startswith("Seccomp:")), None)
        of["driver"] = first_line("/proc/driver/nvidia/version")
        of["is_root"] = os.geteuid() == 0
        if not of["is_root"]:
            run.cannot("not root: no Slurm, and less of PCI's configuration")
        for name in ("/proc/self/mountinfo", "/proc/self/cgroup", "/proc/self/status", "/proc/cmdline", "/proc/modules"):
            run.write("proc" + name.replace("/proc", "").replace("/", "-"), read(name))
        # another Slurm's, or a launcher's, would be taken for this machine's
        for name in sorted(os.environ):
            if name.startswith(("SLURM", "NIC_PLACEMENT", "CUDA_", "NCCL_", "NVIDIA_", "PMI", "OMPI_")) and name != MARK:
                of.setdefault("variables", {})[name] = forms.scrubbed(os.environ[name])
                if not name.startswith(("NVIDIA_", "NCCL_")):
                    del os.environ[name]
        slurm.own_name(run)
        version = run.do("version", [TOOL, "--version"], 10)
        of["nic_placement"] = version.text.strip().split(" ")[-1] or version.why
        run.do("snapshot", [TOOL, "snapshot"], 40)
        driver = run.do("driver", [sys.executable, "-B", os.path.join(HERE, "driver.py")], 60)
        answer = forms.last_json(driver.text) or {"devices": [], "error": driver.why}
        of["driver_error"] = answer.get("error")
        of["gpus"] = [device.get("name") for device in answer["devices"]]
        self.result["played"] = any("played" in str(name) for name in of["gpus"])
        if not of["gpus"]:
            files = "%d device files" % len(of["gpu_files"]) if of["gpu_files"] else "no device file"
            self.say("  NVIDIA's driver shows no GPU here (%s): %s" % (files, answer.get("error") or "it counts none"))
        else:
            self.say("  %s" % ", ".join(map(str, of["gpus"])))

    # ---- 1: witnesses

    def witnesses(self):
        witnesses.ask(self.run, len(self.result["machine"]["gpus"]))
        node, found = witnesses.compare(self.run, TOOL)
        self.result["witnesses"] = found
        if node is None:
            self.run.cannot("`nic-placement show --json`: %s" % witnesses.why(self.run, "0/node"))
        self.numa(node)
        for one in found:
            for of in one["differences"]:
                self.differ("%(program)s: %(what)s: %(ours)s here, %(theirs)s there" % dict(of, program=one["program"]))

    def numa(self, node):
        """The driver's nearest NUMA node of each GPU (CUDA 12.3 and newer), which is -1 where there is but one."""
        to = witnesses.Comparison("the driver's NUMA node of each GPU")
        answer = forms.last_json(read(self.run.path("driver"))) or {"devices": []}
        for device in answer["devices"] if node else []:
            where = witnesses.address(device["address"])
            ours = node.functions.get(where, {}).get("numa_node")
            if device.get("host_numa_id", -1) >= 0 and ours is not None:
                to.add("NUMA node of %s" % where, int(ours), device["host_numa_id"])
        if not to.compared:
            to.not_tried = "one of the two does not say"
        self.result["witnesses"].append(to.as_json())

    # ---- 2: forms

    def driver(self):
        answers = forms.all_forms(self.run, TOOL, HERE, 110 * self.run.scale)
        for one in answers["forms"]:
            ended = one.pop("probe", None)
            if ended is not None:
                self.ways.append((one["command"], ended, ""))
            for verdict, ours in (("plan_verdict", "plan"), ("exec_verdict", "exec")):
                if one.get(verdict, "agrees") != "agrees":
                    self.differ(
                        "driver: CUDA_VISIBLE_DEVICES=%r CUDA_DEVICE_ORDER=%r: `%s` says %s, the driver %s"
                        % (one["cuda_visible_devices"], one["cuda_device_order"], ours, spoken(one[ours]), spoken(one["driver"]))
                    )
        self.result["driver"] = answers
        if answers["not_tried"]:
            self.say("  not tried: %s" % answers["not_tried"])

    # ---- 3: Slurm

    def slurm(self):
        of = self.result["slurm"]
        self.slurms(of)
        if of.get("not_tried"):
            self.run.cannot("Slurm: %s" % of["not_tried"])

    def slurms(self, of):
        if os.geteuid() != 0:
            of["not_tried"] = "it needs root"
            return
        self.work = self.work or slurm.work_folder(self.run.out)
        if not self.work:
            of["not_tried"] = "no folder here lets programs run"
            return
        cluster = self.cluster = slurm.Slurm(self.run, HERE, self.work)
        if cluster.missing:
            of["not_tried"] = "no %s here" % ", ".join("`%s`" % name for name in cluster.missing)
            return
        self.undo = slurm.second_address(self.run)
        plugin, why = slurm.device_cgroup()
        of["free"] = self.one_slurm("free", False, None)
        if plugin:
            of["constrained"] = self.one_slurm("constrained", True, plugin)
        else:
            of["constrained"] = {"not_tried": why, "steps": []}
            self.run.cannot("ConstrainDevices: %s" % why)

    def one_slurm(self, name, constrain, cgroup):
        gpus, cluster = self.result["machine"]["gpu_files"], self.cluster
        try:
            why = cluster.up(name, PLUGIN, gpus, constrain, cgroup)
            if why and not constrain:
                self.say("  %s: %s; again without task/affinity" % (name, why))
                cluster.down(name)
                again = cluster.up(name + "-simple", PLUGIN, gpus, False, None, simple=True)
                why = again and "%s; without task/affinity: %s" % (why, again)
            self.result["slurm"]["release"] = cluster.release()
            if why:
                self.run.cannot("Slurm (%s): %s" % (name, why))
                return {"not_tried": why, "steps": []}
            steps = slurm.steps(cluster, name, TOOL, HERE, gpus, self.ways)
            for step in steps:
                for task in step["tasks"]:
                    where = "%s: `%s`, task %s" % (name, step["command"], task["local_id"])
                    if task["ours"] is None:
                        self.differ("%s was not placed" % where)
                    elif not task["driver_error"] and forms.judged(task["driver"], task["ours"]) != "agrees":
                        self.differ("%s: we took %s, the driver %s" % (where, spoken(task["ours"]), spoken(task["driver"])))
                    if task["set_cpus"] and task["set_cpus"] != task["cpus"]:
                        self.differ("%s: told of CPUs %s, has %s" % (where, task["set_cpus"], task["cpus"]))
            return {"not_tried": None, "steps": steps}
        finally:
            cluster.down(name)

    # ---- 4: copies, GPUDirect

    def copies(self):
        of = self.result["copies"]
        if not self.result["machine"]["gpus"]:
            of["not_tried"] = "no GPU"
            return
        sides = self.run.do("sides", [TOOL, "trial", "--sides"], 20)
        said = dict(re.findall(r"^([a-z_]+)=([A-Za-z0-9_:,.-]*)$", sides.text, re.M))
        probe = [TOOL, "trial", "--probe", "--copies", "64"]
        env = dict(os.environ, CUDA_VISIBLE_DEVICES="0")
        how = {"near": [TOOL, "exec", "--", *probe], "default": probe}
        if "far_cpus" in said and "far_memory" in said:
            far = [sys.executable, "-B", os.path.join(HERE, "far.py"), said["far_cpus"], said["far_memory"]]
            how["far"] = far + probe
        else:
            of["far_not_tried"] = "one NUMA node, or one socket, with CPUs"
        of["figures"] = {side: {"to_device_mb_s": [], "to_host_mb_s": []} for side in how}
        until = time.monotonic() + min(60 * self.run.scale, self.run.left() - 20)
        # ten have an interval of confidence (docs/measure.md)
        rounds = max(2, round(10 * self.run.scale)) if "far" in how else 3
        for number in range(1, rounds + 1):
            for side, words in how.items():
                if time.monotonic() > until:
                    return
                name = "effect-copies-%s-%d" % (side, number)
                ended = self.run.do(name, words, 30, env)
                one = forms.last_json(ended.text) or {}
                if one.get("copies"):
                    for which, figure in one["copies"].items():
                        of["figures"][side][which].append(figure)
                else:
                    of.setdefault("not_tried", (one.get("notes") or [ended.why or "no figure"])[0])
                    return

    def gpudirect(self):
        of = self.result["gpudirect"]
        check = self.run.do("check", [TOOL, "check", "--json"], 40)
        try:
            findings = json.loads(check.text)["findings"]
        except (ValueError, KeyError):
            findings = []
            of["check_not_tried"] = check.why or "no JSON"
        of["findings"] = [
            {name: one.get(name) for name in ("level", "code", "text")}
            for one in findings
            if one["code"] in ("gpudirect", "iommu", "acs") or one["level"] in ("warn", "fail")
        ]
        keep_driver_files(self.run, "after")
        version, parameters = read("/proc/driver/nvidia/version"), read("/proc/driver/nvidia/params")
        found = re.search(r'^RegistryDwords: "?(.*?)"?$', parameters, re.M)
        of["registry_dwords"] = found[1] if found else None
        # our rule for UCX's `cuda0-mlx5_0:1` (crates/core/src/libraries/ucx.rs)
        of["peer_mapping_override"] = bool(found and "PeerMappingOverride=1;" in found[1])
        of["open_kernel_modules"] = "Open Kernel Module" in version if version else None
        of["modules"] = sorted(
            name
            for name in (os.listdir("/sys/module") if os.path.isdir("/sys/module") else ())
            if name in ("nvidia", "nvidia_peermem", "nv_peer_mem", "nvidia_uvm", "mlx5_core", "ib_uverbs", "efa", "gdrdrv")
        )
        answer = forms.last_json(read(self.run.path("driver"))) or {"devices": []}
        for device in answer["devices"]:
            if "dma_buf" not in device:
                continue
            of.setdefault("dma_buf", {})[device["address"]] = bool(device["dma_buf"])
            of.setdefault("gpu_direct_rdma", {})[device["address"]] = bool(device.get("gpu_direct_rdma"))
            # `check` goes by the kind of modules, since asking the driver opens the device (doctor/gpudirect.rs)
            if of["open_kernel_modules"] is not None and of["open_kernel_modules"] != bool(device["dma_buf"]):
                self.differ(
                    "gpudirect: %s: the driver %s a dma-buf, and its kernel modules are %s"
                    % (
                        device["address"],
                        "offers" if device["dma_buf"] else "offers no",
                        "open ones, of which `check` says that they do" if of["open_kernel_modules"] else "closed",
                    )
                )
        before, after = (read(self.run.path("driver-files-%s" % when)) for when in ("before", "after"))
        of["uuids_known_before"] = len(re.findall("GPU UUID:\\s+GPU-[0-9a-f]{8}-", before))
        of["uuids_known_after"] = len(re.findall("GPU UUID:\\s+GPU-[0-9a-f]{8}-", after))

    # ---- the report

    def report(self):
        """`nic-placement trial` reads the same outputs by our importers, and makes what docs/results holds."""
        run = self.run
        run.write("nodes", "1\n")
        of = self.result["machine"]
        driver = re.search(r"\b(\d{3}\.\d+(\.\d+)?)\b", of["driver"] or "")
        releases = {
            "nic-placement": of["nic_placement"],
            "Linux": of["kernel"],
            "Slurm": self.result["slurm"].get("release"),
            "NVIDIA": driver and driver[1],
        }
        run.write("releases", "".join("%s\t%s\n" % (name, text) for name, text in releases.items() if text))
        for name, why in (("rocm-smi", "no AMD GPU was looked for"), ("nccl", "no dump"), ("0/node", "no picture")):
            if not os.path.exists(run.path(name)) and "/" not in name and not os.path.exists(run.path("0/" + name, "why")):
                run.write("0/" + name, why + "\n", "why")
        # 64 ways at most: equal answers of several spellings add up
        for number, (command, ended, off) in enumerate(merged(self.ways)[:64]):
            name = "way-%d" % number
            run.write(name, command + "\n", "command")
            run.write(name, ended)
            run.write(name + "-without", off)
        for name in ("ib_write_bw", "ucx_perftest", "osu_bw", "all_reduce_perf"):
            run.write("effect-%s-near-1" % name, "one node alone\n", "why")
        made = run.do("trial", [TOOL, "trial", run.out], 40)
        try:
            with open(os.path.join(run.out, "report.json")) as file:
                report = json.load(file)
        except (OSError, ValueError):
            run.cannot("`nic-placement trial`: %s" % (made.err.strip() or made.why))
            return
        self.result["report"] = report
        for one in report["witnesses"]:
            one = dict(one, program="%s, imported" % one["program"])
            self.result["witnesses"].append(one)
            for difference in one["differences"]:
                self.differ("%s: %s" % (one["program"], difference))
        os.remove(os.path.join(run.out, "report.json"))

    # ---- the end

    def finish(self, complete):
        left = self.run.end_all()
        reap()
        if left:
            self.run.cannot("processes that did not end: %s" % ", ".join(map(str, left)))
        if self.work:
            shutil.rmtree(self.work, ignore_errors=True)
        if self.undo:
            self.undo()
        of = self.result
        of["complete"] = complete
        compared = sum(one["compared"] for one in of["witnesses"])
        verdicts = [one.get(name) for one in of["driver"].get("forms", []) for name in ("plan_verdict", "exec_verdict")]
        tasks = [
            task
            for name in ("free", "constrained")
            for step in of["slurm"].get(name, {}).get("steps", [])
            for task in step["tasks"]
            if not task["driver_error"] and task["ours"] is not None
        ]
        of["summary"] = {
            "facts_compared": compared,
            "forms": len([one for one in verdicts if one]),
            "forms_that_agree": verdicts.count("agrees"),
            "tasks": len(tasks),
            "tasks_that_agree": sum(forms.judged(task["driver"], task["ours"]) == "agrees" for task in tasks),
            "differences": len(of["differences"]),
        }
        self.save()
        for one in of["witnesses"]:
            said = "%d facts, %d otherwise" % (one["compared"], len(one["differences"]))
            self.say("%s: %s" % (one["program"], "not tried: %s" % one["not_tried"] if one["not_tried"] else said))
        for what in of["could_not"]:
            self.say("could not: %s" % what)
        for what in of["differences"][:40]:
            self.say("differs: %s" % what)
        if len(of["differences"]) > 40:
            self.say("and %d more differences in first.json" % (len(of["differences"]) - 40))
        numbers = of["summary"]
        self.say(
            "%(facts_compared)d facts of other programs, %(forms_that_agree)d of %(forms)d answers for forms of the variables, "
            "%(tasks_that_agree)d of %(tasks)d tasks; %(differences)d differences" % numbers
        )
        if of["played"]:
            self.say("the driver is played: this is no result")
        if not of["machine"].get("gpus"):
            self.say("the driver shows none of the GPUs" if of["machine"].get("gpu_files") else "there is no GPU here")
        self.say("%s/first.json" % self.run.out)
        self.log.close()
        self.pack()
        if not complete:
            return 1
        if not numbers["forms"] and not numbers["tasks"] or not of["machine"].get("gpus"):
            return 4
        return 3 if of["differences"] else 0

    def pack(self):
        """One file of all raw outputs."""
        path = os.path.join(self.run.out, "raw.tar.gz")
        with tarfile.open(path + ".new", "w:gz") as tar:
            tar.add(self.run.raw, "raw")
        os.replace(path + ".new", path)
        shutil.rmtree(self.run.raw, ignore_errors=True)


def merged(ways):
    """Slurm's ways first, since they are fewer."""
    texts = [(command, text(ended), text(off)) for command, ended, off in ways]
    return sorted(texts, key=lambda way: not way[0].startswith("srun"))


def text(of):
    return of if isinstance(of, str) else of.text


def spoken(addresses):
    return " ".join(addresses) or "none"


def loads(library):
    try:
        ctypes.CDLL(library)
        return True
    except OSError:
        return False


def container():
    if os.path.exists("/.dockerenv"):
        return "docker"
    if os.path.exists("/run/.containerenv"):
        return "podman"
    if "gVisor" in first_line("/proc/version") or os.path.exists("/proc/gvisor"):
        return "gvisor"
    return None


def lines(path):
    return read(path).splitlines()


def first_line(path):
    return (lines(path) or [""])[0]


def keep_driver_files(run, when):
    """The files of NVIDIA's driver below /proc: version, parameters, each GPU, MIG's capabilities."""
    kept = []
    for folder, _, files in os.walk("/proc/driver/nvidia"):
        for name in sorted(files)[:64]:
            path = os.path.join(folder, name)
            # one file that does not end must not be all
            kept.append("==> %s\n%s" % (path, read(path, 65536)))
    run.write("driver-files-%s" % when, "\n".join(kept))


def main():
    out, seconds = os.path.abspath(sys.argv[1]), float(sys.argv[2])
    os.makedirs(out, exist_ok=True)
    shutil.rmtree(os.path.join(out, "raw"), ignore_errors=True)
    first = First(out, seconds)
    done = threading.Lock()

    def at_the_end(*_):
        # once: a second signal, or the watchdog, must not begin it anew
        if done.acquire(blocking=False):
            first.say("cut off")
            try:
                first.finish(False)
            finally:
                os._exit(1)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, at_the_end)
    # a call into the kernel that does not come back holds up one thread alone
    watchdog = threading.Timer(seconds + 5, at_the_end)
    watchdog.daemon = True
    watchdog.start()
    first.step("the machine", first.machine)
    first.step("1: other programs' pictures", first.witnesses)
    first.step("2: the driver's order", first.driver)
    # before the steps that take longest
    first.step("4: GPUDirect", first.gpudirect)
    first.step("3: a private Slurm", first.slurm)
    first.step("4: copies", first.copies)
    first.run.end = first.run.whole
    first.step("the report", first.report, 1)
    done.acquire()
    watchdog.cancel()
    code = first.finish(True)
    sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
