//! `nic-placement completions`: a script that completes commands, options and names of machines.

use super::page::Page;
use super::{Failure, command_line};
use clap_complete::Shell;

/// print a shell's completion script
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  source <(nic-placement completions bash)
  nic-placement completions fish > ~/.config/fish/completions/nic-placement.fish")]
pub(super) struct CompletionsOptions {
    /// bash, zsh, fish, elvish or powershell
    #[arg(value_enum, hide_possible_values = true)]
    shell: Shell,
}

pub(super) fn run(options: &CompletionsOptions, page: &mut Page) -> Result<(), Failure> {
    let mut table = command_line().disable_help_subcommand(true);
    if options.shell == Shell::Bash {
        // clap_complete 4.6 spells a hyphenated program in two ways, and then completes no option in bash
        // (github.com/clap-rs/clap/issues/6421)
        table = table.mut_subcommands(|command| {
            let name = format!("nic__placement {}", command.get_name());
            command.bin_name(name)
        });
    }
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut table, "nic-placement", &mut script);
    page.exact(&String::from_utf8(script)?);
    Ok(())
}
