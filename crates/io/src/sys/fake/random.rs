//! Repeatable random numbers (SplitMix64, which accepts any seed).

#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which must not be 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Returns true in `thousandths` of a thousand cases. A probability of 0 uses no random number, so that a disabled fault does
    /// not change the occurrence of others.
    pub(super) fn chance(&mut self, thousandths: u32) -> bool {
        thousandths != 0 && self.next() % 1000 < u64::from(thousandths)
    }
}
