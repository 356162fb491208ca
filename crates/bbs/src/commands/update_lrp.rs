//! Scale a process, change what is known about it, or give it a new definition.
//!
//! A new definition begins a rollout, which replaces the instances one by one. Until the last of them is gone the definition they
//! run is kept.

use std::sync::Arc;

use model::{ActualLrp, DesiredLrp, DesiredUpdate, ProcessGuid, Refusal};

use super::desire_lrp::create_instances;
use super::{Done, Draft, Effect};
use crate::board::SlotKey;

#[derive(Clone, Debug)]
pub struct UpdateLrp {
    pub process_guid: ProcessGuid,
    pub update: DesiredUpdate,
}

impl UpdateLrp {
    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        let before = draft.desired(&self.process_guid).ok_or(Refusal::NotFound)?;
        let after = Arc::new(before.updated(self.update, draft.now_ns())?);
        draft.put_desired(Some(before.clone()), after.clone());
        create_instances(draft, &after, before.instances..after.instances);
        if after.instances < before.instances {
            stop_instances(draft, &self.process_guid, after.instances);
        }
        tell_instances(draft, &before, &after);
        Ok(Done::Ok)
    }
}

/// Rows that no cell has go at once. Others go when their cell has stopped them; it is asked to, and if the asking is lost,
/// convergence asks again. Evacuating rows are left to their cell, unless it is an update that keeps them.
pub(super) fn stop_instances(draft: &mut Draft, process_guid: &ProcessGuid, from_index: i32) {
    let surplus: Vec<_> = draft
        .board
        .slots_of(process_guid)
        .filter(|(key, _)| key.index >= from_index)
        .map(|(key, entry)| (key.index, entry.slot.clone()))
        .collect();
    for (index, slot) in surplus {
        if let Ok(outcome) = slot.remove_unheld() {
            let key = SlotKey { process_guid: process_guid.clone(), index };
            draft.change_slot(key, &slot, &outcome, true);
        }
        if let Some((key, instance)) = slot.leaving().and_then(|row| Some((row.key.clone(), row.instance.clone()?))) {
            let slot = draft.board.slot(process_guid, index);
            if let Some(outcome) = slot.let_leave(&instance) {
                draft.change_slot(SlotKey { process_guid: process_guid.clone(), index }, &slot, &outcome, true);
            }
            draft.follow_up(Effect::StopInstance { key, instance });
        }
        for row in rows_to_stay(&slot) {
            if let Some(instance) = row.instance.clone() {
                draft.follow_up(Effect::StopInstance { key: row.key.clone(), instance });
            }
        }
    }
}

/// The rows of a slot that are not on their way out already.
fn rows_to_stay(slot: &model::Slot) -> impl Iterator<Item = &Arc<ActualLrp>> {
    [&slot.ordinary, &slot.suspect].into_iter().flatten()
}

fn tell_instances(draft: &mut Draft, before: &DesiredLrp, after: &Arc<DesiredLrp>) {
    let tags = before.metric_tags != after.metric_tags;
    if before.routes == after.routes && !tags {
        return;
    }
    // Instances have the routes of their own definition.
    let differ = |number| before.internal_router_of(number) != after.internal_router_of(number);
    let rows = draft.board.slots_of(&after.process_guid).flat_map(|(_, entry)| rows_to_stay(&entry.slot));
    let told: Vec<_> = rows.filter(|row| row.key.index < after.instances).cloned().collect();
    for row in told {
        let routes = differ(row.definition);
        if let Some(instance) = row.instance.clone().filter(|_| routes || tags) {
            let (desired, key) = (after.as_defined(row.definition), row.key.clone());
            draft.follow_up(Effect::UpdateInstance { desired, key, instance, routes, tags });
        }
    }
}
