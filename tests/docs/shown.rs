//! Commands that a document shows with what they print.

/// The `console` blocks of a document: each command with the lines shown below it.
pub fn shown_commands(text: &str) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match (inside, line) {
            (false, "```console") => inside = true,
            (true, "```") => inside = false,
            (true, line) => match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push((command.to_string(), Vec::new())),
                (None, Some((_, lines))) => lines.push(line.to_string()),
                (None, None) => panic!("no command before: {line}"),
            },
            _ => {}
        }
    }
    commands
}

/// `…` or `...` alone stands for any lines, and `…` at the end of a line for the rest of it.
pub fn shows(shown: &[String], printed: &[&str]) -> bool {
    match (shown.split_first(), printed.split_first()) {
        (None, first) => first.is_none(),
        (Some((dots, rest)), _) if ["…", "..."].contains(&dots.trim()) => {
            (0..=printed.len()).any(|skipped| shows(rest, &printed[skipped..]))
        }
        (Some((line, rest)), Some((first, others))) => {
            let same = match line.strip_suffix('…') {
                Some(beginning) => first.starts_with(beginning.trim_end()),
                None => line.trim_end() == first.trim_end(),
            };
            same && shows(rest, others)
        }
        (Some(_), None) => false,
    }
}
