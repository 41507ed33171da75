//! The properties of the file: no text makes the reader panic, and what it accepts is written and read back
//! the same.

use super::*;
use crate::Pu;
use proptest::prelude::*;

/// Every refusal is one line of bounded length, and every accepted text is read back the same.
fn judge(text: &str) -> Result<(), TestCaseError> {
    match read(text) {
        Ok(topology) => {
            let written = to_json(&topology);
            prop_assert_eq!(read(&written), Ok(topology));
        }
        Err(bad) => {
            let message = bad.to_string();
            prop_assert!(
                !message.chars().any(char::is_control) && message.chars().count() < 600,
                "{message:?}"
            );
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in any::<String>()) {
        judge(&text)?;
        judge(&SAMPLE.replace("sample-1", &text))?;
        judge(&SAMPLE.replace("name", &text))?;
    }

    #[test]
    fn a_file_cut_anywhere_is_refused(length in 0..SAMPLE.len() - 2) {
        judge(&SAMPLE[..length])?;
        prop_assert!(read(&SAMPLE[..length]).is_err());
    }

    #[test]
    fn bytes_changed_anywhere_never_make_the_reader_panic(
        changes in prop::collection::vec((0..SAMPLE.len(), 0u8..128), 1..4)
    ) {
        let mut bytes = SAMPLE.as_bytes().to_vec();
        changes.into_iter().for_each(|(at, byte)| bytes[at] = byte);
        judge(&String::from_utf8(bytes).unwrap())?;
    }

    #[test]
    fn a_value_put_in_the_place_of_another_never_makes_the_reader_panic(from: usize, to: usize) {
        // pieces at odd places stood between quotes: keys and values alike
        let mut pieces: Vec<&str> = SAMPLE.split('"').collect();
        let odd = pieces.len() / 2;
        pieces[from % odd * 2 + 1] = pieces[to % odd * 2 + 1];
        judge(&pieces.join("\""))?;
    }

    #[test]
    fn lines_left_out_or_moved_never_make_the_reader_panic(from: usize, to: usize, keep: bool) {
        let mut lines: Vec<&str> = SAMPLE.lines().collect();
        let from = from % lines.len();
        let line = if keep { lines[from] } else { lines.remove(from) };
        lines.insert(to % lines.len(), line);
        judge(&lines.join("\n"))?;
    }

    #[test]
    fn cores_of_any_numbering_are_read_back_as_they_were(
        cores in prop::collection::btree_map((0u32..2, 0u32..12), 1usize..3, 0..20),
        shuffle in any::<prop::sample::Index>(), stride in 1u32..40,
    ) {
        let threads: usize = cores.values().sum();
        // a stride without a common factor deals out each number once
        let deal = |nth: usize| ((nth + shuffle.index(97)) as u32 * stride) % 97;
        let ids = cores.iter().flat_map(|(&id, &threads)| std::iter::repeat_n(id, threads));
        let mut topology = Topology::empty("cores", Provenance::File("sample.json".to_string()));
        topology.pus = ids.zip((0..threads).map(deal))
            .map(|((package, core), os_index)| Pu { os_index, package, core })
            .collect();
        topology.sort();
        prop_assert_eq!(read(&to_json(&topology)), Ok(topology));
    }
}
