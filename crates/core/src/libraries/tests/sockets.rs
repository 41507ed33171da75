//! The interface by which processes meet, on nodes with several.

use super::*;
use crate::topology::NicRole;

const HEAD: &str =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";

/// `10.0.0.0/24 via 10.1.0.1 dev eth0 metric 100`, without `via` of a network that is on the link.
fn line(route: &str) -> String {
    let hex = |octets: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(octets));
    let octets = |text: &str| text.parse::<std::net::Ipv4Addr>().unwrap().octets();
    let words: Vec<&str> = route.split(' ').collect();
    let after = |key: &str| {
        words
            .iter()
            .position(|word| *word == key)
            .map(|at| words[at + 1])
    };
    let (network, bits) = words[0].split_once('/').unwrap();
    let mask = u32::MAX
        .checked_shl(32 - bits.parse::<u32>().unwrap())
        .unwrap_or(0)
        .to_be_bytes();
    let (gateway, flags) = after("via").map_or(([0; 4], 1), |gateway| (octets(gateway), 3));
    let [interface, metric] = [after("dev").unwrap(), after("metric").unwrap_or("0")];
    let [network, gateway, mask] = [octets(network), gateway, mask].map(hex);
    format!("{interface}\t{network}\t{gateway}\t{flags:04X}\t0\t0\t{metric}\t{mask}\t0\t0\t0\n")
}

fn files(routes: &[&str], more: &[(&'static str, &'static str)]) -> Files {
    let table = HEAD.to_string() + &routes.iter().map(|route| line(route)).collect::<String>();
    let mut files = vec![("/proc/net/route", &*table.leak())];
    files.extend(more);
    files.leak()
}

/// The default route leads to a campus, and Slurm's network is another.
const CAMPUS: &str = "0.0.0.0/0 via 192.168.0.1 dev eth0 metric 100";
const SLURMS: &str = "10.1.0.0/16 dev eth1";

fn situation(routes: &[&str], srun: Option<&str>) -> Situation {
    let mut situation = Situation {
        files: files(routes, &[]),
        ..Situation::new(PortState::Down)
    };
    situation.step.srun = srun.map(str::to_string);
    situation.libraries(&["sockets"])
}

fn gloo(situation: &Situation) -> Option<String> {
    situation.value(&task(&[1], &[1]), "GLOO_SOCKET_IFNAME")
}

const ETH1: [&str; 4] = [
    "NCCL_SOCKET_IFNAME==eth1",
    "NVSHMEM_BOOTSTRAP_UID_SOCK_IFNAME==eth1",
    "GLOO_SOCKET_IFNAME=eth1",
    "TP_SOCKET_IFNAME=eth1",
];

#[test]
fn each_library_gets_slurms_interface_as_it_writes_a_whole_name() {
    let here = || situation(&[CAMPUS, SLURMS], Some("10.1.0.7"));
    let task = task(&[1], &[1]);
    assert_eq!(here().changes(&task), ETH1);
    assert_eq!(
        here().why(&task, "TP_SOCKET_IFNAME"),
        "the interface by which this node reaches srun"
    );
    let by_default = here().libraries(&["default"]).changes(&task);
    assert!(
        by_default.iter().all(|change| !change.contains("IFNAME")),
        "{by_default:?}"
    );
    let mut named = here().libraries(&["none"]);
    named.wish.env_names = vec!["GLOO_SOCKET_IFNAME".to_string()];
    assert_eq!(named.changes(&task), ETH1[2..3]);
    let users = here().with(&[("GLOO_SOCKET_IFNAME", "ib0"), ("NCCL_SOCKET_IFNAME", "ib")]);
    assert_eq!(
        users.changes(&task),
        [ETH1[1], ETH1[3]],
        "the user's own stay"
    );
    let mut amds = here();
    amds.topology
        .gpus
        .iter_mut()
        .for_each(|gpu| gpu.vendor = GpuVendor::Amd);
    assert_eq!(
        amds.changes(&task),
        [ETH1[0], ETH1[2], ETH1[3]],
        "NVSHMEM is NVIDIA's"
    );
}

