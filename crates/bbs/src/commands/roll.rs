//! Rollouts: carries out what was decided about one, and what clients ask of one.
//!
//! What a decision changes, the record and the rows of one index, is stored in one step. Every decision is looked at again: what
//! it saw may have changed since.

use std::sync::Arc;

use model::rollout::Terms;
use model::rollout::plan::{Decision, plan};
use model::rollout::step::carry_out;
use model::{DesiredLrp, ProcessGuid, Refusal, Slot};

use super::{Done, Draft, Effect};

#[derive(Clone, Debug)]
pub struct Roll {
    pub process_guid: ProcessGuid,
    pub decisions: Vec<Decision>,
}

impl Roll {
    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        for decision in self.decisions {
            one(draft, &self.process_guid, &decision);
        }
        Ok(Done::Ok)
    }
}

fn one(draft: &mut Draft, process_guid: &ProcessGuid, decision: &Decision) {
    let Some(before) = draft.desired(process_guid) else { return };
    if matches!(decision, Decision::Complete { .. }) && !is_decided_still(draft, &before, decision) {
        return;
    }
    let slot = decision.index().map(|index| draft.board.slot(process_guid, index)).unwrap_or_default();
    let (keep, stamp) = (draft.setting.definitions_kept, draft.stamp());
    let Some(change) = carry_out(&before, &slot, decision, keep, &stamp) else { return };
    let after = Arc::new(change.desired);
    let auctioned = change.slot.as_ref().filter(|(_, outcome)| outcome.auction).map(|(index, _)| *index);
    match change.slot {
        Some((index, outcome)) => {
            draft.change_rolling((before, after.clone()), index, (&slot, &outcome));
            for instance in change.stops {
                draft.follow_up(Effect::StopInstance { key: after.key(index), instance });
            }
        }
        None => draft.put_desired(Some(before), after),
    }
    if let Some(index) = auctioned {
        draft.auction(process_guid, index);
    }
}

/// About the whole process. What is about one index is looked at again where it is carried out.
fn is_decided_still(draft: &Draft, desired: &DesiredLrp, decision: &Decision) -> bool {
    let slots = draft.board.slots_of(&desired.process_guid);
    let slots: Vec<(i32, &Slot)> = slots.map(|(key, entry)| (key.index, &entry.slot)).collect();
    plan(desired, &slots, draft.now_ns()).decisions.contains(decision)
}

/// What somebody asks of a rollout.
#[derive(Clone, Debug)]
pub struct Steer {
    pub process_guid: ProcessGuid,
    pub ask: Ask,
}

#[derive(Clone, Debug)]
pub enum Ask {
    Cancel,
    Pause,
    Resume,
    /// To a former definition; without a name, to the latest.
    Rollback {
        to: Option<String>,
        terms: Terms,
    },
}

impl Steer {
    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        let before = draft.desired(&self.process_guid).ok_or(Refusal::NotFound)?;
        let after = self.ask.of(&before, draft.now_ns())?;
        draft.put_desired(Some(before), Arc::new(after));
        Ok(Done::Ok)
    }
}

impl Ask {
    fn of(self, lrp: &DesiredLrp, now_ns: model::Nanos) -> Result<DesiredLrp, Refusal> {
        match self {
            Self::Cancel => lrp.cancelled(now_ns),
            Self::Pause => lrp.paused(now_ns),
            Self::Resume => lrp.resumed(now_ns),
            Self::Rollback { to, terms } => lrp.rolled_back(to.as_deref(), terms, now_ns),
        }
    }
}
