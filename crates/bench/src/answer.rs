//! Judges an answer while it streams past, without keeping it.
//!
//! A list may be most of a gigabyte. Decoding it would measure our decoder, and only counting its bytes would take an
//! error for a fast success. So the outermost fields are walked: field 1 is the error, field 2 holds the records, one
//! frame each; payloads are skipped in one step per chunk. Only the error is kept, up to [`ERROR_BYTES_MAX`].

use prost::Message;

/// What we keep of an error; more would be no message for people.
const ERROR_BYTES_MAX: usize = 4_096;
/// A varint of 64 bits.
const VARINT_BITS_MAX: u32 = 63;
const FIELD_ERROR: u64 = 1;
const FIELD_RECORDS: u64 = 2;

const WIRE_VARINT: u64 = 0;
const WIRE_FIXED64: u64 = 1;
const WIRE_BYTES: u64 = 2;
const WIRE_FIXED32: u64 = 5;

/// Where in the message the next byte belongs.
#[derive(Clone, Copy, Debug)]
enum At {
    Tag { value: u64, bits: u32 },
    Varint,
    Length { field: u64, value: u64, bits: u32 },
    Payload { field: u64, left: u64 },
}

const START: At = At::Tag { value: 0, bits: 0 };

#[derive(Debug)]
pub struct Walker {
    at: At,
    error: Option<Vec<u8>>,
    pub bytes: u64,
    pub records: u64,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Verdict {
    #[error("the server answered {kind}: {message}")]
    Refused { kind: String, message: String },
    #[error("the answer is no protobuf message from byte {at} on")]
    Malformed { at: u64 },
    #[error("the answer ends in the middle of a field after {bytes} bytes")]
    CutOff { bytes: u64 },
}

impl Default for Walker {
    fn default() -> Self {
        Self { at: START, error: None, bytes: 0, records: 0 }
    }
}

impl Walker {
    pub fn feed(&mut self, chunk: &[u8]) -> Result<(), Verdict> {
        let mut rest = chunk;
        while let Some((&byte, after)) = rest.split_first() {
            match self.at {
                At::Payload { field, left } => {
                    let take = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    if field == FIELD_ERROR {
                        self.keep_error(&rest[..take]);
                    }
                    rest = &rest[take..];
                    self.at = Self::payload(field, left - take as u64);
                }
                At::Varint => {
                    self.at = if byte & 0x80 == 0 { START } else { At::Varint };
                    rest = after;
                }
                At::Tag { value, bits } => {
                    let value = value | u64::from(byte & 0x7F) << bits;
                    self.at = match (byte & 0x80, bits < VARINT_BITS_MAX) {
                        (0, _) => self.field(value).ok_or_else(|| self.malformed(chunk, rest))?,
                        (_, true) => At::Tag { value, bits: bits + 7 },
                        (_, false) => return Err(self.malformed(chunk, rest)),
                    };
                    rest = after;
                }
                At::Length { field, value, bits } => {
                    let value = value | u64::from(byte & 0x7F) << bits;
                    self.at = match (byte & 0x80, bits < VARINT_BITS_MAX) {
                        (0, _) => Self::payload(field, value),
                        (_, true) => At::Length { field, value, bits: bits + 7 },
                        (_, false) => return Err(self.malformed(chunk, rest)),
                    };
                    rest = after;
                }
            }
        }
        self.bytes += chunk.len() as u64;
        Ok(())
    }

