//! The file of srun's `--multi-prog`, which root reads as its user wrote it.
#![forbid(unsafe_code)]

use super::work::Work;
use nic_placement_core::step::program::binder_of_ranks;
use std::hint::black_box;

pub fn run(data: &[u8]) {
    let found = binder_of_ranks(data);
    let after = |before: &[u8], line: &str| [before, line.as_bytes()].concat();
    if let Some(binder) = found {
        let letters: Vec<u8> = data
            .iter()
            .copied()
            .filter(|byte| !b"'\\\n".contains(byte))
            .collect();
        let mut places = letters.windows(binder.len());
        assert!(
            places.any(|word| word == binder.as_bytes()),
            "`{binder}` is nowhere"
        );
    }
    match found {
        // what is added would be a part of the last line
        _ if data.ends_with(b"\\") => {}
        Some(_) => assert_eq!(
            binder_of_ranks(&after(data, "\n5 numactl")),
            found,
            "the first one counts"
        ),
        None => {
            assert_eq!(
                binder_of_ranks(&after(data, "\n5 /usr/bin/taskset 0x1")),
                Some("taskset")
            );
            assert_eq!(binder_of_ranks(&after(data, "\n# 5 taskset\n\n")), None);
            assert_eq!(binder_of_ranks(&after(data, "\n5 ./train taskset")), None);
        }
    }
    // a comment has all of its line, and so has a program's last argument
    for before in ["# ", "0 ./train a", "0 ./train \\\n"] {
        assert_eq!(
            binder_of_ranks(&[before.as_bytes(), data].concat()),
            binder_of_ranks(behind_a_line(data))
        );
    }
}

/// What follows the first line and those in which it goes on.
fn behind_a_line(data: &[u8]) -> &[u8] {
    let is_end = |end: &usize| data[*end] == b'\n' && !data[..*end].ends_with(b"\\");
    (0..data.len())
        .find(is_end)
        .map_or(b"", |end| &data[end + 1..])
}

/// One pass of it.
pub fn work(data: &[u8]) -> Work<'_> {
    Box::new(move || {
        black_box(binder_of_ranks(data));
    })
}