#[test]
fn the_interface_is_that_of_the_nearest_route_to_srun_and_else_of_the_default_route() {
    let of = |routes: &[&str], srun| gloo(&situation(routes, srun));
    let default = "the interface of this node's default route";
    for srun in [
        None,
        Some("172.16.0.9"),
        Some("127.0.0.1"),
        Some("fd00::7"),
        Some("login1"),
        Some(""),
    ] {
        let here = situation(&[CAMPUS, SLURMS], srun);
        assert_eq!(gloo(&here).as_deref(), Some("eth0"), "{srun:?}");
        assert_eq!(here.why(&task(&[1], &[1]), "GLOO_SOCKET_IFNAME"), default);
    }
    assert_eq!(
        of(&[CAMPUS, SLURMS], Some("::ffff:10.1.0.7")).as_deref(),
        Some("eth1"),
        "srun's over both families"
    );
    let narrow = "10.1.2.0/24 via 10.3.0.1 dev eth2";
    assert_eq!(
        of(&[CAMPUS, SLURMS, narrow], Some("10.1.2.7")).as_deref(),
        Some("eth2")
    );
    assert_eq!(
        of(&[CAMPUS, SLURMS, narrow], Some("10.1.3.7")).as_deref(),
        Some("eth1")
    );
    let backup = "0.0.0.0/0 via 10.9.0.1 dev wwan0 metric 700";
    assert_eq!(
        of(&[backup, CAMPUS], None).as_deref(),
        Some("eth0"),
        "the least metric"
    );
    assert_eq!(of(&[SLURMS], None), None, "no default route");
    let none = situation(&[SLURMS], None).why(&task(&[1], &[1]), "TP_SOCKET_IFNAME");
    assert_eq!(none, "no IPv4 route of this node tells its interface");
    let mut planned = situation(&[], None);
    planned.topology.provenance = Provenance::File("node.json".to_string());
    assert_eq!(
        planned.why(&task(&[1], &[1]), "TP_SOCKET_IFNAME"),
        "the interface is known on the node alone"
    );
}

#[test]
fn no_interface_of_containers_storage_or_one_that_is_down_is_named() {
    let srun = Some("10.1.0.7");
    let with = |route: &str, more: &[(&'static str, &'static str)]| {
        gloo(&Situation {
            files: files(&[CAMPUS, SLURMS, route], more),
            ..situation(&[], srun)
        })
    };
    let nearer = |interface: &str| format!("10.1.0.0/24 dev {interface}");
    assert_eq!(
        with(&nearer("ib0"), &[]).as_deref(),
        Some("ib0"),
        "it would be the one"
    );
    let bridge = "DEVTYPE=bridge\n";
    for (route, more) in [
        (nearer("lo"), &[][..]),
        (nearer("a,b"), &[]),
        (
            nearer("docker0"),
            &[("/sys/class/net/docker0/uevent", bridge)],
        ),
        (nearer("ib0"), &[("/sys/class/net/ib0/operstate", "down\n")]),
        ("10.1.0.7/32 dev cali7".to_string(), &[]),
        ("10.1.0.0/24 via 0.0.0.0 dev swp1".to_string(), &[]),
    ] {
        assert_eq!(with(&route, more).as_deref(), Some("eth1"), "{route}");
    }
    let own = "10.1.0.0/24 via 10.2.0.1 dev br0";
    assert_eq!(
        with(own, &[("/sys/class/net/br0/uevent", bridge)]).as_deref(),
        Some("br0"),
        "the node's own bridge"
    );
    for (interface, expected) in [("ib3", "eth1"), ("ib3.8001", "eth1"), ("ib30", "ib30")] {
        let mut storage = situation(&[CAMPUS, SLURMS, &nearer(interface)], srun);
        storage.topology.nics[3].netdevs = vec!["ib3".to_string()];
        assert_eq!(
            gloo(&storage).as_deref(),
            Some(interface),
            "its use is not known"
        );
        storage.topology.nics[3].role = Some(NicRole::Storage);
        assert_eq!(gloo(&storage).as_deref(), Some(expected));
        storage.topology.nics[3].role = Some(NicRole::Management);
        assert_eq!(gloo(&storage).as_deref(), Some(interface), "Slurm's own");
    }
    let cut: Files = &[("/proc/net/route", "Iface\n…")];
    let why = Situation {
        files: cut,
        ..situation(&[], srun)
    }
    .why(&task(&[1], &[1]), "GLOO_SOCKET_IFNAME");
    assert_eq!(why, "the node's routes are not known");
}

