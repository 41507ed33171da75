//! Reads what is installed and what the admin says.

use super::health::printed;
use nic_placement_core::config::conf::{Audience, ConfLine};
use nic_placement_core::config::{Admin, Conf, NodeFileUse, PluginLine};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_fleet::doctor::facts::{Installation, Owned, Plugstack};
use nic_placement_launch::caller::has_the_hosts_users;
use nic_placement_launch::plugstack::{self, PluginLines};
use nic_placement_node::discover::root::Author;
use nic_placement_node::kept::{self, Kept};
use nic_placement_process::admin::{self, Found, Off};
use nic_placement_sys as sys;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The plugin's arguments by the plugstack.conf that is `named`, or by this system's; findings go to `into`.
pub(super) fn lines(named: Option<&Path>, is_live: bool, into: &mut Installation) -> Admin {
    let slurms_own = || is_live.then(|| plugstack::place(|name| std::env::var_os(name)));
    let Some(file) = named.map(Path::to_path_buf).or_else(slurms_own) else {
        return Admin::default();
    };
    let PluginLines {
        mut lines,
        findings,
        files,
        unmatched,
        ..
    } = plugstack::read(&file);
    for line in &mut lines {
        line.is_there = is_there(line, is_live);
    }
    let ours = lines.iter().filter(|line| line.is_ours());
    let ours: Vec<PluginLine> = ours.cloned().collect();
    into.plugstack = Some(Plugstack {
        path: file.display().to_string(),
        is_named: named.is_some(),
        is_there: file.is_file(),
        findings,
        lines,
        packaged: packaged().filter(|_| is_live),
        unmatched,
    });
    let arguments = ours.iter().flat_map(|line| &line.arguments);
    let Found {
        admin,
        findings,
        file,
        off,
    } = admin::find(arguments.map(String::as_str), || None, roots());
    let node = admin::hostname();
    let everywhere = file.iter();
    let everywhere = everywhere.flat_map(|(conf, path)| plugstack::check_conf(conf, path, &node));
    let elsewhere = everywhere.filter(|finding| !findings.contains(finding));
    let elsewhere: Vec<Diagnostic> = elsewhere.collect();
    into.words.extend(findings.into_iter().chain(elsewhere));
    into.off = off.map(|off| (off.to_string(), matches!(off, Off::Refused(_))));
    if !ours.is_empty() {
        let (said, has_partitions) = unasked(&ours, file.as_ref(), &node);
        (into.unasked, into.has_partitions) = (Some(said), has_partitions);
    }
    if is_live {
        let plugins = ours.iter().filter_map(|line| found(line).flatten());
        let all = files
            .into_iter()
            .chain(plugins)
            .chain(file.map(|(_, path)| PathBuf::from(path)));
        into.owners = all.filter_map(|path| owned(&path)).collect();
    }
    admin
}

fn is_there(line: &PluginLine, is_live: bool) -> Option<bool> {
    // another machine's Slurm may have it in a folder of its own
    (line.path.is_absolute() || is_live)
        .then(|| found(line).map(|path| path.is_some()))
        .flatten()
}

/// The line that `make install` and the packages put beside this program, and its plugin.
fn packaged() -> Option<(String, String)> {
    let tool = std::env::current_exe().ok()?;
    let file = tool
        .ancestors()
        .nth(2)?
        .join("share/nic-placement/90-nic-placement.conf");
    let lines = plugstack::read(&file).lines;
    let line = lines.iter().find(|line| line.path.is_file())?;
    Some((file.display().to_string(), line.path.display().to_string()))
}

/// The file of a plugin, as Slurm finds it; the outer `None` if its folder is not known.
fn found(line: &PluginLine) -> Option<Option<PathBuf>> {
    if line.path.is_absolute() {
        return Some(line.path.exists().then(|| line.path.clone()));
    }
    let folders = plugstack::plugin_folders(|name| std::env::var_os(name))?;
    let mut paths = folders.iter().map(|folder| folder.join(&line.path));
    Some(paths.find(|path| path.exists()))
}

fn owned(path: &Path) -> Option<Owned> {
    let facts = fs::metadata(path).ok()?;
    let path = path.display().to_string();
    Some(Owned {
        path,
        user: facts.uid(),
        group: facts.gid(),
        mode: facts.mode(),
    })
}

