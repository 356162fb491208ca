//! Bytes that look random, do not compress, and are the same in every run.
//!
//! A seed is the number of a record, so what a record must contain can be computed again when it is read back; the
//! damage experiment relies on that. This is splitmix64, chosen because it is five lines and has no state to warm up.

#[derive(Clone, Debug)]
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            bytes.extend_from_slice(&self.word().to_le_bytes());
        }
        bytes.truncate(length);
        bytes
    }

    /// Letters and digits, as in keys, tokens and digests.
    pub fn text(&mut self, length: usize) -> String {
        const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789xy";
        self.bytes(length).into_iter().map(|byte| char::from(ALPHABET[usize::from(byte % 64)])).collect()
    }

    /// A guid that belongs to the seed.
    pub fn guid(&mut self) -> String {
        uuid::Uuid::from_u64_pair(self.word(), self.word()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
        assert_eq!(Noise::new(7).bytes(1_500), Noise::new(7).bytes(1_500));
        assert_ne!(Noise::new(7).bytes(1_500), Noise::new(8).bytes(1_500));
        assert_eq!(Noise::new(7).bytes(13).len(), 13);
        assert_eq!(Noise::new(7).guid().len(), 36);
    }

    #[test]
    fn bytes_are_spread_evenly_enough_not_to_compress() {
        let bytes = Noise::new(1).bytes(256 * 1_000);
        let mut counts = [0u32; 256];
        for byte in bytes {
            counts[usize::from(byte)] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
