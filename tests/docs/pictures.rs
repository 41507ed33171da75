//! The README's picture: the tool's own, and small.

use crate::{path, read, tool};
use std::fs;

const NAME: &str = "docs/plan-dgx-h100";
/// a PNG of the tool's has so many dots for a pixel
const ZOOM: f64 = 2.0;

#[test]
fn the_readme_s_picture_is_what_the_tool_draws() {
    let drawn = tool(&[
        "plan",
        "--machine",
        "dgx-h100",
        "--gpus-per-task",
        "1",
        "--svg",
    ]);
    let svg = format!("{NAME}.svg");
    assert!(
        read(&svg) == drawn,
        "{svg} differs: `make pictures` draws it"
    );
    assert!(
        read("README.md").contains(&format!("<img src=\"{NAME}.png\"")),
        "README.md does not show it"
    );
}

#[test]
fn the_readme_s_picture_has_the_size_of_the_drawing_and_loads_fast() {
    let bytes = fs::read(path(&format!("{NAME}.png"))).unwrap();
    assert!(bytes.len() < 150_000, "{} bytes", bytes.len());
    assert_eq!(&bytes[..8], b"\x89PNG\r\n\x1a\n");
    // the width and the height of the header, IHDR
    let length = |at: usize| f64::from(u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()));
    let svg = read(&format!("{NAME}.svg"));
    let view = svg
        .split("viewBox=\"0 0 ")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let lengths = view
        .split(' ')
        .map(|word| word.parse::<f64>().unwrap() * ZOOM);
    for (is, of) in [length(16), length(20)].into_iter().zip(lengths) {
        assert!(
            (is - of).abs() <= 1.0,
            "the PNG has {is} dots and not {of}: `make pictures` draws it"
        );
    }
}
