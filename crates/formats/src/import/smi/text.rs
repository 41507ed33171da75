//! The lines of the text, without the additions of a terminal, a mail or a bug report.

use super::BadText;
use crate::import::{MAX_BYTES, Result};

/// The most bytes of one line: a row of 256 columns has about 2 KB.
const MAX_LINE: usize = 64 * 1024;
/// The most lines.  A whole bug report has some hundreds.
const MAX_LINES: usize = 100_000;

pub struct TextLine {
    pub number: u32,
    pub text: String,
    /// true for the last line of a text without a line's end: its last word may be cut
    pub is_open: bool,
}

impl TextLine {
    /// Its words.  nvidia-smi prints too narrow columns as `NIC8NIC9`, `AffinityNUMA`, `SYSSYS` or
    /// `SYS0-35`: a word made of known words has one reading.
    pub fn words(&self) -> Vec<&str> {
        self.text.split_whitespace().flat_map(split).collect()
    }
}

fn split(word: &str) -> Vec<&str> {
    const KNOWN: [&str; 15] = [
        "Affinity", "NUMA", "CPU", "GPU", "NIC", "ID", "NVB", "LOC", "PIX", "PXB", "PHB", "NODE",
        "SYS", "SOC", "X",
    ];
    let (mut parts, mut rest) = (Vec::new(), word);
    while !rest.is_empty() {
        let known = KNOWN
            .iter()
            .chain(&["NV"])
            .find(|known| rest.starts_with(**known));
        let length = known.map_or(0, |known| known.len());
        // the numbers of `GPU3`, `NIC12` and `NV18`
        let digits = match known {
            Some(&("GPU" | "NIC" | "NV")) => rest[length..]
                .bytes()
                .take_while(u8::is_ascii_digit)
                .count(),
            _ => 0,
        };
        let is_value = rest.starts_with(|first: char| first.is_ascii_digit()) || rest == "N/A";
        match known {
            Some(&"NV") if digits == 0 => return vec![word],
            Some(_) => parts.push(&rest[..length + digits]),
            None if is_value && !parts.is_empty() => parts.push(std::mem::take(&mut rest)),
            None => return vec![word],
        }
        rest = rest.get(length + digits..).unwrap_or_default();
    }
    parts
}

pub fn lines(text: &str) -> Result<Vec<TextLine>> {
    if text.len() > MAX_BYTES {
        return Err(BadText::new(0, format!("longer than {MAX_BYTES} bytes")));
    }
    let mut lines = Vec::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let number = index as u32 + 1;
        if index >= MAX_LINES {
            return Err(BadText::new(number, format!("more than {MAX_LINES} lines")));
        }
        if line.len() > MAX_LINE {
            return Err(BadText::new(
                number,
                format!("a line longer than {MAX_LINE} bytes"),
            ));
        }
        let text = clean(line);
        if !text.is_empty() {
            // a quote or a blank behind the last word shows that it is whole
            let is_open = line.ends_with(&text);
            lines.push(TextLine {
                number,
                text,
                is_open,
            });
        }
    }
    Ok(lines)
}

/// Without escape sequences, control characters, and quotes or fences at its ends.
fn clean(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = after_escape(rest) {
            rest = after;
            continue;
        }
        rest = &rest[first.len_utf8()..];
        match first {
            // a byte order mark and a zero-width space are invisible, and no white space to Rust
            '\u{feff}' | '\u{200b}' | '\u{1b}' => {}
            _ if first.is_control() => text.push(' '),
            _ => text.push(first),
        }
    }
    let around = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '|' | '*' | '~');
    text.trim_start_matches(|c| around(c) || c == '>')
        .trim_end_matches(|c| around(c) || matches!(c, ',' | '\\'))
        .to_string()
}

/// The text after an escape sequence at its start, if there is one.
///
/// nvidia-smi underlines its header even in a pipe, and copies often lose the escape character or
/// have `^[` for it.
fn after_escape(text: &str) -> Option<&str> {
    let escaped = text
        .strip_prefix('\u{1b}')
        .or_else(|| text.strip_prefix("^["));
    let sequence = escaped.unwrap_or(text).strip_prefix('[')?;
    let end = sequence
        .bytes()
        .position(|byte| !(b'0'..=b'?').contains(&byte))?;
    let last = sequence.as_bytes()[end];
    // without the escape character only sequences for colours and underlines are certain
    let ends_well = if escaped.is_some() {
        (b'@'..=b'~').contains(&last)
    } else {
        last == b'm'
    };
    ends_well.then(|| &sequence[end + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_and_a_mail_add_is_taken_away() {
        for (line, text) in [
            ("\u{1b}[4mGPU0\tNIC0\u{1b}[0m", "GPU0 NIC0"),
            ("[4mGPU0 NIC0[0m", "GPU0 NIC0"),
            ("^[[4mGPU0 NIC0^[[24m", "GPU0 NIC0"),
            ("> \"GPU0 X\",", "GPU0 X"),
            ("NIC0: mlx5_0```", "NIC0: mlx5_0"),
            ("\u{feff}GPU0\u{0}X\r", "GPU0 X"),
            ("[rank 0] GPU0 \u{1b}", "[rank 0] GPU0"),
            ("\u{1b}[", "["),
            ("```", ""),
        ] {
            assert_eq!(clean(line), text, "{line:?}");
        }
    }

    #[test]
    fn a_text_beyond_the_bounds_is_refused_where_it_goes_beyond() {
        let line = |text: &str| lines(text).err().unwrap().line;
        assert_eq!(line(&"\n".repeat(MAX_LINES + 5)), MAX_LINES as u32 + 1);
        assert_eq!(line(&format!("GPU0\n{}", "X ".repeat(MAX_LINE))), 2);
        assert_eq!(line(&" ".repeat(MAX_BYTES + 1)), 0);
    }
}
