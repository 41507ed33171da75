//! What only a whole plan shows: facts that pass from one module to another.

use super::*;
use crate::config::Words;
use crate::libraries::{FileText, Present};
use crate::placement::Change;
use crate::step::TaskGpus;
use crate::topology::CpuSet;
use crate::topology::GpuIndex;
use crate::topology::{LinkLayer, PciAddress, Provenance};
use crate::wish::Admin;
use nic_placement_node::discover::manifest::{Entry, Manifest};
use nic_placement_node::discover::{Root, Scope, discover};
use nic_placement_node::platform;
use nic_placement_testing::synthesise::synthesise;

mod seen;

const ALL: &str = "0,1,2,3,4,5,6,7";

#[test]
fn ucx_gets_no_list_at_which_it_aborts() {
    let words = Words::parse("all").unwrap();
    let wish = Wish::new(Admin::default(), None, Some(&words));
    let plan = Plan::new(
        platform::model("dgx-h100").unwrap(),
        wish,
        Step::default(),
        &|_| None,
    );
    let mut task = Task {
        cpus: CpuSet::from_list("0-3").unwrap(),
        ..Task::default()
    };
    task.gpus
        .variables
        .insert("CUDA_VISIBLE_DEVICES", ALL.to_string());
    // without tcp, the interfaces need no place in the list
    let present: Present = [("UCX_TLS".to_string(), "rc,rc_gda,cuda".to_string())].into();
    let task = plan.task(
        &task,
        Evidence {
            present: &present,
            read: &|_| None,
        },
    );
    let list = task
        .variables
        .iter()
        .find(|one| one.name == "UCX_NET_DEVICES")
        .unwrap();
    let Change::Set(list) = &list.change else {
        panic!("{list:?}")
    };
    assert!(
        list.contains("mlx5_11:1,cuda0-mlx5_0:1,cuda1-mlx5_3:1,"),
        "{list}"
    );
    assert_eq!(
        list.split(',').count(),
        8 + 8,
        "of 8 + 64 devices UCX would assert 64 at most"
    );
}

#[test]
fn the_address_of_the_steps_srun_tells_the_interface_of_sockets() {
    let words = Words::parse("env=sockets").unwrap();
    let wish = Wish::new(Admin::default(), None, Some(&words));
    let [network, mask] = [[10, 1, 0, 0], [255, 255, 0, 0]].map(u32::from_ne_bytes);
    let routes = format!("eth1 {network:08X} 0 1 0 0 0 {mask:08X}\n");
    let text = FileText {
        text: routes,
        ..FileText::default()
    };
    let read = |path: &str| (path == "/proc/net/route").then(|| text.clone());
    let step = Step {
        srun: Some("10.1.0.7".into()),
        ..Step::default()
    };
    let plan = Plan::new(platform::model("dgx-h100").unwrap(), wish, step, &read);
    let evidence = Evidence {
        present: &Present::new(),
        read: &read,
    };
    let variables = plan.task(&Task::default(), evidence).variables;
    let value = variables
        .iter()
        .find(|one| one.name == "GLOO_SOCKET_IFNAME")
        .map(|one| &one.change);
    assert_eq!(value, Some(&Change::Set("eth1".to_string())));
}

/// A variable of local id 3 of eight tasks that all see a DGX H100's eight GPUs.
fn of_local_id_3(words: &str, argument: &str, name: &str, as_exec_does: bool) -> Option<String> {
    let words = Words::parse(words).unwrap();
    let mut wish = Wish::new(Admin::default(), None, Some(&words));
    if !argument.is_empty() {
        wish.admin.add(argument).unwrap();
    }
    let read = |path: &str| (path == "/proc/net/route").then(FileText::default);
    let step = Step {
        tasks: 8,
        gpus: Some(ALL.into()),
        ..Step::default()
    };
    let plan = Plan::new(platform::model("dgx-h100").unwrap(), wish, step, &read);
    let mut task = Task {
        local_id: 3,
        cpus: CpuSet::from_list("0-3").unwrap(),
        ..Task::default()
    };
    task.gpus
        .variables
        .insert("CUDA_VISIBLE_DEVICES", ALL.to_string());
    if as_exec_does {
        task.known = Some(TaskGpus {
            seen: (0..8).map(GpuIndex).collect(),
            ..TaskGpus::new(vec![GpuIndex(3)], "LOCAL_RANK=3")
        });
    }
    let present = Present::new();
    let task = plan.task(
        &task,
        Evidence {
            present: &present,
            read: &read,
        },
    );
    assert_eq!(task.placement.gpus, [GpuIndex(3)]);
    task.variables
        .into_iter()
        .find(|one| one.name == name)
        .and_then(|one| match one.change {
            Change::Set(value) => Some(value),
            _ => None,
        })
}

