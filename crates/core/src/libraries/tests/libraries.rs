//! Each library's own rule.

use super::*;

// ---- NCCL ----

#[test]
fn nccls_list_is_the_same_whatever_the_task_has() {
    for (gpus, rails) in [(&[][..], &[][..]), (&[0], &[0]), (&[0, 1, 2], &[0, 1, 2])] {
        let changes = Situation::new(PortState::Active).changes(&task(gpus, rails));
        assert!(changes.contains(&NCCL.to_string()), "with GPUs {gpus:?}");
        assert!(changes.contains(&NVSHMEM.to_string()), "with GPUs {gpus:?}");
    }
}

#[test]
fn nccl_is_left_alone_where_only_ports_that_it_skips_itself_are_left_out() {
    let situation = Situation::new(PortState::Down);
    assert_eq!(
        situation.why(&task(&[1], &[1]), "NCCL_IB_HCA"),
        "every NIC that it would find may be used"
    );
    assert_eq!(situation.changes(&task(&[1], &[1])), [UCX]);
}

#[test]
fn devices_that_verbs_libraries_do_not_take_for_theirs_need_no_list() {
    for kind in [NicKind::Efa, NicKind::Slingshot, NicKind::Ethernet] {
        let mut situation = Situation::new(PortState::Active);
        situation.topology.nics[3].kind = kind;
        assert_eq!(
            situation.value(&task(&[1], &[1]), "NCCL_IB_HCA"),
            None,
            "{kind}"
        );
    }
}

#[test]
fn what_a_configuration_file_sets_is_not_set_over_it() {
    let task = task(&[1], &[1]);
    for (text, set) in [
        ("NCCL_IB_HCA=mlx5\n", false),
        ("NCCL_DEBUG=WARN\n NCCL_IB_HCA = =mlx5_0 # compute\n", false),
        ("#NCCL_IB_HCA=mlx5\nNCCL_IB_HCA_X=1\nNCCL_IB_HCA\n", true),
        ("", true),
    ] {
        let files: [Files; 3] = [
            Box::leak(Box::new([("/etc/nccl.conf", text)])),
            Box::leak(Box::new([("/home/me/.nccl.conf", text)])),
            Box::leak(Box::new([("/home/me/my.conf", text)])),
        ];
        for (files, variables) in files.into_iter().zip([
            &[][..],
            &[("HOME", "/home/me")],
            &[
                ("NCCL_CONF_FILE", "/home/me/my.conf"),
                ("HOME", "/home/you"),
            ],
        ]) {
            let situation = Situation {
                files,
                ..Situation::new(PortState::Active)
            }
            .with(variables);
            let is_set = situation.value(&task, "NCCL_IB_HCA").is_some();
            assert_eq!(is_set, set, "`{text}` in `{}`", files[0].0);
        }
    }
}

#[test]
fn a_configuration_file_that_is_longer_than_what_is_read_of_it_may_set_anything() {
    let task = task(&[1], &[1]);
    let reason = |files: Files, variables: &[(&str, &str)], name: &str| {
        Situation {
            files,
            ..Situation::new(PortState::Active)
        }
        .with(variables)
        .why(&task, name)
    };
    let longer =
        |file: &str| format!("`{file}` is longer than what is read of it here, and may set it");
    let nccl = |files: Files, variables: &[(&str, &str)]| reason(files, variables, "NCCL_IB_HCA");
    assert_eq!(
        nccl(&[("/etc/nccl.conf", "# long…")], &[]),
        longer("/etc/nccl.conf")
    );
    let at_home = [("HOME", "/home/me")];
    assert_eq!(
        nccl(&[("/home/me/.nccl.conf", "NCCL_DEBUG=1\n…")], &at_home),
        longer("/home/me/.nccl.conf")
    );
    assert_eq!(
        nccl(&[("/my.conf", "…")], &[("NCCL_CONF_FILE", "/my.conf")]),
        longer("/my.conf")
    );
    let ucx = reason(&[("/etc/ucx/ucx.conf", "…")], &[], "UCX_NET_DEVICES");
    assert_eq!(ucx, longer("/etc/ucx/ucx.conf"));
    // what stands in the part read counts
    assert_eq!(
        nccl(&[("/etc/nccl.conf", "NCCL_IB_HCA=x\n…")], &[]),
        "`/etc/nccl.conf` sets it"
    );
}

