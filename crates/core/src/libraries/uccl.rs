//! UCCL's point-to-point engine, on demand (`env=default+uccl`): `UCCL_P2P_RDMA_DEV`, the NICs of the task's GPU.
//!
//! Names without ports; white space around a name is taken away.  The engine uses all of them for every GPU of the process
//! (uccl-project/uccl's p2p/rdma/rdma_device.cc `get_best_dev_idx`), so it suits a task with one GPU.  Without it the engine goes by
//! the distances on the bus, which a virtual machine hides, and knows no NIC of storage's.
#![forbid(unsafe_code)]

use super::template::names_of;
use super::{Answer, Library, Query};

pub(super) const LIBRARY: Library =
    Library { name: "UCCL", word: "uccl", variables: &[(DEVICES, devices)], ..Library::NONE };

const DEVICES: &str = "UCCL_P2P_RDMA_DEV";

fn devices(query: &Query) -> Option<Answer> {
    let (node, task) = (query.node, query.task);
    let names = names_of(task.rails.iter().map(|(rail, _)| node.rail(*rail).name.as_str()));
    Some(Answer::yes(&*names, "its GPU's NICs, as `env=uccl` asks").unless(&[
        (names.is_empty(), "the task has no GPU with a NIC"),
        (task.seen.len() != 1, "UCCL would use the NICs of one GPU for all that the task sees"),
    ]))
}
