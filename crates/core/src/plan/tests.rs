//! What only a whole plan shows: facts that pass from one module to another.

use super::*;
use crate::config::Words;
use crate::libraries::FileText;
use crate::placement::Change;
use crate::step::TaskGpus;
use crate::topology::{CpuSet, GpuIndex, LinkLayer, PciAddress, Provenance};
use crate::wish::Admin;
use nic_placement_node::discover::manifest::{Entry, Manifest};
use nic_placement_node::discover::{Root, Scope, discover};
use nic_placement_node::platform;
use nic_placement_testing::synthesise::synthesise;

mod seen;

pub(super) const ALL: &str = "0,1,2,3,4,5,6,7";

pub(super) fn cpus(list: &str) -> CpuSet {
    CpuSet::from_list(list).unwrap()
}

/// A task with CUDA's list of GPUs, where that is not empty, and these CPUs.
pub(super) fn task_of(gpus: &str, list: &str) -> Task {
    let mut task = with! { Task { cpus: cpus(list) } };
    if !gpus.is_empty() {
        let variables = &mut task.gpus.variables;
        variables.insert("CUDA_VISIBLE_DEVICES", gpus.to_string());
    }
    task
}

fn wish_of(words: &str) -> Wish {
    Wish::new(Admin::default(), None, Some(&Words::parse(words).unwrap()))
}

fn step_of(tasks: u32, gpus: &str) -> Step {
    with! { Step { tasks, gpus: Some(gpus.into()) } }
}

fn h100() -> Topology {
    platform::model("dgx-h100").unwrap()
}

/// A plan on a node with this table of routes.
fn planned(topology: Topology, wish: Wish, step: Step, routes: &str) -> Plan {
    Plan::new(topology, wish, step, &|path| file(path, routes))
}

fn file(path: &str, routes: &str) -> Option<FileText> {
    let mut found = FileText::default();
    found.text.push_str(routes);
    (path == "/proc/net/route").then_some(found)
}

/// The task in the plan's step with these variables (`NAME=VALUE`).
fn placed<'p>(plan: &'p Plan, task: &Task, variables: &[&str]) -> TaskPlan<'p> {
    let parts = variables.iter().map(|text| text.split_once('=').unwrap());
    let parts = parts.map(|(name, value)| (name.into(), value.into()));
    let (present, read) = (&parts.collect(), &|path: &str| file(path, ""));
    plan.task(task, Evidence { present, read })
}

/// The value that is set, else the reason.
fn value(task: &TaskPlan, name: &str) -> Result<String, String> {
    let found = task.variables.iter().find(|one| one.name == name).unwrap();
    match &found.change {
        Change::Set(value) => Ok(value.clone()),
        _ => Err(found.why.to_string()),
    }
}

#[test]
fn ucx_gets_no_list_at_which_it_aborts() {
    let plan = planned(h100(), wish_of("all"), Step::default(), "");
    // without tcp, the interfaces need no place in the list
    let task = placed(&plan, &task_of(ALL, "0-3"), &["UCX_TLS=rc,rc_gda,cuda"]);
    let list = value(&task, "UCX_NET_DEVICES").unwrap();
    let is_right = list.contains("mlx5_11:1,cuda0-mlx5_0:1,cuda1-mlx5_3:1,");
    assert!(is_right, "{list}");
    // of 8 + 64 devices UCX would assert 64 at most
    assert_eq!(list.split(',').count(), 8 + 8);
}

#[test]
fn the_address_of_the_steps_srun_tells_the_interface_of_sockets() {
    let [network, mask] = [[10, 1, 0, 0], [255, 255, 0, 0]].map(u32::from_ne_bytes);
    let routes = format!("eth1 {network:08X} 0 1 0 0 0 {mask:08X}\n");
    let step = with! { Step { srun: Some("10.1.0.7".into()) } };
    let plan = planned(h100(), wish_of("env=sockets"), step, &routes);
    let task = placed(&plan, &Task::default(), &[]);
    assert_eq!(value(&task, "GLOO_SOCKET_IFNAME").as_deref(), Ok("eth1"));
}

/// A variable of local id 3 of eight tasks that all see a DGX H100's eight GPUs.
fn of_local_id_3(words: &str, argument: &str, name: &str, as_exec_does: bool) -> String {
    let mut wish = wish_of(words);
    if !argument.is_empty() {
        wish.admin.add(argument).unwrap();
    }
    let plan = planned(h100(), wish, step_of(8, ALL), "");
    let mut task = task_of(ALL, "0-3");
    task.local_id = 3;
    if as_exec_does {
        let mut known = TaskGpus::new(vec![GpuIndex(3)], "LOCAL_RANK=3");
        known.seen = (0..8).map(GpuIndex).collect();
        task.known = Some(known);
    }
    let task = placed(&plan, &task, &[]);
    assert_eq!(task.placement.gpus, [GpuIndex(3)]);
    value(&task, name).unwrap()
}