    /// To be asked when the answer has ended.
    pub fn verdict(&self) -> Result<(), Verdict> {
        if let Some(error) = &self.error {
            let error = api::models::Error::decode(error.as_slice()).unwrap_or_default();
            return Err(Verdict::Refused { kind: error.r#type().as_str_name().to_owned(), message: error.message });
        }
        match self.at {
            At::Tag { bits: 0, .. } => Ok(()),
            _ => Err(Verdict::CutOff { bytes: self.bytes }),
        }
    }

    fn payload(field: u64, left: u64) -> At {
        if left == 0 { START } else { At::Payload { field, left } }
    }

    fn field(&mut self, tag: u64) -> Option<At> {
        let (field, wire) = (tag >> 3, tag & 7);
        match wire {
            WIRE_VARINT => Some(At::Varint),
            WIRE_FIXED64 => Some(At::Payload { field: 0, left: 8 }),
            WIRE_FIXED32 => Some(At::Payload { field: 0, left: 4 }),
            WIRE_BYTES => {
                match field {
                    // Even an empty error is an error: clients read it as one of unknown kind.
                    FIELD_ERROR => drop(self.error.get_or_insert_default()),
                    FIELD_RECORDS => self.records += 1,
                    _ => {}
                }
                Some(At::Length { field, value: 0, bits: 0 })
            }
            _ => None,
        }
    }

    fn keep_error(&mut self, part: &[u8]) {
        let kept = self.error.get_or_insert_default();
        let room = ERROR_BYTES_MAX.saturating_sub(kept.len());
        kept.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn malformed(&self, chunk: &[u8], rest: &[u8]) -> Verdict {
        Verdict::Malformed { at: self.bytes + (chunk.len() - rest.len()) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use api::models::{ActualLrPsResponse, ActualLrp, Error, PingResponse};

    use super::*;

    /// The verdict must not depend on how the network cuts the answer.
    fn check(body: &[u8]) -> (Result<(), Verdict>, u64) {
        let walk = |size: usize| {
            let mut walker = Walker::default();
            let fed = body.chunks(size).try_for_each(|chunk| walker.feed(chunk));
            (fed.and_then(|()| walker.verdict()), walker.records)
        };
        let whole = walk(body.len().max(1));
        for size in [1, 2, 3, 7, 64] {
            assert_eq!(walk(size), whole, "in chunks of {size}");
        }
        whole
    }

    #[test]
    fn records_are_counted_and_success_has_no_error() {
        let lrp = ActualLrp { state: "RUNNING".into(), ..Default::default() };
        let list = ActualLrPsResponse { error: None, actual_lrps: vec![lrp; 300] };
        assert_eq!(check(&list.encode_to_vec()), (Ok(()), 300));
        assert_eq!(check(&[]), (Ok(()), 0));
        assert_eq!(check(&PingResponse { available: true }.encode_to_vec()), (Ok(()), 0));
    }

    #[test]
    fn an_error_is_found_even_an_empty_one() {
        let error = Error { r#type: 13, message: "the requested resource could not be found".into() };
        let refused = ActualLrPsResponse { error: Some(error), actual_lrps: Vec::new() }.encode_to_vec();
        let expected = "the server answered ResourceNotFound: the requested resource could not be found";
        assert_eq!(check(&refused).0.unwrap_err().to_string(), expected);
        assert_eq!(check(&[0x0a, 0x00]).0.unwrap_err().to_string(), "the server answered UnknownError: ");
    }

    #[test]
    fn a_long_error_is_kept_in_part() {
        let error = Error { r#type: 4, message: "x".repeat(100_000) };
        let refused = ActualLrPsResponse { error: Some(error), actual_lrps: Vec::new() }.encode_to_vec();
        assert!(matches!(check(&refused).0, Err(Verdict::Refused { .. })));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let list = ActualLrPsResponse { error: None, actual_lrps: vec![ActualLrp { since: 5, ..Default::default() }] };
        let bytes = list.encode_to_vec();
        assert_eq!(check(&bytes[..bytes.len() - 1]).0, Err(Verdict::CutOff { bytes: bytes.len() as u64 - 1 }));
        assert!(matches!(check(b"<html>").0, Err(Verdict::Malformed { .. })));
        assert!(matches!(check(&[0xff; 12]).0, Err(Verdict::Malformed { .. })));
    }
}
