//! The NICs of a user's own list on known machines.

use super::{Use, others, tell};
use crate::tests::{present, task_with};
use nic_placement_core::config::{Admin, Words};
use nic_placement_core::libraries::{Evidence, FileText};
use nic_placement_core::placement::Excluded;
use nic_placement_core::plan::{Plan, TaskPlan, Wish};
use nic_placement_core::policy;
use nic_placement_core::step::Step;
use nic_placement_core::topology::{LinkLayer, Nic, NicKind, Port, PortState, Topology};
use nic_placement_node::platform;

/// A task with GPU 0 of a DGX H100 with one IP interface.
struct Situation {
    topology: Topology,
    gpus: &'static str,
    words: &'static str,
    argument: &'static str,
    values: Vec<String>,
    files: Vec<(&'static str, &'static str)>,
}

/// With these words and variables (`NAME=VALUE`).
fn dgx(words: &'static str, values: &[&str]) -> Situation {
    on("dgx-h100", words, values)
}

fn on(machine: &str, words: &'static str, values: &[&str]) -> Situation {
    let routes = "Iface\tDestination\tGateway\tFlags\neth0 0 0100A8C0 0003 0 0 0 0\n";
    Situation {
        topology: platform::model(machine).unwrap(),
        gpus: "0",
        words,
        argument: "",
        values: values.iter().map(ToString::to_string).collect(),
        files: vec![("/proc/net/route", routes)],
    }
}

impl Situation {
    fn file(mut self, path: &'static str, text: &'static str) -> Situation {
        self.files.push((path, text));
        self
    }

    fn ask<T>(&self, ask: impl Fn(&TaskPlan, &[Use]) -> T) -> T {
        let words = Words::parse(self.words).unwrap();
        let mut wish = Wish::new(Admin::default(), None, Some(&words));
        if !self.argument.is_empty() {
            wish.admin.add(self.argument).unwrap();
        }
        let read = |path: &str| {
            let (_, text) = self.files.iter().find(|(name, _)| *name == path)?;
            Some(FileText {
                text: text.to_string(),
                ..FileText::default()
            })
        };
        let plan = Plan::new(self.topology.clone(), wish, Step::default(), &read);
        let present = present(self.values.iter().map(String::as_str));
        let evidence = Evidence {
            present: &present,
            read: &read,
        };
        let mut task = plan.task(&task_with(self.gpus), evidence);
        let uses = tell(&plan, &mut task, &present);
        ask(&task, &uses)
    }

    /// Each library with its NICs, and the shortfalls by a strict word.
    fn told(&self) -> (String, Vec<String>) {
        self.ask(|task, uses| {
            let uses = uses.iter().map(|of| format!("{}: {of}", of.reader));
            let shortfalls = task.placement.notes.shortfalls.clone();
            (uses.collect::<Vec<_>>().join("; "), shortfalls)
        })
    }

    /// The libraries with their NICs, where no strict word finds a shortfall.
    fn uses(&self) -> String {
        let (uses, shortfalls) = self.told();
        assert_eq!(shortfalls, [""; 0], "{uses}");
        uses
    }
}

const NONE: &str = "no NIC of this node that";

#[test]
fn the_nics_of_the_users_list_are_told_with_their_paths_and_no_strict_word_judges_them() {
    let compute = "UCX_NET_DEVICES=mlx5_0:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_9:1,mlx5_10:1,mlx5_11:1,eth0";
    for word in ["closest", "strict", "restricted", "single-numa-node"] {
        for row in [
            "UCX_NET_DEVICES=all | ",
            "UCX_NET_DEVICES= | ",
            "HOME=/home/u | ",
            "UCX_NET_DEVICES=mlx5_6:1 | UCX: mlx5_6:1 SYS 45 % of mlx5_0:1",
            // UCX takes the nearest of a list of all compute NICs, by which users keep storage out
            &format!("{compute} | UCX: mlx5_0:1 PIX"),
            // NCCL takes the best NICs that its list leaves
            "NCCL_IB_HCA=mlx5 | NCCL: mlx5_0:1 PIX",
            "NCCL_IB_HCA=^=mlx5_0 | NCCL: mlx5_3:1 NODE 90 %, mlx5_4:1 NODE 90 %, \
             mlx5_5:1 NODE 90 % of mlx5_0:1",
            "NCCL_IB_HCA==mlx5_11 | NCCL: mlx5_11:1 SYS 45 % of mlx5_0:1",
            &format!("NCCL_IB_HCA=mlx4 | NCCL: {NONE} works"),
            &format!("UCX_NET_DEVICES=mlx5_99:1 | UCX: {NONE} works"),
            &format!("UCX_NET_DEVICES=eth0,lo | UCX: {NONE} works"),
        ] {
            let (value, expected) = row.split_once(" | ").unwrap();
            assert_eq!(dgx(word, &[value]).uses(), expected, "{word} {value}");
        }
    }
    // the plan's own NIC, and two GPUs
    let both = "mlx5_0:1,mlx5_3:1";
    for (gpus, list, expected) in [
        ("1", "mlx5_3:1", "UCX: mlx5_3:1 PIX"),
        ("0,1", both, "UCX: mlx5_0:1 PIX, mlx5_3:1 PIX"),
    ] {
        let mut situation = dgx("single-numa-node", &[&format!("UCX_NET_DEVICES={list}")]);
        situation.gpus = gpus;
        assert_eq!(situation.uses(), expected);
    }
    let left_out = dgx("closest", &["UCX_NET_DEVICES=mlx5_1:1"]).uses();
    assert!(left_out.starts_with("UCX: mlx5_1:1 ") && left_out.contains("(left out here: "));
    let mut admins = dgx("restricted", &[]);
    admins.argument = "set=UCX_NET_DEVICES=mlx5_11:1";
    assert!(admins.uses().ends_with("mlx5_11:1 SYS 45 % of mlx5_0:1"));
}

