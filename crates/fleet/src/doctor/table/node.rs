//! The table's checks of the node, its NICs, its kernel, and of the calling user.
#![forbid(unsafe_code)]

use super::super::{Check, compute, host, ports};
use crate::audit::report::Level::{Fail, Note, Ok, Warn};

pub(super) const NODE: Check = Check {
    code: "node",
    title: "are there GPUs, and NICs that may be chosen?",
    reads: "the node as a step would have it: GPUs, RDMA devices, and the admin's words about them",
    rules: &[
        (Ok, "both, or NICs that are left to libfabric"),
        (Note, "no GPU, or no RDMA device"),
        (Warn, "GPUs and RDMA devices, and none of these may be chosen"),
    ],
    why: "without a NIC to choose nothing is set, and libraries choose as if there were no plugin",
    remedy: "nic-placement show says of each NIC why it is left out",
    source: "docs/configuration.md, \"Which NICs may be used\"",
    judge: compute::node,
};

pub(super) const MACHINE: Check = Check {
    code: "machine",
    title: "has it all that machines of its model have?",
    reads: "the PCI addresses of GPUs and NICs against the built-in model that the node is recognised as; its DMI names",
    rules: &[
        (Ok, "it has"),
        (
            Warn,
            "a device is on the bus and no driver shows it, a cloud's guest lacks one, or there are fewer GPUs than the \
                product has",
        ),
        (Fail, "a device is not on the bus of a machine that is nobody's guest"),
    ],
    why: "a GPU or NIC that fell off the bus makes the node slower than its kind, and shifts the names of the others",
    remedy: "look for the device in the kernel's log; a cold restart may bring it back",
    source: "Azure/azurehpc-health-checks, customTests/azure_hw_topology_check.nhc",
    judge: compute::machine,
};

pub(super) const NIC_BROKEN: Check = Check {
    code: "nic-broken",
    title: "does every port work that would be used?",
    reads: "/sys/class/infiniband/*/ports/*/{state,phys_state,rate}, from the node file where there is one; a port counts if it is \
            like those that are used: device, link layer, place on its card, distance to the GPUs",
    rules: &[
        (Ok, "all do"),
        (Warn, "it is switched off, waits for a subnet manager, or as many like it are down as are up"),
        (Fail, "it is down, or active at rate 0, and most like it are up"),
    ],
    why: "its GPUs share the other NICs, and every node of the job waits for the slowest",
    remedy: "look at cable and switch port; ibstat, or ethtool on its interface",
    source: "facebookresearch/gcm, gcm/health_checks/checks/check_iblink.py; NVIDIA/NVSentinel, docs/nic-health-monitor.md",
    judge: ports::nic_broken,
};

pub(super) const NIC_SLOWER: Check = Check {
    code: "nic-slower",
    title: "is a port beside a GPU left out because it is slower than the fabric?",
    reads: "/sys/class/infiniband/*/ports/*/rate",
    rules: &[(Note, "it is: one that came up at half its rate, or a node that was built so")],
    why: "the slowest NIC sets the pace of all, so it is left out; where all nodes are alike bandwidth is lost",
    remedy: "compare with other nodes (nic-placement audit); if all are so, include= takes it",
    source: "docs/troubleshooting.md, \"Known limits\"",
    judge: ports::nic_slower,
};

pub(super) const PORTS_PER_CARD: Check = Check {
    code: "ports-per-card",
    title: "has each card as many active ports as those like it?",
    reads: "the active ports of the cards of one kind: PCI device, number of ports, role; those that nic-broken names are left out",
    rules: &[
        (Ok, "it has"),
        (Note, "a card for storage or management has fewer than most"),
        (Warn, "another card has fewer than most"),
    ],
    why: "a port that is down on one card and up on its siblings was not meant to be down",
    remedy: "look at cable and switch port, or switch this check off if the port is not cabled",
    source: "NVIDIA/NVSentinel, docs/nic-health-monitor.md",
    judge: ports::ports_per_card,
};

