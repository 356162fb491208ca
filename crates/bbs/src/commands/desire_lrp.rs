//! Somebody wants a new process.

use std::sync::Arc;

use model::{DesiredLrp, Refusal};

use super::{Done, Draft, Effect};
use crate::board::SlotKey;

#[derive(Clone, Debug)]
pub struct DesireLrp {
    pub lrp: DesiredLrp,
}

impl DesireLrp {
    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        if draft.board.desired.contains_key(&self.lrp.process_guid) {
            return Err(Refusal::Exists);
        }
        let definition = draft.unused_definition(&self.lrp.process_guid);
        let lrp = Arc::new(DesiredLrp { definition, ..self.lrp });
        draft.put_desired(None, lrp.clone());
        create_instances(draft, &lrp, 0..lrp.instances);
        Ok(Done::Ok)
    }
}

/// Creates an unclaimed row for each index that has none, and asks for all of them to be placed at once.
pub(super) fn create_instances(draft: &mut Draft, lrp: &Arc<DesiredLrp>, indices: std::ops::Range<i32>) {
    let mut created = Vec::new();
    for index in indices {
        let key = lrp.key(index);
        let slot = draft.board.slot(&key.process_guid, index);
        if let Ok(outcome) = slot.create_unclaimed(&key, &draft.stamp()) {
            draft.change_slot(SlotKey { process_guid: key.process_guid, index }, &slot, &outcome, true);
            created.push(index);
        }
    }
    if !created.is_empty() {
        draft.follow_up(Effect::AuctionLrp { desired: lrp.clone(), indices: created });
    }
}
