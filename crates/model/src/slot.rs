//! All rows of one instance index, and every operation on them.
//!
//! Each operation is a pure function from a slot to the slot that follows. The server stores the difference as one atomic
//! step, so a half-done evacuation or a replaced suspect that lingers, both possible where each row has its own transaction,
//! cannot exist here.

use std::sync::Arc;

use crate::actual_lrp::table::{Move, Standing, Verdict, judge};
use crate::{ActualLrp, ActualLrpKey, ActualState, InstanceKey, ModificationTag, Nanos, Presence, Refusal, Report};

mod converge;
mod definition;
mod evacuate;
mod roll;

pub use definition::Known;
pub use evacuate::{Evacuation, EvacuationPolicy, RunningEvacuation};

/// At most one row per presence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    pub ordinary: Option<Arc<ActualLrp>>,
    pub evacuating: Option<Arc<ActualLrp>>,
    pub suspect: Option<Arc<ActualLrp>>,
}

/// What the outside world contributes to an operation: the time, and an epoch for a row that may be created.
#[derive(Clone, Debug)]
pub struct Stamp {
    pub now_ns: Nanos,
    pub epoch: Arc<str>,
}

/// A slot after an operation that succeeded.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub slot: Slot,
    pub cause: Cause,
    /// The index needs a cell: ask the auctioneer.
    pub auction: bool,
}

/// Why rows changed, as far as it matters to what is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Plain,
    /// A container crashed: this is announced even when the row restarts at once.
    Crash,
    /// A suspect became the ordinary row again.
    Promotion,
    /// Convergence removed a suspect.
    SuspectRetired,
    /// As [`Cause::Plain`], and the rows name their definitions already.
    Named,
}

impl Outcome {
    fn plain(slot: Slot) -> Self {
        Self { slot, cause: Cause::Plain, auction: false }
    }

    fn auctioned(slot: Slot) -> Self {
        Self { slot, cause: Cause::Plain, auction: true }
    }
}

impl Slot {
    pub fn is_empty(&self) -> bool {
        self.ordinary.is_none() && self.evacuating.is_none() && self.suspect.is_none()
    }

    pub fn get(&self, presence: Presence) -> Option<&Arc<ActualLrp>> {
        match presence {
            Presence::Ordinary => self.ordinary.as_ref(),
            Presence::Evacuating => self.evacuating.as_ref(),
            Presence::Suspect => self.suspect.as_ref(),
        }
    }

    pub fn set(&mut self, presence: Presence, row: Option<Arc<ActualLrp>>) {
        match presence {
            Presence::Ordinary => self.ordinary = row,
            Presence::Evacuating => self.evacuating = row,
            Presence::Suspect => self.suspect = row,
        }
    }

    /// The rows, ordinary first.
    pub fn rows(&self) -> impl Iterator<Item = &Arc<ActualLrp>> {
        [&self.ordinary, &self.evacuating, &self.suspect].into_iter().flatten()
    }

    /// The row that the caller's container is known by. An ordinary row wins over the others.
    fn row_of(&self, caller: &InstanceKey) -> Option<&Arc<ActualLrp>> {
        self.rows().find(|row| row.is_held_by(caller))
    }

    fn suspects(&self, caller: &InstanceKey) -> bool {
        self.suspect.as_ref().is_some_and(|row| row.is_held_by(caller))
            && !self.ordinary.as_ref().is_some_and(|row| row.is_held_by(caller))
    }

    #[must_use]
    fn with_ordinary(&self, row: ActualLrp) -> Self {
        Self { ordinary: Some(Arc::new(row)), ..self.clone() }
    }

    #[must_use]
    fn without(&self, presence: Presence) -> Self {
        let mut slot = self.clone();
        slot.set(presence, None);
        slot
    }

    /// An instance is wanted and there is no row for it yet.
    pub fn create_unclaimed(&self, key: &ActualLrpKey, stamp: &Stamp) -> Result<Outcome, Refusal> {
        match self.ordinary {
            Some(_) => Err(Refusal::Exists),
            None => {
                let row = ActualLrp::unclaimed(key.clone(), stamp.epoch.clone(), stamp.now_ns);
                Ok(Outcome::auctioned(self.with_ordinary(row)))
            }
        }
    }

    pub fn claim(&self, by: &InstanceKey, stamp: &Stamp) -> Result<Outcome, Refusal> {
        if self.suspects(by) || self.leaves(by) {
            return Ok(Outcome::plain(self.clone()));
        }
        let ordinary = self.ordinary.as_deref();
        match judge(Standing::of(ordinary, Some(by), None), Move::Claim) {
            Verdict::Refuse(refusal) => Err(refusal),
            Verdict::Nothing => Ok(Outcome::plain(self.clone())),
            Verdict::Go => {
                let row = ordinary.ok_or(Refusal::NotFound)?.claimed(by, stamp.now_ns);
                Ok(Outcome::plain(self.with_ordinary(row)))
            }
        }
    }

