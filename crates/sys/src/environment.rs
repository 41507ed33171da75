//! setenv(3) and unsetenv(3) of the calling process, through libc: they must not race with another thread's
//! getenv(3).
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;

/// Sets a variable of this process.
///
/// For the first two hooks in srun, sbatch and salloc, where no thread runs but the one that calls us: they start theirs
/// after their options are settled (Slurm's `init_srun`: "This must happen before we spawn any threads"), and Slurm itself
/// calls setenv(3) there (src/common/spank.c, `_option_setenv`).
pub fn set_variable_before_threads(name: &str, value: &str) -> io::Result<()> {
    let (name, value) = (CString::new(name)?, CString::new(value)?);
    // SAFETY: both texts end with NUL and are copied; no other thread reads or writes the environment, see above.
    let result = unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Removes a variable of this process; where and why as for [`set_variable_before_threads`].
pub fn unset_variable_before_threads(name: &str) -> io::Result<()> {
    let name = CString::new(name)?;
    // SAFETY: the text ends with NUL; no other thread reads or writes the environment, see above.
    let result = unsafe { libc::unsetenv(name.as_ptr()) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
