//! Records into entities.
//!
//! Promise: every record that is fed in comes out once, as an entity or in the list of the quarantined, with the reason.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use model::{DomainName, IdError, ProcessGuid, TaskGuid};

use super::keys::Kind;
use super::records::{ActualLrp, Desired, Task};
use super::{Entity, NUMBER};
use crate::record::{self, Encoding};
use crate::versions::Quarantined;
use crate::versions::unknown::{Kept, Record};

/// Takes the records below [`super::ROOT`] in any order.
#[derive(Debug, Default)]
pub struct Loader {
    quarantined: Vec<Quarantined>,
}

impl Loader {
    /// Takes one record in. Every entity is complete with its one record.
    pub fn feed(&mut self, key: &str, value: &Bytes) -> Option<Entity> {
        let read = read(key, value);
        read.map_err(|why| self.quarantined.push(Quarantined { key: key.to_owned(), why })).ok()
    }

    /// Everything that could not be read.
    pub fn finish(mut self) -> Vec<Quarantined> {
        self.quarantined.sort_by(|a, b| a.key.cmp(&b.key));
        self.quarantined
    }
}

fn read(key: &str, value: &Bytes) -> Result<Entity, String> {
    let kind = Kind::of(key).ok_or("its key names no kind of record of this version")?;
    let payload = payload(value)?;
    let entity = match kind {
        Kind::Desired => Entity::Desired(Desired::read(&payload)?.into()),
        Kind::Actual(presence) => {
            let mut lrp = read_kept(payload)?;
            settle_actual(&mut lrp.message);
            // The oldest rows do not say their presence: there, the key does.
            if lrp.message.presence == 0 {
                lrp.message.presence = presence;
            }
            Entity::Actual(lrp.into())
        }
        Kind::Task => {
            let mut task = read_kept(payload)?;
            settle_task(&mut task.message);
            Entity::Task(task.into())
        }
        Kind::Domain => Entity::Domain(read_kept(payload)?),
    };
    check(&entity)?;
    let place = entity.key();
    if place == key { Ok(entity) } else { Err(format!("its content belongs under the key {place}")) }
}

pub(super) fn read_kept<M: Record>(payload: Bytes) -> Result<Kept<M>, String> {
    Kept::read(payload).map_err(|error| format!("its payload is not the message it should be ({error})"))
}

fn payload(value: &Bytes) -> Result<Bytes, String> {
    let (header, payload) = record::decode(value).map_err(|error| error.to_string())?;
    if header.version != NUMBER {
        return Err(format!("the record is of data version {}, and {NUMBER} is expected here", header.version));
    }
    if header.encoding != Encoding::Base64Protobuf {
        return Err("the record is not encoded as records of this version are".to_owned());
    }
    STANDARD.decode(&payload).map(Bytes::from).map_err(|_| "its payload is not base64".to_owned())
}

/// Of two ways to say the same, one is kept in memory.
pub(super) fn settle_actual(lrp: &mut ActualLrp) {
    lrp.instance_key.get_or_insert_default();
    lrp.net_info.get_or_insert_default();
    lrp.metric_tags_reported &= lrp.metric_tags.is_empty();
}

/// As [`settle_actual`], for a task.
pub(super) fn settle_task(task: &mut Task) {
    if let Some(definition) = task.definition() {
        task.set_definition(definition);
    }
}

/// What no later use could do without.
fn check(entity: &Entity) -> Result<(), String> {
    let ids = match entity {
        Entity::Desired(lrp) => process(&lrp.message.process_guid, &lrp.message.domain),
        Entity::Actual(lrp) => {
            let key = lrp.message.key.as_ref().ok_or("the record has no key")?;
            process(&key.process_guid, &key.domain)
        }
        Entity::Task(task) => {
            if task.message.definition().is_none() {
                return Err("the record has no definition that can be read".to_owned());
            }
            let guid = TaskGuid::parse(&task.message.task_guid).map(drop);
            guid.and_then(|()| DomainName::parse(&task.message.domain).map(drop))
        }
        Entity::Domain(domain) => DomainName::parse(&domain.name).map(drop),
    };
    ids.map_err(|error| error.to_string())
}

fn process(guid: &str, domain: &str) -> Result<(), IdError> {
    ProcessGuid::parse(guid)?;
    DomainName::parse(domain).map(drop)
}
