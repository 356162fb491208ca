//! Evacuation: a draining cell moves its containers away without a gap in their routes.

use std::sync::Arc;

use super::{Outcome, Slot, Stamp};
use crate::{
    ActualLrp, ActualLrpKey, ActualState, InstanceKey, ModificationTag, Presence, Refusal, Report, UpdateStrategy,
};

/// The answer to an evacuation call. `keep` tells the cell whether its container must stay; it is meaningful with an error too.
#[derive(Clone, Debug)]
pub struct Evacuation {
    pub keep: bool,
    pub result: Result<Outcome, Refusal>,
}

/// What the desired LRP says about moving instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvacuationPolicy {
    pub strategy: UpdateStrategy,
    /// Every desired instance has an ordinary row that runs.
    pub all_running: bool,
}

/// A draining cell's report about one container that runs.
#[derive(Clone, Debug)]
pub struct RunningEvacuation {
    pub key: ActualLrpKey,
    pub by: InstanceKey,
    pub report: Report,
    /// `None` when the desired LRP is gone.
    pub policy: Option<EvacuationPolicy>,
}

impl Evacuation {
    fn done(keep: bool, slot: Slot) -> Self {
        Self { keep, result: Ok(Outcome::plain(slot)) }
    }

    fn refused(keep: bool, refusal: Refusal) -> Self {
        Self { keep, result: Err(refusal) }
    }
}

impl Slot {
    pub fn evacuate_claimed(&self, by: &InstanceKey, stamp: &Stamp) -> Evacuation {
        match self.row_of(by).map(|row| row.presence) {
            None => Evacuation::refused(false, Refusal::NotFound),
            Some(Presence::Ordinary) => match self.unclaim(stamp) {
                Ok(outcome) => Evacuation { keep: false, result: Ok(outcome) },
                Err(refusal) => Evacuation::refused(true, refusal),
            },
            Some(presence) => Evacuation::done(false, self.without(presence)),
        }
    }

    /// Unlike Diego's, this crash is announced and auctioned when it restarts at once, as any other crash.
    pub fn evacuate_crashed(&self, by: &InstanceKey, reason: &str, stamp: &Stamp) -> Evacuation {
        match self.row_of(by).map(|row| row.presence) {
            None => Evacuation::refused(false, Refusal::NotFound),
            Some(Presence::Ordinary) => Evacuation { keep: false, result: self.crash(by, reason, stamp) },
            Some(presence) => Evacuation::done(false, self.without(presence)),
        }
    }

    pub fn evacuate_stopped(&self, by: &InstanceKey) -> Evacuation {
        match self.row_of(by).map(|row| row.presence) {
            None => Evacuation::refused(false, Refusal::NotFound),
            Some(presence) => Evacuation::done(false, self.without(presence)),
        }
    }

    pub fn remove_evacuating(&self, by: &InstanceKey) -> Result<Outcome, Refusal> {
        match &self.evacuating {
            Some(row) if row.is_held_by(by) => Ok(Outcome::plain(self.without(Presence::Evacuating))),
            _ => Err(Refusal::NotFound),
        }
    }

    pub fn evacuate_running(&self, call: RunningEvacuation, stamp: &Stamp) -> Evacuation {
        if self.is_empty() {
            return Evacuation::done(false, self.clone());
        }
        if self.leaving().is_some() && call.policy.is_some() {
            return self.evacuate_during_roll(&call.by, stamp);
        }
        let own = self.row_of(&call.by).cloned();
        let replaced = match (&self.ordinary, &own) {
            (None, _) => true,
            (Some(ordinary), own) => {
                own.as_ref().is_none_or(|own| own.presence != Presence::Ordinary)
                    && matches!(ordinary.state, ActualState::Running | ActualState::Crashed)
            }
        };
        match call.policy {
            Some(policy) if !replaced => match policy.strategy {
                UpdateStrategy::RECREATE => self.evacuate_by_recreating(&call.by, policy, stamp),
                _ => self.evacuate_by_rolling(own.as_deref(), call, stamp),
            },
            _ => Evacuation::done(false, self.without_routes_of(&call.by)),
        }
    }

