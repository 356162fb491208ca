//! A container runs. Cells repeat this for every container at every poll, as a heartbeat.

use model::{ActualLrpKey, ActualState, DefinitionNumber, DesiredLrp, InstanceKey, Refusal, Report, Slot};

use super::{Done, Draft};
use crate::board::{Board, SlotKey};

#[derive(Clone, Debug)]
pub struct Start {
    pub key: ActualLrpKey,
    pub by: InstanceKey,
    pub report: Report,
    /// What the cell says that the container was made from. Cells that know no definitions do not say.
    pub definition: Option<DefinitionNumber>,
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

    /// A container that nobody knows, of the definition that is being replaced here: one of those runs already.
    fn is_superseded(&self, slot: &Slot) -> bool {
        let (Some(leaving), Some(ordinary), Some(said)) = (slot.leaving(), &slot.ordinary, self.definition) else {
            return false;
        };
        let is_known = slot.rows().any(|row| row.is_held_by(&self.by));
        said == leaving.definition && said != ordinary.definition && !is_known
    }

    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        let slot = draft.board.slot(&self.key.process_guid, self.key.index);
        if self.is_superseded(&slot) {
            return Err(Refusal::CannotBeStarted);
        }
        let desired = draft.desired(&self.key.process_guid);
        let number = desired.and_then(|lrp| made_from(&lrp, &slot, &self.by, self.definition));
        let mut outcome = slot.start(&self.key, &self.by, self.report, &draft.stamp())?;
        if let Some(number) = number {
            outcome = outcome.made_from(number, &self.by);
        }
        let key = SlotKey { process_guid: self.key.process_guid, index: self.key.index };
        draft.change_slot(key, &slot, &outcome, false);
        Ok(Done::Ok)
    }
}

/// What a container that starts during an update was made from, if that is not what its row was meant to be. A cell that does
/// not say has asked for the record after it claimed the instance, and got the definition that was in use then.
fn made_from(
    lrp: &DesiredLrp,
    slot: &Slot,
    by: &InstanceKey,
    said: Option<DefinitionNumber>,
) -> Option<DefinitionNumber> {
    let rollout = lrp.rollout()?;
    let starts = slot.ordinary.as_ref().filter(|row| row.state != ActualState::Running || !row.is_held_by(by));
    match (said, starts) {
        (Some(number), _) => lrp.identifier_of(number).map(|_| number),
        (None, Some(row)) if row.state == ActualState::Claimed && row.since_ns < rollout.started_ns => None,
        (None, Some(_)) => Some(lrp.definition),
        (None, None) => None,
    }
}
