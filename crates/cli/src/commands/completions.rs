//! `nic-placement completions`: a script that completes commands, options and names of machines.
#![forbid(unsafe_code)]

use super::page::Page;
use super::{Failure, command_line};
use clap_complete::Shell;

/// print a shell's completion script
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  source <(nic-placement completions bash)
  nic-placement completions fish > ~/.config/fish/completions/nic-placement.fish")]
pub(super) struct Options {
    /// bash, zsh, fish, elvish or powershell
    #[arg(value_enum, hide_possible_values = true)]
    shell: Shell,
}

pub(super) fn run(options: &Options, page: &mut Page) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command_line(), "nic-placement", &mut script);
    // clap_complete 4.6 spells the state of a hyphenated program in two ways, and then completes no option in bash
    // (github.com/clap-rs/clap/issues/6421); where that is repaired this finds nothing
    page.exact(&String::from_utf8(script)?.replace("nic__subcmd__placement__", "nic__placement__"));
    Ok(())
}
