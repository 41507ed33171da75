//! All cases.

use super::world::World;
use super::{nics, paths, users};
use crate::audit::report::Level;

/// A node and what one check makes of it.
pub(super) struct Case {
    pub(super) code: &'static str,
    /// in a few words
    pub(super) name: &'static str,
    pub(super) world: World,
    /// the worst that it finds; `None` where it says nothing
    pub(super) worst: Option<Level>,
    /// words of a finding
    pub(super) says: &'static str,
}

/// A case.
pub(super) fn case(
    code: &'static str,
    name: &'static str,
    world: World,
    worst: impl Into<Option<Level>>,
    says: &'static str,
) -> Case {
    Case {
        code,
        name,
        world,
        worst: worst.into(),
        says,
    }
}

pub(super) fn all() -> Vec<Case> {
    [
        nics::node(),
        nics::ports(),
        nics::roce(),
        paths::links(),
        paths::gpudirect(),
        paths::redirect(),
        paths::translation(),
    ]
    .into_iter()
    .chain([
        users::installation(),
        users::admin(),
        users::caller(),
        users::kernel(),
    ])
    .flatten()
    .collect()
}
