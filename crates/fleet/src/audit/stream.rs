//! Takes a stream of JSON documents apart, line by line, in bounded memory.
//!
//! A line that begins with `{` begins a document, so one that was cut short costs no other. `srun -l` puts a task's number
//! before each line (`12: {`); lines of different tasks may then stand between each other.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};

/// Bytes of a document, at most: fifty times the report of a node with 8 GPUs and 14 NICs.
const MAX_DOCUMENT: usize = 1 << 20;
/// Bytes of all documents that are begun and not ended: those of tasks that `srun -l` mixes.
const MAX_OPEN: usize = 32 << 20;
/// Labels of tasks whose documents are not whole: as many as a job has nodes.
const MAX_LABELS: usize = 1 << 16;
/// Braces and brackets within each other; a report has five.
pub(crate) const MAX_DEPTH: usize = 32;

const CUT_SHORT: &str = "it is cut short";
const TOO_LONG: &str = "it has more than 1048576 bytes";
const TOO_DEEP: &str = "it is nested more than 32 deep";
const TOO_MANY_OPEN: &str =
    "too many reports are mixed line by line: give each node a file, or leave `srun -l` out";
const NO_DOCUMENT: &str = "expected a report of `--json`";

#[derive(Default)]
struct OpenDocument {
    line: u64,
    bytes: Vec<u8>,
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// true in the rest of a bad piece, up to the next line that begins a document
    passing: bool,
}

/// A piece of the stream, or the reason why it is no document, with its first line, from 1.
pub type StreamPiece<'a> = (u64, Result<&'a [u8], &'static str>);

