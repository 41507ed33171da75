//! A set of rails, a bit for each.

/// The most rails of a node: the bits of a `u64`.
pub(crate) const MOST_RAILS: usize = 64;

/// Positions of rails, below [`MOST_RAILS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RailSet(u64);

impl RailSet {
    pub fn first(count: usize) -> RailSet {
        (0..count.min(MOST_RAILS)).collect()
    }

    pub fn contains(self, rail: usize) -> bool {
        self.0 >> rail & 1 == 1
    }

    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> + use<> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let first = left.trailing_zeros() as usize;
            (left != 0).then(|| {
                left &= left - 1;
                first
            })
        })
    }

    pub fn with(self, rail: usize) -> RailSet {
        RailSet(self.0 | 1 << rail)
    }

    pub fn without(self, rail: usize) -> RailSet {
        RailSet(self.0 & !(1 << rail))
    }

    pub fn and(self, other: RailSet) -> RailSet {
        RailSet(self.0 & other.0)
    }

    pub fn minus(self, other: RailSet) -> RailSet {
        RailSet(self.0 & !other.0)
    }

    pub fn union(sets: &[RailSet]) -> RailSet {
        RailSet(sets.iter().fold(0, |all, set| all | set.0))
    }
}

impl FromIterator<usize> for RailSet {
    fn from_iter<T: IntoIterator<Item = usize>>(rails: T) -> RailSet {
        rails.into_iter().fold(RailSet::default(), RailSet::with)
    }
}