#[test]
fn a_value_counts_the_gpus_of_the_program_which_sees_more_than_the_gpu_that_it_uses() {
    for (words, as_exec_does) in [
        ("gpu=local-id,env=ucx-gda+site", false),
        ("env=ucx-gda+site", true),
    ] {
        let map = |map: &str| {
            let set = format!("set=MAP={{map:{map}}}");
            of_local_id_3(words, &set, "MAP", as_exec_does)
        };
        let list = of_local_id_3(words, "", "UCX_NET_DEVICES", as_exec_does);
        assert_eq!(list, "mlx5_5:1,cuda3-mlx5_5:1", "{words}");
        let sglang = map("sglang");
        assert!(sglang.starts_with(r#"{"0":"mlx5_0""#), "{sglang}");
        assert!(sglang.contains(r#""3":"mlx5_5""#), "{sglang}");
        assert_eq!(map("vllm").split(',').count(), 8);
    }
}

/// A plan for a DGX H100 and a step with one task.
fn plan_of(words: &str, without_nics: bool) -> Plan {
    let mut wish = wish_of(words);
    if without_nics {
        wish.admin.add("exclude=mlx5_*").unwrap();
    }
    planned(h100(), wish, step_of(1, ALL), "")
}

#[test]
fn as_little_of_the_node_is_read_as_the_wish_needs() {
    // an admin may name a NIC by its interface
    for (words, of_all, of_some) in rows! {
        "closest", Scope::Placement, Scope::Selection; "spread", Scope::Cores, Scope::Cores;
        "bind=core", Scope::Cores, Scope::Cores; "omp=on", Scope::Cores, Scope::Cores;
        "spread,bind=core,omp=on", Scope::Cores, Scope::Cores;
    } {
        let scopes = [false, true].map(|without| plan_of(words, without).wish.scope());
        assert_eq!(scopes, [of_all, of_some], "{words}");
    }
}

#[test]
fn a_task_fails_for_what_it_lacks_where_a_strict_word_was_said_and_only_there() {
    // (words, without NICs, fails, lacks only what its node lacks)
    for (words, without_nics, fails, is_of_node) in rows! {
        "strict", true, true, false; "strict", false, false, false; "closest", true, false, true;
        "closest", false, false, false;
    } {
        let plan = plan_of(words, without_nics);
        let task = placed(&plan, &task_of("0", "0-3"), &[]);
        let lacks = !task.placement.notes.shortfalls.is_empty();
        let told = (lacks, task.fails(), task.accepts_no_nic());
        assert_eq!(told, (without_nics, fails, is_of_node), "{words}");
    }
}

#[test]
fn a_task_is_asked_for_no_variable_that_only_the_judge_reads() {
    for words in ["closest", "verbose", "dry-run"] {
        let plan = plan_of(words, false);
        let names = plan.evidence_variables(&[]);
        assert!(names.is_sorted(), "{names:?}");
        let known = ["CUDA_VISIBLE_DEVICES", "NCCL_BUFFSIZE"];
        let is_asked = known.map(|name| names.contains(&name.into()));
        assert_eq!(is_asked, [true, false], "{names:?}");
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
fn a_step_that_is_only_observed_is_told_in_one_line_with_all_that_it_would_bind_and_set() {
    const NODE: &str = "of the node 8 GPUs, 8 rails, policy `closest`, \
                        left out: mlx5_1 mlx5_2 irdma0 irdma1 mlx5_7 mlx5_8";
    const NONE: &str = "of the node 0 GPUs, 0 rails, policy `closest`, left out: none";
    let empty = Topology::empty("bare", Provenance::ThisSystem);
    let bare = planned(empty, Wish::default(), Step::default(), "");
    let pairs = "1 task: gpu 0 mlx5_0:1 PIX, gpu 1 mlx5_3:1 PIX, ";
    let names = "env: UCX_NET_DEVICES NCCL_IB_HCA NVSHMEM_HCA_LIST";
    let nodes = "bind: NUMA nodes 0-1";
    // no word asks for NVSHMEM's beside these, and one value is the user's
    let (less, fewer) = (&["UCX_NET_DEVICES=mlx5_0:1"], "env: NVSHMEM_HCA_LIST");
    let nothing = ["bind: nothing", "env: nothing"];
    for (words, variables, expected) in rows! {
        "closest", &[][..], [pairs, NODE, nodes, names];
        "bind=none,env=none", &[], [pairs, NODE, nothing[0], nothing[1]];
        "no-env=NCCL_*", less, [pairs, NODE, nodes, fewer];
        "", &[], ["0 tasks: no gpu", NONE, nothing[0], nothing[1]];
    } {
        let plan = match words {
            "" => &bare,
            words => &plan_of(words, false),
        };
        let parts = variables.iter().map(|text| text.split_once('=').unwrap());
        let present = parts.map(|(name, value)| (name.to_string(), value.to_string()));
        let line = plan.observed(&present.collect());
        let fields: Vec<&str> = line.split("; ").collect();
        assert!(fields[0].starts_with(expected[0]), "{line}");
        assert_eq!(fields[1..], expected[1..], "{line}");
    }
}

#[test]
fn the_line_of_a_task_names_its_gpus_nics_cpus_and_memory_in_columns() {
    let line = |gpus: &str, list: &str, has_addresses: bool, mems: Option<u32>, stays: bool| {
        let mut topology = h100();
        if !has_addresses {
            topology.gpus[1].address.domain = PciAddress::INVENTED;
        }
        let step = with! { Step { total_tasks: 8 } };
        let plan = planned(topology, Wish::default(), step, "");
        let mut task = placed(&plan, &task_of(gpus, list), &[]);
        if let Some(node) = mems {
            task.placement.mems = [node].into_iter().collect();
        }
        // the kernel lacks the memory policy
        task.placement.notes.memory_stays = stays;
        task.lines("n1", "").remove(0)
    };
    let near = "task 0 n1  gpu 0 0000:1b:00.0  nic mlx5_0:1 PIX   cpus 0-3             mem ";
    assert_eq!(line("0", "0-3", true, None, false), format!("{near}any"));
    assert_eq!(line("0", "0-3", true, Some(1), false), format!("{near}1"));
    assert_eq!(line("0", "0-3", true, Some(1), true), format!("{near}any"));
    let unknown = "task 0 n1  gpu 1               nic mlx5_3:1 SYS   cpus unknown         mem any";
    assert_eq!(line("1", "", false, None, false), unknown);
    let several = "task 0 n1  gpus 0-2,5          \
                   nics mlx5_0:1 PIX mlx5_3:1 PIX mlx5_4:1 PIX mlx5_9:1 PIX  \
                   cpus 0-3             mem any";
    assert_eq!(line("0,1,2,5", "0-3", true, None, false), several);
}

/// UCX's list for the task of GPU 3 on a DGX H100 of RoCE NICs that say these GIDs; `K` stands for
/// the NIC's number, and the table of routes has none of their networks.
fn on_roce_with_gids(gids: &[&str]) -> Result<String, String> {
    let mut model = h100();
    let ports = model.nics.iter_mut().flat_map(|nic| &mut nic.ports);
    for port in ports.filter(|port| port.link_layer == LinkLayer::InfiniBand) {
        port.link_layer = LinkLayer::Ethernet;
        port.subnet = None;
    }
    let mut machine = synthesise(&model);
    let paths = machine.iter().map(|(path, _)| path);
    let paths = paths.filter_map(|path| path.strip_suffix("link_layer"));
    let ports: Vec<String> = paths.map(str::to_string).collect();
    for (nth, port) in ports.iter().enumerate() {
        for (index, gid) in gids.iter().enumerate() {
            let gid = gid.replace('K', &format!("{nth:x}"));
            machine.insert(&format!("{port}gids/{index}"), Entry::File(gid));
        }
    }
    let routes = "Iface\neno1 00000000 0101000A 0003 0 0 100 00000000 0 0 0";
    machine.insert("proc/net/route", Entry::File(routes.to_string()));
    let root = Root::manifest(machine);
    let (mut topology, _) = discover(&root, Scope::Placement, Provenance::ThisSystem);
    for nic in &mut topology.nics {
        let known = model.nics.iter().find(|known| known.name == nic.name);
        nic.role = known.and_then(|known| known.role);
    }
    let plan = planned(topology, Wish::default(), step_of(8, ALL), "");
    let task = placed(&plan, &task_of("3", "0-3"), &["UCX_TLS=rc,cuda"]);
    value(&task, "UCX_NET_DEVICES")
}

#[test]
fn a_task_is_not_held_to_its_nic_where_the_rails_networks_are_in_no_table_that_we_read() {
    let local = "fe80:0000:0000:0000:0000:00ff:fe00:000K";
    let empty = "0000:0000:0000:0000:0000:0000:0000:0000";
    let link_local_v4 = "0000:0000:0000:0000:0000:ffff:a9fe:010K";
    // each rail has a network of IPv6
    let v6 = "fc01:0000:0003:000K:0000:0000:0000:0001";
    // or its routes stand in a table of its own, as a VRF's do
    let v4 = "0000:0000:0000:0000:0000:ffff:0a00:0K01";
    let all = "mlx5_0:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_9:1,mlx5_10:1,mlx5_11:1";
    for (gids, expected) in rows! {
        &[local, local][..], "mlx5_5:1"; &[local, local, empty], "mlx5_5:1";
        &[local, link_local_v4], "mlx5_5:1"; &[local, local, v6], all;
        &[local, local, empty, v4], all;
    } {
        let list = on_roce_with_gids(gids);
        assert_eq!(list.as_deref(), Ok(expected), "{gids:?}");
    }
}
