//! The installation: Slurm's release, plugstack.conf, the plugin's file, the admin's words, the node file.

use super::facts::{Installation, Owned, Plugstack};
use super::host::has_rdma;
use super::releases::{name, of_version};
use super::{Examined, Judged, Verdict, advice, fail, note, ok, one, or_ok, warn};
use nic_placement_core::config::PluginLine;
use nic_placement_core::config::releases::RELEASES;
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_node::kept::NotUsed;

fn lines<'a>(subject: &'a Examined) -> &'a [PluginLine] {
    let plugstack = subject.installation.plugstack.as_ref();
    plugstack.map_or(&[], |plugstack| &plugstack.lines)
}

pub(super) fn slurm(subject: &Examined) -> Judged {
    one(match subject.installation.slurm.as_ref()? {
        None => note("none of its programs tells its release here"),
        Some(version) => match of_version(version) {
            Some(release) => ok(format!("`{version}`: release {}", name(release))),
            None => {
                let (first, last) = (name(&RELEASES[0]), name(&RELEASES[RELEASES.len() - 1]));
                warn(format!(
                    "`{version}`: no release that the plugin knows ({first} to {last}): Slurm will refuse it"
                ))
            }
        },
    })
}

pub(super) fn plugstack(subject: &Examined) -> Judged {
    let Plugstack {
        path,
        is_named,
        is_there,
        findings,
        packaged,
        unmatched,
        ..
    } = subject.installation.plugstack.as_ref()?;
    let line = packaged.as_ref().map_or(String::new(), |(file, plugin)| {
        format!(": write `optional {plugin}` there, or `cp {file}` to a folder that it includes")
    });
    if !is_there && !is_named {
        let text = format!("Slurm loads no plugin here, there is no `{path}`{line}");
        return one(match subject.installation.slurm {
            Some(Some(_)) => warn(text),
            // a node without Slurm, a container: nothing is wrong with what is not there
            _ => advice(text),
        });
    }
    let doubts = findings.iter().map(|of| warn(of).about(&of.place));
    let mut verdicts: Vec<Verdict> = doubts.collect();
    let mut ours = lines(subject).iter().filter(|line| line.is_ours());
    let Some(first) = ours.next() else {
        if verdicts.is_empty() {
            let missing = unmatched.iter();
            let missing = missing.map(|(place, pattern)| {
                format!("; `include {pattern}` (`{place}`) means no file here")
            });
            let text = format!("`{path}`: no line loads the plugin{line}");
            verdicts.push(warn(text + &missing.collect::<String>()).about(path));
        }
        return Some(verdicts);
    };
    for again in ours {
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
    let good = format!("`{}`: loads `{}`", first.place, first.path.display());
    or_ok(verdicts, Some(good))
}

pub(super) fn plugstack_order(subject: &Examined) -> Judged {
    let lines = lines(subject);
    let first = lines.iter().position(|line| line.is_ours())?;
    let pyxis = lines.iter().rposition(|line| line.loads("pyxis"))?;
    let place = &lines[pyxis].place;
    one(if pyxis > first {
        warn(format!("`{place}`: pyxis stands after the plugin")).about(place)
    } else {
        ok("the plugin stands after pyxis")
    })
}

pub(super) fn plugin_file(subject: &Examined) -> Judged {
    let packaged = subject.installation.plugstack.as_ref()?.packaged.iter();
    let elsewhere: String = packaged.map(|(_, path)| format!("; `{path}` is")).collect();
    let verdict = |line: &PluginLine| {
        let path = line.path.display();
        if line.is_there? {
            return Some(ok(format!("`{path}` is there")));
        }
        let text = format!("`{}`: there is no `{path}`", line.place);
        let verdict = if line.is_required {
            let text = format!("{text}, and the line is `required`: srun, sbatch and salloc fail");
            fail(text)
        } else {
            warn(text + &elsewhere)
        };
        Some(verdict.about(path))
    };
    let ours = lines(subject).iter().filter(|line| line.is_ours());
    let mut verdicts: Vec<Verdict> = ours.filter_map(verdict).collect();
    verdicts.dedup();
    Some(verdicts)
}

pub(super) fn configuration(subject: &Examined) -> Judged {
    let installation = subject.installation;
    let words = &installation.words;
    let refused = |finding: &Diagnostic| {
        let level = if finding.refuses { fail } else { warn };
        level(finding.to_string()).about(&finding.place)
    };
    let mut verdicts: Vec<Verdict> = words.iter().map(refused).collect();
    match &installation.off {
        // each argument has its line
        Some((_, true)) if words.iter().any(|finding| finding.refuses) => {}
        Some((why, true)) => verdicts.push(warn(why)),
        Some((why, false)) => {
            verdicts.push(note(format!("no step is placed here, whoever asks: {why}")));
        }
        None => verdicts.extend(by_default(installation)),
    }
    let no_node = installation.no_node.iter();
    verdicts.extend(no_node.map(|why| warn(format!("no step gets anything set: {why}"))));
    Some(verdicts)
}

/// `None` if neither the plugin's line nor the configuration file has it.
fn by_default(installation: &Installation) -> Option<Verdict> {
    let said = installation.unasked.iter().flatten();
    let said: Vec<String> = said
        .map(|(place, argument)| format!("`{argument}` (`{place}`)"))
        .collect();
    let apart = match installation.has_partitions {
        true => ", unless a line for their partition says otherwise",
        false => "",
    };
    let text = || format!("steps that do not ask: {}{apart}", said.join(", then "));
    (!said.is_empty()).then(|| ok(text()))
}

pub(super) fn owner(subject: &Examined) -> Judged {
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
        let text = format!(
            "`{path}` belongs to user {user}, group {group}, mode {:o}",
            mode & 0o7777
        );
        if mode & OTHERS != 0 {
            // all nodes may share a mode, which is no reason to drain them
            let text = format!("{text}: everybody may decide what root loads");
            verdicts.push(warn(text).about(path));
        } else if *user != 0 || (mode & GROUP != 0 && *group != 0) {
            verdicts.push(advice(format!(
                "{text}: others than root decide what root loads"
            )));
        }
    }
    let good = format!("files that only root may write to: {}", owners.len());
    or_ok(verdicts, (!owners.is_empty()).then_some(good))
}

pub(super) fn node_file(subject: &Examined) -> Judged {
    let (path, read) = subject.installation.node_file.as_ref()?;
    let itself = "each step reads the node itself";
    let verdict = match read {
        Some(Ok(age)) => ok(format!(
            "a step has the node from `{path}`, which is {age} s old"
        )),
        None => note(format!("`cache=0`: {itself}, and waits for its hardware")),
        Some(Err(NotUsed::Absent(_))) if !has_rdma(subject) => {
            ok("no RDMA device is here, whose firmware a step would ask")
        }
        Some(Err(NotUsed::Absent(_))) => warn(format!(
            "{itself}, and waits for its hardware: `{path}` is not there"
        )),
        Some(Err(why @ (NotUsed::Changed(_) | NotUsed::OtherBoot))) => {
            advice(format!("{itself}: {why}"))
        }
        Some(Err(why)) => warn(format!("{itself}: {why}")),
    };
    one(verdict.about(path))
}
