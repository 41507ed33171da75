//! The built-in machines as the library holds them: each one's topology in the binary form of the node file.
//!
//! The types that read it there write it here, so that nothing has to keep two forms of a machine alike.
#![forbid(unsafe_code)]

use std::path::Path;
use std::{env, error::Error, fs};
use topology::{Provenance, file};

#[allow(dead_code, unused_imports, reason = "the library uses the rest")]
#[path = "src/diagnostic/mod.rs"]
mod diagnostic;
#[allow(dead_code, reason = "the library uses the rest")]
#[path = "src/order.rs"]
mod order;
#[allow(dead_code, unused_imports, reason = "the library uses the rest")]
#[path = "src/topology/mod.rs"]
mod topology;

/// The machines' files, with their sources.
const MODELS: &str = "src/platform/models";

fn main() -> Result<(), Box<dyn Error>> {
    for read in [MODELS, "src/diagnostic", "src/order.rs", "src/topology"] {
        println!("cargo::rerun-if-changed={read}");
    }
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
