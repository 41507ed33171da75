//! The width of a terminal.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

/// `None` if the descriptor is no terminal, or the terminal reports 0.
pub fn terminal_columns(of: BorrowedFd) -> Option<u16> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: TIOCGWINSZ writes one `winsize`; the borrow keeps the descriptor open.
    let done = unsafe { libc::ioctl(of.as_raw_fd(), libc::TIOCGWINSZ, &mut size) };
    Some(size.ws_col).filter(|columns| done == 0 && *columns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_no_terminal_has_no_columns() {
        assert_eq!(
            terminal_columns(std::fs::File::open("/dev/null").unwrap().as_fd()),
            None
        );
    }
}
