//! The README's picture: the tool's own.

use crate::{hold, read, tool};

#[test]
fn the_readme_s_picture_is_what_the_tool_draws() {
    let svg = "docs/plan-dgx-h100.svg";
    let drawn = tool("plan --machine dgx-h100 --gpus-per-task 1 --svg");
    hold(svg, &drawn);
    let is_so = read("README.md").contains(&format!("<img src=\"{svg}\""));
    assert!(is_so, "README.md");
}
