# Translates the description of a machine (*.guest) for qemu and for the kernel module of the guest.
#
#   awk -v folder=DIR [-v side=N] [-v rom=,romfile=] -f describe.awk MACHINE
#
# One thing a line; `#` starts a comment; what hangs below something is indented by two blanks more:
#
#   name NAME                        what the machine's DMI calls the product
#   cpus N,sockets=…,cores=…,threads=…
#   node N memory=SIZE [cpus=A-B]    a NUMA node, without `cpus` one of memory alone
#   distance A B D                   between two nodes, either way
#   bridge N                         a host bridge on NUMA node N; below it stand
#     switch                           a PCIe switch, which may hold switches
#     gpu h100|mi300x|gh200
#     nic ib|eth GBPS STATE…           an RDMA NIC: a state (active, init, down) for each port
#     disk                             an NVMe disk
#     card                             a device whose functions are the `nic`s below it
#   software NAME                    an rxe device on the first Ethernet interface
#
# With a side the NICs move data: each is an Ethernet function on qemu's hub 0, and rdma_nics.c does not drive it.  Their
# addresses differ by the side.
#
# With rom=,romfile= no function of a GPU or NIC has a ROM: qemu has none of these for aarch64.
#
# Into DIR go `arguments` (qemu's, one a line), `ids` (for pci_ids.c), `nics` (for rdma_nics.c) and `software`.

function stop(problem) {
    print FILENAME ":" FNR ": " problem > "/dev/stderr"
    failed = 1
    exit 2
}

function argument(option, value) {
    print option > (folder "/arguments")
    print value > (folder "/arguments")
}

# pci_ids.c makes the type `name` of qemu's `model`, with these ids and Gen5 x16 links
function type(name, model, ids) {
    if (!(name in types)) {
        types[name] = 1
        all_ids = all_ids sep name ":" model ":" ids
        sep = ","
    }
    return name
}

# A function may stand on a host bridge or in a switch only behind a port of its own.
function port(parent,    id) {
    id = "port" ports++
    if (kind[parent] == "bridge")
        argument("-device", type("root-port", "pcie-root-port", "1022:14ab:0604:0:0") ",id=" id ",bus=" parent \
            ",addr=" ++children[parent] ".0,chassis=" ports ",slot=" ports ",io-reserve=0,hotplug=off")
    else if (kind[parent] == "switch")
        argument("-device", type("switch-down", "xio3130-downstream", "1000:c030:0604:0:0") ",id=" id ",bus=" parent \
            ",addr=" children[parent]++ ".0,chassis=" ports ",slot=" ports ",hotplug=off")
    else
        stop("`" $1 "` cannot stand below `" kind[parent] "`")
    return id
}

function endpoint(model, more) {
    if (kind[parent] == "card")
        more = ",addr=0." children[parent]++ ",multifunction=on" more
    argument("-device", model ",bus=" (kind[parent] == "card" ? port_of[parent] : port(parent)) more)
}

{ sub(/#.*/, "") }
NF == 0 { next }
{
    match($0, /^ */)
    depth = RLENGTH / 2
    id = "d" FNR
    at[depth] = id
    kind[id] = $1
    parent = depth ? at[depth - 1] : ""
    inside = $1 ~ /^(switch|gpu|nic|disk|card)$/
    if (depth != int(depth) || (inside && parent == "") || (!inside && depth))
        stop("`" $1 "` is indented by " RLENGTH " blanks")
}
$1 == "name" { argument("-smbios", "type=1,manufacturer=nic-placement,product=" $2); next }
$1 == "cpus" { argument("-smp", $2); next }
$1 == "node" {
    sub(/memory=/, "", $3)
    memory += $3
    argument("-object", "memory-backend-ram,id=memory" $2 ",size=" $3)
    argument("-numa", "node,nodeid=" $2 ",memdev=memory" $2 ($4 == "" ? "" : "," $4))
    next
}
$1 == "distance" { argument("-numa", "dist,src=" $2 ",dst=" $3 ",val=" $4); next }
$1 == "bridge" {
    # bus numbers far enough apart for what hangs below each of at most eight; 0-3 of bus 0 are the machine's own
    argument("-device", "pxb-pcie,id=" id ",bus=pcie.0,addr=" bridges + 4 ",bus_nr=" 32 + 28 * bridges ",numa_node=" $2)
    if (++bridges > 8)
        stop("more than 8 host bridges")
    next
}
$1 == "switch" {
    argument("-device", type("switch-up", "x3130-upstream", "1000:c030:0604:0:0") ",id=" id ",bus=" port(parent))
    next
}
$1 == "card" { port_of[id] = port(parent); next }
# a display without a screen is an endpoint with memory of its own
$1 == "gpu" && $2 == "h100" { endpoint(type("h100", "bochs-display", "10de:2330:0302:10de:16c1"), ",vgamem=4M"); next }
$1 == "gpu" && $2 == "mi300x" { endpoint(type("mi300x", "bochs-display", "1002:74a1:1200:1002:74a1"), ",vgamem=4M"); next }
$1 == "gpu" && $2 == "gh200" { endpoint(type("gh200", "bochs-display", "10de:2342:0302:10de:16eb"), ",vgamem=4M" rom); next }
$1 == "nic" && $2 ~ /^(ib|eth)$/ && NF > 3 && side {
    nics += 0
    argument("-netdev", "hubport,id=rail" nics ",hubid=0")
    # qemu's model takes its subsystem id from its properties
    endpoint(type("nic" nics, "e1000e", "15b3:1021:0200:0:0"), sprintf(",netdev=rail%d,mac=52:54:00:01:%02x:%02x," \
        "subsys_ven=0x15b3,subsys=%d,romfile=", nics, side, nics, nics))
    nics++
    next
}
$1 == "nic" && $2 ~ /^(ib|eth)$/ && NF > 3 {
    # the module finds a NIC's entry by its subsystem id
    endpoint(type("nic" nics, "bochs-display", sprintf("15b3:1021:0200:15b3:%x", nics)), ",vgamem=4M" rom)
    entry = $2 ":" $3 ":"
    for (i = 4; i <= NF; i++) entry = entry substr($i, 1, 1)
    nic_entries = nic_entries (nics++ ? "," : "") entry
    next
}
$1 == "disk" { endpoint("nvme", ",serial=" id); next }
$1 == "software" { print $2 > (folder "/software"); next }
{ stop("what is `" $0 "`?") }

END {
    if (failed) exit 2
    argument("-m", memory "M")
    print all_ids > (folder "/ids")
    print nic_entries > (folder "/nics")
}
