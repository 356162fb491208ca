//! The layout of a sealed value: who sealed it, when, and what only the key opens.
//!
//! Promise: the layout is frozen. A value that begins with `0007` is a sealed one and nothing else is, because no other
//! encoding has these digits.
//!
//! ```text
//!   0007 <key name> : <8 bytes: time> <12 bytes: nonce> <ciphertext> <16 bytes: tag>
//!                     big-endian ns
//! ```
//!
//! What was sealed is the whole record with its own header. The time is not secret; it is bound to the rest, so that the
//! age of a record under a key can be told and trusted.

use std::io::Write as _;

use bytes::{BufMut, BytesMut};

use super::Place;
use super::keyring::NAME_BYTES_MAX;
use super::vault::Stamp;

pub const DIGITS: &[u8] = b"0007";
pub const TIME_BYTES: usize = 8;
pub const NONCE_BYTES: usize = 12;
pub const TAG_BYTES: usize = 16;
/// Digits of the largest data version.
const VERSION_DIGITS_MAX: usize = 20;
/// What sealing adds to a value at most.
pub const SEALING_BYTES_MAX: usize = DIGITS.len() + NAME_BYTES_MAX + 1 + TIME_BYTES + NONCE_BYTES + TAG_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope<'a> {
    pub key_name: &'a str,
    pub sealed_ns: i64,
    pub nonce: [u8; NONCE_BYTES],
    /// Ciphertext and tag.
    pub sealed: &'a [u8],
}

/// Whether a value is, or once was, a sealed one.
pub fn is_sealed(value: &[u8]) -> bool {
    value.starts_with(DIGITS)
}

/// The name of the key that a sealed value needs, also when the rest of it is damaged.
pub fn key_name(value: &[u8]) -> Option<&str> {
    let rest = value.strip_prefix(DIGITS)?;
    let end = rest.iter().take(NAME_BYTES_MAX + 1).position(|byte| *byte == b':').filter(|end| *end > 0)?;
    let is_allowed = |c: &u8| c.is_ascii_alphanumeric() || *c == b'-' || *c == b'_';
    std::str::from_utf8(&rest[..end]).ok().filter(|name| name.as_bytes().iter().all(is_allowed))
}

/// `None` for what is not sealed, or is cut off.
pub fn parse(value: &[u8]) -> Option<Envelope<'_>> {
    let key_name = key_name(value)?;
    let (time, rest) = value[DIGITS.len() + key_name.len() + 1..].split_first_chunk::<TIME_BYTES>()?;
    let (nonce, sealed) = rest.split_first_chunk::<NONCE_BYTES>()?;
    let whole = sealed.len() >= TAG_BYTES;
    whole.then_some(Envelope { key_name, sealed_ns: i64::from_be_bytes(*time), nonce: *nonce, sealed })
}

/// The part before the ciphertext, with room for the rest.
pub(super) fn begin(key_name: &str, stamp: Stamp, plain_bytes: usize) -> BytesMut {
    let head = DIGITS.len() + key_name.len() + 1 + TIME_BYTES + NONCE_BYTES;
    let mut value = BytesMut::with_capacity(head + plain_bytes + TAG_BYTES);
    value.put_slice(DIGITS);
    value.put_slice(key_name.as_bytes());
    value.put_u8(b':');
    value.put_i64(stamp.sealed_ns);
    value.put_slice(&stamp.nonce);
    value
}

/// What a seal is bound to beside its key: the time, the data version in decimal, a colon, and the path.
pub fn associated_data(place: Place<'_>, sealed_ns: i64) -> Vec<u8> {
    let mut data = Vec::with_capacity(TIME_BYTES + VERSION_DIGITS_MAX + 1 + place.path.len());
    data.extend_from_slice(&sealed_ns.to_be_bytes());
    write!(data, "{}:{}", place.version, place.path).expect("writing into memory does not fail");
    data
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_layout_is_frozen() {
        let stamp = Stamp { sealed_ns: 0x0102_0304_0506_0708, nonce: *b"abcdefghijkl" };
        assert_eq!(begin("key-1", stamp, 0), b"0007key-1:\x01\x02\x03\x04\x05\x06\x07\x08abcdefghijkl".as_slice());
        let place = Place::of("/v1441411196/task/t").unwrap();
        assert_eq!(associated_data(place, 7), b"\0\0\0\0\0\0\0\x071441411196:/v1441411196/task/t");
    }

    #[test]
    fn the_name_is_known_also_of_a_damaged_value() {
        let check = |value: &[u8], name: Option<&str>, whole: bool| {
            assert_eq!(key_name(value), name, "{value:?}");
            assert_eq!(parse(value).is_some(), whole, "{value:?}");
        };
        let body = [7; TIME_BYTES + NONCE_BYTES + TAG_BYTES];
        check(&[b"0007A:".as_slice(), &body].concat(), Some("A"), true);
        check(&[b"0007A:".as_slice(), &body[1..]].concat(), Some("A"), false);
        check(b"0007A:", Some("A"), false);
        check(b"0007A", None, false);
        check(b"0007:x", None, false);
        check(b"0007a b:", None, false);
        check(b"0003A:", None, false);
        let longest = "x".repeat(NAME_BYTES_MAX);
        check(format!("0007{longest}:").as_bytes(), Some(&longest), false);
        check(format!("0007{longest}x:").as_bytes(), None, false);
        assert!(is_sealed(b"0007") && !is_sealed(b"0003") && !is_sealed(b"{"));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(value in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (key_name(&value), parse(&value), parse(&[DIGITS, &value].concat()));
        }
    }
}
