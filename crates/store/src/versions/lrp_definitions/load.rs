//! Records into entities.
//!
//! Promise: every record that is fed in comes out once, either inside an entity or in the list of the quarantined, with
//! the reason. There is no error and no deletion: an unreadable record is kept in the store byte for byte, for an
//! operator to look at.

use std::collections::HashMap;

use bytes::Bytes;

use super::check::{self, Unfit};
use super::keys::{self, Kind, Place};
use super::records::{Definition, Schedule};
use super::{Desired, Entity, NUMBER};
use crate::record::{self, Encoding};
use crate::versions::Quarantined;
use crate::versions::place::is_at;
use crate::versions::unknown::{Kept, Record};

const UNNAMED: &str = "no readable schedule record names this definition";

/// Takes the records below [`super::ROOT`], in any order (a scan gives them in key order), and brings the schedule and the
/// definitions of each DesiredLRP together.
#[derive(Debug, Default)]
pub struct Loader {
    /// Parts that wait for others, by their guid. Their keys are not kept: guid and number tell them, which was checked.
    schedules: HashMap<String, Box<Kept<Schedule>>>,
    #[expect(clippy::vec_box, reason = "a definition stays where it was read; moving it about is much of what loading costs")]
    definitions: HashMap<String, Vec<Box<Kept<Definition>>>>,
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

    /// Everything that could not be read, parts without the others included.
    pub fn finish(mut self) -> Vec<Quarantined> {
        let mut quarantine = |place: Place<'_>, why| {
            self.quarantined.push(Quarantined { key: place.to_string(), why });
        };
        for (guid, schedule) in &self.schedules {
            let found = self.definitions.remove(guid).unwrap_or_default();
            let missing = numbers(schedule).find(|number| found.iter().all(|one| one.number != *number));
            let missing = missing.unwrap_or_default();
            let why = format!("its definition record {missing} is missing or unreadable");
            quarantine(Place::Schedule(guid), why);
            for one in found {
                let why = if numbers(schedule).any(|number| number == one.number) {
                    format!("its schedule record also names definition {missing}, which is missing or unreadable")
                } else {
                    UNNAMED.to_owned()
                };
                quarantine(Place::Definition(guid, one.number), why);
            }
        }
        for (guid, definitions) in &self.definitions {
            for one in definitions {
                quarantine(Place::Definition(guid, one.number), UNNAMED.to_owned());
            }
        }
        self.quarantined.sort_by(|a, b| a.key.cmp(&b.key));
        self.quarantined
    }

    fn read(&mut self, key: &str, value: &Bytes) -> Result<Option<Entity>, String> {
        let kind = Kind::of(key).ok_or("its key names no kind of record of this version")?;
        let payload = payload(value)?;
        let entity = match kind {
            Kind::Schedule => {
                let schedule = parse(key, payload, check::schedule, |record| Place::Schedule(&record.process_guid))?;
                return self.take_schedule(schedule);
            }
            Kind::Definition => {
                return self.take_definition(parse(key, payload, check::definition, keys::definition)?);
            }
            Kind::Actual => Entity::Actual(parse(key, payload, check::actual, keys::actual)?),
            Kind::Task => Entity::Task(parse(key, payload, check::task, |record| Place::Task(&record.guid))?),
            Kind::Domain => Entity::Domain(*parse(key, payload, check::domain, |record| Place::Domain(&record.name))?),
        };
        Ok(Some(entity))
    }

    fn take_schedule(&mut self, schedule: Box<Kept<Schedule>>) -> Result<Option<Entity>, String> {
        if self.schedules.contains_key(&schedule.process_guid) {
            return Err("there are two schedule records of this guid".to_owned());
        }
        Ok(self.join(schedule))
    }

    fn take_definition(&mut self, definition: Box<Kept<Definition>>) -> Result<Option<Entity>, String> {
        let guid = definition.process_guid.clone();
        // A scan gives definitions before schedules, so there is almost never one that waits.
        let waiting = if self.schedules.is_empty() { None } else { self.schedules.remove(&guid) };
        let others = self.definitions.entry(guid).or_default();
        let twice = others.iter().any(|other| other.number == definition.number);
        if !twice {
            others.push(definition);
        }
        let entity = waiting.and_then(|schedule| self.join(schedule));
        if twice { Err("there are two definitions of this number".to_owned()) } else { Ok(entity) }
    }

    /// The entity, if all definitions that the schedule names are there; otherwise it waits for them.
    fn join(&mut self, schedule: Box<Kept<Schedule>>) -> Option<Entity> {
        let mut found = self.definitions.remove(&schedule.process_guid).unwrap_or_default();
        let whole = numbers(&schedule).all(|number| found.iter().any(|one| one.number == number));
        let mut take = |number| {
            let at = found.iter().position(|one| whole && one.number == number)?;
            Some(found.swap_remove(at))
        };
        let (definition, previous) = (take(schedule.definition), take(schedule.previous));
        let older = older(&schedule).iter().filter_map(|number| take(*number)).collect();
        if !found.is_empty() {
            self.definitions.insert(schedule.process_guid.clone(), found);
        }
        match definition {
            Some(definition) => Some(Entity::Desired(Desired { schedule, definition, previous, older })),
            None => {
                self.schedules.insert(schedule.process_guid.clone(), schedule);
                None
            }
        }
    }
}

/// The numbers of the definitions that a schedule names.
fn numbers(schedule: &Schedule) -> impl Iterator<Item = u32> {
    let present = [schedule.definition, schedule.previous].into_iter().filter(|number| *number != 0);
    present.chain(older(schedule).iter().copied())
}

fn older(schedule: &Schedule) -> &[u32] {
    schedule.history.as_ref().map_or(&[], |history| &history.older)
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
