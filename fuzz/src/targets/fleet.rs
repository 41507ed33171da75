//! A stream of reports, as `audit` reads it, and texts of ibnetdiscover and lldpctl.
#![forbid(unsafe_code)]

use super::held;
use nic_placement_fleet::audit::Audit;
use nic_placement_fleet::audit::kinds::Bad;
use nic_placement_fleet::audit::report::to_json;
use nic_placement_fleet::audit::stream::{self, StreamPiece};
use nic_placement_fleet::fabric::cabling::{Cabling, SwitchPort};
use nic_placement_fleet::fabric::rails::FabricRails;
use nic_placement_fleet::fabric::sources::read;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::BufReader;

/// The pieces of a stream that arrives so many bytes at a time.
fn pieces(stream: &[u8], at_once: usize) -> Vec<(u64, Result<Vec<u8>, String>)> {
    let mut found = Vec::new();
    let mut take = |((_, line), piece): StreamPiece<'_>| {
        found.push((line, piece.map(<[u8]>::to_vec).map_err(str::to_string)));
    };
    stream::read(BufReader::with_capacity(at_once, stream), &mut take).expect("memory can be read");
    found
}

pub fn audit(data: &[u8]) {
    let whole = pieces(data, data.len().max(1));
    assert_eq!(whole, pieces(data, 7), "it arrives otherwise");
    let lines = data.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    let (mut audit, mut backwards) = (Audit::default(), Audit::default());
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
    for (_, piece) in whole.iter().rev() {
        let _ = piece.clone().and_then(|document| backwards.add(&document));
    }
    let told = |audit: Audit| {
        let mut audited = audit.finish();
        audited.bad.clone_from(&bad);
        to_json(&audited)
    };
    let text = told(audit);
    assert_eq!(text, told(backwards), "the order of reports matters");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert!(value["kinds"].is_array());
}

pub fn fabric(data: &[u8]) {
    let text = held::text(data);
    let mut cabling = Cabling::default();
    if let Err(why) = read("n1.txt", &text, &mut cabling) {
        held::message(&why);
        return assert_eq!(cabling, Cabling::default(), "nothing was added");
    }
    cabling.notes.iter().for_each(|note| held::message(note));
    let is_end = |end: &SwitchPort| {
        held::tidy(&end.port);
        assert!(cabling.switches.contains_key(&end.switch), "unknown switch");
    };
    for cable in &cabling.cables {
        let nic = &cable.nic;
        held::tidy(&nic.node);
        held::tidy(&nic.nic);
        assert!(nic.guid.as_ref().is_none_or(|guid| guid.len() == 16));
        is_end(&cable.to);
    }
    for (one, other) in &cabling.trunks {
        let is_switch = |switch| cabling.switches.contains_key(switch);
        assert!(is_switch(one) && is_switch(other), "unknown switch");
        assert!(one <= other, "each once, the smaller end first");
    }
    for (key, name) in &cabling.switches {
        held::tidy(key);
        held::tidy(name);
    }
    let rails = FabricRails::of(&cabling, &BTreeMap::new());
    rails.notes.iter().for_each(|note| held::message(note));
    let ports = rails.cables.len();
    for rail in &rails.rails {
        assert!(rail.right <= rail.ports && rail.ports <= ports);
    }
    assert!(serde_json::from_str::<Value>(&to_json(&rails)).is_ok());
    let mut again = cabling.clone();
    read("n1.txt", &text, &mut again).expect("it was read");
    again.notes.truncate(cabling.notes.len());
    assert_eq!(again, cabling, "a second reading adds nothing");
}
