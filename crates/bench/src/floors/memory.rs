//! How fast one thread copies bytes and how fast it encrypts them.

use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_256_GCM_SHA384;
use rustls::crypto::cipher::{AeadKey, Iv, OutboundChunks, OutboundPlainMessage};
use rustls::{ContentType, ProtocolVersion};

use crate::noise::Noise;
use crate::stopwatch::Stopwatch;

/// Larger than any cache, so that memory is measured.
const COPY_BYTES: usize = 256 * 1024 * 1024;
const COPY_ROUNDS: u32 = 4;
/// The largest TLS record.
const RECORD_BYTES: usize = 16_384;
const RECORDS: u64 = 32_768;

pub(super) fn copy_mb_per_s() -> f64 {
    let source = vec![1u8; COPY_BYTES];
    let mut target = vec![0u8; COPY_BYTES];
    let watch = Stopwatch::start();
    for _ in 0..COPY_ROUNDS {
        target.copy_from_slice(std::hint::black_box(&source));
        std::hint::black_box(&mut target);
    }
    f64::from(COPY_ROUNDS) * COPY_BYTES as f64 / 1e6 / watch.seconds()
}

/// Through the same code that TLS uses, record by record.
pub(super) fn cipher_mb_per_s() -> anyhow::Result<f64> {
    let suite = TLS13_AES_256_GCM_SHA384.tls13().ok_or_else(|| anyhow::anyhow!("the TLS 1.3 suite is not built in"))?;
    let mut encrypter = suite.aead_alg.encrypter(AeadKey::from([7; 32]), Iv::copy(&[9; 12]));
    let plain = Noise::new(2).bytes(RECORD_BYTES);
    let watch = Stopwatch::start();
    for sequence in 0..RECORDS {
        let payload = OutboundChunks::Single(&plain);
        let message =
            OutboundPlainMessage { typ: ContentType::ApplicationData, version: ProtocolVersion::TLSv1_2, payload };
        std::hint::black_box(encrypter.encrypt(message, sequence)?);
    }
    Ok(RECORDS as f64 * RECORD_BYTES as f64 / 1e6 / watch.seconds())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_cipher_runs() {
        assert!(super::cipher_mb_per_s().unwrap() > 10.0);
    }
}
