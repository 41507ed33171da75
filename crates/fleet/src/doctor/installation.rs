//! The installation: Slurm's release, plugstack.conf, the plugin's file, the admin's words, the node file.

use super::facts::{Installation, NodeFileState, Owned, Plugstack, Unasked};
use super::host::has_rdma;
use super::releases::{name, of_version};
use super::{Examined, Verdict, Verdicts, advice, fail, note, ok, or_ok, warn};
use nic_placement_core::config::PluginLine;
use nic_placement_core::config::releases::RELEASES;
use nic_placement_core::diagnostic::Diagnostic;

/// Slurm's versions that the end-to-end cases ran on, as `srun --version` prints them
/// (tests/slurm/releases.tsv).
pub const TESTED: [&str; 9] = [
    "22.05.8", "23.02.8", "23.11.4", "24.05.8", "24.11.5", "25.05.8", "25.11.2", "26.05.5",
    "26.11.0",
];

fn ours(installation: &Installation) -> Vec<&PluginLine> {
    installation
        .plugstack
        .iter()
        .flat_map(|plugstack| &plugstack.lines)
        .filter(|line| line.is_ours())
        .collect()
}

pub(super) fn slurm(subject: &Examined) -> Verdicts {
    let Some(said) = &subject.installation.slurm else {
        return Vec::new();
    };
    let Some(version) = said else {
        return vec![note("none of its programs tells its release here")];
    };
    let shown: String = version.chars().take(60).collect();
    let tested = |of| {
        TESTED
            .into_iter()
            .find(|tested| of_version(tested) == Some(of))
    };
    let release = of_version(version).map(|release| (name(release), tested(release)));
    vec![match release {
        Some((name, Some(tested))) => {
            ok(format!("`{shown}`: release {name}, tested with {tested}"))
        }
        Some((name, None)) => note(format!(
            "`{shown}`: the plugin answers to release {name}, and was not tested with it"
        )),
        None => {
            let (first, last) = (name(&RELEASES[0]), name(&RELEASES[RELEASES.len() - 1]));
            warn(format!(
                "`{shown}`: no release that the plugin knows ({first} to {last}): Slurm will refuse it"
            )).about(shown)
        }
    }]
}

pub(super) fn plugstack(subject: &Examined) -> Verdicts {
    let Some(Plugstack {
        path,
        is_named,
        is_there,
        findings,
        packaged,
        ..
    }) = &subject.installation.plugstack
    else {
        return Vec::new();
    };
    let line = packaged.as_ref().map_or(String::new(), |(file, plugin)| {
        format!(": write `optional {plugin}` there, or `cp {file}` to a folder that it includes")
    });
    if !is_there && !is_named {
        let text = format!("Slurm loads no plugin here, there is no `{path}`{line}");
        return vec![match subject.installation.slurm {
            Some(Some(_)) => warn(text),
            // a node without Slurm, a container: nothing is wrong with what is not there
            _ => advice(text),
        }];
    }
    let mut verdicts: Verdicts = findings
        .iter()
        .map(|finding| warn(finding).about(&finding.place))
        .collect();
    let ours = ours(subject.installation);
    let Some((first, others)) = ours.split_first() else {
        if verdicts.is_empty() {
            let text = format!("`{path}`: no line loads the plugin{line}");
            verdicts.push(warn(text).about(path));
        }
        return verdicts;
    };
    for again in others {
        verdicts.push(warn(format!(
            "`{}`: the plugin is listed twice: the arguments of both count, and each of srun's users is told that the option of the \
             second is disabled",
            again.place
        )).about(&again.place));
    }
    if first.is_required {
        verdicts.push(advice(format!(
            "`{}`: `required`: if the plugin does not load, nobody can submit a job; `optional` is enough",
            first.place
        )));
    }
    or_ok(
        verdicts,
        Some(format!(
            "`{}`: loads `{}`",
            first.place,
            first.path.display()
        )),
    )
}

pub(super) fn plugstack_order(subject: &Examined) -> Verdicts {
    let lines: Vec<&PluginLine> = subject
        .installation
        .plugstack
        .iter()
        .flat_map(|plugstack| &plugstack.lines)
        .collect();
    let Some(first) = lines.iter().position(|line| line.is_ours()) else {
        return Vec::new();
    };
    match lines.iter().rposition(|line| line.loads("pyxis")) {
        Some(pyxis) if pyxis > first => {
            let place = &lines[pyxis].place;
            vec![warn(format!("`{place}`: pyxis stands after the plugin")).about(place)]
        }
        Some(_) => vec![ok("the plugin stands after pyxis")],
        None => Vec::new(),
    }
}

pub(super) fn plugin_file(subject: &Examined) -> Verdicts {
    let mut verdicts = Vec::new();
    let packaged = subject.installation.plugstack.iter();
    let packaged = packaged.filter_map(|plugstack| plugstack.packaged.as_ref());
    let elsewhere: String = packaged.map(|(_, path)| format!("; `{path}` is")).collect();
    for line in ours(subject.installation) {
        let path = line.path.display();
        verdicts.push(match (line.is_there, line.is_required) {
            (Some(true), _) => ok(format!("`{path}` is there")),
            (Some(false), true) => {
                fail(format!(
                    "`{}`: there is no `{path}`, and the line is `required`: srun, sbatch and salloc fail",
                    line.place
                )).about(path)
            }
            (Some(false), false) => {
                let text = format!("`{}`: there is no `{path}`{elsewhere}", line.place);
                warn(text).about(path)
            }
            (None, _) => continue,
        });
    }
    verdicts.dedup();
    verdicts
}

