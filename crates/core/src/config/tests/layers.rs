//! What plugstack.conf and the configuration file say together, and what is left to users.

use super::super::options::AdminLevel;
use super::super::rollout::Rollout;
use super::*;
use crate::wish::Libraries;

/// What holds on this node for a step of this partition, and what was found wrong.
fn admin(
    plugstack: &[&str],
    file: &str,
    node: &str,
    partition: Option<&str>,
) -> (Admin, Vec<String>) {
    let (mut admin, mut findings) = Admin::parse(plugstack.iter().copied());
    let (conf, more) = Conf::parse(file.as_bytes(), "/c").unwrap();
    findings.extend(more);
    findings.extend(admin.add_conf(&conf, "/c", node, partition));
    (admin, findings.iter().map(ToString::to_string).collect())
}

fn default_of(plugstack: &[&str], file: &str, partition: &str) -> Words {
    let (admin, findings) = admin(plugstack, file, "gpu1", Some(partition));
    assert_eq!(findings, [""; 0], "{file}");
    admin.default
}

#[test]
fn the_partition_beats_the_node_that_the_file_and_that_plugstack_conf() {
    let lines = [
        "default=numa\n",
        "NodeName=gpu[1-4] default=all\n",
        "PartitionName=train default=spread\n",
        "PartitionName=train NodeName=gpu1 default=rail\n",
    ];
    let policy = |count: usize, partition: &str| {
        // the order of the lines does not matter
        let text: String = lines[..count].iter().rev().copied().collect();
        default_of(&["default=closest"], &text, partition).policy
    };
    let on = |policy| Some(Switch::On(policy));
    assert_eq!(policy(0, "train"), on(Policy::Closest));
    assert_eq!(policy(1, "train"), on(Policy::Numa));
    assert_eq!(policy(2, "train"), on(Policy::All));
    assert_eq!(policy(3, "train"), on(Policy::Spread));
    assert_eq!(policy(4, "train"), on(Policy::Rail));
    assert_eq!(policy(4, "debug"), on(Policy::All), "another partition");
}

#[test]
fn words_of_the_layers_add_up_and_the_nearer_count() {
    let found = default_of(
        &["default=rail,strict,no-env=A"],
        "default=bind=none\nPartitionName=p default=best-effort,no-env=B",
        "p",
    );
    assert_eq!(found, words("rail,best-effort,bind=none,no-env=A+B"));
    assert_eq!(
        default_of(&["default=observe"], "default=bind=none", "p"),
        words("observe,bind=none")
    );
    assert_eq!(
        default_of(&["default=observe"], "default=closest", "p"),
        words("closest")
    );
    assert_eq!(
        default_of(&["default=rail"], "default=observe", "p"),
        words("rail,observe")
    );
    assert_eq!(
        default_of(&["default=off"], "default=observe", "p"),
        words("observe")
    );
    assert_eq!(
        default_of(&["default=rail,observe"], "default=off", "p"),
        words("off")
    );
    let taken_back = default_of(&["default=rail,no-env=A"], "default=no-env=none+C", "p");
    assert_eq!(taken_back.no_env, ["C"]);
    assert_eq!(
        default_of(&["default=env=ucx"], "default=env=NCCL_IB_HCA", "p").env,
        Some(Libraries::NONE)
    );
}

#[test]
fn a_nearer_list_replaces_the_others_and_goes_on_over_its_own_arguments() {
    let (found, findings) = admin(
        &[
            "exclude=a",
            "exclude=b",
            "include=x,y",
            "sysfs=/a",
            "set=A=1",
            "set=B=1",
            "lets-through=SYS:30",
        ],
        "exclude=c\nexclude=d\nNodeName=gpu1 machine=dgx-h100 set=A=2 lets-through=PHB:80\n",
        "gpu1",
        None,
    );
    assert_eq!(
        findings, [""; 0],
        "what a nearer layer replaces is no mistake"
    );
    let exclude: Vec<String> = found
        .selection
        .exclude
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        (exclude, found.selection.include.len()),
        (vec!["c".to_string(), "d".into()], 2)
    );
    assert_eq!(found.source, NodeSource::Machine("dgx-h100".into()));
    let (expected, _) = Admin::parse(["set=A=2", "set=B=1", "lets-through=SYS:30,PHB:80"]);
    assert_eq!(
        (found.templates, found.through),
        (expected.templates, expected.through)
    );
}

