//! The admin's own variables.

use super::*;
use crate::libraries::template::Facts;
use crate::libraries::wanted::MapFile;
use crate::wish::Admin;

fn fill(
    template: &Template,
    situation: &Situation,
    task: &TaskPlacement,
) -> Result<String, String> {
    template.fill(&Facts {
        node: &situation.topology,
        map: &situation.node,
        task: Some(task),
        interface: Some("eth0"),
        files: &[],
    })
}
use crate::maps::{self, Format, Subject};

fn refusal(text: &str) -> String {
    Template::parse(text).expect_err(text)
}

#[test]
fn every_placeholder_is_filled_with_its_fact() {
    let mut situation = Situation::new(PortState::Active);
    situation.topology.name = "DGX H100".to_string();
    let mut one = task(&[1], &[1]);
    (one.local_id, one.global_id) = (3, 11);
    let value = |word: &str| {
        let (template, _) = Template::parse(&format!("X={{{word}}}")).expect(word);
        fill(&template, &situation, &one)
    };
    let mut filled: Vec<(&str, Result<String, String>)> = Vec::new();
    for word in template::FACTS.iter().map(|fact| fact.0) {
        filled.push((word, value(word)));
    }
    let filled: Vec<String> = filled
        .into_iter()
        .map(|(word, value)| format!("{word}={}", value.unwrap_or_default()))
        .collect();
    assert_eq!(
        filled,
        [
            "nic=mlx5_1",
            "port=1",
            "nic_address=0000:11:00.0",
            "nics=mlx5_1:1",
            "nic_names=mlx5_1",
            "gpu=1",
            "gpu_address=0000:10:00.0",
            "gpus=1",
            // the test's machine has no NUMA nodes
            "numa=",
            "local_id=3",
            "task_id=11",
            "rails=mlx5_0:1,mlx5_1:1,mlx5_2:1",
            "rail_names=mlx5_0,mlx5_1,mlx5_2",
            "rail_count=3",
            "left_out=mlx5_3",
            "machine=DGX H100",
            "interface=eth0",
            // nor a map of its own
            "map:sglang=",
            "map:vllm=",
            // nor is there a file
            "map_file:json=",
            "map_file:sglang=",
            "map_file:mooncake=",
        ]
    );
}

