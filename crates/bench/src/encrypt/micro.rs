//! What sealing and opening one record takes in the code of the server: the key is found by its name, the nonce is drawn, the
//! envelope is written, and the result has memory of its own.

use anyhow::Context;
use store::seal::envelope::NONCE_BYTES;
use store::seal::{KeyName, Keyring, Place, Secret, Stamp};

use crate::floors::{Cipher, per_call_ns};
use crate::noise::Noise;

/// A path as long as that of an instance.
const PATH: &str = "/v1794700800/actual/process-00000000-0000-0000-0000-000000000000/0/instance";
const SEALED_NS: i64 = 1_794_700_800_000_000_000;
const KEY_BYTES: usize = 32;

pub(super) fn seal_and_open(record_bytes: usize) -> anyhow::Result<Cipher> {
    let mut noise = Noise::new(4);
    let mut key = |name: &str| anyhow::Ok((KeyName::parse(name)?, Secret::new(noise.bytes(KEY_BYTES))));
    // Two keys, as while records go from one to the other.
    let keyring = Keyring::new(vec![key("A")?, key("B")?], &KeyName::parse("B")?)?;
    let record = noise.bytes(record_bytes);
    let place = Place::of(PATH).context("the path of a record has another form now")?;
    let seal = || {
        let mut nonce = [0; NONCE_BYTES];
        aws_lc_rs::rand::fill(&mut nonce).map_err(|_| anyhow::anyhow!("the machine has no random bytes"))?;
        anyhow::Ok(keyring.seal(place, Stamp { sealed_ns: SEALED_NS, nonce }, &record))
    };
    let seal_ns = per_call_ns(|| {
        std::hint::black_box(seal()?);
        Ok(())
    })?;
    let sealed = seal()?;
    let open_ns = per_call_ns(|| {
        std::hint::black_box(keyring.open(place, &sealed)?);
        Ok(())
    })?;
    Ok(Cipher { record_bytes, seal_ns, open_ns })
}
