//! Bytes to message and back.
//!
//! [`decode`] accepts what Diego's Go server accepts. prost differs from it in one way that matters: it refuses text
//! that is not UTF-8, while Go never looks. Such text does arrive, because a cell may cut an error message in the
//! middle of a character. So when prost refuses, the bytes are walked along the message's layout, every invalid
//! sequence is replaced by U+FFFD, and prost gets a second chance. Only the second look pays for the walk.
//!
//! Not accepted although Go would: messages nested deeper than [`NESTING_MAX`]. Go has no limit and overflows its stack
//! only at a gigabyte; ours is smaller, and no honest action tree comes near it.

use bytes::Bytes;
use prost::encoding::{WireType, decode_varint, encode_varint};

use crate::wire::{Layout, Part, Wire};

/// Levels of messages within messages. It is prost's own limit, so both looks at the bytes agree.
pub const NESTING_MAX: u32 = 100;

/// Why bytes are not the message they should be. A server answers it with [`crate::errors::invalid_request_body`].
#[derive(Debug, thiserror::Error)]
#[error("the bytes are not a {message}")]
pub struct DecodeError {
    /// The message as named in the `.proto` files.
    pub message: &'static str,
    #[source]
    pub source: prost::DecodeError,
}

/// Reads a message. Unknown fields are skipped, as Diego does, and not kept.
pub fn decode<M: Wire>(bytes: impl AsRef<[u8]>) -> Result<M, DecodeError> {
    let bytes = bytes.as_ref();
    let refused = match M::decode(bytes) {
        Ok(message) => return Ok(message),
        Err(refused) => refused,
    };
    let wrap = |source| DecodeError { message: M::NAME, source };
    match with_valid_text(M::layout(), bytes) {
        Some(rewritten) => M::decode(rewritten.as_slice()).map_err(wrap),
        None => Err(wrap(refused)),
    }
}

/// Writes a message with all its always-emitted parts. Fields come in ascending order of number, map entries by key.
pub fn encode<M: Wire>(mut message: M) -> Bytes {
    message.complete();
    message.encode_to_vec().into()
}

/// The same message with valid text, or `None` when all text was valid or the bytes are broken in another way, in
/// which case prost's first verdict stands.
fn with_valid_text(layout: &Layout, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(bytes.len() + REPLACEMENT_ROOM_BYTES);
    let mut replaced = false;
    rewrite(layout, bytes, &mut out, &mut replaced, NESTING_MAX)?;
    replaced.then_some(out)
}

/// Room for a few replacement characters, three bytes each, before the buffer must grow.
const REPLACEMENT_ROOM_BYTES: usize = 64;

/// Copies the fields that the layout knows. Others are dropped, because nobody reads them afterwards.
fn rewrite(layout: &Layout, mut rest: &[u8], out: &mut Vec<u8>, replaced: &mut bool, depth: u32) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    while !rest.is_empty() {
        let key = take_varint(&mut rest)?;
        let number = u32::try_from(key >> 3).ok().filter(|number| *number > 0)?;
        let wire_type = WireType::try_from(key & 0b111).ok()?;
        let body = take_body(&mut rest, number, wire_type, depth)?;
        let Some(part) = layout.part(number) else { continue };
        encode_varint(key, out);
        match (part, wire_type) {
            (Part::Text, WireType::LengthDelimited) => {
                let text = String::from_utf8_lossy(body);
                *replaced |= matches!(text, std::borrow::Cow::Owned(_));
                put_delimited(text.as_bytes(), out);
            }
            (Part::Message(inner), WireType::LengthDelimited) => {
                let mut message = Vec::with_capacity(body.len());
                rewrite(inner, body, &mut message, replaced, depth)?;
                put_delimited(&message, out);
            }
            (_, WireType::LengthDelimited) => put_delimited(body, out),
            // A wrong wire type is copied as it is, so that prost reports it.
            _ => out.extend_from_slice(body),
        }
    }
    Some(())
}

/// Takes what follows a key: the content of a delimited field, all the bytes of any other.
fn take_body<'a>(rest: &mut &'a [u8], number: u32, wire_type: WireType, depth: u32) -> Option<&'a [u8]> {
    let start = *rest;
    match wire_type {
        WireType::Varint => {
            take_varint(rest)?;
        }
        WireType::SixtyFourBit => *rest = rest.get(8..)?,
        WireType::ThirtyTwoBit => *rest = rest.get(4..)?,
        WireType::LengthDelimited => {
            let length = usize::try_from(take_varint(rest)?).ok()?;
            let (body, after) = rest.split_at_checked(length)?;
            *rest = after;
            return Some(body);
        }
        WireType::StartGroup => skip_group(rest, number, depth)?,
        WireType::EndGroup => return None,
    }
    start.get(..start.len() - rest.len())
}

fn skip_group(rest: &mut &[u8], number: u32, depth: u32) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    loop {
        let key = take_varint(rest)?;
        let inner = u32::try_from(key >> 3).ok()?;
        match WireType::try_from(key & 0b111).ok()? {
            WireType::EndGroup => return (inner == number).then_some(()),
            wire_type => take_body(rest, inner, wire_type, depth)?,
        };
    }
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    decode_varint(rest).ok()
}

fn put_delimited(body: &[u8], out: &mut Vec<u8>) {
    encode_varint(body.len() as u64, out);
    out.extend_from_slice(body);
}

#[cfg(test)]
mod tests;
