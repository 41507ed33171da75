//! The man page of the tool, from its table of commands and options.

use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};
use nic_placement_cli::commands::command_line;
use nic_placement_fleet::doctor::table::CHECKS;
use std::collections::BTreeMap;

const HEAD: &str = "\
.\\\" Made from the tool's table of commands: `BLESS=1 cargo test -p nic-placement-cli --test docs` writes it anew.
";
const TAIL: &str = "\
.SH EXIT STATUS
0 done; 1 it could not be done, or was judged bad:
.B plan
or
.B show \\-\\-gpu
found that a strict word would fail a task, or
.B audit
that a node differs or a part of its input is no report, or
.B fabric
that a cable is wrong or a source cannot be read; 2 the command line was not understood.
.B check
ends with 3 where the worst that it finds is a warn, and with 4 where it is a fail.
.B exec
and
.B verify
have more.
.SH ENVIRONMENT
.TP
.B SLURM_CONF
where
.B check
finds slurm.conf, which names plugstack.conf
.SH SEE ALSO
.BR nic\\-placement (8),
.BR srun (1)
";

/// A text of clap's, or nothing.
fn words(text: Option<impl ToString>) -> String {
    text.map(|text| text.to_string()).unwrap_or_default()
}

/// The whole page.
pub fn page() -> String {
    let mut table = command_line();
    table.build();
    let version = env!("CARGO_PKG_VERSION");
    let head = format!(".TH NIC-PLACEMENT 1 \"\" \"nic-placement {version}\" \"User Commands\"\n");
    let mut page = format!("{HEAD}{head}");
    page.push_str(&body(|roff| {
        roff.control("SH", ["NAME"]);
        roff.text([roman(format!("nic-placement - {}", about(&table).0))]);
        roff.control("SH", ["SYNOPSIS"]);
        let numbered = commands(&table).enumerate();
        numbered.for_each(|(number, command)| synopsis(command, number > 0, roff));
        roff.control("SH", ["DESCRIPTION"]);
        roff.text([roman(about(&table).1)]);
        roff.control("SH", ["COMMANDS"]);
    }));
    // an option is explained at its first command
    let mut explained = BTreeMap::new();
    for command in commands(&table) {
        page.push_str(&section(command, &mut explained));
    }
    let everywhere = table.get_arguments().cloned();
    let everywhere = everywhere.map(|argument| argument.help_heading(None::<&str>));
    let everywhere = options(everywhere.collect());
    page + &everywhere.replacen(".PP\n\\fIOptions\\fR\n", ".SH OPTIONS\n", 1) + &checks() + TAIL
}

/// The checks of `check`, from their table.
fn checks() -> String {
    body(|roff| {
        roff.control("SH", ["CHECKS"]);
        roff.text([
            bold("nic-placement check --explain"),
            roman(" says more of each."),
        ]);
        for check in CHECKS.iter() {
            roff.control("TP", []);
            roff.text([bold(check.code)]);
            let [why, remedy] =
                ["why", "do"].map(|word| check.says(word).expect("the page says it"));
            roff.text([roman(format!("{} {why}. {remedy}.", check.title))]);
        }
    })
}

