//! The variables that Cray MPICH and libfabric share on Slingshot, where both can choose the device.
#![forbid(unsafe_code)]

use super::Present;

/// Cray MPICH's choice.
pub(super) const NIC_POLICY: &str = "MPICH_OFI_NIC_POLICY";
/// libfabric's choice.
pub(super) const CXI_DEVICE: &str = "FI_CXI_DEVICE_NAME";
/// The devices that Slurm set up for the step (src/plugins/switch/hpe_slingshot), separated by commas.
pub(super) const STEP_DEVICES: &str = "SLINGSHOT_DEVICES";

/// The devices that the step may use: all if Slurm names none.
pub(super) fn is_the_steps(present: &Present) -> impl Fn(&str) -> bool {
    let step = present.get(STEP_DEVICES).filter(|list| !list.is_empty());
    move |name| step.is_none_or(|list| list.split(',').any(|listed| listed == name))
}