    /// Two containers of one index, of which one is enough. The one that leaves anyway goes when its successor has proven itself,
    /// as it would on a cell that does not drain; the successor may go at once, since the other serves.
    fn evacuate_during_roll(&self, by: &InstanceKey, stamp: &Stamp) -> Evacuation {
        match self.row_of(by).map(|row| row.presence) {
            Some(Presence::Evacuating) => Evacuation::done(true, self.clone()),
            Some(Presence::Ordinary) => Evacuation { keep: false, result: self.unclaim(stamp) },
            Some(Presence::Suspect) => Evacuation::done(false, self.without(Presence::Suspect)),
            None => Evacuation::done(false, self.clone()),
        }
    }

    /// Drops what only kept this container routable. An ordinary row stays until the cell reports the container gone.
    fn without_routes_of(&self, by: &InstanceKey) -> Slot {
        let mut slot = self.clone();
        for presence in [Presence::Evacuating, Presence::Suspect] {
            if slot.get(presence).is_some_and(|row| row.is_held_by(by)) {
                slot.set(presence, None);
            }
        }
        slot
    }

    /// One instance at a time, stopped before its replacement starts.
    fn evacuate_by_recreating(&self, by: &InstanceKey, policy: EvacuationPolicy, stamp: &Stamp) -> Evacuation {
        match self.row_of(by).map(|row| row.presence) {
            Some(Presence::Ordinary) if policy.all_running => Evacuation { keep: false, result: self.unclaim(stamp) },
            Some(Presence::Ordinary) => Evacuation::done(true, self.clone()),
            _ => Evacuation::done(false, self.without_routes_of(by)),
        }
    }

    /// The container stays routable as the evacuating row while its replacement starts elsewhere.
    fn evacuate_by_rolling(&self, own: Option<&ActualLrp>, call: RunningEvacuation, stamp: &Stamp) -> Evacuation {
        let held_by_another = self.evacuating.as_ref().is_some_and(|row| !row.is_held_by(&call.by));
        match own.map(|row| (row.presence, row)) {
            None if held_by_another => Evacuation::done(false, self.clone()),
            None | Some((Presence::Evacuating, _)) => Evacuation::done(true, self.with_evacuating(call, stamp)),
            Some((Presence::Ordinary, row)) => {
                let moved = self.with_evacuating(call.knowing(row), stamp);
                Evacuation { keep: true, result: moved.unclaim(stamp) }
            }
            Some((Presence::Suspect, row)) => {
                let moved = self.with_evacuating(call.knowing(row), stamp);
                Evacuation::done(true, moved.without(Presence::Suspect))
            }
        }
    }

    fn with_evacuating(&self, call: RunningEvacuation, stamp: &Stamp) -> Slot {
        let tag = match &self.evacuating {
            Some(row) if row.is_held_by(&call.by) && row.says_the_same(&call.report) => return self.clone(),
            Some(row) => row.tag.next(),
            None => ModificationTag::first(stamp.epoch.clone()),
        };
        let row = ActualLrp::running(call.key, call.by, call.report, Presence::Evacuating, tag, stamp.now_ns);
        Slot { evacuating: Some(Arc::new(row)), ..self.clone() }
    }
}

impl RunningEvacuation {
    /// A running row's own data counts. A claimed row has no addresses yet, so the cell's word is taken: an evacuating row
    /// that cannot be routed to would defeat its purpose.
    fn knowing(self, own: &ActualLrp) -> Self {
        match own.state {
            ActualState::Running => Self { report: own.report(), ..self },
            ActualState::Unclaimed | ActualState::Claimed | ActualState::Crashed => self,
        }
    }
}
