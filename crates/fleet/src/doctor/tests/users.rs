//! Cases of what is installed, of the kernel's settings, and of the calling user.

use super::cases::{Case, cases};
use super::world::World;
use crate::audit::report::Level::{Fail, Note, Ok, Warn};
use crate::doctor::facts::{Caller, DeviceAccess, HostFacts, Installation, Owned, Plugstack};
use nic_placement_core::config::PluginLine;
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_node::kept::NotUsed;

fn installed(change: impl FnOnce(&mut Installation)) -> World {
    World::of_model("dgx-h100").installed(change)
}

fn slurm(version: &str) -> World {
    installed(|all| all.slurm = Some(Some(version.to_string())))
}

/// A line of plugstack.conf: of ours, or of pyxis.
fn line(number: usize, is_ours: bool) -> PluginLine {
    let path = ["spank_pyxis.so", "libnic_placement.so"][usize::from(is_ours)];
    PluginLine {
        place: format!("plugstack.conf:{number}"),
        path: path.into(),
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
        let mut line = line(1, true);
        (line.is_there, line.is_required) = (is_there, is_required);
        plugstack(vec![line], |_| {})
    };
    let unmatched = || {
        let include = ["plugstack.conf:1", "plugstack.conf.d/*"].map(str::to_string);
        vec![include.into()]
    };
    cases! {
        check "slurm" {
            "known": Ok "release 24.11", slurm("slurm 24.11.5");
            "not told": Note "none of its programs", installed(|all| all.slurm = Some(None));
            "unknown": Warn "will refuse", slurm("slurm 21.08.8");
        }
        check "plugstack" {
            "one line": Ok "loads", plugstack(vec![line(1, true)], |_| {});
            "twice": Warn "twice", plugstack(vec![line(1, true), line(2, true)], |_| {});
            "none": Warn "no line", plugstack(Vec::new(), |_| {});
            "none, and the package is installed": Warn "libnic_placement.so` there, or `cp /usr/share/90.conf`",
                plugstack(Vec::new(), |of| of.packaged = Some(packaged()));
            "an include that slurmctld did not send": Warn "means no file here",
                plugstack(Vec::new(), |of| of.unmatched = unmatched());
            "no file, and Slurm is there": Warn "there is no",
                plugstack(Vec::new(), |of| of.is_there = false)
                    .installed(|all| all.slurm = Some(Some("slurm 25.05.3".to_string())));
            "a container without /etc": Note "there is no",
                plugstack(Vec::new(), |of| of.is_there = false);
            "a line that is none": Warn "unknown argument",
                plugstack(vec![line(1, true)], |of| of.findings.push(doubt()));
        }
        check "plugstack-order" {
            "behind": Ok "after pyxis", plugstack(vec![line(1, false), line(2, true)], |_| {});
            "before": Warn ":2", plugstack(vec![line(1, true), line(2, false)], |_| {});
        }
        check "plugin-file" {
            "there": Ok "is there", there(Some(true), true);
            "not told": None "", there(None, true);
            "a login node without it": Warn "there is no", there(Some(false), false);
            "and required": Fail "srun, sbatch and salloc fail", there(Some(false), true);
        }
    }
}

pub(super) fn admin() -> Vec<Case> {
    let owned = |user, group, mode| {
        let owned = Owned {
            path: "/etc/slurm/plugstack.conf".to_string(),
            user,
            group,
            mode,
        };
        installed(|all| all.owners.push(owned))
    };
    let said = [("/etc/c:3", "default=closest"), ("/etc/c:4", "rollout=10%")];
    let said = said.map(|(place, argument)| (place.to_string(), argument.to_string()));
    let file = |state| installed(|all| all.node_file = Some(("/run/node.json".into(), state)));
    cases! {
        check "config-owner" {
            "root's": Ok "only root may write to: 1", owned(0, 0, 0o100_664);
            "Slurm's": Note "user 64030", owned(64030, 64030, 0o100_644);
            "everybody's": Warn "mode 666", owned(0, 0, 0o100_666);
        }
        check "configuration" {
            "all understood": None "", installed(|_| {});
            "a default": Ok "`default=closest` (`/etc/c:3`), then `rollout=10%`", installed(|all| all.unasked = Some(said.into()));
            "a doubt": Warn "unknown argument", installed(|all| all.words.push(doubt()));
            "a typo": Fail "unknown argument", installed(|all| all.words.push(refusal()));
            "switched off": Note "disabled",
                installed(|all| all.off = Some(("disabled".into(), false)));
            "refused": Warn "not root's",
                installed(|all| all.off = Some(("not root's".into(), true)));
            "no model": Warn "no file", installed(|all| all.no_node = Some("no file".into()));
        }
        check "node-file" {
            "used": Ok "9 s old", file(Some(Result::Ok(9)));
            "none": Warn "waits for its hardware", file(Some(Err(NotUsed::Absent("/run".into()))));
            "another boot": Note "before this system was started",
                file(Some(Err(NotUsed::OtherBoot)));
            "unwanted": Note "cache=0", file(None);
            "too old": Warn "9000", file(Some(Err(NotUsed::TooOld(9000, 600))));
        }
    }
}

fn called(change: impl FnOnce(&mut Caller)) -> World {
    World::of_model("dgx-h100").called(change)
}

pub(super) fn caller() -> Vec<Case> {
    let memlock = |limit: u64, is_root: bool, in_step: bool| {
        called(|caller| {
            (caller.memlock, caller.is_root, caller.in_step) = (Some(limit), is_root, in_step);
        })
    };
    let some: u64 = 8 << 20;
    let open = |patch: fn(&mut HostFacts)| World::of_model("dgx-h100").patched(patch);
    fn access(facts: &mut HostFacts, all: DeviceAccess, first: DeviceAccess) {
        let nics = facts.nics.values_mut();
        nics.for_each(|nic| nic.access = Some(all));
        facts.nics.get_mut("mlx5_0").unwrap().access = Some(first);
    }
    use DeviceAccess::{Absent, Fenced, Open, Refused};
    cases! {
        check "memlock" {
            "unlimited": Ok "unlimited", memlock(u64::MAX, false, true);
            "root": Ok "root is not held", memlock(some, true, true);
            "a shell": Note "8192 KiB", memlock(some, false, false);
            "a step": Warn "8192 KiB", memlock(some, false, true);
        }
        check "uverbs-access" {
            "all open": Ok "8 NICs", open(|of| access(of, Open, Open));
            "one refused": Warn "mlx5_0", open(|of| access(of, Open, Refused));
            "one fenced": Note "cgroup", open(|of| access(of, Open, Fenced));
            "one missing": Warn "no device node", open(|of| access(of, Open, Absent));
            "a container": Note "no device node", open(|of| access(of, Absent, Absent));
        }
        check "variable" {
            "none": None "", called(|_| {});
            "a doubt": Note "too many",
                called(|of| of.doubts.push(Diagnostic::new("NCCL_IB_HCA=mlx5_1", "too many")));
        }
    }
}

pub(super) fn kernel() -> Vec<Case> {
    let balancing = |model: &str, value: &str| {
        World::of_model(model).file("proc/sys/kernel/numa_balancing", value)
    };
    cases! {
        check "numa-balancing" {
            "off": Ok "off", balancing("dgx-h100", "0");
            "on": Note "unmapped", balancing("dgx-h100", "1");
        }
    }
}
