//! The admin's own variables.

use super::*;
use crate::libraries::template::Facts;
use crate::libraries::wanted::MapFile;
use crate::maps::{self, Format, Subject};

fn fill(template: &Template, situation: &Situation) -> Result<String, String> {
    template.fill(&Facts {
        node: &situation.topology,
        map: &situation.node,
        task: Some(&situation.task),
        interface: Some("eth0"),
        files: &[],
    })
}

#[test]
fn every_placeholder_is_filled_with_its_fact_and_two_braces_are_one() {
    let mut situation = here();
    situation.topology.name = "DGX H100".to_string();
    (situation.task.local_id, situation.task.global_id) = (3, 11);
    let filled = template::FACTS.iter().map(|fact| {
        let (template, _) = Template::parse(&format!("X={{{}}}", fact.0)).unwrap();
        let value = fill(&template, &situation).unwrap_or_default();
        format!("{}={value}\n", fact.0)
    });
    // the test's machine has no NUMA nodes, nor maps of its own
    let expected = "nic=mlx5_1
port=1
nic_address=0000:11:00.0
nics=mlx5_1:1
nic_names=mlx5_1
gpu=1
gpu_address=0000:10:00.0
gpus=1
numa=
local_id=3
task_id=11
rails=mlx5_0:1,mlx5_1:1,mlx5_2:1
rail_names=mlx5_0,mlx5_1,mlx5_2
rail_count=3
left_out=mlx5_3
machine=DGX H100
interface=eth0
map:sglang=
map:vllm=
map_file:json=
map_file:sglang=
map_file:mooncake=
";
    assert_eq!(filled.collect::<String>(), expected);
    assert_eq!(here().set("MINE={{{nic}}}").value("MINE"), "{mlx5_1}");
    assert_eq!(here().set("MINE={{nic}}").value("MINE"), "{nic}");
}

