//! On a terminal a command says that it waits for input or works; in a pipe it says nothing of it.

use super::answer::on_a_terminal;
use super::*;

#[test]
fn a_command_that_waits_for_a_terminal_s_input_says_so() {
    const WAITS: &str = "paste here, until Ctrl-D";
    for command in ["audit", "fabric", "audit -", "verify --merge"] {
        let Some(shown) = on_a_terminal(&format!("$TOOL {command}"), &[]) else {
            return;
        };
        assert!(shown.contains(WAITS), "{command}: {shown}");
        Answer::of(tool().args(command.split(' ')).stdin(Stdio::null())).lacks(&[WAITS]);
    }
}

#[test]
fn a_terminal_sees_how_far_long_work_is() {
    let place = Place::new("progress");
    let file = place.file("reports", "");
    let watch = on_a_terminal(&format!("$TOOL verify --watch 2 --json > {file}"), &[]);
    let Some(watch) = watch else { return };
    assert!(watch.contains("\r\x1b[Kverify: "), "{watch:?}");
    // the line is taken away
    assert!(shown.contains("\r\x1b[Knic-placement: "), "{shown:?}");
    let looks = on_a_terminal("$TOOL verify --watch 2", &[]).unwrap();
    assert!(looks.contains("; Ctrl-C ends"), "{looks:?}");
}
