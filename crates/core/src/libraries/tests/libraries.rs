//! Each library's own rule.

use super::*;

const HCA: &str = "NCCL_IB_HCA";
const AT_HOME: &[&str] = &["HOME=/home/me"];
const OWN: &str = "/home/me/.nccl.conf";

#[test]
fn a_gpu_task_gets_its_own_nic_for_ucx_and_every_task_the_nodes_lists_for_nccl_and_nvshmem() {
    assert_eq!(here().changes(), [UCX, NCCL, NVSHMEM]);
    for gpus in [&[][..], &[0], &[0, 1, 2]] {
        let changes = here().gpus(gpus).changes();
        let is_right = changes.ends_with(&[NCCL.into(), NVSHMEM.into()]);
        assert!(is_right, "{gpus:?}: {changes:?}");
    }
}

#[test]
fn nccl_is_left_alone_where_only_ports_that_it_skips_itself_are_left_out() {
    assert!(whole().why(HCA).starts_with("every NIC that it would"));
    assert_eq!(whole().changes(), [UCX]);
    for kind in [NicKind::Efa, NicKind::Slingshot, NicKind::Ethernet] {
        let mut situation = here();
        situation.topology.nics[3].kind = kind;
        assert_eq!(situation.value(HCA), "", "{kind} is no verbs device");
    }
}

#[test]
fn a_value_of_nccls_configuration_file_stays() {
    for (text, is_ours) in [
        ("NCCL_IB_HCA=mlx5\n", false),
        ("NCCL_DEBUG=WARN\n NCCL_IB_HCA = =mlx5_0 # compute\n", false),
        ("#NCCL_IB_HCA=mlx5\nNCCL_IB_HCA_X=1\nNCCL_IB_HCA\n", true),
        ("", true),
    ] {
        for (file, variables) in [
            ("/etc/nccl.conf", &[][..]),
            ("/home/me/.nccl.conf", AT_HOME),
            ("/my.conf", &["NCCL_CONF_FILE=/my.conf", "HOME=/home/you"]),
            ("/home/me/.nccl.conf", &["NCCL_CONF_FILE=", "HOME=/home/me"]),
        ] {
            let situation = here().file(file, text).env(variables);
            assert_eq!(situation.sets(HCA), is_ours, "`{text}` in `{file}`");
            let why = situation.why(HCA);
            assert_eq!(why.starts_with(&format!("`{file}` ")), !is_ours, "{why}");
        }
    }
    let named = &["HOME=/home/me", "NCCL_CONF_FILE=/elsewhere"];
    let situation = here().file(OWN, "NCCL_IB_HCA=mlx5\n").env(named);
    assert!(situation.sets(HCA), "NCCL does not read it either");
}

#[test]
fn a_configuration_file_that_is_longer_than_its_part_read_may_set_anything() {
    for (file, text, variables, name, is_sure) in [
        ("/etc/nccl.conf", "# long…", &[][..], HCA, false),
        (OWN, "NCCL_DEBUG=1\n…", AT_HOME, HCA, false),
        ("/my.conf", "…", &["NCCL_CONF_FILE=/my.conf"], HCA, false),
        ("/etc/ucx/ucx.conf", "…", &[], "UCX_NET_DEVICES", false),
        ("/etc/nccl.conf", "NCCL_IB_HCA=x\n…", &[], HCA, true),
    ] {
        let why = here().file(file, text).env(variables).why(name);
        let end = if is_sure { "sets it" } else { "may set it" };
        let is_right = why.starts_with(&format!("`{file}` ")) && why.ends_with(end);
        assert!(is_right, "{why}");
        assert_eq!(why.contains("is longer than"), !is_sure, "{why}");
    }
}

// `srun --export=NONE` (22.05.8) leaves a task `SLURM_JOB_UID` and no `HOME`
#[test]
fn without_a_home_the_one_in_passwd_counts_as_for_getpwuid() {
    let passwd = "root:x:0:0::/root:/bin/sh\nme:x:1000:1000:I, me:/home/me:/bin/sh\n";
    let own = here().file("/home/me/.nccl.conf", "NCCL_IB_HCA=mlx5\n");
    let of = |variables: &[&str]| own.clone().file("/etc/passwd", passwd).env(variables);
    let why = |id: &str| of(&[id]).why(HCA);
    assert_eq!(why("SLURM_JOB_UID=1000"), "`/home/me/.nccl.conf` sets it");
    assert!(why("SLURM_JOB_UID=7").starts_with("`~/.nccl.conf` may set it"));
    assert!(of(&["SLURM_JOB_UID=0"]).sets(HCA), "root has no such file");
    assert!(of(&["SLURM_JOB_UID=7", "NCCL_CONF_FILE=/x"]).sets(HCA));
    assert!(of(&[]).sets(HCA), "no Slurm, no user");
}

