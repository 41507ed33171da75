//! One sort for all types.
//!
//! std's sort is 7 KiB of code per type and key: it would be fifty copies in the plugin, which
//! every slurmd maps. [`Order`] sorts positions by one function for all types, then swaps the
//! elements. The solver still uses std's sort, for lists of numbers.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Stable sorts of slices.
pub trait Order<T> {
    fn order(&mut self)
    where
        T: Ord;

    /// The key is computed at each comparison.
    fn order_by_key<K: Ord>(&mut self, key: impl FnMut(&T) -> K);

    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);
}

impl<T> Order<T> for [T] {
    fn order(&mut self)
    where
        T: Ord,
    {
        self.order_by(T::cmp);
    }

    fn order_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }

    fn order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        // lists from the kernel and topology files are usually sorted already
        if self.is_sorted_by(|a, b| compare(a, b).is_le()) {
            return;
        }
        let mut from = sorted_places(self.len(), &mut |a, b| compare(&self[a], &self[b]));
        // each swap along a cycle of the permutation puts one element in place
        for start in 0..from.len() {
            let mut place = start;
            loop {
                let next = std::mem::replace(&mut from[place], place);
                if next == start {
                    break;
                }
                self.swap(place, next);
                place = next;
            }
        }
    }
}

/// The positions `0..count` in the order of their elements.
#[inline(never)]
fn sorted_places(count: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|&a, &b| compare(a, b));
    places
}

/// Collects into a set without std's sort, which `collect` would use.
pub fn set<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    set.extend(items);
    set
}

/// Collects into a map without std's sort; of equal keys the last value stays.
pub fn map<K: Ord, V>(items: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    map.extend(items);
    map
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_put_in_order_is_what_the_standard_library_sorts(
            mut items in prop::collection::vec((0u8..12, any::<String>()), 0..40)
        ) {
            let (mut by_key, mut down) = (items.clone(), items.clone());
            let mut expected = items.clone();
            expected.sort();
            items.order();
            prop_assert_eq!(&items, &expected);

            // stable: by the number alone, the texts stay as they were
            expected.clone_from(&by_key);
            expected.sort_by_key(|item| item.0);
            by_key.order_by_key(|item| item.0);
            prop_assert_eq!(&by_key, &expected);

            expected.clone_from(&down);
            expected.sort_by_key(|item| std::cmp::Reverse(item.0));
            down.order_by(|a, b| b.0.cmp(&a.0));
            prop_assert_eq!(&down, &expected);
        }

        #[test]
        fn a_set_and_a_map_are_what_collect_makes(items in prop::collection::vec((0u8..12, 0u8..4), 0..40)) {
            let (all, values): (BTreeSet<_>, BTreeMap<_, _>) =
                (items.iter().copied().collect(), items.iter().copied().collect());
            prop_assert_eq!(set(items.iter().copied()), all);
            prop_assert_eq!(map(items), values);
        }
    }
}
