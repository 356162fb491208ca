//! What AES-256-GCM takes for one record, on one thread, with the library that the server uses and nothing around it: no key
//! is looked up, no nonce is drawn, no memory is taken, and the record is in the cache.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use serde::Serialize;

use crate::median::median;
use crate::noise::Noise;
use crate::stopwatch::Stopwatch;

const CALLS_PER_ROUND: u32 = 20_000;
const ROUNDS: usize = 7;
/// As long as what the server binds a seal to: a time, a data version and the path of a record.
const BOUND_BYTES: usize = 80;

/// The cost of one record.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cipher {
    pub record_bytes: usize,
    pub seal_ns: f64,
    pub open_ns: f64,
}

/// Bytes in a nanosecond are gigabytes in a second.
impl Cipher {
    pub fn seal_gb_per_s(&self) -> f64 {
        self.record_bytes as f64 / self.seal_ns.max(1e-9)
    }

    pub fn open_gb_per_s(&self) -> f64 {
        self.record_bytes as f64 / self.open_ns.max(1e-9)
    }
}

pub fn cipher(record_bytes: usize) -> anyhow::Result<Cipher> {
    let mut noise = Noise::new(3);
    let failed = |_: Unspecified| anyhow::anyhow!("AES-256-GCM does not work on this machine");
    let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &noise.bytes(AES_256_GCM.key_len())).map_err(failed)?);
    let bound = noise.bytes(BOUND_BYTES);
    let mut record = noise.bytes(record_bytes);
    let mut number = 0_u64;
    let mut next_nonce = || {
        number += 1;
        let mut nonce = [0; NONCE_LEN];
        nonce[..8].copy_from_slice(&number.to_le_bytes());
        nonce
    };
    let seal_ns = per_call_ns(|| {
        let nonce = Nonce::assume_unique_for_key(next_nonce());
        let tag = key.seal_in_place_separate_tag(nonce, Aad::from(bound.as_slice()), &mut record).map_err(failed)?;
        let _ = std::hint::black_box(tag);
        Ok(())
    })?;
    let nonce = next_nonce();
    let again = || Nonce::assume_unique_for_key(nonce);
    let tag = key.seal_in_place_separate_tag(again(), Aad::from(bound.as_slice()), &mut record).map_err(failed)?;
    let mut plain = vec![0; record_bytes];
    let open_ns = per_call_ns(|| {
        key.open_separate_gather(again(), Aad::from(bound.as_slice()), &record, tag.as_ref(), &mut plain)
            .map_err(failed)?;
        std::hint::black_box(&plain);
        Ok(())
    })?;
    Ok(Cipher { record_bytes, seal_ns, open_ns })
}

/// The median of some rounds, after one that is not counted.
pub fn per_call_ns(mut call: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let mut rounds = Vec::with_capacity(ROUNDS);
    for round in 0..=ROUNDS {
        let watch = Stopwatch::start();
        for _ in 0..CALLS_PER_ROUND {
            call()?;
        }
        if round > 0 {
            rounds.push(watch.seconds() * 1e9 / f64::from(CALLS_PER_ROUND));
        }
    }
    Ok(median(rounds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_record_takes_longer_and_the_speed_is_that_of_bytes() {
        let (short, long) = (cipher(100).unwrap(), cipher(20_000).unwrap());
        assert!(
            short.seal_ns > 0.0 && long.seal_ns > short.seal_ns && long.open_ns > short.open_ns,
            "{short:?} {long:?}"
        );
        let cipher = Cipher { record_bytes: 1_000, seal_ns: 500.0, open_ns: 250.0 };
        assert_eq!((cipher.seal_gb_per_s(), cipher.open_gb_per_s()), (2.0, 4.0));
    }
}
