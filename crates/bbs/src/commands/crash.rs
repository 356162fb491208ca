//! A container ended although nobody stopped it.

use model::{ActualLrpKey, InstanceKey, Refusal};

use super::{Done, Draft};
use crate::board::SlotKey;

#[derive(Clone, Debug)]
pub struct Crash {
    pub key: ActualLrpKey,
    pub by: InstanceKey,
    pub reason: String,
}

impl Crash {
    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        let slot = draft.board.slot(&self.key.process_guid, self.key.index);
        let outcome = slot.crash(&self.by, &self.reason, &draft.stamp())?;
        let key = SlotKey { process_guid: self.key.process_guid.clone(), index: self.key.index };
        draft.change_slot(key, &slot, &outcome, false);
        // The crash is recorded either way; the caller learns that there is nothing left to restart.
        if outcome.auction && !draft.auction(&self.key.process_guid, self.key.index) {
            return Err(Refusal::NotFound);
        }
        Ok(Done::Ok)
    }
}
