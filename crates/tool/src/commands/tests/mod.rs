//! Tests of the table of commands, and of the alert rules.

pub(super) mod alerts;

use super::*;

#[test]
fn the_table_of_commands_is_consistent() {
    command_line().debug_assert();
}

#[test]
fn the_help_names_each_command_once_and_fits_a_terminal_of_24_rows() {
    let table = command_line();
    let listed = READERS.iter().flat_map(|(_, names)| names.iter().copied());
    let shown = table.get_subcommands();
    let shown = shown.filter(|command| !command.is_hide_set());
    assert!(listed.eq(shown.map(clap::Command::get_name)));
    let help = overview(&table);
    let is_narrow = help.lines().all(|line| line.chars().count() <= 100);
    assert!(is_narrow && help.lines().count() <= 24, "{help}");
}
