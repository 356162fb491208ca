//! All chance in these tests comes from one seed, which is printed: `CORKBOARD_SEED` throws the same again.
//!
//! The same seed gives the same calls and the same moments to kill. What the machine does in between is its own affair, so
//! a failure may need several runs to come back.

use std::hash::{BuildHasher, Hasher, RandomState};

#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    #[expect(clippy::print_stdout, reason = "whoever sees the failure needs the seed")]
    pub(crate) fn from_environment() -> Self {
        let seed = match std::env::var("CORKBOARD_SEED") {
            Ok(text) => text.parse().expect("CORKBOARD_SEED is a number"),
            Err(_) => RandomState::new().build_hasher().finish(),
        };
        println!("CORKBOARD_SEED={seed}");
        Self(seed)
    }

    /// Dice of their own for somebody who throws at the same time.
    pub(crate) fn split(&mut self) -> Self {
        Self(self.next())
    }

    /// SplitMix64.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn pick<T>(&mut self, from: impl ExactSizeIterator<Item = T>) -> Option<T> {
        let (len, mut from) = (from.len() as u64, from);
        if len == 0 { None } else { from.nth(self.below(len) as usize) }
    }
}
