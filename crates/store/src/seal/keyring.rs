//! The keys of a node: named, derived, and never shown.
//!
//! Promise: the configured bytes are turned into an AES-256 key at once and forgotten, by overwriting them. No text that
//! comes from here, `Debug` included, shows anything of a key but its name and its length.
//!
//! Derivation: HKDF-SHA256 with the salt and the labels below. It is deterministic, so that every node with the same bytes
//! opens the same records, and it gives two values that do not tell of each other: the key that seals, and a check value
//! by which a store notices that a node knows other bytes under the same name.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use bytes::Bytes;
use thiserror::Error;
use zeroize::Zeroizing;

use super::Place;
use super::envelope::{self, Envelope, TAG_BYTES};
use super::vault::Stamp;

/// Bytes of one configured key. A key with more is a mistake, such as the path of the wrong file.
pub const KEY_BYTES_MAX: usize = 1_024;
/// Keys of one node.
pub const KEYS_MAX: usize = 64;
/// Bytes of a key's name.
pub const NAME_BYTES_MAX: usize = 127;
/// Bytes of the value by which two keys of one name are told apart.
pub const CHECK_BYTES: usize = 16;

const SALT: &[u8] = b"corkboard encryption at rest";
const RECORD_LABEL: &[u8] = b"record AES-256-GCM";
const CHECK_LABEL: &[u8] = b"key check";

/// Letters, digits, `-` and `_`; upper and lower case differ.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(String);

impl KeyName {
    pub fn parse(text: &str) -> Result<KeyName, KeyringError> {
        let is_allowed = |c: u8| c.is_ascii_alphanumeric() || c == b'-' || c == b'_';
        if (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_allowed) {
            Ok(KeyName(text.to_owned()))
        } else {
            Err(KeyringError::Name { name: text.chars().take(NAME_BYTES_MAX).collect() })
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// The configured bytes of a key. They are overwritten when they are let go of.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    pub fn new(bytes: Vec<u8>) -> Secret {
        Secret(Zeroizing::new(bytes))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Secret({} bytes)", self.0.len())
    }
}

/// Why a set of keys cannot be used. No text shows bytes of a key.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KeyringError {
    #[error("{name:?} is not a name for a key; expected 1 to {NAME_BYTES_MAX} ASCII letters, digits, `-` or `_`")]
    Name { name: String },
    #[error("there is no key; expected at least one")]
    NoKeys,
    #[error("there are {count} keys, and at most {KEYS_MAX} are allowed")]
    TooMany { count: usize },
    #[error("key {name} is empty; expected 1 to {KEY_BYTES_MAX} bytes, such as `corkboard keys generate` makes")]
    Empty { name: KeyName },
    #[error("key {name} has {bytes} bytes, and at most {KEY_BYTES_MAX} are allowed; is it the right file?")]
    TooLong { name: KeyName, bytes: usize },
    #[error("key {name} is there twice")]
    Duplicate { name: KeyName },
    #[error(
        "keys {name} and {other} are the same bytes under two names, so that going from one to the other would protect \
         nothing; expected different ones"
    )]
    SameBytes { name: KeyName, other: KeyName },
    #[error("the active key is {active}, which is not among the keys ({known})")]
    ActiveUnknown { active: KeyName, known: String },
    #[error("key {name} cannot be prepared; this is a defect of the cryptographic library or of the machine")]
    Unusable { name: KeyName },
}

/// Why a sealed value cannot be opened. No text shows bytes of the value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unopened {
    #[error(
        "the record is sealed with key {name}, which this node does not have; add that key to the configuration, and it can \
         be read"
    )]
    UnknownKey { name: String },
    #[error("the record is sealed with key {name} and is cut off")]
    CutOff { name: String },
    #[error(
        "the record is sealed with key {name}, and its bytes or its place are not those that were sealed: it was damaged, \
         altered, or moved here from elsewhere"
    )]
    Damaged { name: String },
    #[error("the record begins like a sealed one and names no key")]
    NoName,
}

