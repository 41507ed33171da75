//! A port at half its rate: when NCCL's list leaves it out, by the answers of NCCL 2.30.7's own search.

use super::*;

/// The first GPU of a node of this model with these NICs at half their rate.
fn slowed(name: &str, slow: &[&str]) -> Situation {
    let mut topology = nic_placement_node::platform::model(name).unwrap();
    let is_slow = |nic: &&mut Nic| slow.contains(&nic.name.as_str());
    for nic in topology.nics.iter_mut().filter(is_slow) {
        nic.ports[0].rate_mbps = nic.ports[0].rate_mbps.map(|mbps| mbps / 2);
    }
    mapped(topology, &[], 0)
}

/// NCCL's list; UCX's keeps the NIC of the task.
fn list(situation: Situation) -> String {
    let own = situation.node.rail(situation.task.rails[0].0);
    let ucx = situation.value("UCX_NET_DEVICES");
    assert!(ucx.starts_with(&own.to_string()), "{ucx}");
    situation.value("NCCL_IB_HCA")
}

#[test]
fn nccls_list_leaves_slow_ports_out_while_the_others_carry_three_quarters() {
    let compute = [0, 3, 4, 5, 6, 9, 10, 11].map(|nth| format!("mlx5_{nth}"));
    let compute = compute.each_ref().map(String::as_str);
    for (slow, left_out) in [
        // storage's are left out anyway
        (0, 0),
        // 192 GB/s with it, 336 without
        (1, 1),
        (2, 2),
        // 288 GB/s with them, 192 without
        (4, 0),
        // the rate of most is the fabric's
        (7, 0),
    ] {
        let situation = slowed("dgx-h100", &compute[..slow]);
        // a near NIC at half its rate is still its GPU's best
        let found = &situation.node.rail(situation.task.rails[0].0).name;
        assert_eq!(*found, "mlx5_0");
        let why = situation.why("NCCL_IB_HCA");
        assert_eq!(why.contains("mlx5_0:1 and 1 more"), left_out == 2, "{why}");
        let expected = compute[left_out..].join(":1,");
        assert_eq!(list(situation), format!("={expected}:1"), "{slow} are slow");
    }
    let gb200 = slowed("gb200-nvl72", &["mlx5_0"]);
    assert_eq!(list(gb200), "=mlx5_1:1,mlx5_3:1,mlx5_4:1");
}

#[test]
fn nccls_list_leaves_no_slow_port_out_where_the_bus_hides_the_switches_and_no_file_tells_of_them() {
    let azure = || slowed("azure-nd96isr-h100-v5", &["mlx5_0"]);
    // 300 GB/s with it, 140 without
    let unknown = list(azure());
    let is_right = unknown.is_empty() || unknown.contains("mlx5_0:");
    assert!(is_right, "{unknown}");
    // 192 GB/s with it, 336 without
    let topo = "NCCL_TOPO_FILE=/opt/ndv5.xml";
    for situation in [azure().env(&[topo]), azure().file("/etc/nccl.conf", topo)] {
        let known = list(situation);
        assert!(!known.is_empty() && !known.contains("mlx5_0:"), "{known}");
    }
}

#[test]
fn nccls_list_leaves_out_a_card_as_a_whole_or_not_at_all() {
    let list = list(slowed("oci-bm-gpu-h100-8", &["mlx5_1"]));
    let ports = ["mlx5_0:", "mlx5_1:", "mlx5_3:1"];
    let found = ports.map(|port| list.contains(port));
    assert_eq!(found, [false, false, true], "{list}");
}

#[test]
fn nccls_list_has_a_slower_kind_of_nic_which_other_nodes_have_too() {
    let mut topology = slowed("dgx-h100", &["mlx5_0"]).topology;
    let slow = topology.nic(topology.nic_index("mlx5_0").unwrap());
    let mut function = topology.pci.get(slow.address.unwrap()).unwrap().clone();
    function.device = Some(0x101b);
    topology.pci.insert(function);
    assert!(list(mapped(topology, &[], 0)).starts_with("=mlx5_0:1,mlx5_3:1,"));
}
