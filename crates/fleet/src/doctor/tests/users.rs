//! Cases of what is installed, of the kernel's settings, and of the calling user.

use super::cases::{Case, case};
use super::world::World;
use crate::audit::report::Level::{Fail, Note, Ok, Warn};
use crate::doctor::facts::{
    Caller, DeviceAccess, HostFacts, Installation, NodeFileState, Owned, Plugstack, Unasked,
};
use nic_placement_core::config::PluginLine;
use nic_placement_core::diagnostic::Diagnostic;

fn installed(change: impl FnOnce(&mut Installation)) -> World {
    World::of_model("dgx-h100").installed(change)
}

fn slurm(version: &str) -> World {
    installed(|all| all.slurm = Some(Some(version.to_string())))
}

/// A line of plugstack.conf: of ours, or of pyxis.
fn line(number: usize, is_ours: bool) -> PluginLine {
    PluginLine {
        place: format!("plugstack.conf:{number}"),
        path: if is_ours {
            "libnic_placement.so"
        } else {
            "spank_pyxis.so"
        }
        .into(),
        arguments: Vec::new(),
        ..PluginLine::default()
    }
}

fn plugstack(lines: Vec<PluginLine>, change: impl FnOnce(&mut Plugstack)) -> World {
    let path = "/etc/slurm/plugstack.conf".to_string();
    let mut plugstack = Plugstack {
        path,
        is_there: true,
        lines,
        ..Plugstack::default()
    };
    change(&mut plugstack);
    installed(|all| all.plugstack = Some(plugstack))
}

fn packaged() -> (String, String) {
    let plugin = "/usr/lib/nic-placement/libnic_placement.so";
    ("/usr/share/90.conf".to_string(), plugin.to_string())
}

fn refusal() -> Diagnostic {
    Diagnostic {
        refuses: true,
        ..doubt()
    }
}

fn doubt() -> Diagnostic {
    Diagnostic::new("plugstack.conf: exclud=x", "unknown argument")
}

pub(super) fn installation() -> Vec<Case> {
    let there = |is_there, is_required| {
        let line = PluginLine {
            is_there,
            is_required,
            ..line(1, true)
        };
        plugstack(vec![line], |_| {})
    };
    let unmatched = || {
        vec![(
            "plugstack.conf:1".to_string(),
            "plugstack.conf.d/*".to_string(),
        )]
    };
    vec![
        case("slurm", "tested", slurm("slurm 24.11.5"), Ok, "tested with"),
        case(
            "slurm",
            "not told",
            installed(|all| all.slurm = Some(None)),
            Note,
            "none of its programs",
        ),
        case(
            "slurm",
            "unknown",
            slurm("slurm 21.08.8"),
            Warn,
            "will refuse",
        ),
        case(
            "plugstack",
            "one line",
            plugstack(vec![line(1, true)], |_| {}),
            Ok,
            "loads",
        ),
        case(
            "plugstack",
            "twice",
            plugstack(vec![line(1, true), line(2, true)], |_| {}),
            Warn,
            "twice",
        ),
        case(
            "plugstack",
            "none",
            plugstack(Vec::new(), |_| {}),
            Warn,
            "no line",
        ),
        case(
            "plugstack",
            "none, and the package is installed",
            plugstack(Vec::new(), |of| of.packaged = Some(packaged())),
            Warn,
            "write `optional /usr/lib/nic-placement/libnic_placement.so` there, or `cp /usr/share/90.conf` to",
        ),
        case(
            "plugstack",
            "no file, and Slurm is there",
            plugstack(Vec::new(), |of| of.is_there = false)
                .installed(|all| all.slurm = Some(Some("slurm 25.05.3".to_string()))),
            Warn,
            "there is no",
        ),
        case(
            "plugstack",
            "a container without /etc",
            plugstack(Vec::new(), |of| of.is_there = false),
            Note,
            "there is no",
        ),
        case(
            "plugstack",
            "a line that is none",
            plugstack(vec![line(1, true)], |of| of.findings.push(doubt())),
            Warn,
            "unknown argument",
        ),
        case(
            "plugstack-order",
            "behind",
            plugstack(vec![line(1, false), line(2, true)], |_| {}),
            Ok,
            "after pyxis",
        ),
        case(
            "plugstack-order",
            "before",
            plugstack(vec![line(1, true), line(2, false)], |_| {}),
            Warn,
            ":2",
        ),
        case(
            "plugin-file",
            "there",
            there(Some(true), true),
            Ok,
            "is there",
        ),
        case("plugin-file", "not told", there(None, true), None, ""),
        case(
            "plugin-file",
            "a login node without it",
            there(Some(false), false),
            Warn,
            "there is no",
        ),
        case(
            "plugin-file",
            "and required",
            there(Some(false), true),
            Fail,
            "srun, sbatch and salloc fail",
        ),
        case(
            "configless",
            "not so",
            plugstack(vec![line(1, true)], |_| {}),
            None,
            "",
        ),
        case(
            "configless",
            "sent whole",
            plugstack(vec![line(1, true)], |of| of.is_sent = true),
            Ok,
            "scontrol reconfigure",
        ),
        case(
            "configless",
            "an include that was not sent",
            plugstack(Vec::new(), |of| {
                (of.is_sent, of.unmatched) = (true, unmatched())
            }),
            Warn,
            "means no file here",
        ),
        case(
            "configless",
            "hidden",
            plugstack(Vec::new(), |of| of.is_shadowed = true),
            Note,
            "instead",
        ),
    ]
}

