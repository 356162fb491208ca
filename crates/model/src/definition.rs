//! Definitions: what an instance of a desired LRP runs, apart from how many of it there are and where its routes lead.
//!
//! A desired LRP holds the definition that new instances get, and during an update the one before it, because instances go
//! on running it until they are replaced. Every actual LRP names the definition it was made from. There are never more than
//! two that instances have: an update that is not finished has to end, or be taken back, before the next begins. How instances get
//! from one to the other is in [`crate::rollout`].

use std::fmt;

use bytes::Bytes;

use crate::{Packed, Resources};

/// Definitions of one desired LRP are counted from 1. A number is never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefinitionNumber(pub u32);

impl DefinitionNumber {
    pub const FIRST: Self = Self(1);

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.wrapping_add(1).max(1))
    }
}

impl Default for DefinitionNumber {
    fn default() -> Self {
        Self::FIRST
    }
}

impl fmt::Display for DefinitionNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A definition that instances still run, though new ones get another.
#[derive(Clone, PartialEq, Eq)]
pub struct Definition {
    pub number: DefinitionNumber,
    /// What the client that set it calls it; empty for the first.
    pub identifier: String,
    pub resources: Resources,
    pub placement_tags: Vec<String>,
    pub volume_drivers: Vec<String>,
    pub log_guid: String,
    pub metrics_guid: String,
    /// What only the cell needs, encoded by the API crate.
    pub run_info: Bytes,
    /// The routes of its instances, where the update that replaced it changed routes as well; other ports need other routes.
    pub routes: Option<Packed<Bytes>>,
}

/// A definition as a client sends it: it has no number yet.
#[derive(Clone, PartialEq, Eq)]
pub struct NewDefinition {
    /// What the client calls it.
    pub identifier: String,
    pub resources: Resources,
    pub placement_tags: Vec<String>,
    pub volume_drivers: Vec<String>,
    pub log_guid: String,
    pub metrics_guid: String,
    /// What only the cell needs, encoded by the API crate.
    pub run_info: Bytes,
}

impl Definition {
    /// Whether instances of both would be the same, whatever they are called.
    pub fn is_the_same(&self, other: &Self) -> bool {
        self.resources == other.resources
            && self.placement_tags == other.placement_tags
            && self.volume_drivers == other.volume_drivers
            && self.log_guid == other.log_guid
            && self.metrics_guid == other.metrics_guid
            && self.run_info == other.run_info
    }
}

impl NewDefinition {
    #[must_use]
    pub fn numbered(self, number: DefinitionNumber) -> Definition {
        Definition {
            number,
            identifier: self.identifier,
            resources: self.resources,
            placement_tags: self.placement_tags,
            volume_drivers: self.volume_drivers,
            log_guid: self.log_guid,
            metrics_guid: self.metrics_guid,
            run_info: self.run_info,
            routes: None,
        }
    }
}

/// The run info holds environment values.
impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Definition({} {:?})", self.number, self.identifier)
    }
}

impl fmt::Debug for NewDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewDefinition({:?})", self.identifier)
    }
}
