//! Rust source as tokens and as the paths that it writes: as much of the language as the architecture test needs.

/// An identifier or a punctuation character, and the line it stands on.
#[derive(Clone, Copy, PartialEq)]
pub struct Token<'a> {
    pub text: &'a str,
    pub line: usize,
}

/// Splits source into tokens; comments, literals and lifetimes are left out.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let bytes = source.as_bytes();
    let is_word = |at: usize| {
        bytes
            .get(at)
            .is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80)
    };
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'/' if source[at..].starts_with("//") => {
                at += source[at..].find('\n').unwrap_or(source.len() - at)
            }
            b'/' if source[at..].starts_with("/*") => at += block_comment(&source[at..]),
            b'"' => at += quoted(&source[at..]),
            b'\'' => at += character_or_lifetime(&source[at..]),
            _ if is_word(at) => {
                while is_word(at) {
                    at += 1;
                }
                let word = &source[start..at];
                let raw = ["r", "br", "cr"].contains(&word);
                if raw && raw_string(&source[at..]).is_some() {
                    at += raw_string(&source[at..]).unwrap_or(0);
                } else if !(["b", "c"].contains(&word) && bytes.get(at) == Some(&b'"')) {
                    found.push(Token { text: word, line });
                }
            }
            byte => {
                at += 1;
                if !byte.is_ascii_whitespace() {
                    found.push(Token {
                        text: &source[start..at],
                        line,
                    });
                }
            }
        }
        line += source[start..at].matches('\n').count();
    }
    found
}

/// The length of a block comment, which may hold others.
fn block_comment(source: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < source.len() {
        let rest = &source.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    source.len()
}

/// The length of a string literal.
fn quoted(source: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in source.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    source.len()
}

/// The length of a raw string behind its `r`, if this is one.
fn raw_string(source: &str) -> Option<usize> {
    let hashes = source.bytes().take_while(|byte| *byte == b'#').count();
    if source.as_bytes().get(hashes) != Some(&b'"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    Some(
        source[hashes + 1..]
            .find(&end)
            .map_or(source.len(), |at| hashes + 1 + at + end.len()),
    )
}

/// The length of `'x'`, `'\n'`, `'\u{1F600}'` or of a lifetime.
fn character_or_lifetime(source: &str) -> usize {
    let mut characters = source.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), _) => source[3..].find('\'').map_or(source.len(), |at| at + 4),
        (Some(_), Some((at, '\''))) => at + 1,
        _ => {
            1 + source[1..]
                .find(|c: char| !c.is_alphanumeric() && c != '_')
                .unwrap_or(source.len() - 1)
        }
    }
}

/// Does `pattern` stand at the head of `tokens`?
pub fn starts(tokens: &[Token], pattern: &[&str]) -> bool {
    tokens.len() >= pattern.len()
        && tokens
            .iter()
            .zip(pattern)
            .all(|(token, text)| token.text == *text)
}

/// The number of tokens of the item at the head, up to its `;` or to the brace that closes its body.
fn item_length(tokens: &[Token]) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                let an_attribute = token.text == "]" || token.text == ")";
                if depth == 0 && !an_attribute {
                    return at + 1;
                }
            }
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

const TEST_ONLY: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];

/// Removes the items that only tests see: these may build machines, write files, measure.  Returns the names of the removed
/// modules that have a file of their own.
pub fn without_tests<'a>(tokens: &[Token<'a>]) -> (Vec<Token<'a>>, Vec<&'a str>) {
    let (mut kept, mut modules, mut at) = (Vec::new(), Vec::new(), 0);
    while at < tokens.len() {
        if starts(&tokens[at..], &TEST_ONLY) {
            at += TEST_ONLY.len();
            let item = &tokens[at..at + item_length(&tokens[at..])];
            if let Some(module) = item
                .windows(3)
                .find(|three| three[0].text == "mod" && three[2].text == ";")
            {
                modules.push(module[1].text);
            }
            at += item.len();
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    (kept, modules)
}

/// The number of tokens of the block that opens at the head.
pub fn body(tokens: &[Token]) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// A path as it is written, `use` groups spelled out.
pub struct WrittenPath<'a> {
    pub segments: Vec<&'a str>,
    pub line: usize,
    /// the position of its first token; in a group that of the last segments
    pub at: usize,
}

pub fn paths<'a>(tokens: &[Token<'a>]) -> Vec<WrittenPath<'a>> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        if starts(&tokens[at..], &["pub", "(", "crate", ")"]) {
            // a visibility uses nothing
            at += 4;
        } else if is_ident(tokens[at].text) {
            at += read_path(tokens, at, &[], &mut found);
        } else {
            at += 1;
        }
    }
    found
}

