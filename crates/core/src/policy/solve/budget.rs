//! How much work all solving of one step may be.
#![forbid(unsafe_code)]

/// Work that may still be done, in looks: at what one place leaves to a GPU, or at one figure of a bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget(u64);

impl Budget {
    /// A budget of so many looks.
    pub fn new(looks: u64) -> Budget {
        Budget(looks)
    }

    /// Takes looks from it; `false` once it is used up.
    pub fn spend(&mut self, looks: u64) -> bool {
        self.0 = self.0.saturating_sub(looks);
        self.0 > 0
    }

    /// Is it used up?
    pub fn is_spent(&self) -> bool {
        self.0 == 0
    }

    /// What is left.
    pub fn left(&self) -> u64 {
        self.0
    }
}
