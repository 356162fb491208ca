//! What a set of `.proto` files promises: names, tags and types, without comments, order or file names.
//!
//! The same value is read from the `.proto` files and from the lock, so that comparing them is comparing two values.

use std::collections::BTreeMap;

/// All messages and enums by full name, such as `models.ActualLRP.Presence`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schema {
    pub(crate) declarations: BTreeMap<String, Declaration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declaration {
    pub(crate) kind: Kind,
    pub(crate) at: Place,
    /// Fields by tag, or values of an enum by number.
    pub(crate) members: BTreeMap<i32, Member>,
    pub(crate) reserved: BTreeMap<i32, Reserved>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Message,
    Enum,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Everything about the field that is visible on the wire or in its presence, as words: `repeated models.File`,
    /// `map string string`, `optional bool`. Empty for the values of an enum.
    pub(crate) shape: String,
    pub(crate) at: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// Whether a comment on the line says why; the lock does not keep the reason.
    pub(crate) has_reason: bool,
    pub(crate) at: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: String,
    pub(crate) line: usize,
}

impl Kind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Kind::Message => "message",
            Kind::Enum => "enum",
        }
    }

    /// What a member of this kind is called in a message to a person.
    pub(crate) fn member_word(self) -> &'static str {
        match self {
            Kind::Message => "field",
            Kind::Enum => "value",
        }
    }
}

impl Declaration {
    pub(crate) fn new(kind: Kind, at: Place) -> Declaration {
        Declaration { kind, at, members: BTreeMap::new(), reserved: BTreeMap::new() }
    }
}
