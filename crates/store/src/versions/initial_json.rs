//! Data version 1: one JSON object per DesiredLRP, ActualLRP, Task and Domain, as Diego kept them in etcd in 2015.
//!
//! Promise: what [`Loader`] reads and [`Entity::write`] writes are inverse, and what cannot be read is quarantined, never
//! dropped. Values are bare JSON without a header. The keys of the objects are Diego's; older spellings are read (a
//! timeout in nanoseconds, a start timeout in seconds) and kept beside the newer ones that are filled in from them.
//!
//! Two things are ours. Diego let the store forget a domain after its time, which our stores do not do: a domain that has
//! an expiry is an object, and an empty value is one that expired at time 0, so that it is not fresh until somebody says
//! so again. And keys that begin with `corkboard_` keep what Diego's JSON has no room for.
//!
//! In memory a record is Diego's wire message, still encoded: JSON and the message say the same, `table` is the
//! dictionary, and no part has to be understood to be kept.

pub(in crate::versions) mod fields;
mod from_json;
#[cfg(test)]
pub(in crate::versions) mod frozen;
#[cfg(test)]
pub(in crate::versions) mod generated;
mod keys;
mod load;
pub(in crate::versions) mod table;
mod text;
mod to_json;

use std::fmt;

use bytes::Bytes;
pub use keys::subject;
pub use load::Loader;

use crate::record::DataVersion;

pub const NUMBER: DataVersion = DataVersion::FIRST;
/// All records of this version are below this key.
pub const ROOT: &str = "/v1/";
pub const NAME: &str = "initial_json";
pub const SUMMARY: &str = "One JSON record per DesiredLRP, ActualLRP, Task and Domain.";

/// Whether a record of this shape can keep the object `text` as its unknown keys, and reads it back as it is.
pub(in crate::versions) fn keeps(shape: &'static table::Shape, text: &str) -> bool {
    from_json::read(shape, text.as_bytes()).is_ok_and(|read| read.unknown == text)
}

/// One record. Every entity of this version is one.
#[derive(Clone, Debug, PartialEq)]
pub enum Entity {
    Desired(Desired),
    Actual(Actual),
    Task(Task),
    Domain(Domain),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    pub(in crate::versions) process_guid: String,
    pub(in crate::versions) body: Body,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Actual {
    pub(in crate::versions) process_guid: String,
    pub(in crate::versions) index: i32,
    /// 0 ordinary, 1 evacuating, 2 suspect.
    pub(in crate::versions) presence: i32,
    pub(in crate::versions) body: Body,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    pub(in crate::versions) guid: String,
    pub(in crate::versions) body: Body,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Domain {
    pub(in crate::versions) name: String,
    pub(in crate::versions) body: Body,
}

/// What a record says. It may hold secrets, so only its size is printed.
#[derive(Clone, PartialEq)]
pub struct Body {
    /// Fields in the order of their numbers. What is no message at all would be lost when it is written.
    pub(in crate::versions) message: Bytes,
    /// The JSON object of keys that this code does not know, or empty.
    pub(in crate::versions) unknown: String,
}

impl fmt::Debug for Body {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Body({} bytes)", self.message.len() + self.unknown.len())
    }
}

impl Entity {
    /// What the entity is called in messages.
    pub fn label(&self) -> String {
        match self {
            Entity::Desired(lrp) => format!("DesiredLRP {}", lrp.process_guid),
            Entity::Actual(lrp) => {
                let remark = match lrp.presence {
                    0 => String::new(),
                    other => format!(" ({})", keys::presence(other)),
                };
                format!("ActualLRP {}/{}{remark}", lrp.process_guid, lrp.index)
            }
            Entity::Task(task) => format!("Task {}", task.guid),
            Entity::Domain(domain) => format!("Domain {}", domain.name),
        }
    }

    /// Every record of the entity.
    pub fn write(&self, put: &mut dyn FnMut(String, Bytes)) {
        let (shape, body) = match self {
            Entity::Desired(lrp) => (&table::DESIRED, &lrp.body),
            Entity::Actual(lrp) => (&table::ACTUAL, &lrp.body),
            Entity::Task(task) => (&table::TASK, &task.body),
            Entity::Domain(domain) => (&table::DOMAIN, &domain.body),
        };
        let value = match self {
            Entity::Domain(domain) if domain.body == load::expired_domain(&domain.name) => Bytes::new(),
            _ => to_json::write(shape, &body.message, &body.unknown).into(),
        };
        put(self.key(), value);
    }

    fn key(&self) -> String {
        match self {
            Entity::Desired(lrp) => keys::desired(&lrp.process_guid),
            Entity::Actual(lrp) => keys::actual(&lrp.process_guid, lrp.index, lrp.presence),
            Entity::Task(task) => keys::task(&task.guid),
            Entity::Domain(domain) => keys::domain(&domain.name),
        }
    }
}
