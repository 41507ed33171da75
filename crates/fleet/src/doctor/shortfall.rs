//! Devices of a known machine that this node lacks.

use nic_placement_core::topology::{PciAddress, Topology};
use nic_placement_node::platform::recognise::{
    Dmi, carries_the_fabric, contradicts, gpu_addresses, has_product, is_stated,
};
use nic_placement_node::platform::{MODELS, Model};
use std::collections::BTreeSet;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// `GPU`, or the name that the NIC has in the model
    pub what: String,
    pub address: PciAddress,
}

/// GPUs and fabric NICs of `model` that the node lacks, at addresses that its sources state.
///
/// A node with no GPU at its place may be another instance type: it lacks nothing.
pub fn missing(live: &Topology, model: &Model) -> Vec<Missing> {
    let Some(known) = model.topology().filter(|_| model.addresses) else {
        return Vec::new();
    };
    let here = gpu_addresses(live);
    let gpus = gpu_addresses(&known);
    if !here.is_empty() && gpus.is_disjoint(&here) {
        return Vec::new();
    }
    let gpus = gpus
        .into_iter()
        .filter(|gpu| !here.contains(gpu))
        .map(|address| Missing {
            what: "GPU".to_string(),
            address,
        });
    let nics = known
        .nics
        .iter()
        .filter(|nic| {
            let is_here = live.nics.iter().any(|other| other.address == nic.address);
            carries_the_fabric(nic) && is_stated(nic, model) && !is_here
        })
        .filter_map(|nic| {
            Some(Missing {
                what: nic.name.to_string(),
                address: nic.address?,
            })
        });
    gpus.chain(nics).collect()
}

/// The number of GPUs of this product, if all known machines of that name that may be this node
/// have as many.
pub fn gpus_of_the_product(dmi: &Dmi, live: &Topology) -> Option<usize> {
    let counts: BTreeSet<usize> = MODELS
        .iter()
        .filter(|model| has_product(dmi, model) && !contradicts(dmi, live, model))
        .map(|model| model.gpus)
        .collect();
    counts.first().copied().filter(|_| counts.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dgx() -> (&'static Model, Topology) {
        let model = MODELS.iter().find(|model| model.name == "dgx-h100");
        let model = model.unwrap();
        (model, model.topology().unwrap())
    }

    #[test]
    fn a_machine_that_is_as_its_model_lacks_nothing_and_one_without_a_gpu_and_a_nic_lacks_those() {
        let (model, mut live) = dgx();
        assert_eq!(missing(&live, model), []);
        let gpu = live.gpus.remove(2).address;
        let nic = live.nics.remove(0);
        let lacking = missing(&live, model).into_iter();
        let lacking: Vec<_> = lacking.map(|of| (of.what, of.address)).collect();
        let nic = (nic.name.to_string(), nic.address.unwrap());
        assert_eq!(lacking, [("GPU".to_string(), gpu), nic]);
        // other addresses are another machine
        live.gpus.iter_mut().for_each(|gpu| gpu.address.domain += 1);
        live.nics.clear();
        assert_eq!(missing(&live, model), []);
    }

    #[test]
    fn a_product_tells_how_many_gpus_it_has_and_another_name_does_not() {
        let (_, live) = dgx();
        let of = |product: &str| {
            let dmi = Dmi {
                product: Some(product.into()),
                ..Dmi::default()
            };
            gpus_of_the_product(&dmi, &live)
        };
        assert_eq!((of("DGXH100"), of("A desk")), (Some(8), None));
        let clouds = MODELS.iter().filter(|model| model.is_a_clouds());
        let clouds: Vec<&str> = clouds.map(|model| model.name).collect();
        assert!(clouds.contains(&"aws-p5") && !clouds.contains(&"dgx-h100"));
    }
}
