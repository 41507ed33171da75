//! CUDA's driver library, libcuda.so.1; the types are those of cuda.h.
#![allow(unsafe_code)]

use super::{DriverAnswer, DriverDevice, DriverError, Library, MAX_DEVICES, NO_DEVICE};
use super::{call, functions, number, text};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

functions! { Cuda {
    cuInit(c_uint);
    cuDriverGetVersion(*mut c_int);
    cuDeviceGetCount(*mut c_int);
    cuDeviceGet(*mut c_int, c_int);
    cuDeviceGetPCIBusId(*mut c_char, c_int, c_int);
    cuDeviceGetName(*mut c_char, c_int, c_int);
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
    let library = Library::open(&[c"libcuda.so.1"])?;
    let cuda = Cuda::of(&library)?;
    // SAFETY: both have this type in cuda.h; the second is there since CUDA 11.4.
    let uuid_of: GetUuid = unsafe {
        let newer = library.symbol("cuDeviceGetUuid_v2");
        newer.or_else(|_| library.symbol("cuDeviceGetUuid"))?
    };
    let mut devices = Vec::new();
    // SAFETY: the pointers are valid for the header's types, and the buffers as long as is said.
    unsafe {
        let begun = call!(cuda.cuInit(0));
        // this call needs no cuInit
        let version = Some(number(|at| call!(cuda.cuDriverGetVersion(at)))?);
        if begun == Err(DriverError::Call("cuInit", NO_DEVICE)) {
            return Ok(DriverAnswer { version, devices });
        }
        begun?;
        let count = number(|at| call!(cuda.cuDeviceGetCount(at)))?;
        for ordinal in 0..count.min(MAX_DEVICES) {
            let device = number(|at| call!(cuda.cuDeviceGet(at, ordinal)))?;
            let address = text(|at, room| call!(cuda.cuDeviceGetPCIBusId(at, room, device)))?;
            let name = Some(text(|at, room| {
                call!(cuda.cuDeviceGetName(at, room, device))
            })?);
            let mut uuid = [0; 16];
            match uuid_of(&mut uuid, device) {
                0 => {}
                number => return Err(DriverError::Call("cuDeviceGetUuid", number)),
            }
            let mut uuid = format!("GPU-{:032x}", u128::from_be_bytes(uuid));
            [12, 17, 22, 27].iter().for_each(|at| uuid.insert(*at, '-'));
            devices.push(DriverDevice {
                address,
                uuid: Some(uuid),
                name,
            });
        }
        Ok(DriverAnswer { version, devices })
    }
}

/// Megabytes (10^6 bytes) in a second, between a GPU and page-locked memory of the host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Copies {
    pub to_device_mb_s: f64,
    pub to_host_mb_s: f64,
}

/// Memory and a context, freed on drop.
struct Lent<'a> {
    cuda: &'a Cuda,
    device: c_int,
    on_device: u64,
    on_host: *mut c_void,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // SAFETY: each is CUDA's and is given back once; the context goes last. A refusal changes nothing for us.
        unsafe {
            if self.on_device != 0 {
                (self.cuda.cuMemFree_v2)(self.on_device);
            }
            if !self.on_host.is_null() {
                (self.cuda.cuMemFreeHost)(self.on_host);
            }
            (self.cuda.cuDevicePrimaryCtxRelease)(self.device);
        }
    }
}

pub(super) fn copies(
    bytes: usize,
    rounds: u32,
    clock: &dyn Fn() -> f64,
) -> Result<Copies, DriverError> {
    let cuda = &Cuda::of(&Library::open(&[c"libcuda.so.1"])?)?;
    let rate = |copy: &dyn Fn() -> Result<(), DriverError>| {
        // one round that is not counted
        copy()?;
        let begun = clock();
        (0..rounds).try_for_each(|_| copy())?;
        Ok(bytes as f64 * f64::from(rounds) / 1e6 / (clock() - begun).max(1e-9))
    };
    // SAFETY: the pointers are valid for the header's types. The context is retained, and both memories have so many bytes,
    // until `lent` is dropped; the source of a copy was written.
    unsafe {
        call!(cuda.cuInit(0))?;
        let device = number(|at| call!(cuda.cuDeviceGet(at, 0)))?;
        let mut context = null_mut();
        call!(cuda.cuDevicePrimaryCtxRetain(&mut context, device))?;
        let mut lent = Lent {
            cuda,
            device,
            on_device: 0,
            on_host: null_mut(),
        };
        call!(cuda.cuCtxSetCurrent(context))?;
        call!(cuda.cuMemAlloc_v2(&mut lent.on_device, bytes))?;
        call!(cuda.cuMemHostAlloc(&mut lent.on_host, bytes, 0))?;
        let (on_device, on_host) = (lent.on_device, lent.on_host);
        on_host.cast::<u8>().write_bytes(1, bytes);
        // with page-locked memory both calls return when the bytes are there (CUDA's manual, "API synchronization behavior")
        Ok(Copies {
            to_device_mb_s: rate(&|| call!(cuda.cuMemcpyHtoD_v2(on_device, on_host, bytes)))?,
            to_host_mb_s: rate(&|| call!(cuda.cuMemcpyDtoH_v2(on_host, on_device, bytes)))?,
        })
    }
}
