//! The lines of the text, without the additions of a terminal, a mail or a bug report.

use super::BadText;
use crate::import::{MAX_BYTES, Result};

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
    const KNOWN: [&str; 16] = [
        "Affinity", "NUMA", "CPU", "GPU", "NIC", "ID", "NVB", "LOC", "PIX", "PXB", "PHB", "NODE",
        "SYS", "SOC", "X", "NV",
    ];
    let (mut parts, mut rest) = (Vec::new(), word);
    while !rest.is_empty() {
        let known = KNOWN.iter().find(|known| rest.starts_with(**known));
        let length = known.map_or(0, |known| known.len());
        let after = &rest[length..];
        // the numbers of `GPU3`, `NIC12` and `NV18`
        let digits = match known {
            Some(&("GPU" | "NIC" | "NV")) => {
                after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len()
            }
            _ => 0,
        };
        let is_value = rest.starts_with(|first: char| first.is_ascii_digit()) || rest == "N/A";
        let end = match known {
            Some(&"NV") if digits == 0 => return vec![word],
            Some(_) => length + digits,
            None if is_value && !parts.is_empty() => rest.len(),
            None => return vec![word],
        };
        parts.push(&rest[..end]);
        rest = &rest[end..];
    }
    parts
}

pub fn lines(text: &str) -> Result<Vec<TextLine>> {
    if text.len() > MAX_BYTES {
        return Err(BadText::new(0, format!("longer than {MAX_BYTES} bytes")));
    }
    let lines = text.split_inclusive('\n').zip(1..);
    let lines = lines.map(|(line, number)| {
        let text = clean(line);
        TextLine {
            number,
            // a quote or a blank behind the last word shows that it is whole
            is_open: line.ends_with(&text),
            text,
        }
    });
    Ok(lines.filter(|line| !line.text.is_empty()).collect())
}

/// Without colours, control characters, and quotes or fences at its ends.
fn clean(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    for (nth, piece) in line.split('[').enumerate() {
        let code = piece.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        match code.strip_prefix('m') {
            // nvidia-smi underlines its header even in a pipe, and copies often lose the escape character or have `^[` for it
            Some(after) if nth > 0 => {
                let before = text.strip_suffix("^[").unwrap_or(&text).len();
                text.truncate(before);
                text.push_str(after);
            }
            _ => {
                text.push_str(if nth > 0 { "[" } else { "" });
                text.push_str(piece);
            }
        }
    }
    // a byte order mark and a zero-width space are invisible, and no white space to Rust
    text.retain(|c| !matches!(c, '\u{feff}' | '\u{200b}' | '\u{1b}'));
    let text = text.replace(char::is_control, " ");
    let around = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '|' | '*' | '~');
    text.trim_start_matches(|c| around(c) || c == '>')
        .trim_end_matches(|c| around(c) || matches!(c, ',' | '\\'))
        .to_string()
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
        assert!(lines(&" ".repeat(MAX_BYTES + 1)).is_err());
    }
}
