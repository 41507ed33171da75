//! A text of a program that knows a fabric's cables, as `fabric` reads it.
#![forbid(unsafe_code)]

use super::held;
use nic_placement_fleet::fabric::cabling::{Cabling, SwitchPort};
use nic_placement_fleet::fabric::rails::FabricRails;
use nic_placement_fleet::fabric::sources::read;
use std::collections::BTreeMap;

pub fn run(data: &[u8]) {
    let text = held::text(data);
    let mut cabling = Cabling::default();
    if let Err(why) = read("n1.txt", &text, &mut cabling) {
        held::message(&why);
        assert_eq!(cabling, Cabling::default(), "nothing was added");
        return;
    }
    assert!(cabling.notes.len() <= 21, "{} notes", cabling.notes.len());
    cabling.notes.iter().for_each(|note| held::message(note));
    let is_end = |end: &SwitchPort| {
        held::tidy(&end.port);
        assert!(
            cabling.switches.contains_key(&end.switch),
            "a port of a known switch"
        );
    };
    for cable in cabling.cables.iter().chain(&cabling.unnamed) {
        let nic = &cable.nic;
        [&nic.node, &nic.nic]
            .into_iter()
            .for_each(|name| held::tidy(name));
        assert!(nic.guid.as_ref().is_none_or(|guid| guid.len() == 16));
        cable.to.iter().for_each(is_end);
    }
    assert!(
        cabling
            .cables
            .iter()
            .all(|cable| !cable.nic.node.contains('.'))
    );
    for (one, other) in &cabling.trunks {
        is_end(one);
        is_end(other);
        assert!(one <= other, "each once, the smaller end first");
    }
    cabling
        .switches
        .iter()
        .for_each(|(key, name)| [key, name].into_iter().for_each(|name| held::tidy(name)));
    let rails = FabricRails::of(&cabling, &BTreeMap::new());
    rails.notes.iter().for_each(|note| held::message(note));
    let ports: usize = rails.nodes.iter().map(|node| node.nics.len()).sum();
    assert!(
        rails
            .rails
            .iter()
            .all(|rail| rail.right <= rail.ports && rail.ports <= ports)
    );
    assert!(serde_json::from_str::<serde_json::Value>(&rails.to_json(&[])).is_ok());
    let mut again = cabling.clone();
    read("n1.txt", &text, &mut again).expect("it was read");
    again.notes.truncate(cabling.notes.len());
    assert_eq!(again, cabling, "a second reading adds nothing");
}
