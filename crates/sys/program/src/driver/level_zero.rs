//! Level Zero's loader, libze_loader.so.1; the types are those of ze_api.h.
#![allow(unsafe_code)]

use super::{DriverAnswer, DriverDevice, DriverError, DriverKind, Library, MAX_DEVICES};
use super::{call, functions};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

const NAMES: [&CStr; 1] = [c"libze_loader.so.1"];
/// ZE_INIT_FLAG_GPU_ONLY
const GPUS_ALONE: u32 = 1;
/// ZE_RESULT_ERROR_UNINITIALIZED: no driver of GPUs is there
const NO_DRIVER: c_int = 0x7800_0001;
/// ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES
const PCI_PROPERTIES: c_int = 0x1_0008;

/// `ze_pci_ext_properties_t`
#[repr(C)]
struct PciProperties {
    kind: c_int,
    next: *mut c_void,
    domain: u32,
    bus: u32,
    device: u32,
    function: u32,
    /// `ze_pci_speed_ext_t`
    generation: i32,
    width: i32,
    bytes_per_second: i64,
}

functions! { Asked {
    zeInit(u32);
    zeDriverGet(*mut u32, *mut *mut c_void);
    zeDeviceGet(*mut c_void, *mut u32, *mut *mut c_void);
    zeDevicePciGetPropertiesExt(*mut c_void, *mut PciProperties);
} }

pub(super) fn ask() -> Result<DriverAnswer, DriverError> {
    let zero = Asked::of(&Library::open(&NAMES)?)?;
    let mut answer = DriverAnswer {
        name: DriverKind::LevelZero.name(),
        version: None,
        devices: Vec::new(),
    };
    // SAFETY: the call has no precondition.
    match unsafe { call!(zero.zeInit(GPUS_ALONE)) } {
        Err(DriverError::Call(_, NO_DRIVER)) => return Ok(answer),
        begun => begun?,
    }
    // SAFETY: the array has room for so many handles.
    for driver in handles(|count, at| unsafe { call!(zero.zeDriverGet(count, at)) })? {
        // SAFETY: as above; the driver's handle is Level Zero's own.
        for device in handles(|count, at| unsafe { call!(zero.zeDeviceGet(driver, count, at)) })? {
            let mut found = PciProperties {
                kind: PCI_PROPERTIES,
                next: null_mut(),
                domain: 0,
                bus: 0,
                device: 0,
                function: 0,
                generation: 0,
                width: 0,
                bytes_per_second: 0,
            };
            // SAFETY: the struct is of the kind that it names, and the device's handle is Level Zero's own.
            unsafe { call!(zero.zeDevicePciGetPropertiesExt(device, &mut found)) }?;
            let PciProperties {
                domain,
                bus,
                device,
                function,
                ..
            } = found;
            let address = format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}");
            answer.devices.push(DriverDevice {
                address,
                uuid: None,
                name: None,
            });
        }
    }
    answer.devices.truncate(MAX_DEVICES);
    Ok(answer)
}

/// Handles that a function writes, at most as many as it counted before.
fn handles(
    write: impl FnOnce(*mut u32, *mut *mut c_void) -> Result<(), DriverError>,
) -> Result<Vec<*mut c_void>, DriverError> {
    let mut handles = vec![null_mut(); MAX_DEVICES];
    let mut count = MAX_DEVICES as u32;
    write(&mut count, handles.as_mut_ptr())?;
    handles.truncate(count as usize);
    handles.retain(|handle| !handle.is_null());
    Ok(handles)
}
