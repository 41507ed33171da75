//! `nic-placement completions`: a script that completes commands, options and names of machines.
#![forbid(unsafe_code)]

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
    let mut script = Vec::new();
    clap_complete::generate(
        options.shell,
        &mut completed(command_line()),
        "nic-placement",
        &mut script,
    );
    // clap_complete 4.6 spells the state of a hyphenated program in two ways, and then completes no option in bash
    // (github.com/clap-rs/clap/issues/6421); where that is repaired this finds nothing
    let script = String::from_utf8(script)?.replace("nic__subcmd__placement__", "nic__placement__");
    page.exact(&match options.shell {
        Shell::Bash => lists_in_bash(&script),
        Shell::Zsh => lists_in_zsh(&script),
        Shell::Fish => lists_in_fish(&script),
        _ => script,
    });
    Ok(())
}

/// The id of every argument that takes words of the plugin's option.
const WORDS: &str = "words";
/// Options with lists, of which clap's scripts complete only the first part.
const LISTS: [&str; 3] = [WORDS, "off", "only"];

/// The command line without hidden options, and with the words.
fn completed(table: clap::Command) -> clap::Command {
    let names: Vec<&'static str> = table
        .get_subcommands()
        .map(|command| leaked(command.get_name()))
        .collect();
    let shown = |command: &clap::Command| {
        let name = command.get_name();
        let arguments = command
            .get_arguments()
            .filter(|argument| !argument.is_hide_set())
            .cloned();
        let arguments = arguments.map(|argument| match argument.get_id().as_str() {
            WORDS => argument.value_parser(PossibleValuesParser::new(words(name))),
            "command" if name == "help" => argument.value_parser(PossibleValuesParser::new(&names)),
            _ => argument,
        });
        let about = command.get_about().cloned().unwrap_or_default();
        clap::Command::new(leaked(name))
            .about(about)
            .disable_help_flag(true)
            .args(arguments)
    };
    let commands: Vec<clap::Command> = table.get_subcommands().map(shown).collect();
    let own: Vec<clap::Arg> = table.get_arguments().cloned().collect();
    let root = clap::Command::new("nic-placement")
        .version("")
        .disable_help_flag(true)
        .disable_version_flag(true);
    root.disable_help_subcommand(true)
        .args(own)
        .subcommands(commands)
}

fn words(command: &str) -> Vec<&'static str> {
    // `help` belongs to srun, and a plan has nothing to switch off, to observe or to report
    let without: &[&str] = match command {
        "exec" => &["help"],
        _ => NOT_PLANNED,
    };
    let known = options::WORDS
        .iter()
        .filter(|spec| !without.contains(&spec.name));
    let words = known.flat_map(|spec| -> Vec<String> {
        let is_word = |value: &&str| value.starts_with(|letter: char| letter.is_ascii_lowercase());
        match spec.value {
            "" => vec![spec.name.to_string()],
            value if value.split('|').any(|value| is_word(&value)) => value
                .split('|')
                .filter(is_word)
                .map(|value| format!("{}={value}", spec.name))
                .collect(),
            _ => vec![format!("{}=", spec.name)],
        }
    });
    words.map(|word| leaked(&word)).collect()
}

/// clap wants names that live as long as the program, which ends here.
fn leaked(text: &str) -> &'static str {
    text.to_string().leak()
}

/// Completes what stands behind the last comma, and keeps what stands before.
fn lists_in_bash(script: &str) -> String {
    let mut is_list = false;
    let lines = script.split_inclusive('\n').map(|line| {
        let was_list = is_list;
        is_list = LISTS.iter().any(|name| line.trim() == format!("--{name})"));
        match was_list {
            true => line
                .replace("compgen -W", r#"compgen -P "${cur%"${cur##*,}"}" -W"#)
                .replace(r#"-- "${cur}""#, r#"-- "${cur##*,}""#),
            false => line.to_string(),
        }
    });
    lines.collect()
}

/// `_sequence` completes each part of a list (zshcompsys(1)).
fn lists_in_zsh(script: &str) -> String {
    let is_list = |line: &str| {
        LISTS
            .iter()
            .any(|name| line.contains(&format!("--{name}=[")))
    };
    let lines = script
        .split_inclusive('\n')
        .map(|line| match line.rsplit_once(":(") {
            Some((before, values)) if is_list(line) => {
                format!(
                    "{before}:_sequence compadd - {}",
                    values.replacen(')', "", 1)
                )
            }
            _ => line.to_string(),
        });
    lines.collect()
}

/// fish's own `__fish_append` completes what stands behind the last comma.
fn lists_in_fish(script: &str) -> String {
    const COMMAND: &str = "complete -c nic-placement ";
    let is_list = |text: &str| {
        LISTS
            .iter()
            .any(|name| text.contains(&format!(" -l {name} ")))
    };
    let commands = script
        .split(COMMAND)
        .map(|text| match text.split_once(" -a \"") {
            Some((before, values)) if is_list(text) => {
                let values: Vec<&str> = values
                    .lines()
                    .filter_map(|line| Some(line.split_once("\\t")?.0))
                    .collect();
                format!("{before} -a \"(__fish_append , {})\"\n", values.join(" "))
            }
            _ => text.to_string(),
        });
    // clap completes no words without an option in fish; behind `--` stands the program
    let condition =
        "__fish_nic_placement_using_subcommand exec; and not contains -- -- (commandline -opc)";
    let of_exec = format!(
        "{COMMAND}-n \"{condition}\" -f -a \"(__fish_append , {})\"\n",
        words("exec").join(" ")
    );
    commands.collect::<Vec<_>>().join(COMMAND) + &of_exec
}
