//! What must hold for every answer: tidy lines, bounded lengths.
#![forbid(unsafe_code)]

use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::diagnostic::line::{MAX_BYTES, one_line};

/// Findings of one input, at most: they go to a log.
const MOST_FINDINGS: usize = 20_000;

/// A message that ends no line, moves no cursor and turns no direction, of a length that a log takes.
#[track_caller]
pub fn message(text: &str) {
    tidy(text);
    assert!(
        text.len() <= 4 * MAX_BYTES,
        "a message of {} bytes: {text:.200}",
        text.len()
    );
}

/// Text without what ends a line, moves a cursor or turns the direction, of any length.
#[track_caller]
pub fn tidy(text: &str) {
    if cfg!(fuzzing) && is_plain(text) {
        return;
    }
    let mut rest = text;
    while !rest.is_empty() {
        let mut end = rest.len().min(MAX_BYTES);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, after) = rest.split_at(end);
        assert_eq!(one_line(piece), piece, "it is not one plain line");
        rest = after;
    }
}

/// Printable ASCII alone, of which a line may have any.  No comparison decides here before the end: libFuzzer would be told of
/// each.
fn is_plain(text: &str) -> bool {
    let is_other = |byte: u8| u8::from(byte.wrapping_sub(b' ') > b'~' - b' ');
    text.bytes().fold(0, |seen, byte| seen | is_other(byte)) == 0
}

/// Findings that may be printed as they are.
#[track_caller]
pub fn findings(diagnostics: &[Diagnostic]) {
    assert!(
        diagnostics.len() <= MOST_FINDINGS,
        "{} findings",
        diagnostics.len()
    );
    for diagnostic in diagnostics {
        let text = diagnostic.to_string();
        if cfg!(fuzzing) && text.len() <= MAX_BYTES && is_plain(&text) {
            continue;
        }
        // the log's own wall cuts it; it escapes too, and so does the tool's page
        assert!(one_line(&text).len() <= MAX_BYTES);
    }
}

/// `data` as lines of text, what is no UTF-8 replaced.
pub fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}

/// Is this check one for this input?  In the project's tests each is.  Under libFuzzer, where a check costs as much as the work
/// itself, one of so many has its turn with each input.
pub(super) fn has_turn(data: &[u8], nth: usize, of: usize) -> bool {
    !cfg!(fuzzing) || data.len() % of == nth
}
