//! What a record of this version must have to be one.
//!
//! Promise: a record that passes has all its parts, its ids are there and not too long, and its numbers are known. The
//! reason why one does not pass never shows a value.

use thiserror::Error;

use super::records::{Actual, Domain, MetricTag, Run, Schedule, Task};

/// The longest id in bytes.
pub(super) const ID_BYTES_MAX: usize = 255;

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
}

pub(super) fn schedule(record: &Schedule) -> Result<(), Unfit> {
    id("process guid", &record.process_guid)?;
    id("domain", &record.domain)?;
    present("resources", record.resources.as_ref())?;
    record.metric_tags.values().try_for_each(metric_tag)?;
    present("modification tag", record.tag.as_ref())
}

pub(super) fn run(record: &Run) -> Result<(), Unfit> {
    id("process guid", &record.process_guid)
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
    known("presence", 1..=3, record.presence)
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

fn present<T>(what: &'static str, part: Option<&T>) -> Result<(), Unfit> {
    part.map(|_| ()).ok_or(Unfit::Missing(what))
}

fn known(what: &'static str, numbers: std::ops::RangeInclusive<u32>, number: u32) -> Result<(), Unfit> {
    if numbers.contains(&number) { Ok(()) } else { Err(Unfit::Unknown { what, number }) }
}

fn metric_tag(tag: &MetricTag) -> Result<(), Unfit> {
    present("value of a metric tag", tag.value.as_ref())
}
