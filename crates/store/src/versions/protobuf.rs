//! Data version 1441411196: the same records as base64 protobuf, with a header.
//!
//! What changed: JSON was slow to read and had no version. A record is now Diego's own wire message with Diego's field
//! numbers, as base64 text behind a header that says so. There is still one record per DesiredLRP, ActualLRP, Task and
//! Domain, under the same names.
//!
//! Promise: [`Loader`] and [`Entity::write`] are inverse, and what cannot be read is quarantined, never dropped.
//!
//! What is typed is what scheduling and routing read. The part that only cells need stays as it is: every other field
//! below 1000 of a DesiredLRP, and the whole definition of a Task, is handed on unopened. Diego's messages have no room for
//! some things, which have numbers from 1000 on, listed in `records`.

#[cfg(test)]
pub(in crate::versions) mod frozen;
mod keys;
mod load;
pub mod records;
mod step;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
pub use keys::subject;
pub use load::Loader;

pub use step::{down, up};

use super::unknown::Kept;
use crate::record::{self, DataVersion, Encoding, Header};

pub const NUMBER: DataVersion = DataVersion(1_441_411_196);
/// All records of this version are below this key.
pub const ROOT: &str = "/v1441411196/";
pub const NAME: &str = "protobuf";
pub const SUMMARY: &str = "The same records as base64 protobuf, each with a header that says its encoding and version.";

/// One record. Every entity of this version is one.
#[derive(Clone, Debug, PartialEq)]
pub enum Entity {
    Desired(Box<records::Desired>),
    Actual(Box<Kept<records::ActualLrp>>),
    Task(Box<Kept<records::Task>>),
    Domain(Kept<records::Domain>),
}

impl Entity {
    /// What the entity is called in messages.
    pub fn label(&self) -> String {
        match self {
            Entity::Desired(lrp) => format!("DesiredLRP {}", lrp.message.process_guid),
            Entity::Actual(lrp) => {
                let key = lrp.message.key.as_ref();
                let (guid, index) = key.map_or(("", 0), |key| (&key.process_guid, key.index));
                let remark = match lrp.message.presence {
                    0 => String::new(),
                    other => format!(" ({})", keys::presence(other)),
                };
                format!("ActualLRP {guid}/{index}{remark}")
            }
            Entity::Task(task) => format!("Task {}", task.message.task_guid),
            Entity::Domain(domain) => format!("Domain {}", domain.message.name),
        }
    }

    /// Every record of the entity.
    pub fn write(&self, put: &mut dyn FnMut(String, Bytes)) {
        let payload = match self {
            Entity::Desired(lrp) => lrp.payload(),
            Entity::Actual(lrp) => lrp.payload(),
            Entity::Task(task) => task.payload(),
            Entity::Domain(domain) => domain.payload(),
        };
        let header = Header { encoding: Encoding::Base64Protobuf, version: NUMBER };
        put(self.key(), record::encode(header, STANDARD.encode(payload).as_bytes()));
    }

    fn key(&self) -> String {
        match self {
            Entity::Desired(lrp) => keys::desired(&lrp.message.process_guid),
            Entity::Actual(lrp) => {
                let key = lrp.message.key.clone().unwrap_or_default();
                keys::actual(&key.process_guid, key.index, lrp.message.presence)
            }
            Entity::Task(task) => keys::task(&task.message.task_guid),
            Entity::Domain(domain) => keys::domain(&domain.message.name),
        }
    }
}
