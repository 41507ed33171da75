#!/bin/sh
# What tests/vm.rs asks in the guest: the same machine read twice, by nic-placement and by hwloc.  Runs in /out.
set -eu
nic-placement show > show
nic-placement show --json > show.json
nic-placement snapshot > node.machine
# all of the I/O tree: hwloc leaves out bridges unless asked
lstopo-no-graphics --whole-io --of xml > lstopo.xml
# shows that arguments, both streams and the status come through
echo "said: $*"
echo 'complained' >&2
exit 7
