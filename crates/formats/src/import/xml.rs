//! Reads XML by roxmltree, within bounds and without the file's own entities.
//!
//! The parser compares an element's attributes with each other, and inherited namespaces with its own: time grows with the square of
//! both.  So both are counted first.  No value of an attribute holds a `<`.

use super::{BadText, MAX_BYTES, Result};
use nic_placement_core::diagnostic::Shown;
use roxmltree::{Document, ParsingOptions};

/// The most elements and texts of one file; the largest hwloc XML known has 30,000.
const MAX_NODES: u32 = 500_000;
/// The most attributes of one element; known files have up to 13.
const MAX_ATTRIBUTES: usize = 64;
/// The most namespace declarations in one file; no known file has one.
const MAX_NAMESPACES: usize = 16;

/// Reads a document.  hwloc writes a document type without content, which is accepted.
pub fn parse(text: &str) -> Result<Document<'_>> {
    if text.len() > MAX_BYTES {
        return Err(BadText::new(0, format!("longer than {MAX_BYTES} bytes")));
    }
    let mut starts = text.match_indices('<').map(|(at, _)| at);
    let is_wide = |at: &usize| {
        let tag = text[at + 1..].split('<').next().unwrap_or_default();
        tag.matches(['"', '\'']).count() > 2 * MAX_ATTRIBUTES
    };
    let mut spaces = text.match_indices("xmlns").map(|(at, _)| at);
    for (problem, found) in [
        ("entities", text.find("<!ENTITY")),
        (
            "an element with more than 64 attributes",
            starts.find(is_wide),
        ),
        ("more than 16 namespaces", spaces.nth(MAX_NAMESPACES)),
    ] {
        if let Some(at) = found {
            let line = text[..at].matches('\n').count() as u32 + 1;
            return Err(BadText::new(
                line,
                format!("{problem}, which no topology needs"),
            ));
        }
    }
    let options = ParsingOptions {
        allow_dtd: true,
        nodes_limit: MAX_NODES,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(text, options).map_err(|error| {
        // it quotes names of the file at any length
        let why = error.to_string();
        let why = Shown::message(&why, 200);
        BadText::new(error.pos().row, format!("not well-formed XML: {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many(count: usize, one: impl Fn(usize) -> String) -> String {
        (0..count).map(one).collect()
    }

    #[test]
    fn what_a_parser_takes_seconds_for_is_refused_by_a_count() {
        let spaces = many(2_000, |n| format!("<o xmlns:n{n}=\"u\">")) + &"</o>".repeat(2_000);
        let attributes = |count| format!("<o{}/>", many(count, |n| format!(" a{n}='<>'")));
        let many = format!("\n\n{}", attributes(65)).replace("<>", ">");
        for (inside, reason) in [
            (format!("\n{spaces}"), "line 2: more than 16"),
            (many, "line 3: an element"),
            ("<!ENTITY a 'x'>".to_string(), "line 1: entities"),
            ("<a>".to_string(), "line 1: not well-formed"),
        ] {
            let refusal = parse(&format!("<t>{inside}</t>")).unwrap_err().to_string();
            assert!(refusal.starts_with(reason), "{refusal}");
        }
        assert!(parse(&attributes(64).replace("<>", "/>")).is_ok());
        assert!(parse(&("<t>".to_string() + &"<a></a><b c='1'/>".repeat(10_000) + "</t>")).is_ok());
    }
}
