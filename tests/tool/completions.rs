//! The scripts by which shells complete the tool's words.

use super::*;

#[test]
fn every_shell_s_completions_know_every_command_option_and_machine() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = printed(&["completions", shell]);
        assert!(
            !script.contains("settled"),
            "{shell}: hidden options are for the tool itself"
        );
        for command in commands() {
            assert!(script.contains(command), "{shell}: {command}");
            for line in printed(&[command, "-h"])
                .lines()
                .filter(|line| line.starts_with("  -") || line.starts_with("      --"))
            {
                let option = line.split("--").nth(1).unwrap_or_default();
                let option = option.split([' ', ',']).next().unwrap_or_default();
                assert!(script.contains(option), "{shell}: {command} --{option}");
            }
        }
        // the completions for elvish and powershell complete no values
        if ["bash", "zsh", "fish"].contains(&shell) {
            assert!(
                machines().iter().all(|machine| script.contains(machine)),
                "{shell}"
            );
        }
    }
}

#[test]
fn bash_completes_with_the_script() {
    let script = printed(&["completions", "bash"]);
    let complete = |words: &[&str]| {
        let ask = format!(
            "{script}\nCOMP_WORDS=({0}) COMP_CWORD={1}; _nic__placement nic-placement {2} {3}; echo \"${{COMPREPLY[@]}}\"",
            words
                .iter()
                .map(|word| format!("'{word}'"))
                .collect::<Vec<_>>()
                .join(" "),
            words.len() - 1,
            format_args!("'{}'", words[words.len() - 1]),
            format_args!("'{}'", words[words.len() - 2]),
        );
        let output = Command::new("bash")
            .args(["--norc", "-c", &ask])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        String::from_utf8(output.stdout).unwrap().trim().to_string()
    };
    assert_eq!(complete(&["nic-placement", "pl"]), "plan");
    assert_eq!(
        complete(&["nic-placement", "plan", "--gpus-"]),
        "--gpus-per-task"
    );
    assert_eq!(
        complete(&["nic-placement", "plan", "--machine", "dgx-h"]),
        "dgx-h100 dgx-h200"
    );
    assert_eq!(
        complete(&["nic-placement", "plan", "--words", "bind="]),
        "bind=auto bind=numa bind=core bind=none"
    );
    assert_eq!(
        complete(&["nic-placement", "check", "--off", "nic-b"]),
        "nic-broken"
    );
    assert_eq!(
        complete(&["nic-placement", "check", "--only", "roce-"]),
        "roce-gid roce-mtu"
    );
    assert_eq!(complete(&["nic-placement", "exec", "obs"]), "observe");
    for refused in ["off", "observe", "help", "verbose", "dry-run"] {
        assert_eq!(
            complete(&["nic-placement", "plan", "--words", refused]),
            "",
            "a plan has no `{refused}`"
        );
    }
    assert_eq!(
        complete(&["nic-placement", "check", "--settl"]),
        "",
        "it is hidden"
    );
}
