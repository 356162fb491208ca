//! Entities into steps.
//!
//! Promise: one call adds the operations of one entity to a step, and nothing else. The caller keeps a step within its
//! limits; no entity needs more than two operations.

use model::{ActualLrp, DesiredLrp, Domain, DomainName, ProcessGuid, Task, TaskGuid};
use prost::Message;

use super::{VERSION, convert, keys};
use crate::kv::Step;
use crate::record::{self, Encoding, Header};

/// Which records of a DesiredLRP to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Both,
    /// After an update: what only a cell needs never changes.
    ScheduleOnly,
}

fn put(step: &mut Step, key: String, message: &impl Message) {
    let header = Header { encoding: Encoding::Protobuf, version: VERSION };
    step.put(key, record::encode(header, &message.encode_to_vec()));
}

pub fn put_desired(step: &mut Step, lrp: &DesiredLrp, part: Part) {
    put(step, keys::schedule(&lrp.process_guid), &convert::schedule(lrp));
    if part == Part::Both {
        put(step, keys::run(&lrp.process_guid), &convert::run(lrp));
    }
}

pub fn delete_desired(step: &mut Step, guid: &ProcessGuid) {
    step.delete(keys::schedule(guid));
    step.delete(keys::run(guid));
}

pub fn put_actual(step: &mut Step, lrp: &ActualLrp) {
    put(step, keys::actual(&lrp.key, lrp.presence), &convert::actual(lrp));
}

/// Deletes the row of this key and presence, whatever else it says.
pub fn delete_actual(step: &mut Step, lrp: &ActualLrp) {
    step.delete(keys::actual(&lrp.key, lrp.presence));
}

pub fn put_task(step: &mut Step, task: &Task) {
    put(step, keys::task(&task.guid), &convert::task(task));
}

pub fn delete_task(step: &mut Step, guid: &TaskGuid) {
    step.delete(keys::task(guid));
}

pub fn put_domain(step: &mut Step, domain: &Domain) {
    put(step, keys::domain(&domain.name), &convert::domain(domain));
}

pub fn delete_domain(step: &mut Step, name: &DomainName) {
    step.delete(keys::domain(name));
}