#[test]
fn a_map_for_an_engine_names_the_nics_of_all_gpus_that_the_task_sees() {
    let topology = nic_placement_node::platform::model("dgx-h100").unwrap();
    let node = crate::policy::map(&topology, &Default::default());
    let fill = |text: &str| {
        let (template, _) = Template::parse(text).unwrap();
        assert!(template.is_per_task());
        template.fill(&Facts {
            node: &topology,
            map: &node,
            task: Some(&task(&[5, 4], &[])),
            interface: None,
            files: &[],
        })
    };
    assert_eq!(
        fill("X={map:sglang}").as_deref(),
        Ok(r#"{"0":"mlx5_9","1":"mlx5_6"}"#)
    );
    assert_eq!(
        fill("X={map:vllm}").as_deref(),
        Ok("0000:c3:00.0=0000:c0:00.0,0000:9d:00.0=0000:9a:00.0"),
    );
    for word in ["slurm", "openmpi", "mpich", "intel-mpi"] {
        assert!(
            Template::parse(&format!("X={{map:{word}}}"))
                .unwrap_err()
                .contains("is not known; known: {nic} ")
        );
    }
}

#[test]
fn a_file_with_the_map_is_named_where_it_is_the_map_and_the_task_counts_the_same_gpus() {
    let topology = nic_placement_node::platform::model("dgx-h100").unwrap();
    let node = crate::policy::map(&topology, &Default::default());
    let all: Vec<usize> = (0..8).collect();
    let gpus: Vec<GpuIndex> = topology.gpu_indices().collect();
    let subject = Subject {
        topology: &topology,
        node: &node,
        gpus: &gpus,
    };
    let text = maps::write(Format::Mooncake, subject).unwrap();
    let path = "/run/nic-placement/node.map-mooncake.json";
    let told = |text: Option<&str>, gpus: &[usize]| {
        let text = text.map(str::to_string);
        let file = MapFile {
            format: Format::Mooncake,
            path: path.to_string(),
            text,
        };
        let (template, _) = Template::parse("MC_CUSTOM_TOPO_FILE={map_file:mooncake}").unwrap();
        let wish = Wish {
            admin: Admin {
                templates: vec![template],
                map_files: vec![file],
                ..Admin::default()
            },
            ..Wish::default()
        };
        let situation = Situation {
            topology: topology.clone(),
            node: node.clone(),
            wish,
            step: Step::default(),
            present: Present::new(),
            files: &[],
        };
        let task = task(gpus, &[]);
        let name = "MC_CUSTOM_TOPO_FILE";
        situation
            .value(&task, name)
            .ok_or_else(|| situation.why(&task, name))
    };
    assert_eq!(told(Some(&text), &all).as_deref(), Ok(path));
    assert_eq!(
        told(None, &all).as_deref(),
        Ok(path),
        "a plan takes it to be there"
    );
    let other = text.replace("mlx5_11", "mlx5_12");
    assert!(
        told(Some(&other), &all)
            .unwrap_err()
            .ends_with("node.map-mooncake.json` is not the map of this step")
    );
    for gpus in [&all[1..], &[1, 0, 2, 3, 4, 5, 6, 7], &[]] {
        assert!(
            told(Some(&text), gpus)
                .unwrap_err()
                .contains("the task does not see all in PCI order")
        );
    }
    assert!(refusal("NCCL_X={map_file:json}").contains("the same in every task"));
    assert!(refusal("X={map_file:openmpi}").contains("is not known"));
}

#[test]
fn a_template_without_its_fact_sets_nothing_and_says_so() {
    let situation = Situation::new(PortState::Active)
        .set("MINE=x{nic}")
        .set("OURS=all");
    assert_eq!(situation.value(&task(&[0, 1], &[0, 1]), "MINE"), None);
    let why = situation.why(&task(&[0, 1], &[0, 1]), "MINE");
    assert_eq!(why, "the admin's `set=`: there is no `{nic}` here");
    assert_eq!(
        situation.value(&task(&[0, 1], &[0, 1]), "OURS").as_deref(),
        Some("all")
    );
    assert_eq!(
        situation.value(&task(&[1], &[1]), "MINE").as_deref(),
        Some("xmlx5_1")
    );
    for (length, is_set) in [(4096, true), (4097, false)] {
        let long = Situation::new(PortState::Active)
            .set(&format!("MINE={}{{nic}}", "x".repeat(length - 6)));
        assert_eq!(
            long.value(&task(&[1], &[1]), "MINE").is_some(),
            is_set,
            "{length}"
        );
    }
    let mut named = Situation::new(PortState::Active).set("MINE=/etc/{machine}");
    named.topology.name = "../../root".to_string();
    assert_eq!(
        named.value(&task(&[1], &[1]), "MINE"),
        None,
        "a name that would lead elsewhere"
    );
    named.topology.name = "a\u{1b}b".to_string();
    assert_eq!(
        named.value(&task(&[1], &[1]), "MINE"),
        None,
        "a control character"
    );
}

#[test]
fn two_braces_are_one_and_one_alone_is_a_mistake() {
    let situation = Situation::new(PortState::Active).set("MINE={{{nic}}}");
    assert_eq!(
        situation.value(&task(&[1], &[1]), "MINE").as_deref(),
        Some("{mlx5_1}")
    );
    let situation = Situation::new(PortState::Active).set("MINE={{nic}}");
    assert_eq!(
        situation.value(&task(&[1], &[1]), "MINE").as_deref(),
        Some("{nic}")
    );
    for text in [
        "X={", "X=}", "X={nic", "X=nic}", "X={}", "X={nix}", "X={nic}}",
    ] {
        let why = refusal(text);
        assert!(
            why.starts_with("a single `") || why.contains("is not known; known: {nic}"),
            "`{text}`: {why}"
        );
    }
}

#[test]
fn names_that_a_task_depends_on_are_refused_and_doubtful_ones_are_doubted() {
    for name in [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "PATH",
        "SLURM_NIC_PLACEMENT",
        "SLURM_JOB_ID",
        "NIC_PLACEMENT",
        "CUDA_VISIBLE_DEVICES",
        "BASH_ENV",
        "PYTHONPATH",
    ] {
        assert!(
            refusal(&format!("{name}=x")).contains("is refused"),
            "`{name}`"
        );
    }
    for name in ["", "a", "1A", "A-B", "A B", "Ä", &"A".repeat(256)] {
        assert!(
            refusal(&format!("{name}=x")).contains("is no name of a variable"),
            "`{name}`"
        );
    }
    assert_eq!(refusal("X"), "expected `set=NAME=TEMPLATE`");
    assert!(refusal("X=a\tb").contains("control character"));
    for name in ["NCCL_IB_TC", "NCCL_DEBUG", "GLOO_SOCKET_IFNAME"] {
        let (_, doubt) = Template::parse(&format!("{name}=1")).expect("an admin may");
        assert!(
            doubt.is_some_and(|doubt| doubt.contains("if you mean it")),
            "`{name}`"
        );
    }
    assert_eq!(
        Template::parse("MC_MS_FILTERS={nic_names}")
            .expect("a template")
            .1,
        None
    );
}

#[test]
fn what_must_be_the_same_in_every_task_takes_no_fact_of_one() {
    assert!(refusal("NCCL_IB_HCA={nic}").contains("the same in every task"));
    assert!(refusal("NCCL_TOPO_FILE=/etc/{local_id}.xml").contains("the same in every task"));
    assert!(refusal("MY_FILE=/etc/{local_id}.xml").contains("looked for once"));
    assert!(Template::parse("NCCL_IB_HCA=={rails}").is_ok());
}

#[test]
fn a_file_is_named_only_where_there_is_one() {
    let set = "NCCL_TOPO_FILE=/etc/nccl/{machine}.xml";
    let task = task(&[1], &[1]);
    let without = Situation::new(PortState::Active).set(set);
    assert_eq!(without.value(&task, "NCCL_TOPO_FILE"), None);
    assert!(
        without
            .why(&task, "NCCL_TOPO_FILE")
            .ends_with("there is no file `/etc/nccl/test.xml` here")
    );
    let files: Files = &[("/etc/nccl/test.xml", "<system/>")];
    let with = Situation {
        files,
        ..Situation::new(PortState::Active)
    }
    .set(set);
    assert_eq!(
        with.value(&task, "NCCL_TOPO_FILE").as_deref(),
        Some("/etc/nccl/test.xml")
    );
    let users = Situation {
        files,
        ..Situation::new(PortState::Active)
    }
    .set(set)
    .with(&[("NCCL_TOPO_FILE", "/x")]);
    assert_eq!(
        users.value(&task, "NCCL_TOPO_FILE"),
        None,
        "the user's own stays"
    );
}

#[test]
fn an_admins_template_stands_in_the_librarys_place_and_can_be_switched_off() {
    let situation = || Situation::new(PortState::Active).set("UCX_NET_DEVICES={nics},eth0");
    let task = task(&[1], &[1]);
    assert_eq!(
        situation().value(&task, "UCX_NET_DEVICES").as_deref(),
        Some("mlx5_1:1,eth0")
    );
    assert_eq!(situation().libraries(&["nccl"]).changes(&task), [NCCL]);
    let mut unwanted = situation();
    unwanted.wish.no_env = vec!["UCX_NET_DEVICES".to_string()];
    assert_eq!(unwanted.changes(&task), [NCCL, NVSHMEM]);
}

proptest::proptest! {
    #[test]
    fn no_text_breaks_a_template_and_no_value_moves_a_cursor(text in "(A|MY_FILE|NCCL_X)=(\\PC|\\{|\\}|\\{nic\\}|\\{machine\\}){0,12}", machine in ".{0,6}") {
        if let Ok((template, _)) = Template::parse(&text) {
            let mut situation = Situation::new(PortState::Active);
            situation.topology.name = machine;
            let filled = fill(&template, &situation, &task(&[1], &[1]));
            proptest::prop_assert!(!filled.unwrap_or_default().contains(char::is_control));
        }
    }

    #[test]
    fn what_the_marker_publishes_it_claims_again(value in "[ %0-9A-Za-z,:=/]{0,40}") {
        let (topology, node) = node(PortState::Active);
        let mut line = marker::line(&topology, &node, &task(&[1], &[1]), "1.0.0-0");
        marker::add(&mut line, "MINE", &value);
        marker::add(&mut line, "OTHER", "x");
        let claimed = Marker::parse(&line, |_| true);
        proptest::prop_assert!(claimed.is_ours("MINE", &value) && claimed.is_ours("OTHER", "x"));
    }
}

#[test]
fn one_of_vllms_two_variables_alone_is_warned_of() {
    let told = |templates: &[&str]| -> Vec<String> {
        let mut situation = Situation::new(PortState::Active);
        situation.wish.admin.templates = templates
            .iter()
            .map(|text| Template::parse(text).unwrap().0)
            .collect();
        situation
            .prepared()
            .diagnostics()
            .iter()
            .map(ToString::to_string)
            .collect()
    };
    let (map, vars) = (
        "VLLM_GPU_NIC_PCIE_MAPPING={map:vllm}",
        "VLLM_NIC_SELECTION_VARS=UCX_NET_DEVICES:1",
    );
    assert_eq!(told(&[map, vars]), [""; 0]);
    assert!(told(&[map])[0].contains("set both") && told(&[vars])[0].contains("set both"));
    let situation =
        Situation::new(PortState::Active).with(&[("VLLM_GPU_NIC_PCIE_MAPPING", "1:00.0=2:00.0")]);
    assert_eq!(
        situation.value(&task(&[1], &[1]), "UCX_NET_DEVICES"),
        None,
        "vLLM's own NIC comes first"
    );
}
