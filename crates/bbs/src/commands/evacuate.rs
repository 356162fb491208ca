//! A draining cell moves its containers away.

use model::slot::{Evacuation, EvacuationPolicy, RunningEvacuation};
use model::{ActualLrpKey, InstanceKey, Refusal, Report};

use super::{Done, Draft};
use crate::board::SlotKey;

/// What the draining cell says about one container.
#[derive(Clone, Debug)]
pub struct Evacuate {
    pub key: ActualLrpKey,
    pub by: InstanceKey,
    pub what: Evacuated,
}

#[derive(Clone, Debug)]
pub enum Evacuated {
    Claimed,
    Running(Report),
    Crashed(String),
    Stopped,
}

impl Evacuate {
    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        let slot = draft.board.slot(&self.key.process_guid, self.key.index);
        let stamp = draft.stamp();
        let Evacuation { keep, result } = match self.what {
            Evacuated::Claimed => slot.evacuate_claimed(&self.by, &stamp),
            Evacuated::Crashed(reason) => slot.evacuate_crashed(&self.by, &reason, &stamp),
            Evacuated::Stopped => slot.evacuate_stopped(&self.by),
            Evacuated::Running(report) => {
                let policy = draft.desired(&self.key.process_guid).map(|desired| EvacuationPolicy {
                    strategy: desired.update_strategy,
                    all_running: draft.board.all_running(&desired),
                });
                let call = RunningEvacuation { key: self.key.clone(), by: self.by, report, policy };
                slot.evacuate_running(call, &stamp)
            }
        };
        let refusal = match result {
            Ok(outcome) => {
                let key = SlotKey { process_guid: self.key.process_guid.clone(), index: self.key.index };
                draft.change_slot(key, &slot, &outcome, false);
                if outcome.auction {
                    draft.auction(&self.key.process_guid, self.key.index);
                }
                None
            }
            Err(refusal) => Some(refusal),
        };
        Ok(Done::Evacuated { keep, refusal })
    }
}

/// The container on the draining cell is gone.
#[derive(Clone, Debug)]
pub struct RemoveEvacuating {
    pub key: ActualLrpKey,
    pub by: InstanceKey,
}

impl RemoveEvacuating {
    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        let slot = draft.board.slot(&self.key.process_guid, self.key.index);
        let outcome = slot.remove_evacuating(&self.by)?;
        let key = SlotKey { process_guid: self.key.process_guid, index: self.key.index };
        draft.change_slot(key, &slot, &outcome, false);
        Ok(Done::Ok)
    }
}
