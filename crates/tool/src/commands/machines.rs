//! `nic-placement machines`: the machines that the program carries with it.

use super::Failure;
use super::page::{Page, Table};
use nic_placement_node::platform::MODELS;

/// list the built-in machines
///
/// Each has the sources of its facts in its file. A live node that is one of them is recognised, and gets from the model
/// what its bus hides.
#[derive(clap::Args)]
pub(super) struct MachinesOptions {}

pub(super) fn run(_: &MachinesOptions, page: &mut Page) -> Result<(), Failure> {
    let mut table = Table::indented(0);
    for model in MODELS {
        table.row([model.name.into(), model.title.into()]);
    }
    page.table(&table);
    Ok(())
}
