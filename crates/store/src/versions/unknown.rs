//! Fields of a record that this server does not know, kept while it works with the others.
//!
//! Promise: a field that a later release of the same data version added at the top level of a record survives reading and
//! writing, and every step between versions, there and back. The fields stand behind the known ones when the record is
//! written. Numbers of fields mean something else in another version, so a step never passes them on as fields: there they
//! are *carried*, packed up with the version and the record they belong to, until a step takes them out again.
//!
//! This is mechanism. Which fields a record has, each version says itself.

use std::fmt;
use std::ops::{Deref, DerefMut};

use bytes::{Buf, BufMut, Bytes};
use prost::encoding::{DecodeContext, WireType, decode_key, skip_field};
use prost::{DecodeError, Message};

use crate::record::{self, DataVersion, Encoding, Header};

/// The number of the field `carried` in every record that has one.
pub const CARRIED: u32 = 1000;

/// Fields that belong to a record of another version.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct Carried {
    #[prost(uint64, tag = "1")]
    pub version: u64,
    /// Which record of the entity, where that version has several.
    #[prost(string, tag = "2")]
    pub record: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub fields: Bytes,
}

impl fmt::Debug for Carried {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Carried({} {:?}, {} bytes)", self.version, self.record, self.fields.len())
    }
}

/// A kind of record that has its own key, as one version writes it.
pub trait Record: Message + Default {
    /// Whether the record has a field of this number.
    fn knows(tag: u32) -> bool;
    fn carried(&mut self) -> &mut Vec<Carried>;
}

/// A record, and the fields in it that are not known, as they were found.
#[derive(Clone, Default, PartialEq)]
pub struct Kept<M> {
    pub message: M,
    pub unknown: Bytes,
}

impl<M> From<M> for Kept<M> {
    fn from(message: M) -> Kept<M> {
        Kept { message, unknown: Bytes::new() }
    }
}

impl<M> Deref for Kept<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.message
    }
}

impl<M> DerefMut for Kept<M> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.message
    }
}

impl<M: fmt::Debug> fmt::Debug for Kept<M> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message.fmt(out)?;
        if self.unknown.is_empty() { Ok(()) } else { write!(out, " and {} unknown bytes", self.unknown.len()) }
    }
}

/// The record of a version: what belongs to what, while fields are carried.
pub type Owner = (DataVersion, &'static str);

impl<M: Record> Kept<M> {
    /// Reads the payload of a record. Bytes in the message share its memory.
    pub fn read(payload: Bytes) -> Result<Kept<M>, DecodeError> {
        Ok(*Kept::read_boxed(payload)?)
    }

    /// The same, in place: messages are large, and moving them about is much of what loading costs.
    pub fn read_boxed(payload: Bytes) -> Result<Box<Kept<M>>, DecodeError> {
        let mut kept = Box::<Kept<M>>::default();
        let mut reading = Reading { message: &mut kept.message, passed_over: false };
        let whole = payload.clone();
        reading.merge(payload)?;
        if reading.passed_over {
            kept.unknown = unknown_fields(&whole, M::knows)?;
        }
        // In one order, so that what a step takes out and puts back is where it was.
        kept.message.carried().sort_by(|a, b| (a.version, &a.record).cmp(&(b.version, &b.record)));
        Ok(kept)
    }

    /// The fields of the record, without a header.
    pub fn payload(&self) -> Vec<u8> {
        let mut payload = Vec::with_capacity(self.message.encoded_len() + self.unknown.len());
        self.message.encode_raw(&mut payload);
        payload.extend_from_slice(&self.unknown);
        payload
    }

    /// The record as a version writes it whose encoding is plain protobuf.
    pub fn value(&self, version: DataVersion) -> Bytes {
        record::encode(Header { encoding: Encoding::Protobuf, version }, &self.payload())
    }

    /// What a step made of a record of the version `from`: the fields that were unknown there are carried here, and those
    /// that were carried for this record are its own again.
    pub fn stepped(message: M, from: Owner, unknown: Bytes, to: Owner) -> Kept<M> {
        let mut kept = Kept::from(message);
        let carried = kept.message.carried();
        if !carried.is_empty() {
            kept.unknown = take(carried, to);
        }
        put(carried, from, unknown);
        kept
    }
}

fn take(carried: &mut Vec<Carried>, (version, record): Owner) -> Bytes {
    let mut taken = carried.extract_if(.., |one| one.version == version.0 && one.record == record);
    let Some(first) = taken.next() else { return Bytes::new() };
    let more: Vec<Bytes> = taken.map(|one| one.fields).collect();
    if more.is_empty() { first.fields } else { [vec![first.fields], more].concat().concat().into() }
}

fn put(carried: &mut Vec<Carried>, (version, record): Owner, fields: Bytes) {
    if fields.is_empty() {
        return;
    }
    let at = carried.partition_point(|one| (one.version, one.record.as_str()) < (version.0, record));
    carried.insert(at, Carried { version: version.0, record: record.to_owned(), fields });
}

/// Reads a message and notes whether a field was passed over. That is almost never so, and only then is it worth it to go
/// through the payload once more.
struct Reading<'a, M> {
    message: &'a mut M,
    passed_over: bool,
}

