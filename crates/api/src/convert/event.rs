//! Events as the streams carry them: a name and an encoded message.

use bytes::Bytes;
use model::event::{DesiredEvent, Event, GroupEvent, InstanceEvent, TaskEvent};
use model::{ActualLrp, DesiredLrp};
use prost::Message;

use super::actual_lrp::{actual_lrp, group, info, wire_instance_key, wire_key};
use super::desired_lrp::{Encoded, desired_lrp};
use super::{put_sub_message, task};
use crate::{models, revision};

/// In which shape desired LRPs and tasks are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// The newest revision of a stream.
    Newest,
    /// The unrevisioned streams.
    Oldest,
}

/// What goes into the `event` and, as base64, into the `data` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    pub name: &'static str,
    pub message: Bytes,
}

/// `trace` is shown where the message has a place for it and the request that caused the event gave one.
pub fn payload(event: &Event, stream: Stream, trace: &str) -> Payload {
    match event {
        Event::Desired(event) => desired(event, stream, trace),
        Event::Group(event) => group_event(event),
        Event::Instance(event) => instance(event, trace),
        Event::Task(event) => task_event(event, stream),
    }
}

fn built(name: &'static str, message: &impl Message) -> Payload {
    Payload { name, message: message.encode_to_vec().into() }
}

fn desired(event: &DesiredEvent, stream: Stream, trace: &str) -> Payload {
    let (name, records, trace_tag): (_, Vec<(u32, &DesiredLrp)>, u32) = match event {
        DesiredEvent::Created(lrp) => ("desired_lrp_created", vec![(1, lrp)], 2),
        DesiredEvent::Changed { before, after } => ("desired_lrp_changed", vec![(1, before), (2, after)], 3),
        DesiredEvent::Removed(lrp) => ("desired_lrp_removed", vec![(1, lrp)], 2),
    };
    let mut bytes = Vec::new();
    for (tag, lrp) in records {
        match stream {
            Stream::Newest => Encoded::of(lrp).put_in_event(tag, &mut bytes),
            Stream::Oldest => {
                let oldest = revision::desired_lrp_v3_to_v0(desired_lrp(lrp));
                put_sub_message(tag, &[&oldest.encode_to_vec()], &mut bytes);
            }
        }
    }
    if !trace.is_empty() {
        prost::encoding::string::encode(trace_tag, &trace.to_owned(), &mut bytes);
    }
    Payload { name, message: bytes.into() }
}

fn group_event(event: &GroupEvent) -> Payload {
    match event {
        GroupEvent::Created(shown) => {
            built("actual_lrp_created", &models::ActualLrpCreatedEvent { actual_lrp_group: Some(group(shown)) })
        }
        GroupEvent::Changed { before, after } => built(
            "actual_lrp_changed",
            &models::ActualLrpChangedEvent { before: Some(group(before)), after: Some(group(after)) },
        ),
        GroupEvent::Removed(shown) => {
            built("actual_lrp_removed", &models::ActualLrpRemovedEvent { actual_lrp_group: Some(group(shown)) })
        }
        GroupEvent::Crashed { before, after } => crashed(before, after),
    }
}

fn instance(event: &InstanceEvent, trace: &str) -> Payload {
    let trace_id = trace.to_owned();
    match event {
        InstanceEvent::Created(row) => built(
            "actual_lrp_instance_created",
            &models::ActualLrpInstanceCreatedEvent { actual_lrp: Some(actual_lrp(row)), trace_id },
        ),
        InstanceEvent::Changed { before, after } => built(
            "actual_lrp_instance_changed",
            &models::ActualLrpInstanceChangedEvent {
                actual_lrp_key: Some(wire_key(&after.key)),
                actual_lrp_instance_key: Some(wire_instance_key(after.instance.as_ref().or(before.instance.as_ref()))),
                before: Some(info(before)),
                after: Some(info(after)),
                trace_id,
            },
        ),
        InstanceEvent::Removed(row) => built(
            "actual_lrp_instance_removed",
            &models::ActualLrpInstanceRemovedEvent { actual_lrp: Some(actual_lrp(row)), trace_id },
        ),
        InstanceEvent::Crashed { before, after } => crashed(before, after),
    }
}

fn crashed(before: &ActualLrp, after: &ActualLrp) -> Payload {
    built(
        "actual_lrp_crashed",
        &models::ActualLrpCrashedEvent {
            actual_lrp_key: Some(wire_key(&after.key)),
            actual_lrp_instance_key: Some(wire_instance_key(before.instance.as_ref())),
            crash_count: after.crash_count,
            crash_reason: after.crash_reason.clone(),
            since: after.since_ns,
        },
    )
}

fn task_event(event: &TaskEvent, stream: Stream) -> Payload {
    let (name, records) = match event {
        TaskEvent::Created(task) => ("task_created", vec![(1, task)]),
        TaskEvent::Changed { before, after } => ("task_changed", vec![(1, before), (2, after)]),
        TaskEvent::Removed(task) => ("task_removed", vec![(1, task)]),
    };
    let mut bytes = Vec::new();
    for (tag, record) in records {
        let encoded = match stream {
            Stream::Newest => task::encoded(record),
            Stream::Oldest => revision::task_v3_to_v2(task::task(record)).encode_to_vec().into(),
        };
        put_sub_message(tag, &[&encoded], &mut bytes);
    }
    Payload { name, message: bytes.into() }
}
