//! The interface by which processes meet, on nodes with several.

use super::*;
use crate::topology::NicRole;
use std::net::Ipv4Addr;

/// The line in the kernel's table of `10.0.0.0/24 via 10.1.0.1 dev eth0 metric 100`; a network on the link has no `via`.
fn line(route: &str) -> String {
    let words: Vec<&str> = route.split(' ').collect();
    let after = |key: &str| {
        let at = words.iter().position(|word| *word == key);
        at.map(|at| words[at + 1])
    };
    let hex = |address: u32| format!("{:08X}", address.swap_bytes());
    let address = |text: &str| hex(text.parse::<Ipv4Addr>().unwrap().into());
    let (network, bits) = words[0].split_once('/').unwrap();
    let mask = u32::MAX.checked_shl(32 - bits.parse::<u32>().unwrap());
    let (network, mask) = (address(network), hex(mask.unwrap_or(0)));
    let (gateway, flags) = after("via").map_or((hex(0), 1), |gateway| (address(gateway), 3));
    let [interface, metric] = [after("dev").unwrap(), after("metric").unwrap_or("0")];
    format!("{interface}\t{network}\t{gateway}\t{flags:04X}\t0\t0\t{metric}\t{mask}\t0\t0\t0\n")
}

/// The default route leads to a campus, and Slurm's network is another.
const CAMPUS: &str = "0.0.0.0/0 via 192.168.0.1 dev eth0 metric 100";
const SLURMS: &str = "10.1.0.0/16 dev eth1";
const GLOO: &str = "GLOO_SOCKET_IFNAME";

fn routed(routes: &[&str], srun: Option<&str>) -> Situation {
    let head =
        "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";
    let table: String = routes.iter().map(|route| line(route)).collect();
    let mut situation = whole().file("/proc/net/route", &format!("{head}{table}"));
    situation.step.srun = srun.map(str::to_string);
    situation.libraries("sockets")
}

fn usual() -> Situation {
    routed(&[CAMPUS, SLURMS], Some("10.1.0.7"))
}

const ETH1: [&str; 4] = [
    "NCCL_SOCKET_IFNAME==eth1",
    "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME==eth1",
    "GLOO_SOCKET_IFNAME=eth1",
    "TP_SOCKET_IFNAME=eth1",
];
const WITHOUT_NVSHMEM: [&str; 3] = [ETH1[0], ETH1[2], ETH1[3]];

#[test]
fn each_library_gets_slurms_interface_as_it_writes_a_whole_name() {
    assert_eq!(usual().changes(), ETH1);
    usual().says("TP_SOCKET_IFNAME", "this node reaches srun");
    let by_default = usual().libraries("default").changes();
    assert!(!by_default.concat().contains("IFNAME"), "{by_default:?}");
    let mut named = usual().libraries("none");
    named.wish.env_names = vec![GLOO.to_string()];
    assert_eq!(named.changes(), ETH1[2..3]);
    let users = usual().env(&["GLOO_SOCKET_IFNAME=ib0", "NCCL_SOCKET_IFNAME=ib"]);
    assert_eq!(users.changes(), [ETH1[1], ETH1[3]], "the user's own stay");
    assert_eq!(usual().amd().changes(), WITHOUT_NVSHMEM, "it is NVIDIA's");
}

#[test]
fn the_interface_is_that_of_the_nearest_route_to_srun_and_else_of_the_default_route() {
    let both = &[CAMPUS, SLURMS][..];
    let nearer = &[CAMPUS, SLURMS, "10.1.2.0/24 via 10.3.0.1 dev eth2"];
    let two_defaults = &["0.0.0.0/0 via 10.9.0.1 dev wwan0 metric 700", CAMPUS];
    for (routes, srun, expected) in [
        (both, None, "eth0"),
        (both, Some("172.16.0.9"), "eth0"),
        (both, Some("127.0.0.1"), "eth0"),
        (both, Some("fd00::7"), "eth0"),
        (both, Some("login1"), "eth0"),
        (both, Some(""), "eth0"),
        // srun's over both families
        (both, Some("::ffff:10.1.0.7"), "eth1"),
        (nearer, Some("10.1.2.7"), "eth2"),
        (nearer, Some("10.1.3.7"), "eth1"),
        // the least metric
        (two_defaults, None, "eth0"),
        (&[SLURMS], None, ""),
    ] {
        let situation = routed(routes, srun);
        assert_eq!(situation.value(GLOO), expected, "{srun:?}");
        let why = situation.why(GLOO);
        let found = why.contains("this node's default route");
        assert_eq!(found, expected == "eth0", "{why}");
    }
    routed(&[SLURMS], None).begins(GLOO, "no IPv4 route of");
    let mut planned = routed(&[], None);
    planned.topology.provenance = Provenance::File("node.json".to_string());
    planned.says(GLOO, "known on the node alone");
}

