//! What a file for NCCL says otherwise than the topology that it was written from: found by reading it again.
#![forbid(unsafe_code)]

use super::place::Places;
use crate::import::nccl::read;
use nic_placement_core::diagnostic::Diagnostic;
use nic_placement_core::topology::{NicKind, PathType, PciAddress, Provenance, Topology};
use std::collections::BTreeMap;

/// Paths of one finding that are named.
const NAMED: usize = 3;

/// Findings about what was written as `text`.
pub(super) fn lost(topology: &Topology, places: &Places, text: &str) -> Vec<Diagnostic> {
    let mut lost = Vec::new();
    let mut say = |place: &str, finding: &str| lost.push(Diagnostic::new(place, finding));
    say(
        "NCCL",
        "names, ports, rates and roles of NICs, and GPUs but for their addresses, are not in the file: NCCL finds them on \
         the machine",
    );
    if topology.gpus.iter().any(|gpu| gpu.address.is_invented()) {
        say(
            "<pci>",
            "the GPUs' addresses are not known: NCCL finds devices by address, and on the machine itself it takes nothing \
             from this file",
        );
    }
    if topology.processor.is_none() {
        say(
            "<cpu>",
            "the kind of its processors is not known: NCCL asks the machine that it runs on",
        );
    }
    lost.extend(merged(topology, places));
    lost.extend(other_paths(topology, places, text));
    lost
}

/// NICs that NCCL looks for at another address than theirs, so that it does not find where the file puts them.
fn merged(topology: &Topology, places: &Places) -> Option<Diagnostic> {
    let moved = |address: &PciAddress| address.device != 0 || address.function != 0;
    let nics = topology
        .nics
        .iter()
        .filter(|nic| nic.kind == NicKind::Verbs && !nic.ports.is_empty());
    let address = nics
        .filter_map(|nic| nic.address)
        .find(|at| places.joined().contains(at) && moved(at))?;
    let sought = PciAddress {
        device: 0,
        function: 0,
        ..address
    };
    // src/transport/net_ib/init.cc, `ncclIbGetPciPath`
    let finding =
        format!("NCCL looks for this NIC at `{sought}`, unless `NCCL_IB_MERGE_VFS=0` is set");
    Some(Diagnostic::new(address.to_string(), finding))
}

/// Kinds of paths that the file makes others: `NODE` is unknown to NCCL, and so on.
fn other_paths(topology: &Topology, places: &Places, text: &str) -> Vec<Diagnostic> {
    let provenance = Provenance::File(String::new());
    let Ok((again, _)) = read(text, provenance) else {
        return vec![Diagnostic::new("<system>", "cannot be read again")];
    };
    let written = |address: PciAddress| {
        places
            .bus_id(address)
            .parse::<PciAddress>()
            .unwrap_or(address)
    };
    let mut changes: BTreeMap<(PathType, PathType), Vec<String>> = BTreeMap::new();
    for (index, gpu) in topology.numbered_gpus() {
        for nic in &topology.nics {
            let Some(address) = nic.address else { continue };
            let was = topology.path_type(gpu.address, address);
            let is = again.path_type(written(gpu.address), written(address));
            if was != is {
                changes
                    .entry((was, is))
                    .or_default()
                    .push(format!("GPU {index} and `{}`", nic.name));
            }
        }
    }
    let changes = changes.into_iter().map(|((was, is), paths)| {
        let more = paths.len().saturating_sub(NAMED);
        let named = paths[..paths.len() - more].join(", ");
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        Diagnostic::new(format!("{was} is {is} to NCCL"), format!("{named}{more}"))
    });
    changes.collect()
}
