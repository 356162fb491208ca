//! A container runs. Cells repeat this for every container at every poll, as a heartbeat.
//!
//! Promise: a row that runs names the definition that its container was made from, as far as anybody can know. A cell that knows
//! definitions says it; of another it is inferred, and where that is not the definition which the row asked for, the answer says
//! so. A container of a definition that no instance can have any more does not become the instance again.

use model::{ActualLrp, ActualLrpKey, ActualState, DefinitionNumber, DesiredLrp, InstanceKey, Refusal, Report, Slot};

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
            let has_said = |row: &ActualLrp| row.is_held_by(&self.by) && row.says_the_same(&self.report);
            slot.leaving().is_some_and(|row| has_said(row))
                || slot.evacuating.as_ref().is_none_or(|row| row.leaving)
                    && slot.suspect.is_none()
                    && slot.ordinary.as_ref().is_some_and(|row| {
                        row.state == ActualState::Running
                            && row.key == self.key
                            && has_said(row)
                            && self.definition.is_none_or(|said| said == row.definition)
                    })
        })
    }

    /// While an index is being replaced, one of its containers runs and another one has been asked for, which claims the row before
    /// it starts. Whoever else comes is about to end: it was asked to stop, and has not yet.
    fn is_superseded(&self, slot: &Slot) -> bool {
        slot.leaving().is_some() && !slot.rows().any(|row| row.is_held_by(&self.by))
    }

    pub(super) fn apply(self, draft: &mut Draft) -> Result<Done, Refusal> {
        let slot = draft.board.slot(&self.key.process_guid, self.key.index);
        if self.is_superseded(&slot) {
            return Err(Refusal::CannotBeStarted);
        }
        let desired = draft.desired(&self.key.process_guid);
        if desired.as_ref().is_some_and(|lrp| self.is_obsolete(lrp, &slot)) {
            return Err(Refusal::CannotBeStarted);
        }
        let made = desired.and_then(|lrp| made_from(&lrp, &slot, &self.by, self.definition));
        let mut outcome = slot.start(&self.key, &self.by, self.report, &draft.stamp())?;
        if let Some(made) = made {
            outcome = outcome.made_from(made.number, &self.by, &slot);
        }
        let holds = |slot: &Slot| slot.ordinary.as_ref().is_some_and(|row| row.is_held_by(&self.by));
        let wanted = made.and_then(|made| made.instead_of).filter(|_| holds(&outcome.slot));
        let key = SlotKey { process_guid: self.key.process_guid, index: self.key.index };
        draft.change_slot(key, &slot, &outcome, false);
        Ok(wanted.map_or(Done::Ok, |wanted| Done::StartedOther { wanted }))
    }

    /// A container that was asked to stop, but did not hear it, must not take the place of its successor's successor.
    fn is_obsolete(&self, lrp: &DesiredLrp, slot: &Slot) -> bool {
        let is_known = slot.rows().any(|row| row.is_held_by(&self.by));
        !is_known && self.definition.is_some_and(|number| lrp.had_definition(number))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    number: DefinitionNumber,
    /// The row asked for this one, and did not get it.
    instead_of: Option<DefinitionNumber>,
}

/// What a container that starts during an update was made from, if that is not what its row was meant to be. A cell that does
/// not say has asked for the record after it claimed the instance, and got the definition that was in use then.
fn made_from(lrp: &DesiredLrp, slot: &Slot, by: &InstanceKey, said: Option<DefinitionNumber>) -> Option<Made> {
    let rollout = lrp.rollout()?;
    if let Some(number) = said {
        return lrp.identifier_of(number).map(|_| Made { number, instead_of: None });
    }
    let row = slot.ordinary.as_ref().filter(|row| row.state != ActualState::Running || !row.is_held_by(by))?;
    if row.state == ActualState::Claimed && row.since_ns < rollout.started_ns {
        return None;
    }
    let instead_of = Some(row.definition).filter(|number| *number != lrp.definition);
    Some(Made { number: lrp.definition, instead_of })
}

#[cfg(test)]
mod tests;
