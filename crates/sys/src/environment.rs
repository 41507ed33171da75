//! setenv(3) and unsetenv(3), which must not race with getenv(3) of another thread.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;

/// Sets a variable of this process, or removes it.
///
/// For the first two hooks in srun, sbatch and salloc, which then have one thread: they start others
/// once their options are settled (Slurm's `init_srun`: "This must happen before we spawn any
/// threads"), and Slurm itself calls setenv(3) there (src/common/spank.c, `_option_setenv`).
pub fn set_variable_before_threads(name: &str, value: Option<&str>) -> io::Result<()> {
    let (name, value) = (CString::new(name)?, value.map(CString::new).transpose()?);
    // SAFETY: std's functions are unsafe too, and return no error.  The texts end with NUL and are
    // copied; there is no other thread, see above.
    super::checked(unsafe {
        match value {
            Some(value) => libc::setenv(name.as_ptr(), value.as_ptr(), 1),
            None => libc::unsetenv(name.as_ptr()),
        }
    })
}
