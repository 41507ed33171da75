#!/bin/sh
# What tests/vm/sick.rs plays in the guest: its RDMA cards answer, then answer after a minute, then answer again.  Runs in
# /out.  A line is `WHAT: …`; times are hundredths of a second since the guest was started.
set -eu
sleep_ms=/sys/module/rdma_nics/parameters/query_sleep_ms
file=/run/nic-placement/node.cache
mkdir -p /run

now() {
    read -r up _ < /proc/uptime
    echo "${up%.*}${up#*.}"
}
# says how long a command took, and its status
timed() {
    what=$1
    shift
    begun=$(now)
    status=0
    "$@" > "$what.out" 2>&1 || status=$?
    echo "$what: status $status after $((($(now) - begun) * 10)) ms"
}
step() {
    spank_host --so /bin/libnic_placement.so --arg default=closest,bind=none --task '' --task '' "$@"
}
# `waits` when the kernel's stacks of two processes say that the driver holds them; it wakes every 20 ms, so a look may miss
in_driver() {
    for _ in $(seq 300); do
        if grep -qs query_port "/proc/$1/stack" && grep -qs query_port "/proc/$2/stack"; then echo waits && return; fi
        sleep 0.1
    done
    echo "does not wait: $(head -n 99 "/proc/$1/status" "/proc/$1/stack" "/proc/$2/status" "/proc/$2/stack" 2>&1)"
}

timed live-well nic-placement show
timed refresh nic-placement refresh
cp "$file" node.cache
timed step-well-file step
timed step-well-live step --arg cache=0

echo 60000 > $sleep_ms
echo "sick: each question to a port takes $(cat $sleep_ms) ms"
timed live-sick nic-placement show &
timed step-sick-live step --arg cache=0 &
nic-placement refresh > refresh-sick.out 2>&1 &
refresh=$!
# a busy host emulates slowly: what takes a moment here may take seconds there
for _ in $(seq 300); do
    live=$(pidof nic-placement | tr ' ' '\n' | grep -v "^$refresh\$" | head -n 1) || true
    if [ "$live" ]; then break; fi
    sleep 0.1
done
echo "show and refresh: $(in_driver "${live:-none}" $refresh)"
kill -9 "$live" $refresh
sleep 1
echo "killed, after another second: $(in_driver "$live" $refresh)"
timed second-refresh nic-placement refresh
timed step-sick-file step
step --time --repeat 20 > step-sick-times.out
echo 0 > $sleep_ms
wait
echo "well again"
timed refresh-again nic-placement refresh

nic-placement refresh --watch > watch.out 2>&1 &
watch=$!
sleep 3
cp "$file" before-link.cache
begun=$(now)
ip link set eth0 down
# a map of names and states, each behind its length
while ! grep -q 'eth0.down' "$file" && [ $(($(now) - begun)) -lt 3000 ]; do sleep 0.02; done
echo "link: in the file after $((($(now) - begun) * 10)) ms"
cp "$file" after-link.cache
kill $watch
timed step-after-link step
# to a step with the older file the link is lost since
cp before-link.cache "$file"
timed step-link-lost step
