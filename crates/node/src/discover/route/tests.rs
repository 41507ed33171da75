//! Routes, bonds and SR-IOV on trees written for them, and what a step reads of a NIC.

mod namespace;

use crate::discover::Scope;
use crate::discover::synthesise::synthesise;
use crate::discover::tests::{MLX5_0, add, map, nic, read, texts};
use crate::file::{self, MAX_NETWORKS};
use crate::platform::recognise::{Dmi, recognise, supply};
use nic_placement_topology::diagnostic::Diagnostic;
use nic_placement_topology::{Nic, NicRole, Provenance, SubnetPrefix, Topology};

/// The DGX H100 with files (`PATH=TEXT`) and links (`PATH -> TARGET`) added, as a step reads it.
fn dgx(files: &[String]) -> Topology {
    dgx_and_findings(files).0
}

fn dgx_and_findings(files: &[String]) -> (Topology, Vec<Diagnostic>) {
    let mut machine = synthesise(&crate::platform::model("dgx-h100").unwrap());
    // every interface in its class, as in a real tree
    let interfaces = machine.iter().filter_map(|(path, _)| {
        let (parent, name) = path.strip_prefix("sys/devices/")?.split_once("/net/")?;
        let target = format!("../../devices/{parent}/net/{name}");
        Some(format!("sys/class/net/{name} -> {target}"))
    });
    let interfaces: Vec<String> = interfaces.collect();
    add(&mut machine, interfaces.iter().chain(files));
    read(machine, Scope::Placement)
}

const HEADER: &str =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT";

/// The kernel's table, of lines with `interface destination gateway flags metric mask`.
fn routes<T: AsRef<str>>(lines: &[T]) -> String {
    let line = |line: &T| match line.as_ref().split(' ').collect::<Vec<_>>()[..] {
        [interface, to, by, flags, metric, mask] => {
            format!("\n{interface}\t{to}\t{by}\t{flags}\t0\t0\t{metric}\t{mask}\t0\t0\t0")
        }
        _ => format!("\n{}", line.as_ref()),
    };
    let lines: String = lines.iter().map(line).collect();
    format!("proc/net/route={HEADER}{lines}")
}

/// The NICs by which a default route leaves, and its interface: `mlx5_1 by bond0`.
fn default_routes(files: &[String]) -> Vec<String> {
    let found = dgx(files);
    let of_nic = |nic: &Nic| {
        let interfaces = nic
            .ports
            .iter()
            .filter_map(|port| port.default_route.clone());
        interfaces
            .map(|interface| format!("{} by {interface}", nic.name))
            .collect::<Vec<_>>()
    };
    found.nics.iter().flat_map(of_nic).collect()
}

#[test]
fn the_default_route_is_found_on_its_own_interface_and_below_bonds_and_vlans() {
    let function = "../../../pci0000:28/0000:28:01.0";
    let net = "../../devices/virtual/net";
    let below = "sys/devices/virtual/net/bond0";
    let bond = [
        format!("sys/class/net/bond0 -> {net}/bond0"),
        format!("{below}/lower_ibp41s0f0 -> ../{function}/0000:29:00.0/net/ibp41s0f0"),
        format!("{below}/lower_enp41s0f1np1 -> ../{function}/0000:29:00.1/net/enp41s0f1np1"),
        format!("sys/class/net/bond0.7 -> {net}/bond0.7"),
        format!("{below}.7/lower_bond0 -> ../bond0"),
    ];
    for (interface, expected) in [
        ("ibp41s0f0", &["mlx5_1 by ibp41s0f0"][..]),
        ("bond0", &["mlx5_1 by bond0", "mlx5_2 by bond0"]),
        ("bond0.7", &["mlx5_1 by bond0.7", "mlx5_2 by bond0.7"]),
        ("eno1", &[]),
        ("../../etc", &[]),
    ] {
        let table = routes(&[format!("{interface} 00000000 0101000A 0003 100 00000000")]);
        let files = [&bond[..], &[table]].concat();
        assert_eq!(default_routes(&files), expected, "{interface}");
    }
}

#[test]
fn a_route_by_an_interface_of_a_virtual_machine_leaves_by_the_function_that_carries_its_traffic() {
    let bus =
        "devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:00/000d3a75-0f1c-000d-3a75-0f1c000d3a75";
    let function = "../../../../../../../pci0000:28/0000:28:01.0/0000:29:00.1/net/enp41s0f1np1";
    let files = [
        routes(&[
            "eth0 00000000 0101000A 0003 100 00000000",
            "eth0 0001000A 00000000 0001 100 00FFFFFF",
        ]),
        format!("sys/class/net/eth0 -> ../../{bus}/net/eth0"),
        format!("sys/{bus}/net/eth0/lower_enp41s0f1np1 -> {function}"),
    ];
    assert_eq!(default_routes(&files), ["mlx5_2 by eth0"]);
    let found = dgx(&files);
    let networks = &nic(&found, "mlx5_2").ports[0].networks;
    assert_eq!(texts(networks), ["10.0.1.0/24"]);
}

