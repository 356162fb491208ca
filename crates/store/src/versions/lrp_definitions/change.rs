//! What a change of the model writes: the way of every write of a server that serves.
//!
//! Promise: the step gets what turns the records of `before` into those of `after`, and nothing else. A record that would
//! be written as it is already there is left alone, above all the definitions of a DesiredLRP, which are large and never
//! change. Whether it would is told from the model, without encoding anything. The caller keeps a step within its limits:
//! a change has one operation at most for each record that there is before or after. A DesiredLRP is a schedule, two
//! definitions that instances may have, and up to [`OLDER_MAX`](model::rollout::OLDER_MAX) older ones; all else is one
//! record.

use std::sync::Arc;

use bytes::Bytes;
use model::{ActualLrp, DesiredLrp, History};

use super::extras::Extras;
use super::keys::{self, Place};
use super::{NUMBER, convert};
use crate::kv::Step;
use crate::versions::EntityRef;

pub fn change(step: &mut Step, before: Option<EntityRef<'_>>, after: Option<EntityRef<'_>>) {
    // Records under other keys are of no use as a base.
    let base = before.filter(|before| after.is_some_and(|after| same_thing(*before, after)));
    if let (Some(before), None) = (before, base) {
        delete(step, before);
    }
    match after {
        Some(EntityRef::Desired(after)) => {
            let base = base.and_then(|before| if let EntityRef::Desired(before) = before { Some(before) } else { None });
            put_desired(step, base, after);
        }
        Some(after) if base.is_some_and(|before| unchanged(before, after)) => {}
        Some(EntityRef::Actual(lrp)) => put(step, actual_place(lrp), convert::actual(lrp).value(NUMBER)),
        Some(EntityRef::Task(task)) => put(step, Place::Task(task.guid.as_str()), convert::task(task).value(NUMBER)),
        Some(EntityRef::Domain(domain)) => {
            put(step, Place::Domain(domain.name.as_str()), convert::domain(domain).value(NUMBER));
        }
        None => {}
    }
}

fn put(step: &mut Step, place: Place<'_>, value: Bytes) {
    step.put(place.to_string(), value);
}

/// Whether both have their records under the same keys; of a DesiredLRP, its schedule.
fn same_thing(before: EntityRef<'_>, after: EntityRef<'_>) -> bool {
    match (before, after) {
        (EntityRef::Desired(before), EntityRef::Desired(after)) => before.process_guid == after.process_guid,
        (EntityRef::Actual(before), EntityRef::Actual(after)) => {
            (before.key.index, before.presence) == (after.key.index, after.presence)
                && before.key.process_guid == after.key.process_guid
        }
        (EntityRef::Task(before), EntityRef::Task(after)) => before.guid == after.guid,
        (EntityRef::Domain(before), EntityRef::Domain(after)) => before.name == after.name,
        _ => false,
    }
}

/// What every change changes is looked at first: it lies in the record itself, and the rest behind pointers.
fn unchanged(before: EntityRef<'_>, after: EntityRef<'_>) -> bool {
    let may_be = match (before, after) {
        (EntityRef::Actual(before), EntityRef::Actual(after)) => before.tag == after.tag,
        (EntityRef::Task(before), EntityRef::Task(after)) => before.updated_ns == after.updated_ns,
        _ => true,
    };
    may_be && before == after
}

fn actual_place(lrp: &ActualLrp) -> Place<'_> {
    let presence = keys::presence(convert::presence_number(lrp.presence));
    Place::Actual(lrp.key.process_guid.as_str(), lrp.key.index, presence)
}

fn delete(step: &mut Step, entity: EntityRef<'_>) {
    match entity {
        EntityRef::Desired(lrp) => {
            step.delete(Place::Schedule(lrp.process_guid.as_str()).to_string());
            for definition in convert::definitions(lrp) {
                step.delete(definition.place().to_string());
            }
        }
        EntityRef::Actual(lrp) => step.delete(actual_place(lrp).to_string()),
        EntityRef::Task(task) => step.delete(Place::Task(task.guid.as_str()).to_string()),
        EntityRef::Domain(domain) => step.delete(Place::Domain(domain.name.as_str()).to_string()),
    }
}

fn put_desired(step: &mut Step, before: Option<&DesiredLrp>, after: &DesiredLrp) {
    let extras = Extras::of(&after.unknown);
    // A base for what is not known is one for the rest only when it is the same.
    let base = before.filter(|before| before.unknown == after.unknown);
    if !base.is_some_and(|before| same_schedule(before, after)) {
        put(step, Place::Schedule(after.process_guid.as_str()), convert::schedule(after, &extras).value(NUMBER));
    }
    let old = || before.into_iter().flat_map(convert::definitions);
    for definition in convert::definitions(after) {
        if base.is_none() || !old().any(|old| old.same_as(&definition)) {
            put(step, definition.place(), definition.record(&extras).value(NUMBER));
        }
    }
    for old in old() {
        if convert::definitions(after).all(|definition| definition.number != old.number) {
            step.delete(old.place().to_string());
        }
    }
}

/// The tag tells most changes, so it is looked at first.
fn same_schedule(before: &DesiredLrp, after: &DesiredLrp) -> bool {
    let previous = |lrp: &DesiredLrp| lrp.previous.as_ref().map(|previous| previous.number);
    before.tag == after.tag
        && before.domain == after.domain
        && before.annotation == after.annotation
        && before.instances == after.instances
        && before.routes == after.routes
        && before.metric_tags == after.metric_tags
        && before.update_strategy == after.update_strategy
        && before.image_credentials == after.image_credentials
        && before.definition == after.definition
        && previous(before) == previous(after)
        && same_history(before.history.as_ref(), after.history.as_ref())
}

/// As the schedule has it: of the older definitions, their numbers.
fn same_history(before: Option<&Arc<History>>, after: Option<&Arc<History>>) -> bool {
    match (before, after) {
        (Some(before), Some(after)) if Arc::ptr_eq(before, after) => true,
        (Some(before), Some(after)) => {
            before.made == after.made
                && before.rollout == after.rollout
                && before.older.iter().map(|kept| kept.number).eq(after.older.iter().map(|kept| kept.number))
        }
        (None, None) => true,
        _ => false,
    }
}
