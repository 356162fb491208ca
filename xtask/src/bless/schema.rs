//! What a set of `.proto` files promises: names, tags, types and JSON, without order, remarks or places of declarations.
//!
//! The same value is read from today's files and from those of a release, so that comparing them is comparing two values.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// One set of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Schema {
    /// All messages and enums by full name, such as `models.ActualLRP.Presence`.
    pub(crate) declarations: BTreeMap<String, Declaration>,
    /// The head of every file, by its name without folders.
    pub(crate) files: BTreeMap<String, Head>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) syntax: String,
    pub(crate) package: String,
    pub(crate) at: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declaration {
    pub(crate) kind: Kind,
    pub(crate) at: Place,
    /// Fields by tag, or values of an enum by number.
    pub(crate) members: BTreeMap<i32, Member>,
    pub(crate) reserved: BTreeMap<i32, Reserved>,
    pub(crate) reserved_names: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Message,
    Enum,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Absent for the values of an enum.
    pub(crate) shape: Option<Shape>,
    /// Absent for the values of an enum, and where there is no comment, which the build refuses.
    pub(crate) json: Option<Json>,
    pub(crate) at: Place,
}

/// Everything about a field that is visible in its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) label: Label,
    /// A scalar, or the full name of a message or enum.
    pub(crate) type_name: String,
    pub(crate) oneof: Option<String>,
    /// Numbers in lists are packed unless it says otherwise.
    pub(crate) unpacked: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Label {
    Single,
    Optional,
    Repeated,
    /// With the type of its keys.
    Map(String),
}

/// The comment behind a field, as `crates/api/build/schema.rs` reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Json {
    /// The key, or one of the two words that stand for a shape: `flatten`, `OptionalRoutable`.
    pub(crate) key: String,
    /// A question mark behind the key: left out when zero or empty.
    pub(crate) omitted_when_empty: bool,
    /// A sub-message that is sent even when it is empty.
    pub(crate) always_emitted: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// Whether a comment on the line says why.
    pub(crate) has_reason: bool,
    pub(crate) at: Place,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
        let (members, reserved) = (BTreeMap::new(), BTreeMap::new());
        Declaration { kind, at, members, reserved, reserved_names: BTreeSet::new() }
    }

    pub(crate) fn named(&self, name: &str) -> Option<(i32, &Member)> {
        self.members.iter().find(|(_, member)| member.name == name).map(|(tag, member)| (*tag, member))
    }

    /// The largest number that is or was in use here.
    pub(crate) fn last_tag(&self) -> i32 {
        self.members.keys().chain(self.reserved.keys()).copied().max().unwrap_or(0)
    }
}

impl Place {
    /// The name of the file without its folders.
    pub(crate) fn file(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(oneof) = &self.oneof {
            write!(f, "oneof {oneof}: ")?;
        }
        match &self.label {
            Label::Single => write!(f, "{}", self.type_name)?,
            Label::Optional => write!(f, "optional {}", self.type_name)?,
            Label::Repeated => write!(f, "repeated {}", self.type_name)?,
            Label::Map(key) => write!(f, "map<{key}, {}>", self.type_name)?,
        }
        if self.unpacked { f.write_str(" [packed = false]") } else { Ok(()) }
    }
}
