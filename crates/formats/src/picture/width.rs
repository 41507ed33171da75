//! Measures texts in a picture, and cuts them to fit.

use nic_placement_core::diagnostic::Shown;

#[derive(Clone, Copy)]
pub struct Font {
    pub size: f64,
    pub bold: bool,
}

/// The most that bold letters of a sans-serif font are wider, but for `,` of DejaVu Sans, which [`of_letter`] counts for.
const BOLD: f64 = 1.13;

/// As wide as an emoji.
const UNKNOWN: f64 = 1.4;

/// Pixels that a text takes at most in a common sans-serif font: DejaVu Sans and Verdana are the
/// widest.
pub fn width(text: &str, font: Font) -> f64 {
    let em: f64 = text.chars().map(of_letter).sum();
    em * font.size * if font.bold { BOLD } else { 1.0 }
}

/// In units of the font's size, rounded up from DejaVu Sans.
fn of_letter(letter: char) -> f64 {
    match letter {
        'i' | 'j' | 'l' | '\'' => 0.30,
        ' ' | '.' | ',' | 'I' | '|' => 0.345,
        '-' | ':' | ';' | '/' | '\\' | 'f' => 0.37,
        '(' | ')' | '[' | ']' | 't' | '!' | '·' | 'r' => 0.42,
        '*' | '"' | '_' | 's' | 'c' | 'z' => 0.56,
        'm' | 'M' | 'w' | 'W' | '%' | '@' | '…' => 1.0,
        '+' | '<' | '=' | '>' | '~' | '^' | '#' => 0.84,
        'a'..='z' | '0'..='9' | '$' | '?' | '{' | '}' | '`' => 0.64,
        'A'..='Z' | '&' => 0.79,
        _ => UNKNOWN,
    }
}

/// Cut with an ellipsis to `most` pixels.  Control characters, which XML cannot hold, and those
/// that turn the direction of writing become escapes.
pub fn fitted(text: &str, font: Font, most: f64) -> String {
    let text = printable(text);
    if width(&text, font) <= most {
        return text;
    }
    let room = most - width("…", font);
    let mut kept = String::new();
    let mut used = 0.0;
    for letter in text.chars() {
        used += width(letter.encode_utf8(&mut [0; 4]), font);
        if used > room {
            break;
        }
        kept.push(letter);
    }
    kept.truncate(kept.trim_end_matches([' ', ',', '·']).len());
    kept + "…"
}

/// As [`fitted`], of any length.
pub fn printable(text: &str) -> String {
    let shown = |letter: char| match letter {
        // a word's escapes are those of a literal, and nothing here is quoted
        '\'' | '"' | '\\' => letter.to_string(),
        _ => Shown::word(letter.encode_utf8(&mut [0; 4]), 1).to_string(),
    };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_never_taken_for_narrower_than_dejavu_sans_draws_it() {
        // widths that Chromium tells for 100 px (`getComputedTextLength`)
        for (text, plain, bold) in MEASURED {
            for (bold, drawn) in [(false, plain), (true, bold)] {
                let found = width(text, Font { size: 100.0, bold });
                let is_near = (drawn..drawn * 1.25).contains(&found);
                assert!(is_near, "{text}: {found} is not {drawn}");
            }
        }
    }

    const MEASURED: [(&str, f64, f64); 13] = [
        ("0000:1b:00.0", 671.6, 746.2),
        ("NVIDIA H100 80GB HBM3", 1276.1, 1419.3),
        ("mlx5_10", 425.3, 461.7),
        ("400 Gb/s InfiniBand", 985.0, 1102.5),
        ("cpus 0-55,112-167", 942.3, 1043.6),
        ("enp170s0f1np1", 784.3, 873.9),
        ("PCIe switch 0000:16:00.0", 1275.7, 1430.0),
        ("built-in model `dgx-h100`", 1300.3, 1451.4),
        ("AMD Instinct MI300X OAM", 1303.4, 1474.4),
        ("host bridge pci0000:15 · 32.0 GT/s x16", 1950.8, 2177.8),
        ("il,;:'|!/()", 367.7, 427.2),
        ("WMQ@%&#", 620.7, 666.0),
        ("task 0: cpus 0-7, memory 0…", 1477.3, 1634.2),
    ];

    #[test]
    fn what_is_too_long_is_cut_and_says_so() {
        let (size, bold) = (10.0, false);
        let font = Font { size, bold };
        assert_eq!(fitted("mlx5_0", font, 100.0), "mlx5_0");
        let cut = fitted("NVIDIA H100 80GB HBM3", font, 60.0);
        assert!(cut.ends_with('…') && cut.starts_with("NVIDIA"), "{cut}");
        assert!(width(&cut, font) <= 60.0, "{cut}");
        let odd = fitted("a\0\u{1b}\u{202e}\u{fffe}'\\\"", font, 900.0);
        assert_eq!(odd, "a\\0\\u{1b}\\u{202e}\\u{fffe}'\\\"");
    }
}
