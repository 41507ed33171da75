//! Built-in models of known machines: topology files inside the program.
//!
//! A model is a machine of its kind with nothing broken.  It can be shown, planned for and compared with a
//! live node.  Nothing is ever bound by it, since its [`Provenance`] is not this system.
#![forbid(unsafe_code)]

mod marks;
pub mod recognise;
pub mod shortfall;
#[cfg(test)]
mod tests;

use crate::topology::file::{self, BadTopology};
use crate::topology::{Provenance, Topology};

/// A known machine.
#[derive(Debug)]
pub struct Model {
    /// its name in commands
    pub name: &'static str,
    /// its description, for people
    pub title: &'static str,
    json: &'static str,
}

/// A model whose file has its name.
macro_rules! built_in {
    ($name:literal, $title:literal) => {
        Model { name: $name, title: $title, json: include_str!(concat!("models/", $name, ".json")) }
    };
}

/// All known machines, in order of name.
pub const MODELS: &[Model] = &[
    built_in!("aws-g5", "AWS g5.48xlarge: 8 A10G, 1 EFA"),
    built_in!("aws-p4d", "AWS p4d.24xlarge: 8 A100, 4 EFA"),
    built_in!("aws-p5", "AWS p5.48xlarge: 8 H100, 32 EFA"),
    built_in!("azure-nd128isr-gb300-v6", "Azure ND128isr GB300 v6: 4 GB300, 4 ConnectX (800 Gb/s)"),
    built_in!("azure-nd96asr-a100-v4", "Azure ND96asr and ND96amsr A100 v4: 8 A100, 8 ConnectX-6 (HDR)"),
    built_in!("azure-nd96isr-h100-v5", "Azure ND96isr H100 v5: 8 H100, 8 ConnectX-7 (NDR)"),
    built_in!("azure-nd96isr-h200-v5", "Azure ND96isr H200 v5: 8 H200, 8 ConnectX-7 (NDR)"),
    built_in!("dgx-a100", "NVIDIA DGX A100: 8 A100 SXM4, 8 ConnectX-6 (HDR), 2 EPYC 7742"),
    built_in!("dgx-b200", "NVIDIA DGX B200: 8 B200, 8 ConnectX-7 (NDR), 2 BlueField-3, 2 Xeon 8570"),
    built_in!("dgx-h100", "NVIDIA DGX H100: 8 H100 SXM5, 8 ConnectX-7 (NDR), 2 Xeon 8480C"),
    built_in!("dgx-h200", "NVIDIA DGX H200: 8 H200 SXM5, 8 ConnectX-7 (NDR), 2 Xeon 8480C"),
    built_in!("dgx-spark", "NVIDIA DGX Spark: 1 GB10, 2 dual-port ConnectX-7"),
    built_in!("frontier", "HPE Cray EX235a (Frontier, Tioga): 8 GCDs of 4 MI250X, 4 Slingshot NICs"),
    built_in!("gb200-nvl72", "a compute tray of an NVIDIA GB200 NVL72: 4 GB200, 4 ConnectX-7, 2 BlueField-3"),
    built_in!("gh200", "NVIDIA GH200: 1 Grace Hopper superchip, 1 ConnectX-7"),
    built_in!("gke-a3-ultra", "Google Cloud A3 Ultra: 8 H200, 8 ConnectX-7 (RoCE)"),
    built_in!(
        "hgx-h100-bf3",
        "HGX H100 with storage beside two of its GPUs: 8 H100, 8 ConnectX-7 (RoCE), 2 BlueField-3"
    ),
    built_in!("juwels-booster", "JUWELS Booster: 4 A100, 4 ConnectX-6 (HDR), 2 EPYC 7402"),
    built_in!("levante", "DKRZ Levante GPU node: 4 A100, 2 ConnectX-6 (HDR), 2 EPYC 7763"),
    built_in!("mi300x-8", "8 MI300X, 8 ConnectX-7 (NDR), 2 Xeon"),
    built_in!("oci-bm-gpu-h100-8", "OCI BM.GPU.H100.8: 8 H100, 16 ports of ConnectX-7 (200 Gb/s RoCE)"),
    built_in!("oci-bm-gpu-h200-8", "OCI BM.GPU.H200.8: 8 H200, 8 ConnectX-7 (RoCE)"),
];

impl Model {
    /// The machine's topology.
    pub fn topology(&self) -> Result<Topology, BadTopology> {
        file::from_json(self.json, Provenance::Model(self.name.to_string()))
    }

    /// The sources of its facts, and which facts are assumed.
    pub fn sources(&self) -> Result<Vec<String>, BadTopology> {
        file::sources(self.json)
    }

    /// Its topology file, as a start for one's own.
    pub fn json(&self) -> &'static str {
        self.json
    }
}

/// The topology of the machine called `name`.
pub fn model(name: &str) -> Option<Topology> {
    // a test below parses every model, so `None` means an unknown name
    MODELS.iter().find(|model| model.name == name)?.topology().ok()
}

/// The names that [`model`] knows, in order.
pub fn names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|model| model.name)
}
