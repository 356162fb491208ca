//! What the state server asks the auctioneer for.
//!
//! An element that is not valid is dropped by the auctioneer, with a line in its log, while the rest of the request counts:
//! one bad record must not keep everything else from being placed.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::shape::shape;
use super::{Lrp, Needs, Task};

shape! {
    /// Instances of one app that want a place.
    LrpStart {
        process_guid: String => plain("process_guid"),
        domain: String => plain("domain"),
        /// In no particular order.
        indices: Vec<i32> => plain("indices"),
        needs: Needs => flat,
    }
}

/// A task that wants a place; the same object as in [`super::Work`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskStart(pub Task);

impl Serialize for TaskStart {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for TaskStart {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Task::deserialize(from).map(Self)
    }
}

/// Why an element cannot be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    #[error("it has no guid")]
    Guid,
    #[error("it has no domain")]
    Domain,
    #[error("it names no index")]
    Indices,
    #[error("its memory or disk is below zero")]
    Resources,
    #[error("it names no root file system")]
    Rootfs,
}

impl LrpStart {
    pub fn check(&self) -> Result<(), StartError> {
        if self.process_guid.is_empty() {
            Err(StartError::Guid)
        } else if self.domain.is_empty() {
            Err(StartError::Domain)
        } else if self.indices.is_empty() {
            Err(StartError::Indices)
        } else {
            self.needs.check()
        }
    }

    /// One element of work per index.
    pub fn lrps(&self) -> impl Iterator<Item = Lrp> {
        self.indices.iter().map(|index| Lrp {
            process_guid: self.process_guid.clone(),
            index: *index,
            domain: self.domain.clone(),
            needs: self.needs.clone(),
            ..Lrp::default()
        })
    }
}

impl TaskStart {
    pub fn check(&self) -> Result<(), StartError> {
        if self.0.task_guid.is_empty() { Err(StartError::Guid) } else { self.0.needs.check() }
    }
}

impl Needs {
    fn check(&self) -> Result<(), StartError> {
        if self.memory_mb < 0 || self.disk_mb < 0 {
            Err(StartError::Resources)
        } else if self.rootfs.is_empty() {
            Err(StartError::Rootfs)
        } else {
            Ok(())
        }
    }
}

/// Reads the body of a request to the auctioneer; `null` is an empty list.
pub fn read_starts<T: DeserializeOwned>(body: &[u8]) -> Result<Vec<T>, serde_json::Error> {
    Ok(serde_json::from_slice::<Option<Vec<T>>>(body)?.unwrap_or_default())
}
