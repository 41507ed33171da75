//! How a place divides what it carries among the ways that cross it.
#![forbid(unsafe_code)]

/// What each user may have of a place at most: an even part, where users that cannot use all of theirs leave the rest to
/// the others.  `u64::MAX` where there is enough for all.  `owns` says, in ascending order, what each of the `users` can
/// use at most.
pub(super) fn level(capacity: u64, users: usize, owns: impl IntoIterator<Item = u64>) -> u64 {
    let (mut left, mut users) = (capacity, users as u64);
    for own in owns {
        let even = left / users;
        if own > even {
            return even;
        }
        (left, users) = (left - own, users - 1);
    }
    u64::MAX
}
