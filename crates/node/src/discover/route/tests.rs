//! Routes, bonds and SR-IOV on trees written for them, and what a step reads of a NIC.

mod namespace;

use crate::discover::manifest::Entry;
use crate::discover::synthesise::synthesise;
use crate::discover::{Root, Scope, discover};
use crate::file::{self, MAX_NETWORKS};
use crate::platform::recognise::{Dmi, recognise, supply};
use nic_placement_core::policy;
use nic_placement_core::wish::Wish;
use nic_placement_topology::diagnostic::Diagnostic;
use nic_placement_topology::{NicRole, Port, Provenance, SubnetPrefix, Topology};

const HEADER: &str =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";

/// The DGX H100 with files added, as a step reads it.
fn dgx(files: &[(&str, &str)]) -> Topology {
    dgx_and_findings(files).0
}

fn dgx_and_findings(files: &[(&str, &str)]) -> (Topology, Vec<Diagnostic>) {
    let mut machine = synthesise(&crate::platform::model("dgx-h100").unwrap());
    // every interface in its class, as in a real tree
    let interfaces: Vec<String> = machine
        .iter()
        .filter_map(|(path, _)| {
            path.split_once("/net/")
                .map(|(parent, name)| format!("{parent}/net/{name}"))
        })
        .filter(|path| path.starts_with("sys/devices"))
        .collect();
    for path in interfaces {
        let name = path.rsplit('/').next().unwrap().to_string();
        let target = format!("../../{}", path.strip_prefix("sys/").unwrap());
        machine.insert(&format!("sys/class/net/{name}"), Entry::Link(target));
    }
    for (path, text) in files {
        let entry = match text.strip_prefix("-> ") {
            Some(target) => Entry::Link(target.to_string()),
            None => Entry::File(text.to_string()),
        };
        machine.insert(path, entry);
    }
    discover(
        &Root::manifest(machine),
        Scope::Placement,
        Provenance::ThisSystem,
    )
}

fn routes(lines: &[&str]) -> String {
    [&[HEADER], lines].concat().join("\n")
}

fn port<'a>(topology: &'a Topology, name: &str) -> &'a Port {
    &topology
        .nics
        .iter()
        .find(|nic| nic.name == name)
        .unwrap()
        .ports[0]
}

/// The NICs by which a default route leaves, and its interface.
fn default_routes(topology: &Topology) -> Vec<(&str, &str)> {
    let ports = topology
        .nics
        .iter()
        .flat_map(|nic| nic.ports.iter().map(move |port| (nic, port)));
    ports
        .filter_map(|(nic, port)| Some((nic.name.as_str(), port.default_route.as_deref()?)))
        .collect()
}

#[test]
fn the_default_route_is_found_on_its_own_interface_and_below_bonds_and_vlans() {
    let route = |interface: &str| {
        routes(&[&format!(
            "{interface}\t00000000\t0101000A\t0003\t0\t0\t100\t00000000\t0\t0\t0"
        )])
    };
    let pci = "../../../pci0000:28/0000:28:01.0";
    let bond = [
        (
            "sys/class/net/bond0",
            "-> ../../devices/virtual/net/bond0".to_string(),
        ),
        (
            "sys/devices/virtual/net/bond0/lower_ibp41s0f0",
            format!("-> ../{pci}/0000:29:00.0/net/ibp41s0f0"),
        ),
        (
            "sys/devices/virtual/net/bond0/lower_enp41s0f1np1",
            format!("-> ../{pci}/0000:29:00.1/net/enp41s0f1np1"),
        ),
        (
            "sys/class/net/bond0.7",
            "-> ../../devices/virtual/net/bond0.7".to_string(),
        ),
        (
            "sys/devices/virtual/net/bond0.7/lower_bond0",
            "-> ../bond0".to_string(),
        ),
    ];
    for (interface, expected) in [
        ("ibp41s0f0", vec![("mlx5_1", "ibp41s0f0")]),
        ("bond0", vec![("mlx5_1", "bond0"), ("mlx5_2", "bond0")]),
        (
            "bond0.7",
            vec![("mlx5_1", "bond0.7"), ("mlx5_2", "bond0.7")],
        ),
        ("eno1", vec![]),
        ("../../etc", vec![]),
    ] {
        let table = route(interface);
        let mut files: Vec<(&str, &str)> = vec![("proc/net/route", &table)];
        files.extend(bond.iter().map(|(path, text)| (*path, text.as_str())));
        assert_eq!(default_routes(&dgx(&files)), expected, "{interface}");
    }
}

