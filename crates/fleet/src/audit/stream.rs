//! Takes a stream of JSON documents apart, line by line, in bounded memory.
//!
//! A document goes from a line that begins with `{` to one that begins with `}`, or is one line; one that was cut short costs no
//! other. `srun -l`, clush and pdsh put a label before each line (`12: {`, `node7: {`); lines of several labels may then be mixed.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

/// Bytes of a document, at most: fifty times the report of a node with 8 GPUs and 14 NICs.
const MAX_DOCUMENT: usize = 1 << 20;
/// Bytes of all documents that are begun and not ended, at most: those of labels whose lines are mixed.
const MAX_OPEN: usize = 64 << 20;
/// Bytes for which each of these counts beside its text.
const OPEN_COST: usize = 512;
const MAX_LABEL: usize = 255;

const CUT_SHORT: &str =
    "it is cut short, or its lines are mixed with others: `srun -l` tells whose each is";
const TOO_LONG: &str = "it has more than 1048576 bytes";
const TOO_MANY_OPEN: &str = "too many documents are mixed line by line: give each node a file";
const NO_DOCUMENT: &str = "expected JSON";

/// A document, or the reason why this is none, with its label (empty without one) and its first line, from 1.
pub type StreamPiece<'a> = ((&'a str, u64), Result<&'a [u8], &'static str>);

pub fn read(mut input: impl BufRead, take: &mut dyn FnMut(StreamPiece<'_>)) -> io::Result<()> {
    let mut open: BTreeMap<String, (u64, Vec<u8>)> = BTreeMap::new();
    let (mut held, mut number, mut line) = (0, 0, Vec::new());
    // the label of text that is no document, which is told once
    let mut passed = None;
    loop {
        line.clear();
        let most = MAX_DOCUMENT + MAX_LABEL;
        if (&mut input)
            .take(most as u64)
            .read_until(b'\n', &mut line)?
            == 0
        {
            break;
        }
        if line.len() == most {
            input.skip_until(b'\n')?;
        }
        number += 1;
        let (label, text) = label(&line);
        if text.starts_with(b"{") {
            passed = None;
            held += OPEN_COST;
            if let Some((begun, bytes)) = open.insert(label.to_string(), (number, Vec::new())) {
                held -= bytes.len() + OPEN_COST;
                take(((label, begun), Err(CUT_SHORT)));
            }
        }
        let Some((begun, bytes)) = open.get_mut(label) else {
            if passed.as_deref() != Some(label) && !text.trim_ascii().is_empty() {
                passed = Some(label.to_string());
                take(((label, number), Err(NO_DOCUMENT)));
            }
            continue;
        };
        bytes.extend_from_slice(text);
        held += text.len();
        let is_one_line = text.starts_with(b"{") && text.trim_ascii_end().ends_with(b"}");
        let piece = if bytes.len() > MAX_DOCUMENT {
            Err(TOO_LONG)
        } else if is_one_line || text.starts_with(b"}") {
            Ok(&bytes[..])
        } else if held > MAX_OPEN {
            Err(TOO_MANY_OPEN)
        } else {
            continue;
        };
        if piece.is_err() {
            passed = Some(label.to_string());
        }
        take(((label, *begun), piece));
        held -= bytes.len() + OPEN_COST;
        open.remove(label);
    }
    let mut begun: Vec<_> = open
        .iter()
        .map(|(label, (line, _))| (line, label))
        .collect();
    begun.sort_unstable();
    for (line, label) in begun {
        take(((label, *line), Err(CUT_SHORT)));
    }
    Ok(())
}

/// The label of a line, and the rest: no line of JSON begins with a word and `: `.
fn label(line: &[u8]) -> (&str, &[u8]) {
    let is_letter = |letter: &u8| letter.is_ascii_alphanumeric() || b"-_.".contains(letter);
    let text = line.trim_ascii_start();
    let (label, rest) = text.split_at(text.iter().take_while(|letter| is_letter(letter)).count());
    match rest.strip_prefix(b": ") {
        Some(rest) if (1..=MAX_LABEL).contains(&label.len()) => {
            (std::str::from_utf8(label).unwrap_or_default(), rest)
        }
        _ => ("", line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of a stream that arrives `at_once` bytes at a time.
    fn pieces(stream: &str, at_once: usize) -> Vec<(u64, Result<String, &'static str>)> {
        let mut found = Vec::new();
        let mut take = |((_, line), piece): StreamPiece<'_>| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            found.push((line, piece.map(text)));
        };
        let stream = io::BufReader::with_capacity(at_once, stream.as_bytes());
        read(stream, &mut take).unwrap();
        found
    }

    fn good(line: u64, text: &str) -> (u64, Result<String, &'static str>) {
        (line, Ok(text.to_string()))
    }

    #[test]
    fn documents_end_with_their_last_brace_and_one_that_is_cut_short_costs_no_other() {
        let stream = "{\n \"a\": \"}\\\"{\"\n}\n\n{\"b\": [{}]}\n{\"c\": 1}";
        let expected = [
            good(1, "{\n \"a\": \"}\\\"{\"\n}\n"),
            good(5, "{\"b\": [{}]}\n"),
            good(6, "{\"c\": 1}"),
        ];
        for at_once in [1, 2, 7, 1000] {
            assert_eq!(pieces(stream, at_once), expected);
        }
        let cut = |line| (line, Err(CUT_SHORT));
        let found = pieces("{\n \"a\": {\n{\"b\": 1}\n{", 3);
        assert_eq!(found, [cut(1), good(3, "{\"b\": 1}\n"), cut(4)]);
    }

    #[test]
    fn text_between_documents_is_told_once_and_passed_over() {
        let none = |line| (line, Err(NO_DOCUMENT));
        let found = pieces("error x\nmore of it\n{}\n}\n[]\n{}\nn1: a\nn2: b\n", 100);
        let (first, second) = (good(3, "{}\n"), good(6, "{}\n"));
        let wanted = [none(1), first, none(4), second, none(7), none(8)];
        assert_eq!(found, wanted);
    }

    #[test]
    fn lines_with_labels_are_put_together_by_these() {
        for labels in [[" 0", "10"], ["n1", "n2.example.org"]] {
            let stream = "A: {\nB: {\nA:  \"a\": 1\nB:  \"b\": 2\nA: }\nB: }\n";
            let stream = stream.replace('A', labels[0]).replace('B', labels[1]);
            let wanted = [good(1, "{\n \"a\": 1\n}\n"), good(2, "{\n \"b\": 2\n}\n")];
            assert_eq!(pieces(&stream, 5), wanted);
        }
    }

    #[test]
    fn what_is_too_long_is_not_kept() {
        assert!(TOO_LONG.contains(&MAX_DOCUMENT.to_string()));
        let long = format!("{{\"a\": \"{}\"}}\n{{}}\n", "x".repeat(MAX_DOCUMENT));
        assert_eq!(pieces(&long, 4096), [(1, Err(TOO_LONG)), good(2, "{}\n")]);
        let lines = " \"xxxxxxxxxxxxxx\",\n".repeat(MAX_DOCUMENT / 16);
        let found = pieces(&format!("{{\n{lines}}}\n{{}}\n"), 4096);
        assert_eq!((&found[0], found.len()), (&(1, Err(TOO_LONG)), 2));
        let half = "x".repeat(MAX_DOCUMENT / 2);
        let many = (0..200).map(|task| format!("{task}: {{\"{half}\n"));
        let many: String = many.collect();
        let many = pieces(&many, 65536);
        let open = many.iter().filter(|piece| piece.1 == Err(TOO_MANY_OPEN));
        assert!(open.count() > 30);
    }
}
