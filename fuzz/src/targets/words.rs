//! The option, `SLURM_NIC_PLACEMENT` and `default=`, one on each line.
#![forbid(unsafe_code)]

use super::held;
use nic_placement_core::config::{Admin, Words, replaces_the_allocations};
use nic_placement_core::wish::{Switch, Wish};

pub fn run(data: &[u8]) {
    let text = held::text(data);
    let lines: Vec<&str> = text.split('\n').collect();
    let mut parsed = Vec::new();
    for line in lines.iter().take(3) {
        match Words::parse(line) {
            Ok(words) => {
                assert!(line.len() <= 1024, "longer ones are refused");
                // no words change nothing
                assert_eq!(Words::default().overlaid(&words), words);
                assert_eq!(words.overlaid(&Words::default()), words);
                parsed.push(words);
            }
            Err(bad) => held::message(&bad.to_string()),
        }
    }
    let none = Words::default();
    let at = |place: usize| parsed.get(place);
    for (default, variable, option) in [
        (at(0), at(1), at(2)),
        (None, at(0), at(1)),
        (None, at(1), at(0)),
        (at(0), None, None),
    ] {
        let admin = Admin {
            default: default.unwrap_or(&none).clone(),
            ..Admin::default()
        };
        let wish = Wish::new(admin, variable, option);
        assert!(wish.enabled || !wish.observe, "off is not observed");
        assert_eq!(wish.by_user, variable.or(option).is_some());
        let nearest = option.or(variable).or(default).unwrap_or(&none);
        match nearest.policy {
            Some(Switch::Off) => assert!(!wish.enabled),
            Some(Switch::On(policy)) => assert!(wish.enabled && wish.policy == policy),
            _ => {}
        }
        assert!(nearest.strictness.is_none_or(|of| of == wish.strictness));
    }
    let variable = lines.first().copied();
    assert!(!replaces_the_allocations(variable, variable));
}
