"""A private Slurm on loopback whose one node is this machine, with its GPUs as gres.

The folder `slurm` beside this file has Debian's binaries and the libraries that they need, also their C library: `place` copies
them to a folder of this run and writes that folder's loader into each program, so that they run on any distribution and nothing
has to be set for the tasks, which are this machine's own programs.  Without that folder, this machine's own Slurm is used.
"""

import ctypes
import fcntl
import glob
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time

import run as limits
from forms import last_json
from witnesses import address

CLONE_NEWNS, CLONE_NEWUTS = 0x00020000, 0x04000000  # unshare(2)
PT_INTERP = 3  # elf(5)


def set_loader(path, loader):
    """Lets the kernel start this 64-bit program by that loader: its name is appended, and the header points there.

    Only the kernel reads the name by its place in the file (binfmt_elf.c); the loader reads its own name in memory, where the
    old one stays.
    """
    with open(path, "r+b") as file:
        head = file.read(64)
        if head[:5] != b"\x7fELF\x02":
            return False
        offset, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
        for number in range(count):
            file.seek(offset + number * size)
            kind = struct.unpack("<I", file.read(4))[0]
            if kind != PT_INTERP:
                continue
            end = file.seek(0, 2)
            name = loader.encode() + b"\0"
            file.write(name)
            # p_offset, then p_vaddr and p_paddr stay, then p_filesz
            file.seek(offset + number * size + 8)
            file.write(struct.pack("<Q", end))
            file.seek(offset + number * size + 32)
            file.write(struct.pack("<Q", len(name)))
            return True
    return False


def work_folder(out):
    """A folder of our own in which programs may run."""
    for parent in ("/tmp", "/var/tmp", "/run", out):
        try:
            folder = tempfile.mkdtemp(prefix="nic-placement-first-", dir=parent)
        except OSError:
            continue
        trial = os.path.join(folder, "true")
        try:
            shutil.copy(os.path.realpath(shutil.which("true")), trial)
            if subprocess.run([trial], timeout=5).returncode == 0:
                os.remove(trial)
                os.chmod(folder, 0o755)
                return folder
        except (OSError, subprocess.SubprocessError, TypeError):
            pass
        shutil.rmtree(folder, ignore_errors=True)
    return None


