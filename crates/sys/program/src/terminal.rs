//! The size of a terminal.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

/// Columns and lines; `None` if the descriptor is no terminal, or the terminal reports 0.
pub fn terminal_size(of: BorrowedFd) -> [Option<u16>; 2] {
    // SAFETY: TIOCGWINSZ writes one `winsize`, for which all zero is valid; the borrow keeps the descriptor open.
    let size: libc::winsize = unsafe {
        let mut size = std::mem::zeroed();
        libc::ioctl(of.as_raw_fd(), libc::TIOCGWINSZ, &mut size);
        size
    };
    [size.ws_col, size.ws_row].map(|number| (number > 0).then_some(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_no_terminal_has_no_columns() {
        assert_eq!(
            terminal_size(std::fs::File::open("/dev/null").unwrap().as_fd()),
            [None; 2]
        );
    }
}
