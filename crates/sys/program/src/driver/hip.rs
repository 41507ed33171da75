//! ROCm's runtime, libamdhip64.so; the types are those of hip/hip_runtime_api.h.
#![allow(unsafe_code)]

use super::{DriverAnswer, DriverError, Library, MAX_DEVICES, NO_DEVICE};
use super::{functions, number, text};
use std::ffi::{CStr, c_char, c_int, c_uint};

/// The first is a developer's link; the number is ROCm's.
const NAMES: [&CStr; 4] = [
    c"libamdhip64.so",
    c"libamdhip64.so.7",
    c"libamdhip64.so.6",
    c"libamdhip64.so.5",
];

functions! { Hip {
    hipInit(flags: c_uint);
    hipDriverGetVersion(version: *mut c_int);
    hipGetDeviceCount(count: *mut c_int);
    hipDeviceGetPCIBusId(text: *mut c_char, room: c_int, device: c_int);
} }

pub fn ask() -> Result<DriverAnswer, DriverError> {
    let hip = Hip::of(&Library::open(&NAMES)?)?;
    let mut answer = DriverAnswer::default();
    // SAFETY: the pointers are valid for the header's types, and the buffer as long as is said.
    unsafe {
        match hip.hipInit(0) {
            Err(DriverError::Call(_, NO_DEVICE)) => return Ok(answer),
            begun => begun?,
        }
        answer.version = Some(number(|at| hip.hipDriverGetVersion(at))?);
        let count = match number(|at| hip.hipGetDeviceCount(at)) {
            Err(DriverError::Call(_, NO_DEVICE)) => 0,
            count => count?,
        };
        for ordinal in 0..count.min(MAX_DEVICES) {
            let address = text(|at, room| hip.hipDeviceGetPCIBusId(at, room, ordinal))?;
            answer.devices.push((address, None, None));
        }
    }
    Ok(answer)
}
