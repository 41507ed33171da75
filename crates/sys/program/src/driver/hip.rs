//! ROCm's runtime, libamdhip64.so; the types are those of hip/hip_runtime_api.h.
#![allow(unsafe_code)]

use super::{DriverAnswer, DriverDevice, DriverError, DriverKind, Library, NO_DEVICE};
use super::{bounded, call, functions, number, text};
use std::ffi::{CStr, c_char, c_int, c_uint};

/// The first is a developer's link; the number is ROCm's.
const NAMES: [&CStr; 4] = [
    c"libamdhip64.so",
    c"libamdhip64.so.7",
    c"libamdhip64.so.6",
    c"libamdhip64.so.5",
];

functions! { Asked {
    hipInit(c_uint);
    hipDriverGetVersion(*mut c_int);
    hipGetDeviceCount(*mut c_int);
    hipDeviceGetPCIBusId(*mut c_char, c_int, c_int);
} }

pub(super) fn ask() -> Result<DriverAnswer, DriverError> {
    let hip = Asked::of(&Library::open(&NAMES)?)?;
    let mut answer = DriverAnswer {
        name: DriverKind::Hip.name(),
        version: None,
        devices: Vec::new(),
    };
    // SAFETY: the call has no precondition.
    match unsafe { call!(hip.hipInit(0)) } {
        Err(DriverError::Call(_, NO_DEVICE)) => return Ok(answer),
        begun => begun?,
    }
    // SAFETY: the pointer is valid for an int.
    answer.version = Some(number(|at| unsafe { call!(hip.hipDriverGetVersion(at)) })?);
    // SAFETY: the pointer is valid for an int.
    let count = match number(|at| unsafe { call!(hip.hipGetDeviceCount(at)) }) {
        Err(DriverError::Call(_, NO_DEVICE)) => 0,
        count => bounded(count?),
    };
    for ordinal in 0..count {
        // SAFETY: the buffer is as long as is said.
        let address =
            text(|at, room| unsafe { call!(hip.hipDeviceGetPCIBusId(at, room, ordinal)) })?;
        answer.devices.push(DriverDevice {
            address: address.to_ascii_lowercase(),
            uuid: None,
            name: None,
        });
    }
    Ok(answer)
}
