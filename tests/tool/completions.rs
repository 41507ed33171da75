//! The scripts by which shells complete the tool's words.

use super::*;

#[test]
fn every_shell_s_completions_know_every_command_option_and_machine() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&format!("completions {shell}"));
        for command in commands() {
            assert!(script.contains(&command), "{shell}: {command}");
            let help = printed(&format!("{command} -h"));
            let is_option = |line: &&str| line.starts_with("  -") || line.starts_with("      --");
            for line in help.lines().filter(is_option) {
                let option = line.split("--").nth(1).unwrap_or_default();
                let option = option.split([' ', ',']).next().unwrap_or_default();
                assert!(script.contains(option), "{shell}: {command} --{option}");
            }
        }
        // the completions for elvish and powershell complete no values
        if ["bash", "zsh", "fish"].contains(&shell) {
            let is_so = machines().iter().all(|machine| script.contains(machine));
            assert!(is_so, "{shell}");
        }
    }
}

#[test]
fn bash_completes_with_the_script() {
    let script = printed("completions bash");
    let complete = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let at = words.len();
        let (word, before) = (words[at - 1], words.get(at.wrapping_sub(2)));
        let before = before.unwrap_or(&"nic-placement");
        let ask = format!(
            "{script}\nCOMP_WORDS=(nic-placement {line}) COMP_CWORD={at}; \
             _nic__placement nic-placement '{word}' '{before}'; echo \"${{COMPREPLY[@]}}\""
        );
        let answer = Answer::of(Command::new("bash").args(["--norc", "-c", &ask]));
        assert_eq!(answer.err, "");
        answer.out.trim().to_string()
    };
    for (line, all) in [
        ("pl", "plan"),
        ("plan --gpus-", "--gpus-per-task"),
        ("plan --machine dgx-h", "dgx-h100 dgx-h200"),
        ("check --off nic-b", "nic-broken"),
        ("check --only roce-", "roce-gid roce-mtu"),
    ] {
        assert_eq!(complete(line), all, "{line}");
    }
}
