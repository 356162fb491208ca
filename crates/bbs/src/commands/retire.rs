//! The part of retiring an instance that needs no cell: a row that no cell has, or whose cell is gone, is removed.
//!
//! Asking a cell to stop its container is not a change of state and happens outside the writer; the row goes when the cell
//! reports the container gone, and only then is its removal announced.

use model::{ActualLrpKey, InstanceKey, Refusal};

use super::{Done, Draft};
use crate::board::SlotKey;

#[derive(Clone, Debug)]
pub struct RetireUnheld {
    pub key: ActualLrpKey,
    /// Set when the cell that held the row is known to be gone: then the row goes although it is held.
    pub gone: Option<InstanceKey>,
}

impl RetireUnheld {
    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        let slot = draft.board.slot(&self.key.process_guid, self.key.index);
        let outcome = match &self.gone {
            Some(gone) => slot.remove(Some(gone))?,
            None => slot.remove_unheld()?,
        };
        let key = SlotKey { process_guid: self.key.process_guid, index: self.key.index };
        draft.change_slot(key, &slot, &outcome, true);
        Ok(Done::Ok)
    }
}
