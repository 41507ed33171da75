//! What a picture says of the devices, for readers that know nothing of the machine.

use super::*;
use nic_placement_core::topology::PortState;

fn of_model(name: &str) -> Seen {
    seen(&drawn(&platform::model(name).unwrap(), BTreeMap::new()))
}

fn says(seen: &Seen, text: &str) -> bool {
    seen.texts.iter().any(|(written, _)| written.contains(text))
}

#[test]
fn gpus_stand_in_the_order_of_their_numbers() {
    for model in platform::MODELS {
        let seen = of_model(model.name);
        let number = |(text, area): &(String, Area)| {
            text.strip_prefix("GPU ")?
                .parse::<u32>()
                .ok()
                .map(|number| (area[1] as u32, number))
        };
        let mut found: Vec<(u32, u32)> = seen.texts.iter().filter_map(number).collect();
        found.sort_unstable();
        assert!(
            found.is_sorted_by_key(|(_, number)| *number),
            "{}: {found:?}",
            model.name
        );
    }
}

#[test]
fn nics_that_libfabric_chooses_say_so_and_look_like_those_that_work() {
    for (name, nics) in [("frontier", 4), ("aws-p5", 32)] {
        let seen = of_model(name);
        assert_eq!(
            [boxes(&seen, &["nic"]), boxes(&seen, &["out", "down"])],
            [nics, 0],
            "{name}"
        );
        assert_eq!(
            seen.texts
                .iter()
                .filter(|(text, _)| text.ends_with(" · libfabric chooses"))
                .count(),
            nics,
            "{name}"
        );
    }
}

#[test]
fn a_shared_nic_says_what_each_gpu_has_of_it() {
    let mut topology = platform::model("dgx-h100").unwrap();
    topology
        .nics
        .retain(|nic| ["mlx5_0", "mlx5_6"].contains(&nic.name.as_str()));
    let seen = seen(&drawn(&topology, BTreeMap::new()));
    assert!(says(&seen, "4 GPUs, 100 Gb/s each"), "{:?}", seen.texts);
    assert!(
        !says(&of_model("dgx-h100"), " GPUs, "),
        "no NIC there is shared"
    );
}

#[test]
fn what_is_said_of_a_place_stands_beside_its_name_and_not_above_a_nic() {
    let seen = of_model("dgx-h100");
    let nics = seen
        .boxes
        .iter()
        .filter(|(class, _)| class == "nic")
        .map(|(_, area)| area[0]);
    let left = nics.fold(f64::MAX, f64::min);
    let facts = seen
        .texts
        .iter()
        .filter(|(text, _)| text.starts_with("cpus ") || text.contains("GT/s"));
    let ends: Vec<f64> = facts.map(|(_, area)| area[2]).collect();
    assert!(
        ends.len() == 10 && ends.iter().all(|&end| end < left),
        "{ends:?}"
    );
}

#[test]
fn paths_that_a_model_states_are_marked_and_those_of_a_tree_are_not() {
    let stated = of_model("azure-nd96isr-h100-v5");
    for text in [
        "one PCIe switch*",
        "PIX: at most one PCIe switch*",
        "* stated by built-in model `azure-nd96isr-h100-v5`",
    ] {
        assert!(says(&stated, text), "{text}: {:?}", stated.texts);
    }
    let seen_by_bus = of_model("dgx-h100");
    assert!(!says(&seen_by_bus, "*") && !says(&seen_by_bus, "stated"));
}

#[test]
fn a_port_that_would_be_used_and_is_down_is_the_alarm() {
    let mut topology = platform::model("dgx-h100").unwrap();
    topology.nics[0].ports[0].state = PortState::Down;
    let seen = seen(&drawn(&topology, BTreeMap::new()));
    assert_eq!(boxes(&seen, &["down"]), 1);
    assert!(seen.texts.iter().any(|(text, _)| text == "port down"));
    assert!(
        says(&seen, "management, port down"),
        "the other one is down too, and not missed"
    );
}

#[test]
fn a_model_that_all_gpus_have_stands_in_no_box() {
    assert!(
        !says(&of_model("dgx-h100"), "NVIDIA H100"),
        "the headline of the tool says it"
    );
    let mut topology = platform::model("dgx-h100").unwrap();
    topology.gpus[0].model = Some("another".to_string());
    assert!(says(
        &seen(&drawn(&topology, BTreeMap::new())),
        "NVIDIA H100"
    ));
}
