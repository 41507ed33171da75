//! The NICs that may not be chosen, those with one reason together.
#![forbid(unsafe_code)]

use super::page::{Page, Text};
use nic_placement_core::placement::Excluded;

pub(super) fn lines(excluded: &[Excluded], page: &mut Page) {
    let mut reasons: Vec<&str> = Vec::new();
    for Excluded { why, .. } in excluded {
        if !reasons.contains(&why.as_str()) {
            reasons.push(why);
        }
    }
    for reason in reasons {
        let names = excluded.iter().filter(|excluded| excluded.why == reason).map(|excluded| {
            let port = excluded.port.map(|port| format!(":{port}")).unwrap_or_default();
            Text::from(format_args!("{}{port}", excluded.name))
        });
        page.item("left out: ", Text::joined(names, ", ").then(": ").then(reason));
    }
}
