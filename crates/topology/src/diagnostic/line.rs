//! Any text as one line of a log or a terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// Most bytes of a line: a write to a pipe is atomic up to Linux's `PIPE_BUF`. A line about eight
/// GPUs has half as many.
pub const MAX_BYTES: usize = 4096;

/// Room for ` [cut: 18446744073709551615 bytes in all]`.
const MARK: usize = 48;

/// `text`, with the characters of [`disturbs`] escaped as in a Rust literal (`\n`, `\u{1b}`), then
/// cut and marked if longer than 4096 bytes.
///
/// A second defence: [`super::Shown`] has escaped and cut quoted text already.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_BYTES && !text.chars().any(disturbs) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(text.len().min(MAX_BYTES) + MARK);
    let mut fits = 0;
    for character in text.chars() {
        match disturbs(character) {
            true => line.extend(character.escape_default()),
            false => line.push(character),
        }
        if line.len() <= MAX_BYTES - MARK {
            fits = line.len();
        }
        if line.len() > MAX_BYTES {
            line.truncate(fits);
            // writing to a string cannot fail
            let _ = write!(line, " [cut: {} bytes in all]", text.len());
            break;
        }
    }
    Cow::Owned(line)
}

/// True for control characters (C0, DEL, C1), line and paragraph separators, and characters that
/// turn the writing direction (Unicode Standard Annex #9, section 2).
pub fn disturbs(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}')
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_line_is_passed_on_and_nothing_ends_it_moves_a_cursor_or_turns_the_direction() {
        let text = "GPU 0: `mlx5_0:1`; 400 Gb/s — für alle";
        assert!(matches!(one_line(text), Cow::Borrowed(same) if same == text));
        let controls = ('\0'..'\u{a0}').filter(|c| c.is_control());
        let others = "\u{2028}\u{2029}\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}";
        let all: Vec<char> = controls.chain(others.chars()).collect();
        assert_eq!(all.len(), 32 + 33 + 9, "C0, DEL and C1, and nine more");
        for character in all {
            let line = one_line(&format!("a{character}b")).into_owned();
            let escaped = format!("a{}b", character.escape_default());
            assert_eq!(line, escaped, "{character:?}");
            assert!(line.is_ascii());
        }
        let forged = one_line("none\n[2026-01-01] error: FORGED\u{1b}[31m");
        assert_eq!(forged, "none\\n[2026-01-01] error: FORGED\\u{1b}[31m");
    }

    #[test]
    fn a_long_line_is_cut_at_a_character_and_says_how_long_it_was() {
        let just = "x".repeat(MAX_BYTES);
        assert_eq!(one_line(&just), just.as_str());
        for (piece, escaped) in rows! {
            "x", 1; "é", 2; "\u{1b}", 6; "\u{202e}", 8; "a\né", 5;
        } {
            for count in [1, 1366, 4096, 4097, 1 << 20] {
                let text = piece.repeat(count);
                let line = one_line(&text);
                let mark = format!(" [cut: {} bytes in all]", text.len());
                let is_good = match escaped * count <= MAX_BYTES {
                    true => line.len() == escaped * count,
                    false => line.len() <= MAX_BYTES && line.ends_with(&mark),
                };
                assert!(is_good, "{count} times {piece:?}");
                // no escape is cut in two
                let kept = line.strip_suffix(mark.as_str()).unwrap_or(&line);
                let [open, closed] = ['{', '}'].map(|brace| kept.matches(brace).count());
                assert_eq!(open, closed);
            }
        }
    }
}