impl<M: Record> Message for Reading<'_, M> {
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        self.passed_over |= !M::knows(tag);
        self.message.merge_field(tag, wire_type, buf, ctx)
    }

    fn encode_raw(&self, buf: &mut impl BufMut) {
        self.message.encode_raw(buf);
    }

    fn encoded_len(&self) -> usize {
        self.message.encoded_len()
    }

    fn clear(&mut self) {
        self.message.clear();
    }
}

/// The fields at the top level of a message that are not known, with their keys, in the order they are in.
fn unknown_fields(payload: &Bytes, knows: fn(u32) -> bool) -> Result<Bytes, DecodeError> {
    let mut unknown = Vec::new();
    let mut rest: &[u8] = payload;
    while !rest.is_empty() {
        let field = rest;
        let (tag, wire_type) = decode_key(&mut rest)?;
        skip_field(wire_type, tag, &mut rest, DecodeContext::default())?;
        if !knows(tag) {
            unknown.extend_from_slice(&field[..field.len() - rest.len()]);
        }
    }
    Ok(unknown.into())
}

/// For the tests of each version: that [`Record::knows`] names the fields of the message, and no others.
#[cfg(test)]
pub(crate) fn check_knows<M: Record + fmt::Debug>() {
    const FIXED_32: u32 = 5;
    for tag in 1..=CARRIED + 100 {
        let mut field = Vec::new();
        prost::encoding::encode_varint(u64::from(tag << 3 | FIXED_32), &mut field);
        field.extend([0; 4]);
        // No record has a field of this type, so a known number is an error and an unknown one is passed over.
        assert_eq!(M::decode(field.as_slice()).is_err(), M::knows(tag), "field {tag} of {:?}", M::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, prost::Message)]
    struct Sample {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(message, repeated, tag = "1000")]
        carried: Vec<Carried>,
    }

    impl Record for Sample {
        fn knows(tag: u32) -> bool {
            matches!(tag, 1 | CARRIED)
        }

        fn carried(&mut self) -> &mut Vec<Carried> {
            &mut self.carried
        }
    }

    const HERE: Owner = (DataVersion(7), "sample");
    const THERE: Owner = (DataVersion(9), "sample");

    #[test]
    fn the_sample_says_what_it_knows() {
        check_knows::<Sample>();
    }

    fn check(payload: &'static [u8], name: &str, unknown: &'static [u8]) {
        let kept = Kept::<Sample>::read(Bytes::from_static(payload)).unwrap();
        assert_eq!((kept.name.as_str(), &kept.unknown[..]), (name, unknown));
        let again = Kept::<Sample>::read(kept.payload().into()).unwrap();
        assert_eq!(again, kept);
        assert_eq!(again.payload(), kept.payload());
    }

    #[test]
    fn unknown_fields_stand_behind_the_known_ones() {
        check(b"\x0a\x01a", "a", b"");
        check(b"\x10\x05\x0a\x01a", "a", b"\x10\x05");
        check(b"\x10\x05\x0a\x01a\x1a\x01z\x20\x01", "a", b"\x10\x05\x1a\x01z\x20\x01");
        // A group, as old protobuf wrote them, is one field.
        check(b"\x13\x08\x01\x14\x0a\x01a", "a", b"\x13\x08\x01\x14");
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for payload in [b"\xff".as_slice(), b"\x12\x05a", b"\x0a", b"\x10", b"\x14"] {
            assert!(Kept::<Sample>::read(Bytes::copy_from_slice(payload)).is_err(), "{payload:?}");
        }
    }

    #[test]
    fn carried_fields_come_back_to_their_record() {
        let other = Carried { version: 8, record: "x".into(), fields: Bytes::from_static(b"\x10\x01") };
        let before = Sample { name: "a".into(), carried: vec![other.clone()] };
        let fields = Bytes::from_static(b"\x10\x05");
        let there = Kept::stepped(before.clone(), HERE, fields.clone(), THERE);
        assert_eq!((there.carried.len(), there.unknown.len()), (2, 0));
        assert_eq!(there.carried[0].version, 7, "in one order");
        let back = Kept::stepped(there.message.clone(), THERE, there.unknown, HERE);
        assert_eq!(back, Kept { message: before, unknown: fields });
        assert_eq!(format!("{other:?} {back:?}").matches("\\x10").count(), 0, "no bytes are shown");
    }

    #[test]
    fn what_is_carried_twice_for_one_record_is_joined() {
        let one = |fields: &'static [u8]| Carried { version: 9, record: "sample".into(), fields: fields.into() };
        let sample =
            Sample { name: String::new(), carried: vec![one(b"\x10\x01"), one(b"\x18\x01"), one(b"\x20\x01")] };
        let kept = Kept::stepped(sample, HERE, Bytes::new(), THERE);
        assert_eq!((&kept.unknown[..], kept.carried.len()), (b"\x10\x01\x18\x01\x20\x01".as_slice(), 0));
    }
}
