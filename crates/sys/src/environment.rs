//! setenv(3) and unsetenv(3) of the calling process, through libc: they must not race with another thread's
//! getenv(3).
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;

/// Sets a variable of this process, or removes it.
///
/// For the first two hooks in srun, sbatch and salloc, where no thread runs but the one that calls us: they start theirs
/// after their options are settled (Slurm's `init_srun`: "This must happen before we spawn any threads"), and Slurm itself
/// calls setenv(3) there (src/common/spank.c, `_option_setenv`).
pub fn set_variable_before_threads(name: &str, value: Option<&str>) -> io::Result<()> {
    let (name, value) = (CString::new(name)?, value.map(CString::new).transpose()?);
    // SAFETY: std's functions are as unsafe here and say less.  The texts end with NUL and are copied; no other thread reads
    // or writes the environment, see above.
    super::checked(unsafe {
        match value {
            Some(value) => libc::setenv(name.as_ptr(), value.as_ptr(), 1),
            None => libc::unsetenv(name.as_ptr()),
        }
    })
}