#[test]
fn the_file_at_home_is_not_read_where_the_user_names_another() {
    let files: Files = &[("/home/me/.nccl.conf", "NCCL_IB_HCA=mlx5\n")];
    let task = task(&[1], &[1]);
    let situation = Situation {
        files,
        ..Situation::new(PortState::Active)
    }
    .with(&[("HOME", "/home/me"), ("NCCL_CONF_FILE", "/elsewhere")]);
    assert!(
        situation.value(&task, "NCCL_IB_HCA").is_some(),
        "NCCL does not read it either"
    );
    let situation = Situation {
        files,
        ..Situation::new(PortState::Active)
    }
    .with(&[("HOME", "/home/me"), ("NCCL_CONF_FILE", "")]);
    assert_eq!(
        situation.why(&task, "NCCL_IB_HCA"),
        "`/home/me/.nccl.conf` sets it"
    );
}

// `srun --export=NONE` (22.05.8) leaves a task `SLURM_JOB_UID` and no `HOME`
#[test]
fn without_a_home_the_one_in_passwd_counts_as_for_getpwuid() {
    let passwd = "root:x:0:0::/root:/bin/sh\nme:x:1000:1000:I, me:/home/me:/bin/sh\n";
    let files: Files = Box::leak(Box::new([
        ("/etc/passwd", passwd),
        ("/home/me/.nccl.conf", "NCCL_IB_HCA=mlx5\n"),
    ]));
    let task = task(&[1], &[1]);
    let of = |variables: &[(&str, &str)]| {
        Situation {
            files,
            ..Situation::new(PortState::Active)
        }
        .with(variables)
    };
    let why = |id: &str| of(&[("SLURM_JOB_UID", id)]).why(&task, "NCCL_IB_HCA");
    assert_eq!(why("1000"), "`/home/me/.nccl.conf` sets it");
    assert_eq!(
        why("7"),
        "`~/.nccl.conf` may set it: the task has no `HOME`, and `/etc/passwd` no such user"
    );
    let is_set = |variables: &[_]| of(variables).value(&task, "NCCL_IB_HCA").is_some();
    assert!(is_set(&[("SLURM_JOB_UID", "0")]), "root has no such file");
    assert!(is_set(&[("SLURM_JOB_UID", "7"), ("NCCL_CONF_FILE", "/x")]));
    assert!(is_set(&[]), "no Slurm, no user");
}

#[test]
fn no_file_is_read_where_no_list_would_be_set() {
    let (topology, node) = node(PortState::Down);
    let wish = Wish::default();
    let asked = std::cell::RefCell::new(Vec::new());
    let read = |path: &str| {
        asked.borrow_mut().push(path.to_string());
        None
    };
    let prepared = Prepared::new(&topology, &node, wish.into(), &Step::default(), &read);
    let present = present(&[("HOME", "/home/me"), ("NCCL_CONF_FILE", "/home/me/x")]);
    environment(
        &prepared,
        &topology,
        &node,
        &task(&[1], &[1]),
        Evidence {
            present: &present,
            read: &read,
        },
    );
    let ucxs = [
        "/etc/ucx/ucx.conf",
        "/proc/net/route",
        "ucx.conf",
        "/home/me/ucx.conf",
    ];
    // a node whose interfaces are not known gets no list, so no user's file is asked
    assert_eq!(asked.take(), ucxs[..2], "NCCL's value is not set");
    let read = |path: &str| {
        asked.borrow_mut().push(path.to_string());
        (path == "/proc/net/route").then(FileText::default)
    };
    let prepared = Prepared::new(
        &topology,
        &node,
        Wish::default().into(),
        &Step::default(),
        &read,
    );
    environment(
        &prepared,
        &topology,
        &node,
        &task(&[1], &[1]),
        Evidence {
            present: &present,
            read: &read,
        },
    );
    let told: Vec<String> = asked
        .take()
        .into_iter()
        .filter(|path| path.ends_with("conf"))
        .collect();
    assert_eq!(
        told,
        [ucxs[0], ucxs[2], ucxs[3]],
        "UCX's value is set, NCCL's is not"
    );
    environment(
        &prepared,
        &topology,
        &node,
        &task(&[], &[]),
        Evidence {
            present: &present,
            read: &read,
        },
    );
    assert_eq!(
        asked.take(),
        [""; 0],
        "nothing is set for a task without GPUs"
    );
}

