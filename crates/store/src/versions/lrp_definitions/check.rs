//! What a record of this version must have to be one.
//!
//! Promise: a record that passes has all its parts, its ids are there and not too long, its numbers are known, and there
//! is not too much of anything. The reason why one does not pass never shows a value.

use thiserror::Error;

use super::records::{Actual, Definition, Domain, History, MetricTag, Rollout, Schedule, Task};

/// The longest id in bytes.
pub(super) const ID_BYTES_MAX: usize = 255;
/// The most older definitions of one DesiredLRP.
pub(super) const OLDER_MAX: usize = 10;
/// The phase of a rollout that is over.
pub(super) const DONE: u32 = 5;

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Unfit {
    #[error("a {kind} must not be empty")]
    EmptyId { kind: &'static str },
    #[error("a {kind} must not be longer than {ID_BYTES_MAX} bytes, this one has {bytes}")]
    LongId { kind: &'static str, bytes: usize },
    #[error("the record has no {0}")]
    Missing(&'static str),
    #[error("the record has {what} {number}, which this version does not know")]
    Unknown { what: &'static str, number: u32 },
    #[error("it names one definition both as the one in use and as the one before it")]
    SameTwice,
    #[error("it names definition {number} twice")]
    Repeated { number: u32 },
    #[error("it names {count} older definitions, and there must not be more than {OLDER_MAX}")]
    ManyOlder { count: usize },
    #[error("its rollout is not over and does not lead from the definition before to the one in use")]
    Astray,
    #[error("its rollout replaces {count} instances at a time, and must not replace more than {allowed}")]
    ManyFlights { count: usize, allowed: u32 },
}

pub(super) fn schedule(record: &Schedule) -> Result<(), Unfit> {
    id("process guid", &record.process_guid)?;
    id("domain", &record.domain)?;
    record.metric_tags.values().try_for_each(metric_tag)?;
    present("modification tag", record.tag.as_ref())?;
    numbered(record.definition)?;
    if record.previous == record.definition {
        return Err(Unfit::SameTwice);
    }
    record.history.as_ref().map_or(Ok(()), |history| older(record, history).and_then(|()| rollout(record, history)))
}

fn older(schedule: &Schedule, History { older, .. }: &History) -> Result<(), Unfit> {
    if older.len() > OLDER_MAX {
        return Err(Unfit::ManyOlder { count: older.len() });
    }
    for (at, number) in older.iter().copied().enumerate() {
        numbered(number)?;
        let before = [schedule.definition, schedule.previous];
        if before.contains(&number) || older[..at].contains(&number) {
            return Err(Unfit::Repeated { number });
        }
    }
    Ok(())
}

fn rollout(schedule: &Schedule, history: &History) -> Result<(), Unfit> {
    let Some(Rollout { from, to, terms, phase, flights, .. }) = &history.rollout else { return Ok(()) };
    numbered(*from)?;
    numbered(*to)?;
    known("phase", 1..=DONE, *phase)?;
    if *phase != DONE && (*from, *to) != (schedule.previous, schedule.definition) {
        return Err(Unfit::Astray);
    }
    let terms = terms.as_ref().ok_or(Unfit::Missing("terms of the rollout"))?;
    present("pause after the canaries", terms.canary_pause.as_ref())?;
    let allowed = terms.in_flight.max(1);
    let count = flights.len();
    if count > allowed as usize { Err(Unfit::ManyFlights { count, allowed }) } else { Ok(()) }
}

pub(super) fn definition(record: &Definition) -> Result<(), Unfit> {
    id("process guid", &record.process_guid)?;
    numbered(record.number)?;
    present("resources", record.resources.as_ref())
}

pub(super) fn actual(record: &Actual) -> Result<(), Unfit> {
    id("process guid", &record.process_guid)?;
    id("domain", &record.domain)?;
    if let Some(instance) = &record.instance {
        id("instance guid", &instance.instance_guid)?;
        id("cell id", &instance.cell_id)?;
    }
    present("net info", record.net_info.as_ref())?;
    known("state", 1..=4, record.state)?;
    present("modification tag", record.tag.as_ref())?;
    known("presence", 1..=3, record.presence)?;
    numbered(record.definition)
}

pub(super) fn task(record: &Task) -> Result<(), Unfit> {
    let definition = record.definition.as_ref();
    present("definition", definition)?;
    present("resources", definition.and_then(|definition| definition.resources.as_ref()))?;
    if !record.cell_id.is_empty() {
        id("cell id", &record.cell_id)?;
    }
    id("task guid", &record.guid)?;
    id("domain", &record.domain)?;
    known("state", 1..=4, record.state)
}

pub(super) fn domain(record: &Domain) -> Result<(), Unfit> {
    id("domain", &record.name)
}

fn id(kind: &'static str, text: &str) -> Result<(), Unfit> {
    match text.len() {
        0 => Err(Unfit::EmptyId { kind }),
        1..=ID_BYTES_MAX => Ok(()),
        bytes => Err(Unfit::LongId { kind, bytes }),
    }
}

fn numbered(definition: u32) -> Result<(), Unfit> {
    if definition == 0 { Err(Unfit::Missing("number of a definition")) } else { Ok(()) }
}

fn present<T>(what: &'static str, part: Option<&T>) -> Result<(), Unfit> {
    part.map(|_| ()).ok_or(Unfit::Missing(what))
}

fn known(what: &'static str, numbers: std::ops::RangeInclusive<u32>, number: u32) -> Result<(), Unfit> {
    if numbers.contains(&number) { Ok(()) } else { Err(Unfit::Unknown { what, number }) }
}

fn metric_tag(tag: &MetricTag) -> Result<(), Unfit> {
    present("value of a metric tag", tag.value.as_ref())
}
