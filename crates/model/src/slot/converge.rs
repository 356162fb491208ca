//! What convergence does to a slot. Each operation names what it expects to find: a plan is made on a snapshot, and by the
//! time it is carried out the slot may have moved on. Then nothing happens, and the next pass looks again.

use std::sync::Arc;

use super::{Cause, Outcome, Slot, Stamp};
use crate::{ActualLrp, ActualState, InstanceKey, Presence};

impl Slot {
    /// The cell of the ordinary row fell silent: keep the container routable and start a replacement.
    ///
    /// If a suspect is kept already, the replacement itself was lost and simply becomes unclaimed again. It is auctioned
    /// once it is stale, so that an index whose cells keep failing does not flood the auction.
    pub fn lose_cell(&self, held_by: &InstanceKey, stamp: &Stamp) -> Option<Outcome> {
        let row = self.ordinary.as_ref().filter(|row| row.is_held() && row.is_held_by(held_by))?;
        if self.suspect.is_some() {
            return self.unclaim(stamp).ok().map(|outcome| Outcome { auction: false, ..outcome });
        }
        let replacement = ActualLrp::unclaimed(row.key.clone(), stamp.epoch.clone(), stamp.now_ns);
        let slot = Slot {
            suspect: Some(Arc::new(row.with_presence(Presence::Suspect))),
            ordinary: Some(Arc::new(replacement)),
            evacuating: self.evacuating.clone(),
        };
        Some(Outcome { slot, cause: Cause::Plain, auction: true })
    }

    /// The cell of the suspect is back: the suspect is the instance again, and the replacement goes.
    pub fn promote_suspect(&self, held_by: &InstanceKey) -> Option<Outcome> {
        let row = self.suspect.as_ref().filter(|row| row.is_held_by(held_by))?;
        let slot = Slot {
            ordinary: Some(Arc::new(row.with_presence(Presence::Ordinary))),
            suspect: None,
            evacuating: self.evacuating.clone(),
        };
        Some(Outcome { slot, cause: Cause::Promotion, auction: false })
    }

    /// The suspect is no longer needed: its replacement runs, or nobody wants the index.
    pub fn retire_suspect(&self, held_by: &InstanceKey) -> Option<Outcome> {
        self.suspect.as_ref().filter(|row| row.is_held_by(held_by))?;
        Some(Outcome { slot: self.without(Presence::Suspect), cause: Cause::SuspectRetired, auction: false })
    }

    /// The draining cell of this container is gone.
    pub fn drop_evacuating(&self, held_by: &InstanceKey) -> Option<Outcome> {
        self.evacuating.as_ref().filter(|row| row.is_held_by(held_by))?;
        Some(Outcome::plain(self.without(Presence::Evacuating)))
    }

    /// A crashed instance has waited long enough.
    pub fn restart_crashed(&self, stamp: &Stamp) -> Option<Outcome> {
        self.ordinary.as_ref().filter(|row| row.state == ActualState::Crashed)?;
        self.unclaim(stamp).ok()
    }

    /// An unclaimed instance that nobody took is auctioned again; a row that was claimed meanwhile is left alone.
    pub fn auction_again(&self) -> Option<Outcome> {
        self.ordinary.as_ref().filter(|row| row.state == ActualState::Unclaimed)?;
        Some(Outcome::auctioned(self.clone()))
    }
}
