//! Server-sent events, framed as Diego's client parses them.

use api::convert::Payload;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::{EventId, Gap};

pub(super) fn event_frame(id: EventId, payload: &Payload) -> Bytes {
    let mut frame = String::with_capacity(payload.message.len() * 4 / 3 + 96);
    frame.push_str(&format!("id: {id}\nevent: {}\ndata: ", payload.name));
    STANDARD.encode_string(&payload.message, &mut frame);
    frame.push_str("\n\n");
    frame.into()
}

/// Tells a client that asked to resume that events it has not seen are gone.
///
/// Only a client that sent `Last-Event-ID` gets it. Diego's client does so when a connection broke; it does not know the
/// name and returns an error to its caller, which then reads the state anew. Without it the loss would go unnoticed.
pub fn gap_frame(gap: Gap) -> Bytes {
    let json = serde_json::json!({
        "reason": "events between the last one you saw and now are no longer held; read the state anew",
        "asked": gap.asked.to_string(),
        "oldest": gap.oldest,
        "newest": gap.newest,
    });
    format!("id: {}\nevent: gap\ndata: {}\n\n", gap.newest, STANDARD.encode(json.to_string())).into()
}

/// The last words to a subscriber that is cut off. Clients skip comments; people who look at the stream do not.
pub fn closing_comment(reason: &str) -> Bytes {
    format!(": closed: {reason}\n\n").into()
}
