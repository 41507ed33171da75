"""The driver's devices under each form of CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER, beside those that we take for them.

The driver is asked in a fresh process for each form (driver.py).  We are asked twice: `plan --variable` decides without the
machine's device files, and `exec` for a process that has this environment.
"""

import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from witnesses import address

ORDERS = (None, "PCI_BUS_ID", "FASTEST_FIRST")


def forms(devices, instances):
    """(form, text) for the driver's own devices; the forms are those of docs/user-guide.md and of the CUDA programming guide."""
    uuids = [device.get("uuid") or device.get("uuid_v2") for device in devices]
    uuids = [uuid for uuid in uuids if uuid]
    count = len(devices)
    last = count - 1
    found = [
        ("unset", None),
        ("empty", ""),
        ("index", "0"),
        ("last index", str(last)),
        ("all indices", ",".join(map(str, range(count)))),
        ("reversed indices", ",".join(map(str, reversed(range(count))))),
        ("twice the same", "0,0"),
        ("ends at an unknown index", "0,%d,%s" % (count, last)),
        ("begins with an unknown index", "%d,0" % count),
        ("ends at -1", "0,-1,%d" % last),
        ("begins with -1", "-1,0"),
        ("with spaces", " 0 , %d" % last),
        ("with a leading zero", "00"),
        ("with a plus", "+0"),
        ("hexadecimal", "0x0"),
        ("ends at a word", "0,none"),
        ("digits and letters", "0abc"),
        ("a word", "NoDevFiles"),
        ("empty entry", "0,,%d" % last),
        ("ends with a comma", "0,"),
    ]
    if uuids:
        first = uuids[0]
        # as few digits as tell it from the others, and eight
        short = next(
            (first[:digits] for digits in range(1, 37) if sum(one.startswith(first[:digits]) for one in uuids) == 1), first
        )
        found += [
            ("UUID", "GPU-" + first),
            ("upper-case UUID", "GPU-" + first.upper()),
            ("lower-case word", "gpu-" + first),
            ("short UUID", "GPU-" + first[:8]),
            ("shortest UUID", "GPU-" + short),
            ("UUID without digits", "GPU-"),
            ("UUID without its word", first),
            ("all UUIDs, reversed", ",".join("GPU-" + uuid for uuid in reversed(uuids))),
            ("UUID, then an unknown one", "GPU-%s,GPU-ffffffff-ffff-ffff-ffff-ffffffffffff,GPU-%s" % (first, uuids[-1])),
            ("an unknown UUID", "GPU-ffffffff-ffff-ffff-ffff-ffffffffffff"),
            ("UUID and index", "GPU-%s,%d" % (first, last)),
            ("index and UUID", "0,GPU-%s" % uuids[-1]),
            ("twice the same UUID", "GPU-%s,GPU-%s" % (first, first)),
            ("MIG of a GPU without instances", "MIG-GPU-%s/0/0" % first),
            ("an unknown MIG instance", "MIG-ffffffff-ffff-ffff-ffff-ffffffffffff"),
        ]
    for number, instance in enumerate(instances[:3]):
        found.append(("MIG instance %d" % number, instance))
        found.append(("short MIG instance %d" % number, instance[: len("MIG-") + 8]))
    if len(instances) > 1:
        found.append(("two MIG instances", ",".join(instances[:2])))
    return found


COUNTED = ("unset", "index", "last index", "all indices", "reversed indices", "ends at an unknown index", "index and UUID")


def cases(devices, instances):
    """The orders matter where numbers are counted."""
    for form, text in forms(devices, instances):
        for order in ORDERS if form in COUNTED else ORDERS[:1]:
            yield form, text, order
    yield "unset, an order that is none", None, "pci_bus_id"