pub(super) const PORT_INTERFACE: Check = Check {
    code: "port-interface",
    title: "do active RoCE ports have interfaces that pass packets?",
    reads: "operstate and carrier of /sys/class/net/* for each active port of Ethernet; an InfiniBand port needs no interface",
    rules: &[
        (Ok, "they do"),
        (Warn, "one does not, and most do not either, or no job uses it"),
        (Fail, "one does not that jobs use, and most do"),
    ],
    why: "RDMA packets of RoCE go by that interface, whatever the port says",
    remedy: "ip link show; ip link set INTERFACE up; look at the bond or the switch port",
    source: "facebookresearch/gcm, gcm/health_checks/checks/check_iblink.py",
    judge: ports::port_interface,
};

pub(super) const EFA_CARRIER: Check = Check {
    code: "efa-carrier",
    title: "do EFA devices have a carrier?",
    reads: "operstate and carrier of the interface on the device's PCI function; many have none, and are not judged",
    rules: &[
        (Ok, "they do"),
        (Warn, "one does not, and most like it do not either"),
        (Fail, "one does not, and most do"),
    ],
    why: "the driver says `ACTIVE` of every port, so the port's state tells nothing",
    remedy: "stop and start the instance, or replace it",
    source: "NVIDIA/NVSentinel, docs/nic-health-monitor.md",
    judge: ports::efa_carrier,
};

pub(super) const ROCE_GID: Check = Check {
    code: "roce-gid",
    title: "have RoCE ports a GID of version 2?",
    reads: "ports/*/gid_attrs/types, the first 16; IPv4 networks of their interfaces",
    rules: &[
        (Ok, "they have"),
        (Note, "no port tells, as in a network namespace of a container"),
        (
            Warn,
            "a port has only version 1, has none while others have, or lacks the IPv4 address that others have",
        ),
    ],
    why: "NCCL chooses a GID by its type and address family; version 1 passes no router",
    remedy: "give the interface its IPv4 address; cma_roce_mode, or the driver's default, for version 2",
    source: "NCCL's src/transport/net_ib/connect.cc; ROCm/cvs, cvs/lib/preflight/gid_consistency.py",
    judge: ports::roce_gid,
};

pub(super) const ROCE_MTU: Check = Check {
    code: "roce-mtu",
    title: "have the interfaces of RoCE ports one large MTU?",
    reads: "/sys/class/net/*/mtu",
    rules: &[
        (Ok, "4200 bytes or more"),
        (Note, "all have the same, and less"),
        (Warn, "one differs from most"),
    ],
    why: "an RDMA packet has as much of 4096 bytes as fits into the MTU, and both ends must agree",
    remedy: "ip link set INTERFACE mtu 9000, if the switches pass that",
    source: "the kernel's include/rdma/ib_addr.h, iboe_get_mtu",
    judge: ports::roce_mtu,
};

pub(super) const DEVICE_NODE: Check = Check {
    code: "device-node",
    title: "has each RDMA device its device nodes?",
    reads: "/sys/class/infiniband_verbs, and /sys/class/infiniband_mad where it lists anything",
    rules: &[
        (Ok, "a uverbs node for each, a umad node for each InfiniBand port"),
        (Warn, "ib_uverbs is not loaded, or a port lacks its umad node"),
        (Fail, "one lacks its uverbs node, and others have theirs"),
    ],
    why: "libraries open uverbs nodes; a device without one shifts the numbers of the others in NCCL",
    remedy: "modprobe ib_uverbs ib_umad; look for the device in the kernel's log",
    source: "NVIDIA/NVSentinel, docs/nic-health-monitor.md; NVIDIA/nccl issue 2428",
    judge: ports::device_node,
};

pub(super) const NUMA_BALANCING: Check = Check {
    code: "numa-balancing",
    title: "does the kernel move pages between NUMA nodes by itself?",
    reads: "/proc/sys/kernel/numa_balancing",
    rules: &[(Ok, "it does not, or there is one NUMA node"), (Note, "it does")],
    why: "to learn who uses a page the kernel unmaps it, which stalls threads and GPUs that share it",
    remedy: "sysctl kernel.numa_balancing=0",
    source: "the kernel's Documentation/admin-guide/sysctl/kernel.rst; ROCm/cvs, cvs/tests/platform/host_configs_cvs.py",
    judge: host::numa_balancing,
};