#[test]
fn of_equally_good_nics_the_plans_is_named_and_the_others_only_where_all_are_used() {
    let uses = |value: &str| on("oci-bm-gpu-h100-8", "nics-per-task=1", &[value]).uses();
    assert_eq!(uses("NCCL_IB_HCA=mlx5"), "NCCL: mlx5_0:1 PXB");
    assert_eq!(uses("NCCL_IB_HCA==mlx5_1"), "NCCL: mlx5_1:1 PXB");
    // libfabric opens them all
    let all = uses("FI_VERBS_DEVICE_NAME=mlx5_1");
    let is_right = all.starts_with("libfabric: mlx5_1:1 PXB, ") && all.contains("mlx5_10:1 ");
    assert!(is_right, "{all}");
    assert!(uses("FI_VERBS_DEVICE_NAME=mlx5_0").starts_with("libfabric: mlx5_0:1 PXB"));
}

#[test]
fn a_reason_for_one_port_is_none_for_another_of_the_same_nic() {
    let topology = platform::model("dgx-h100").unwrap();
    let mut node = policy::map(&topology, &Default::default());
    let mut port = node.rails.remove(0);
    let why = || "said".to_string();
    let out = |name: &str, port, why| Excluded {
        name: name.parse().unwrap(),
        port,
        why,
    };
    let other = out("other", None, "of another".to_string());
    node.excluded = vec![other, out(port.name.as_str(), Some(2), why())];
    assert_eq!(super::left_out(&node, &port), None, "the second port");
    port.port = 2;
    assert_eq!(super::left_out(&node, &port), Some(why()));
    node.excluded[1].port = None;
    port.port = 1;
    assert_eq!(super::left_out(&node, &port), Some(why()), "all ports");
    // the map has it
    assert_eq!(super::left_out(&node, &node.rails[0]), None);
}

#[test]
fn the_plans_own_nic_is_judged_only_without_a_list_of_others() {
    // the NICs beside GPU 0 may not be used, so the plan's is on the other NUMA node
    let lacks = |values: &[&str]| {
        let mut situation = dgx("single-numa-node", values);
        situation.argument = "exclude=mlx5_0,mlx5_3,mlx5_4,mlx5_5";
        situation.told().1
    };
    for values in [&[][..], &["UCX_NET_DEVICES="], &["NCCL_NET_GDR_LEVEL=LOC"]] {
        let [lack] = lacks(values).try_into().unwrap();
        assert!(lack.starts_with("mlx5_6:1 is not on NUMA node 0"), "{lack}");
    }
    for name in nic_placement_core::libraries::LISTS {
        assert_eq!(lacks(&[&format!("{name}=mlx5_9:1")]), [""; 0], "{name}");
    }
}