#[test]
fn a_partition_gets_no_word_that_a_user_must_not_choose() {
    let of_partitions =
        |argument: &str| admin(&[], &format!("PartitionName=p {argument}"), "n", Some("p"));
    let of_nodes = |argument: &str| admin(&[], &format!("NodeName=n {argument}"), "n", None);
    for argument in [
        "topology=/a",
        "sysfs=/a",
        "node-file=/a",
        "machine=a",
        "trust-topology",
        "cache=1",
        "disable",
    ] {
        let (found, findings) = of_partitions(argument);
        assert_eq!(found, Admin::default(), "{argument}");
        let finding = findings.last().unwrap();
        assert!(
            finding.contains("not for a partition, which a user's process names"),
            "{findings:?}"
        );
        assert_eq!(of_nodes(argument).1, [""; 0]);
    }
    assert_ne!(of_partitions("set=A=1").0, Admin::default());
    let (found, findings) = of_partitions("set=A_FILE=/etc/a");
    assert_eq!(found, Admin::default());
    assert!(
        findings[0].contains("`A_FILE` names a file, which root looks for"),
        "{findings:?}"
    );
    for found in [
        of_partitions("conf=/a"),
        of_nodes("conf=/a"),
        admin(&[], "conf=/a", "n", None),
    ] {
        assert_eq!(found.0, Admin::default());
        assert!(
            found.1[0].contains("`/c:1: conf=/a`: stands in plugstack.conf alone"),
            "{:?}",
            found.1
        );
    }
    let levels = ARGUMENTS.iter().map(|spec| spec.level).collect::<Vec<_>>();
    assert!(
        [
            AdminLevel::Partition,
            AdminLevel::Node,
            AdminLevel::Plugstack
        ]
        .iter()
        .all(|level| levels.contains(level))
    );
}

#[test]
fn the_switch_is_thrown_by_any_layer_and_back_by_none() {
    for (plugstack, file, disabled) in [
        (&[][..], "", false),
        (&["disable"], "", true),
        (&["disable"], "disable=no", true),
        (&["disable=no"], "disable=yes", true),
        (&["disable=no"], "", false),
        (&[], "NodeName=gpu[1-3] disable", true),
        (&[], "NodeName=gpu[2-3] disable", false),
    ] {
        let (found, findings) = admin(plugstack, file, "gpu1", None);
        assert_eq!(
            (found.disabled, findings.len()),
            (disabled, 0),
            "{plugstack:?} and `{file}`"
        );
    }
    let (found, findings) = Admin::parse(["disable=maybe"]);
    assert!(!found.disabled && findings[0].refuses, "{findings:?}");
    assert!(
        findings[0].to_string().contains("expected `disable`"),
        "{findings:?}"
    );
    let (found, findings) = Admin::parse(["trust-topology=yes", "disable="]);
    assert_eq!(
        (found.trust_topology, found.disabled, findings.len()),
        (true, true, 0),
        "of a map of arguments"
    );
}