struct Key {
    name: KeyName,
    sealing: LessSafeKey,
    check: [u8; CHECK_BYTES],
}

/// A non-empty set of keys, one of them active. Every key opens, the active one seals.
pub struct Keyring {
    keys: Vec<Arc<Key>>,
    active: usize,
}

/// Only names: the keys themselves have nothing to show.
impl fmt::Debug for Keyring {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Keyring {{ active: {}, keys: {:?} }}", self.active(), self.names().collect::<Vec<_>>())
    }
}

impl Keyring {
    pub fn new(keys: Vec<(KeyName, Secret)>, active: &KeyName) -> Result<Keyring, KeyringError> {
        match keys.len() {
            0 => return Err(KeyringError::NoKeys),
            count if count > KEYS_MAX => return Err(KeyringError::TooMany { count }),
            _ => {}
        }
        let mut ready: Vec<Arc<Key>> = Vec::with_capacity(keys.len());
        for (name, secret) in keys {
            if ready.iter().any(|key| key.name == name) {
                return Err(KeyringError::Duplicate { name });
            }
            let key = Key::derive(name, &secret)?;
            if let Some(other) = ready.iter().find(|other| other.check == key.check) {
                return Err(KeyringError::SameBytes { name: other.name.clone(), other: key.name });
            }
            ready.push(Arc::new(key));
        }
        match ready.iter().position(|key| key.name == *active) {
            Some(active) => Ok(Keyring { keys: ready, active }),
            None => {
                let known = ready.iter().map(|key| key.name.as_str()).collect::<Vec<_>>().join(", ");
                Err(KeyringError::ActiveUnknown { active: active.clone(), known })
            }
        }
    }

    /// These keys, and those of `former` that are not among them.
    #[must_use]
    pub fn keeping(&self, former: &Keyring) -> Keyring {
        let missing = former.keys.iter().filter(|key| !self.has(key.name.as_str()));
        Keyring { keys: self.keys.iter().chain(missing).cloned().collect(), active: self.active }
    }

    pub fn active(&self) -> &KeyName {
        &self.keys[self.active].name
    }

