//! `nic-placement completions`: a script that completes commands, options and names of machines.

use super::page::Page;
use super::request::NOT_PLANNED;
use super::{Failure, command_line};
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use nic_placement_core::config::options;

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
    let mut table = completed(command_line(), options.shell);
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut table, "nic-placement", &mut script);
    page.exact(&String::from_utf8(script)?);
    Ok(())
}

/// The command line without hidden commands and options, and with the words.
fn completed(table: clap::Command, shell: Shell) -> clap::Command {
    let mut root = clap::Command::new("nic-placement")
        .version("")
        .disable_help_flag(true)
        .disable_version_flag(true)
        .disable_help_subcommand(true)
        .args(table.get_arguments().cloned());
    for command in table.get_subcommands().filter(|of| !of.is_hide_set()) {
        let name = leaked(command.get_name());
        let arguments = command.get_arguments().filter(|of| !of.is_hide_set());
        let arguments = arguments.cloned().map(|of| match of.get_id().as_str() {
            "words" => of.value_parser(PossibleValuesParser::new(words(name))),
            _ => of,
        });
        let mut shown = clap::Command::new(name)
            .about(command.get_about().cloned().unwrap_or_default())
            .disable_help_flag(true)
            .args(arguments);
        if shell == Shell::Bash {
            // clap_complete 4.6 spells a hyphenated program in two ways, and then completes no option in bash
            // (github.com/clap-rs/clap/issues/6421)
            shown = shown.bin_name(format!("nic__placement {name}"));
        }
        root = root.subcommand(shown);
    }
    root
}

fn words(command: &str) -> Vec<&'static str> {
    // `help` belongs to srun, and a plan has nothing to switch off, to observe or to report
    let without: &[&str] = match command {
        "exec" => &["help"],
        _ => NOT_PLANNED,
    };
    let is_word = |value: &&str| value.starts_with(|letter: char| letter.is_ascii_lowercase());
    let mut words = Vec::new();
    for spec in options::WORDS
        .iter()
        .filter(|spec| !without.contains(&spec.name))
    {
        let values: Vec<&str> = spec.value.split('|').filter(is_word).collect();
        match (spec.value, values.is_empty()) {
            ("", _) => words.push(spec.name),
            (_, true) => words.push(leaked(&format!("{}=", spec.name))),
            _ => words.extend(
                values
                    .iter()
                    .map(|value| leaked(&format!("{}={value}", spec.name))),
            ),
        }
    }
    words
}

/// clap wants names that live as long as the program, which ends here.
fn leaked(text: &str) -> &'static str {
    text.to_string().leak()
}
