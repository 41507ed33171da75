//! The C interface of `include/nic_placement.h`, for launchers: a request as JSON goes in, an answer comes out.
//!
//! The one file here that may hold `unsafe`: it turns a caller's pointers into bytes, and an answer into a pointer.  Nothing
//! is kept from one call to the next, so calls from several threads do not meet.  What is `pub` here and no function of the
//! header is for the fuzz targets, which drive the calls without pointers.

pub mod calls;
pub mod failure;
mod lines;
mod request;
pub mod wall;

use std::ffi::{CStr, CString, c_char, c_int};
use wall::Call;

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };

/// The functions of the header that answer a request.
macro_rules! answers {
    ($($name:ident $call:path,)*) => {$(
        /// # Safety
        ///
        /// `request` is NULL or points to `length` bytes that no thread writes to during the call; `answer` is NULL or points to a
        /// pointer that may be written to.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(request: *const c_char, length: usize, answer: *mut *mut c_char) -> c_int {
            // SAFETY: a pointer of C's is needed here, and the caller promises what `call` wants.
            unsafe { call($call, request, length, answer) }
        }
    )*};
}

answers! {
    nic_placement_plan calls::plan,
    nic_placement_map calls::map,
    nic_placement_task calls::task,
    nic_placement_render calls::render,
    nic_placement_process calls::process,
}

/// # Safety
///
/// `answer` is NULL or what one of the calls above wrote, given back once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nic_placement_free(answer: *mut c_char) {
    if !answer.is_null() {
        // SAFETY: it came from `CString::into_raw` in `call`, and the caller promises to give it back once.
        drop(unsafe { CString::from_raw(answer) });
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nic_placement_version() -> *const c_char {
    VERSION.as_ptr()
}

/// # Safety
///
/// As [`nic_placement_map`].
unsafe fn call(
    call: Call,
    request: *const c_char,
    length: usize,
    answer: *mut *mut c_char,
) -> c_int {
    if answer.is_null() {
        return failure::Kind::Argument as c_int;
    }
    let readable = wall::is_readable(request.is_null(), length);
    let request = readable.map(|()| {
        // SAFETY: it is not NULL, the caller says that so many bytes are there and stay, and they are fewer than
        // `isize::MAX`.
        unsafe { std::slice::from_raw_parts(request.cast::<u8>(), length) }
    });
    let (status, text) = wall::answer(call, request);
    // SAFETY: it is not NULL, and the caller says that it may be written to; what was there is not ours to free.
    unsafe { answer.write(text.into_raw()) };
    status
}
