//! Reads XML by roxmltree, within bounds and without the file's own entities.
//!
//! The parser compares an element's attributes with each other, and inherited namespaces with its own: time grows with the square of
//! both.  So one pass over the text counts them first.

use super::{BadText, MAX_BYTES, Result};
use nic_placement_core::diagnostic::Shown;
use roxmltree::{Document, ParsingOptions};

/// The most elements and texts of one file; the largest hwloc XML known has 30,000.
const MAX_NODES: u32 = 500_000;
/// The most nested elements; the deepest known file has 13, hwloc's deepest machines about 20.
const MAX_DEPTH: usize = 128;
/// The most attributes of one element; known files have up to 13.
const MAX_ATTRIBUTES: usize = 64;
/// The most namespace declarations in one file; no known file has one.
const MAX_NAMESPACES: usize = 16;

/// Reads a document.  hwloc writes a document type without content, which is accepted.
pub fn parse(text: &str) -> Result<Document<'_>> {
    if text.len() > MAX_BYTES {
        return Err(BadText::new(0, format!("longer than {MAX_BYTES} bytes")));
    }
    if let Some(at) = text.find("<!ENTITY") {
        return Err(bad(
            text,
            at,
            "the file declares entities, which no topology needs".to_string(),
        ));
    }
    count(text)?;
    let options = ParsingOptions {
        allow_dtd: true,
        nodes_limit: MAX_NODES,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        // it quotes names of the file at any length
        BadText::new(
            error.pos().row,
            format!(
                "not well-formed XML: {}",
                Shown::message(&error.to_string(), 200)
            ),
        )
    })?;
    Ok(document)
}