#[test]
fn rccl_has_files_of_its_own_and_is_told_only_where_a_nic_must_be_left_out() {
    let amd = |storage| {
        let mut situation = Situation::new(storage);
        situation
            .topology
            .gpus
            .iter_mut()
            .for_each(|gpu| gpu.vendor = GpuVendor::Amd);
        situation.with(&[("HOME", "/home/me")])
    };
    let task = task(&[1], &[1]);
    const ROCSHMEM: &str = "ROCSHMEM_HCA_LIST=mlx5_0,mlx5_1,mlx5_2";
    assert_eq!(
        amd(PortState::Active).changes(&task),
        [UCX, NCCL, ROCSHMEM],
        "NVSHMEM is NVIDIA's"
    );
    assert!(
        amd(PortState::Active)
            .why(&task, "NCCL_IB_HCA")
            .contains("with fewer NICs RCCL may not recognise the machine")
    );
    assert_eq!(amd(PortState::Down).changes(&task), [UCX]);
    for file in ["/home/me/.rccl.conf", "/etc/rccl.conf"] {
        let files: Files = Box::leak(Box::new([(file, "NCCL_IB_HCA=mlx5\n")]));
        assert_eq!(
            Situation {
                files,
                ..amd(PortState::Active)
            }
            .changes(&task),
            [UCX, ROCSHMEM],
            "`{file}`"
        );
    }
    let files: Files = &[("/home/me/.rccl.conf", "NCCL_IB_HCA=mlx5\n")];
    let nvidia = Situation {
        files,
        ..Situation::new(PortState::Active)
    }
    .with(&[("HOME", "/home/me")]);
    assert_eq!(
        nvidia.changes(&task),
        [UCX, NCCL, NVSHMEM],
        "NCCL does not read it"
    );
    let named = Situation {
        files,
        ..amd(PortState::Active)
    }
    .with(&[("NCCL_CONF_FILE", "/home/me/other.conf")]);
    assert_eq!(
        named.changes(&task),
        [UCX, ROCSHMEM],
        "older RCCL knows no named file, and reads its own"
    );
    let forced = amd(PortState::Active).with(&[("ROCSHMEM_USE_IB_HCA", "mlx5_1")]);
    assert_eq!(
        forced.changes(&task),
        [UCX, NCCL],
        "rocSHMEM then looks for no NIC"
    );
    let asked = amd(PortState::Active).libraries(&["mori"]);
    assert_eq!(asked.changes(&task), ["MORI_RDMA_DEVICES=^mlx5_3"]);
    assert_eq!(
        amd(PortState::Down).libraries(&["mori"]).changes(&task),
        [""; 0]
    );
    assert_eq!(
        Situation::new(PortState::Active)
            .libraries(&["mori"])
            .changes(&task),
        [""; 0],
        "MORI is AMD's"
    );
}

#[test]
fn isolated_rails_keep_nccls_connections_on_one_rail_in_every_task() {
    const CROSS_NIC: &str = "NCCL_CROSS_NIC";
    for (gpus, rails) in [(&[][..], &[][..]), (&[1], &[1]), (&[0, 1], &[0, 1])] {
        let mut situation = Situation::new(PortState::Active);
        assert_eq!(
            situation.why(&task(gpus, rails), CROSS_NIC),
            "",
            "nobody knows the fabric"
        );
        situation.wish.admin.fabric = Fabric::IsolatedRails;
        assert_eq!(
            situation.value(&task(gpus, rails), CROSS_NIC).as_deref(),
            Some("0")
        );
        let files: Files = &[("/home/me/.nccl.conf", "NCCL_CROSS_NIC=1\n")];
        let own = Situation { files, ..situation }.with(&[("HOME", "/home/me")]);
        assert_eq!(
            own.value(&task(gpus, rails), CROSS_NIC),
            None,
            "the user's file"
        );
        let own = Situation { files: &[], ..own }.with(&[(CROSS_NIC, "1")]);
        assert_eq!(
            own.why(&task(gpus, rails), CROSS_NIC),
            "the user's own value stays"
        );
    }
}

