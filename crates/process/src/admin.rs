//! Reads the admin's settings on this node, and merges them with the user's words into a [`Wish`].

use nic_placement_core::config::{Admin, Conf, ENVIRONMENT, Words, conf, rollout::Rollout};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::wish::Wish;
use nic_placement_node::discover::root::{self, Author, Beginning};
use std::fmt;
use std::path::Path;

pub struct Found {
    pub admin: Admin,
    pub findings: Vec<Diagnostic>,
    /// the configuration file and its path: `nic-placement check` checks all lines
    pub file: Option<(Conf, String)>,
    /// the reason why no step is placed here
    pub off: Option<Off>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Off {
    /// the file with `disable`, or the switch file `….disabled`
    Disabled(String),
    /// a bad argument or line, or an unreadable configuration file, which may have `disable`
    Refused(String),
}

impl fmt::Display for Off {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Off::Disabled(place) => write!(f, "disabled by {place}"),
            Off::Refused(why) => write!(f, "{why}: no step is placed until that is put right"),
        }
    }
}

/// The kernel's host name; a user can change the other host names that slurmstepd sees.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// `partition` reads the user's environment, so it runs only if a line names partitions.
pub fn find<'a>(
    arguments: impl IntoIterator<Item = &'a str>,
    partition: impl FnOnce() -> Option<String>,
    author: Author,
) -> Found {
    let (mut admin, mut findings) = Admin::parse(arguments);
    let (mut file, mut unusable) = (None, None);
    let path = admin.conf.clone().unwrap_or_else(|| conf::PATH.to_string());
    let place = if admin.disabled {
        "plugstack.conf".to_string()
    } else {
        format!("`{path}`")
    };
    match read(&path, admin.conf.is_some(), author) {
        Ok(None) => {}
        Ok(Some((conf, more))) => {
            let node = conf.names_nodes().then(hostname).unwrap_or_default();
            let partition = conf.names_partitions().then(partition).flatten();
            findings.extend(more);
            findings.extend(admin.add_conf(&conf, &path, &node, partition.as_deref()));
            file = Some((conf, path.clone()));
        }
        Err(why) => unusable = Some(why),
    }
    // a switch file is beside the configuration file or, even with `conf=`, beside the default one
    let switches = [&path, conf::PATH].map(|path| Path::new(path).with_extension("disabled"));
    let mut switches = Vec::from(switches);
    switches.dedup();
    let switch = switches.iter().find(|switch| root::is_there(switch));
    let switch = switch.map(|switch| format!("`{}`, which is there", switch.display()));
    let disabled = switch.or_else(|| admin.disabled.then(|| format!("`disable` in {place}")));
    let off = disabled
        .map(Off::Disabled)
        .or_else(|| unusable.or_else(|| refusal(&findings)).map(Off::Refused));
    Found {
        admin,
        findings,
        file,
        off,
    }
}

fn refusal(findings: &[Diagnostic]) -> Option<String> {
    let mut refused = findings.iter().filter(|finding| finding.refuses);
    let first = refused.next()?;
    Some(match refused.count() {
        0 => first.to_string(),
        more => format!("{first} (`nic-placement check` names {more} more)"),
    })
}

/// The configuration file, and faults in its lines; `None` if absent and not named by `conf=`.
fn read(
    path: &str,
    is_promised: bool,
    author: Author,
) -> Result<Option<(Conf, Vec<Diagnostic>)>, String> {
    match root::read_file(Path::new(path), conf::MAX_BYTES, author) {
        Ok(bytes) => Conf::parse(&bytes, path)
            .map(Some)
            .map_err(|bad| format!("`{path}` {bad}")),
        Err(unreadable) if unreadable.problem.is_absent() && !is_promised => Ok(None),
        Err(unreadable) => Err(unreadable.to_string()),
    }
}

/// Parses the user's variable; a variable with a bad word is logged and ignored.
pub fn words_of_variable(text: Option<&str>) -> Option<Words> {
    let parsed = Words::parse(text.filter(|text| !text.is_empty())?);
    parsed
        .inspect_err(|bad| log::warn!("{ENVIRONMENT}: {bad}; ignored"))
        .ok()
}

/// Merges the admin's default for the job with the user's words.
pub fn wish(
    mut admin: Admin,
    job: impl FnOnce() -> Option<u32>,
    variable: Option<&Words>,
    option: Option<&Words>,
) -> Wish {
    if admin.rollout != Rollout::default()
        && let Some(job) = job()
    {
        admin.default = admin.rollout.default_of(job, &admin.default);
    }
    Wish::new(admin, variable, option)
}

/// The host's name; empty if unreadable.
pub fn hostname() -> String {
    /// The kernel's limit is 64 bytes.
    const LIMIT: usize = 256;
    let read = root::read_configuration(Path::new(HOSTNAME), LIMIT);
    read.map(|Beginning { text, .. }| text.trim().to_string())
        .unwrap_or_default()
}
