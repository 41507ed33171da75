//! CUDA's driver library, libcuda.so.1; the types are those of cuda.h.
#![allow(unsafe_code)]

use super::{DriverAnswer, DriverError, Library, MAX_DEVICES, NO_DEVICE};
use super::{functions, number, text};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

functions! { Cuda {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGet(device: *mut c_int, ordinal: c_int);
    cuDeviceGetPCIBusId(text: *mut c_char, room: c_int, device: c_int);
    cuDeviceGetName(text: *mut c_char, room: c_int, device: c_int);
    cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int);
    cuDevicePrimaryCtxRelease(device: c_int);
    cuCtxSetCurrent(context: *mut c_void);
    cuMemAlloc_v2(at: *mut u64, bytes: usize);
    cuMemFree_v2(at: u64);
    cuMemHostAlloc(at: *mut *mut c_void, bytes: usize, flags: c_uint);
    cuMemFreeHost(at: *mut c_void);
    cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize);
    cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize);
} }

type GetUuid = unsafe extern "C" fn(*mut [u8; 16], c_int) -> c_int;

pub fn ask() -> Result<DriverAnswer, DriverError> {
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
        let begun = cuda.cuInit(0);
        // this call needs no cuInit
        let version = Some(number(|at| cuda.cuDriverGetVersion(at))?);
        if begun == Err(DriverError::Call("cuInit", NO_DEVICE)) {
            return Ok(DriverAnswer { version, devices });
        }
        begun?;
        let count = number(|at| cuda.cuDeviceGetCount(at))?;
        for ordinal in 0..count.min(MAX_DEVICES) {
            let device = number(|at| cuda.cuDeviceGet(at, ordinal))?;
            let address = text(|at, room| cuda.cuDeviceGetPCIBusId(at, room, device))?;
            let name = Some(text(|at, room| cuda.cuDeviceGetName(at, room, device))?);
            let mut uuid = [0; 16];
            match uuid_of(&mut uuid, device) {
                0 => {}
                number => return Err(DriverError::Call("cuDeviceGetUuid", number)),
            }
            let mut uuid = format!("GPU-{:032x}", u128::from_be_bytes(uuid));
            [12, 17, 22, 27].iter().for_each(|at| uuid.insert(*at, '-'));
            devices.push((address, Some(uuid), name));
        }
        Ok(DriverAnswer { version, devices })
    }
}

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
                let _ = self.cuda.cuMemFree_v2(self.on_device);
            }
            if !self.on_host.is_null() {
                let _ = self.cuda.cuMemFreeHost(self.on_host);
            }
            let _ = self.cuda.cuDevicePrimaryCtxRelease(self.device);
        }
    }
}

pub fn copies(bytes: usize, rounds: u32, clock: &dyn Fn() -> f64) -> Result<[f64; 2], DriverError> {
    let cuda = &Cuda::of(&Library::open(&[c"libcuda.so.1"])?)?;
    let rate = |copy: &dyn Fn() -> Result<(), DriverError>| {
        copy()?;
        let begun = clock();
        (0..rounds).try_for_each(|_| copy())?;
        Ok(bytes as f64 * f64::from(rounds) / 1e6 / (clock() - begun).max(1e-9))
    };
    // SAFETY: the pointers are valid for the header's types. The context is retained, and both memories have so many bytes,
    // until `lent` is dropped; the source of a copy was written.
    unsafe {
        cuda.cuInit(0)?;
        let device = number(|at| cuda.cuDeviceGet(at, 0))?;
        let mut context = null_mut();
        cuda.cuDevicePrimaryCtxRetain(&mut context, device)?;
        let mut lent = Lent {
            cuda,
            device,
            on_device: 0,
            on_host: null_mut(),
        };
        cuda.cuCtxSetCurrent(context)?;
        cuda.cuMemAlloc_v2(&mut lent.on_device, bytes)?;
        cuda.cuMemHostAlloc(&mut lent.on_host, bytes, 0)?;
        let (on_device, on_host) = (lent.on_device, lent.on_host);
        on_host.cast::<u8>().write_bytes(1, bytes);
        // with page-locked memory both calls return when the bytes are there (CUDA's manual, "API synchronization behavior")
        Ok([
            rate(&|| cuda.cuMemcpyHtoD_v2(on_device, on_host, bytes))?,
            rate(&|| cuda.cuMemcpyDtoH_v2(on_host, on_device, bytes))?,
        ])
    }
}