#[test]
fn of_files_and_variables_the_one_is_judged_that_the_library_prefers() {
    const NEAR: &str = "UCX_NET_DEVICES=mlx5_0:1";
    const FAR_LIST: &str = "UCX_NET_DEVICES=mlx5_11:1";
    let both = "UCX_NET_DEVICES=mlx5_11:1\nUCX_NET_DEVICES=mlx5_0:1\n";
    // the second entry is a name that no NIC has
    let comment = "NCCL_IB_HCA==mlx5_11,mlx5_0 # near";
    let home = || dgx("restricted", &["HOME=/home/u"]);
    let outer = "NIC_PLACEMENT=v1 policy=closest gpus= nics= set:NCCL_IB_HCA==mlx5_0:1";
    let nested = dgx("restricted", &[outer, "NCCL_IB_HCA==mlx5_0:1"]);
    let by_variable = ["HOME=/home/u", "NVSHMEM_HCA_LIST=mlx5_11:1"];
    let beside = dgx("restricted", &by_variable);
    let (etc, own) = ("/etc/ucx/ucx.conf", "/home/u/ucx.conf");
    let (nccl, own_nccl) = ("/etc/nccl.conf", "/home/u/.nccl.conf");
    let (nvshmem, own_nvshmem) = ("/etc/nvshmem.conf", "/home/u/.nvshmem.conf");
    let (nccl_near, nccl_far) = ("NCCL_IB_HCA==mlx5_0", "NCCL_IB_HCA==mlx5_11");
    let (nv_near, nv_far) = ("NVSHMEM_HCA_LIST=mlx5_0:1", "NVSHMEM_HCA_LIST=mlx5_11:1");
    let of_nccl = [(nccl, nccl_far), (own_nccl, nccl_near)];
    let of_nvshmem = [(nvshmem, nv_far), (own_nvshmem, nv_near)];
    for (situation, files, reader, is_near) in [
        (home(), &[(etc, FAR_LIST)][..], "UCX", false),
        (home(), &[(etc, FAR_LIST), (own, NEAR)], "UCX", true),
        (home(), &[(own, FAR_LIST), ("ucx.conf", NEAR)], "UCX", true),
        (home(), &[(etc, both)], "UCX", true),
        (home(), &of_nccl, "NCCL", true),
        (home(), &[(nccl, comment)], "NCCL", false),
        (home(), &of_nvshmem, "NVSHMEM", true),
        // NVSHMEM prefers its file to the variable
        (beside, &[(own_nvshmem, nv_near)], "NVSHMEM", true),
        // a nested step goes by the file once the outer step's list is gone
        (nested, &[(nccl, nccl_far)], "NCCL", false),
    ] {
        let with = |of: Situation, &(path, text): &_| of.file(path, text);
        let uses = files.iter().fold(situation, with).uses();
        let far = "mlx5_11:1 SYS 45 % of mlx5_0:1";
        let expected = if is_near { "mlx5_0:1 PIX" } else { far };
        assert_eq!(uses, format!("{reader}: {expected}"), "{files:?}");
    }
    let near = home().file("/etc/nccl.conf", "NCCL_IB_HCA==mlx5_0,mlx5_1");
    let line = near.ask(|task, _| task.lines("n", "").join("\n"));
    let is_right = line.contains("`/etc/nccl.conf` sets it: mlx5_0:1 PIX");
    assert!(is_right, "{line}");
}

#[test]
fn a_file_is_judged_where_we_would_set_no_list_if_a_word_asks() {
    for (library, file, text) in [
        ("NCCL", "/etc/nccl.conf", "NCCL_IB_HCA==mlx5_7"),
        ("NCCL", "/home/u/.nccl.conf", "NCCL_IB_HCA==mlx5_7"),
        ("NVSHMEM", "/etc/nvshmem.conf", "NVSHMEM_HCA_LIST=mlx5_7:1"),
    ] {
        let far = format!("{library}: mlx5_7:1 SYS 45 % of mlx5_0:1");
        for (words, expected) in [("restricted", &*far), ("verbose", &far), ("closest", "")] {
            // every NIC of this machine may be used
            let situation = on("azure-nd96isr-h100-v5", words, &["HOME=/home/u"]);
            let found = situation.file(file, text).uses();
            assert_eq!(found, expected, "{file} {words}");
        }
    }
}

#[test]
fn the_line_names_the_nics_in_use_beside_those_that_were_planned() {
    let line = |list: &str| {
        let situation = dgx("closest", &[&format!("UCX_NET_DEVICES={list}")]);
        situation.ask(|task, uses| task.lines("node1", &others(uses)).join("\n"))
    };
    let far = line("mlx5_6:1");
    for part in ["nic mlx5_0:1 PIX, but UCX: ", "user's own value stays: "] {
        let part = format!("{part}mlx5_6:1 SYS 45 % of mlx5_0:1");
        assert!(far.contains(&part), "{far}");
    }
    assert!(!line("mlx5_0:1").contains("but UCX"));
}

#[test]
fn a_software_device_counts_as_far_as_the_other_end_of_the_node() {
    // each is as fast as a NIC; a hundred are more ports than a map can hold
    for (count, list, start) in [
        (1, "rxe0:1", "UCX: rxe0:1 SYS 45 % (left out here: no PCI"),
        (100, "^mlx5_0:1", "UCX: mlx5_3:1 NODE 90 %"),
    ] {
        let mut situation = dgx("closest", &[&format!("UCX_NET_DEVICES={list}")]);
        situation.topology.nics.extend((0..count).map(|number| {
            let mut nic = Nic::new(format!("rxe{number}").parse().unwrap(), NicKind::Verbs);
            let ethernet = (PortState::Active, LinkLayer::Ethernet);
            nic.ports = vec![Port::new(1, ethernet.0, ethernet.1, Some(400_000))];
            nic
        }));
        situation.topology.sort();
        let uses = situation.uses();
        assert!(uses.starts_with(start), "{uses}");
    }
}