fn is_ident(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Reads the path that begins at `start`; the number of tokens that it takes.
fn read_path<'a>(
    tokens: &[Token<'a>],
    start: usize,
    before: &[&'a str],
    found: &mut Vec<WrittenPath<'a>>,
) -> usize {
    let mut segments = before.to_vec();
    segments.push(tokens[start].text);
    let mut at = start + 1;
    while starts(&tokens[at..], &[":", ":"]) {
        match tokens.get(at + 2) {
            Some(next) if is_ident(next.text) => {
                segments.push(next.text);
                at += 3;
            }
            Some(group) if group.text == "{" => {
                at += 3;
                while at < tokens.len() && tokens[at].text != "}" {
                    at += match tokens[at].text {
                        // the alias of the name before it
                        "as" => 2,
                        text if is_ident(text) => read_path(tokens, at, &segments, found),
                        _ => 1,
                    };
                }
                return at + 1 - start;
            }
            _ => break,
        }
    }
    found.push(WrittenPath {
        segments,
        line: tokens[start].line,
        at: start,
    });
    at - start
}

/// What one `use` brings in, or one entry of its group.
pub struct Import<'a> {
    /// how it is called here; `*` for all of a module
    pub name: &'a str,
    pub segments: Vec<&'a str>,
    pub public: bool,
    pub line: usize,
}

/// What is brought in, and the tokens that are left without the `use`s.
pub fn imports<'a>(tokens: &[Token<'a>]) -> (Vec<Import<'a>>, Vec<Token<'a>>) {
    let (mut found, mut rest, mut at) = (Vec::new(), Vec::<Token>::new(), 0);
    while at < tokens.len() {
        // `impl Trait + use<'a>` brings in nothing
        if tokens[at].text == "use" && tokens.get(at + 1).is_some_and(|next| next.text != "<") {
            let restricted = rest
                .len()
                .checked_sub(4)
                .is_some_and(|from| starts(&rest[from..], &["pub", "("]));
            let public = restricted || rest.last().is_some_and(|token| token.text == "pub");
            at += 1 + read_use(&tokens[at + 1..], &[], public, &mut found);
        } else {
            rest.push(tokens[at]);
            at += 1;
        }
    }
    (found, rest)
}

/// Reads the tree of a `use` at the head of `tokens`; the number of tokens that it takes.
fn read_use<'a>(
    tokens: &[Token<'a>],
    before: &[&'a str],
    public: bool,
    found: &mut Vec<Import<'a>>,
) -> usize {
    let (mut segments, mut at) = (before.to_vec(), 0);
    while let Some(token) = tokens.get(at) {
        match token.text {
            "{" => {
                at += 1;
                while at < tokens.len() && tokens[at].text != "}" {
                    at += match tokens[at].text {
                        "," => 1,
                        _ => read_use(&tokens[at..], &segments, public, found).max(1),
                    };
                }
                return at + 1;
            }
            ":" => at += 1,
            "as" => at += 2,
            text if is_ident(text) || text == "*" => {
                segments.push(text);
                at += 1;
            }
            _ => break,
        }
    }
    let renamed = at.checked_sub(2).filter(|at| tokens[*at].text == "as");
    if segments.len() > 1 && segments.last() == Some(&"self") {
        segments.pop();
    }
    if let (Some(&last), Some(first)) = (segments.last(), tokens.first()) {
        let name = renamed.map_or(last, |at| tokens[at + 1].text);
        found.push(Import {
            name,
            segments,
            public,
            line: first.line,
        });
    }
    at
}