#[test]
fn a_map_for_an_engine_names_the_nics_of_all_gpus_that_the_task_sees() {
    let situation = model("dgx-h100", &[], 0).task(&[5, 4], &[]);
    let by_address = "0000:c3:00.0=0000:c0:00.0,0000:9d:00.0=0000:9a:00.0";
    for (word, expected) in [
        ("sglang", r#"{"0":"mlx5_9","1":"mlx5_6"}"#),
        ("vllm", by_address),
    ] {
        let (template, _) = Template::parse(&format!("X={{map:{word}}}")).unwrap();
        assert!(template.is_per_task());
        assert_eq!(fill(&template, &situation).as_deref(), Ok(expected));
    }
}

#[test]
fn a_file_with_the_map_is_named_where_it_is_the_map_and_the_task_counts_the_same_gpus() {
    const NAME: &str = "MC_CUSTOM_TOPO_FILE";
    const PATH: &str = "/run/nic-placement/node.map-mooncake.json";
    let machine = model("dgx-h100", &[], 0).set("MC_CUSTOM_TOPO_FILE={map_file:mooncake}");
    let gpus: Vec<GpuIndex> = machine.topology.gpu_indices().collect();
    let subject = Subject {
        topology: &machine.topology,
        node: &machine.node,
        gpus: &gpus,
    };
    let text = maps::write(Format::Mooncake, subject).unwrap();
    let other = text.replace("mlx5_11", "mlx5_12");
    let all = &[0, 1, 2, 3, 4, 5, 6, 7][..];
    let order = "does not see all in";
    for (text, gpus, refusal) in [
        (Some(&text), all, ""),
        // a plan takes it to be there
        (None, all, ""),
        (Some(&other), all, "is not the map of"),
        (Some(&text), &all[1..], order),
        (Some(&text), &[1, 0, 2, 3, 4, 5, 6, 7], order),
        (Some(&text), &[], order),
    ] {
        let mut situation = machine.clone().task(gpus, &[]);
        situation.wish.admin.map_files = vec![MapFile {
            format: Format::Mooncake,
            path: PATH.to_string(),
            text: text.cloned(),
        }];
        let why = situation.why(NAME);
        assert!(why.contains(refusal), "{gpus:?}: {why}");
        let expected = if refusal.is_empty() { PATH } else { "" };
        assert_eq!(situation.value(NAME), expected, "{gpus:?}");
    }
}

#[test]
fn a_template_without_its_fact_or_its_file_sets_nothing_and_says_so() {
    let two = here().set("MINE=x{nic}").set("OURS=all").gpus(&[0, 1]);
    assert_eq!(two.value("MINE"), "");
    two.ends("MINE", "there is no `{nic}` here");
    assert_eq!(two.value("OURS"), "all");
    assert_eq!(two.gpus(&[1]).value("MINE"), "xmlx5_1");
    for (length, is_set) in [(4096, true), (4097, false)] {
        let long = format!("MINE={}{{nic}}", "x".repeat(length - 6));
        assert_eq!(here().set(&long).sets("MINE"), is_set, "{length}");
    }
    // a name that would lead elsewhere, and a control character
    for name in ["../../root", "a\u{1b}b"] {
        let mut named = here().set("MINE=/etc/{machine}");
        named.topology.name = name.to_string();
        assert_eq!(named.value("MINE"), "");
    }
    const FILE: &str = "NCCL_TOPO_FILE";
    let without = here().set("NCCL_TOPO_FILE=/etc/nccl/{machine}.xml");
    assert_eq!(without.value(FILE), "");
    without.ends(FILE, "no file `/etc/nccl/test.xml` here");
    let with = without.file("/etc/nccl/test.xml", "<system/>");
    assert_eq!(with.value(FILE), "/etc/nccl/test.xml");
    // the user's
    assert_eq!(with.env(&["NCCL_TOPO_FILE=/x"]).value(FILE), "");
}

#[test]
fn a_template_that_cannot_be_is_refused_and_a_doubtful_one_is_doubted() {
    let long = format!("is no name of a; {}=x", "A".repeat(256));
    for row in [
        "a single `; X={; X=}; X={nic; X=nic}; X={nic}}",
        "is not known; X={}; X={nix}; X={map:slurm}; X={map:openmpi}; X={map:mpich}",
        "is not known; X={map:intel-mpi}; X={map_file:openmpi}",
        "is refused; LD_PRELOAD=x; LD_LIBRARY_PATH=x; PATH=x; SLURM_NIC_PLACEMENT=x",
        "is refused; SLURM_JOB_ID=x; NIC_PLACEMENT=x; CUDA_VISIBLE_DEVICES=x; BASH_ENV=x",
        "is refused; PYTHONPATH=x",
        "is no name of a; =x; a=x; 1A=x; A-B=x; A B=x; Ä=x",
        &long,
        "expected `set=NAME=TEMPLATE`; X",
        "control character; X=a\tb",
        "the same in every task; NCCL_IB_HCA={nic}; NCCL_X={map_file:json}",
        "the same in every task; NCCL_TOPO_FILE=/etc/{local_id}.xml",
        "looked for once; MY_FILE=/etc/{local_id}.xml",
    ] {
        let (part, texts) = row.split_once("; ").unwrap();
        for text in texts.split("; ") {
            let why = Template::parse(text).expect_err(text);
            assert!(why.contains(part), "`{text}`: {why}");
        }
    }
    // a format of ranks is no map that a template may hold
    let why = Template::parse("X={map:slurm}").unwrap_err();
    assert!(why.contains("is not known; known: {nic} "), "{why}");
    for (text, is_doubted) in [
        ("NCCL_IB_TC=1", true),
        ("NCCL_DEBUG=1", true),
        ("GLOO_SOCKET_IFNAME=1", true),
        ("GLOO_SOCKET_IFNAME={interface}", false),
        ("MC_MS_FILTERS={nic_names}", false),
        ("NCCL_IB_HCA=={rails}", false),
    ] {
        let (_, doubt) = Template::parse(text).expect("an admin may");
        let doubt = doubt.unwrap_or_default().to_string();
        let found = doubt.contains("if you mean it");
        assert_eq!(found, is_doubted, "`{text}`: {doubt}");
    }
}

#[test]
fn an_admins_template_stands_in_the_librarys_place_and_can_be_switched_off() {
    let situation = || here().set("UCX_NET_DEVICES={nics},eth0");
    assert_eq!(situation().value("UCX_NET_DEVICES"), "mlx5_1:1,eth0");
    assert_eq!(situation().libraries("nccl").changes(), [NCCL]);
    let unwanted = situation().no_env(&["UCX_NET_DEVICES"]);
    assert_eq!(unwanted.changes(), [NCCL, NVSHMEM]);
}

proptest::proptest! {
    #[test]
    fn no_text_breaks_a_template_and_no_value_moves_a_cursor(text in "(A|MY_FILE|NCCL_X)=(\\PC|\\{|\\}|\\{nic\\}|\\{machine\\}){0,12}", machine in ".{0,6}") {
        if let Ok((template, _)) = Template::parse(&text) {
            let mut situation = here();
            situation.topology.name = machine;
            let filled = fill(&template, &situation).unwrap_or_default();
            proptest::prop_assert!(!filled.contains(char::is_control));
        }
    }

    #[test]
    fn what_the_marker_publishes_it_claims_again(value in "[ %0-9A-Za-z,:=/]{0,40}") {
        let Situation { topology, node, task, .. } = here();
        let mut line = marker::line(&topology, &node, &task, "1.0.0-0");
        marker::add(&mut line, "MINE", &value);
        marker::add(&mut line, "OTHER", "x");
        let claimed = Marker::parse(&line, |_| true);
        proptest::prop_assert!(claimed.is_ours("MINE", &value) && claimed.is_ours("OTHER", "x"));
    }
}

#[test]
fn one_of_vllms_two_variables_alone_is_warned_of() {
    let map = here().set("VLLM_GPU_NIC_PCIE_MAPPING={map:vllm}");
    let vars = "VLLM_NIC_SELECTION_VARS=UCX_NET_DEVICES:1";
    for (situation, warnings) in [(map.clone().set(vars), 0), (map, 1), (here().set(vars), 1)] {
        let told = texts(&situation.prepared().diagnostics());
        assert_eq!(told.len(), warnings, "{told:?}");
        assert!(told.iter().all(|text| text.contains("set both")));
    }
    // vLLM's own NIC comes first
    let own = here().env(&["VLLM_GPU_NIC_PCIE_MAPPING=1:00.0=2:00.0"]);
    assert_eq!(own.value("UCX_NET_DEVICES"), "");
}
