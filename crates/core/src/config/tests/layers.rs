//! What plugstack.conf and the configuration file say together, and what is left to users.

use super::super::options::AdminLevel;
use super::super::rollout::Rollout;
use super::*;
use crate::diagnostic::Diagnostic;

/// What holds on this node for a step of this partition, and what was found wrong.
fn layered(
    plugstack: &[&str],
    file: &str,
    node: &str,
    partition: Option<&str>,
) -> (Admin, Vec<Diagnostic>) {
    let (mut admin, mut findings) = Admin::parse(plugstack.iter().copied());
    let (conf, more) = Conf::parse(file.as_bytes(), "/c").unwrap();
    findings.extend(more);
    findings.extend(admin.add_conf(&conf, "/c", node, partition));
    (admin, findings)
}

/// The default on node `gpu1` for a step of partition `p`.
fn default_of(plugstack: &str, file: &str, partition: &str) -> Words {
    let (admin, findings) = layered(&[plugstack], file, "gpu1", Some(partition));
    assert_eq!(findings, [], "{file}");
    admin.default
}

#[test]
fn the_partition_beats_the_node_that_the_file_and_that_plugstack_conf() {
    let lines = [
        "",
        "default=numa\n",
        "NodeName=gpu[1-4] default=all\n",
        "PartitionName=train default=spread\n",
        "PartitionName=train NodeName=gpu1 default=rail\n",
    ];
    let policies = ["closest", "numa", "all", "spread", "rail"];
    for (count, expected) in policies.into_iter().enumerate() {
        // the order of the lines does not matter
        let text: String = lines[..=count].iter().rev().copied().collect();
        let found = default_of("default=closest", &text, "train");
        assert_eq!(found, words(expected));
    }
    let another = default_of("default=closest", &lines.concat(), "debug");
    assert_eq!(another, words("all"));
}

#[test]
fn words_of_the_layers_add_up_and_the_nearer_count() {
    let partition = "default=bind=none\nPartitionName=p default=best-effort,no-env=B";
    for (plugstack, file, expected) in rows! {
        "default=rail,strict,no-env=A", partition, "rail,best-effort,bind=none,no-env=A+B";
        "default=observe", "default=bind=none", "observe,bind=none";
        "default=observe", "default=closest", "closest";
        "default=rail", "default=observe", "rail,observe";
        "default=off", "default=observe", "observe";
        "default=rail,observe", "default=off", "off";
    } {
        assert_eq!(default_of(plugstack, file, "p"), words(expected), "{file}");
    }
    let taken_back = default_of("default=rail,no-env=A", "default=no-env=none+C", "p");
    assert_eq!(taken_back.no_env, ["C"]);
    let name = default_of("default=env=ucx", "default=env=NCCL_IB_HCA", "p");
    assert_eq!(name.env, Some(Libraries::NONE));
    // binding is staged by lines for nodes
    let file = "default=closest,bind=none,mem=none\nNodeName=gpu1 default=bind=auto,mem=prefer\n";
    for (node, bind, mem) in [
        ("gpu1", Bind::Auto, Mem::Prefer),
        ("gpu2", Bind::None, Mem::None),
    ] {
        let wish = Wish::new(layered(&[], file, node, None).0, None, None);
        let found = (wish.enabled, wish.bind, wish.mem);
        assert_eq!(found, (true, bind, mem), "{node}");
    }
}

#[test]
fn a_nearer_list_replaces_the_others_and_goes_on_over_its_own_arguments() {
    let first = "exclude=a exclude=b include=x,y sysfs=/a set=A=1 set=B=1 lets-through=SYS:30";
    let first: Vec<&str> = first.split(' ').collect();
    let file = "exclude=c\nexclude=d\nNodeName=gpu1 machine=dgx-h100 set=A=2 lets-through=PHB:80\n";
    let (found, findings) = layered(&first, file, "gpu1", None);
    // a nearer layer's replacement is no mistake
    assert_eq!(findings, []);
    let exclude = found.selection.exclude.iter().map(ToString::to_string);
    assert_eq!(exclude.collect::<Vec<_>>(), ["c", "d"]);
    assert_eq!(found.selection.include.len(), 2);
    assert_eq!(found.source, NodeSource::Machine("dgx-h100".into()));
    let (expected, _) = admin(&["set=A=2", "set=B=1", "lets-through=SYS:30,PHB:80"]);
    assert_eq!(found.templates, expected.templates);
    assert_eq!(found.through, expected.through);
}

#[test]
fn a_partition_gets_no_word_that_a_user_must_not_choose() {
    let of_partition =
        |argument: &str| layered(&[], &format!("PartitionName=p {argument}"), "n", Some("p"));
    let of_node = |argument: &str| layered(&[], &format!("NodeName=n {argument}"), "n", None);
    let refused = |found: (Admin, Vec<Diagnostic>), part: &str| {
        assert_eq!(found.0, Admin::default(), "{part}");
        let last = found.1.last().unwrap().to_string();
        assert!(last.contains(part), "{last}");
    };
    let all = "topology=/a sysfs=/a node-file=/a machine=a trust-topology cache=1 disable";
    for argument in all.split(' ') {
        refused(of_partition(argument), "not for a partition");
        assert_eq!(of_node(argument).1, []);
    }
    assert_ne!(of_partition("set=A=1").0, Admin::default());
    refused(of_partition("set=A_FILE=/etc/a"), "`A_FILE` names a file");
    let of_all = layered(&[], "conf=/a", "n", None);
    for found in [of_partition("conf=/a"), of_node("conf=/a"), of_all] {
        refused(found, "`/c:1: conf=/a`: stands in plugstack.conf");
    }
    use AdminLevel::*;
    for level in [Partition, Node, Plugstack] {
        assert!(ARGUMENTS.iter().any(|spec| spec.level == level));
    }
}

