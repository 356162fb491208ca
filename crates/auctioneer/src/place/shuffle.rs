//! Chance, from a seed. SplitMix64, written out so that a seed means the same in every release.

/// A stream of numbers; each auction takes one as its own seed.
#[derive(Clone, Copy, Debug)]
pub struct Seeds(u64);

impl Seeds {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            // The bias of a remainder is below one in 2^50 for any number of cells.
            let other = (self.draw() % (at as u64 + 1)) as usize;
            items.swap(at, other);
        }
    }
}
