//! dl_iterate_phdr(3): the load order of shared objects. Slurm loads and calls plugins in the
//! order of plugstack.conf's lines.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_void};

struct Search<'a> {
    file_name: &'a [u8],
    /// true after the object that contains `look`
    past_us: bool,
    found: bool,
}

pub fn is_loaded_after_us(file_name: &str) -> bool {
    let mut search = Search {
        file_name: file_name.as_bytes(),
        past_us: false,
        found: false,
    };
    // SAFETY: `look` has the callback's signature, and only `look` uses `search` during the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn look(
    object: *mut libc::dl_phdr_info,
    _size: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: dl_iterate_phdr(3) passes a valid `object`, `is_loaded_after_us` a valid `search`.
    let (object, search) = unsafe { (&*object, &mut *search.cast::<Search>()) };
    if search.past_us && !object.dlpi_name.is_null() {
        // SAFETY: the loader's names end with NUL.
        let name = unsafe { CStr::from_ptr(object.dlpi_name) }.to_bytes();
        search.found |= name.rsplit(|byte| *byte == b'/').next() == Some(search.file_name);
    }
    let us = look as *const () as usize as u64;
    for number in 0..object.dlpi_phnum {
        // SAFETY: the array has `dlpi_phnum` headers.
        let header = unsafe { &*object.dlpi_phdr.add(number.into()) };
        let start = object.dlpi_addr.wrapping_add(header.p_vaddr);
        search.past_us |= header.p_type == libc::PT_LOAD && us.wrapping_sub(start) < header.p_memsz;
    }
    0
}

#[cfg(test)]
mod tests {
    use super::is_loaded_after_us;

    #[test]
    fn objects_that_a_program_needs_come_after_it() {
        assert!(is_loaded_after_us("libc.so.6"));
        assert!(!is_loaded_after_us("libc.so"));
        assert!(!is_loaded_after_us("no-such-plugin.so"));
        // the program itself has no name here, and is not after itself
        assert!(!is_loaded_after_us(""));
    }
}