class Slurm:
    def __init__(self, run, here, work):
        self.run, self.work, self.daemons = run, work, []
        packed = os.path.join(here, "slurm")
        self.names = ("munged", "munge", "slurmctld", "slurmd", "slurmstepd", "srun", "sinfo", "scontrol")
        self.programs, self.plugins = {}, None
        if os.path.isdir(packed):
            place = os.path.join(work, "slurm")
            shutil.copytree(packed, place)
            loader = os.path.join(place, "lib", "ld-linux-x86-64.so.2")
            for name in self.names:
                self.programs[name] = os.path.join(place, "bin", name)
                set_loader(self.programs[name], loader)
            self.plugins = os.path.join(place, "plugins")
        else:
            path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
            for name in self.names:
                if shutil.which(name, path=path):
                    self.programs[name] = shutil.which(name, path=path)
        self.missing = [name for name in self.names if name not in self.programs and name != "slurmstepd"]

    def release(self):
        said = self.run.do("slurm/release", [self.programs["srun"], "--version"], 10, self.env)
        return said.text.strip().split(" ")[-1] or said.why

    def shape(self, simple):
        """slurmd's own words for the CPUs here; a plain number of CPUs where it has none."""
        said = self.run.do("slurm/shape", [self.programs["slurmd"], "-C"], 15)
        words = r"CPUs=\d+( (Boards|SocketsPerBoard|Sockets|CoresPerSocket|ThreadsPerCore)=\d+)*"
        found = not simple and re.search(words, said.text)
        shape = found[0] if found else "CPUs=%d" % len(os.sched_getaffinity(0))
        self.cpus = int(re.match(r"CPUs=(\d+)", shape)[1])
        return shape

    def up(self, name, plugin, gpus, constrain, cgroup, simple=False):
        """None once the node is idle, else the reason."""
        self.dir = os.path.join(self.work, name)
        self.node = "first%d" % os.getpid()
        for folder in ("etc", "log", "state", "spool", "munge"):
            os.makedirs(os.path.join(self.dir, folder), exist_ok=True)
        port, node_port = free_ports()
        host = socket.gethostname().split(".")[0]
        at = lambda *words: os.path.join(self.dir, *words)
        with open(at("munge", "key"), "wb") as key:
            os.fchmod(key.fileno(), 0o600)
            key.write(os.urandom(128))
        lines = [
            "ClusterName=first",
            "SlurmctldHost=%s(127.0.0.1)" % host,
            "SlurmctldPort=%d" % port,
            "SlurmUser=root",
            "SlurmdUser=root",
            # loopback alone, and a munge of our own
            ("" if self.resolves(host) else "#") + "CommunicationParameters=NoInAddrAny,NoCtldInAddrAny",
            "AuthType=auth/munge",
            "CredType=cred/munge",
            "AuthInfo=socket=%s" % at("munge", "socket"),
            "StateSaveLocation=%s" % at("state"),
            "SlurmdSpoolDir=%s" % at("spool"),
            "SlurmctldPidFile=%s" % at("state", "slurmctld.pid"),
            "SlurmdPidFile=%s" % at("state", "slurmd.pid"),
            "SlurmctldLogFile=%s" % at("log", "slurmctld.log"),
            "SlurmdLogFile=%s" % at("log", "slurmd.log"),
            "SlurmdDebug=debug",
            "PlugStackConfig=%s" % at("etc", "plugstack.conf"),
            "SlurmdParameters=config_overrides",
            "ProctrackType=proctrack/%s" % ("cgroup" if constrain else "linuxproc"),
            "TaskPlugin=%s" % ("task/none" if simple else "task/affinity,task/cgroup" if constrain else "task/affinity"),
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core",
            "SchedulerParameters=sched_min_interval=1000,batch_sched_delay=0,bf_interval=1",
            "JobAcctGatherType=jobacct_gather/none",
            "AccountingStorageType=accounting_storage/none",
            "MpiDefault=none",
            "SwitchType=switch/none",
            "ReturnToService=2",
            "KillWait=2",
            "GresTypes=gpu",
            "NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d %s RealMemory=500 Gres=gpu:%d"
            % (self.node, host, node_port, self.shape(simple), len(gpus)),
            "PartitionName=all Nodes=ALL Default=YES MaxTime=5 State=UP",
        ]
        if self.plugins:
            lines.append("PluginDir=%s" % self.plugins)
        write(at("etc", "slurm.conf"), lines)
        write(at("etc", "gres.conf"), ["NodeName=%s Name=gpu File=%s" % (self.node, gpu) for gpu in gpus])
        write(at("etc", "plugstack.conf"), ["optional %s" % plugin])
        # slurmd does not start without any mounted if it has to find out which they are
        cgroups = ["CgroupPlugin=%s" % (cgroup or "cgroup/v1")]
        if constrain:
            cgroups += ["ConstrainDevices=yes", "ConstrainCores=no", "ConstrainRAMSpace=no"]
            if cgroup == "cgroup/v2":
                # without systemd's bus slurmd makes its own cgroup (cgroup.conf(5))
                cgroups += ["IgnoreSystemd=yes", "CgroupAutomount=yes"]
                # systemd would have made this one
                os.makedirs("/sys/fs/cgroup/system.slice", exist_ok=True)
        write(at("etc", "cgroup.conf"), cgroups)
        self.env = dict(os.environ, SLURM_CONF=at("etc", "slurm.conf"))
        for variable in list(self.env):
            if variable.startswith(("SLURM_", "SLURMD_", "NIC_PLACEMENT")) and variable not in ("SLURM_CONF", limits.MARK):
                del self.env[variable]
        # of another release it would be another language
        self.env["LC_ALL"] = "C"
        start = lambda daemon, *words: self.daemons.append(
            (daemon, self.run.start("slurm/%s-%s" % (name, daemon), [self.programs[daemon], *words], self.env))
        )
        start(
            "munged",
            "--foreground",
            "--force",
            "--key-file=" + at("munge", "key"),
            "--socket=" + at("munge", "socket"),
            "--pid-file=" + at("munge", "pid"),
            "--seed-file=" + at("munge", "seed"),
            "--log-file=" + at("log", "munged.log"),
            "--num-threads=2",
        )
        until = time.monotonic() + 5
        while not os.path.exists(at("munge", "socket")) and time.monotonic() < until:
            time.sleep(0.05)
        start("slurmctld", "-D", "-f", at("etc", "slurm.conf"))
        stepd = ["-d", self.programs["slurmstepd"]] if self.plugins else []
        start("slurmd", "-D", "-N", self.node, "-f", at("etc", "slurm.conf"), *stepd)
        until, said = time.monotonic() + 25, None
        while time.monotonic() < until and self.run.left() > 0:
            ended = [daemon for daemon, process in self.daemons if process.poll() is not None]
            if ended:
                return "`%s` ended: %s" % (ended[0], self.last_words(ended[0], name))
            said = self.run.do("slurm/%s-sinfo" % name, [self.programs["sinfo"], "-h", "-N", "-o", "%T %G %E"], 5, self.env)
            if said.text.startswith("idle "):
                return None
            time.sleep(0.2)
        state = (said and said.text.strip()) or "no answer"
        return "the node did not become idle: %s; %s" % (state, self.last_words("slurmd", name))

    def resolves(self, host):
        """An image without /etc/hosts does not know localhost, and Slurm would not listen there."""
        if lookup(host) == {"127.0.0.1"}:
            return True
        self.run.cannot("`%s` is not a name of loopback here: for its seconds Slurm listens at all addresses" % host)
        return False

    def last_words(self, daemon, name):
        log = limits.read(os.path.join(self.dir, "log", daemon + ".log"))
        said = log + limits.read(self.run.path("slurm/%s-%s" % (name, daemon), "err"))
        lines = [line for line in said.splitlines() if re.search("error|fatal", line)] or said.splitlines()
        return " / ".join(lines[-3:])[-400:] or "it said nothing"

    def srun(self, name, words, seconds=40):
        return self.run.do(name, [self.programs["srun"], "--time=2", *words], seconds, self.env)

    def down(self, name):
        """Ends the daemons, then all that their steps left, and keeps their logs."""
        for _, process in reversed(self.daemons):
            limits.end(process)
        self.daemons = []
        left = self.run.end_all()
        if left:
            self.run.cannot("processes that did not end: %s" % ", ".join(map(str, left)))
        for log in glob.glob(os.path.join(self.dir, "log", "*.log")) + glob.glob(os.path.join(self.dir, "etc", "*.conf")):
            shutil.copy(log, self.run.path("slurm/%s-%s" % (name, os.path.basename(log)), "txt"))
        for cgroups in glob.glob("/sys/fs/cgroup/*/*%s*" % self.node):
            for folder, _, _ in os.walk(cgroups, topdown=False):
                try:
                    os.rmdir(folder)
                except OSError:
                    pass