#[test]
fn what_is_not_understood_refuses_and_what_is_doubtful_does_not() {
    for refused in [
        "Disable",
        "disable=0",
        "disable;",
        "disbale",
        "off",
        "enabled=no",
        "default=Off",
        "default=",
        "default=closet",
        "Default=off",
        "rollout=0",
        "cach=0",
        "cache=soon",
        "fabric=off",
        "none-is=bound",
        "node-file=there",
        "lets-through=SYS",
        "exclude=",
        "set=LD_PRELOAD=/x",
        "set=A={nix}",
    ] {
        let (_, found) = Admin::parse(["default=closest", refused]);
        assert!(found.iter().any(|found| found.refuses), "`{refused}`");
    }
    for doubtful in ["set=NCCL_DEBUG=WARN", "set=A=1;A=2"] {
        let (_, found) = Admin::parse([doubtful]);
        assert!(
            found.len() == 1 && !found[0].refuses,
            "`{doubtful}`: {found:?}"
        );
    }
    let (twice, found) = Admin::parse(["machine=a", "machine=a", "default=rail", "default=rail"]);
    assert_eq!(
        (twice.source, found),
        (NodeSource::Machine("a".into()), vec![]),
        "a line that is there twice"
    );
}

#[test]
fn a_line_that_cannot_be_read_is_refused_on_all_nodes_and_another_nodes_line_is_not() {
    let refuses = |text: &str| {
        let (conf, mut found) = Conf::parse(text.as_bytes(), "/c").unwrap();
        found.extend(Admin::default().add_conf(&conf, "/c", "gpu1", Some("p")));
        found.iter().any(|found| found.refuses)
    };
    for text in [
        "NodeName=gpu[2 default=rail",
        "NodeName=ALL disable",
        "NodeName = gpu2 exclude=a",
        "exclude=a NodeName=gpu2",
    ] {
        assert!(refuses(text), "`{text}`");
    }
    for line in [
        "NodeName=gpu[1-2]",
        "PartitionName=p",
        "PartitionName=p NodeName=gpu1",
    ] {
        assert!(refuses(&format!("{line} exclud=a")), "`{line}`");
    }
    for line in [
        "NodeName=gpu2",
        "PartitionName=q",
        "PartitionName=p NodeName=gpu2",
    ] {
        assert!(!refuses(&format!("{line} exclud=a")), "`{line}`");
    }
}

#[test]
fn one_set_can_hold_what_several_would() {
    let (list, findings) = Admin::parse(["set=A={nic};B=x;y;C={gpu}"]);
    let (several, _) = Admin::parse(["set=A={nic}", "set=B=x;y", "set=C={gpu}"]);
    assert_eq!((list.templates.len(), findings.len()), (3, 0));
    assert_eq!(list, several);
    let (some, findings) = Admin::parse(["set=A={nic};LD_PRELOAD=/x;B={nix};C=1"]);
    let names: Vec<&str> = some
        .templates
        .iter()
        .map(|template| template.name())
        .collect();
    assert_eq!(
        (names, findings.len()),
        (vec!["A", "C"], 1),
        "one line, and the others hold"
    );
    let told = findings[0].to_string();
    assert!(
        told.contains("`LD_PRELOAD` is refused") && told.contains("`{nix}` is not known"),
        "{told}"
    );
}

#[test]
fn a_share_of_the_jobs_is_the_admins_and_no_users_word() {
    let (admin, findings) = admin(
        &["default=rail", "rollout=10%"],
        "PartitionName=p rollout=0%,observe",
        "n",
        Some("p"),
    );
    assert_eq!(
        (Ok(admin.rollout), findings.len()),
        (Rollout::parse("0%,observe"), 0)
    );
    let settings = |option: Option<&str>| {
        let option = option.map(words);
        super::merge(
            &admin.rollout.default_of(7, &admin.default),
            None,
            option.as_ref(),
        )
    };
    assert!(settings(None).observe, "outside");
    let asked = settings(Some("verbose"));
    assert_eq!(
        (asked.enabled, asked.observe, asked.policy),
        (true, false, Policy::Rail),
        "who asks gets it"
    );
    assert!(!settings(Some("off")).enabled);
    let (_, findings) = Admin::parse(["default=rail", "rollout=10"]);
    assert!(findings[0].refuses && findings[0].to_string().contains("as `rollout=10%`"));
}