#[test]
fn the_switch_is_thrown_by_any_layer_and_back_by_none() {
    for (plugstack, file, disabled) in rows! {
        "default=rail", "", false; "disable", "", true; "disable", "disable=no", true;
        "disable=no", "disable=yes", true; "disable=no", "", false; "disable=", "", true;
        "default=rail", "NodeName=gpu[1-3] disable", true;
        "default=rail", "NodeName=gpu[2-3] disable", false;
    } {
        let (found, findings) = layered(&[plugstack], file, "gpu1", None);
        assert_eq!(found.disabled, disabled, "{plugstack} and `{file}`");
        assert_eq!(findings, [], "{plugstack} and `{file}`");
    }
    let (found, findings) = admin(&["disable=maybe"]);
    assert!(!found.disabled && findings[0].contains("expected `disable`"));
    assert!(admin(&["trust-topology=yes"]).0.trust_topology);
}

#[test]
fn a_line_that_is_not_understood_refuses_and_a_doubtful_one_does_not() {
    let refuses = |arguments: &[&str]| {
        let (_, found) = Admin::parse(arguments.iter().copied());
        (found.len(), found.iter().any(|found| found.refuses))
    };
    for refused in "Disable disable=0 disable=maybe disable; disbale off enabled=no default=Off \
                    default= default=closet Default=off rollout=0 rollout=10 cach=0 cache=soon \
                    rollout=node-env:100%,bind:1% fabric=off none-is=bound node-file=there \
                    lets-through=SYS exclude= set=LD_PRELOAD=/x set=A={nix}"
        .split(' ')
    {
        assert!(refuses(&["default=closest", refused]).1, "`{refused}`");
    }
    for doubtful in ["set=NCCL_DEBUG=WARN", "set=A=1;A=2"] {
        assert_eq!(refuses(&[doubtful]), (1, false), "`{doubtful}`");
    }
    // a line that is there twice
    let twice = ["machine=a", "machine=a", "default=rail", "default=rail"];
    assert_eq!(refuses(&twice), (0, false));
    assert_eq!(admin(&twice).0.source, NodeSource::Machine("a".into()));
    // a line of another node or partition refuses nothing, unless it cannot be read
    for (line, is_refused) in rows! {
        "NodeName=gpu[2 default=rail", true; "NodeName=ALL disable", true;
        "NodeName = gpu2 exclude=a", true; "exclude=a NodeName=gpu2", true;
        "NodeName=gpu[1-2] exclud=a", true; "PartitionName=p exclud=a", true;
        "PartitionName=p NodeName=gpu1 exclud=a", true; "NodeName=gpu2 exclud=a", false;
        "PartitionName=q exclud=a", false; "PartitionName=p NodeName=gpu2 exclud=a", false;
    } {
        let (_, found) = layered(&[], line, "gpu1", Some("p"));
        let told = found.iter().any(|found| found.refuses);
        assert_eq!(told, is_refused, "`{line}`");
    }
}

#[test]
fn a_share_of_the_jobs_is_the_admins_and_no_users_word() {
    let file = "PartitionName=p rollout=0%,observe";
    let (shared, findings) = layered(&["default=rail", "rollout=10%"], file, "n", Some("p"));
    assert_eq!(findings, []);
    assert_eq!(Ok(shared.rollout), Rollout::parse("0%,observe"));
    for (option, enabled, observe) in [
        // outside
        (None, true, true),
        // the user's request counts
        (Some("verbose"), true, false),
        (Some("off"), false, false),
    ] {
        let admin = with! { Admin { default: shared.rollout.default_of(7, &shared.default) } };
        let wish = Wish::new(admin, None, option.map(words).as_ref());
        let found = (wish.enabled, wish.observe);
        assert_eq!(found, (enabled, observe), "{option:?}");
        assert!(!enabled || wish.policy == Policy::Rail);
    }
    for (rollout, part) in [
        ("10", "as `rollout=10%`"),
        ("node-env:100%,bind:1%", "NodeName="),
    ] {
        let (_, findings) = admin(&["default=rail", &format!("rollout={rollout}")]);
        assert!(findings[0].contains(part), "{findings:?}");
    }
}

#[test]
fn each_variable_can_be_switched_on_and_off_and_back() {
    for (default, option, name, expected) in rows! {
        "", "", "NCCL_IB_HCA", true; "", "no-env=NCCL_*", "NCCL_IB_HCA", false;
        "", "no-env=NCCL_*", "UCX_NET_DEVICES", true;
        "no-env=NCCL_IB_HCA", "no-env=none", "NCCL_IB_HCA", true;
        "no-env=NCCL_IB_HCA", "no-env=none,UCX_TLS", "UCX_TLS", false;
        "", "env=NCCL_IB_HCA", "NCCL_IB_HCA", true; "", "env=NCCL_IB_HCA", "NCCL_CROSS_NIC", false;
        "", "env=ucx+NCCL_IB_HCA,verbose", "UCX_NET_DEVICES", true;
        "env=NCCL_IB_HCA", "env=ucx", "NCCL_IB_HCA", false;
        "env=NCCL_IB_HCA", "verbose", "NCCL_IB_HCA", true;
        "", "env=NCCL_IB_HCA,no-env=NCCL_IB_HCA", "NCCL_IB_HCA", false;
    } {
        let is_ucxs = name.starts_with("UCX");
        let library = if is_ucxs { "ucx" } else { "nccl" };
        let wants = merged(default, None, Some(option)).wants(name, library, None);
        assert_eq!(wants, expected, "`{default}`, then `{option}`: {name}");
    }
}