#[test]
fn of_several_default_routes_the_one_with_the_least_metric_counts() {
    let [first, second] = ["ibp24s0", "ibp41s0f0"];
    // more than two billions are printed as less than nothing, and are the largest metric
    for (metric, expected) in [("300", second), ("-16777216", second), ("20", first)] {
        let table = routes(&[
            &format!("{first} 00000000 0101000A 0003 {metric} 00000000"),
            "ibp41s0f0 00000000 0101000A 0003 100 00000000",
            // not up, refused, and no default at all
            "ibp64s0 00000000 0101000A 0002 0 00000000",
            "ibp64s0 00000000 0101000A 0203 0 00000000",
            "ibp64s0 0000000A 00000000 0001 0 0000FFFF",
            "nonsense",
        ]);
        let [found] = default_routes(&[table]).try_into().unwrap();
        assert!(found.ends_with(expected), "{metric}: {found}");
    }
    let alone = routes(&["ibp24s0 00000000 0101000A 0003 -16777216 00000000"]);
    assert_eq!(default_routes(&[alone]), ["mlx5_0 by ibp24s0"]);
}

#[test]
fn an_ipv6_default_route_counts_where_there_is_no_other() {
    let none = "0".repeat(32);
    let line = |interface: &str, metric: &str, flags: &str| {
        let gateway = "fe800000000000000000000000000001";
        format!("{none} 00 {none} 00 {gateway} {metric} 00000001 00000000 {flags} {interface}")
    };
    let to = format!("fe8{}", "0".repeat(29));
    let local = format!("{to} 40 {none} 00 {none} 00000100 00000001 00000000");
    let table = [
        line("ibp41s0f0", "00000400", "00450003"),
        line("ibp24s0", "00000401", "00450003"),
        line("lo", "ffffffff", "00200200"),
        format!("{local} 00000001 ibp64s0"),
    ];
    let ipv6 = format!("proc/net/ipv6_route={}", table.join("\n"));
    let found = default_routes(std::slice::from_ref(&ipv6));
    assert_eq!(found, ["mlx5_1 by ibp41s0f0"]);
    let ipv4 = routes(&["eno1 00000000 0101000A 0003 100 00000000"]);
    assert_eq!(default_routes(&[ipv6, ipv4]), [""; 0]);
}

#[test]
fn the_networks_of_an_interface_are_those_it_is_in_as_many_as_a_topology_file_can_hold() {
    let table = routes(&[
        "ibp24s0 0002010A 00000000 0001 0 00FFFFFF",
        "ibp24s0 0001010A 00000000 0001 0 00FFFFFF",
        // through a gateway, one host, link-local
        "ibp24s0 0000A8C0 0101010A 0003 0 0000FFFF",
        "ibp24s0 0901010A 00000000 0005 0 FFFFFFFF",
        "ibp24s0 0000FEA9 00000000 0001 0 0000FFFF",
    ]);
    let found = dgx(&[table]);
    let networks = |name| texts(&nic(&found, name).ports[0].networks);
    assert_eq!(networks("mlx5_0"), ["10.1.1.0/24", "10.1.2.0/24"]);
    assert_eq!(networks("mlx5_3"), [""; 0]);
    const MOST: u32 = MAX_NETWORKS as u32;
    for (count, kept) in rows! {
        100, 100; MOST, MAX_NETWORKS; MOST + 1000, MAX_NETWORKS;
    } {
        let line = |network: u32| {
            let network = u32::from_ne_bytes([10, (network >> 8) as u8, network as u8, 0]);
            let mask = u32::from_ne_bytes([255, 255, 255, 0]);
            format!("ibp24s0 {network:08X} 00000000 0001 0 {mask:08X}")
        };
        let lines: Vec<String> = (0..count).map(line).collect();
        let (topology, diagnostics) = dgx_and_findings(&[routes(&lines)]);
        // the written node can be read again
        let json = file::to_json(&topology);
        let again = file::from_json(&json, Provenance::ThisSystem).unwrap();
        assert_eq!(nic(&again, "mlx5_0").ports[0].networks.len(), kept);
        let told = texts(diagnostics).concat();
        let answer = told.starts_with("`/proc/net/route`: 1000 networks more");
        assert_eq!(answer, count > MOST);
        assert_eq!(told.is_empty(), count <= MOST, "{told}");
    }
}

