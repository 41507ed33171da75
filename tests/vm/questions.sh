#!/bin/sh
# What tests/vm.rs asks in the guest: the same machine read twice, by nic-placement and by hwloc.  Runs in /out.
set -eu
nic-placement show > show
nic-placement show --json > show.json
nic-placement snapshot > node.machine
# all of the I/O tree: hwloc leaves out bridges unless asked
lstopo-no-graphics --whole-io --of xml > lstopo.xml
# the processes of a launcher, one for each GPU, with `exec` and without: what the kernel says of each
gpus=$(grep -cE '"vendor": "(nvidia|amd)"' show.json)
cat > tell << 'EOF'
cpus=$(sed -n 's/^Cpus_allowed_list:[[:blank:]]*//p' /proc/self/status)
# such as `7f40 prefer (many):1 anon=1`
policy=$(sed -n '1s/^[^ ]* //; 1s/prefer (many)/preferred-many/; 1s/ .*//p' /proc/self/numa_maps)
echo "$LOCAL_RANK cpus=$cpus policy=$policy nic=${UCX_NET_DEVICES:--} list=${NCCL_IB_HCA:--}"
EOF
launch() {
    for rank in $(seq 0 $((gpus - 1))); do
        (LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$gpus exec "$@")
    done
}
launch sh tell > exec.without
launch nic-placement exec -- sh tell > exec.with 2> exec.said
# shows that arguments, both streams and the status come through
echo "said: $*"
echo 'complained' >&2
exit 7
