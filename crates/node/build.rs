//! The built-in machines: their topologies in the node file's binary form, and the table of their marks.
#![forbid(unsafe_code)]

use nic_placement_topology::{Provenance, file};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{env, error::Error, fs};

/// A topology file for each machine.
const MODELS: &str = "src/platform/models";
/// Fields of `Model` for each machine, where they differ from `UNMARKED`.
const MARKS: &str = "src/platform/known.json";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={MODELS}");
    println!("cargo::rerun-if-changed={MARKS}");
    let out = env::var("OUT_DIR")?;
    let machines: BTreeMap<String, Map<String, Value>> =
        serde_json::from_str(&fs::read_to_string(MARKS)?)?;
    let mut table = String::from("[");
    for (name, marks) in machines {
        let path = format!("{MODELS}/{name}.json");
        let json = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let machine = file::from_json(&json, Provenance::Model(name.clone()))
            .map_err(|bad| format!("{path}: {bad}"))?;
        fs::write(
            Path::new(&out).join(&name),
            postcard::to_allocvec(&machine)?,
        )?;
        let gpus: BTreeSet<_> = machine.gpus.iter().map(|gpu| gpu.address).collect();
        let count = gpus.len();
        table +=
            &format!("Model {{name: {name:?}, packed: include_bytes!({name:?}), gpus: {count}, ");
        for (field, value) in marks {
            let value = match (&*field, value) {
                ("cloud" | "kinds", Value::String(constant)) => constant,
                (_, Value::Array(words)) => format!("&{}", Value::Array(words)),
                (_, value) => value.to_string(),
            };
            table += &format!("{field}: {value}, ");
        }
        table += "..UNMARKED},\n";
    }
    fs::write(Path::new(&out).join("known.rs"), table + "]")?;
    Ok(())
}
