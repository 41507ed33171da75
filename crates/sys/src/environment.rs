//! setenv(3) of the calling process, through libc: it must not race with another thread's getenv(3).
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;

/// Sets a variable of this process.
///
/// For srun's `slurm_spank_init_post_opt`, where srun has only the thread that calls us: it starts its signal
/// and message threads after it has processed its options (Slurm's src/srun/libsrun/srun_job.c, `init_srun`
/// before `create_srun_job`).
pub fn set_variable_before_threads(name: &str, value: &str) -> io::Result<()> {
    let (name, value) = (CString::new(name)?, CString::new(value)?);
    // SAFETY: both texts end with NUL and are copied; no other thread reads or writes the environment, see above.
    let result = unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