#[test]
fn a_list_states_isolated_rails_to_nccl_by_numbers_that_no_nic_shifts_which_is_left_out() {
    let list = |storage: PortState, change: fn(&mut Situation)| {
        let mut situation = Situation::new(storage);
        situation.wish.admin.fabric = Fabric::IsolatedRails;
        change(&mut situation);
        situation.value(&task(&[0], &[]), "NCCL_IB_HCA")
    };
    let all = list(PortState::Active, |_| ());
    assert_eq!(all.as_deref(), Some("=mlx5_0:1:0,mlx5_1:1:1,mlx5_2:1:2"));
    let without_first = list(PortState::Down, |situation| {
        drop(situation.node.rails.remove(0))
    });
    assert_eq!(
        without_first.as_deref(),
        Some("=mlx5_1:1:1,mlx5_2:1:2"),
        "as on the other hosts"
    );
    assert_eq!(
        list(PortState::Down, |_| ()),
        None,
        "PyTorch would copy it to NVSHMEM, which needs none"
    );
    for name in [
        "NCCL_CTRAN_ENABLE",
        "NCCL_CTRAN_BACKENDS",
        "NCCL_CTRAN_IB_DEVICES_PER_RANK",
    ] {
        let mut situation = Situation::new(PortState::Active).with(&[(name, "1")]);
        situation.wish.admin.fabric = Fabric::IsolatedRails;
        let plain = situation.value(&task(&[0], &[]), "NCCL_IB_HCA");
        assert_eq!(
            plain.as_deref(),
            Some("=mlx5_0:1,mlx5_1:1,mlx5_2:1"),
            "{name}: CTRAN reads no numbers"
        );
    }
    let routed = list(PortState::Active, |situation| {
        situation.wish.admin.fabric = Fabric::Routed
    });
    assert_eq!(routed.as_deref(), Some("=mlx5_0:1,mlx5_1:1,mlx5_2:1"));
}

#[test]
fn nccl_is_told_nothing_that_would_hide_a_nic_which_it_is_to_join_with_another() {
    let task = task(&[1], &[1]);
    let is_set = |situation: Situation| situation.value(&task, "NCCL_IB_HCA").is_some();
    for (groups, set) in [
        ("mlx5_0:1,mlx5_1:1;mlx5_2,mlx5_3", false),
        ("mlx5_0_dma,mlx5_3_dma", false),
        ("mlx5_0,mlx5_1", true),
        ("mlx5_0,mlx5_33", true),
        ("", true),
    ] {
        let by_hand = Situation::new(PortState::Active).with(&[("NCCL_NET_FORCE_MERGE", groups)]);
        assert_eq!(is_set(by_hand), set, "`{groups}`");
        for file in ["/etc/nccl.conf", "/home/me/.nccl.conf"] {
            let text = format!("NCCL_NET_FORCE_MERGE={groups}\n").leak();
            let files: Files = Box::leak(Box::new([(file, &*text)]));
            let by_file = Situation {
                files,
                ..Situation::new(PortState::Active)
            }
            .with(&[("HOME", "/home/me")]);
            assert_eq!(is_set(by_file), set, "`{groups}` in `{file}`");
        }
    }
    let files: Files = &[("/etc/nccl.conf", "NCCL_NET_FORCE_MERGE=mlx5_2,mlx5_3\n")];
    let nearer = Situation {
        files,
        ..Situation::new(PortState::Active)
    }
    .with(&[("NCCL_NET_FORCE_MERGE", "mlx5_0,mlx5_1")]);
    assert!(is_set(nearer), "NCCL does not read the file's");
    let why = Situation {
        files,
        ..Situation::new(PortState::Active)
    }
    .why(&task, "NCCL_IB_HCA");
    assert_eq!(
        why,
        "`NCCL_NET_FORCE_MERGE` names mlx5_3, without which NCCL would fail"
    );
}

#[test]
fn deepep_asks_a_nic_for_its_rate_that_may_be_chosen() {
    let name = |situation: &Situation| situation.value(&task(&[1], &[1]), "EP_NIC_NAME");
    let mut situation = Situation::new(PortState::Active);
    assert_eq!(name(&situation), None, "`mlx5_0` is the default");
    situation.node.rails.remove(0);
    assert_eq!(name(&situation).as_deref(), Some("mlx5_1"));
    situation
        .topology
        .gpus
        .iter_mut()
        .for_each(|gpu| gpu.vendor = GpuVendor::Amd);
    assert_eq!(name(&situation), None);
}

