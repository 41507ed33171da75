//! The packages, as far as they can be checked without building one: what is installed, what is linked in, and the snippets.
//!
//! ```text
//! cargo test -p nic-placement-cli --test packages             fails if a list differs from what it lists
//! BLESS=1 cargo test -p nic-placement-cli --test packages     rewrites the lists
//! make test-packages                                          makes packages, and installs them in clean roots
//! ```

#[path = "tool/answer.rs"]
mod answer;
#[path = "packages/archive.rs"]
mod archive;
#[path = "packages/installed.rs"]
mod installed;
#[path = "packages/licences.rs"]
mod licences;
#[path = "packages/parts.rs"]
mod parts;
#[path = "packages/recipes.rs"]
mod recipes;
#[path = "packages/release.rs"]
mod release;

use answer::{Answer, Place, TOOL, checkout as path, flat};
use std::fs;

fn read(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A file of the tree is as it is made, or is made so.
fn is_as_made(name: &str, made: &str) {
    if std::env::var_os("BLESS").is_some() {
        fs::write(path(name), made).unwrap();
    }
    let found = fs::read_to_string(path(name)).unwrap_or_default();
    let mut lines = found.lines().zip(made.lines());
    let at = lines.position(|(found, made)| found != made);
    assert!(
        found == made,
        "{name}: line {at:?} from 0 differs: BLESS=1 writes it"
    );
}
