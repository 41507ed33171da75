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

/// A table: a check's code, and under it the name of a case, the worst level, words of a finding, the node.
macro_rules! cases {
    ($(check $code:literal {
        $($name:literal: $worst:ident $says:expr, $world:expr;)+
    })+) => {
        vec![$($(Case {
            code: $code,
            name: $name,
            world: $world,
            worst: $worst.into(),
            says: $says,
        },)+)+]
    };
}
pub(super) use cases;

pub(super) fn all() -> Vec<Case> {
    let nics = [nics::node(), nics::ports(), nics::roce()];
    let paths = [paths::links(), paths::gpudirect(), paths::redirect()];
    let users = [users::installation(), users::admin(), users::caller()];
    let all = nics.into_iter().chain(paths).chain(users);
    all.chain([paths::translation(), users::kernel()])
        .flatten()
        .collect()
}
