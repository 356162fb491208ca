//! A container is gone, and so is its row.

use model::{InstanceKey, ProcessGuid, Refusal};

use super::{Done, Draft};
use crate::board::SlotKey;

#[derive(Clone, Debug)]
pub struct Remove {
    pub process_guid: ProcessGuid,
    pub index: i32,
    /// Only if this instance holds the row.
    pub by: Option<InstanceKey>,
}

impl Remove {
    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        let slot = draft.board.slot(&self.process_guid, self.index);
        let outcome = slot.remove(self.by.as_ref())?;
        let key = SlotKey { process_guid: self.process_guid, index: self.index };
        draft.change_slot(key, &slot, &outcome, false);
        Ok(Done::Ok)
    }
}
