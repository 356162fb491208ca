//! Whom a changed field breaks: what becomes of its bytes and of its JSON.
//!
//! Some types share their bytes (`int32` and `int64`, `bool` and every plain integer, `string` and `bytes`), so a change
//! between them is not an error that anybody sees; it is a wrong number, or another JSON. None of them is allowed, because
//! every one of them is wrong for some value. What is said here is for the person who has to decide what to do instead.

use super::schema::{Kind, Label, Schema, Shape};

/// One sentence on the change from `before` to `now`; `None` if they are the same.
pub(crate) fn of_change(released: &Schema, before: &Shape, current: &Schema, now: &Shape) -> Option<String> {
    if before.type_name != now.type_name {
        let (bytes, json) = of_type(class(released, &before.type_name), class(current, &now.type_name));
        return Some(format!("bytes: {bytes}; JSON: {json}"));
    }
    if before.label != now.label {
        return Some(of_label(&before.label, &now.label).to_owned());
    }
    if before.oneof != now.oneof {
        return Some(of_oneof(before.oneof.is_some(), now.oneof.is_some()).to_owned());
    }
    (before.unpacked != now.unpacked).then(|| {
        "bytes: the same list is written in another way; our readers take both, those of others may not; JSON: as before"
            .to_owned()
    })
}

/// What decides how a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Integer { signed: bool },
    ZigZag,
    Bool,
    Enum,
    Fixed { bits: u32, signed: bool },
    Float,
    Text,
    Bytes,
    Message,
}

/// A type of another package is a message: we have no foreign enums.
fn class(schema: &Schema, type_name: &str) -> Class {
    match type_name {
        "int32" | "int64" => Class::Integer { signed: true },
        "uint32" | "uint64" => Class::Integer { signed: false },
        "sint32" | "sint64" => Class::ZigZag,
        "bool" => Class::Bool,
        "fixed32" => Class::Fixed { bits: 32, signed: false },
        "sfixed32" => Class::Fixed { bits: 32, signed: true },
        "fixed64" => Class::Fixed { bits: 64, signed: false },
        "sfixed64" => Class::Fixed { bits: 64, signed: true },
        "float" | "double" => Class::Float,
        "string" => Class::Text,
        "bytes" => Class::Bytes,
        name => match schema.declarations.get(name).map(|declaration| declaration.kind) {
            Some(Kind::Enum) => Class::Enum,
            Some(Kind::Message) | None => Class::Message,
        },
    }
}

fn of_type(before: Class, now: Class) -> (&'static str, &'static str) {
    use Class as C;
    const CUT: &str = "the same, but whoever reads 32 bits cuts larger numbers off without an error";
    const SIGN: &str = "the same, but a negative number is read as a huge one, or the other way round";
    const OTHER_FORM: &str = "another form: the field is refused or lost";
    match (before, now) {
        (C::Integer { signed: a }, C::Integer { signed: b }) if a == b => (CUT, "a number as before"),
        (C::Integer { .. }, C::Integer { .. }) => (SIGN, "a number, and another one below zero"),
        (C::ZigZag, C::ZigZag) => (CUT, "a number as before"),
        (C::Fixed { bits: a, .. }, C::Fixed { bits: b, .. }) if a == b => {
            (SIGN, "a number, and another one below zero")
        }
        (C::Bool, C::Integer { .. }) | (C::Integer { .. }, C::Bool) => {
            ("the same, but every number above 1 becomes true", "`true` and `1` are not the same")
        }
        (C::Enum, C::Integer { .. } | C::Bool) | (C::Integer { .. } | C::Bool, C::Enum) => {
            ("the same", "a name becomes a number, or the other way round")
        }
        (C::Enum, C::Enum) => ("the same, under other names", "the names change"),
        (C::ZigZag, C::Integer { .. } | C::Bool | C::Enum) | (C::Integer { .. } | C::Bool | C::Enum, C::ZigZag) => {
            ("the same form, read as another number without an error", "a number, and the wrong one")
        }
        (C::Text, C::Bytes) | (C::Bytes, C::Text) => {
            ("the same as long as they are UTF-8; the rest is replaced", "text becomes something else, or the reverse")
        }
        (C::Text | C::Bytes, C::Message) | (C::Message, C::Text | C::Bytes) => {
            ("the same form, read as what they are not", "a text becomes an object, or the reverse")
        }
        (C::Message, C::Message) => ("read under the numbers of another message", "an object with other keys"),
        (
            C::Integer { .. } | C::ZigZag | C::Fixed { .. } | C::Float,
            C::Integer { .. } | C::ZigZag | C::Fixed { .. } | C::Float,
        ) => (OTHER_FORM, "a number as before"),
        _ => (OTHER_FORM, "a value of another kind"),
    }
}

fn of_label(before: &Label, now: &Label) -> &'static str {
    match (before, now) {
        (Label::Single | Label::Optional, Label::Repeated) => {
            "bytes: an old reader takes the last of several values, or none of packed numbers; JSON: a value becomes a list"
        }
        (Label::Repeated, Label::Single | Label::Optional) => {
            "bytes: all values but the last are lost; JSON: a list becomes a value"
        }
        (Label::Single, Label::Optional) => {
            "bytes: a zero is sent where nothing was, and nothing no longer means zero; JSON: the same for null and 0"
        }
        (Label::Optional, Label::Single) => {
            "bytes: a zero that was sent is left out, and cannot be told from nothing; JSON: the same for 0 and null"
        }
        (Label::Map(_), Label::Map(_)) => "bytes: the keys are read as another type; JSON: a key is always text",
        _ => "bytes: an entry of a map is a message with two fields; JSON: an object becomes a list, or the reverse",
    }
}

fn of_oneof(was_in: bool, is_in: bool) -> &'static str {
    match (was_in, is_in) {
        (false, _) => "bytes: of a sender that sets it and a neighbour, one is lost; a zero is sent; JSON: as before",
        (true, false) => {
            "bytes: a zero that was sent is left out, and two of them may now be set at once; JSON: as before"
        }
        (true, true) => "bytes: it now pushes out other fields than before; JSON: as before",
    }
}