    pub fn names(&self) -> impl Iterator<Item = &KeyName> {
        self.keys.iter().map(|key| &key.name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.key(name).is_some()
    }

    /// The value by which a store tells that two nodes mean the same key.
    pub fn check(&self, name: &str) -> Option<[u8; CHECK_BYTES]> {
        self.key(name).map(|key| key.check)
    }

    fn key(&self, name: &str) -> Option<&Key> {
        self.keys.iter().map(AsRef::as_ref).find(|key: &&Key| key.name.as_str() == name)
    }

    /// Seals a value under the active key. The stamp must never be used twice with the same key.
    pub fn seal(&self, place: Place<'_>, stamp: Stamp, plain: &[u8]) -> Bytes {
        let key = &self.keys[self.active];
        let mut value = envelope::begin(key.name.as_str(), stamp, plain.len());
        let sealed_from = value.len();
        value.extend_from_slice(plain);
        let aad = Aad::from(envelope::associated_data(place, stamp.sealed_ns));
        let nonce = Nonce::assume_unique_for_key(stamp.nonce);
        let tag = key.sealing.seal_in_place_separate_tag(nonce, aad, &mut value[sealed_from..]);
        let tag = tag.expect("a step is far smaller than what one nonce may seal, and nothing else makes sealing fail");
        value.extend_from_slice(tag.as_ref());
        value.freeze()
    }

    /// Opens a sealed value with whichever key it names.
    pub fn open(&self, place: Place<'_>, value: &[u8]) -> Result<Bytes, Unopened> {
        let name = envelope::key_name(value).ok_or(Unopened::NoName)?;
        let key = self.key(name).ok_or_else(|| Unopened::UnknownKey { name: name.to_owned() })?;
        let Envelope { sealed_ns, nonce, sealed, .. } =
            envelope::parse(value).ok_or_else(|| Unopened::CutOff { name: name.to_owned() })?;
        let aad = Aad::from(envelope::associated_data(place, sealed_ns));
        let mut plain = sealed.to_vec();
        let opened = key.sealing.open_in_place(Nonce::assume_unique_for_key(nonce), aad, &mut plain);
        if opened.is_err() {
            return Err(Unopened::Damaged { name: name.to_owned() });
        }
        plain.truncate(sealed.len() - TAG_BYTES);
        Ok(plain.into())
    }
}

impl Key {
    fn derive(name: KeyName, secret: &Secret) -> Result<Key, KeyringError> {
        if secret.is_empty() {
            return Err(KeyringError::Empty { name });
        }
        if secret.len() > KEY_BYTES_MAX {
            return Err(KeyringError::TooLong { name, bytes: secret.len() });
        }
        let root = Salt::new(HKDF_SHA256, SALT).extract(&secret.0);
        let mut bytes = Zeroizing::new([0; 32]);
        let mut check = [0; CHECK_BYTES];
        let derived = expand(&root, RECORD_LABEL, &mut *bytes).and_then(|()| expand(&root, CHECK_LABEL, &mut check));
        match derived.and_then(|()| UnboundKey::new(&AES_256_GCM, &*bytes).ok()) {
            Some(key) => Ok(Key { name, sealing: LessSafeKey::new(key), check }),
            None => Err(KeyringError::Unusable { name }),
        }
    }
}

/// How many bytes are asked for.
struct OutputBytes(usize);

impl KeyType for OutputBytes {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand(root: &Prk, label: &[u8], into: &mut [u8]) -> Option<()> {
    root.expand(&[label], OutputBytes(into.len())).and_then(|key| key.fill(into)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> KeyName {
        KeyName::parse(text).unwrap()
    }

    fn ring(keys: &[(&str, &str)], active: &str) -> Result<Keyring, KeyringError> {
        let keys = keys.iter().map(|(key, secret)| (name(key), Secret::new(secret.as_bytes().to_vec()))).collect();
        Keyring::new(keys, &name(active))
    }

    const STAMP: Stamp = Stamp { sealed_ns: 7, nonce: *b"twelve bytes" };

    fn place(path: &str) -> Place<'_> {
        Place::of(path).unwrap()
    }

    #[test]
    fn every_mistake_has_its_sentence() {
        let check = |keys: &[(&str, &str)], active: &str, expected: &str| {
            assert_eq!(ring(keys, active).unwrap_err().to_string(), expected);
        };
        check(&[], "A", "there is no key; expected at least one");
        check(&[("A", "")], "A", "key A is empty; expected 1 to 1024 bytes, such as `corkboard keys generate` makes");
        let long = "x".repeat(1_025);
        let too_long = "key A has 1025 bytes, and at most 1024 are allowed; is it the right file?";
        check(&[("A", &long)], "A", too_long);
        check(&[("A", "1"), ("A", "2")], "A", "key A is there twice");
        let same = "keys A and B are the same bytes under two names, so that going from one to the other would protect \
                    nothing; expected different ones";
        check(&[("A", "1"), ("B", "1")], "A", same);
        check(&[("A", "1"), ("B", "2")], "C", "the active key is C, which is not among the keys (A, B)");
        check(&[("A", "1")], "a", "the active key is a, which is not among the keys (A)");
        for bad in ["", "a b", "a:b", "é", "a/b", &"x".repeat(128)] {
            assert!(matches!(KeyName::parse(bad), Err(KeyringError::Name { .. })), "{bad}");
        }
        assert!(KeyName::parse(&"x".repeat(127)).is_ok());
        let many: Vec<_> = (0..65).map(|n| (name(&format!("k{n}")), Secret::new(vec![n]))).collect();
        assert_eq!(Keyring::new(many, &name("k0")).unwrap_err(), KeyringError::TooMany { count: 65 });
    }

