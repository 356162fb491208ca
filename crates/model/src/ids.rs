//! One type per kind of id, all from the list at the bottom; parsing is the only door in.
//!
//! Ids are cheap to clone because a board holds each of them several times (record, indexes, events). They are checked for
//! what storage needs (not empty, bounded). The stricter pattern for new process and task guids is a rule of the requests
//! that create them, because the calls a cell makes accept any guid, as Diego's do.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// The longest id in bytes: the width of the columns that Diego keeps ids in.
pub const ID_BYTES_MAX: usize = 255;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("a {kind} must not be empty")]
    Empty { kind: &'static str },
    #[error("a {kind} must not be longer than {ID_BYTES_MAX} bytes, this one has {bytes}")]
    TooLong { kind: &'static str, bytes: usize },
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $kind:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn parse(text: &str) -> Result<Self, IdError> {
                match text.len() {
                    0 => Err(IdError::Empty { kind: $kind }),
                    1..=ID_BYTES_MAX => Ok(Self(text.into())),
                    bytes => Err(IdError::TooLong { kind: $kind, bytes }),
                }
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &self.0)
            }
        }
    )*};
}

// When you add one: the literal is what error messages call it.
ids! {
    /// Names a desired LRP and all its instances.
    ProcessGuid = "process guid";
    /// Names one container that runs an instance.
    InstanceGuid = "instance guid";
    /// Names a cell.
    CellId = "cell id";
    /// Names a task.
    TaskGuid = "task guid";
    /// Names a domain.
    DomainName = "domain";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsing_bounds_the_length() {
        assert_eq!(CellId::parse(""), Err(IdError::Empty { kind: "cell id" }));
        assert_eq!(CellId::parse(&"x".repeat(255)).map(|id| id.as_str().len()), Ok(255));
        assert_eq!(CellId::parse(&"x".repeat(256)), Err(IdError::TooLong { kind: "cell id", bytes: 256 }));
    }
}
