#!/bin/bash
#
# Makes a machine's file in docs/results of what first.sh found there, and the documents that follow from it.
#
#   result.sh FOLDER/first.json [NAME]     docs/results/NAME.json; without NAME it is made of the GPUs' and NICs' models
#
# It is refused if its driver was played, if nothing was compared, or if a UUID stands in it (`nic-placement trial --check`).
# RESULTS names another folder than docs/results; then the documents stay as they are.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
[ $# -ge 1 ] || { sed -n '3,8p' "$0" >&2; exit 2; }
name=$(python3 - "$1" "${RESULTS:-$root/docs/results}" "${2:-}" <<'PYTHON'
import json
import os
import re
import sys

path, folder, name = sys.argv[1:]
with open(path) as file:
    first = json.load(file)
if first.get("format") != "nic-placement first hour" or first.get("version") != 1:
    sys.exit("result: `%s` is none of first.sh" % path)
report = first.get("report")
faults = []
if first["played"] or (report and report["played"]):
    faults.append("its driver was played by a test")
if not first["machine"].get("gpus"):
    faults.append("there was no GPU")
if not report:
    faults.append("it has no report: %s" % "; ".join(first["could_not"]))
elif re.search(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-", json.dumps(report)):
    faults.append("a UUID stands in it")
if faults:
    sys.exit("result: `%s` cannot be taken: %s" % (path, "; ".join(faults)))
if not name:
    name = re.sub(r"[^a-z0-9]+", "-", report["machine"].lower()).strip("-")
    while len(name) > 60:
        name = name.rpartition("-")[0] or name[:60]
os.makedirs(folder, exist_ok=True)
target = os.path.join(folder, name + ".json")
with open(target, "w") as file:
    json.dump(report, file, indent=2)
    file.write("\n")
print(target)
PYTHON
)
echo "result: $name"
[ -z "${RESULTS:-}" ] || exit 0
cd "$root"
BLESS=1 cargo test --locked -p nic-placement-cli --test docs
git --no-pager diff --stat -- docs README.md
