//! A stream of reports, as `audit` reads it.
#![forbid(unsafe_code)]

use super::held;
use nic_placement_fleet::audit::Audit;
use nic_placement_fleet::audit::kinds::Bad;
use nic_placement_fleet::audit::stream::{self, StreamPiece};
use std::io::BufReader;

type Found = Vec<(u64, Result<Vec<u8>, String>)>;

/// The pieces of a stream that arrives so many bytes at a time.
fn pieces(stream: &[u8], at_once: usize) -> Found {
    let mut found = Vec::new();
    let mut take = |(line, piece): StreamPiece<'_>| {
        found.push((line, piece.map(<[u8]>::to_vec).map_err(str::to_string)));
    };
    stream::read(BufReader::with_capacity(at_once, stream), &mut take).expect("memory can be read");
    found
}

pub fn run(data: &[u8]) {
    let whole = pieces(data, data.len().max(1));
    if held::has_turn(data, 0, 4) {
        assert_eq!(
            whole,
            pieces(data, 7),
            "it does not matter how a stream arrives"
        );
    }
    let lines = data.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    let mut audit = Audit::default();
    let mut bad = Vec::new();
    for (line, piece) in &whole {
        assert!((1..=lines).contains(line), "line {line} of {lines}");
        if let Err(why) = piece.clone().and_then(|document| audit.add(&document)) {
            held::message(&why);
            bad.push(Bad {
                input: "-".into(),
                line: Some(*line),
                why,
            });
        }
    }
    let text = audit.finish().to_json(bad.len(), &bad);
    if held::has_turn(data, 1, 4) {
        let mut backwards = Audit::default();
        for (_, piece) in whole.iter().rev() {
            let _ = piece.clone().and_then(|document| backwards.add(&document));
        }
        let backwards = backwards.finish().to_json(bad.len(), &bad);
        assert_eq!(text, backwards, "the order of reports does not matter");
    }
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert!(value["kinds"].is_array());
}
