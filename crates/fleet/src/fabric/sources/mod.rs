//! Texts of programs that know a fabric's cables, each format in a file of its own.
#![forbid(unsafe_code)]

mod iblinkinfo;
mod ibnetdiscover;
mod infiniband;
mod lldp;
mod ports;
mod slurm;
#[cfg(test)]
mod tests;

use super::cabling::Cabling;
use nic_placement_core::diagnostic::Shown;
use nic_placement_core::diagnostic::line::disturbs;

/// Bytes of a text, at most: `ibnetdiscover` of 100,000 NICs has 30 MiB.
pub const MAX_BYTES: usize = 64 << 20;
/// Notes about one text, at most.
const MAX_NOTES: usize = 20;

/// The program or file that a text is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    Ibnetdiscover,
    /// `ibnetdiscover -p`
    IbnetdiscoverPorts,
    Iblinkinfo,
    /// `lldpctl -f json0` or `-f json`
    Lldp,
    /// Slurm's topology.conf
    SlurmConf,
    /// Slurm's topology.yaml
    SlurmYaml,
}

/// Adds what a text tells of a fabric, and says whose text it is; the format is recognised by its content.
///
/// `name` is the file's.  What is odd goes into [`Cabling::notes`], with the name before it.
///
/// # Errors
///
/// The text is too long, or none of the known formats: nothing was added.
pub fn read(name: &str, text: &str, into: &mut Cabling) -> Result<SourceKind, String> {
    if text.len() > MAX_BYTES {
        return Err(format!(
            "`{}` has more than {} MiB",
            Shown::word(name, 200),
            MAX_BYTES >> 20
        ));
    }
    let mut notes = Notes::default();
    let Some(kind) = text.lines().find_map(kind) else {
        return Err(format!(
            "`{}` is no text of `ibnetdiscover`, `ibnetdiscover -p`, `iblinkinfo` or `lldpctl -f json0`, and no topology.conf or topology.yaml of Slurm",
            Shown::word(name, 200)
        ));
    };
    match kind {
        SourceKind::Ibnetdiscover => ibnetdiscover::read(text, &mut notes, into),
        SourceKind::IbnetdiscoverPorts => ports::read(text, &mut notes, into),
        SourceKind::Iblinkinfo => iblinkinfo::read(text, &mut notes, into),
        SourceKind::Lldp => lldp::read(name, text, &mut notes, into),
        SourceKind::SlurmConf => slurm::read_conf(text, &mut notes, into),
        SourceKind::SlurmYaml => slurm::read_yaml(text, &mut notes, into),
    }
    notes.finish(name, into);
    Ok(kind)
}

/// The format that a line is of; `None` where it does not tell.
fn kind(line: &str) -> Option<SourceKind> {
    let formats = [
        (SourceKind::Ibnetdiscover, ibnetdiscover::is_own(line)),
        (SourceKind::IbnetdiscoverPorts, ports::is_own(line)),
        (SourceKind::Iblinkinfo, iblinkinfo::is_own(line)),
        (SourceKind::Lldp, lldp::is_own(line)),
        (SourceKind::SlurmConf, slurm::is_conf(line)),
        (SourceKind::SlurmYaml, slurm::is_yaml(line)),
    ];
    formats
        .into_iter()
        .find(|(_, is_own)| *is_own)
        .map(|(kind, _)| kind)
}

/// What is odd in a text.
#[derive(Debug, Default)]
struct Notes {
    notes: Vec<String>,
    /// those beyond [`MAX_NOTES`]
    more: usize,
}

impl Notes {
    fn add(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(note)
        } else {
            self.more += 1
        }
    }

    /// `count` lines are not of the format; the first is line `number`.
    fn odd_lines(&mut self, number: usize, line: &str, count: usize) {
        let also = if count > 1 {
            format!(", and {} more lines are not read", count - 1)
        } else {
            String::new()
        };
        self.add(format!(
            "line {number} is not understood: `{}`{also}",
            Shown::word(line, 80)
        ));
    }

    fn finish(self, name: &str, into: &mut Cabling) {
        let name = Shown::word(name, 200).to_string();
        into.notes
            .extend(self.notes.into_iter().map(|note| format!("{name}: {note}")));
        if self.more > 0 {
            into.notes.push(format!("{name}: {} more notes", self.more));
        }
    }
}

/// A foreign name without what disturbs a terminal, as rdma-core's `clean_nodedesc` does it; names of LLDP have 255 bytes.
fn clean(name: &str) -> String {
    name.trim()
        .chars()
        .map(|letter| if disturbs(letter) { ' ' } else { letter })
        .take(255)
        .collect()
}

/// A node's name up to its first dot, as Slurm has it.
fn node_name(host: &str) -> String {
    clean(host.split('.').next().unwrap_or_default())
}
