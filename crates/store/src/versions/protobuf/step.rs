//! Between JSON and protobuf.
//!
//! Promise: there and back gives the same, in both directions and without loss. The two say the same in different
//! letters. What only one of them knows travels in the other's `carried`, under the version it belongs to.

use bytes::Bytes;

use super::load::{read_kept, settle_actual, settle_task};
use super::records::{ActualLrp, Desired, Domain, Task, sort_carried};
use super::{Entity, NUMBER};
use crate::record::DataVersion;
use crate::versions::initial_json::table::{self, Shape};
use crate::versions::initial_json::{self as before, Body, fields};
use crate::versions::unknown::{Carried, Record};
use crate::versions::{Loss, StepError};

/// Every entity of either version is one record, so there is nothing to tell apart.
const RECORD: &str = "";

pub fn up(older: before::Entity) -> Result<Entity, StepError> {
    Ok(match older {
        before::Entity::Desired(before::Desired { body, .. }) => {
            let mut lrp = Desired::read(&body.message).map_err(StepError)?;
            lrp.unknown = raise(&mut lrp.message, body);
            Entity::Desired(lrp.into())
        }
        before::Entity::Actual(before::Actual { body, .. }) => {
            let mut lrp = read_kept::<ActualLrp>(body.message.clone()).map_err(StepError)?;
            settle_actual(&mut lrp.message);
            lrp.unknown = raise(&mut lrp.message, body);
            Entity::Actual(lrp.into())
        }
        before::Entity::Task(before::Task { body, .. }) => {
            let mut task = read_kept::<Task>(body.message.clone()).map_err(StepError)?;
            settle_task(&mut task.message);
            if task.message.definition().is_none() {
                return Err(StepError("the task has no definition".to_owned()));
            }
            task.unknown = raise(&mut task.message, body);
            Entity::Task(task.into())
        }
        before::Entity::Domain(before::Domain { body, .. }) => {
            let mut domain = read_kept::<Domain>(body.message.clone()).map_err(StepError)?;
            domain.unknown = raise(&mut domain.message, body);
            Entity::Domain(domain)
        }
    })
}

pub fn down(newer: Entity) -> (before::Entity, Vec<Loss>) {
    let older = match newer {
        Entity::Desired(mut lrp) => {
            let unknown = lower(&table::DESIRED, &mut lrp.message, std::mem::take(&mut lrp.unknown));
            let body = Body { message: lrp.payload().into(), unknown };
            before::Entity::Desired(before::Desired { process_guid: lrp.message.process_guid, body })
        }
        Entity::Actual(mut lrp) => {
            let unknown = lower(&table::ACTUAL, &mut lrp.message, std::mem::take(&mut lrp.unknown));
            let body = Body { message: lrp.payload().into(), unknown };
            let key = lrp.message.key.unwrap_or_default();
            let (process_guid, index, presence) = (key.process_guid, key.index, lrp.message.presence);
            before::Entity::Actual(before::Actual { process_guid, index, presence, body })
        }
        Entity::Task(mut task) => {
            let unknown = lower(&table::TASK, &mut task.message, std::mem::take(&mut task.unknown));
            let body = Body { message: task.payload().into(), unknown };
            before::Entity::Task(before::Task { guid: task.message.task_guid, body })
        }
        Entity::Domain(mut domain) => {
            let unknown = lower(&table::DOMAIN, &mut domain.message, std::mem::take(&mut domain.unknown));
            let body = Body { message: domain.payload().into(), unknown };
            before::Entity::Domain(before::Domain { name: domain.message.name, body })
        }
    };
    (older, vec![])
}

/// Gives the record its own unknown fields back, and lets it carry the unknown keys of the JSON.
fn raise<M: Record>(message: &mut M, body: Body) -> Bytes {
    let fits =
        |fields: &Bytes| fields::split(fields).is_some_and(|fields| fields.iter().all(|field| !M::knows(field.tag)));
    let carried = message.carried();
    let unknown = take(carried, NUMBER, fits);
    give(carried, before::NUMBER, body.unknown.into());
    unknown
}

/// The reverse of [`raise`].
fn lower<M: Record>(shape: &'static Shape, message: &mut M, unknown: Bytes) -> String {
    let carried = message.carried();
    let fits = |text: &Bytes| std::str::from_utf8(text).is_ok_and(|text| before::keeps(shape, text));
    let keys = take(carried, before::NUMBER, fits);
    give(carried, NUMBER, unknown);
    String::from_utf8(keys.into()).unwrap_or_default()
}

/// What does not fit stays where it is: it would make the record unreadable.
fn take(carried: &mut Vec<Carried>, version: DataVersion, fits: impl Fn(&Bytes) -> bool) -> Bytes {
    let at = carried.iter().position(|one| one.version == version.0 && one.record == RECORD && fits(&one.fields));
    at.map(|at| carried.remove(at).fields).unwrap_or_default()
}

fn give(carried: &mut Vec<Carried>, version: DataVersion, fields: Bytes) {
    if !fields.is_empty() {
        carried.push(Carried { version: version.0, record: RECORD.to_owned(), fields });
        sort_carried(carried);
    }
}
