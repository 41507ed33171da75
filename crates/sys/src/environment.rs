//! setenv(3) and unsetenv(3), which must not race with another thread's getenv(3).
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;

/// Sets a variable; without `value`, removes it.
///
/// Only for `slurm_spank_init` and `slurm_spank_init_post_opt` in srun, sbatch and salloc, which
/// start threads only later (Slurm's `init_srun`: "This must happen before we spawn any threads").
/// Slurm itself calls setenv(3) there (src/common/spank.c, `_option_setenv`).
pub fn set_variable_before_threads(name: &str, value: Option<&str>) -> io::Result<()> {
    let (name, value) = (CString::new(name)?, value.map(CString::new).transpose()?);
    // SAFETY: std's functions are unsafe too and return no error. The texts end with NUL and are
    // copied; no other thread exists, see above.
    super::checked(unsafe {
        match value {
            Some(value) => libc::setenv(name.as_ptr(), value.as_ptr(), 1),
            None => libc::unsetenv(name.as_ptr()),
        }
    })
}
