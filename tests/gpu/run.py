"""Programs under time limits: each ends, by its number, and so does all that it started.

The raw outputs are laid out as trial.sbatch lays them out, NAME.txt, NAME.err and NAME.why, so that `nic-placement trial` reads
them.
"""

import ctypes
import os
import signal
import subprocess
import time

libc = ctypes.CDLL(None, use_errno=True)
MARK = "NIC_PLACEMENT_FIRST"
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)


class Ended:
    """The outputs of a program: `why` says why there is no output, and is None where there is some."""

    def __init__(self, text, err, code, why):
        self.text, self.err, self.code, self.why = text, err, code, why


class Run:
    def __init__(self, out, seconds):
        self.out, self.raw = out, os.path.join(out, "raw")
        os.makedirs(self.raw, exist_ok=True)
        self.begun = time.monotonic()
        # the last part is the report's
        self.whole, self.end = self.begun + seconds, self.begun + seconds * 0.9
        # the limits below are those of a run of 450 seconds
        self.scale = min(1.0, seconds / 450)
        self.mark = "%d-%d" % (os.getpid(), time.time_ns())
        os.environ[MARK] = self.mark
        # a daemon's orphans become our children, not init's
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.could_not = []

    def seconds(self):
        return round(time.monotonic() - self.begun, 1)

    def left(self):
        return self.end - time.monotonic()

    def cannot(self, what):
        if what not in self.could_not:
            self.could_not.append(what)

    def path(self, name, end="txt"):
        path = os.path.join(self.raw, "%s.%s" % (name, end))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def write(self, name, text, end="txt"):
        with open(self.path(name, end), "w") as file:
            file.write(text)

    def start(self, name, words, env=None):
        """A process in a session of its own, whose outputs are files: a pipe would wait for whatever inherits it."""
        with open(self.path(name), "wb") as out, open(self.path(name, "err"), "wb") as err:
            return subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True, env=env
            )

    def do(self, name, words, seconds, env=None):
        """The program's output; its limit is that of the whole run where less is left."""
        seconds = min(max(seconds * self.scale, 5), self.left())
        program = os.path.basename(words[0])
        if seconds <= 0:
            return self.nothing(name, None, "no time was left for `%s`" % program)
        try:
            process = self.start(name, words, env)
        except OSError as error:
            reason = "no `%s` here" % program if error.errno == 2 else "`%s`: %s" % (program, error.strerror)
            return self.nothing(name, None, reason)
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            end(process)
            return self.nothing(name, process.returncode, "`%s` did not end within %d s" % (program, seconds))
        text = read(self.path(name))
        if not text.strip():
            return self.nothing(name, code, "`%s` ended with %d" % (program, code))
        return Ended(text, read(self.path(name, "err")), code, None)

    def nothing(self, name, code, why):
        self.write(name, why + "\n", "why")
        text, err = read(self.path(name)), read(self.path(name, "err"))
        if not text.strip() and os.path.exists(self.path(name)):
            os.remove(self.path(name))
        return Ended(text, err, code, why)

    def end_all(self):
        """Ends each process that is below this one or carries this run's mark; those that do not go are told."""
        for kill in (signal.SIGTERM, signal.SIGKILL):
            until = time.monotonic() + 2
            sent = set()
            while time.monotonic() < until:
                alive = self.ours()
                if not alive:
                    return []
                # one that heeds the first signal may need its time
                for pid in alive if kill == signal.SIGKILL else alive - sent:
                    signal_one(pid, kill)
                sent |= alive
                reap()
                time.sleep(0.05)
        return sorted(self.ours())

    def ours(self):
        """Processes that are not zombies."""
        parents, marked, own = {}, set(), os.getpid()
        mark = ("%s=%s" % (MARK, self.mark)).encode()
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == own:
                continue
            pid = int(name)
            fields = read("/proc/%d/stat" % pid).rpartition(")")[2].split()
            if not fields or fields[0] in ("Z", "X"):
                continue
            parents[pid] = int(fields[1])
            try:
                with open("/proc/%d/environ" % pid, "rb") as file:
                    if mark in file.read().split(b"\0"):
                        marked.add(pid)
            except OSError:
                pass

        def is_below(pid):
            for _ in range(64):
                pid = parents.get(pid)
                if pid is None or pid == own:
                    return pid == own
            return False

        return {pid for pid in parents if pid in marked or is_below(pid)}


def signal_one(pid, number):
    try:
        os.kill(pid, number)
    except OSError:
        pass


def end(process):
    """Asks, then insists; a process that the kernel does not let go is left behind."""
    for number, seconds in ((signal.SIGTERM, 1), (signal.SIGKILL, 2)):
        try:
            os.killpg(process.pid, number)
        except OSError:
            pass
        try:
            process.wait(seconds)
            break
        except subprocess.TimeoutExpired:
            pass
    try:
        # its children, and those that ignored the first signal
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        pass


def reap():
    """Collects children that daemons left to us; subprocess copes with one of its own that is gone."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except OSError:
        pass


def read(path, most=8 << 20):
    """A file's text; "" where it cannot be read."""
    try:
        # a fifo or a device would wait
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            return file.read(most).decode("utf-8", "replace")
    except OSError:
        return ""
