//! What stands between a caller's bytes and a call: limits before it, and a wall that no panic gets over.
#![forbid(unsafe_code)]

use crate::failure::{Failure, Kind};
use crate::request::MAX_BYTES;
use nic_placement_core::diagnostic::Shown;
use std::cell::RefCell;
use std::ffi::{CString, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

pub(crate) type Call = fn(&str) -> Result<String, Failure>;

/// Characters of a failure's text, at most: a request may hold megabytes, and a text quotes it.
const MAX_WHY: usize = 1024;

thread_local! {
    /// where this thread panicked
    static PLACE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Bytes that may be read; the caller's pointer is looked at only where this agrees.
pub(crate) fn is_readable(is_null: bool, length: usize) -> Result<(), Failure> {
    match (is_null, length) {
        (true, _) => Err(Failure::new(Kind::Argument, "`request` is NULL")),
        (false, length) if length > MAX_BYTES => {
            let why = format!("the request has {length} bytes: expected {MAX_BYTES} at most");
            Err(Failure::new(Kind::Argument, why))
        }
        _ => Ok(()),
    }
}

pub(crate) fn answer(call: Call, request: Result<&[u8], Failure>) -> (c_int, CString) {
    quiet();
    let answered = catch_unwind(AssertUnwindSafe(|| {
        let text = std::str::from_utf8(request?).map_err(|bad| {
            Failure::new(Kind::Argument, format!("the request is no UTF-8: {bad}"))
        })?;
        call(text)
    }));
    let answered = answered.unwrap_or_else(|payload| {
        // what was thrown may throw again when it goes
        std::mem::forget(payload);
        let place = PLACE.with(RefCell::take);
        Err(Failure::new(
            Kind::Bug,
            format!("bug at {place}; please report this"),
        ))
    });
    told(answered)
}

/// What the caller sees of an answer, or of why there is none.
pub fn told(answered: Result<String, Failure>) -> (c_int, CString) {
    match answered {
        Ok(text) => (0, c_text(text)),
        Err(failure) => (
            failure.kind as c_int,
            c_text(Shown::message(&failure.why, MAX_WHY).to_string()),
        ),
    }
}

fn c_text(text: String) -> CString {
    // no answer of ours has a NUL in it
    CString::new(text.replace('\0', "")).unwrap_or_default()
}

/// A library writes nothing to the terminal of the program that loads it.  This standard library is linked into ours alone,
/// so the program's own panics, if it is of Rust too, are not touched.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let place = panic
                .location()
                .map(ToString::to_string)
                .unwrap_or_default();
            PLACE.with(|last| last.replace(place));
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(call: Call, request: &[u8]) -> (c_int, String) {
        let (status, text) = answer(call, is_readable(false, request.len()).map(|()| request));
        (status, text.into_string().unwrap())
    }

    #[test]
    fn a_panic_is_an_answer_that_names_its_place() {
        let bug: Call = |_| panic!("on purpose");
        let (status, why) = answered(bug, b"{}");
        assert_eq!(status, 5);
        let is_placed = why.starts_with("bug at crates/capi/src/wall.rs:");
        assert!(is_placed && why.ends_with("; please report this"), "{why}");
        let (status, text) = answered(|text| Ok(text.to_string()), b"after it");
        assert_eq!((status, text.as_str()), (0, "after it"));
    }

    #[test]
    fn a_text_that_cannot_be_a_request_is_refused_before_it_is_read() {
        let never: Call = |_| unreachable!();
        for (request, start) in [
            (is_readable(true, 0), "`request` is NULL"),
            (
                is_readable(false, usize::MAX),
                "the request has 18446744073709551615 bytes: expected",
            ),
            (Ok(()), "the request is no UTF-8"),
        ] {
            let (status, why) = answer(never, request.map(|()| &b"\xff"[..]));
            let why = why.to_string_lossy();
            assert!(status == 1 && why.starts_with(start), "{why:?}");
        }
    }

    #[test]
    fn a_failures_text_is_one_short_line() {
        let long = "a\nb\u{1b}".repeat(1000);
        let (status, why) = answered(|text| Err(Failure::request(text)), long.as_bytes());
        assert_eq!(status, 2);
        let is_short = why.chars().count() < 3 * MAX_WHY;
        assert!(
            is_short && !why.chars().any(char::is_control),
            "{}",
            why.len()
        );
    }
}
