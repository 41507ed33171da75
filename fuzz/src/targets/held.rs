//! Rules of every answer: tidy lines, bounded lengths.
#![forbid(unsafe_code)]

use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::diagnostic::line::{MAX_BYTES, one_line};

/// A message that ends no line, moves no cursor and turns no direction, of a length that a log takes.
#[track_caller]
pub fn message(text: &str) {
    tidy(text);
    let length = text.len();
    assert!(length <= 4 * MAX_BYTES, "{length} bytes: {text:.200}");
}

/// Text without what ends a line, moves a cursor or turns the direction, of any length.
#[track_caller]
pub fn tidy(text: &str) {
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

/// Findings that the log's own wall, which cuts and escapes, makes lines of; so many that a log takes them.
#[track_caller]
pub fn findings(diagnostics: &[Diagnostic]) {
    assert!(diagnostics.len() <= 20_000, "{}", diagnostics.len());
    for diagnostic in diagnostics {
        assert!(one_line(&diagnostic.to_string()).len() <= MAX_BYTES);
    }
}

/// `data` as lines of text, what is no UTF-8 replaced.
pub fn text(data: &[u8]) -> String {
    String::from_utf8_lossy(data).into_owned()
}