    /// Also the heartbeat of a running container. The replacement runs now, so rows that only kept routes go.
    pub fn start(
        &self,
        key: &ActualLrpKey,
        by: &InstanceKey,
        report: Report,
        stamp: &Stamp,
    ) -> Result<Outcome, Refusal> {
        if self.suspects(by) {
            return Ok(Outcome::plain(self.clone()));
        }
        if let Some(row) = self.leaving().filter(|row| row.is_held_by(by)) {
            return Ok(Outcome::plain(Self { evacuating: Some(row.told(report)), ..self.clone() }));
        }
        if self.ordinary.as_ref().is_some_and(|row| row.key != *key) {
            return Err(Refusal::CannotBeStarted);
        }
        let ordinary = match judge(Standing::of(self.ordinary.as_deref(), Some(by), Some(&report)), Move::Start) {
            Verdict::Refuse(refusal) => return Err(refusal),
            Verdict::Nothing => self.ordinary.clone(),
            Verdict::Go => Some(Arc::new(match &self.ordinary {
                Some(row) => row.started(by, report, stamp.now_ns),
                None => {
                    let tag = ModificationTag::first(stamp.epoch.clone());
                    ActualLrp::running(key.clone(), by.clone(), report, Presence::Ordinary, tag, stamp.now_ns)
                }
            })),
        };
        // Who leaves stays until the one that runs now has proven itself.
        Ok(Outcome::plain(Self { ordinary, evacuating: self.leaving().cloned(), suspect: None }))
    }

    pub fn crash(&self, by: &InstanceKey, reason: &str, stamp: &Stamp) -> Result<Outcome, Refusal> {
        if self.suspects(by) {
            return Ok(Outcome::plain(self.without(Presence::Suspect)));
        }
        if self.leaves(by) {
            return Ok(Outcome::plain(self.without(Presence::Evacuating)));
        }
        let ordinary = self.ordinary.as_deref();
        match judge(Standing::of(ordinary, Some(by), None), Move::Crash) {
            Verdict::Refuse(refusal) => Err(refusal),
            Verdict::Nothing => Ok(Outcome::plain(self.clone())),
            Verdict::Go => {
                let row = ordinary.ok_or(Refusal::NotFound)?.crashed(reason, stamp.now_ns);
                let auction = row.state == ActualState::Unclaimed;
                Ok(Outcome { slot: self.with_ordinary(row), cause: Cause::Crash, auction })
            }
        }
    }

    /// The auctioneer found no place for this instance.
    pub fn fail(&self, reason: &str, stamp: &Stamp) -> Result<Outcome, Refusal> {
        let ordinary = self.ordinary.as_deref();
        match judge(Standing::of(ordinary, None, None), Move::Fail) {
            Verdict::Refuse(refusal) => Err(refusal),
            Verdict::Nothing => Ok(Outcome::plain(self.clone())),
            Verdict::Go => {
                let row = ordinary.ok_or(Refusal::NotFound)?.failed(reason, stamp.now_ns);
                Ok(Outcome::plain(self.with_ordinary(row)))
            }
        }
    }

    /// Removes the ordinary row; with a key only if that instance holds it. A container that leaves and was stopped is reported
    /// like any other, since its cell does not drain.
    pub fn remove(&self, by: Option<&InstanceKey>) -> Result<Outcome, Refusal> {
        match (&self.ordinary, by) {
            (_, Some(by)) if self.leaves(by) => Ok(Outcome::plain(self.without(Presence::Evacuating))),
            (Some(row), Some(by)) if !row.is_held_by(by) => Err(Refusal::NotFound),
            (Some(_), _) => Ok(Outcome::plain(self.without(Presence::Ordinary))),
            (None, _) => Err(Refusal::NotFound),
        }
    }

    /// Removes the ordinary row if no cell has it: nobody has to be told to stop.
    pub fn remove_unheld(&self) -> Result<Outcome, Refusal> {
        match &self.ordinary {
            Some(row) if !row.is_held() => Ok(Outcome::plain(self.without(Presence::Ordinary))),
            Some(_) => Err(Refusal::CannotBeRemoved),
            None => Err(Refusal::NotFound),
        }
    }

    fn unclaim(&self, stamp: &Stamp) -> Result<Outcome, Refusal> {
        let ordinary = self.ordinary.as_deref();
        match judge(Standing::of(ordinary, None, None), Move::Unclaim) {
            Verdict::Refuse(refusal) => Err(refusal),
            Verdict::Nothing => Ok(Outcome::plain(self.clone())),
            Verdict::Go => {
                let row = ordinary.ok_or(Refusal::NotFound)?.returned(stamp.now_ns);
                Ok(Outcome::auctioned(self.with_ordinary(row)))
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