pub(super) const PORT_RANGE: Check = Check {
    code: "port-range",
    title: "are there enough TCP ports, and none of Slurm's among them?",
    reads: "/proc/sys/net/ipv4/ip_local_port_range",
    rules: &[
        (Ok, "4096 or more, without 6817 to 6819"),
        (Note, "ports of Slurm's daemons are among them"),
        (Warn, "fewer than 4096"),
    ],
    why: "each task of a large job opens several connections; a program that was given slurmd's port keeps slurmd from starting",
    remedy: "sysctl net.ipv4.ip_local_port_range=\"32768 60999\", or name Slurm's in ip_local_reserved_ports",
    source: "the kernel's Documentation/networking/ip-sysctl.rst; slurm.conf(5), SlurmdPort",
    judge: host::port_range,
};

pub(super) const UVERBS_ACCESS: Check = Check {
    code: "uverbs-access",
    title: "may this user open the NICs?",
    reads: "/dev/infiniband/uverbs* by faccessat(2), which opens nothing, as the calling user",
    rules: &[
        (Ok, "all that may be chosen"),
        (Note, "no NIC has a node, as in a container, or the job's device cgroup keeps one closed"),
        (Warn, "a node's mode refuses this user, or one is missing and others are there"),
    ],
    why: "NCCL skips a NIC that it cannot open and then counts the others differently from its peers",
    remedy: "mode 0666 by rdma-core's udev rules; in a container give it /dev/infiniband",
    source: "NVIDIA/nccl issue 2428; the kernel's fs/namei.c, inode_permission",
    judge: host::uverbs_access,
};

pub(super) const MEMLOCK: Check = Check {
    code: "memlock",
    title: "may this user lock memory?",
    reads: "Max locked memory of /proc/self/limits",
    rules: &[
        (Ok, "without a limit, or it is root that asks"),
        (Note, "a limit, outside of a step"),
        (Warn, "a limit, in a step of Slurm's"),
    ],
    why: "memory that a NIC reaches is locked; at the limit libraries fail or fall back to TCP",
    remedy: "LimitMEMLOCK=infinity in slurmd's unit, and PropagateResourceLimitsExcept=MEMLOCK in slurm.conf",
    source: "slurm.conf(5), PropagateResourceLimits; the kernel's drivers/infiniband/core/umem.c",
    judge: host::memlock,
};

pub(super) const NCCL_CONF: Check = Check {
    code: "nccl-conf",
    title: "which variables do NCCL's files set, and so keep us from setting?",
    reads: "/etc/nccl.conf, /etc/rccl.conf; unless root asks, ~/.nccl.conf and NCCL_CONF_FILE too",
    rules: &[(Ok, "none that we would set"), (Note, "those that the line names")],
    why: "NCCL prefers the environment to its files, so what we set would override the site's choice: we leave it alone",
    remedy: "nothing, if it is meant so; else remove the line from the file",
    source: "NCCL's src/misc/param.cc, setEnvFile",
    judge: host::nccl_conf,
};

pub(super) const VARIABLE: Check = Check {
    code: "variable",
    title: "what looks wrong in the variables of this environment?",
    reads: "the variables of libraries in this environment, or those that --variable gives",
    rules: &[(Note, "a value that names no NIC, admits more than it says, or costs speed")],
    why: "the user's own value stays, right or wrong",
    remedy: "correct or unset it",
    source: "each library's source, as the files in crates/core/src/libraries/ say",
    judge: host::variable,
};

pub(super) const ODD: Check = Check {
    code: "odd",
    title: "what else was odd when the node was read?",
    reads: "all that discovery reads",
    rules: &[(Note, "what the line says")],
    why: "what could not be read or believed was left out of the decision",
    remedy: "as the line says",
    source: "crates/core/src/discover",
    judge: compute::odd,
};
