//! Carries out what the LRP pass decided. Every decision is looked at again: what it saw may have changed since.

use model::converge::lrps::Decision;
use model::slot::{Outcome, Stamp};
use model::{ActualLrpKey, Refusal, Slot};

use super::{Done, Draft, Effect};
use crate::board::SlotKey;

#[derive(Clone, Debug)]
pub struct ConvergeLrps {
    pub decisions: Vec<Decision>,
}

impl ConvergeLrps {
    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        for decision in self.decisions {
            carry_out(draft, decision);
        }
        Ok(Done::Ok)
    }
}

fn carry_out(draft: &mut Draft, decision: Decision) {
    match decision {
        Decision::PruneDomain { name, seen_expires_ns } => {
            if draft.board.domains.get(&name).is_some_and(|domain| domain.expires_ns == seen_expires_ns) {
                draft.remove_domain(&name);
            }
        }
        Decision::DropEvacuating { key, held_by } => change(draft, &key, |slot, _| slot.drop_evacuating(&held_by)),
        Decision::Create { key } => {
            let wanted = draft.desired(&key.process_guid).is_some_and(|desired| key.index < desired.instances);
            if wanted {
                change(draft, &key, |slot, stamp| slot.create_unclaimed(&key, stamp).ok());
            }
        }
        Decision::AuctionAgain { key } => change(draft, &key, |slot, _| slot.auction_again()),
        Decision::RestartCrashed { key } => change(draft, &key, Slot::restart_crashed),
        Decision::LoseCell { key, held_by } => change(draft, &key, |slot, stamp| slot.lose_cell(&held_by, stamp)),
        Decision::PromoteSuspect { key, held_by } => change(draft, &key, |slot, _| slot.promote_suspect(&held_by)),
        Decision::RetireSuspect { key, held_by } => change(draft, &key, |slot, _| slot.retire_suspect(&held_by)),
        Decision::StopLeaving { key, held_by } => {
            change(draft, &key, |slot, _| slot.let_leave(&held_by));
            draft.follow_up(Effect::StopInstance { key, instance: held_by });
        }
        Decision::Retire { key } => retire(draft, &key),
        Decision::UpdateInstance { key, routes, tags } => update_instance(draft, key, routes, tags),
    }
}

fn change(draft: &mut Draft, key: &ActualLrpKey, operation: impl FnOnce(&Slot, &Stamp) -> Option<Outcome>) {
    let slot = draft.board.slot(&key.process_guid, key.index);
    let Some(outcome) = operation(&slot, &draft.stamp()) else { return };
    let slot_key = SlotKey { process_guid: key.process_guid.clone(), index: key.index };
    draft.change_slot(slot_key, &slot, &outcome, false);
    if outcome.auction {
        draft.auction(&key.process_guid, key.index);
    }
}

fn retire(draft: &mut Draft, key: &ActualLrpKey) {
    let slot = draft.board.slot(&key.process_guid, key.index);
    match (slot.remove_unheld(), &slot.ordinary) {
        (Ok(outcome), _) => {
            let slot_key = SlotKey { process_guid: key.process_guid.clone(), index: key.index };
            draft.change_slot(slot_key, &slot, &outcome, false);
        }
        (Err(_), Some(row)) => {
            if let Some(instance) = row.instance.clone() {
                draft.follow_up(Effect::StopInstance { key: key.clone(), instance });
            }
        }
        (Err(_), None) => {}
    }
}

fn update_instance(draft: &mut Draft, key: ActualLrpKey, routes: bool, tags: bool) {
    let slot = draft.board.slot(&key.process_guid, key.index);
    let Some(row) = slot.ordinary else { return };
    if let (Some(desired), Some(instance)) = (draft.desired(&key.process_guid), row.instance.clone()) {
        let desired = desired.as_defined(row.definition);
        draft.follow_up(Effect::UpdateInstance { desired, key, instance, routes, tags });
    }
}
