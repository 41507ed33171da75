//! What a picture says of the devices, for readers that know nothing of the machine.

use super::*;
use nic_placement_core::topology::PortState;

fn of_model(name: &str) -> Seen {
    seen(&drawn(&platform::model(name).unwrap()))
}

fn says(seen: &Seen, text: &str) -> bool {
    seen.texts.iter().any(|(written, _)| written.contains(text))
}

#[test]
fn gpus_stand_in_the_order_of_their_numbers_and_what_is_said_of_a_place_beside_its_name() {
    for model in platform::MODELS {
        let seen = of_model(model.name);
        let number = |(text, area): &(String, Area)| {
            let number = text.strip_prefix("GPU ")?.parse::<u32>();
            Some((area[1] as u32, number.ok()?))
        };
        let mut found: Vec<(u32, u32)> = seen.texts.iter().filter_map(number).collect();
        found.sort_unstable();
        let is_sorted = found.is_sorted_by_key(|(_, number)| *number);
        assert!(is_sorted, "{}: {found:?}", model.name);
    }
    let seen = of_model("dgx-h100");
    let nics = seen.boxes.iter().filter(|(class, _)| class == "nic");
    let left = nics.map(|(_, area)| area[0]).fold(f64::MAX, f64::min);
    let is_fact = |text: &str| text.starts_with("cpus ") || text.contains("GT/s");
    let facts = seen.texts.iter().filter(|(text, _)| is_fact(text));
    let ends: Vec<f64> = facts.map(|(_, area)| area[2]).collect();
    assert!(ends.len() == 10 && ends.iter().all(|&end| end < left));
}

#[test]
fn nics_that_libfabric_chooses_say_so_and_look_like_those_that_work() {
    for (name, nics) in [("frontier", 4), ("aws-p5", 32)] {
        let seen = of_model(name);
        let counts = [boxes(&seen, &["nic"]), boxes(&seen, &["out", "down"])];
        assert_eq!(counts, [nics, 0], "{name}");
        let texts = seen.texts.iter().map(|(text, _)| text);
        let left = texts.filter(|text| *text == "libfabric chooses");
        assert_eq!(left.count(), nics, "{name}");
    }
}

#[test]
fn paths_that_a_model_states_are_marked_and_the_gpus_model_is_told_where_they_differ() {
    let stated = of_model("azure-nd96isr-h100-v5");
    let built_in = "built-in model `azure-nd96isr-h100-v5`";
    for text in ["one PCIe switch*", "PIX: at most one", built_in] {
        assert!(says(&stated, text), "{text}: {:?}", stated.texts);
    }
    let seen_by_bus = of_model("dgx-h100");
    assert!(!says(&seen_by_bus, "*") && !says(&seen_by_bus, "stated"));
    // the headline of the tool says it
    assert!(!says(&of_model("dgx-h100"), "NVIDIA H100"));
    let mut topology = platform::model("dgx-h100").unwrap();
    topology.gpus[0].model = Some("another".to_string());
    assert!(says(&seen(&drawn(&topology)), "NVIDIA H100"));
}

#[test]
fn a_port_that_would_be_used_and_is_down_is_the_alarm() {
    let mut topology = platform::model("dgx-h100").unwrap();
    topology.nics[0].ports[0].state = PortState::Down;
    let seen = seen(&drawn(&topology));
    assert_eq!(boxes(&seen, &["down"]), 1);
    assert!(seen.texts.iter().any(|(text, _)| text == "port down"));
    // the other one is down too, and not missed
    assert!(says(&seen, "management, port down"));
}