// ---- Mooncake ----

#[test]
fn mooncake_gets_names_without_ports_where_that_is_asked_for() {
    let situation = Situation::new(PortState::Active).libraries(&["mooncake"]);
    assert_eq!(
        situation.changes(&task(&[1], &[1])),
        ["MC_TE_FILTERS=mlx5_0,mlx5_1,mlx5_2"]
    );
    let nothing = Situation::new(PortState::Down).libraries(&["mooncake"]);
    assert_eq!(nothing.changes(&task(&[1], &[1])), Vec::<String>::new());
}

#[test]
fn mooncake_is_told_nothing_where_the_user_chooses_by_another_variable() {
    let situation = || Situation::new(PortState::Active).libraries(&["mooncake"]);
    for (name, value, set) in [
        ("MC_TE_FILTERS_EXCLUDE", "mlx5_2", false),
        ("MC_TE_FILTERS_EXCLUDE", "", true),
        ("MC_MS_FILTERS", "mlx5_3", false),
        (
            "MC_TENT_CONF",
            r#" {"topology": {"rdma_whitelist": ["mlx5_3"]}}"#,
            false,
        ),
        (
            "MC_TENT_CONF",
            r#"{"topology/rdma_blacklist": ["mlx5_0"]}"#,
            false,
        ),
        ("MC_TENT_CONF", r#"{"log_level": "info"}"#, true),
        ("MC_TENT_CONF", "/home/me/tent.json", false),
        ("MC_TENT_CONF", "", true),
    ] {
        let told = situation().with(&[(name, value)]);
        assert_eq!(
            told.value(&task(&[1], &[1]), "MC_TE_FILTERS").is_some(),
            set,
            "`{name}={value}`"
        );
    }
}

// ---- whose variables ----

#[test]
fn only_the_libraries_that_are_wanted_are_served() {
    let task = task(&[1], &[1]);
    for (words, expected) in [
        (&["none"][..], &[][..]),
        (&["ucx"], &[UCX]),
        (&["nccl", "nvshmem"], &[NCCL, NVSHMEM]),
        (&["default"], &[UCX, NCCL, NVSHMEM]),
    ] {
        assert_eq!(
            Situation::new(PortState::Active)
                .libraries(words)
                .changes(&task),
            expected,
            "{words:?}"
        );
    }
    let mut situation = Situation::new(PortState::Active);
    situation.wish.no_env = vec!["NCCL_IB_HCA".to_string(), "UCX_NET_DEVICE".to_string()];
    assert_eq!(situation.changes(&task), [UCX, NVSHMEM]);
    let diagnostics: Vec<String> = situation
        .prepared()
        .diagnostics()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        diagnostics,
        ["`no-env=UCX_NET_DEVICE`: nothing sets this variable: no effect"]
    );
    let mut many = Situation::new(PortState::Active);
    many.wish.no_env = ["A", "B", "A", "C", "D", "A"]
        .iter()
        .cycle()
        .take(600)
        .map(ToString::to_string)
        .collect();
    let diagnostics: Vec<String> = many
        .prepared()
        .diagnostics()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        diagnostics,
        ["`no-env=A+B+C`: nothing sets these variables, nor 1 more: no effect"],
        "one line, however long the list"
    );
}

#[test]
fn mori_does_not_lose_a_nic_whose_other_port_is_a_rail() {
    let mut situation = Situation::new(PortState::Down).libraries(&["mori"]);
    situation
        .topology
        .gpus
        .iter_mut()
        .for_each(|gpu| gpu.vendor = GpuVendor::Amd);
    // a card with InfiniBand on its first port, which is a rail, and Ethernet on its second
    for nic in &mut situation.topology.nics[..3] {
        nic.ports
            .push(Port::new(2, PortState::Active, LinkLayer::Ethernet, None));
    }
    assert_eq!(
        situation.value(&task(&[1], &[1]), "MORI_RDMA_DEVICES"),
        None,
        "these are all its NICs"
    );
    let storage = &mut situation.topology.nics[3];
    storage.ports[0].state = PortState::Active;
    let list = situation.value(&task(&[1], &[1]), "MORI_RDMA_DEVICES");
    assert_eq!(
        list.as_deref(),
        Some("^mlx5_3"),
        "it has no port that is a rail"
    );
}
