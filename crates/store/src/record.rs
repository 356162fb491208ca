//! The header of every stored value: how the payload is encoded, and of which data version it is.
//!
//! Promise: bytes at rest announce themselves, and what they announce is checked before anybody looks inside. The one
//! exception is history: the first data version wrote bare JSON objects, so a value that starts with `{` is one.
//!
//! The layout, drawn in `docs/formats/storage.md`: four digits for the encoding, the data version in decimal, a colon,
//! the payload. A sealed record has the name of its key where the version would be. [`crate::seal`] opens those before they
//! get here; one that could not be opened is told apart, by its key.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

use crate::seal::envelope;

const ENCODING_BYTES: usize = 4;
/// The digits of the largest version, and the longest name of a key, are both shorter.
const HEADER_BYTES_MAX: usize = ENCODING_BYTES + 128;

/// Data versions are integers that grow; from the second on they are timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataVersion(pub u64);

impl DataVersion {
    /// The version of records without a header.
    pub const FIRST: DataVersion = DataVersion(1);
}

impl fmt::Display for DataVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// When you add one: take the next free number, and never the number of one that was retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    Json,
    Base64Protobuf,
    Protobuf,
}

impl Encoding {
    const ALL: [Encoding; 3] = [Encoding::Json, Encoding::Base64Protobuf, Encoding::Protobuf];

    fn digits(self) -> &'static [u8; ENCODING_BYTES] {
        match self {
            Encoding::Json => b"0001",
            Encoding::Base64Protobuf => b"0002",
            Encoding::Protobuf => b"0003",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub encoding: Encoding,
    pub version: DataVersion,
}

/// Why a value is not a record of ours. No text shows bytes of the payload.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    #[error("the value has no record header")]
    NoHeader,
    #[error("the record has encoding {digits}, which this server does not know")]
    UnknownEncoding { digits: String },
    #[error("the record header names no data version")]
    NoVersion,
    #[error("the record is sealed with key {key_name} and could not be opened")]
    Sealed { key_name: String },
}

pub fn encode(header: Header, payload: &[u8]) -> Bytes {
    let version = header.version.to_string();
    let mut value = BytesMut::with_capacity(ENCODING_BYTES + version.len() + 1 + payload.len());
    value.put_slice(header.encoding.digits());
    value.put_slice(version.as_bytes());
    value.put_u8(b':');
    value.put_slice(payload);
    value.freeze()
}

/// Takes the header off. The payload shares the memory of the value.
pub fn decode(value: &Bytes) -> Result<(Header, Bytes), RecordError> {
    if value.first() == Some(&b'{') {
        return Ok((Header { encoding: Encoding::Json, version: DataVersion::FIRST }, value.clone()));
    }
    let digits = value.get(..ENCODING_BYTES).ok_or(RecordError::NoHeader)?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(RecordError::NoHeader);
    }
    let colon = value.iter().take(HEADER_BYTES_MAX).position(|byte| *byte == b':');
    let field = |end| std::str::from_utf8(&value[ENCODING_BYTES..end]).ok();
    if envelope::is_sealed(value) {
        let key_name = envelope::key_name(value).ok_or(RecordError::NoHeader)?;
        return Err(RecordError::Sealed { key_name: key_name.to_owned() });
    }
    let encoding = Encoding::ALL.into_iter().find(|encoding| encoding.digits() == digits);
    let encoding = encoding
        .ok_or_else(|| RecordError::UnknownEncoding { digits: String::from_utf8_lossy(digits).into_owned() })?;
    let colon = colon.ok_or(RecordError::NoVersion)?;
    let version = field(colon).and_then(parse_version).ok_or(RecordError::NoVersion)?;
    Ok((Header { encoding, version }, value.slice(colon + 1..)))
}

/// Only the one way that `encode` writes a number is read back: no sign, no leading zero.
fn parse_version(text: &str) -> Option<DataVersion> {
    let version = text.parse().ok().filter(|version: &u64| *version > 0)?;
    (text == version.to_string()).then_some(DataVersion(version))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_header_is_frozen() {
        let header = Header { encoding: Encoding::Protobuf, version: DataVersion(1_442_529_338) };
        assert_eq!(encode(header, b"\x0a\x01x"), b"00031442529338:\x0a\x01x".as_slice());
    }

    #[test]
    fn values_are_judged_by_their_header() {
        let check =
            |value: &'static [u8]| decode(&Bytes::from_static(value)).map(|(header, payload)| (header, payload.len()));
        let header = |encoding, version| Header { encoding, version: DataVersion(version) };
        assert_eq!(check(b"{\"a\":1}"), Ok((header(Encoding::Json, 1), 7)));
        assert_eq!(check(b"000112:{}"), Ok((header(Encoding::Json, 12), 2)));
        assert_eq!(check(b"00025:aGk="), Ok((header(Encoding::Base64Protobuf, 5), 4)));
        assert_eq!(check(b"00035:"), Ok((header(Encoding::Protobuf, 5), 0)));
        assert_eq!(check(b"0003:x"), Err(RecordError::NoVersion));
        assert_eq!(check(b"00030:x"), Err(RecordError::NoVersion));
        assert_eq!(check(b"000305:x"), Err(RecordError::NoVersion));
        assert_eq!(check(b"0003+5:x"), Err(RecordError::NoVersion));
        assert_eq!(check(b"000399999999999999999999:x"), Err(RecordError::NoVersion));
        assert_eq!(check(b"00035"), Err(RecordError::NoVersion));
        assert_eq!(check(b"00045:x"), Err(RecordError::UnknownEncoding { digits: "0004".into() }));
        assert_eq!(check(b"0007key-1:\x00\xff"), Err(RecordError::Sealed { key_name: "key-1".into() }));
        assert_eq!(check(b"0007:x"), Err(RecordError::NoHeader));
        assert_eq!(check(b"0007a b:x"), Err(RecordError::NoHeader));
        assert_eq!(check(b"000"), Err(RecordError::NoHeader));
        assert_eq!(check(b"abcd5:x"), Err(RecordError::NoHeader));
        assert_eq!(check(b""), Err(RecordError::NoHeader));
    }

    #[test]
    fn the_payload_is_not_copied() {
        let value = encode(Header { encoding: Encoding::Protobuf, version: DataVersion(7) }, b"payload");
        let (_, payload) = decode(&value).unwrap();
        assert!(value.as_ptr_range().contains(&payload.as_ptr()));
    }

    #[test]
    fn a_sealed_record_names_its_key() {
        let error = decode(&Bytes::from_static(b"0007blue:secret")).unwrap_err();
        assert_eq!(error.to_string(), "the record is sealed with key blue and could not be opened");
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(version in 1u64.., at in 0..3usize, payload in prop::collection::vec(any::<u8>(), 0..64)) {
            let header = Header { encoding: Encoding::ALL[at], version: DataVersion(version) };
            prop_assert_eq!(decode(&encode(header, &payload)), Ok((header, Bytes::from(payload))));
        }

        #[test]
        fn no_bytes_make_it_panic(value in prop::collection::vec(any::<u8>(), 0..200)) {
            drop(decode(&Bytes::from(value)));
        }
    }
}
