//! Devices of a known machine that this node lacks.

use super::facts::Missing;
use nic_placement_core::topology::{PciAddress, Topology};
use nic_placement_node::platform::Model;
use nic_placement_node::platform::recognise::{carries_the_fabric, gpu_addresses, is_stated};

/// GPUs and fabric NICs of `model` that the node lacks, at addresses that its sources state.
///
/// A node with no GPU at its place may be another instance type: it lacks nothing.
pub(crate) fn missing(
    live: &Topology,
    model: &Model,
    is_on_the_bus: &dyn Fn(PciAddress) -> bool,
) -> Vec<Missing> {
    let Some(known) = model.topology().filter(|_| model.addresses) else {
        return Vec::new();
    };
    let (here, gpus) = (gpu_addresses(live), gpu_addresses(&known));
    if !here.is_empty() && gpus.is_disjoint(&here) {
        return Vec::new();
    }
    let gpus = gpus.difference(&here).map(|gpu| ("GPU".to_string(), *gpu));
    let is_here = |address| live.nics.iter().any(|other| other.address == address);
    let nics = known
        .nics
        .iter()
        .filter(|nic| carries_the_fabric(nic) && is_stated(nic, model) && !is_here(nic.address))
        .filter_map(|nic| Some((nic.name.to_string(), nic.address?)));
    gpus.chain(nics)
        .map(|(what, address)| Missing {
            what,
            address,
            is_on_the_bus: is_on_the_bus(address),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nic_placement_node::platform::MODELS;

    fn lacking(live: &Topology, model: &Model) -> Vec<(String, PciAddress)> {
        let missing = missing(live, model, &|_| true).into_iter();
        missing.map(|of| (of.what, of.address)).collect()
    }

    fn dgx() -> (&'static Model, Topology) {
        let model = MODELS.iter().find(|model| model.name == "dgx-h100");
        let model = model.unwrap();
        (model, model.topology().unwrap())
    }

    #[test]
    fn a_machine_that_is_as_its_model_lacks_nothing_and_one_without_a_gpu_and_a_nic_lacks_those() {
        let (model, mut live) = dgx();
        assert_eq!(lacking(&live, model), []);
        let gpu = live.gpus.remove(2).address;
        let nic = live.nics.remove(0);
        let nic = (nic.name.to_string(), nic.address.unwrap());
        assert_eq!(lacking(&live, model), [("GPU".to_string(), gpu), nic]);
        // other addresses are another machine
        live.gpus.iter_mut().for_each(|gpu| gpu.address.domain += 1);
        live.nics.clear();
        assert_eq!(lacking(&live, model), []);
    }

    #[test]
    fn a_guest_of_a_cloud_is_known_by_its_model() {
        let clouds = MODELS.iter().filter(|model| model.is_a_clouds());
        let clouds: Vec<&str> = clouds.map(|model| model.name).collect();
        assert!(clouds.contains(&"aws-p5") && !clouds.contains(&"dgx-h100"));
    }
}