#[test]
fn binding_is_staged_by_lines_for_nodes() {
    let (_, findings) = Admin::parse(["default=rail", "rollout=node-env:100%,bind:1%"]);
    assert!(
        findings[0].refuses && findings[0].to_string().contains("NodeName="),
        "{findings:?}"
    );
    let file = "default=closest,bind=none,mem=none\nNodeName=gpu1 default=bind=auto,mem=prefer\n";
    let of = |node: &str| {
        let (admin, _) = admin(&[], file, node, None);
        let settings = super::merge(&admin.default, None, None);
        (settings.enabled, settings.bind, settings.mem)
    };
    assert_eq!(
        (of("gpu1"), of("gpu2")),
        (
            (true, Bind::Auto, Mem::Prefer),
            (true, Bind::None, Mem::None)
        )
    );
}

#[test]
fn to_observe_is_not_to_place_and_a_user_who_asks_is_placed() {
    let merged = |default: &str, environment: Option<&str>, option: Option<&str>| {
        let (environment, option) = (environment.map(words), option.map(words));
        let found = super::merge(&words(default), environment.as_ref(), option.as_ref());
        (found.enabled, found.observe)
    };
    let (off, observed, placed) = ((false, false), (true, true), (true, false));
    for (default, environment, option, expected) in [
        ("observe", None, None, observed),
        ("rail,observe,strict", None, None, observed),
        ("observe", None, Some(""), placed),
        ("observe", None, Some("off"), off),
        ("observe", Some("off"), None, off),
        ("observe", Some("off"), Some("verbose"), placed),
        ("closest", None, Some("observe"), observed),
        ("", Some("observe"), None, observed),
        ("", Some("observe"), Some("rail"), placed),
        ("off", None, Some("observe"), observed),
    ] {
        assert_eq!(
            merged(default, environment, option),
            expected,
            "default=`{default}` environment {environment:?} option {option:?}"
        );
    }
    for both in ["off,observe", "observe,off"] {
        assert!(
            Words::parse(both)
                .unwrap_err()
                .to_string()
                .contains("cannot both hold"),
            "`{both}`"
        );
    }
}

#[test]
fn each_variable_can_be_switched_on_and_off_and_back() {
    let may = |default: &str, option: &str, name: &str, library: &str| {
        let settings = super::merge(&words(default), None, Some(&words(option)));
        settings.wants(name, library, None)
    };
    let (ucx, nccl) = ("ucx", "nccl");
    for (default, option, name, library, expected) in [
        ("", "", "NCCL_IB_HCA", nccl, true),
        ("", "no-env=NCCL_*", "NCCL_IB_HCA", nccl, false),
        ("", "no-env=NCCL_*", "UCX_NET_DEVICES", ucx, true),
        (
            "no-env=NCCL_IB_HCA",
            "no-env=none",
            "NCCL_IB_HCA",
            nccl,
            true,
        ),
        (
            "no-env=NCCL_IB_HCA",
            "no-env=none,UCX_NET_DEVICES",
            "UCX_NET_DEVICES",
            ucx,
            false,
        ),
        ("", "env=NCCL_IB_HCA", "NCCL_IB_HCA", nccl, true),
        ("", "env=NCCL_IB_HCA", "NCCL_CROSS_NIC", nccl, false),
        (
            "",
            "env=ucx+NCCL_IB_HCA,verbose",
            "UCX_NET_DEVICES",
            ucx,
            true,
        ),
        ("env=NCCL_IB_HCA", "env=ucx", "NCCL_IB_HCA", nccl, false),
        ("env=NCCL_IB_HCA", "verbose", "NCCL_IB_HCA", nccl, true),
        (
            "",
            "env=NCCL_IB_HCA,no-env=NCCL_IB_HCA",
            "NCCL_IB_HCA",
            nccl,
            false,
        ),
    ] {
        assert_eq!(
            may(default, option, name, library),
            expected,
            "`{default}`, then `{option}`: {name}"
        );
    }
    for bad in ["no-env=*", "no-env=nccl_*", "env=nccl_ib", "env=ucx*"] {
        assert!(Words::parse(bad).is_err(), "`{bad}`");
    }
}