#[test]
fn nccl_keeps_all_interfaces_where_its_data_go_by_them() {
    let here = || situation(&[CAMPUS, SLURMS], Some("10.1.0.7"));
    let task = task(&[1], &[1]);
    for (name, value) in [
        ("NCCL_IB_DISABLE", "1"),
        ("NCCL_NET", "socket"),
        ("NCCL_COMM_ID", "10.1.0.7:4000"),
        ("NCCL_SOCKET_FAMILY", "AF_INET6"),
    ] {
        assert_eq!(
            here().with(&[(name, value)]).changes(&task),
            ETH1[1..],
            "{name}={value}"
        );
    }
    for (name, value) in [
        ("NCCL_IB_DISABLE", "0"),
        ("NCCL_NET", "IB"),
        ("NCCL_SOCKET_FAMILY", "AF_INET"),
    ] {
        assert_eq!(
            here().with(&[(name, value)]).changes(&task),
            ETH1,
            "{name}={value}"
        );
    }
    let mut by_sockets = here();
    by_sockets.node.rails.clear();
    let task = super::task(&[1], &[]);
    assert_eq!(by_sockets.changes(&task), ETH1[1..]);
    assert!(
        by_sockets
            .why(&task, "NCCL_SOCKET_IFNAME")
            .starts_with("no NIC of this node but by sockets")
    );
    by_sockets
        .topology
        .nics
        .iter_mut()
        .for_each(|nic| nic.kind = NicKind::Efa);
    assert_eq!(by_sockets.changes(&task), ETH1);
    let ipv6 = here().with(&[("NVSHMEM_BOOTSTRAP_UID_SOCK_FAMILY", "AF_INET6")]);
    assert_eq!(ipv6.changes(&task), [ETH1[0], ETH1[2], ETH1[3]]);
}

#[test]
fn an_interface_that_nccls_files_name_is_not_replaced() {
    for file in ["/etc/nccl.conf", "/home/me/.nccl.conf"] {
        let files = files(&[CAMPUS, SLURMS], &[(file, "NCCL_SOCKET_IFNAME=ib0\n")]);
        let here = Situation {
            files,
            ..situation(&[], Some("10.1.0.7"))
        }
        .with(&[("HOME", "/home/me")]);
        assert_eq!(here.changes(&task(&[1], &[1])), ETH1[1..], "{file}");
        assert_eq!(
            here.why(&task(&[1], &[1]), "NCCL_SOCKET_IFNAME"),
            format!("`{file}` sets it")
        );
    }
}

#[test]
fn a_template_takes_the_interface_also_where_all_tasks_must_have_the_same() {
    let here = situation(&[CAMPUS, SLURMS], Some("10.1.0.7")).libraries(&["site"]);
    let set = here
        .clone()
        .set("NCCL_SOCKET_IFNAME=={interface}")
        .set("MY_NIC={nic}@{interface}");
    assert_eq!(
        set.changes(&task(&[1], &[1])),
        [ETH1[0], "MY_NIC=mlx5_1@eth1"]
    );
    assert_eq!(
        Template::parse("GLOO_SOCKET_IFNAME={interface}").unwrap().1,
        None,
        "no doubt"
    );
    let nowhere = Situation { files: &[], ..here }.set("MINE={interface}");
    assert_eq!(
        nowhere.why(&task(&[1], &[1]), "MINE"),
        "the admin's `set=`: there is no `{interface}` here"
    );
}

#[test]
fn the_kernels_table_is_not_read_where_no_interface_is_wanted() {
    let (topology, node) = node(PortState::Active);
    let read = |path: &str| -> Option<FileText> { panic!("{path}") };
    let wish = Wish {
        libraries: wanted::Libraries::NONE,
        ..Wish::default()
    };
    assert!(
        Prepared::new(&topology, &node, wish.into(), &Step::default(), &read)
            .interface
            .is_err()
    );
}