#[test]
fn cudas_numbers_are_those_of_the_program_which_sees_more_than_the_gpu_that_it_uses() {
    for (words, as_exec_does) in [("gpu=local-id,env=ucx-gda", false), ("env=ucx-gda", true)] {
        let list = of_local_id_3(words, "", "UCX_NET_DEVICES", as_exec_does);
        assert_eq!(list.as_deref(), Some("mlx5_5:1,cuda3-mlx5_5:1"), "{words}");
    }
}

#[test]
fn a_map_for_an_engine_counts_the_gpus_as_the_engine_does() {
    for (words, as_exec_does) in [("gpu=local-id", false), ("closest", true)] {
        let value = |map: &str| {
            of_local_id_3(
                words,
                &format!("set=MAP={{map:{map}}}"),
                "MAP",
                as_exec_does,
            )
        };
        let sglang = value("sglang").unwrap();
        assert!(
            sglang.starts_with(r#"{"0":"mlx5_0""#) && sglang.contains(r#""3":"mlx5_5""#),
            "{sglang}"
        );
        assert_eq!(value("vllm").unwrap().split(',').count(), 8);
    }
}

/// A plan for a DGX H100, and what its step's task of one GPU would be.
fn plan_of(words: &str, without_nics: bool) -> Plan {
    let words = Words::parse(words).unwrap();
    let topology = platform::model("dgx-h100").unwrap();
    let mut wish = Wish::new(Admin::default(), None, Some(&words));
    if without_nics {
        wish.admin.add("exclude=mlx5_*").unwrap();
    }
    let step = Step {
        tasks: 1,
        gpus: Some(ALL.into()),
        ..Step::default()
    };
    let read = |path: &str| (path == "/proc/net/route").then(FileText::default);
    Plan::new(topology, wish, step, &read)
}

#[test]
fn as_little_of_the_node_is_read_as_the_wish_needs() {
    let scope = |words: &str, without_nics| plan_of(words, without_nics).wish.scope();
    assert_eq!(scope("closest", false), Scope::Placement);
    assert_eq!(
        scope("closest", true),
        Scope::Selection,
        "an admin may name a NIC by its interface"
    );
    for words in ["spread", "bind=core", "omp=on", "spread,bind=core,omp=on"] {
        assert_eq!(scope(words, false), Scope::Cores, "{words}");
        assert_eq!(scope(words, true), Scope::Cores, "{words}");
    }
}

#[test]
fn a_task_fails_for_what_it_lacks_where_a_strict_word_was_said_and_only_there() {
    // (words, without NICs, fails, lacks only what its node lacks)
    for (words, without_nics, fails, is_of_node) in [
        ("strict", true, true, false),
        ("strict", false, false, false),
        ("closest", true, false, true),
        ("closest", false, false, false),
    ] {
        let plan = plan_of(words, without_nics);
        let mut task = Task {
            cpus: CpuSet::from_list("0-3").unwrap(),
            ..Task::default()
        };
        task.gpus
            .variables
            .insert("CUDA_VISIBLE_DEVICES", "0".to_string());
        let task = plan.task(
            &task,
            Evidence {
                present: &Present::new(),
                read: &|_| None,
            },
        );
        assert_eq!(
            task.placement.notes.shortfalls.is_empty(),
            !without_nics,
            "{words}"
        );
        assert_eq!(
            (task.fails(), task.misses_nothing_of_its_own()),
            (fails, is_of_node),
            "{words}"
        );
    }
}

#[test]
fn a_task_is_asked_for_no_variable_that_only_the_judge_reads() {
    for words in ["closest", "verbose", "dry-run"] {
        let plan = plan_of(words, false);
        let names = plan.evidence_variables(&[]);
        assert!(
            names.contains(&"CUDA_VISIBLE_DEVICES".into()) && names.is_sorted(),
            "{names:?}"
        );
        assert!(!names.contains(&"NCCL_BUFFSIZE".into()), "{names:?}");
    }
    let mut plan = plan_of("closest", false);
    let mut wish = Wish::clone(&plan.wish);
    wish.admin.add("set=MINE={nic}").unwrap();
    plan.wish = Arc::new(wish);
    let names = plan.evidence_variables(&["SLURM_PROCID", "HOME"]);
    assert!(names.is_sorted(), "{names:?}");
    for name in ["MINE", "SLURM_PROCID", "HOME", "ROCR_VISIBLE_DEVICES"] {
        assert!(names.contains(&name.into()), "`{name}`");
    }
}

#[test]
fn a_step_that_is_only_observed_is_told_in_one_line() {
    let plan = plan_of("closest", false);
    let line = plan.observed(&Present::new());
    let start = "1 task: gpu 0 mlx5_0:1 PIX, gpu 1 mlx5_3:1 PIX, ";
    let end = "of the node 8 GPUs, 8 rails, policy `closest`, left out: mlx5_1 mlx5_2 irdma0 irdma1 mlx5_7 mlx5_8; \
         bind: NUMA nodes 0-1; env: UCX_NET_DEVICES NCCL_IB_HCA NVSHMEM_HCA_LIST";
    assert!(line.starts_with(start) && line.ends_with(end), "{line}");
    let none = Plan::new(
        Topology::empty("bare", Provenance::ThisSystem),
        Wish::default(),
        Step::default(),
        &|_| None,
    );
    let bare = "0 tasks: no gpu; of the node 0 GPUs, 0 rails, policy `closest`, left out: none; bind: nothing; env: nothing";
    assert_eq!(none.observed(&Present::new()), bare);
}

#[test]
fn a_step_that_is_only_observed_tells_what_it_would_bind_and_set() {
    let told = |words: &str, present: &[(&str, &str)]| {
        let present = present
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        let line = plan_of(words, false).observed(&present);
        line.split_once("mlx5_8; ")
            .map_or(String::new(), |(_, would)| would.to_string())
    };
    assert_eq!(
        told("bind=none,env=none", &[]),
        "bind: nothing; env: nothing"
    );
    assert_eq!(
        told("no-env=NCCL_*", &[("UCX_NET_DEVICES", "mlx5_0:1")]),
        "bind: NUMA nodes 0-1; env: NVSHMEM_HCA_LIST",
        "what the user set, and what no word asks for"
    );
}

#[test]
fn a_memory_policy_that_the_kernel_has_not_is_no_part_of_the_line() {
    let plan = plan_of("closest", false);
    let evidence = Evidence {
        present: &Present::new(),
        read: &|_| None,
    };
    let mut task = plan.task(&Task::default(), evidence);
    task.placement.mems = [1].into_iter().collect();
    assert!(task.lines("n1", "")[0].ends_with(" mem 1"));
    task.placement.notes.memory_stays = true;
    assert!(task.lines("n1", "")[0].ends_with(" mem any"));
}

#[test]
fn the_line_of_a_task_names_its_gpus_nics_and_cpus_in_columns() {
    let line = |list: &str, cpus: &str, has_addresses: bool| {
        let mut topology = platform::model("dgx-h100").unwrap();
        if !has_addresses {
            topology.gpus[1].address.domain = PciAddress::INVENTED;
        }
        let plan = Plan::new(
            topology,
            Wish::default(),
            Step {
                total_tasks: 8,
                ..Step::default()
            },
            &|_| None,
        );
        let mut task = Task {
            cpus: CpuSet::from_list(cpus).unwrap(),
            ..Task::default()
        };
        task.gpus
            .variables
            .insert("CUDA_VISIBLE_DEVICES", list.to_string());
        plan.task(
            &task,
            Evidence {
                present: &Present::new(),
                read: &|_| None,
            },
        )
        .lines("n1", "")
        .remove(0)
    };
    let near = "task 0 n1  gpu 0 0000:1b:00.0  nic mlx5_0:1 PIX   cpus 0-3             mem any";
    assert_eq!(line("0", "0-3", true), near);
    assert_eq!(
        line("1", "", false),
        "task 0 n1  gpu 1               nic mlx5_3:1 SYS   cpus unknown         mem any"
    );
    assert_eq!(
        line("0,1,2,5", "0-3", true),
        "task 0 n1  gpus 0-2,5          nics mlx5_0:1 PIX mlx5_3:1 PIX mlx5_4:1 PIX mlx5_9:1 PIX  cpus 0-3             mem any"
    );
}

/// UCX's list for the task of GPU 3 on a DGX H100 of RoCE NICs that say these GIDs, and its reason; `K` stands for the NIC's
/// number, and the table of routes has none of their networks.
fn on_roce_with_gids(gids: &[&str]) -> (Option<String>, String) {
    let mut model = platform::model("dgx-h100").unwrap();
    let ports = model.nics.iter_mut().flat_map(|nic| &mut nic.ports);
    ports
        .filter(|port| port.link_layer == LinkLayer::InfiniBand)
        .for_each(|port| {
            port.link_layer = LinkLayer::Ethernet;
            port.subnet = None;
        });
    let mut machine = synthesise(&model);
    let tables: Vec<String> = machine
        .iter()
        .filter_map(|(path, _)| Some(format!("{}gids", path.strip_suffix("link_layer")?)))
        .collect();
    for (nth, table) in tables.iter().enumerate() {
        for (index, gid) in gids.iter().enumerate() {
            let gid = gid.replace('K', &format!("{nth:x}"));
            machine.insert(&format!("{table}/{index}"), Entry::File(gid));
        }
    }
    let table =
        "Iface Destination Gateway Flags\neno1 00000000 0101000A 0003 0 0 100 00000000 0 0 0";
    machine.insert("proc/net/route", Entry::File(table.to_string()));
    let (mut topology, _) = discover(
        &Root::manifest(machine),
        Scope::Placement,
        Provenance::ThisSystem,
    );
    for nic in &mut topology.nics {
        nic.role = model
            .nics
            .iter()
            .find(|known| known.name == nic.name)
            .and_then(|known| known.role);
    }
    let wish = Wish::default();
    let step = Step {
        tasks: 8,
        gpus: Some(ALL.into()),
        ..Step::default()
    };
    let plan = Plan::new(topology, wish, step, &|_| None);
    let mut task = Task {
        cpus: CpuSet::from_list("0-3").unwrap(),
        ..Task::default()
    };
    task.gpus
        .variables
        .insert("CUDA_VISIBLE_DEVICES", "3".to_string());
    let present: Present = [("UCX_TLS".to_string(), "rc,cuda".to_string())].into();
    let task = plan.task(
        &task,
        Evidence {
            present: &present,
            read: &|_| None,
        },
    );
    let list = task
        .variables
        .into_iter()
        .find(|one| one.name == "UCX_NET_DEVICES")
        .unwrap();
    let value = match list.change {
        Change::Set(value) => Some(value),
        _ => None,
    };
    (value, list.why.into_owned())
}

#[test]
fn a_task_is_not_held_to_its_nic_where_the_rails_networks_are_in_no_table_that_we_read() {
    let link_local = "fe80:0000:0000:0000:0000:00ff:fe00:000K";
    let empty = "0000:0000:0000:0000:0000:0000:0000:0000";
    let all = "mlx5_0:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_9:1,mlx5_10:1,mlx5_11:1";
    for (gids, expected) in [
        (&[link_local, link_local][..], "mlx5_5:1"),
        (&[link_local, link_local, empty], "mlx5_5:1"),
        (
            &[link_local, "0000:0000:0000:0000:0000:ffff:a9fe:010K"],
            "mlx5_5:1",
        ),
        // each rail has a network of IPv6
        (
            &[
                link_local,
                link_local,
                "fc01:0000:0003:000K:0000:0000:0000:0001",
            ],
            all,
        ),
        // or its routes stand in a table of its own, as a VRF's do
        (
            &[
                link_local,
                link_local,
                empty,
                "0000:0000:0000:0000:0000:ffff:0a00:0K01",
            ],
            all,
        ),
    ] {
        let (list, why) = on_roce_with_gids(gids);
        assert_eq!(list.as_deref(), Some(expected), "{gids:?}: {why}");
    }
}
