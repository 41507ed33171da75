//! The built-in machines as the library holds them: each one's topology in the binary form of the node file.
#![forbid(unsafe_code)]

use nic_placement_topology::{Provenance, file};
use std::path::Path;
use std::{env, error::Error, fs};

/// The machines' files, with their sources.
const MODELS: &str = "src/platform/models";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={MODELS}");
    let out = env::var("OUT_DIR")?;
    for file in fs::read_dir(MODELS)? {
        let file = file?.path();
        let name = file
            .file_stem()
            .and_then(|name| name.to_str())
            .ok_or("a file has a name")?;
        let provenance = Provenance::Model(name.to_string());
        let machine = file::from_json(&fs::read_to_string(&file)?, provenance)
            .map_err(|bad| format!("{}: {bad}", file.display()))?;
        fs::write(Path::new(&out).join(name), postcard::to_allocvec(&machine)?)?;
    }
    Ok(())
}
