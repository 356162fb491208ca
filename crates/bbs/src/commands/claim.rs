//! A cell has reserved a container for an instance.

use model::{InstanceKey, ProcessGuid, Refusal};

use super::{Done, Draft};
use crate::board::{Board, SlotKey};

#[derive(Clone, Debug)]
pub struct Claim {
    pub process_guid: ProcessGuid,
    pub index: i32,
    pub by: InstanceKey,
}

impl Claim {
    /// A cell repeats its claim while the container is created: those repetitions change nothing and need no writer.
    pub fn changes_nothing(&self, board: &Board) -> bool {
        board.slot_entry(&self.process_guid, self.index).is_some_and(|entry| {
            entry
                .slot
                .ordinary
                .as_ref()
                .is_some_and(|row| row.state == model::ActualState::Claimed && row.is_held_by(&self.by))
        })
    }

    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        let slot = draft.board.slot(&self.process_guid, self.index);
        let outcome = slot.claim(&self.by, &draft.stamp())?;
        let key = SlotKey { process_guid: self.process_guid, index: self.index };
        draft.change_slot(key, &slot, &outcome, false);
        Ok(Done::Ok)
    }
}
