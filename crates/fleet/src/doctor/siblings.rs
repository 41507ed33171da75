//! What equal devices of a node have in common: a fault shows where one differs from the others, not where all are alike.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

/// The value that more than half of them have, if there is one and at least one device has another.
pub(super) fn majority<T: Ord + Clone>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    values.into_iter().for_each(|value| *counts.entry(value).or_default() += 1);
    let all: usize = counts.values().sum();
    let is_alike = counts.len() < 2;
    let (value, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    (!is_alike && count * 2 > all).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_majority_is_more_than_half_of_those_that_differ() {
        assert_eq!(majority([1, 1, 2]), Some(1));
        assert_eq!((majority([1, 1]), majority([1, 2]), majority::<u32>([])), (None, None, None));
    }
}
