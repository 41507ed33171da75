//! Each format as its program reads it: the rules are those of the files that `Format` names, written anew.

use super::*;
use crate::policy;
use crate::wish::Wish;
use nic_placement_node::platform;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

fn map_of(machine: &str, format: Format) -> Result<String, NoMap> {
    let topology = platform::model(machine).unwrap();
    let node = policy::map(&topology, &Wish::default());
    let gpus: Vec<GpuIndex> = topology.gpu_indices().collect();
    write(
        format,
        Subject {
            topology: &topology,
            node: &node,
            gpus: &gpus,
        },
    )
}

/// The NICs of each GPU of a machine, by our own map.
fn expected(machine: &str) -> Vec<Vec<String>> {
    let topology = platform::model(machine).unwrap();
    let node = policy::map(&topology, &Wish::default());
    node.gpus
        .iter()
        .map(|gpu| {
            names(gpu.choices.iter().map(|choice| node.rail(choice.rail)))
                .into_iter()
                .map(String::from)
                .collect()
        })
        .collect()
}

/// SGLang: a JSON object whose keys are digits and whose values are texts; names split at commas, none twice; a GPU that is
/// not there ends the server.
fn sglangs_reading(text: &str, gpu: usize) -> Result<Vec<String>, String> {
    let parsed: Value = serde_json::from_str(text.trim()).map_err(|error| error.to_string())?;
    let mut devices: BTreeMap<usize, String> = BTreeMap::new();
    for (key, value) in parsed.as_object().ok_or("no object")? {
        let key = key.parse().map_err(|_| format!("key `{key}`"))?;
        devices.insert(key, value.as_str().ok_or("value")?.trim().to_string());
    }
    let list = devices
        .get(&gpu)
        .ok_or(format!("no devices for GPU {gpu}"))?;
    let names: Vec<String> = list
        .split(',')
        .map(|name| name.trim().to_string())
        .collect();
    let once: BTreeSet<&String> = names.iter().collect();
    if once.len() == names.len() {
        Ok(names)
    } else {
        Err("duplicate".to_string())
    }
}

#[test]
fn sglang_finds_each_gpus_nics() {
    for machine in platform::names() {
        let expected = expected(machine);
        match map_of(machine, Format::Sglang) {
            Ok(text) => {
                for (gpu, nics) in expected.iter().enumerate() {
                    assert_eq!(sglangs_reading(&text, gpu).as_ref(), Ok(nics), "{machine}");
                }
            }
            Err(why) => assert!(expected.iter().any(Vec::is_empty), "{machine}: {why}"),
        }
    }
    assert!(
        map_of("dgx-h100", Format::Sglang)
            .unwrap()
            .starts_with(r#"{"0":"mlx5_0","1":"mlx5_3","2":"mlx5_4","#)
    );
}

#[test]
fn mooncake_finds_two_lists_for_each_gpu_and_numa_node_with_every_good_nic_in_one_of_them() {
    let topology = platform::model("dgx-h100").unwrap();
    let node = policy::map(&topology, &Wish::default());
    let parsed: Value =
        serde_json::from_str(&map_of("dgx-h100", Format::Mooncake).unwrap()).unwrap();
    let parsed = parsed.as_object().unwrap();
    assert_eq!(parsed.len(), 2 + 8);
    for (name, lists) in parsed {
        let lists = lists.as_array().unwrap();
        assert_eq!(lists.len(), 2, "{name}: anything else is malformed to it");
        let all: Vec<&str> = lists
            .iter()
            .flat_map(|list| list.as_array().unwrap())
            .map(|nic| nic.as_str().unwrap())
            .collect();
        let once: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(
            (once.len(), all.len()),
            (node.rails.len(), node.rails.len()),
            "{name}"
        );
    }
    assert_eq!(parsed["cuda:4"][0], serde_json::json!(["mlx5_6"]));
    assert_eq!(
        parsed["cpu:1"][0],
        serde_json::json!(["mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11"])
    );
}

#[test]
fn mooncake_finds_amds_gpus_by_the_names_that_its_builds_give_them() {
    let nics = expected("mi300x-8");
    let parsed: Value =
        serde_json::from_str(&map_of("mi300x-8", Format::Mooncake).unwrap()).unwrap();
    for (gpu, nics) in nics.iter().enumerate() {
        for word in ["hip", "rocm"] {
            assert_eq!(
                parsed[format!("{word}:{gpu}")][0],
                serde_json::json!(nics),
                "{word}:{gpu}"
            );
        }
    }
    assert!(
        parsed
            .as_object()
            .unwrap()
            .keys()
            .all(|name| !name.starts_with("cuda"))
    );
}

#[test]
fn a_map_that_would_lack_a_gpu_is_refused() {
    let topology = platform::model("dgx-h100").unwrap();
    let mut node = policy::map(&topology, &Wish::default());
    node.gpus[3].choices.clear();
    let gpus: Vec<GpuIndex> = topology.gpu_indices().collect();
    let subject = Subject {
        topology: &topology,
        node: &node,
        gpus: &gpus,
    };
    for format in [Format::Sglang, Format::Mooncake] {
        assert_eq!(
            write(format, subject).unwrap_err().to_string(),
            "GPU 3 has no NIC, and a map without one of the GPUs is refused"
        );
    }
    let json: Value = serde_json::from_str(&write(Format::Json, subject).unwrap()).unwrap();
    assert_eq!(json["gpus"][3]["nics"], serde_json::json!([]));
}

#[test]
fn a_program_that_sees_some_gpus_counts_them_from_0() {
    let topology = platform::model("dgx-h100").unwrap();
    let node = policy::map(&topology, &Wish::default());
    let subject = Subject {
        topology: &topology,
        node: &node,
        gpus: &[GpuIndex(6), GpuIndex(2)],
    };
    assert_eq!(
        write(Format::Sglang, subject).unwrap(),
        "{\"0\":\"mlx5_10\",\"1\":\"mlx5_4\"}\n"
    );
    let json: Value = serde_json::from_str(&write(Format::Json, subject).unwrap()).unwrap();
    assert_eq!(
        json["gpus"][0]["address"],
        topology.gpu(GpuIndex(6)).address.to_string()
    );
}
