//! The auctioneer found no cell for an instance.

use model::{ActualLrpKey, Refusal};

use super::{Done, Draft};
use crate::board::SlotKey;

#[derive(Clone, Debug)]
pub struct Fail {
    pub key: ActualLrpKey,
    pub reason: String,
}

impl Fail {
    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        let slot = draft.board.slot(&self.key.process_guid, self.key.index);
        let outcome = slot.fail(&self.reason, &draft.stamp())?;
        let key = SlotKey { process_guid: self.key.process_guid, index: self.key.index };
        draft.change_slot(key, &slot, &outcome, false);
        Ok(Done::Ok)
    }
}
