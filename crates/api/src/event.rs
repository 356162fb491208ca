//! What travels on an event stream: thirteen messages of Diego's, and one of ours.
//!
//! Ours is the `gap`. Diego's streams lose events silently when a client reconnects; we number events so that a client
//! can ask for what it missed, and when that is no longer kept we must say so. Diego's Go client answers an unknown
//! event name with an error and goes on, so a gap is sent only to a client that sent a `Last-Event-ID`.
//!
//! When you add an event: add a row here, a message in `events.proto`, and a line in `docs/formats/api.md`.

use bytes::Bytes;
use serde::{Deserialize, Serialize, Serializer};

use crate::models;
use crate::{DecodeError, decode, encode};

/// Events between what the client had seen and what the server still keeps are lost.
///
/// The client must list everything anew. What follows on this stream came after `newest`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// A sentence for people.
    pub reason: String,
    /// The oldest revision from which the server could still have continued.
    pub oldest: u64,
    /// The newest revision at the moment of the subscription.
    pub newest: u64,
}

impl Gap {
    pub const NAME: &'static str = "gap";
}

/// Why the data of an event cannot be understood. The stream itself goes on.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    #[error("the event name {name:?} is unknown; the server may be newer than this client")]
    UnknownName { name: String },
    #[error("the data of the event {name} cannot be read")]
    Message {
        name: String,
        #[source]
        source: DecodeError,
    },
    #[error("the data of the event {name} is not base64")]
    Base64 {
        name: String,
        #[source]
        source: base64::DecodeError,
    },
    #[error("the data of the gap event is not the expected JSON")]
    Gap(#[source] serde_json::Error),
}

macro_rules! payloads {
    ($($variant:ident, $name:literal, $message:ident;)*) => {
        /// The content of one event.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(clippy::large_enum_variant, reason = "a payload is moved once, from decoding to its reader")]
        pub enum EventPayload {
            $($variant(models::$message),)*
            Gap(Gap),
        }

        impl EventPayload {
            /// Diego's names, in the order of its documentation.
            pub const NAMES: &'static [&'static str] = &[$($name,)*];

            /// The name in the `event:` line.
            pub fn name(&self) -> &'static str {
                match self {
                    $(EventPayload::$variant(_) => $name,)*
                    EventPayload::Gap(_) => Gap::NAME,
                }
            }

            /// The bytes that go, in base64, into the `data:` line.
            pub fn encode(self) -> Bytes {
                match self {
                    $(EventPayload::$variant(message) => encode(message),)*
                    EventPayload::Gap(gap) => crate::json::to_string(&gap).into(),
                }
            }

            pub fn decode(name: &str, bytes: &[u8]) -> Result<Self, EventError> {
                let wrap = |source| EventError::Message { name: name.to_owned(), source };
                match name {
                    $($name => decode(bytes).map(EventPayload::$variant).map_err(wrap),)*
                    Gap::NAME => serde_json::from_slice(bytes).map(EventPayload::Gap).map_err(EventError::Gap),
                    _ => Err(EventError::UnknownName { name: name.to_owned() }),
                }
            }
        }

        impl Serialize for EventPayload {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(EventPayload::$variant(message) => message.serialize(to),)*
                    EventPayload::Gap(gap) => gap.serialize(to),
                }
            }
        }
    };
}

payloads! {
    DesiredLrpCreated, "desired_lrp_created", DesiredLrpCreatedEvent;
    DesiredLrpChanged, "desired_lrp_changed", DesiredLrpChangedEvent;
    DesiredLrpRemoved, "desired_lrp_removed", DesiredLrpRemovedEvent;
    ActualLrpCreated, "actual_lrp_created", ActualLrpCreatedEvent;
    ActualLrpChanged, "actual_lrp_changed", ActualLrpChangedEvent;
    ActualLrpRemoved, "actual_lrp_removed", ActualLrpRemovedEvent;
    ActualLrpCrashed, "actual_lrp_crashed", ActualLrpCrashedEvent;
    ActualLrpInstanceCreated, "actual_lrp_instance_created", ActualLrpInstanceCreatedEvent;
    ActualLrpInstanceChanged, "actual_lrp_instance_changed", ActualLrpInstanceChangedEvent;
    ActualLrpInstanceRemoved, "actual_lrp_instance_removed", ActualLrpInstanceRemovedEvent;
    TaskCreated, "task_created", TaskCreatedEvent;
    TaskChanged, "task_changed", TaskChangedEvent;
    TaskRemoved, "task_removed", TaskRemovedEvent;
}

/// One event as a client receives it. In JSON it is cfdot's line: `{"type":…,"data":{…}}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Opaque to a client: what it sends as `Last-Event-ID` to continue. Corkboard's ids name the revision, Diego's
    /// count from 0 on each connection.
    pub id: String,
    pub name: String,
    pub payload: EventPayload,
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Line<'a> {
            r#type: &'a str,
            data: &'a EventPayload,
        }
        Line { r#type: &self.name, data: &self.payload }.serialize(to)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn every_name_decodes_to_the_payload_that_has_it() {
        assert_eq!(EventPayload::NAMES.len(), 13);
        for name in EventPayload::NAMES {
            assert_eq!(EventPayload::decode(name, b"").unwrap().name(), *name);
        }
    }

    #[test]
    fn events_print_as_cfdot_prints_them() {
        let payload = EventPayload::DesiredLrpRemoved(models::DesiredLrpRemovedEvent {
            trace_id: "t".into(),
            ..Default::default()
        });
        let event = Event { id: "7".into(), name: payload.name().into(), payload };
        expect![[r#"{"type":"desired_lrp_removed","data":{"trace_id":"t"}}"#]]
            .assert_eq(&crate::json::to_string(&event));
    }

    #[test]
    fn a_gap_is_json() {
        let gap = EventPayload::Gap(Gap { reason: "too far behind".into(), oldest: 5, newest: 9 });
        let bytes = gap.clone().encode();
        expect![[r#"{"reason":"too far behind","oldest":5,"newest":9}"#]]
            .assert_eq(std::str::from_utf8(&bytes).unwrap());
        assert_eq!(EventPayload::decode("gap", &bytes).unwrap(), gap);
    }

    #[test]
    fn unknown_names_and_broken_data_are_told_apart() {
        expect![[r#"the event name "lrp_teleported" is unknown; the server may be newer than this client"#]]
            .assert_eq(&EventPayload::decode("lrp_teleported", b"").unwrap_err().to_string());
        expect!["the data of the event task_created cannot be read"]
            .assert_eq(&EventPayload::decode("task_created", &[0x0a]).unwrap_err().to_string());
        assert!(matches!(EventPayload::decode("gap", b"{}"), Err(EventError::Gap(_))));
    }
}
