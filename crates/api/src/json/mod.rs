//! The JSON that operators see: what Go's `encoding/json` makes of Diego's structs, and what it reads.
//!
//! This is not protobuf's own JSON mapping. Keys are Diego's, some sub-messages are flattened into their parent, an
//! empty list is `null` unless its key is left out, enums are names, routes are bare JSON. The shape of each message
//! is written by the build script from the comments in `proto/*.proto` as an `Object`; here are the few operations
//! that those shapes are made of. serde's own `flatten` could not be used: it prints nothing for an absent
//! sub-message where Go prints zeros, and its buffer cannot hold raw JSON.
//!
//! On input a `null` is the zero value, unknown keys are ignored, and the case of keys does not matter. We go beyond
//! Go in one point: `OptionalRoutable`, which Go prints but cannot read, is read back.

mod named;
mod object;
mod routable;
mod routes;

pub(crate) use named::{Named, NamedEnum, read_named};
pub(crate) use object::{
    Object, has_key, read_list, read_map, read_object, read_value, write_list, write_object, write_unless_empty,
};
pub(crate) use routable::{read_routable, write_routable};
pub(crate) use routes::write_route_changes;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Prints as Go does: one line, with `<`, `>`, `&` and the two line separators escaped.
///
/// # Panics
///
/// When `T` itself refuses to be printed, which no message does; a map with keys that are not text would.
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> String {
    let text = serde_json::to_string(value).expect("messages have text keys and no failing parts");
    escape(&text)
}

/// Reads a message from JSON. The error names line and column.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(text)
}

/// Escapes what Go escapes. These characters can stand in a JSON text only within strings, so the text may be treated
/// as a whole.
fn escape(text: &str) -> String {
    const SPECIAL: [char; 5] = ['<', '>', '&', '\u{2028}', '\u{2029}'];
    if !text.contains(SPECIAL) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 64);
    for character in text.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests;