pub(super) fn admin() -> Vec<Case> {
    let owned = |user, group, mode| {
        let path = "/etc/slurm/plugstack.conf".to_string();
        installed(|all| {
            all.owners.push(Owned {
                path,
                user,
                group,
                mode,
            })
        })
    };
    let unasked = |is_unnamed: bool| {
        let said = [("/etc/c:3", "default=closest"), ("/etc/c:4", "rollout=10%")];
        let unasked = Unasked {
            said: said
                .map(|(place, argument)| (place.to_string(), argument.to_string()))
                .into(),
            unnamed: is_unnamed.then(|| ("/etc/c".to_string(), "gpu1".to_string())),
            ..Unasked::default()
        };
        installed(|all| all.unasked = Some(unasked))
    };
    let file = |state| installed(|all| all.node_file = Some(("/run/node.json".into(), state)));
    vec![
        case(
            "config-owner",
            "root's",
            owned(0, 0, 0o100_664),
            Ok,
            "only root may write to: 1",
        ),
        case(
            "config-owner",
            "Slurm's",
            owned(64030, 64030, 0o100_644),
            Note,
            "user 64030",
        ),
        case(
            "config-owner",
            "everybody's",
            owned(0, 0, 0o100_666),
            Warn,
            "mode 666",
        ),
        case(
            "configuration",
            "all understood",
            installed(|_| {}),
            None,
            "",
        ),
        case(
            "configuration",
            "a default",
            unasked(false),
            Ok,
            "`default=closest` (`/etc/c:3`), then `rollout=10%`",
        ),
        case(
            "configuration",
            "for other nodes",
            unasked(true),
            Note,
            "names this node, `gpu1`",
        ),
        case(
            "configuration",
            "a doubt",
            installed(|all| all.words.push(doubt())),
            Warn,
            "unknown argument",
        ),
        case(
            "configuration",
            "a typo",
            installed(|all| all.words.push(refusal())),
            Fail,
            "unknown argument",
        ),
        case(
            "configuration",
            "switched off",
            installed(|all| all.off = Some(("disabled".into(), false))),
            Note,
            "disabled",
        ),
        case(
            "configuration",
            "refused",
            installed(|all| all.off = Some(("not root's".into(), true))),
            Warn,
            "not root's",
        ),
        case(
            "configuration",
            "no model",
            installed(|all| all.no_node = Some("no file".into())),
            Warn,
            "no file",
        ),
        case(
            "node-file",
            "used",
            file(NodeFileState::Used(9)),
            Ok,
            "9 s old",
        ),
        case(
            "node-file",
            "none",
            file(NodeFileState::Absent),
            Warn,
            "waits for its hardware",
        ),
        case(
            "node-file",
            "another boot",
            file(NodeFileState::Outdated("another boot".into())),
            Note,
            "another boot",
        ),
        case(
            "node-file",
            "unwanted",
            file(NodeFileState::Unwanted),
            Note,
            "cache=0",
        ),
        case(
            "node-file",
            "too old",
            file(NodeFileState::Unusable("it is 9000 s old".into())),
            Warn,
            "9000",
        ),
    ]
}

