//! Data version 1794700800: what an instance runs is a numbered definition.
//!
//! What changed: the part of a DesiredLRP that affects its containers became a record of its own for each definition,
//! counted from 1, and an ActualLRP names the number it runs. So an app can be given another definition while instances
//! of the one before it still run, and be taken back to it. The schedule names the definition in use, the previous one until
//! the last instance has left it, and the older ones that are kept; it also says how far a rollout is.
//!
//! Promise: [`Entity::write`] and [`Loader`] are inverse, fields that are not known survive both, and what cannot be read
//! is quarantined, never dropped. `keys` is the layout of the keys; [`records`] are frozen by tests on their bytes;
//! [`up`] and [`down`] lead from and to the version before. [`into_model`], [`of_model`] and [`change`] are the way between
//! the records and the model.

mod change;
mod check;
mod convert;
mod extras;
#[cfg(test)]
mod frozen;
#[cfg(test)]
pub(super) mod generated;
mod history;
mod keys;
mod load;
pub mod records;
#[cfg(test)]
mod rolled;
mod step;

use bytes::Bytes;

pub use change::change;
pub use convert::ConvertError;
pub use keys::subject;
pub use load::Loader;
pub use step::{down, up};

use self::keys::Place;
use self::records::{Actual, Definition, Domain, Schedule, Task};
use super::unknown::Kept;
use crate::record::DataVersion;

pub const NUMBER: DataVersion = DataVersion(1_794_700_800);
/// All records of this version are below this key.
pub const ROOT: &str = "/v1794700800/";
pub const NAME: &str = "lrp_definitions";
pub const SUMMARY: &str = "What an instance runs is a numbered definition, and an ActualLRP names the one it runs.";

/// The number of the definition that a DesiredLRP begins with.
const FIRST: u32 = 1;

/// All records of one thing.
#[derive(Clone, Debug, PartialEq)]
pub enum Entity {
    Desired(Desired),
    Actual(Box<Kept<Actual>>),
    Task(Box<Kept<Task>>),
    Domain(Kept<Domain>),
}

/// All name the same process guid, and the schedule names the numbers of the definitions.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    pub schedule: Box<Kept<Schedule>>,
    pub definition: Box<Kept<Definition>>,
    pub previous: Option<Box<Kept<Definition>>>,
    /// In the order in which the schedule names them.
    pub older: Vec<Box<Kept<Definition>>>,
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
                let Desired { schedule, definition, previous, older } = desired;
                put(Place::Schedule(&schedule.process_guid), schedule.value(NUMBER));
                for one in [definition].into_iter().chain(previous).chain(older) {
                    put(keys::definition(one), one.value(NUMBER));
                }
            }
            Entity::Actual(actual) => put(keys::actual(actual), actual.value(NUMBER)),
            Entity::Task(task) => put(Place::Task(&task.guid), task.value(NUMBER)),
            Entity::Domain(domain) => put(Place::Domain(&domain.name), domain.value(NUMBER)),
        }
    }
}

/// The model of what was read. It fails only for records that did not come through [`Loader`].
pub fn into_model(entity: Entity) -> Result<super::Entity, ConvertError> {
    Ok(match entity {
        Entity::Desired(desired) => super::Entity::Desired(convert::model_desired(desired)?),
        Entity::Actual(actual) => super::Entity::Actual(convert::model_actual(actual)?),
        Entity::Task(task) => super::Entity::Task(convert::model_task(task)?),
        Entity::Domain(domain) => super::Entity::Domain(convert::model_domain(domain)?),
    })
}

pub fn of_model(entity: super::EntityRef<'_>) -> Entity {
    match entity {
        super::EntityRef::Desired(lrp) => Entity::Desired(convert::desired(lrp)),
        super::EntityRef::Actual(lrp) => Entity::Actual(Box::new(convert::actual(lrp))),
        super::EntityRef::Task(task) => Entity::Task(Box::new(convert::task(task))),
        super::EntityRef::Domain(domain) => Entity::Domain(convert::domain(domain)),
    }
}
