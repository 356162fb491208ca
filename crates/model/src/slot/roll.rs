//! Replacing an instance by one of another definition: the old container stays routed until the new one has proven itself.
//!
//! The old container lies where one on a draining cell would, in the evacuating row, and is marked as leaving. So whoever knows
//! evacuations, as Diego's route emitter does, routes it correctly. Its cell does not drain and goes on reporting it as
//! running; while the mark is there that changes nothing.

use std::sync::Arc;

use super::{Cause, Outcome, Slot, Stamp};
use crate::{ActualLrp, ActualState, DefinitionNumber, InstanceKey, Presence};

impl Outcome {
    /// A cell says what the container of the ordinary row was made from. `before` is the slot that this is the outcome of.
    #[must_use]
    pub fn made_from(self, number: DefinitionNumber, by: &InstanceKey, before: &Slot) -> Self {
        match &self.slot.ordinary {
            Some(row) if row.is_held_by(by) => {
                let is_news = row.definition != number && before.ordinary.as_ref() == Some(row);
                let tag = if is_news { row.tag.next() } else { row.tag.clone() };
                let row = ActualLrp { definition: number, tag, ..ActualLrp::clone(row) };
                Self { slot: Slot { ordinary: Some(Arc::new(row)), ..self.slot }, cause: Cause::Named, ..self }
            }
            _ => self,
        }
    }
}

impl Slot {
    /// The row of a container that leaves as soon as its successor has proven itself.
    pub fn leaving(&self) -> Option<&Arc<ActualLrp>> {
        self.evacuating.as_ref().filter(|row| row.leaving)
    }

    pub(crate) fn leaves(&self, by: &InstanceKey) -> bool {
        self.leaving().is_some_and(|row| row.is_held_by(by))
    }

    /// Whether an instance of another definition can be started here now. One that is just being started, is suspected to be
    /// gone, or is being evacuated, is left alone until that is over.
    pub fn can_begin(&self, to: DefinitionNumber) -> bool {
        self.evacuating.is_none()
            && self.suspect.is_none()
            && self.ordinary.as_ref().is_some_and(|row| row.definition != to && row.state != ActualState::Claimed)
    }

    /// Starts an instance of another definition: beside the one that runs, or instead of one that does not.
    pub fn begin_roll(&self, to: DefinitionNumber, stamp: &Stamp) -> Option<Outcome> {
        let row = self.ordinary.as_ref().filter(|_| self.can_begin(to))?;
        let fresh = ActualLrp::unclaimed(row.key.clone(), stamp.epoch.clone(), stamp.now_ns);
        let slot = match row.state {
            ActualState::Running => Slot {
                ordinary: Some(Arc::new(ActualLrp { definition: to, ..fresh })),
                evacuating: Some(Arc::new(ActualLrp { leaving: true, ..row.with_presence(Presence::Evacuating) })),
                suspect: None,
            },
            _ => Slot {
                ordinary: Some(Arc::new(ActualLrp { definition: to, tag: row.tag.next(), ..fresh })),
                ..self.clone()
            },
        };
        Some(Outcome { slot, cause: Cause::Named, auction: true })
    }

    /// The successor has proven itself.
    pub fn let_leave(&self, by: &InstanceKey) -> Option<Outcome> {
        self.leaves(by).then(|| Outcome {
            slot: self.without(Presence::Evacuating),
            cause: Cause::Named,
            auction: false,
        })
    }

    /// The container that was about to leave is the instance again, and its successor goes.
    pub fn take_back(&self, by: &InstanceKey) -> Option<Outcome> {
        let row = self.leaving().filter(|row| row.is_held_by(by))?;
        let back = ActualLrp { leaving: false, ..row.with_presence(Presence::Ordinary) };
        let slot = Slot { ordinary: Some(Arc::new(back)), evacuating: None, suspect: None };
        Some(Outcome { slot, cause: Cause::Named, auction: false })
    }
}
