//! Records into entities.
//!
//! Promise: every record that is fed in comes out once, either inside an entity or in the list of the quarantined, with
//! the reason. There is no error and no deletion: an unreadable record is kept in the store byte for byte, for an
//! operator to look at.

use std::collections::HashMap;

use bytes::Bytes;

use super::check::{self, Unfit};
use super::keys::{self, Kind, Place};
use super::records::{Run, Schedule};
use super::{Desired, Entity, NUMBER};
use crate::record::{self, Encoding};
use crate::versions::Quarantined;
use crate::versions::place::is_at;
use crate::versions::unknown::{Kept, Record};

const RUN_MISSING: &str = "its run record is missing or unreadable";
const SCHEDULE_MISSING: &str = "its schedule record is missing or unreadable";

/// Takes the records below [`super::ROOT`], in any order (a scan gives them in key order), and pairs the halves of
/// DesiredLRPs.
#[derive(Debug, Default)]
pub struct Loader {
    /// Halves that wait for the other one, by their guid. Their keys are not kept: the guid tells them, which was checked.
    schedules: HashMap<String, Box<Kept<Schedule>>>,
    runs: HashMap<String, Kept<Run>>,
    quarantined: Vec<Quarantined>,
}

impl Loader {
    /// Takes one record in. Returns the entity that is complete with it, if any.
    pub fn feed(&mut self, key: &str, value: &Bytes) -> Option<Entity> {
        match self.read(key, value) {
            Ok(entity) => entity,
            Err(why) => {
                self.quarantined.push(Quarantined { key: key.to_owned(), why });
                None
            }
        }
    }

    /// Everything that could not be read, halves without their other half included.
    pub fn finish(mut self) -> Vec<Quarantined> {
        let schedules = self.schedules.keys().map(|guid| (Place::Schedule(guid), RUN_MISSING));
        let halves = schedules.chain(self.runs.keys().map(|guid| (Place::Run(guid), SCHEDULE_MISSING)));
        let halves = halves.map(|(place, why)| Quarantined { key: place.to_string(), why: why.to_owned() });
        self.quarantined.extend(halves);
        self.quarantined.sort_by(|a, b| a.key.cmp(&b.key));
        self.quarantined
    }

    fn read(&mut self, key: &str, value: &Bytes) -> Result<Option<Entity>, String> {
        let kind = Kind::of(key).ok_or("its key names no kind of record of this version")?;
        let payload = payload(value)?;
        let entity = match kind {
            Kind::Schedule => {
                let schedule = parse(key, payload, check::schedule, |record| Place::Schedule(&record.process_guid))?;
                return Ok(self.pair_schedule(*schedule));
            }
            Kind::Run => {
                let run = parse(key, payload, check::run, |record| Place::Run(&record.process_guid))?;
                return Ok(self.pair_run(*run));
            }
            Kind::Actual => Entity::Actual(parse(key, payload, check::actual, keys::actual)?),
            Kind::Task => Entity::Task(parse(key, payload, check::task, |record| Place::Task(&record.guid))?),
            Kind::Domain => Entity::Domain(*parse(key, payload, check::domain, |record| Place::Domain(&record.name))?),
        };
        Ok(Some(entity))
    }

    fn pair_schedule(&mut self, schedule: Kept<Schedule>) -> Option<Entity> {
        match self.runs.remove(&schedule.process_guid) {
            Some(run) => Some(Entity::Desired(Box::new(Desired { schedule, run }))),
            None => {
                self.schedules.insert(schedule.process_guid.clone(), Box::new(schedule));
                None
            }
        }
    }

    fn pair_run(&mut self, run: Kept<Run>) -> Option<Entity> {
        match self.schedules.remove(&run.process_guid) {
            Some(schedule) => Some(Entity::Desired(Box::new(Desired { schedule: *schedule, run }))),
            None => {
                self.runs.insert(run.process_guid.clone(), run);
                None
            }
        }
    }
}

fn payload(value: &Bytes) -> Result<Bytes, String> {
    let (header, payload) = record::decode(value).map_err(|error| error.to_string())?;
    if header.version != NUMBER {
        return Err(format!("the record is of data version {}, and {NUMBER} is expected here", header.version));
    }
    if header.encoding != Encoding::Protobuf {
        return Err("the record is not encoded as records of this version are".to_owned());
    }
    Ok(payload)
}

/// A record under the key of another would appear twice, or hide the other.
fn parse<M: Record>(
    key: &str,
    payload: Bytes,
    check: fn(&M) -> Result<(), Unfit>,
    place: fn(&M) -> Place<'_>,
) -> Result<Box<Kept<M>>, String> {
    let record = Kept::<M>::read_boxed(payload)
        .map_err(|error| format!("its payload is not the message it should be ({error})"))?;
    check(&record).map_err(|unfit| unfit.to_string())?;
    let place = place(&record);
    if is_at(&place, key) { Ok(record) } else { Err(format!("its content belongs under the key {place}")) }
}
