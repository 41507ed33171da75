//! NCCL, libnccl.so.2; the types are those of nccl.h.
#![allow(unsafe_code)]

use super::{DriverError, Library, call, functions, number};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

/// `ncclUniqueId`
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([c_char; 128]);

functions! { Asked {
    ncclGetVersion(*mut c_int);
    ncclGetUniqueId(*mut UniqueId);
    ncclCommInitRank(*mut *mut c_void, c_int, UniqueId, c_int);
    ncclCommDestroy(*mut c_void);
} }

pub(super) fn topology() -> Result<i32, DriverError> {
    let nccl = Asked::of(&Library::open(&[c"libnccl.so.2"])?)?;
    // SAFETY: the pointer is valid for an int.
    let version = number(|at| unsafe { call!(nccl.ncclGetVersion(at)) })?;
    let mut id = UniqueId([0; 128]);
    let mut communicator = null_mut();
    // SAFETY: the pointers are valid for what is written there, and the communicator is destroyed once.
    unsafe {
        call!(nccl.ncclGetUniqueId(&mut id))?;
        call!(nccl.ncclCommInitRank(&mut communicator, 1, id, 0))?;
        call!(nccl.ncclCommDestroy(communicator))?;
    }
    Ok(version)
}