def environment(text, order):
    env = {name: value for name, value in os.environ.items() if name not in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")}
    for name, value in (("CUDA_VISIBLE_DEVICES", text), ("CUDA_DEVICE_ORDER", order)):
        if value is not None:
            env[name] = value
    return env


def judged(driver, ours):
    """Each part of a divided GPU has the address of all."""
    driver, ours = list(dict.fromkeys(driver)), list(dict.fromkeys(ours))
    if driver == ours:
        return "agrees"
    return "other order" if sorted(driver) == sorted(ours) else "differs"


def last_json(text):
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except ValueError:
                pass
    return None


def ask(run, tool, here, case):
    number, (form, text, order) = case
    name, env = "forms/%02d" % number, environment(text, order)
    one = {"form": form, "cuda_visible_devices": text, "cuda_device_order": order}
    driver = run.do(name + "-driver", [sys.executable, "-B", os.path.join(here, "driver.py")], 30, env)
    said = last_json(driver.text)
    if not said or said.get("error"):
        one["not_tried"] = said["error"] if said else driver.why
        return one
    one["init"] = said.get("init")
    one["driver"] = [address(device["address"]) for device in said["devices"]]
    words = [tool, "plan", "--ntasks", "1", "--json"]
    for variable, value in (("CUDA_VISIBLE_DEVICES", text), ("CUDA_DEVICE_ORDER", order)):
        if value is not None:
            words += ["--variable", "%s=%s" % (variable, value)]
    plan = run.do(name + "-plan", words, 20)
    try:
        task = json.loads(plan.text)["tasks"][0]
        one["plan"] = [gpu["address"] for gpu in task["gpus"]]
        one["reason"] = (task["reasons"] or [""])[0]
        # without a list `plan` shows a task what Slurm gave it; `exec` asks the environment
        if text is not None:
            one["plan_verdict"] = judged(one["driver"], one["plan"])
    except (ValueError, KeyError, IndexError):
        one["plan_why"] = plan.err.strip().splitlines()[-1] if plan.err.strip() else plan.why
    probe = run.do(name + "-exec", [tool, "exec", "verbose", "--", tool, "trial", "--probe"], 30, env)
    said = last_json(probe.text)
    if said and said.get("taken") is not None:
        one["exec"] = said["taken"]
        one["exec_verdict"] = judged(one["driver"], one["exec"])
    else:
        one["exec_why"] = probe.why or "no marker"
    # as a way to start tasks, for `nic-placement trial`
    spelled = "".join(
        "%s=%s " % (name, scrubbed(value))
        for name, value in (("CUDA_VISIBLE_DEVICES", text), ("CUDA_DEVICE_ORDER", order))
        if value is not None
    )
    one["command"] = "%snic-placement exec" % spelled
    one["probe"] = probe.text
    return one


def scrubbed(text):
    """A UUID is this machine's own: the report has none."""
    text = re.sub(r"([0-9a-fA-F]{8})-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", "<uuid>", text)
    return "'%s'" % re.sub(r"(?i)((GPU|MIG)-)[0-9a-f]+", r"\1<digits>", text)


def all_forms(run, tool, here, seconds):
    """Every case for which there is time; the driver is held by a process of its own, so that each answer is quick."""
    holder = subprocess.Popen(
        [sys.executable, "-B", os.path.join(here, "driver.py"), "hold"],
        stdin=subprocess.PIPE,
        stdout=open(run.path("forms/hold"), "wb"),
        stderr=open(run.path("forms/hold", "err"), "wb"),
        start_new_session=True,
        env=environment(None, None),
    )
    try:
        until = time.monotonic() + min(seconds, run.left())
        first = run.do(
            "forms/all", [sys.executable, "-B", os.path.join(here, "driver.py")], 60, environment(None, None)
        )
        devices = (last_json(first.text) or {}).get("devices", [])
        error = (last_json(first.text) or {"error": first.why}).get("error")
        if error or not devices:
            return {"not_tried": error or "the driver shows no device", "devices": [], "forms": []}
        instances = re.findall(r"UUID: (MIG-[0-9A-Za-z/-]+)\)", text_of(run, "0/nvidia-smi-L"))
        every = list(enumerate(cases(devices, instances)))

        def one(case):
            if time.monotonic() > until:
                form, text, order = case[1]
                return {
                    "form": form,
                    "cuda_visible_devices": text,
                    "cuda_device_order": order,
                    "not_tried": "no time was left",
                }
            return ask(run, tool, here, case)

        with ThreadPoolExecutor(max(1, min(8, (os.cpu_count() or 2) // 2))) as pool:
            answers = list(pool.map(one, every))
        return {"not_tried": None, "devices": devices, "mig_instances": len(instances), "forms": answers}
    finally:
        holder.stdin.close()
        try:
            holder.wait(3)
        except subprocess.TimeoutExpired:
            run.cannot("the driver's holder did not end at once")


def text_of(run, name):
    try:
        with open(run.path(name)) as file:
            return file.read()
    except OSError:
        return ""