    #[test]
    fn every_key_opens_and_the_active_one_seals() {
        let old = ring(&[("A", "1")], "A").unwrap();
        let both = ring(&[("A", "1"), ("B", "2")], "B").unwrap();
        let new = ring(&[("B", "2")], "B").unwrap();
        let here = place("/v1/task/t");
        let sealed = old.seal(here, STAMP, b"plain");
        assert_eq!(both.open(here, &sealed).unwrap(), "plain");
        assert_eq!(new.open(here, &sealed), Err(Unopened::UnknownKey { name: "A".into() }));
        let sealed = both.seal(here, STAMP, b"plain");
        assert_eq!(new.open(here, &sealed).unwrap(), "plain");
        let other_bytes = ring(&[("B", "3")], "B").unwrap();
        assert_eq!(other_bytes.open(here, &sealed), Err(Unopened::Damaged { name: "B".into() }));
        assert_ne!(other_bytes.check("B"), new.check("B"));
        assert_eq!(both.check("B"), new.check("B"));
    }

    #[test]
    fn keys_that_are_kept_still_open() {
        let old = ring(&[("A", "1"), ("B", "2")], "A").unwrap();
        let kept = ring(&[("B", "3"), ("C", "4")], "C").unwrap().keeping(&old);
        assert_eq!(kept.names().map(KeyName::as_str).collect::<Vec<_>>(), ["B", "C", "A"]);
        assert_eq!((kept.active().as_str(), kept.check("A")), ("C", old.check("A")));
        assert_ne!(kept.check("B"), old.check("B"), "a key that is there is not exchanged");
    }

    #[test]
    fn a_sealed_value_opens_only_where_it_was_written() {
        let ring = ring(&[("A", "1")], "A").unwrap();
        let sealed = ring.seal(place("/v1/task/t"), STAMP, b"plain");
        for elsewhere in ["/v1/task/u", "/v2/task/t", "/v1/task/t/"] {
            assert_eq!(ring.open(place(elsewhere), &sealed), Err(Unopened::Damaged { name: "A".into() }));
        }
        assert_eq!(ring.open(place("/quarantine/00000000000000000007/v1/task/t"), &sealed).unwrap(), "plain");
    }

    #[test]
    fn nothing_shows_a_key() {
        let ring = ring(&[("A", "hunter2-hunter2"), ("B", "swordfish")], "A").unwrap();
        let shown = format!("{ring:?} {:#?} {:?}", ring, Secret::new(b"hunter2-hunter2".to_vec()));
        assert_eq!(shown.matches("hunter2").count() + shown.matches("swordfish").count(), 0, "{shown}");
        assert!(shown.contains("Secret(15 bytes)"));
    }

    proptest! {
        #[test]
        fn what_is_sealed_is_opened(plain in prop::collection::vec(any::<u8>(), 0..300), sealed_ns: i64, nonce: [u8; 12]) {
            let ring = ring(&[("A", "1")], "A").unwrap();
            let sealed = ring.seal(place("/v1/x"), Stamp { sealed_ns, nonce }, &plain);
            prop_assert_eq!(ring.open(place("/v1/x"), &sealed).unwrap(), plain);
        }

        #[test]
        fn no_flipped_bit_and_no_cut_passes(plain in prop::collection::vec(any::<u8>(), 0..100), at: prop::sample::Index, bit in 0..8u8) {
            let ring = ring(&[("A", "1"), ("B", "2")], "A").unwrap();
            let sealed = ring.seal(place("/v1/x"), STAMP, &plain);
            let at = at.index(sealed.len());
            let mut flipped = sealed.to_vec();
            flipped[at] ^= 1 << bit;
            prop_assert!(ring.open(place("/v1/x"), &flipped).is_err());
            prop_assert!(ring.open(place("/v1/x"), &sealed[..at]).is_err());
        }

        #[test]
        fn no_bytes_make_it_panic(value in prop::collection::vec(any::<u8>(), 0..200), sealed_like in any::<bool>()) {
            let ring = ring(&[("A", "1")], "A").unwrap();
            let value = if sealed_like { [b"0007A:".as_slice(), &value].concat() } else { value };
            prop_assert!(ring.open(place("/v1/x"), &value).is_err());
        }
    }
}