fn commands(table: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    let all = table.get_subcommands();
    all.filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

/// The sentence of its short help, and what the long one adds.
fn about(command: &clap::Command) -> (String, String) {
    let (short, long) = (words(command.get_about()), words(command.get_long_about()));
    let more = long.strip_prefix(&short).unwrap_or_default().trim();
    (short.clone(), more.to_string())
}

fn synopsis(command: &clap::Command, is_next: bool, roff: &mut Roff) {
    if is_next {
        roff.control("br", []);
    }
    let mut line = vec![bold(format!("nic-placement {}", command.get_name()))];
    if own(command).any(|argument| !argument.is_positional()) {
        line.extend([roman(" ["), italic("OPTION"), roman("...]")]);
    }
    for argument in command.get_positionals() {
        let names = argument.get_value_names();
        let name = names.map(|names| names.join(" ")).unwrap_or_default();
        let (open, close) = if argument.is_required_set() {
            ("", "")
        } else {
            ("[", "]")
        };
        line.extend([roman(format!(" {open}")), italic(name), roman(close)]);
    }
    roff.text(line);
}

/// The command's arguments, without those that every command has.
fn own(command: &clap::Command) -> impl Iterator<Item = &clap::Arg> {
    let all = command.get_arguments();
    all.filter(|argument| argument.get_id() != "help")
}

fn section(command: &clap::Command, explained: &mut BTreeMap<String, String>) -> String {
    let (short, more) = about(command);
    let mut text = body(|roff| {
        roff.control("SS", [command.get_name()]);
        let sentence = format!("{}{}.", short[..1].to_uppercase(), &short[1..]);
        roff.text([roman(sentence)]);
        if !more.is_empty() {
            roff.text([roman(more)]);
        }
    });
    let arguments = own(command).cloned().map(|argument| {
        let help = words(argument.get_long_help().or(argument.get_help()));
        // the list of words stands at the first command that takes them
        let is_words = argument.get_id() == "words";
        let key = match is_words {
            true => "words".to_string(),
            false => format!("{} {}", argument.get_id(), help),
        };
        match explained.get(&key) {
            Some(_) if is_words && argument.is_positional() => {
                let short = words(argument.get_help());
                argument.long_help(format!("{short}; nic-placement(8) lists them"))
            }
            Some(first) => argument.long_help(format!("as for {first}")),
            None => {
                explained.insert(key, command.get_name().to_string());
                argument
            }
        }
    });
    let arguments: Vec<clap::Arg> = arguments.collect();
    if !arguments.is_empty() {
        text.push_str(&options(arguments));
    }
    // below its options: paragraphs of a heading and lines
    let after = command.get_after_help().map(ToString::to_string);
    for paragraph in after.iter().flat_map(|all| all.split("\n\n")) {
        let (heading, lines) = paragraph.split_once(":\n").expect("a heading and lines");
        text.push_str(&body(|roff| {
            roff.control("PP", []);
            roff.text([italic(heading)]);
            roff.control("nf", []);
            for line in lines.lines() {
                roff.text([roman(line)]);
            }
            roff.control("fi", []);
        }));
    }
    text
}

/// The options, below the same headings as in the help.
fn options(arguments: Vec<clap::Arg>) -> String {
    let shown = arguments.into_iter().map(|argument| argument.global(false));
    let command = clap::Command::new("part").disable_help_flag(true);
    let command = command.disable_version_flag(true).version("0").args(shown);
    let text = rendered(|out| Man::new(command.clone()).render_options_section(out));
    let headings = command.get_arguments();
    let headings = headings.filter_map(|argument| argument.get_help_heading());
    let headings: Vec<&str> = headings.collect();
    let only_values = command.get_arguments().all(clap::Arg::is_positional);
    let otherwise = if only_values { "Arguments" } else { "Options" };
    let mut out = String::new();
    for line in text.lines() {
        let row = line.strip_prefix("  ").and_then(|row| row.split_once("  "));
        match (line.strip_prefix(".SH "), row) {
            (Some(name), _) => {
                let is_it = |heading: &&&str| heading.to_uppercase() == name.trim_matches('"');
                let heading = headings.iter().find(is_it).unwrap_or(&otherwise);
                out.push_str(&format!(".PP\n\\fI{heading}\\fR\n"));
            }
            // a row of the words that an option takes
            (_, Some((word, meaning))) => {
                let meaning = meaning.trim_start();
                out.push_str(&format!(".RS\n.TP\n\\fB{word}\\fR\n{meaning}\n.RE\n"));
            }
            // a paragraph of the same option
            _ if line.is_empty() => out.push_str(".IP\n"),
            _ => out.push_str(&format!("{line}\n")),
        }
    }
    out
}

fn body(write: impl FnOnce(&mut Roff)) -> String {
    let mut roff = Roff::new();
    write(&mut roff);
    ascii(&roff.to_roff())
}

/// A part of the page as `clap_mangen` writes it, without the lines that define an apostrophe.
fn rendered(write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>) -> String {
    let mut bytes = Vec::new();
    write(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let is_kept = |line: &&str| !line.starts_with(".ie ") && !line.starts_with(".el ");
    let lines = text.lines().filter(is_kept);
    ascii(&lines.map(|line| format!("{line}\n")).collect::<String>())
}

fn ascii(text: &str) -> String {
    text.replace('…', "...")
        .replace("\\*(Aq", "\\(aq")
        .replace('`', "\\(ga")
}
