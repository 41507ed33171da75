//! How long each function is.

use crate::source::{body, tokens};
use crate::tree::Source;

/// A function with a body.
pub struct Function {
    pub file: String,
    /// where its `fn` stands
    pub line: usize,
    pub name: String,
    /// from there to the brace that closes it
    pub lines: usize,
}

impl std::fmt::Display for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}:{}: `{}` has {} lines",
            self.file, self.line, self.name, self.lines
        )
    }
}

/// Every function of a file; one inside another counts for both.
pub fn functions(source: &Source) -> Vec<Function> {
    let tokens = tokens(&source.text);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let is_named = tokens.get(at + 1).is_some_and(|token| token.text != "(");
        if tokens[at].text != "fn" || !is_named {
            continue;
        }
        let mut depth = 0usize;
        let opens = tokens[at..].iter().position(|token| {
            match token.text {
                "(" | "[" => depth += 1,
                ")" | "]" => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && ["{", ";"].contains(&token.text)
        });
        let Some(opens) = opens
            .map(|opens| at + opens)
            .filter(|opens| tokens[*opens].text == "{")
        else {
            continue;
        };
        let closes = tokens[opens + body(&tokens[opens..]) - 1];
        found.push(Function {
            file: source.file.clone(),
            line: tokens[at].line,
            name: tokens[at + 1].text.to_string(),
            lines: closes.line - tokens[at].line + 1,
        });
    }
    found
}