fn called(change: impl FnOnce(&mut Caller)) -> World {
    World::of_model("dgx-h100").called(change)
}

pub(super) fn caller() -> Vec<Case> {
    let memlock = |limit: u64, is_root: bool, in_step: bool| {
        called(|caller| {
            *caller = Caller {
                memlock: Some(limit),
                is_root,
                in_step,
                ..Caller::default()
            }
        })
    };
    let some: u64 = 8 << 20;
    let open = |patch: fn(&mut HostFacts)| World::of_model("dgx-h100").patched(patch);
    fn access(facts: &mut HostFacts, all: DeviceAccess, first: DeviceAccess) {
        facts
            .nics
            .values_mut()
            .for_each(|nic| nic.access = Some(all));
        facts.nics.get_mut("mlx5_0").unwrap().access = Some(first);
    }
    let files = |set: &[&str]| {
        let set = set.iter().map(ToString::to_string).collect();
        called(|caller| caller.nccl.push(("/etc/nccl.conf".into(), set)))
    };
    use DeviceAccess::{Absent, Fenced, Open, Refused};
    vec![
        case(
            "memlock",
            "unlimited",
            memlock(u64::MAX, false, true),
            Ok,
            "unlimited",
        ),
        case(
            "memlock",
            "root",
            memlock(some, true, true),
            Ok,
            "root is not held",
        ),
        case(
            "memlock",
            "a shell",
            memlock(some, false, false),
            Note,
            "8192 KiB",
        ),
        case(
            "memlock",
            "a step",
            memlock(some, false, true),
            Warn,
            "8192 KiB",
        ),
        case(
            "uverbs-access",
            "all open",
            open(|of| access(of, Open, Open)),
            Ok,
            "8 NICs",
        ),
        case(
            "uverbs-access",
            "one refused",
            open(|of| access(of, Open, Refused)),
            Warn,
            "mlx5_0",
        ),
        case(
            "uverbs-access",
            "one fenced",
            open(|of| access(of, Open, Fenced)),
            Note,
            "cgroup",
        ),
        case(
            "uverbs-access",
            "one missing",
            open(|of| access(of, Open, Absent)),
            Warn,
            "other NICs have one",
        ),
        case(
            "uverbs-access",
            "a container",
            open(|of| access(of, Absent, Absent)),
            Note,
            "container",
        ),
        case("nccl-conf", "no file", called(|_| {}), None, ""),
        case(
            "nccl-conf",
            "nothing of ours",
            files(&[]),
            Ok,
            "nothing that we would set",
        ),
        case(
            "nccl-conf",
            "a site's list",
            files(&["NCCL_IB_HCA"]),
            Note,
            "NCCL_IB_HCA: left to it",
        ),
        case("variable", "none", called(|_| {}), None, ""),
        case(
            "variable",
            "a doubt",
            called(|caller| {
                caller
                    .doubts
                    .push(Diagnostic::new("NCCL_IB_HCA=mlx5_1", "too many"))
            }),
            Note,
            "too many",
        ),
    ]
}

pub(super) fn kernel() -> Vec<Case> {
    let balancing = |model: &str, value: &str| {
        World::of_model(model).file("proc/sys/kernel/numa_balancing", value)
    };
    let ports = |range: &str| {
        World::of_model("dgx-h100").file("proc/sys/net/ipv4/ip_local_port_range", range)
    };
    vec![
        case(
            "numa-balancing",
            "off",
            balancing("dgx-h100", "0"),
            Ok,
            "off",
        ),
        case(
            "numa-balancing",
            "on",
            balancing("dgx-h100", "1"),
            Note,
            "unmapped",
        ),
        case(
            "numa-balancing",
            "on with AMD",
            balancing("mi300x-8", "1"),
            Note,
            "AMD asks for 0",
        ),
        case(
            "port-range",
            "the kernel's",
            ports("32768\t60999"),
            Ok,
            "32768 to 60999",
        ),
        case(
            "port-range",
            "with slurmd's",
            ports("1024\t65535"),
            Note,
            "6818",
        ),
        case(
            "port-range",
            "too few",
            ports("60000\t60999"),
            Warn,
            "1000 ports",
        ),
        case("port-range", "odd", ports("many"), None, ""),
    ]
}