#[test]
fn no_file_is_read_where_no_list_would_be_set() {
    let variables = &["HOME=/home/me", "NCCL_CONF_FILE=/home/me/x"];
    let situation = whole().env(variables);
    let ucxs = ["/etc/ucx/ucx.conf", "ucx.conf", "/home/me/ucx.conf"];
    let conf = |situation: &Situation| {
        let mut opened = situation.opened().concat();
        opened.retain(|path| path.ends_with("conf"));
        opened
    };
    // UCX's value is set, NCCL's is not
    assert_eq!(conf(&situation), ucxs);
    // a node whose interfaces are not known gets no list, so no user's file is asked
    let unknown = situation.clone().file("/proc/net/route", "…");
    assert_eq!(conf(&unknown), ucxs[..1]);
    // a task without GPUs
    assert_eq!(situation.gpus(&[]).opened()[1], [""; 0]);
}

#[test]
fn rccl_has_files_of_its_own_and_is_told_only_where_a_nic_must_be_left_out() {
    const ROCSHMEM: &str = "ROCSHMEM_HCA_LIST=mlx5_0,mlx5_1,mlx5_2";
    let amd = || here().amd().env(AT_HOME);
    // NVSHMEM is NVIDIA's
    assert_eq!(amd().changes(), [UCX, NCCL, ROCSHMEM]);
    assert!(amd().why(HCA).contains("RCCL may not recognise the"));
    assert_eq!(whole().amd().changes(), [UCX]);
    let own = |situation: Situation| situation.file("/home/me/.rccl.conf", "NCCL_IB_HCA=mlx5\n");
    let of_node = amd().file("/etc/rccl.conf", "NCCL_IB_HCA=mlx5\n");
    // older RCCL knows no named file, and reads its own
    let named = own(amd()).env(&["NCCL_CONF_FILE=/home/me/other.conf"]);
    for situation in [own(amd()), of_node, named] {
        let files = &situation.files;
        assert_eq!(situation.changes(), [UCX, ROCSHMEM], "{files:?}");
    }
    let nvidia = own(here().env(AT_HOME));
    // NCCL does not read it
    assert_eq!(nvidia.changes(), [UCX, NCCL, NVSHMEM]);
    let forced = amd().env(&["ROCSHMEM_USE_IB_HCA=mlx5_1"]);
    // rocSHMEM then looks for no NIC
    assert_eq!(forced.changes(), [UCX, NCCL]);
}

#[test]
fn isolated_rails_keep_nccls_connections_on_one_rail_in_every_task() {
    const CROSS_NIC: &str = "NCCL_CROSS_NIC";
    for gpus in [&[][..], &[1], &[0, 1]] {
        let situation = here().gpus(gpus).env(AT_HOME);
        assert_eq!(situation.why(CROSS_NIC), "", "the fabric is not known");
        let isolated = situation.fabric(Fabric::IsolatedRails);
        assert_eq!(isolated.value(CROSS_NIC), "0");
        let by_file = isolated.clone().file(OWN, "NCCL_CROSS_NIC=1\n");
        assert_eq!(by_file.value(CROSS_NIC), "", "the user's file");
        let by_hand = isolated.env(&["NCCL_CROSS_NIC=1"]);
        by_hand.begins(CROSS_NIC, "the user's own");
    }
}

#[test]
fn a_list_states_isolated_rails_to_nccl_by_numbers_that_no_nic_shifts_which_is_left_out() {
    let isolated = |situation: Situation| situation.fabric(Fabric::IsolatedRails);
    let list = |situation: Situation| situation.value(HCA);
    assert_eq!(list(isolated(here())), "=mlx5_0:1:0,mlx5_1:1:1,mlx5_2:1:2");
    let mut without_first = isolated(whole());
    without_first.node.rails.remove(0);
    // as on the other hosts
    assert_eq!(list(without_first), "=mlx5_1:1:1,mlx5_2:1:2");
    // PyTorch would copy it to NVSHMEM
    assert_eq!(list(isolated(whole())), "");
    let plain = "=mlx5_0:1,mlx5_1:1,mlx5_2:1";
    for name in ["ENABLE", "BACKENDS", "IB_DEVICES_PER_RANK"] {
        let ctran = isolated(here()).env(&[&format!("NCCL_CTRAN_{name}=1")]);
        assert_eq!(list(ctran), plain, "{name}: CTRAN reads no numbers");
    }
    assert_eq!(list(here().fabric(Fabric::Routed)), plain);
}

