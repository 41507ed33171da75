//! The built-in machines as the library holds them: without the sources of their facts and without blanks, which no program reads.
#![forbid(unsafe_code)]

use std::path::Path;
use std::{env, error::Error, fs};

/// The machines' files, with their sources.
const MODELS: &str = "src/platform/models";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={MODELS}");
    let out = env::var("OUT_DIR")?;
    for file in fs::read_dir(MODELS)? {
        let file = file?.path();
        let name = file.file_name().ok_or("a file has a name")?;
        let mut machine: serde_json::Value = serde_json::from_slice(&fs::read(&file)?)?;
        machine.as_object_mut().ok_or_else(|| format!("{}: no object", file.display()))?.remove("sources");
        fs::write(Path::new(&out).join(name), machine.to_string())?;
    }
    Ok(())
}
