//! On a terminal a command says that it waits for input or works; in a pipe it says nothing of it.

use super::{Place, tool};
use std::process::{Command, Stdio};

/// A line of shell with `$TOOL` on a terminal of its own, whose input ends at once; `None` without script(1).
fn on_a_terminal(line: &str) -> Option<String> {
    let mut script = Command::new("script");
    script.args(["-qec", line, "/dev/null"]);
    script.env("TOOL", env!("CARGO_BIN_EXE_nic-placement"));
    let Ok(output) = script.stdin(Stdio::null()).output() else {
        println!("skipped: no script(1), of util-linux");
        return None;
    };
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_command_that_waits_for_a_terminal_s_input_says_so() {
    const WAITS: &str = "reads what you type or paste here, until Ctrl-D";
    for command in ["audit", "fabric", "audit -", "verify --merge"] {
        let Some(shown) = on_a_terminal(&format!("$TOOL {command}")) else {
            return;
        };
        assert!(shown.contains(WAITS), "{command}: {shown}");
        let mut piped = tool();
        let piped = piped.args(command.split(' ')).stdin(Stdio::null());
        let said = String::from_utf8(piped.output().unwrap().stderr).unwrap();
        assert!(!said.contains(WAITS), "{command}: {said}");
    }
}

#[test]
fn a_terminal_sees_how_far_long_work_is_and_a_pipe_does_not() {
    let place = Place::new("progress");
    let file = place.file("reports", "");
    let slowly = "(sleep 1; echo '{}'; sleep 1)";
    let shown = on_a_terminal(&format!("{slowly} | $TOOL audit > {file}"));
    let Some(shown) = shown else { return };
    assert!(shown.contains("\r\x1b[Kaudit: 1 reports"), "{shown:?}");
    let line = format!("{slowly} | {} audit", env!("CARGO_BIN_EXE_nic-placement"));
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert!(!output.stderr.contains(&0x1b), "{output:?}");
    let watch = on_a_terminal(&format!("$TOOL verify --watch 2 --json > {file}")).unwrap();
    assert!(watch.contains("\r\x1b[Kverify: "), "{watch:?}");
    assert!(
        watch.ends_with("\r\x1b[K"),
        "the line is taken away: {watch:?}"
    );
    let looks = on_a_terminal("$TOOL verify --watch 2").unwrap();
    assert!(looks.contains("; Ctrl-C ends"), "{looks:?}");
}
