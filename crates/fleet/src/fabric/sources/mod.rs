//! Readers of the texts that list a fabric's cables: `ibnetdiscover` and `lldpctl`.

mod ibnetdiscover;
mod lldp;
#[cfg(test)]
mod tests;

use super::cabling::Cabling;
use nic_placement_core::diagnostic::Shown;
use nic_placement_core::diagnostic::line::disturbs;

/// Bytes of a text, at most: `ibnetdiscover` of 100,000 NICs has 30 MiB.
pub const MAX_BYTES: usize = 64 << 20;
const MAX_NOTES: usize = 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    Ibnetdiscover,
    /// `lldpctl -f json0` or `-f json`
    Lldp,
}

/// Adds the cables of the file `name`; its content tells the format.  Notes go into
/// [`Cabling::notes`], after the name.  An error adds nothing.
pub fn read(name: &str, text: &str, into: &mut Cabling) -> Result<SourceKind, String> {
    let shown = Shown::word(name, 200);
    if text.len() > MAX_BYTES {
        return Err(format!("`{shown}` has more than {} MiB", MAX_BYTES >> 20));
    }
    let mut notes = Notes::default();
    let kind = if text.lines().any(ibnetdiscover::is_own) {
        ibnetdiscover::read(text, &mut notes, into);
        SourceKind::Ibnetdiscover
    } else if text.lines().any(lldp::is_own) {
        lldp::read(name, text, &mut notes, into);
        SourceKind::Lldp
    } else {
        return Err(format!(
            "`{shown}` is no text of `ibnetdiscover` or `lldpctl -f json0`: instead of `ibnetdiscover -p`, `iblinkinfo` \
            or Slurm's topology run plain `ibnetdiscover`"
        ));
    };
    if notes.more > 0 {
        notes.told.push(format!("{} more notes", notes.more));
    }
    let told = notes.told.into_iter();
    into.notes
        .extend(told.map(|note| format!("{shown}: {note}")));
    Ok(kind)
}

#[derive(Default)]
struct Notes {
    told: Vec<String>,
    more: usize,
}

impl Notes {
    fn add(&mut self, note: String) {
        if self.told.len() < MAX_NOTES {
            self.told.push(note)
        } else {
            self.more += 1
        }
    }
}

/// Without letters that disturb a terminal, as rdma-core's `clean_nodedesc`; LLDP's names have at
/// most 255 bytes.
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
