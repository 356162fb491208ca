//! Parts of a stored record that this server does not know.
//!
//! A later release may have added a field to a record without a new data version. Whoever rewrites the record gives the
//! field back as it found it, so that going back a release and forward again loses nothing. Only the store looks inside.

use std::fmt;
use std::sync::Arc;

/// Nothing, almost always; a pointer then costs less in half a million records than an empty buffer would.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Unknown(Option<Arc<[u8]>>);

impl Unknown {
    pub fn new(bytes: &[u8]) -> Self {
        Self((!bytes.is_empty()).then(|| bytes.into()))
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Debug for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unknown({} bytes)", self.as_bytes().len())
    }
}
