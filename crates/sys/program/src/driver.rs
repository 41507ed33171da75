//! The GPUs of the vendors' own libraries, which are loaded when asked, never linked. A call may hang for ever: the caller is
//! a process of its own, under timeout(1).
//!
//! Output of a library on stdout goes to stderr.
#![allow(unsafe_code)]

mod cuda;
mod hip;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::mem::{size_of, transmute_copy};

/// Devices of one driver, at most.
const MAX_DEVICES: c_int = 256;
/// Bytes of a text that a library writes, at most.
const TEXT: usize = 256;
/// CUDA_ERROR_NO_DEVICE (cuda.h) and hipErrorNoDevice (hip_runtime_api.h), which is an answer.
const NO_DEVICE: c_int = 100;

#[derive(Default)]
pub struct DriverAnswer {
    /// as the library numbers itself: 12040 is CUDA 12.4
    pub version: Option<i32>,
    /// in the driver's order, the first 256: the PCI address as the driver writes it; `GPU-` and 32 digits, of a MIG instance
    /// its own number (cuda.h, `cuDeviceGetUuid_v2`), and the name, where the driver was asked
    pub devices: Vec<(String, Option<String>, Option<String>)>,
}

/// Reason why a driver does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverError {
    /// dlopen(3) finds no such library, or cannot load it
    Absent,
    Symbol(&'static str),
    Call(&'static str, i32),
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DriverError::Absent => f.write_str("its library is not installed, or cannot be loaded"),
            DriverError::Symbol(name) => write!(f, "its library has no `{name}`"),
            DriverError::Call(name, number) => write!(f, "`{name}` answered {number}"),
        }
    }
}

/// The devices that each driver shows to this process.
pub fn ask_drivers() -> [(&'static str, Result<DriverAnswer, DriverError>); 2] {
    without_stdout(|| [("cuda", cuda::ask()), ("hip", hip::ask())])
}

/// Megabytes (10^6 bytes) in a second, to the first CUDA device and back, in `rounds` copies of so many bytes between it and
/// page-locked memory of the host. `clock` counts seconds.
pub fn copies(bytes: usize, rounds: u32, clock: &dyn Fn() -> f64) -> Result<[f64; 2], DriverError> {
    without_stdout(|| cuda::copies(bytes, rounds, clock))
}

/// A library that stays loaded: drivers' threads run its code until the process ends.
struct Library(*mut c_void);

impl Library {
    /// The first of these that can be loaded.
    fn open(names: &[&CStr]) -> Result<Library, DriverError> {
        let load = |name: &&CStr| {
            // SAFETY: the name ends with NUL. The library's constructors run, as they would in each program of its users.
            let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            (!handle.is_null()).then_some(Library(handle))
        };
        names.iter().find_map(load).ok_or(DriverError::Absent)
    }

    /// # Safety
    ///
    /// `F` is a pointer to a function, with the types of the library's header.
    unsafe fn symbol<F: Copy>(&self, name: &'static str) -> Result<F, DriverError> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let text = CString::new(name).map_err(|_| DriverError::Symbol(name))?;
        // SAFETY: the handle is dlopen's, and the name ends with NUL.
        let address = unsafe { libc::dlsym(self.0, text.as_ptr()) };
        if address.is_null() {
            return Err(DriverError::Symbol(name));
        }
        // SAFETY: both are as long as a pointer, and the caller says that the address is an `F`.
        Ok(unsafe { transmute_copy(&address) })
    }
}

/// A table of a library's functions, with its header's types. Each returns 0 on success.
macro_rules! functions {
    ($table:ident { $($name:ident($($argument:ident: $kind:ty),*);)* }) => {
        #[allow(non_snake_case, reason = "the library's own names")]
        struct $table { $($name: unsafe extern "C" fn($($kind),*) -> std::ffi::c_int,)* }

        #[allow(non_snake_case, reason = "the library's own names")]
        impl $table {
            fn of(library: &Library) -> Result<$table, DriverError> {
                Ok($table {
                    $(
                        // SAFETY: the types are those of the header that the table names.
                        $name: unsafe { library.symbol(stringify!($name)) }?,
                    )*
                })
            }

            $(
                unsafe fn $name(&self, $($argument: $kind),*) -> Result<(), DriverError> {
                    // SAFETY: the caller's.
                    match unsafe { (self.$name)($($argument),*) } {
                        0 => Ok(()),
                        number => Err(DriverError::Call(stringify!($name), number)),
                    }
                }
            )*
        }
    };
}

use functions;

fn number(write: impl FnOnce(*mut c_int) -> Result<(), DriverError>) -> Result<c_int, DriverError> {
    let mut number = 0;
    write(&mut number)?;
    Ok(number)
}

/// A text that a function writes into so many bytes; the last byte ends it.
fn text(
    write: impl FnOnce(*mut c_char, c_int) -> Result<(), DriverError>,
) -> Result<String, DriverError> {
    let mut bytes = [0u8; TEXT + 1];
    write(bytes.as_mut_ptr().cast(), TEXT as c_int)?;
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

fn without_stdout<T>(run: impl FnOnce() -> T) -> T {
    // SAFETY: these calls touch no memory of ours but C's own buffers, which fflush writes out. Where a descriptor cannot be
    // copied, stdout stays.
    let kept = unsafe {
        libc::fflush(std::ptr::null_mut());
        let kept = libc::dup(1);
        if kept != -1 {
            libc::dup2(2, 1);
        }
        kept
    };
    let result = run();
    if kept != -1 {
        // SAFETY: as above; bytes that C's printf(3) holds back are written before stdout is there again.
        unsafe {
            libc::fflush(std::ptr::null_mut());
            libc::dup2(kept, 1);
            libc::close(kept);
        }
    }
    result
}
