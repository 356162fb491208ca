//! Scale a process, change what is known about it, or give it a new definition.
//!
//! A new definition begins a rollout, which replaces the instances one by one. Until the last of them is gone the definition they
//! run is kept.

use std::sync::Arc;

use model::{ActualLrpKey, DesiredLrp, DesiredUpdate, InstanceKey, ProcessGuid, Refusal};

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
        for (key, instance) in holders(&slot) {
            draft.follow_up(Effect::StopInstance { key, instance });
        }
    }
}

/// The containers of a slot that are not on their way out already.
fn holders(slot: &model::Slot) -> Vec<(ActualLrpKey, InstanceKey)> {
    [&slot.ordinary, &slot.suspect]
        .into_iter()
        .flatten()
        .filter_map(|row| row.instance.clone().map(|instance| (row.key.clone(), instance)))
        .collect()
}

fn tell_instances(draft: &mut Draft, before: &DesiredLrp, after: &Arc<DesiredLrp>) {
    let routes = before.internal_router() != after.internal_router();
    let tags = before.metric_tags != after.metric_tags;
    if !routes && !tags {
        return;
    }
    let told: Vec<_> = draft.board.slots_of(&after.process_guid).flat_map(|(_, entry)| holders(&entry.slot)).collect();
    for (key, instance) in told {
        if key.index < after.instances {
            draft.follow_up(Effect::UpdateInstance { desired: after.clone(), key, instance, routes, tags });
        }
    }
}
