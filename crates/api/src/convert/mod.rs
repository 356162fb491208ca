//! Between the wire's messages and the domain's types.
//!
//! Everything a request says enters the domain here, and every record leaves here, encoded once. A record is kept as an
//! [`Item`]: its bytes already framed as field 2 of an answer, which is where every list and every single look-up carries its
//! records. A list is then nothing but a concatenation.
//!
//! A protobuf message may be cut into pieces at any field boundary, and its fields may come in any order. Desired LRPs use
//! both: the large part that only a cell reads is encoded once, when it is desired, and never touched again; see
//! [`desired_lrp::Encoded`].

mod actual_lrp;
mod cell;
pub mod desired_lrp;
mod event;
mod fields;
pub mod rollout;
mod task;

pub use actual_lrp::{
    actual_item, actual_lrp, group, instance_key, lrp_key, opt_instance_key, report_of_evacuation, report_of_start,
};
pub use cell::{cell_from_wire, cell_to_wire};
pub use event::{Payload, Stream, payload};
pub use task::{task, task_definition, task_item};

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

/// Field 2 of every answer that carries records.
const RECORDS: u32 = 2;

/// A record framed for a list: tag, length, message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    framed: Bytes,
    message_at: usize,
}

impl Item {
    /// Frames a message that is already encoded.
    pub fn frame(message: &[u8]) -> Self {
        let message_at = frame_len(message.len()) - message.len();
        let mut framed = BytesMut::with_capacity(message_at + message.len());
        put_frame(message.len(), &mut framed);
        framed.put_slice(message);
        Self { framed: framed.freeze(), message_at }
    }

    pub fn of(message: &impl prost::Message) -> Self {
        let len = message.encoded_len();
        let mut framed = Vec::with_capacity(frame_len(len));
        put_frame(len, &mut framed);
        let message_at = framed.len();
        message.encode_raw(&mut framed);
        Self { framed: framed.into(), message_at }
    }

    /// As it stands in a list.
    pub fn framed(&self) -> &Bytes {
        &self.framed
    }

    /// The message alone.
    pub fn message(&self) -> Bytes {
        self.framed.slice(self.message_at..)
    }
}

/// How long a message of this length is once it is framed.
pub fn frame_len(message_len: usize) -> usize {
    key_len(RECORDS) + encoded_len_varint(message_len as u64) + message_len
}

/// Writes what precedes a message of this length in a list.
pub fn put_frame(message_len: usize, buf: &mut impl BufMut) {
    encode_key(RECORDS, WireType::LengthDelimited, buf);
    encode_varint(message_len as u64, buf);
}

/// A sub-message that is already encoded, as field `tag` of the message it belongs to.
pub(crate) fn put_sub_message(tag: u32, pieces: &[&[u8]], buf: &mut Vec<u8>) {
    encode_key(tag, WireType::LengthDelimited, buf);
    encode_varint(pieces.iter().map(|piece| piece.len() as u64).sum(), buf);
    for piece in pieces {
        buf.put_slice(piece);
    }
}

#[cfg(test)]
mod tests;
