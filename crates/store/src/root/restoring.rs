//! The mark on a store into which a backup is being restored.
//!
//! Promise: while it is there, the store is not whole, and whoever opens it is refused with the command that completes it. It
//! is written before the first record and goes in the step that writes the version. It is JSON and never encrypted.

use serde::{Deserialize, Serialize};

use super::{RESTORING_KEY, RootError, Unknown, parse_json, to_json};
use crate::kv::{Step, Store};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restoring {
    /// Of the file, in hex.
    pub sha256: String,
    pub started_ns: i64,
    #[serde(flatten)]
    pub unknown: Unknown,
}

impl Restoring {
    pub fn new(sha256: &str, started_ns: i64) -> Restoring {
        Restoring { sha256: sha256.to_owned(), started_ns, unknown: Unknown::new() }
    }
}

impl From<Restoring> for RootError {
    fn from(mark: Restoring) -> RootError {
        RootError::HalfRestored { sha256: mark.sha256 }
    }
}

pub fn put_restoring(step: &mut Step, mark: &Restoring) {
    step.put(RESTORING_KEY, to_json(mark));
}

pub(crate) fn read_restoring(json: &[u8]) -> Result<Restoring, RootError> {
    parse_json(RESTORING_KEY, json)
}

pub(crate) async fn refuse_half_restored(store: &dyn Store) -> Result<(), RootError> {
    match store.get(RESTORING_KEY).await? {
        Some(json) => Err(read_restoring(&json)?.into()),
        None => Ok(()),
    }
}
