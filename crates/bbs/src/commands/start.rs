//! A container runs. Cells repeat this for every container at every poll, as a heartbeat.

use model::{ActualLrpKey, ActualState, InstanceKey, Refusal, Report};

use super::{Done, Draft};
use crate::board::{Board, SlotKey};

#[derive(Clone, Debug)]
pub struct Start {
    pub key: ActualLrpKey,
    pub by: InstanceKey,
    pub report: Report,
}

impl Start {
    /// The heartbeat of a container whose start is recorded already and that keeps nobody else's row alive.
    pub fn changes_nothing(&self, board: &Board) -> bool {
        board.slot_entry(&self.key.process_guid, self.key.index).is_some_and(|entry| {
            let slot = &entry.slot;
            slot.evacuating.is_none()
                && slot.suspect.is_none()
                && slot.ordinary.as_ref().is_some_and(|row| {
                    row.state == ActualState::Running
                        && row.key == self.key
                        && row.is_held_by(&self.by)
                        && row.says_the_same(&self.report)
                })
        })
    }

    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        let slot = draft.board.slot(&self.key.process_guid, self.key.index);
        let outcome = slot.start(&self.key, &self.by, self.report, &draft.stamp())?;
        let key = SlotKey { process_guid: self.key.process_guid, index: self.key.index };
        draft.change_slot(key, &slot, &outcome, false);
        Ok(Done::Ok)
    }
}
