//! What the admin of this node says: plugstack.conf's arguments, the configuration file, and the switch that turns all off; and
//! what the user's words make of it.
#![forbid(unsafe_code)]

use nic_placement_core::config::rollout::Rollout;
use nic_placement_core::config::{Admin, Conf, ENVIRONMENT, Words, conf};
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::wish::Wish;
use nic_placement_node::discover::root::{self, Author, Beginning, Obstacle};
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The admin's settings for a step of one partition here.
pub struct Found {
    /// all layers together
    pub admin: Admin,
    pub findings: Vec<Diagnostic>,
    /// the file and its path, for a caller that looks at its lines for other nodes and partitions too
    pub file: Option<(Conf, String)>,
    /// the reason why no step is placed here, even if its user asks
    pub off: Option<Off>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Off {
    /// the place of the switch that the admin threw
    Disabled(String),
    /// the configuration file cannot be used, and may hold that switch; or an argument is not understood
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

/// The name of this node, as the kernel has it: slurmstepd has none that a user's environment could not change.
const HOSTNAME: &str = "/proc/sys/kernel/hostname";

/// Reads the settings.  `partition` reads the step's partition from its environment, which its user could have changed;
/// only if a line needs it.
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
            let node = if conf.names_nodes() {
                hostname()
            } else {
                String::new()
            };
            let partition = if conf.names_partitions() {
                partition()
            } else {
                None
            };
            findings.extend(more);
            findings.extend(admin.add_conf(&conf, &path, &node, partition.as_deref()));
            file = Some((conf, path.clone()));
        }
        Err(why) => unusable = Some(why),
    }
    let switch = switches(&path)
        .into_iter()
        .find(|switch| root::is_there(switch));
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

/// The first argument or line that is not understood.
fn refusal(findings: &[Diagnostic]) -> Option<String> {
    let mut refused = findings.iter().filter(|finding| finding.refuses);
    let first = refused.next()?;
    Some(match refused.count() {
        0 => first.to_string(),
        more => format!("{first} (`nic-placement check` names {more} more)"),
    })
}

/// The files whose existence turns all off: beside the configuration file, and in the usual place whatever `conf=` says.
fn switches(path: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = [path, conf::PATH]
        .map(|path| Path::new(path).with_extension("disabled"))
        .into();
    files.dedup();
    files
}

/// The file, and faults in its lines; none where it is absent and no `conf=` names it.  The error says why it cannot be
/// used.
fn read(
    path: &str,
    is_promised: bool,
    author: Author,
) -> Result<Option<(Conf, Vec<Diagnostic>)>, String> {
    let bytes = match root::read_file(Path::new(path), conf::MAX_BYTES, author) {
        Ok(bytes) => bytes,
        Err(unreadable) => {
            let is_absent = matches!(&unreadable.problem, Obstacle::System(error) if error.kind() == ErrorKind::NotFound);
            return if is_absent && !is_promised {
                Ok(None)
            } else {
                Err(unreadable.to_string())
            };
        }
    };
    Conf::parse(&bytes, path)
        .map(Some)
        .map_err(|bad| format!("`{path}` {bad}"))
}

/// The words of the user's variable; a bad one is ignored, and the log says so.
pub fn words_of_variable(text: Option<&str>) -> Option<Words> {
    let parsed = Words::parse(text.filter(|text| !text.is_empty())?);
    parsed
        .inspect_err(|bad| log::warn!("{ENVIRONMENT}: {bad}; ignored"))
        .ok()
}

/// What holds for a step: the admin's default for its job, then the words of the user's variable and option.
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

/// The name by which lines with `NodeName=` know this node.
pub fn hostname() -> String {
    /// Bytes; the kernel's names have 64.
    const LIMIT: usize = 256;
    let read = root::read_configuration(Path::new(HOSTNAME), LIMIT);
    read.map(|Beginning { text, .. }| text.trim().to_string())
        .unwrap_or_default()
}
