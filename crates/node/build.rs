//! The built-in machines: their topologies in the node file's binary form, and the table of their marks.
#![forbid(unsafe_code)]

use nic_placement_topology::{Provenance, file};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::{env, error::Error, fs};

/// A topology file for each machine.
const MODELS: &str = "src/platform/models";
/// The marks of machines, clouds and GPUs, with their sources.
const MARKS: &str = "src/platform/known.json";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={MODELS}");
    println!("cargo::rerun-if-changed={MARKS}");
    let out = env::var("OUT_DIR")?;
    let known: Value = serde_json::from_str(&fs::read_to_string(MARKS)?)?;
    let gpus = |kind: &str| {
        let rows = known["gpus"][kind].as_array().expect("a kind of GPU");
        let rows = rows.iter().map(|row| {
            let [vendor, id] =
                ["vendor", "id"].map(|field| row[field].as_str().unwrap_or_default());
            format!(
                "GpuKind {{vendor: {vendor}, id: {id}, names: &{}}},",
                row["names"]
            )
        });
        format!("&[{}]", rows.collect::<String>())
    };
    let cloud = |name: &str| {
        let cloud = known["clouds"].get(name).expect("a cloud");
        let [vendor, tag] = ["vendor", "asset_tag"].map(|field| cloud[field].as_str());
        format!("Some(Cloud {{vendor: {vendor:?}, asset_tag: {tag:?}}})")
    };
    let machines = known["machines"].as_object().ok_or("no machines")?;
    let mut table = String::from("[");
    for (name, marks) in machines {
        let path = format!("{MODELS}/{name}.json");
        let json = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let machine = file::from_json(&json, Provenance::Model(name.clone()))
            .map_err(|bad| format!("{path}: {bad}"))?;
        fs::write(Path::new(&out).join(name), postcard::to_allocvec(&machine)?)?;
        let addresses: BTreeSet<_> = machine.gpus.iter().map(|gpu| gpu.address).collect();
        let count = addresses.len();
        table +=
            &format!("Model {{name: {name:?}, packed: include_bytes!({name:?}), gpus: {count}, ");
        for (field, value) in marks.as_object().into_iter().flatten() {
            let value = match (&**field, value) {
                ("cloud", Value::String(name)) => cloud(name),
                ("kinds", Value::String(kind)) => gpus(kind),
                (_, Value::Array(_)) => format!("&{value}"),
                _ => value.to_string(),
            };
            table += &format!("{field}: {value}, ");
        }
        table += "..UNMARKED},\n";
    }
    fs::write(Path::new(&out).join("known.rs"), table + "]")?;
    Ok(())
}
