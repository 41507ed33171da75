//! Numbers by chance, the same for the same seed.

/// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
pub struct Rng(u64);

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    pub fn new(seed: u64, index: u64) -> Rng {
        let mut rng = Rng(seed.wrapping_mul(GOLDEN) ^ index);
        // neighbours' first numbers are alike
        Rng(rng.next() ^ index.wrapping_mul(GOLDEN))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, end: u32) -> u32 {
        (self.next() % u64::from(end.max(1))) as u32
    }

    pub fn percent(&mut self, chance: u32) -> bool {
        self.below(100) < chance
    }

    pub fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u32) as usize]
    }

    /// One of those that `fits` takes; none if there is none.
    pub fn of_fitting<T: Copy>(&mut self, list: &[T], fits: impl Fn(T) -> bool) -> Option<T> {
        let fitting: Vec<T> = list.iter().copied().filter(|item| fits(*item)).collect();
        if fitting.is_empty() {
            None
        } else {
            Some(self.of(&fitting))
        }
    }
}
