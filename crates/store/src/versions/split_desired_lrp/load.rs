//! Records into entities, when a master loads its board.
//!
//! Promise: every record that is fed in comes out once, either inside an entity or in the list of the quarantined, with
//! the reason. There is no error and no deletion: an unreadable record is kept in the store byte for byte, for an
//! operator to look at.

use std::collections::HashMap;

use bytes::Bytes;
use model::{ActualLrp, DesiredLrp, Domain, ProcessGuid, Task};
use prost::Message;

use super::keys::{self, Kind};
use super::{VERSION, convert, records};
use crate::record::{self, Encoding};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entity {
    Desired(DesiredLrp),
    Actual(ActualLrp),
    Task(Task),
    Domain(Domain),
}

/// A record that could not be read. `why` never shows a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    pub key: String,
    pub why: String,
}

/// Takes the records below [`super::ROOT`], in any order (a scan gives them in key order), and pairs the halves of
/// DesiredLRPs.
#[derive(Debug, Default)]
pub struct Loader {
    /// Halves that wait for the other one, by process guid.
    schedules: HashMap<String, (String, records::Schedule)>,
    runs: HashMap<String, (String, records::Run)>,
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
        for (key, _) in std::mem::take(&mut self.schedules).into_values() {
            self.quarantine(key, "its run record is missing or unreadable".to_owned());
        }
        for (key, _) in std::mem::take(&mut self.runs).into_values() {
            self.quarantine(key, "its schedule record is missing or unreadable".to_owned());
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
        let (entity, own_key) = match kind {
            Kind::Schedule => return self.read_schedule(key, payload),
            Kind::Run => return self.read_run(key, payload),
            Kind::Actual => {
                let actual = convert::model_actual(parse(payload)?).map_err(|error| error.to_string())?;
                let own_key = keys::actual(&actual.key, actual.presence);
                (Entity::Actual(actual), own_key)
            }
            Kind::Task => {
                let task = convert::model_task(parse(payload)?).map_err(|error| error.to_string())?;
                let own_key = keys::task(&task.guid);
                (Entity::Task(task), own_key)
            }
            Kind::Domain => {
                let domain = convert::model_domain(&parse(payload)?).map_err(|error| error.to_string())?;
                let own_key = keys::domain(&domain.name);
                (Entity::Domain(domain), own_key)
            }
        };
        same_key(key, &own_key)?;
        Ok(Some(entity))
    }

    fn read_schedule(&mut self, key: &str, payload: Bytes) -> Result<Option<Entity>, String> {
        let schedule: records::Schedule = parse(payload)?;
        let guid = schedule.process_guid.clone();
        same_key(key, &keys::schedule(&process_guid(&guid)?))?;
        match self.runs.remove(&guid) {
            Some(run) => Ok(self.pair((key.to_owned(), schedule), run)),
            None => {
                self.schedules.insert(guid, (key.to_owned(), schedule));
                Ok(None)
            }
        }
    }

    fn read_run(&mut self, key: &str, payload: Bytes) -> Result<Option<Entity>, String> {
        let run: records::Run = parse(payload)?;
        let guid = run.process_guid.clone();
        same_key(key, &keys::run(&process_guid(&guid)?))?;
        match self.schedules.remove(&guid) {
            Some(schedule) => Ok(self.pair(schedule, (key.to_owned(), run))),
            None => {
                self.runs.insert(guid, (key.to_owned(), run));
                Ok(None)
            }
        }
    }

    /// If the two do not make an entity, both records are quarantined.
    fn pair(
        &mut self,
        (schedule_key, schedule): (String, records::Schedule),
        (run_key, run): (String, records::Run),
    ) -> Option<Entity> {
        match convert::desired(schedule, run) {
            Ok(desired) => Some(Entity::Desired(desired)),
            Err(error) => {
                self.quarantine(schedule_key, error.to_string());
                self.quarantine(run_key, "its schedule record is missing or unreadable".to_owned());
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
fn same_key(key: &str, own_key: &str) -> Result<(), String> {
    if key == own_key { Ok(()) } else { Err(format!("its content belongs under the key {own_key}")) }
}