def write(path, lines):
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


def free_ports():
    held = [socket.socket() for _ in range(2)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def own_name(run):
    """A name that resolves to loopback, for this process and those below it: Slurm listens at its host's name."""
    if limits.libc.unshare(CLONE_NEWUTS) != 0 or limits.libc.sethostname(b"localhost", 9) != 0:
        run.cannot("no name of a host of its own (unshare: %s)" % os.strerror(ctypes.get_errno()))


def lookup(host):
    """As 22.05.8 asks: IPv4, and AI_ADDRCONFIG (getaddrinfo(3))."""
    try:
        return {found[4][0] for found in socket.getaddrinfo(host, None, socket.AF_INET, flags=socket.AI_ADDRCONFIG)}
    except OSError:
        return set()


def second_address(run):
    """If 127.0.0.1 is the only address, glibc finds none for AI_ADDRCONFIG, not even that one: loopback gets another for the time.
    Returns the call that undoes it, or None."""
    if lookup("127.0.0.1"):
        return None
    name = b"lo:first"
    # ifreq of netdevice(7); SIOCSIFADDR, SIOCSIFFLAGS
    request = struct.pack("16sHH4s16x", name, socket.AF_INET, 0, socket.inet_aton("127.0.0.2"))

    def undo():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as at:
            fcntl.ioctl(at, 0x8914, struct.pack("16sH22x", name, 0))

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as at:
            fcntl.ioctl(at, 0x8916, request)
        return undo
    except OSError as error:
        run.cannot("loopback has the only address, and can have no second one: %s" % error.strerror)
        return None


def device_cgroup():
    """(Slurm's plugin, None), or (None, the reason why devices cannot be constrained here)."""
    legacy = "/sys/fs/cgroup/devices"
    if os.path.exists(legacy + "/devices.list"):
        return writable(legacy, "cgroup/v1")
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        return writable("/sys/fs/cgroup", "cgroup/v2")
    return None, "no cgroups are mounted here"


def writable(folder, plugin):
    trial = os.path.join(folder, "nic-placement-first-%d" % os.getpid())
    try:
        os.mkdir(trial)
        os.rmdir(trial)
        return plugin, None
    except OSError as error:
        return None, "no cgroup can be made in `%s`: %s" % (folder, error.strerror)


# (name, srun's words, with ConstrainDevices alone); N is the number of GPUs, C that of CPUs
STEPS = [
    ("a GPU for the task", ["-n1", "--gpus-per-task=1"], None),
    ("all GPUs by gres", ["-n1", "--gres=gpu:N"], False),
    ("two tasks that see the same", ["-n2", "--gres=gpu:1", "--overcommit"], False),
    ("a GPU for each task", ["-nN", "--gpus-per-task=1", "--overcommit"], None),
    ("all CPUs, bound near the GPU", ["-n1", "--gpus-per-task=1", "-cC"], False),
    # without a device cgroup it sees all GPUs, of which Slurm gave it none
    ("a task without a GPU", ["-n1"], True),
]


def steps(slurm, name, tool, here, gpus, ways):
    """Each way to start tasks: our report, the driver's answer and the marker in each task."""
    found, driver = [], os.path.join(here, "driver.py")
    # a driver that hangs in each task must not take the time of all that follows
    until = time.monotonic() + 100 * slurm.run.scale
    for number, (of, words, where) in enumerate(STEPS):
        # on a machine without GPUs the last one shows that this Slurm runs
        if gpus and (where not in (None, name == "constrained") or (len(gpus) < 2 and "-nN" in words)):
            continue
        if not gpus and words != ["-n1"]:
            continue
        if time.monotonic() > until:
            slurm.run.cannot("Slurm (%s): `srun %s`: no time was left" % (name, " ".join(words)))
            continue
        asked = "verbose,bind=numa" if "-cC" in words else "verbose"
        counts = {"-nN": "-n%d" % len(gpus), "--gres=gpu:N": "--gres=gpu:%d" % len(gpus), "-cC": "-c%d" % slurm.cpus}
        words = [counts.get(word, word) for word in words]
        task = ["sh", "-c", 'python=$0; "$python" -B "$1"; exec "$2" trial --probe', sys.executable, driver, tool]
        ended = slurm.srun("slurm/%s-%d" % (name, number), ["--nic-placement=" + asked, *words, *task])
        off = None
        if name != "constrained":
            off = slurm.srun("slurm/%s-%d-off" % (name, number), ["--nic-placement=off", *words, *task])
        command = "srun --nic-placement=%s %s" % (asked, " ".join(words))
        one = {"step": of, "command": command, "not_tried": ended.why, "code": ended.code}
        one["report"] = [line for line in ended.err.splitlines() if "nic-placement" in line][:40]
        one["tasks"] = list(tasks(ended.text))
        one["without"] = list(tasks(off.text)) if off else []
        if not one["tasks"] and not ended.why:
            one["not_tried"] = "no task answered"
        if ended.code and ended.err.strip():
            one["said"] = ended.err.strip().splitlines()[-3:]
        ways.append((one["command"] + (" (ConstrainDevices)" if name == "constrained" else ""), ended, off or ""))
        found.append(one)
    return found


def tasks(text):
    """The answers of a step's tasks: the driver by driver.py, and ours by the marker."""
    answers = []
    for line in text.splitlines():
        one = last_json(line)
        if one is not None:
            answers.append(one)
    drivers = [one for one in answers if "devices" in one]
    probes = [one for one in answers if one.get("format") == "nic-placement probe"]
    by_local = {one.get("variables", {}).get("SLURM_LOCALID"): one for one in drivers}
    for probe in probes:
        driver = by_local.get(str(probe.get("local_id"))) or {}
        listed = [address(device["address"]) for device in driver.get("devices", [])]
        taken = probe.get("taken")
        yield {
            "local_id": probe.get("local_id"),
            "driver": listed,
            "driver_error": driver.get("error") or (None if driver else "driver.py gave no line"),
            "ours": taken,
            "nics": probe.get("nics"),
            "cpus": probe.get("cpus"),
            "set_cpus": probe.get("set_cpus"),
            "memory": probe.get("memory"),
            "variables": driver.get("variables"),
        }

