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

/// Adds the cables of the file `name`; its content tells the format. An error adds nothing.
pub fn read(name: &str, text: &str, into: &mut Cabling) -> Result<(), String> {
    let shown = Shown::word(name, 200);
    let told = into.notes.len();
    if text.len() > MAX_BYTES {
        return Err(format!("`{shown}` has more than {} MiB", MAX_BYTES >> 20));
    } else if text.lines().any(ibnetdiscover::is_own) {
        ibnetdiscover::read(text, into);
    } else if text.lines().any(|line| line.contains("\"lldp\":")) {
        lldp::read(name, text, into);
    } else {
        return Err(format!(
            "`{shown}` is no text of plain `ibnetdiscover` or `lldpctl -f json0`"
        ));
    }
    for note in &mut into.notes[told..] {
        note.insert_str(0, &format!("{shown}: "));
    }
    Ok(())
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
