//! A port at half its rate: when NCCL's list leaves it out, by the answers of NCCL 2.30.7's own search.

use super::*;
use crate::policy;
use nic_placement_node::platform;

/// NCCL's list for a node of this model with these NICs at half their rate; UCX's for its first task is asserted to keep its NIC.
fn list(model: &str, slow: &[&str], variables: &[(&str, &str)], files: Files) -> Option<String> {
    let mut topology = platform::model(model).unwrap();
    for nic in topology
        .nics
        .iter_mut()
        .filter(|nic| slow.contains(&nic.name.as_str()))
    {
        nic.ports[0].rate_mbps = nic.ports[0].rate_mbps.map(|mbps| mbps / 2);
    }
    let node = policy::map(&topology, &Wish::default());
    let first = node.gpus[0].choices[0].rail;
    let own = node.rail(first).to_string();
    let situation = Situation {
        present: present(variables),
        node,
        topology,
        wish: Wish::default(),
        step: Step::default(),
        files,
    };
    let task = task(&[0], &[first.0]);
    let ucx = situation.value(&task, "UCX_NET_DEVICES").unwrap();
    assert!(ucx.starts_with(&own), "{ucx}");
    if slow.contains(&"mlx5_0") {
        assert_eq!(
            own, "mlx5_0:1",
            "a near NIC at half its rate is still its GPU's best"
        );
    }
    situation.value(&task, "NCCL_IB_HCA")
}

#[test]
fn nccls_list_leaves_slow_ports_out_while_the_others_carry_three_quarters() {
    let compute = [
        "mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11",
    ];
    let listed = |model: &str, slow: &[&str]| list(model, slow, &[], &[]).unwrap();
    let without = |slow: &[&str]| {
        let others = compute.iter().filter(|name| !slow.contains(name));
        format!(
            "={}",
            others
                .map(|name| format!("{name}:1"))
                .collect::<Vec<_>>()
                .join(",")
        )
    };
    assert_eq!(
        listed("dgx-h100", &[]),
        without(&[]),
        "storage's are left out anyway"
    );
    assert_eq!(
        listed("dgx-h100", &compute[..1]),
        without(&compute[..1]),
        "192 GB/s with it, 336 without"
    );
    assert_eq!(listed("dgx-h100", &compute[..2]), without(&compute[..2]));
    assert_eq!(
        listed("dgx-h100", &compute[..4]),
        without(&[]),
        "288 GB/s with them, 192 without"
    );
    assert_eq!(
        listed("dgx-h100", &compute[..7]),
        without(&[]),
        "the rate of most is the fabric's"
    );
    assert_eq!(
        list("gb200-nvl72", &["mlx5_0"], &[], &[]).as_deref(),
        Some("=mlx5_1:1,mlx5_3:1,mlx5_4:1")
    );
}

#[test]
fn nccls_list_leaves_no_slow_port_out_where_the_bus_hides_the_switches_and_no_file_tells_of_them() {
    const TOPO_FILE: &str = "NCCL_TOPO_FILE";
    let slow = |variables: &[(&str, &str)], files| {
        list("azure-nd96isr-h100-v5", &["mlx5_0"], variables, files)
            .is_some_and(|list| !list.contains("mlx5_0:"))
    };
    assert!(!slow(&[], &[]), "300 GB/s with it, 140 without");
    assert!(
        slow(&[(TOPO_FILE, "/opt/ndv5.xml")], &[]),
        "192 GB/s with it, 336 without"
    );
    assert!(slow(
        &[],
        &[("/etc/nccl.conf", "NCCL_TOPO_FILE=/opt/ndv5.xml\n")]
    ));
}

#[test]
fn nccls_list_leaves_out_a_card_as_a_whole_or_not_at_all() {
    let list = list("oci-bm-gpu-h100-8", &["mlx5_1"], &[], &[]).unwrap();
    assert!(
        !list.contains("mlx5_0:") && !list.contains("mlx5_1:") && list.contains("mlx5_3:1"),
        "{list}"
    );
}

#[test]
fn nccls_list_has_a_slower_kind_of_nic_which_other_nodes_have_too() {
    let mut topology = platform::model("dgx-h100").unwrap();
    let slow = topology
        .nics
        .iter_mut()
        .find(|nic| nic.name == "mlx5_0")
        .unwrap();
    slow.ports[0].rate_mbps = Some(200_000);
    let function = topology.pci.get(slow.address.unwrap()).unwrap().clone();
    topology.pci.insert(crate::topology::PciFunction {
        device: Some(0x101b),
        ..function
    });
    let node = policy::map(&topology, &Wish::default());
    let situation = Situation {
        present: present(&[]),
        node,
        topology,
        wish: Wish::default(),
        step: Step::default(),
        files: &[],
    };
    assert!(
        situation
            .value(&task(&[0], &[0]), "NCCL_IB_HCA")
            .unwrap()
            .starts_with("=mlx5_0:1,mlx5_3:1,")
    );
}
