//! No text makes the reader panic, and what it accepts is consistent.

use super::*;
use crate::file::{from_json, to_json};
use proptest::prelude::*;

/// Every refusal is one line of bounded length, findings are few and short, and every accepted text passes
/// all checks of a topology file.
fn judge(text: &str) -> Result<(), TestCaseError> {
    let one_line = |said: String| {
        prop_assert!(
            !said.chars().any(char::is_control) && said.chars().count() < 600,
            "{said:?}"
        );
        Ok(())
    };
    match super::super::read(text, provenance()) {
        Ok((topology, diagnostics)) => {
            prop_assert!(diagnostics.len() <= MAX_DIAGNOSTICS + 1);
            diagnostics
                .iter()
                .try_for_each(|said| one_line(said.to_string()))?;
            prop_assert_eq!(from_json(&to_json(&topology), provenance()), Ok(topology));
        }
        Err(bad) => one_line(bad.to_string())?,
    }
    Ok(())
}

fn machine() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![VERSION_1, VERSION_2, VERSION_3])
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>(), machine in machine()) {
        judge(&text)?;
        let quoted = text.replace(['<', '&', '"'], "");
        judge(&machine.replace("mlx4_0", &quoted))?;
        judge(&machine.replace("0000:04:00.0", &quoted))?;
        judge(&machine.replace("0x00000003", &quoted))?;
        judge(&machine.replace("Accelerator", &quoted))?;
    }

    #[test]
    fn a_file_cut_anywhere_is_refused(machine in machine(), cut: prop::sample::Index) {
        let text = &machine[..cut.index(machine.trim_end().len())];
        judge(text)?;
        prop_assert!(super::super::read(text, provenance()).is_err());
    }

    #[test]
    fn bytes_changed_anywhere_never_make_the_reader_panic(
        machine in machine(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0u8..128), 1..4),
    ) {
        let mut bytes = machine.as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        judge(&String::from_utf8(bytes).unwrap())?;
    }

    #[test]
    fn values_put_in_the_place_of_others_never_make_the_reader_panic(
        machine in machine(),
        moves in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 1..6),
    ) {
        // pieces at odd places stood between quotes: the values
        let mut pieces: Vec<&str> = machine.split('"').collect();
        let values = pieces.len() / 2;
        for (from, to) in moves {
            pieces[to.index(values) * 2 + 1] = pieces[from.index(values) * 2 + 1];
        }
        judge(&pieces.join("\""))?;
    }

    #[test]
    fn attributes_left_out_never_make_the_reader_panic(
        machine in machine(),
        gone in prop::collection::vec(any::<prop::sample::Index>(), 1..6),
    ) {
        let mut words: Vec<&str> = machine.split(' ').collect();
        for at in gone {
            // only whole attributes, so that most of the texts stay XML
            let at = at.index(words.len());
            if words[at].ends_with('"') && words[at].matches('"').count() == 2 {
                words[at] = "";
            }
        }
        judge(&words.join(" "))?;
    }

    #[test]
    fn lines_left_out_moved_or_doubled_never_make_the_reader_panic(
        machine in machine(),
        moves in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index, bool)>(), 1..6),
    ) {
        let mut lines: Vec<&str> = machine.lines().collect();
        for (from, to, keep) in moves {
            let from = from.index(lines.len());
            let line = if keep { lines[from] } else { lines.remove(from) };
            lines.insert(to.index(lines.len()), line);
        }
        judge(&lines.join("\n"))?;
    }
}
