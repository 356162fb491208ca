//! Records into entities, when a master loads its board.
//!
//! Promise: every record that is fed in comes out once, either inside an entity or in the list of the quarantined, with
//! the reason. There is no error and no deletion: an unreadable record is kept in the store byte for byte, for an
//! operator to look at.

use std::collections::HashMap;

use bytes::Bytes;
use model::ProcessGuid;
use prost::Message;

use super::keys::{self, Kind, Place};
use super::{VERSION, convert, records};
use crate::record::{self, Encoding};
use crate::versions::{Entity, Quarantined};

const RUN_MISSING: &str = "its run record is missing or unreadable";
const SCHEDULE_MISSING: &str = "its schedule record is missing or unreadable";

/// Takes the records below [`super::ROOT`], in any order (a scan gives them in key order), and pairs the halves of
/// DesiredLRPs.
#[derive(Debug, Default)]
pub struct Loader {
    /// Halves that wait for the other one. Their keys are not kept: the guid tells them, which was checked.
    schedules: HashMap<ProcessGuid, records::Schedule>,
    runs: HashMap<ProcessGuid, Bytes>,
    quarantined: Vec<Quarantined>,
}

impl Loader {
    /// Takes one record in. Returns the entity that is complete with it, if any.
    pub fn feed(&mut self, key: &str, value: &Bytes) -> Option<Entity> {
        match self.read(key, value) {
            Ok(entity) => entity,
            Err(why) => {
                self.quarantine(key.to_owned(), why);
                None
            }
        }
    }

    /// Everything that could not be read, halves without their other half included.
    pub fn finish(mut self) -> Vec<Quarantined> {
        for guid in std::mem::take(&mut self.schedules).into_keys() {
            self.quarantine(keys::schedule(&guid), RUN_MISSING.to_owned());
        }
        for guid in std::mem::take(&mut self.runs).into_keys() {
            self.quarantine(keys::run(&guid), SCHEDULE_MISSING.to_owned());
        }
        self.quarantined.sort_by(|a, b| a.key.cmp(&b.key));
        self.quarantined
    }

    fn quarantine(&mut self, key: String, why: String) {
        self.quarantined.push(Quarantined { key, why });
    }

    fn read(&mut self, key: &str, value: &Bytes) -> Result<Option<Entity>, String> {
        let kind = Kind::of(key).ok_or("its key names no kind of record of this version")?;
        let payload = payload(value)?;
        let entity = match kind {
            Kind::Schedule => return self.read_schedule(key, payload),
            Kind::Run => return self.read_run(key, payload),
            Kind::Actual => {
                let actual = convert::model_actual(parse(payload)?).map_err(|error| error.to_string())?;
                belongs(key, Place::Actual(&actual.key, actual.presence))?;
                Entity::Actual(actual)
            }
            Kind::Task => {
                let task = convert::model_task(parse(payload)?).map_err(|error| error.to_string())?;
                belongs(key, Place::Task(&task.guid))?;
                Entity::Task(task)
            }
            Kind::Domain => {
                let domain = convert::model_domain(&parse(payload)?).map_err(|error| error.to_string())?;
                belongs(key, Place::Domain(&domain.name))?;
                Entity::Domain(domain)
            }
        };
        Ok(Some(entity))
    }

    fn read_schedule(&mut self, key: &str, payload: Bytes) -> Result<Option<Entity>, String> {
        let schedule: records::Schedule = parse(payload)?;
        let guid = process_guid(&schedule.process_guid)?;
        belongs(key, Place::Schedule(&guid))?;
        match self.runs.remove(&guid) {
            Some(run_info) => Ok(self.pair(&guid, schedule, run_info)),
            None => {
                self.schedules.insert(guid, schedule);
                Ok(None)
            }
        }
    }

    fn read_run(&mut self, key: &str, payload: Bytes) -> Result<Option<Entity>, String> {
        let run: records::Run = parse(payload)?;
        let guid = process_guid(&run.process_guid)?;
        belongs(key, Place::Run(&guid))?;
        match self.schedules.remove(&guid) {
            Some(schedule) => Ok(self.pair(&guid, schedule, run.run_info)),
            None => {
                self.runs.insert(guid, run.run_info);
                Ok(None)
            }
        }
    }

    /// If the two do not make an entity, both records are quarantined.
    fn pair(&mut self, guid: &ProcessGuid, schedule: records::Schedule, run_info: Bytes) -> Option<Entity> {
        match convert::desired(guid.clone(), schedule, run_info) {
            Ok(desired) => Some(Entity::Desired(desired)),
            Err(error) => {
                self.quarantine(keys::schedule(guid), error.to_string());
                self.quarantine(keys::run(guid), SCHEDULE_MISSING.to_owned());
                None
            }
        }
    }
}

fn process_guid(text: &str) -> Result<ProcessGuid, String> {
    ProcessGuid::parse(text).map_err(|error| error.to_string())
}

fn payload(value: &Bytes) -> Result<Bytes, String> {
    let (header, payload) = record::decode(value).map_err(|error| error.to_string())?;
    if header.version != VERSION {
        return Err(format!("the record is of data version {}, and {VERSION} is expected here", header.version));
    }
    if header.encoding != Encoding::Protobuf {
        return Err("the record is not encoded as records of this version are".to_owned());
    }
    Ok(payload)
}

fn parse<M: Message + Default>(payload: Bytes) -> Result<M, String> {
    M::decode(payload).map_err(|error| format!("its payload is not the message it should be ({error})"))
}

/// A record under the key of another would appear twice, or hide the other.
fn belongs(key: &str, place: Place<'_>) -> Result<(), String> {
    if place.is(key) { Ok(()) } else { Err(format!("its content belongs under the key {place}")) }
}
