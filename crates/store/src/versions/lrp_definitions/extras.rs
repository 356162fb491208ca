//! What the records of an entity hold beside what the model has a field for, packed into `model::Unknown` and out again.
//!
//! Promise: the fields that are not known and those that are carried for other versions go through the model unharmed,
//! each with the record it came from. A definition keeps its own when it becomes the previous one, an older one, or the
//! one in use again. For an entity that has none of them, and that is almost every one, nothing is allocated and nothing
//! is read.
//!
//! These bytes live in memory only; their layout may change with every release.

use bytes::Bytes;
use model::Unknown;
use prost::Message;

use crate::versions::unknown::{Carried, Kept, Record};

/// Names the record of an entity that has only one.
pub(super) const ONLY: u32 = 0;
/// Names the schedule of a DesiredLRP. Its definitions are named by their numbers, which begin with 1.
pub(super) const SCHEDULE: u32 = 0;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Extras {
    #[prost(message, repeated, tag = "1")]
    extras: Vec<Extra>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Extra {
    #[prost(uint32, tag = "1")]
    record: u32,
    #[prost(bytes = "bytes", tag = "2")]
    unknown: Bytes,
    #[prost(message, repeated, tag = "3")]
    carried: Vec<Carried>,
}

impl Extras {
    pub(super) fn of(unknown: &Unknown) -> Extras {
        if unknown.is_empty() {
            return Extras::default();
        }
        // Only `packed` makes these bytes, so they can be read.
        Extras::decode(unknown.as_bytes()).unwrap_or_default()
    }

    pub(super) fn packed(&self) -> Unknown {
        if self.extras.is_empty() { Unknown::default() } else { Unknown::new(&self.encode_to_vec()) }
    }

    /// Takes what a record has beside its other fields.
    pub(super) fn take_from<M: Record>(&mut self, record: u32, kept: &mut Kept<M>) {
        if !kept.unknown.is_empty() || !kept.message.carried().is_empty() {
            let unknown = std::mem::take(&mut kept.unknown);
            let carried = std::mem::take(kept.message.carried());
            // In the order of their numbers, whichever of the definitions is in use.
            let at = self.extras.partition_point(|extra| extra.record < record);
            self.extras.insert(at, Extra { record, unknown, carried });
        }
    }

    /// The message with what was noted of its record.
    pub(super) fn added_to<M: Record>(&self, record: u32, mut message: M) -> Kept<M> {
        match self.extras.iter().find(|extra| extra.record == record) {
            Some(extra) => {
                message.carried().clone_from(&extra.carried);
                Kept { message, unknown: extra.unknown.clone() }
            }
            None => message.into(),
        }
    }
}
