//! The README's picture: the tool's own.

use crate::{read, tool};

const NAME: &str = "docs/plan-dgx-h100";

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
        read("README.md").contains(&format!("<img src=\"{NAME}.svg\"")),
        "README.md does not show it"
    );
}
