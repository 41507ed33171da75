//! Each format as its program reads it: the rules are those of the files that `Format` names, written anew.

use super::*;
use crate::placement::GpuPlacement;
use crate::policy;
use crate::wish::Wish;
use nic_placement_node::platform;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The map of a machine after a change, for these GPUs; for all where none is named.
fn changed(
    machine: &str,
    format: Format,
    gpus: &[usize],
    change: impl FnOnce(&mut NodePlacement),
) -> Result<String, NoMap> {
    let topology = platform::model(machine).unwrap();
    let mut node = policy::map(&topology, &Wish::default());
    change(&mut node);
    let all = || topology.gpu_indices().collect();
    let gpus: Vec<GpuIndex> = match gpus {
        [] => all(),
        some => some.iter().copied().map(GpuIndex).collect(),
    };
    let subject = Subject {
        topology: &topology,
        node: &node,
        gpus: &gpus,
    };
    write(format, subject)
}

fn map_of(machine: &str, format: Format) -> Result<String, NoMap> {
    changed(machine, format, &[], |_| ())
}

fn json(map: Result<String, NoMap>) -> Value {
    serde_json::from_str(&map.unwrap()).unwrap()
}

/// The NICs of each GPU of a machine, by our own map.
fn expected(machine: &str) -> Vec<Vec<String>> {
    let topology = platform::model(machine).unwrap();
    let node = policy::map(&topology, &Wish::default());
    let of_gpu = |gpu: &GpuPlacement| {
        let rails = gpu.choices.iter().map(|choice| node.rail(choice.rail));
        names(rails).into_iter().map(String::from).collect()
    };
    node.gpus.iter().map(of_gpu).collect()
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
    match once.len() == names.len() {
        true => Ok(names),
        false => Err("duplicate".to_string()),
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
    let dgx = map_of("dgx-h100", Format::Sglang).unwrap();
    assert!(dgx.starts_with(r#"{"0":"mlx5_0","1":"mlx5_3","2":"mlx5_4","#));
}

#[test]
fn mooncake_finds_two_lists_for_each_gpu_and_numa_node_with_every_good_nic_in_one_of_them() {
    let parsed = json(map_of("dgx-h100", Format::Mooncake));
    assert_eq!(parsed.as_object().unwrap().len(), 2 + 8);
    for (name, lists) in parsed.as_object().unwrap() {
        // it takes no other number of lists
        let [first, second] = &lists.as_array().unwrap()[..] else {
            panic!("{name}: {lists}")
        };
        let both = [first, second]
            .map(|list| list.as_array().unwrap().clone())
            .concat();
        let once: BTreeSet<&str> = both.iter().map(|nic| nic.as_str().unwrap()).collect();
        assert_eq!((once.len(), both.len()), (8, 8), "{name}");
    }
    assert_eq!(parsed["cuda:4"][0], serde_json::json!(["mlx5_6"]));
    let second = serde_json::json!(["mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11"]);
    assert_eq!(parsed["cpu:1"][0], second);
}

#[test]
fn mooncake_finds_amds_gpus_by_the_names_that_its_builds_give_them() {
    let parsed = json(map_of("mi300x-8", Format::Mooncake));
    for (gpu, nics) in expected("mi300x-8").iter().enumerate() {
        for word in ["hip", "rocm"] {
            let name = format!("{word}:{gpu}");
            assert_eq!(parsed[&name][0], serde_json::json!(nics), "{name}");
        }
    }
    let mut names = parsed.as_object().unwrap().keys();
    assert!(names.all(|name| !name.starts_with("cuda")));
}

#[test]
fn a_map_that_would_lack_a_gpu_is_refused() {
    let lacking = |format| changed("dgx-h100", format, &[], |node| node.gpus[3].choices.clear());
    for format in [Format::Sglang, Format::Mooncake] {
        let why = lacking(format).unwrap_err().to_string();
        assert!(why.starts_with("GPU 3 has no NIC"), "{why}");
    }
    assert_eq!(
        json(lacking(Format::Json))["gpus"][3]["nics"],
        serde_json::json!([])
    );
}

#[test]
fn a_program_that_sees_some_gpus_counts_them_from_0() {
    let some = |format| changed("dgx-h100", format, &[6, 2], |_| ());
    let sglang = some(Format::Sglang).unwrap();
    assert_eq!(sglang, "{\"0\":\"mlx5_10\",\"1\":\"mlx5_4\"}\n");
    let topology = platform::model("dgx-h100").unwrap();
    let first = topology.gpu(GpuIndex(6)).address.to_string();
    assert_eq!(json(some(Format::Json))["gpus"][0]["address"], first);
}