#[test]
fn no_interface_of_containers_storage_or_one_that_is_down_is_named() {
    let with = |route: &str| routed(&[CAMPUS, SLURMS, route], Some("10.1.0.7"));
    let (bridge, down) = ("uevent=DEVTYPE=bridge", "operstate=down");
    for (route, file, expected) in [
        ("10.1.0.0/24 dev ib0", "", "ib0"),
        ("10.1.0.0/24 dev lo", "", "eth1"),
        ("10.1.0.0/24 dev a,b", "", "eth1"),
        ("10.1.0.7/32 dev cali7", "", "eth1"),
        ("10.1.0.0/24 via 0.0.0.0 dev swp1", "", "eth1"),
        ("10.1.0.0/24 dev docker0", bridge, "eth1"),
        ("10.1.0.0/24 dev ib0", down, "eth1"),
        // the node's own bridge
        ("10.1.0.0/24 via 10.2.0.1 dev br0", bridge, "br0"),
    ] {
        let mut situation = with(route);
        if let Some((name, text)) = file.split_once('=') {
            let (_, interface) = route.rsplit_once(' ').unwrap();
            situation = situation.file(&format!("/sys/class/net/{interface}/{name}"), text);
        }
        assert_eq!(situation.value(GLOO), expected, "{route} {file}");
    }
    for (interface, expected) in [("ib3", "eth1"), ("ib3.8001", "eth1"), ("ib30", "ib30")] {
        let mut storage = with(&format!("10.1.0.0/24 dev {interface}"));
        storage.topology.nics[3].netdevs = vec!["ib3".to_string()];
        // the NIC of management has Slurm's own
        let roles = [None, Some(NicRole::Storage), Some(NicRole::Management)];
        for (role, expected) in roles.into_iter().zip([interface, expected, interface]) {
            storage.topology.nics[3].role = role;
            assert_eq!(storage.value(GLOO), expected, "{role:?}");
        }
    }
    let cut = usual().file("/proc/net/route", "Iface\n…");
    cut.says(GLOO, "routes are not known");
}

#[test]
fn nccl_keeps_all_interfaces_where_its_data_go_by_them() {
    let of_nvshmem = "NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY=AF_INET6";
    for (variable, others) in [
        ("NCCL_IB_DISABLE=1", &ETH1[1..]),
        ("NCCL_NET=socket", &ETH1[1..]),
        ("NCCL_COMM_ID=10.1.0.7:4000", &ETH1[1..]),
        ("NCCL_SOCKET_FAMILY=AF_INET6", &ETH1[1..]),
        ("NCCL_IB_DISABLE=0", &ETH1),
        ("NCCL_NET=IB", &ETH1),
        ("NCCL_SOCKET_FAMILY=AF_INET", &ETH1),
        (of_nvshmem, &WITHOUT_NVSHMEM),
    ] {
        assert_eq!(usual().env(&[variable]).changes(), others, "{variable}");
    }
    let mut by_sockets = usual().task(&[1], &[]);
    by_sockets.node.rails.clear();
    assert_eq!(by_sockets.changes(), ETH1[1..]);
    by_sockets.says("NCCL_SOCKET_IFNAME", "but by sockets");
    assert_eq!(by_sockets.nics_are(NicKind::Efa).changes(), ETH1);
    // NCCL's files
    for file in ["/etc/nccl.conf", "/home/me/.nccl.conf"] {
        let named = usual().file(file, "NCCL_SOCKET_IFNAME=ib0\n");
        let named = named.env(&["HOME=/home/me"]);
        assert_eq!(named.changes(), ETH1[1..], "{file}");
        assert_eq!(named.why("NCCL_SOCKET_IFNAME"), format!("`{file}` sets it"));
    }
}

#[test]
fn a_template_takes_the_interface_also_where_all_tasks_must_have_the_same() {
    let site = || usual().libraries("site").set("MINE={nic}@{interface}");
    let set = site().set("NCCL_SOCKET_IFNAME=={interface}");
    assert_eq!(set.changes(), ["MINE=mlx5_1@eth1", ETH1[0]]);
    let nowhere = site().file("/proc/net/route", "");
    nowhere.ends("MINE", "there is no `{interface}` here");
}

#[test]
fn the_kernels_table_is_not_read_where_no_interface_is_wanted() {
    let situation = here().libraries("none");
    assert_eq!(situation.opened().concat(), [""; 0]);
    assert!(situation.prepared().interface.is_err());
}