/// The words for steps that do not ask, the nearest last, with their places; true with such words for partitions.
fn unasked(
    lines: &[PluginLine],
    file: Option<&(Conf, String)>,
    node: &str,
) -> (Vec<(String, String)>, bool) {
    let decides = |text: &str| text.starts_with("default=") || text.starts_with("rollout=");
    let mut said: Vec<(String, String)> = Vec::new();
    for line in lines {
        let texts = line.arguments.iter().filter(|text| decides(text));
        said.extend(texts.map(|text| (line.place.clone(), text.clone())));
    }
    let Some((conf, path)) = file else {
        return (said, false);
    };
    let of = |line: &ConfLine| -> Vec<(String, String)> {
        let arguments = line.arguments(path).filter(|(_, text)| decides(text));
        arguments
            .map(|(place, text)| (place, text.to_string()))
            .collect()
    };
    for audience in [Audience::Cluster, Audience::Nodes] {
        said.extend(conf.lines_for(audience, node, None).flat_map(of));
    }
    let partitions = Audience::Partitions..=Audience::Both;
    let mut others = conf
        .lines
        .iter()
        .filter(|line| partitions.contains(&line.audience()));
    (said, others.any(|line| !of(line).is_empty()))
}

/// Root's files count, as for the plugin, whatever user checks. In a user namespace without the host's users the host's root
/// looks like others, and all files are read.
fn roots() -> Author {
    if has_the_hosts_users() {
        Author::Root
    } else {
        Author::Anyone
    }
}

pub(super) fn node_file(
    NodeFileUse { path, max_age }: &NodeFileUse,
    into: &mut Installation,
) -> Option<Kept> {
    let since_boot = sys::seconds_since_boot();
    let read = || kept::read(Path::new(path), *max_age, roots(), since_boot);
    let (age, kept) = match (*max_age > 0).then(read) {
        Some(Ok(kept)) => (Some(Ok(kept.age)), Some(kept)),
        Some(Err(why)) => (Some(Err(why)), None),
        None => (None, None),
    };
    into.node_file = Some((path.clone(), age));
    kept
}

/// The release of Slurm's programs here: srun wants a slurm.conf to say it, slurmd and sinfo do not.
///
/// A program that waits for the controller, a name server or a file system is left: a release drains no node.
pub(in crate::commands) fn release() -> Option<String> {
    const PATIENCE: Duration = Duration::from_secs(2);
    ["srun", "slurmd", "sinfo"].into_iter().find_map(|program| {
        let mut asked = Command::new(in_path(program)?);
        asked.arg("-V");
        let (_, text) = printed(asked, PATIENCE)?;
        let text = text.trim().to_string();
        (!text.is_empty()).then_some(text)
    })
}

/// The program by PATH; for root only one that root alone can replace: it, and all folders above it.
fn in_path(program: &str) -> Option<PathBuf> {
    let is_roots = |path: &Path| {
        fs::metadata(path).is_ok_and(|facts| facts.uid() == 0 && facts.mode() & 0o022 == 0)
    };
    let is_trusted = |path: &PathBuf| path.ancestors().all(is_roots);
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .filter_map(|folder| fs::canonicalize(folder.join(program)).ok())
        .find(|path| path.is_file() && (!sys::is_root() || is_trusted(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(node: &str) -> (Vec<String>, bool) {
        let text = b"default=observe\nNodeName=gpu[1-2] default=closest rollout=10%\n\
            PartitionName=debug default=off\nNodeName=login1 exclude=mlx5_9\n";
        let (conf, _) = Conf::parse(text, "/c").unwrap();
        let arguments = ["default=numa", "exclude=mlx5_8"].map(str::to_string);
        let line = PluginLine {
            place: "/p:7".to_string(),
            arguments: arguments.into(),
            ..PluginLine::default()
        };
        let (said, has_partitions) = unasked(&[line], Some(&(conf, "/c".to_string())), node);
        let said = said.iter();
        let said = said.map(|(place, argument)| format!("{place} {argument}"));
        (said.collect(), has_partitions)
    }

    #[test]
    fn who_does_not_ask_gets_what_the_nearest_line_for_this_node_says() {
        let all = ["/p:7 default=numa", "/c:1 default=observe"].map(str::to_string);
        let node = ["/c:2 default=closest", "/c:2 rollout=10%"].map(str::to_string);
        let both = [all.clone(), node].concat();
        assert_eq!(on("gpu2.example.org"), (both, true));
        assert_eq!(on("gpu3"), (all.to_vec(), true));
    }
}