/// Takes all of an input apart; true if a line had a label.
pub fn read(mut input: impl BufRead, take: &mut dyn FnMut(StreamPiece<'_>)) -> io::Result<bool> {
    /// A label and the line's end come on top.
    const MAX_LINE: usize = MAX_DOCUMENT + 64;
    let (mut splitter, mut line) = (Splitter::default(), Vec::new());
    let ended = loop {
        line.clear();
        match input
            .by_ref()
            .take(MAX_LINE as u64 + 1)
            .read_until(b'\n', &mut line)
        {
            Ok(0) => break Ok(()),
            Ok(length) if length > MAX_LINE => {
                splitter.line += 1;
                take((splitter.line, Err(TOO_LONG)));
                splitter.abandon(label(&line).0);
                if let (false, Err(error)) = (line.ends_with(b"\n"), input.skip_until(b'\n')) {
                    break Err(error);
                }
            }
            Ok(_) => splitter.line(&line, take),
            Err(error) => break Err(error),
        }
    };
    let mut begun: Vec<u64> = splitter
        .open
        .values()
        .filter(|open| open.depth > 0)
        .map(|open| open.line)
        .collect();
    begun.sort_unstable();
    begun
        .into_iter()
        .for_each(|line| take((line, Err(CUT_SHORT))));
    ended.map(|()| splitter.labelled)
}

#[derive(Default)]
struct Splitter {
    line: u64,
    /// by the label of `srun -l`
    open: BTreeMap<Option<u64>, OpenDocument>,
    held: usize,
    labelled: bool,
}

impl Splitter {
    fn abandon(&mut self, label: Option<u64>) {
        let open = self.open.entry(label).or_default();
        self.held -= open.bytes.len();
        *open = OpenDocument {
            passing: true,
            ..OpenDocument::default()
        };
    }

    fn line(&mut self, line: &[u8], take: &mut dyn FnMut(StreamPiece<'_>)) {
        self.line += 1;
        let number = self.line;
        let line = if number == 1 {
            line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
        } else {
            line
        };
        let (label, text) = label(line);
        self.labelled |= label.is_some();
        if self.open.len() >= MAX_LABELS && !self.open.contains_key(&label) {
            return take((number, Err(TOO_MANY_OPEN)));
        }
        let open = self.open.entry(label).or_default();
        if text.first() == Some(&b'{') {
            if open.depth > 0 {
                take((open.line, Err(CUT_SHORT)));
            }
            self.held -= open.bytes.len();
            *open = OpenDocument::default();
        }
        if open.passing {
            return;
        }
        let mut from = 0;
        for (at, byte) in text.iter().enumerate() {
            match open.step(*byte, number) {
                ByteStep::Between => from = at + 1,
                ByteStep::Within => {}
                ByteStep::End => {
                    let piece = &text[from..=at];
                    self.held -= open.bytes.len();
                    match open.bytes.len() + piece.len() > MAX_DOCUMENT {
                        true => take((open.line, Err(TOO_LONG))),
                        false if open.bytes.is_empty() => take((open.line, Ok(piece))),
                        false => {
                            open.bytes.extend_from_slice(piece);
                            take((open.line, Ok(&open.bytes)));
                        }
                    }
                    // a label's document is over; what it held goes back
                    *open = OpenDocument::default();
                    from = at + 1;
                }
                ByteStep::Wrong(trouble) => {
                    take((
                        if open.depth > 0 { open.line } else { number },
                        Err(trouble),
                    ));
                    self.abandon(label);
                    return;
                }
            }
        }
        let piece = &text[from..];
        let trouble = match () {
            () if open.bytes.len() + piece.len() > MAX_DOCUMENT => TOO_LONG,
            () if self.held + piece.len() > MAX_OPEN => TOO_MANY_OPEN,
            () if open.depth == 0 => {
                self.open.remove(&label);
                return;
            }
            () => {
                open.bytes.extend_from_slice(piece);
                self.held += piece.len();
                return;
            }
        };
        take((open.line, Err(trouble)));
        self.abandon(label);
    }
}

enum ByteStep {
    Between,
    Within,
    End,
    Wrong(&'static str),
}

impl OpenDocument {
    fn step(&mut self, byte: u8, line: u64) -> ByteStep {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return ByteStep::Within;
        }
        match (byte, self.depth) {
            // RS begins a document of RFC 7464
            (b' ' | b'\t' | b'\r' | b'\n' | 0x1e, 0) => return ByteStep::Between,
            (b'{', 0) => (self.line, self.depth) = (line, 1),
            (_, 0) => return ByteStep::Wrong(NO_DOCUMENT),
            (b'{' | b'[', MAX_DEPTH..) => return ByteStep::Wrong(TOO_DEEP),
            (b'{' | b'[', _) => self.depth += 1,
            (b'}' | b']', _) => {
                self.depth -= 1;
                if self.depth == 0 {
                    return ByteStep::End;
                }
            }
            (b'"', _) => self.in_string = true,
            _ => {}
        }
        ByteStep::Within
    }
}

/// The task's number that `srun -l` put before a line: no line of JSON begins with a number and `:
/// `.
fn label(line: &[u8]) -> (Option<u64>, &[u8]) {
    let spaces = line.iter().take_while(|byte| **byte == b' ').count();
    let digits = line[spaces..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (number, after) = line[spaces..].split_at(digits);
    match after.strip_prefix(b": ") {
        Some(text) if (1..=9).contains(&digits) => {
            let number = number
                .iter()
                .fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
            (Some(number), text)
        }
        _ => (None, line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of a stream that arrives `at_once` bytes at a time.
    fn pieces(stream: &str, at_once: usize) -> Vec<(u64, Result<String, &'static str>)> {
        let mut found = Vec::new();
        let mut take = |(line, piece): StreamPiece<'_>| {
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
    fn documents_end_with_their_last_brace_however_the_stream_arrives() {
        let stream = "{\n \"a\": \"}\\\"{\"\n}\n\n{\"b\": [{}]}{\"c\": 1}\n";
        let expected = [
            good(1, "{\n \"a\": \"}\\\"{\"\n}"),
            good(5, "{\"b\": [{}]}"),
            good(5, "{\"c\": 1}"),
        ];
        for at_once in [1, 2, 7, 1000] {
            assert_eq!(pieces(stream, at_once), expected);
        }
    }

    #[test]
    fn a_document_that_is_cut_short_costs_no_other() {
        let cut = |line| (line, Err(CUT_SHORT));
        let found = pieces("{\n \"a\": {\n{\"b\": 1}\n{", 3);
        assert_eq!(found, [cut(1), good(3, "{\"b\": 1}"), cut(4)]);
    }

    #[test]
    fn text_between_documents_is_told_once_and_passed_over() {
        let none = |line| (line, Err(NO_DOCUMENT));
        let found = pieces("srun: error: x\nmore of it\n{}\n}\n[]\n{}\n", 100);
        assert_eq!(found, [none(1), good(3, "{}"), none(4), good(6, "{}")]);
    }

    #[test]
    fn lines_that_srun_labelled_are_put_together_by_their_task() {
        let stream = " 0: {\n10: {\n 0:  \"a\": 1\n10:  \"b\": 2\n 0: }\n10: }\n";
        let wanted = [good(1, "{\n \"a\": 1\n}"), good(2, "{\n \"b\": 2\n}")];
        assert_eq!(pieces(stream, 5), wanted);
    }

    #[test]
    fn what_is_too_long_or_too_deep_is_not_kept() {
        assert!(TOO_LONG.contains(&MAX_DOCUMENT.to_string()));
        assert!(TOO_DEEP.contains(&MAX_DEPTH.to_string()));
        let long = format!("{{\"a\": \"{}\"}}\n{{}}\n", "x".repeat(MAX_DOCUMENT));
        assert_eq!(pieces(&long, 4096), [(1, Err(TOO_LONG)), good(2, "{}")]);
        let lines = " \"xxxxxxxxxxxxxx\",\n".repeat(MAX_DOCUMENT / 16);
        let found = pieces(&format!("{{\n{lines}}}\n{{}}\n"), 4096);
        assert_eq!((&found[0], found.len()), (&(1, Err(TOO_LONG)), 2));
        let deep = format!("{{\"a\":{}\n{{}}\n", "[".repeat(MAX_DEPTH));
        assert_eq!(pieces(&deep, 100), [(1, Err(TOO_DEEP)), good(2, "{}")]);
        let half = "x".repeat(MAX_DOCUMENT / 2);
        let many: String = (0..100)
            .map(|task| format!("{task}: {{\"{half}\n"))
            .collect();
        let many = pieces(&many, 65536);
        let open = many.iter().filter(|piece| piece.1 == Err(TOO_MANY_OPEN));
        assert!(open.count() > 30);
    }
}