#[test]
fn an_address_of_which_the_table_has_no_network_is_found_among_a_ports_gids() {
    let ipv6 = "fc01:0000:0003:0000:0000:0000:0000:0001";
    let mapped = "0000:0000:0000:0000:0000:ffff:0a00:0001";
    let own = "ibp24s0 0000000A 00000000 0001 0 0000FFFF";
    for (layer, route, gid, expected) in rows! {
        "Ethernet", Some(""), ipv6, true;
        "Ethernet", Some(""), mapped, true;
        // its network is known
        "Ethernet", Some(own), mapped, false;
        // a capture without the table is no evidence
        "Ethernet", None, mapped, false;
        // InfiniBand has no such addresses
        "InfiniBand", Some(""), ipv6, false;
        // an empty place, and link-local
        "Ethernet", Some(""), "0000:0000:0000:0000:0000:0000:0000:0000", false;
        "Ethernet", Some(""), "0000:0000:0000:0000:0000:ffff:a9fe:0001", false;
        "Ethernet", Some(""), "", false;
    } {
        for index in [2, 7] {
            let port = format!("{MLX5_0}/infiniband/mlx5_0/ports/1");
            let mut files = vec![
                format!("{port}/link_layer={layer}"),
                format!("{port}/gids/0=fe80:0000:0000:0000:0000:00ff:fe00:0001"),
                format!("{port}/gids/{index}={gid}"),
            ];
            files.extend(route.map(|route| routes(&[route])));
            let found = nic(&dgx(&files), "mlx5_0").ports[0].routes_elsewhere;
            assert_eq!(found, expected, "{layer} {route:?} {gid}");
        }
    }
}

#[test]
fn the_ports_of_one_function_are_told_by_their_interfaces_numbers() {
    let mut machine = crate::platform::model("dgx-h100").unwrap();
    let nic = &mut machine.nics[0];
    let mut second = nic.ports[0].clone();
    second.number = 2;
    second.default_route = Some("bond0".to_string());
    second.networks = vec!["10.1.0.0/16".parse().unwrap()];
    nic.ports.push(second);
    nic.netdevs = vec!["ib0".to_string(), "ib1".to_string()];
    let (found, _) = read(synthesise(&machine), Scope::Placement);
    let ports = found.nics[0].ports.iter();
    let of = ports.map(|port| (port.default_route.as_deref(), port.networks.len()));
    assert!(of.eq([(None, 0), (Some("bond0"), 1)]));
}

#[test]
fn a_step_reads_the_device_nodes_subnets_and_virtual_functions_of_nics() {
    let other = "sys/devices/pci0000:28/0000:28:01.0";
    let gid = "fe80:0000:0000:0007:b859:9f03:00d4:1a2e";
    let found = dgx(&[
        format!("{MLX5_0}/sriov_numvfs=4"),
        format!("{other}/0000:29:00.1/physfn -> ../0000:29:00.0"),
        format!("{other}/0000:29:00.0/sriov_numvfs=0"),
        format!("{MLX5_0}/infiniband/mlx5_0/ports/1/gids/0={gid}"),
    ]);
    let names = ["mlx5_0", "mlx5_1", "mlx5_2"];
    let nics = names.map(|name| nic(&found, name));
    let functions = nics.map(|nic| found.pci.get(nic.address.unwrap()).unwrap());
    let told = functions.map(|function| function.vfs);
    assert_eq!(told, [Some(4), None, None]);
    assert_eq!(functions[2].physfn, Some("29:00.0".parse().unwrap()));
    assert_eq!(functions[0].device, Some(0x1021));
    let subnet = Some(SubnetPrefix(0xfe80_0000_0000_0007));
    assert_eq!(nics[0].ports[0].subnet, subnet);
    let uverbs = nics.map(|nic| nic.uverbs.as_deref().unwrap());
    assert_eq!(uverbs, ["uverbs0", "uverbs1", "uverbs2"]);
}

/// By the sources of the built-in models; the machine has its own DMI names.
#[test]
fn the_decoys_of_a_recognised_machine_are_left_out_of_what_a_step_reads() {
    let mut told = 0;
    for model in crate::platform::MODELS {
        let described = model.topology().unwrap();
        let (mut live, _) = read(synthesise(&described), Scope::Placement);
        let Some(known) = recognise(&Dmi::default(), &live) else {
            continue;
        };
        assert_eq!(known.name, model.name);
        supply(&mut live, known);
        let rails = map(&live).rails;
        for nic in &described.nics {
            if let Some(role @ (NicRole::Storage | NicRole::Management)) = nic.role {
                let is_rail = rails.iter().any(|rail| rail.name == nic.name);
                assert!(!is_rail, "{}: {} is a {role:?} NIC", model.name, nic.name);
                told += 1;
            }
        }
    }
    assert!(told >= 12, "only {told} decoys were tried");
}
