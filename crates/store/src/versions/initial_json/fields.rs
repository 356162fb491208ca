//! The fields of an encoded protobuf message, one level deep.
//!
//! Promise: a message that can be split here is the concatenation of its fields' raw bytes, whatever is inside them, so a
//! field can be moved or kept without being understood. Groups, which nothing ever wrote, are refused.

use prost::encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint, encoded_len_varint};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::versions) enum Value<'a> {
    Varint(u64),
    Fixed,
    Bytes(&'a [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::versions) struct Field<'a> {
    pub(in crate::versions) tag: u32,
    pub(in crate::versions) value: Value<'a>,
    /// The whole field, its key included.
    pub(in crate::versions) raw: &'a [u8],
}

impl<'a> Field<'a> {
    pub(in crate::versions) fn number(&self) -> Option<u64> {
        if let Value::Varint(number) = self.value { Some(number) } else { None }
    }

    pub(in crate::versions) fn bytes(&self) -> Option<&'a [u8]> {
        if let Value::Bytes(bytes) = self.value { Some(bytes) } else { None }
    }

    /// The field as text, if it is one.
    pub(in crate::versions) fn text(&self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}

/// The fields in the order in which they stand, or `None` when this is no message.
pub(in crate::versions) fn split(message: &[u8]) -> Option<Vec<Field<'_>>> {
    let mut fields = Vec::with_capacity(16);
    let mut rest = message;
    while !rest.is_empty() {
        let before = rest;
        let (tag, wire_type) = decode_key(&mut rest).ok()?;
        let value = match wire_type {
            WireType::Varint => Value::Varint(decode_varint(&mut rest).ok()?),
            WireType::ThirtyTwoBit => take(&mut rest, 4).map(|_| Value::Fixed)?,
            WireType::SixtyFourBit => take(&mut rest, 8).map(|_| Value::Fixed)?,
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
                Value::Bytes(take(&mut rest, length)?)
            }
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        fields.push(Field { tag, value, raw: &before[..before.len() - rest.len()] });
    }
    Some(fields)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(taken)
}

/// The last field of this number, which is the one that counts.
pub(in crate::versions) fn last<'f, 'a>(fields: &'f [Field<'a>], tag: u32) -> Option<&'f Field<'a>> {
    fields.iter().rev().find(|field| field.tag == tag)
}

/// The fields in the order of their numbers; those of one number keep their order.
pub(in crate::versions) fn join(mut fields: Vec<Field<'_>>) -> Vec<u8> {
    fields.sort_by_key(|field| field.tag);
    let mut message = Vec::with_capacity(fields.iter().map(|field| field.raw.len()).sum());
    fields.iter().for_each(|field| message.extend_from_slice(field.raw));
    message
}

pub(in crate::versions) fn put_number(tag: u32, number: u64, out: &mut Vec<u8>) {
    encode_key(tag, WireType::Varint, out);
    encode_varint(number, out);
}

pub(in crate::versions) fn put_bytes(tag: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Begins a message inside a message; [`close_part`] takes what this returns. Most parts are short enough for the one
/// byte that is left free for the length.
pub(in crate::versions) fn open_part(tag: u32, out: &mut Vec<u8>) -> usize {
    encode_key(tag, WireType::LengthDelimited, out);
    out.push(0);
    out.len()
}

/// Ends the message that began at `start` by writing its length in front of it.
pub(in crate::versions) fn close_part(start: usize, out: &mut Vec<u8>) {
    let end = out.len();
    let length = (end - start) as u64;
    let missing = encoded_len_varint(length) - 1;
    if missing > 0 {
        out.resize(end + missing, 0);
        out.copy_within(start..end, start + missing);
    }
    encode_varint(length, &mut &mut out[start - 1..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_message_is_split_at_its_fields() {
        let message = b"\x10\x05\x0a\x02hi\x1d\x01\x02\x03\x04\x21\x01\x02\x03\x04\x05\x06\x07\x08\x0a\x00";
        let fields = split(message).unwrap();
        let seen: Vec<_> = fields.iter().map(|field| (field.tag, field.number(), field.text())).collect();
        let expected =
            [(2, Some(5), None), (1, None, Some("hi")), (3, None, None), (4, None, None), (1, None, Some(""))];
        assert_eq!(seen, expected);
        assert_eq!(last(&fields, 1).and_then(Field::text), Some(""));
        assert_eq!(join(fields)[..8], *b"\x0a\x02hi\x0a\x00\x10\x05");
        for broken in [b"\x0b\x0c".as_slice(), b"\x0a\x02h", b"\x08", b"\x00\x01", b"\x1d\x01", b"\x0f"] {
            assert_eq!(split(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn a_part_of_any_length_keeps_its_place() {
        for bytes in [0, 127, 128, 16_383, 16_384] {
            let mut message = vec![];
            let start = open_part(3, &mut message);
            message.resize(start + bytes, 7);
            close_part(start, &mut message);
            put_number(4, 1, &mut message);
            let fields = split(&message).unwrap();
            assert_eq!((fields[0].bytes().unwrap().len(), fields[1].number()), (bytes, Some(1)));
        }
    }

    proptest! {
        #[test]
        fn the_raw_fields_are_the_message(message in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some(fields) = split(&message) {
                let raw: Vec<u8> = fields.iter().flat_map(|field| field.raw.iter().copied()).collect();
                prop_assert_eq!(raw, message);
            }
        }
    }
}