#[test]
fn nccl_is_told_nothing_that_would_hide_a_nic_which_it_is_to_join_with_another() {
    const GROUPS: &str = "NCCL_NET_FORCE_MERGE";
    let file = |file: &str, groups: &str| here().file(file, &format!("{GROUPS}={groups}\n"));
    for (groups, is_set) in [
        ("mlx5_0:1,mlx5_1:1;mlx5_2,mlx5_3", false),
        ("mlx5_0_dma,mlx5_3_dma", false),
        ("mlx5_0,mlx5_1", true),
        ("mlx5_0,mlx5_33", true),
        ("", true),
    ] {
        let by_hand = here().env(&[&format!("{GROUPS}={groups}")]);
        let by_file = ["/etc/nccl.conf", "/home/me/.nccl.conf"].map(|path| file(path, groups));
        for situation in by_file.into_iter().chain([by_hand]) {
            assert_eq!(situation.env(AT_HOME).sets(HCA), is_set, "`{groups}`");
        }
    }
    let of_file = file("/etc/nccl.conf", "mlx5_2,mlx5_3");
    of_file.begins(HCA, "`NCCL_NET_FORCE_MERGE` names mlx5_3,");
    let nearer = of_file.env(&["NCCL_NET_FORCE_MERGE=mlx5_0,mlx5_1"]);
    assert!(nearer.sets(HCA), "NCCL does not read the file's");
}

#[test]
fn deepep_asks_a_nic_for_its_rate_that_may_be_chosen() {
    let mut situation = here();
    // `mlx5_0` is the default
    assert_eq!(situation.value("EP_NIC_NAME"), "");
    situation.node.rails.remove(0);
    assert_eq!(situation.value("EP_NIC_NAME"), "mlx5_1");
    assert_eq!(situation.amd().value("EP_NIC_NAME"), "");
}

#[test]
fn mooncake_gets_names_without_ports_where_that_is_asked_for() {
    let (mooncake, whole) = (here().libraries("mooncake"), whole().libraries("mooncake"));
    assert_eq!(mooncake.changes(), ["MC_TE_FILTERS=mlx5_0,mlx5_1,mlx5_2"]);
    assert_eq!(whole.changes(), [""; 0]);
    let with_list = r#"MC_TENT_CONF= {"topology": {"rdma_whitelist": ["mlx5_3"]}}"#;
    let without_list = r#"MC_TENT_CONF={"topology/rdma_blacklist": ["mlx5_0"]}"#;
    // the user chooses by another variable
    for (variable, is_set) in [
        ("MC_TE_FILTERS_EXCLUDE=mlx5_2", false),
        ("MC_TE_FILTERS_EXCLUDE=", true),
        ("MC_MS_FILTERS=mlx5_3", false),
        (with_list, false),
        (without_list, false),
        (r#"MC_TENT_CONF={"log_level": "info"}"#, true),
        ("MC_TENT_CONF=/home/me/tent.json", false),
        ("MC_TENT_CONF=", true),
    ] {
        let found = mooncake.clone().env(&[variable]).sets("MC_TE_FILTERS");
        assert_eq!(found, is_set, "{variable}");
    }
}

#[test]
fn mori_loses_the_nics_without_a_port_that_is_a_rail() {
    const LIST: &str = "MORI_RDMA_DEVICES=^mlx5_3";
    let mori = |situation: Situation| situation.libraries("mori").amd();
    assert_eq!(mori(here()).changes(), [LIST]);
    assert_eq!(here().libraries("mori").changes(), [""; 0], "MORI is AMD's");
    // a card with InfiniBand on its first port, which is a rail, and Ethernet on its second
    let mut cards = mori(whole());
    let second = Port::new(2, PortState::Active, LinkLayer::Ethernet, None);
    for nic in &mut cards.topology.nics[..3] {
        nic.ports.push(second.clone());
    }
    for all_its_nics in [mori(whole()), cards.clone()] {
        assert_eq!(all_its_nics.changes(), [""; 0]);
    }
    cards.port(3).state = PortState::Active;
    assert_eq!(cards.changes(), [LIST]);
}

#[test]
fn only_the_libraries_that_are_wanted_are_served() {
    for (words, expected) in [
        ("none", &[][..]),
        ("ucx", &[UCX]),
        ("nccl nvshmem", &[NCCL, NVSHMEM]),
        ("default", &[UCX, NCCL, NVSHMEM]),
    ] {
        assert_eq!(here().libraries(words).changes(), expected, "{words}");
    }
    let situation = here().no_env(&["NCCL_IB_HCA", "UCX_NET_DEVICE"]);
    assert_eq!(situation.changes(), [UCX, NVSHMEM]);
    let (one, many) = (["UCX_NET_DEVICE"], ["A", "B", "A", "C", "D", "A"]);
    for (names, start) in [
        (&one[..], "`no-env=UCX_NET_DEVICE`: nothing sets this"),
        // one line, however long the list
        (&many.repeat(100), "`no-env=A+B+C`: "),
    ] {
        let told = texts(&here().no_env(names).prepared().diagnostics());
        assert_eq!(told.len(), 1);
        let told = told.concat();
        assert!(told.starts_with(start), "{told}");
        assert_eq!(told.contains("nor 1 more:"), names.len() > 1, "{told}");
    }
}
