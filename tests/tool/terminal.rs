//! On a terminal a command says that it waits for input; in a pipe it says nothing of it.

use super::answer::on_a_terminal;
use super::*;

#[test]
fn a_command_that_waits_for_a_terminal_s_input_says_so() {
    const WAITS: &str = "paste here, until Ctrl-D";
    for command in ["audit", "fabric", "audit -", "verify --merge"] {
        let shown = on_a_terminal(&format!("$TOOL {command}"), &[]);
        let Some(shown) = shown else { return };
        assert!(shown.contains(WAITS), "{command}: {shown}");
        Answer::of(tool().args(command.split(' ')).stdin(Stdio::null())).lacks(&[WAITS]);
    }
}