#[test]
fn a_route_by_an_interface_of_a_virtual_machine_leaves_by_the_function_that_carries_its_traffic() {
    let bus = "sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/000d3a75-0f1c-000d-3a75-0f1c000d3a75";
    let interface = format!("{bus}/net/eth0");
    let lower = format!("{interface}/lower_enp41s0f1np1");
    let function = "-> ../../../../../../../pci0000:28/0000:28:01.0/0000:29:00.1/net/enp41s0f1np1";
    let table = routes(&[
        "eth0\t00000000\t0101000A\t0003\t0\t0\t100\t00000000\t0\t0\t0",
        "eth0\t0001000A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0",
    ]);
    let found = dgx(&[
        ("proc/net/route", &table),
        (
            "sys/class/net/eth0",
            &format!("-> ../../{}", interface.strip_prefix("sys/").unwrap()),
        ),
        (&lower, function),
    ]);
    assert_eq!(default_routes(&found), [("mlx5_2", "eth0")]);
    assert_eq!(
        port(&found, "mlx5_2").networks,
        ["10.0.1.0/24".parse().unwrap()]
    );
}

#[test]
fn of_several_default_routes_the_one_with_the_least_metric_counts() {
    let table = routes(&[
        "ibp24s0\t00000000\t0101000A\t0003\t0\t0\t300\t00000000\t0\t0\t0",
        "ibp41s0f0\t00000000\t0101000A\t0003\t0\t0\t100\t00000000\t0\t0\t0",
        // not up, refused, and no default at all
        "ibp64s0\t00000000\t0101000A\t0002\t0\t0\t0\t00000000\t0\t0\t0",
        "ibp64s0\t00000000\t0101000A\t0203\t0\t0\t0\t00000000\t0\t0\t0",
        "ibp64s0\t0000000A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0",
        "nonsense",
    ]);
    assert_eq!(
        default_routes(&dgx(&[("proc/net/route", &table)])),
        [("mlx5_1", "ibp41s0f0")]
    );
}

#[test]
fn a_metric_of_more_than_two_billions_is_printed_as_less_than_nothing_and_is_the_largest() {
    let last = "ibp24s0\t00000000\t0101000A\t0003\t0\t0\t-16777216\t00000000\t0\t0\t0";
    let first = "ibp41s0f0\t00000000\t0101000A\t0003\t0\t0\t100\t00000000\t0\t0\t0";
    assert_eq!(
        default_routes(&dgx(&[("proc/net/route", &routes(&[last]))])),
        [("mlx5_0", "ibp24s0")]
    );
    let found = dgx(&[("proc/net/route", &routes(&[last, first]))]);
    assert_eq!(default_routes(&found), [("mlx5_1", "ibp41s0f0")]);
}

#[test]
fn an_ipv6_default_route_counts_where_there_is_no_other() {
    let none = "0".repeat(32);
    let line = |interface: &str, metric: &str, flags: &str| {
        format!(
            "{none} 00 {none} 00 fe800000000000000000000000000001 {metric} 00000001 00000000 {flags} {interface}"
        )
    };
    let table = [
        line("ibp41s0f0", "00000400", "00450003"),
        line("ibp24s0", "00000401", "00450003"),
        line("lo", "ffffffff", "00200200"),
        format!(
            "fe8{} 40 {none} 00 {none} 00000100 00000001 00000000 00000001 ibp64s0",
            "0".repeat(29)
        ),
    ]
    .join("\n");
    let found = dgx(&[("proc/net/ipv6_route", &table)]);
    assert_eq!(default_routes(&found), [("mlx5_1", "ibp41s0f0")]);
    let ipv4 = routes(&["eno1\t00000000\t0101000A\t0003\t0\t0\t100\t00000000\t0\t0\t0"]);
    assert_eq!(
        default_routes(&dgx(&[
            ("proc/net/ipv6_route", &table),
            ("proc/net/route", &ipv4)
        ])),
        []
    );
}

