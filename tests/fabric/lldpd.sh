#!/bin/sh
# Runs lldpd on two leaves and two nodes, each a network namespace, and writes what the nodes hear: lldpd.sh FOLDER
# To be called in namespaces of its own for links, mounts, names and processes: tests/fabric/lldpd.rs.
set -eu
folder=$1
PATH=$PATH:/usr/sbin:/sbin

# names of namespaces, sockets, and the folder that lldpd locks itself into
mount -t tmpfs tmpfs /run
for name in leaf1 leaf2 node1 node2; do ip netns add $name; done
for node in 1 2; do
    for rail in 0 1; do
        ip link add eth$rail netns node$node type veth peer name swp$node netns leaf$((rail + 1))
        ip -n node$node link set eth$rail up
        ip -n leaf$((rail + 1)) link set swp$node up
    done
done

for name in leaf1 leaf2 node1 node2; do
    # no file of this machine's own lldpd
    ip netns exec $name unshare -u sh -c "hostname $name.example.org; exec lldpd -d -u /run/$name.sock -O /nonexistent" \
        > "$folder/$name.log" 2>&1 &
done

# waits at most 20 s for a command to succeed
try() {
    tries=0
    until "$@" > /dev/null 2>&1; do
        tries=$((tries + 1))
        if [ $tries -gt 200 ]; then
            echo "not in 20 s: $*" >&2
            tail -n 3 "$folder"/*.log >&2
            exit 1
        fi
        sleep 0.1
    done
}

# knows both its interfaces; what is configured before is for none
has_ports() {
    [ "$(lldpcli -u "/run/$1.sock" show interfaces | grep -c '^Interface:')" -eq 2 ]
}

hears() {
    [ "$(lldpctl -u "/run/$1.sock" -f json0 | grep -c '"ifname"')" -eq 2 ]
}

for name in leaf1 leaf2 node1 node2; do
    try has_ports $name
    lldpcli -u /run/$name.sock configure lldp tx-interval 1 > /dev/null
done
for leaf in leaf1 leaf2; do
    # as switches say it: the port by its name
    lldpcli -u /run/$leaf.sock configure lldp portidsubtype ifname > /dev/null
    lldpcli -u /run/$leaf.sock configure system capabilities enabled bridge,router > /dev/null
done
for node in node1 node2; do try hears $node; done

: > "$folder/all.json0"
: > "$folder/all.json"
for node in node1 node2; do
    lldpctl -u /run/$node.sock -f json0 > "$folder/$node.json"
    for form in json0 json; do
        # as clush labels it
        lldpctl -u /run/$node.sock -f $form | sed "s/^/$node: /" >> "$folder/all.$form"
    done
done
