//! The fields of a message, written straight from the domain's types.
//!
//! Promise: the bytes are those that the generated message would encode to, without building that message. Every claim and
//! every start encodes a row, and a new master encodes all records it loads; the copies of strings and maps that a message
//! needs were most of that cost. The price is that field numbers are repeated where records are encoded; a test there compares
//! the bytes with those of the generated message.
//!
//! The caller writes fields in the order of their numbers and the entries of a map in the order of their keys. As in
//! protobuf's third syntax, a number that is zero and a text that is empty are left out unless the method says otherwise.

use std::cell::Cell;

use bytes::{BufMut, Bytes};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

use super::Item;

/// The field numbers of the key and of the value in every entry of every map.
const ENTRY_KEY: u32 = 1;
const ENTRY_VALUE: u32 = 2;
/// One huge record must not leave its buffer behind in every thread.
const SCRATCH_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A message, in one allocation of exactly its size.
pub(super) fn message(fill: impl FnOnce(&mut Fields<'_>)) -> Bytes {
    in_scratch(fill, Bytes::copy_from_slice)
}

/// As [`message`], framed for a list.
pub(super) fn item(fill: impl FnOnce(&mut Fields<'_>)) -> Item {
    in_scratch(fill, Item::frame)
}

/// The length of a message is known only when it is written, so it is written into a buffer that the thread keeps.
fn in_scratch<T>(fill: impl FnOnce(&mut Fields<'_>), keep: impl FnOnce(&[u8]) -> T) -> T {
    // Taken, not borrowed: should a `fill` ever encode another message, that one starts with an empty buffer of its own.
    let mut scratch = SCRATCH.take();
    scratch.clear();
    fill(&mut Fields(&mut scratch));
    let kept = keep(&scratch);
    if scratch.capacity() <= SCRATCH_BYTES_MAX {
        SCRATCH.set(scratch);
    }
    kept
}

/// Appends fields to one message.
pub(super) struct Fields<'a>(&'a mut Vec<u8>);

impl Fields<'_> {
    /// How long the message is so far.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All fields of a message that was built.
    pub(super) fn message(&mut self, message: &impl prost::Message) {
        message.encode_raw(self.0);
    }

    pub(super) fn text(&mut self, tag: u32, text: &str) {
        self.bytes(tag, text.as_bytes());
    }

    pub(super) fn bytes(&mut self, tag: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.always_bytes(tag, bytes);
        }
    }

    /// Written also when it is empty: an element of a list, or a field that somebody expects to see.
    pub(super) fn always_text(&mut self, tag: u32, text: &str) {
        self.always_bytes(tag, text.as_bytes());
    }

    fn always_bytes(&mut self, tag: u32, bytes: &[u8]) {
        encode_key(tag, WireType::LengthDelimited, self.0);
        encode_varint(bytes.len() as u64, self.0);
        self.0.put_slice(bytes);
    }

    /// Any of the integers that are not zigzagged. A negative one takes ten bytes, whatever its width.
    pub(super) fn number(&mut self, tag: u32, number: impl Into<i64>) {
        let number = number.into();
        if number != 0 {
            self.varint(tag, number.cast_unsigned());
        }
    }

    /// Written also when it is false.
    pub(super) fn always_bool(&mut self, tag: u32, value: bool) {
        self.varint(tag, value.into());
    }

    fn varint(&mut self, tag: u32, value: u64) {
        encode_key(tag, WireType::Varint, self.0);
        encode_varint(value, self.0);
    }

    /// A message inside the message, written also when it is empty.
    pub(super) fn sub(&mut self, tag: u32, fill: impl FnOnce(&mut Fields<'_>)) {
        encode_key(tag, WireType::LengthDelimited, self.0);
        let length_at = self.0.len();
        self.0.push(0);
        let start = self.0.len();
        fill(&mut Fields(self.0));
        let end = self.0.len();
        let message_len = (end - start) as u64;
        // Most parts are short enough for the one byte that was left free. A longer one moves up to make room.
        let missing = encoded_len_varint(message_len) - 1;
        if missing > 0 {
            self.0.resize(end + missing, 0);
            self.0.copy_within(start..end, start + missing);
        }
        encode_varint(message_len, &mut &mut self.0[length_at..]);
    }

    /// An entry of a map from texts. `put` writes the value under the number it is given.
    pub(super) fn entry(&mut self, tag: u32, key: &str, put: impl FnOnce(&mut Fields<'_>, u32)) {
        self.sub(tag, |entry| {
            entry.text(ENTRY_KEY, key);
            put(entry, ENTRY_VALUE);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(fill: impl FnOnce(&mut Fields<'_>), expected: &[u8]) {
        assert_eq!(message(fill), expected);
    }

    #[test]
    fn defaults_are_left_out_unless_they_are_wanted() {
        check(|fields| fields.text(1, ""), b"");
        check(|fields| fields.text(1, "é"), b"\x0a\x02\xc3\xa9");
        check(|fields| fields.always_text(1, ""), b"\x0a\x00");
        check(|fields| fields.number(1, 0), b"");
        check(|fields| fields.number(16, 300), b"\x80\x01\xac\x02");
        check(|fields| fields.number(1, -1_i32), b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
        check(|fields| fields.number(1, u32::MAX), b"\x08\xff\xff\xff\xff\x0f");
        check(|fields| fields.always_bool(1, false), b"\x08\x00");
        check(|fields| fields.sub(2, |_| {}), b"\x12\x00");
        check(|fields| fields.entry(3, "", |entry, value| entry.text(value, "")), b"\x1a\x00");
        check(|fields| fields.entry(3, "k", |entry, value| entry.number(value, 7)), b"\x1a\x05\x0a\x01k\x10\x07");
    }

    #[test]
    fn a_part_of_any_length_keeps_its_place() {
        for bytes in [0, 1, 124, 125, 126, 127, 128, 16_379, 16_380, 16_384, 70_000] {
            let text = "x".repeat(bytes);
            let written = message(|fields| {
                fields.sub(1, |outer| {
                    outer.sub(2, |inner| inner.always_text(3, &text));
                    outer.number(4, 5);
                });
                fields.number(6, 7);
            });
            let by_hand = |tag: u32, content: &[u8]| {
                let mut framed = Vec::new();
                super::super::put_sub_message(tag, &[content], &mut framed);
                framed
            };
            let inner = by_hand(2, &by_hand(3, text.as_bytes()));
            let expected = [by_hand(1, &[&inner, b"\x20\x05".as_slice()].concat()), b"\x30\x07".to_vec()].concat();
            assert!(written == expected, "a text of {bytes} bytes");
        }
    }

    #[test]
    fn one_message_inside_another_and_a_huge_one_leave_nothing_behind() {
        let outer = message(|fields| {
            fields.text(1, "a");
            let other = message(|fields| fields.text(1, "b"));
            fields.bytes(2, &other);
        });
        assert_eq!(outer, b"\x0a\x01a\x12\x03\x0a\x01b".as_slice());
        message(|fields| fields.text(1, &"x".repeat(2 * SCRATCH_BYTES_MAX)));
        assert!(SCRATCH.take().capacity() <= SCRATCH_BYTES_MAX);
        assert!(message(|_| {}).is_empty());
    }
}