pub(super) fn configless(subject: &Examined) -> Verdicts {
    let Some(plugstack) = &subject.installation.plugstack else {
        return Vec::new();
    };
    let Plugstack {
        path,
        unmatched,
        is_sent,
        is_shadowed,
        ..
    } = plugstack;
    if *is_shadowed {
        return vec![note(
            "slurmctld sent this node a configuration, and /etc/slurm/slurm.conf is read instead",
        )];
    }
    if !is_sent {
        return Vec::new();
    }
    let not_sent = unmatched.iter().find(|(_, pattern)| pattern.contains('/'));
    vec![match (not_sent, ours(subject.installation).is_empty()) {
        (Some((place, pattern)), true) => warn(format!(
            "`{place}`: `include {pattern}` means no file here, and no line loads the plugin"
        ))
        .about(place),
        (Some((place, pattern)), false) => {
            advice(format!("`{place}`: `include {pattern}` means no file here"))
        }
        (None, _) => ok(format!(
            "`{path}` is what slurmctld sent: a change there comes here by `scontrol reconfigure`"
        )),
    }]
}

pub(super) fn configuration(subject: &Examined) -> Verdicts {
    let Installation {
        words,
        off,
        unasked,
        no_node,
        ..
    } = subject.installation;
    let refused = |finding: &Diagnostic| {
        if finding.refuses {
            fail(finding)
        } else {
            warn(finding)
        }
    };
    let mut verdicts: Verdicts = words
        .iter()
        .map(|finding| refused(finding).about(&finding.place))
        .collect();
    match off {
        // each argument has its line
        Some((_, true)) if words.iter().any(|finding| finding.refuses) => {}
        Some((why, true)) => verdicts.push(warn(why).about("no step is placed")),
        Some((why, false)) => {
            verdicts.push(note(format!("no step is placed here, whoever asks: {why}")));
        }
        None => verdicts.extend(unasked.as_ref().and_then(by_default)),
    }
    // the file is one text for many nodes: a misspelt name is not seen in it
    if let Some((path, node)) = unasked
        .as_ref()
        .and_then(|unasked| unasked.unnamed.as_ref())
    {
        verdicts.push(
            note(format!(
                "`{path}`: no line with `NodeName=` names this node, `{node}`"
            ))
            .about(path),
        );
    }
    if let Some(why) = no_node {
        verdicts.push(warn(format!("no step gets anything set: {why}")).about("no step is placed"));
    }
    verdicts
}

/// `None` if neither the plugin's line nor the configuration file has it.
fn by_default(unasked: &Unasked) -> Option<Verdict> {
    let said: Vec<String> = unasked
        .said
        .iter()
        .map(|(place, argument)| format!("`{argument}` (`{place}`)"))
        .collect();
    let apart = if unasked.has_partitions {
        ", unless a line for their partition says otherwise"
    } else {
        ""
    };
    (!said.is_empty()).then(|| {
        ok(format!(
            "steps that do not ask: {}{apart}",
            said.join(", then ")
        ))
    })
}

pub(super) fn owner(subject: &Examined) -> Verdicts {
    /// `S_IWOTH` and `S_IWGRP` of stat(2).
    const OTHERS: u32 = 0o002;
    const GROUP: u32 = 0o020;
    let owners = &subject.installation.owners;
    let mut verdicts = Vec::new();
    for Owned {
        path,
        user,
        group,
        mode,
    } in owners
    {
        if mode & OTHERS != 0 {
            let text = format!(
                "everybody may write to `{path}` (mode {:o}), which decides what root loads",
                mode & 0o7777
            );
            // all nodes may share a mode, which is no reason to drain them
            verdicts.push(warn(text).about(path));
        } else if *user != 0 || (mode & GROUP != 0 && *group != 0) {
            let text = format!(
                "`{path}` belongs to user {user}, group {group}, mode {:o}",
                mode & 0o7777
            );
            verdicts.push(advice(format!(
                "{text}: others than root decide what root loads"
            )));
        }
    }
    or_ok(
        verdicts,
        (!owners.is_empty())
            .then(|| format!("files that only root may write to: {}", owners.len())),
    )
}

pub(super) fn node_file(subject: &Examined) -> Verdicts {
    let Some((path, state)) = &subject.installation.node_file else {
        return Vec::new();
    };
    let itself = "each step reads the node itself";
    vec![
        match state {
            NodeFileState::Used(age) => ok(format!(
                "a step has the node from `{path}`, which is {age} s old"
            )),
            NodeFileState::Unwanted => {
                note(format!("`cache=0`: {itself}, and waits for its hardware"))
            }
            NodeFileState::Absent if !has_rdma(subject) => {
                ok("no RDMA device is here, whose firmware a step would ask")
            }
            NodeFileState::Absent => warn(format!(
                "{itself}, and waits for its hardware: `{path}` is not there"
            )),
            NodeFileState::Outdated(why) => advice(format!("{itself}: {why}")),
            NodeFileState::Unusable(why) => warn(format!("{itself}: {why}")),
        }
        .about(path),
    ]
}