#[test]
fn the_networks_of_an_interface_are_those_it_is_in() {
    let table = routes(&[
        "ibp24s0\t0002010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0",
        "ibp24s0\t0001010A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0",
        // through a gateway, one host, link-local
        "ibp24s0\t0000A8C0\t0101010A\t0003\t0\t0\t0\t0000FFFF\t0\t0\t0",
        "ibp24s0\t0901010A\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0",
        "ibp24s0\t0000FEA9\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0",
    ]);
    let found = dgx(&[("proc/net/route", &table)]);
    assert_eq!(
        port(&found, "mlx5_0").networks,
        ["10.1.1.0/24", "10.1.2.0/24"].map(|text| text.parse().unwrap())
    );
    assert_eq!(port(&found, "mlx5_3").networks, []);
}

#[test]
fn as_many_networks_are_kept_as_a_topology_file_can_hold_and_the_others_are_counted() {
    let read = |networks: u32| {
        let line = |network: u32| {
            let [_, _, high, low] = network.to_be_bytes();
            let (destination, mask) = ([10, high, low, 0], [255, 255, 255, 0]);
            let [destination, mask] = [destination, mask].map(u32::from_ne_bytes);
            format!("ibp24s0\t{destination:08X}\t00000000\t0001\t0\t0\t0\t{mask:08X}\t0\t0\t0")
        };
        let lines: Vec<String> = (0..networks).map(line).collect();
        let table = routes(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let (topology, diagnostics) = dgx_and_findings(&[("proc/net/route", &table)]);
        let said: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
        // what is written can be read again
        let json = file::to_json(&topology);
        let again = file::from_json(&json, Provenance::ThisSystem).unwrap();
        (port(&again, "mlx5_0").networks.len(), said)
    };
    assert_eq!(read(100), (100, Vec::new()));
    assert_eq!(read(MAX_NETWORKS as u32), (MAX_NETWORKS, Vec::new()));
    let dropped = "`/proc/net/route`: 1000 networks more than the 16384 that are kept".to_string();
    assert_eq!(
        read(MAX_NETWORKS as u32 + 1000),
        (MAX_NETWORKS, vec![dropped])
    );
}

#[test]
fn an_address_of_which_the_table_has_no_network_is_found_among_a_ports_gids() {
    let function = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0";
    let port_of = format!("{function}/infiniband/mlx5_0/ports/1");
    let own = "ibp24s0\t0000000A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0";
    let found = |layer: &str, route: Option<&str>, index: u32, gid: &str| {
        let (layer_at, gid_at) = (
            format!("{port_of}/link_layer"),
            format!("{port_of}/gids/{index}"),
        );
        let first = (
            format!("{port_of}/gids/0"),
            "fe80:0000:0000:0000:0000:00ff:fe00:0001",
        );
        let table = route.map(|route| ("proc/net/route", routes(&[route])));
        let mut files = vec![
            (layer_at.as_str(), layer),
            (first.0.as_str(), first.1),
            (gid_at.as_str(), gid),
        ];
        files.extend(table.iter().map(|(path, text)| (*path, text.as_str())));
        port(&dgx(&files), "mlx5_0").routes_elsewhere
    };
    let (ipv6, mapped) = (
        "fc01:0000:0003:0000:0000:0000:0000:0001",
        "0000:0000:0000:0000:0000:ffff:0a00:0001",
    );
    assert!(found("Ethernet", Some(""), 2, ipv6) && found("Ethernet", Some(""), 7, mapped));
    assert!(
        !found("Ethernet", Some(own), 2, mapped),
        "its network is known"
    );
    assert!(
        !found("Ethernet", None, 2, mapped),
        "a capture without the table tells nothing"
    );
    assert!(
        !found("InfiniBand", Some(""), 2, ipv6),
        "InfiniBand has no such addresses"
    );
    for of_the_link in [
        "0000:0000:0000:0000:0000:0000:0000:0000",
        "0000:0000:0000:0000:0000:ffff:a9fe:0001",
        "",
    ] {
        assert!(
            !found("Ethernet", Some(""), 2, of_the_link),
            "`{of_the_link}`"
        );
    }
}

#[test]
fn the_ports_of_one_function_are_told_by_their_interfaces_numbers() {
    let mut machine = crate::platform::model("dgx-h100").unwrap();
    let nic = &mut machine.nics[0];
    nic.ports.push(Port {
        number: 2,
        ..nic.ports[0].clone()
    });
    nic.netdevs = vec!["ib0".to_string(), "ib1".to_string()];
    nic.ports[1].default_route = Some("bond0".to_string());
    nic.ports[1].networks = vec!["10.1.0.0/16".parse().unwrap()];
    let scope = Scope::Placement;
    let (found, _) = discover(
        &Root::manifest(synthesise(&machine)),
        scope,
        Provenance::ThisSystem,
    );
    let ports = &found.nics[0].ports;
    let of = |port: &Port| (port.default_route.clone(), port.networks.len());
    assert_eq!(
        (of(&ports[0]), of(&ports[1])),
        ((None, 0), (Some("bond0".to_string()), 1))
    );
}

#[test]
fn a_step_reads_the_device_nodes_subnets_and_virtual_functions_of_nics() {
    let function = "sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0";
    let found = dgx(&[
        (&format!("{function}/sriov_numvfs"), "4"),
        (
            "sys/devices/pci0000:28/0000:28:01.0/0000:29:00.1/physfn",
            "-> ../0000:29:00.0",
        ),
        (
            "sys/devices/pci0000:28/0000:28:01.0/0000:29:00.0/sriov_numvfs",
            "0",
        ),
        (
            &format!("{function}/infiniband/mlx5_0/ports/1/gids/0"),
            "fe80:0000:0000:0007:b859:9f03:00d4:1a2e",
        ),
    ]);
    let function = |name: &str| {
        let nic = found.nics.iter().find(|nic| nic.name == name).unwrap();
        found.pci.get(nic.address.unwrap()).unwrap()
    };
    assert_eq!(
        (
            function("mlx5_0").vfs,
            function("mlx5_1").vfs,
            function("mlx5_2").vfs
        ),
        (Some(4), None, None)
    );
    assert_eq!(function("mlx5_2").physfn, Some("29:00.0".parse().unwrap()));
    assert_eq!(function("mlx5_0").device, Some(0x1021));
    assert_eq!(
        port(&found, "mlx5_0").subnet,
        Some(SubnetPrefix(0xfe80_0000_0000_0007))
    );
    let uverbs: Vec<Option<&str>> = found
        .nics
        .iter()
        .take(3)
        .map(|nic| nic.uverbs.as_deref())
        .collect();
    assert_eq!(uverbs, [Some("uverbs0"), Some("uverbs1"), Some("uverbs2")]);
}

/// What the sources of the built-in models call a NIC that is not for the fabric, by the machine's own DMI names.
#[test]
fn the_decoys_of_a_recognised_machine_are_left_out_of_what_a_step_reads() {
    let mut told = 0;
    for model in crate::platform::MODELS {
        let described = model.topology().unwrap();
        let machine = synthesise(&described);
        let (mut live, _) = discover(
            &Root::manifest(machine),
            Scope::Placement,
            Provenance::ThisSystem,
        );
        let Some(known) = recognise(&Dmi::default(), &live) else {
            continue;
        };
        assert_eq!(known.name, model.name);
        supply(&mut live, known);
        let rails = policy::map(&live, &Wish::default()).rails;
        for nic in &described.nics {
            let is_rail = rails.iter().any(|rail| rail.name == nic.name);
            if matches!(nic.role, Some(NicRole::Storage | NicRole::Management)) {
                assert!(
                    !is_rail,
                    "{}: {} is a {:?} NIC",
                    model.name, nic.name, nic.role
                );
                told += 1;
            }
        }
    }
    assert!(told >= 12, "only {told} decoys were tried");
}