/// Refuses texts that would be slow to parse; up to the first error it sees the parser's tags.
fn count(text: &str) -> Result<()> {
    let (mut depth, mut namespaces, mut at) = (0usize, 0, 0);
    while let Some(found) = text[at..].find('<') {
        let start = at + found;
        let tag = &text[start..];
        if let Some((opens, closes)) = [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")]
            .into_iter()
            .into_iter()
            .find(|(opens, _)| tag.starts_with(opens))
        {
            let Some(end) = tag[opens.len()..].find(closes) else {
                return Ok(());
            };
            at = start + opens.len() + end + closes.len();
            continue;
        }
        let Some(seen) = Tag::of(tag) else {
            return Ok(());
        };
        at = start + seen.length;
        if tag.starts_with("</") {
            depth = depth.saturating_sub(1);
            continue;
        }
        if tag.starts_with("<!") {
            if seen.brackets {
                let problem = "the document type has content of its own, which no topology needs";
                return Err(bad(text, start, problem.to_string()));
            }
            continue;
        }
        namespaces += seen.namespaces;
        let problem = if depth >= MAX_DEPTH {
            format!("elements inside each other: expected at most {MAX_DEPTH}")
        } else if seen.values > MAX_ATTRIBUTES {
            format!(
                "an element with {} attributes: expected at most {MAX_ATTRIBUTES}",
                seen.values
            )
        } else if namespaces > MAX_NAMESPACES {
            format!(
                "declarations of namespaces: expected at most {MAX_NAMESPACES}, and no topology needs one"
            )
        } else {
            depth += usize::from(!seen.is_closed);
            continue;
        };
        return Err(bad(text, start, problem));
    }
    Ok(())
}

#[derive(Default)]
struct Tag {
    /// bytes, from `<` to `>`
    length: usize,
    /// quoted values, one for each attribute
    values: usize,
    /// the number of `xmlns` outside the values
    namespaces: usize,
    /// true if a `[` stands outside the values
    brackets: bool,
    /// true if it ends with `/>`
    is_closed: bool,
}

impl Tag {
    /// The tag at the beginning of `text`; `None` if it has no end.
    fn of(text: &str) -> Option<Tag> {
        let mut tag = Tag::default();
        loop {
            let rest = &text[tag.length..];
            let outside = rest.find(['"', '\'', '>'])?;
            tag.namespaces += rest[..outside].matches("xmlns").count();
            tag.brackets |= rest[..outside].contains('[');
            tag.length += outside + 1;
            let quote = &rest[outside..=outside];
            if quote == ">" {
                tag.is_closed = rest[..outside].ends_with('/');
                return Some(tag);
            }
            tag.values += 1;
            tag.length += rest[outside + 1..].find(quote)? + 1;
        }
    }
}

fn bad(text: &str, at: usize, problem: String) -> BadText {
    let line = text[..at].matches('\n').count() + 1;
    BadText::new(u32::try_from(line).unwrap_or(u32::MAX), problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        parse(text).map(|_| ()).unwrap_err().to_string()
    }

    fn many(count: usize, one: impl Fn(usize) -> String) -> String {
        (0..count).map(one).collect()
    }

    fn attributes(count: usize) -> String {
        many(count, |n| format!(" a{n}='1'"))
    }

    fn nested(count: usize) -> String {
        "<a>".repeat(count) + &"</a>".repeat(count)
    }

    #[test]
    fn what_a_parser_takes_seconds_for_is_refused_by_a_count() {
        let spaces = many(2_000, |n| format!("<o xmlns:n{n}=\"u\">")) + &"</o>".repeat(2_000);
        let attributes = format!("\n\n<o{}/>", attributes(60_000));
        for (inside, reason) in [
            (format!("\n{spaces}"), "line 2: declarations of"),
            (attributes, "line 3: an element with 60000"),
            (format!("\n{}", nested(100_000)), "line 2: elements"),
        ] {
            let refusal = refusal(&format!("<t>{inside}</t>"));
            assert!(refusal.starts_with(reason), "{refusal}");
        }
    }

    #[test]
    fn what_is_at_the_bounds_is_read() {
        let is_read = |text: &str| parse(text).is_ok();
        let element = |count: usize| format!("<t{}/>", attributes(count));
        assert!(is_read(&element(64)) && !is_read(&element(65)));
        assert!(is_read(&nested(128)) && !is_read(&nested(129)));
        let declared = |count| format!("<t{}/>", many(count, |n| format!(" xmlns:n{n}='u'")));
        assert!(is_read(&declared(16)) && !is_read(&declared(17)));
        // siblings have no bound but the bytes
        let brothers = format!("<t>{}</t>", "<a></a><b/>".repeat(10_000));
        let brothers = parse(&brothers).unwrap().root_element().children().count();
        assert_eq!(brothers, 20_000);
    }

    #[test]
    fn what_only_looks_like_tags_is_not_counted() {
        let tags = "<a b='1' xmlns='u'>".repeat(200);
        for text in [
            format!("<t><!--{tags}--></t>"),
            format!("<t><![CDATA[{tags}]]></t>"),
            format!("<?pi {tags}?><t/>"),
            "<!DOCTYPE t SYSTEM '[>'><t/>".to_string(),
            format!("<t a=\"{}\"/>", "/> xmlns [".repeat(200)),
            format!("<t>{}</t>", "> ' \" [ xmlns ".repeat(200)),
        ] {
            let parsed = parse(&text);
            assert!(parsed.is_ok(), "{}: {}", &text[..20], parsed.unwrap_err());
        }
    }

    #[test]
    fn what_comes_behind_something_that_is_skipped_is_counted() {
        let deep = "<a>".repeat(129);
        let hidden = "<!-- -->|<![CDATA[ ]]>|<?pi > ?>|<b c='<!--'/>|<b c='>'></b>|]]&gt;";
        for hidden in hidden.split('|') {
            let refusal = refusal(&format!("<t>{hidden}{deep}"));
            assert!(refusal.starts_with("line 1: elements inside"), "{hidden}");
        }
    }

    #[test]
    fn a_document_type_with_content_is_refused_where_it_stands() {
        let attributes = "<?xml version='1.0'?>\n<!DOCTYPE t [\n<!ATTLIST t a CDATA 'x'>\n]>\n<t/>";
        let entities = "<!DOCTYPE t [\n<!ENTITY a 'x'>\n]><t/>";
        assert!(refusal(attributes).starts_with("line 2: the document type"));
        assert!(refusal(entities).starts_with("line 2: the file declares"));
    }

    #[test]
    fn a_text_that_ends_within_a_tag_is_the_parsers_to_refuse() {
        let texts = "<t|<t a='|<t a='x|<!--|<t><![CDATA[|<?pi|<!DOCTYPE t '|</t".split('|');
        for text in texts {
            assert!(refusal(text).contains("not well-formed XML"), "`{text}`");
        }
    }
}
