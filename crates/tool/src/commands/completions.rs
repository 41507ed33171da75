//! `nic-placement completions`: a script that completes commands, options and names of machines.
#![forbid(unsafe_code)]

use super::page::Page;
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
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut with_words(command_line()), "nic-placement", &mut script);
    // clap_complete 4.6 spells the state of a hyphenated program in two ways, and then completes no option in bash
    // (github.com/clap-rs/clap/issues/6421); where that is repaired this finds nothing
    page.exact(&String::from_utf8(script)?.replace("nic__subcmd__placement__", "nic__placement__"));
    Ok(())
}

/// The id of every argument that takes words of the plugin's option.
const WORDS: &str = "words";

/// The same command line, whose words are known: the commands themselves take several with commas between them.
fn with_words(table: clap::Command) -> clap::Command {
    let takes_words =
        |command: &clap::Command| command.get_arguments().any(|argument| argument.get_id() == WORDS);
    let names: Vec<String> = table
        .get_subcommands()
        .filter(|command| takes_words(command))
        .map(|c| c.get_name().to_string())
        .collect();
    let known = |argument: clap::Arg| {
        // `help` belongs to srun
        let words = options::WORDS.iter().filter(|spec| spec.name != "help");
        let words = words.flat_map(|spec| -> Vec<String> {
            let is_word = |value: &&str| value.starts_with(|letter: char| letter.is_ascii_lowercase());
            match spec.value {
                "" => vec![spec.name.to_string()],
                value if value.split('|').any(|value| is_word(&value)) => {
                    value.split('|').filter(is_word).map(|value| format!("{}={value}", spec.name)).collect()
                }
                _ => vec![format!("{}=", spec.name)],
            }
        });
        // clap wants names that live as long as the program, which ends here
        let words: Vec<&'static str> = words.map(|word| &*word.leak()).collect();
        argument.value_parser(PossibleValuesParser::new(words))
    };
    names
        .iter()
        .fold(table, |table, name| table.mut_subcommand(name, |command| command.mut_arg(WORDS, known)))
}
