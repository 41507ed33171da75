//! The table of checks: everything that prints one prints it from here.
#![forbid(unsafe_code)]

mod installation;
mod node;
mod path;

use super::Check;

/// All checks, in the order in which they are printed.
pub const CHECKS: &[&Check] = &[
    &installation::SLURM,
    &installation::PLUGSTACK,
    &installation::PLUGSTACK_ORDER,
    &installation::PLUGIN_FILE,
    &installation::CONFIGLESS,
    &installation::OWNER,
    &installation::CONFIGURATION,
    &installation::NODE_FILE,
    &node::NODE,
    &node::MACHINE,
    &node::NIC_BROKEN,
    &node::NIC_SLOWER,
    &node::PORTS_PER_CARD,
    &node::PORT_INTERFACE,
    &node::EFA_CARRIER,
    &node::ROCE_GID,
    &node::ROCE_MTU,
    &node::DEVICE_NODE,
    &path::PCIE_LINK,
    &path::GPUDIRECT,
    &path::ACS,
    &path::ATS,
    &path::IOMMU,
    &path::IOMMU_GROUP,
    &path::RELAXED_ORDERING,
    &path::READ_REQUEST,
    &node::NUMA_BALANCING,
    &node::PORT_RANGE,
    &node::UVERBS_ACCESS,
    &node::MEMLOCK,
    &node::NCCL_CONF,
    &node::VARIABLE,
    &node::ODD,
];

/// Their codes.
pub fn codes() -> impl Iterator<Item = &'static str> {
    CHECKS.iter().map(|check| check.code)
}
