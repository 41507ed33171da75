//! CUDA's driver library, libcuda.so.1; the types are those of cuda.h.
#![allow(unsafe_code)]

use super::{Copies, DriverAnswer, DriverDevice, DriverError, DriverKind, Library, NO_DEVICE};
use super::{bounded, call, functions, number, text};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

const NAMES: [&CStr; 1] = [c"libcuda.so.1"];

functions! { Asked {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut c_int, c_int);
    cuDeviceGetPCIBusId(*mut c_char, c_int, c_int);
    cuDeviceGetName(*mut c_char, c_int, c_int);
} }

functions! { Copying {
    cuInit(c_uint);
    cuDeviceGet(*mut c_int, c_int);
    cuDevicePrimaryCtxRetain(*mut *mut c_void, c_int);
    cuDevicePrimaryCtxRelease(c_int);
    cuCtxSetCurrent(*mut c_void);
    cuMemAlloc_v2(*mut u64, usize);
    cuMemFree_v2(u64);
    cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    cuMemFreeHost(*mut c_void);
    cuMemcpyHtoD_v2(u64, *const c_void, usize);
    cuMemcpyDtoH_v2(*mut c_void, u64, usize);
} }

type GetUuid = unsafe extern "C" fn(*mut [u8; 16], c_int) -> c_int;

pub(super) fn ask() -> Result<DriverAnswer, DriverError> {
    let library = Library::open(&NAMES)?;
    let cuda = Asked::of(&library)?;
    let uuid_of = uuid_of(&library)?;
    // SAFETY: the call has no precondition.
    let begun = unsafe { call!(cuda.cuInit(0)) };
    // SAFETY: the pointer is valid for an int; this call needs no cuInit.
    let version = Some(number(|at| unsafe { call!(cuda.cuDriverGetVersion(at)) })?);
    let mut answer = DriverAnswer {
        name: DriverKind::Cuda.name(),
        version,
        devices: Vec::new(),
    };
    if begun == Err(DriverError::Call("cuInit", NO_DEVICE)) {
        return Ok(answer);
    }
    begun?;
    // SAFETY: the pointer is valid for an int.
    let count = number(|at| unsafe { call!(cuda.cuDeviceGetCount(at)) })?;
    for ordinal in 0..bounded(count) {
        // SAFETY: the pointer is valid for an int.
        let device = number(|at| unsafe { call!(cuda.cuDeviceGet(at, ordinal)) })?;
        // SAFETY: the buffer is as long as is said.
        let address =
            text(|at, room| unsafe { call!(cuda.cuDeviceGetPCIBusId(at, room, device)) })?;
        // SAFETY: the buffer is as long as is said.
        let name = text(|at, room| unsafe { call!(cuda.cuDeviceGetName(at, room, device)) })?;
        answer.devices.push(DriverDevice {
            address: address.to_ascii_lowercase(),
            uuid: Some(uuid(uuid_of, device)?),
            name: Some(name),
        });
    }
    Ok(answer)
}

/// `cuDeviceGetUuid_v2` is there since CUDA 11.4.
fn uuid_of(library: &Library) -> Result<GetUuid, DriverError> {
    // SAFETY: both have this type in cuda.h.
    unsafe {
        library
            .symbol("cuDeviceGetUuid_v2")
            .or_else(|_| library.symbol("cuDeviceGetUuid"))
    }
}

fn uuid(uuid_of: GetUuid, device: c_int) -> Result<String, DriverError> {
    let mut bytes = [0; 16];
    // SAFETY: a CUuuid is 16 bytes.
    match unsafe { uuid_of(&mut bytes, device) } {
        0 => {}
        number => return Err(DriverError::Call("cuDeviceGetUuid", number)),
    }
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    let parts = [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ];
    Ok(format!("GPU-{}", parts.join("-")))
}

/// Memory and a context, freed on drop.
struct Lent<'a> {
    copying: &'a Copying,
    device: c_int,
    on_device: u64,
    on_host: *mut c_void,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let Lent {
            copying,
            device,
            on_device,
            on_host,
        } = *self;
        // SAFETY: each is what CUDA gave and is given back once; the context goes last. A refusal changes nothing for us.
        unsafe {
            if on_device != 0 {
                (copying.cuMemFree_v2)(on_device);
            }
            if !on_host.is_null() {
                (copying.cuMemFreeHost)(on_host);
            }
            (copying.cuDevicePrimaryCtxRelease)(device);
        }
    }
}

pub(super) fn copies(ordinal: i32, bytes: usize, rounds: u32) -> Result<Copies, DriverError> {
    let library = Library::open(&NAMES)?;
    let copying = &Copying::of(&library)?;
    // SAFETY: the call has no precondition.
    unsafe { call!(copying.cuInit(0)) }?;
    // SAFETY: the pointer is valid for an int.
    let device = number(|at| unsafe { call!(copying.cuDeviceGet(at, ordinal)) })?;
    let mut context = null_mut();
    // SAFETY: the pointer is valid for a pointer.
    unsafe { call!(copying.cuDevicePrimaryCtxRetain(&mut context, device)) }?;
    let mut lent = Lent {
        copying,
        device,
        on_device: 0,
        on_host: null_mut(),
    };
    // SAFETY: the context is retained until `lent` is dropped, and the pointers are valid for what is written there.
    unsafe {
        call!(copying.cuCtxSetCurrent(context))?;
        call!(copying.cuMemAlloc_v2(&mut lent.on_device, bytes))?;
        call!(copying.cuMemHostAlloc(&mut lent.on_host, bytes, 0))?;
    }
    let (on_device, on_host) = (lent.on_device, lent.on_host);
    // with page-locked memory both calls return when the bytes are there (CUDA's manual, "API synchronization behavior")
    // SAFETY: both places have so many bytes until `lent` is dropped, and what is copied first was written.
    let to_device = || unsafe { call!(copying.cuMemcpyHtoD_v2(on_device, on_host, bytes)) };
    // SAFETY: as above.
    let to_host = || unsafe { call!(copying.cuMemcpyDtoH_v2(on_host, on_device, bytes)) };
    // SAFETY: CUDA gave so many bytes for writing.
    unsafe { on_host.cast::<u8>().write_bytes(1, bytes) };
    Ok(Copies {
        to_device_mb_s: rate(bytes, rounds, to_device)?,
        to_host_mb_s: rate(bytes, rounds, to_host)?,
    })
}

/// Megabytes in a second, after one round that is not counted.
fn rate(
    bytes: usize,
    rounds: u32,
    copy: impl Fn() -> Result<(), DriverError>,
) -> Result<f64, DriverError> {
    copy()?;
    let begun = seconds();
    for _ in 0..rounds {
        copy()?;
    }
    Ok(bytes as f64 * f64::from(rounds) / 1e6 / (seconds() - begun).max(1e-9))
}

fn seconds() -> f64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is valid for a timespec; Linux has this clock, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
