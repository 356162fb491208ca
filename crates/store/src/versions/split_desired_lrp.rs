//! Data version 1442529338: a DesiredLRP is two records.
//!
//! What changed: the part that scheduling and routing read, and that updates change, became a record of its own beside
//! the large part that only a cell needs and that never changes. Scaling an app then writes a few hundred bytes instead
//! of the whole definition.
//!
//! Promise: [`Entity::write`] and [`Loader`] are inverse, fields that are not known survive both, and what cannot be read
//! is quarantined, never dropped. `keys` is the layout of the keys; [`records`] are frozen by tests on their bytes.

mod check;
#[cfg(test)]
mod frozen;
#[cfg(test)]
pub(super) mod generated;
mod keys;
mod load;
pub mod records;
mod step;

use bytes::Bytes;

pub use keys::subject;
pub use load::Loader;
pub use step::{down, up};

use self::keys::Place;
use self::records::{Actual, Domain, Run, Schedule, Task};
use super::unknown::Kept;
use crate::record::DataVersion;

pub const NUMBER: DataVersion = DataVersion(1_442_529_338);
/// All records of this version are below this key.
pub const ROOT: &str = "/v1442529338/";
pub const NAME: &str = "split_desired_lrp";
pub const SUMMARY: &str = "A DesiredLRP is two records: what updates change, and what only a cell needs.";

/// All records of one thing.
#[derive(Clone, Debug, PartialEq)]
pub enum Entity {
    Desired(Box<Desired>),
    Actual(Box<Kept<Actual>>),
    Task(Box<Kept<Task>>),
    Domain(Kept<Domain>),
}

/// Both name the same process guid.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    pub schedule: Kept<Schedule>,
    pub run: Kept<Run>,
}

impl Entity {
    /// For messages.
    pub fn label(&self) -> String {
        match self {
            Entity::Desired(desired) => format!("DesiredLRP {}", desired.schedule.process_guid),
            Entity::Actual(actual) if actual.presence == 1 => {
                format!("ActualLRP {}/{}", actual.process_guid, actual.index)
            }
            Entity::Actual(actual) => {
                format!("ActualLRP {}/{} ({})", actual.process_guid, actual.index, keys::presence(actual.presence))
            }
            Entity::Task(task) => format!("Task {}", task.guid),
            Entity::Domain(domain) => format!("Domain {}", domain.name),
        }
    }

    /// Every record, with its key.
    pub fn write(&self, put: &mut dyn FnMut(String, Bytes)) {
        let mut put = |place: Place<'_>, value| put(place.to_string(), value);
        match self {
            Entity::Desired(desired) => {
                let Desired { schedule, run } = &**desired;
                put(Place::Schedule(&schedule.process_guid), schedule.value(NUMBER));
                put(Place::Run(&run.process_guid), run.value(NUMBER));
            }
            Entity::Actual(actual) => put(keys::actual(actual), actual.value(NUMBER)),
            Entity::Task(task) => put(Place::Task(&task.guid), task.value(NUMBER)),
            Entity::Domain(domain) => put(Place::Domain(&domain.name), domain.value(NUMBER)),
        }
    }
}
