//! Carries out one decision of a rollout, and what operators ask of one.
//!
//! Promise: a decision that was overtaken by events changes nothing. What a decision changes, the record and the rows of one
//! index, belongs together: either all of it is stored or nothing.

use std::sync::Arc;

use super::plan::Decision;
use super::{Flight, History, OLDER_MAX, Phase, Rollout, Terms};
use crate::slot::{Outcome, Stamp};
use crate::{ActualLrp, ActualState, Definition, DesiredLrp, InstanceKey, Nanos, Refusal, Slot};

/// What follows from a decision.
#[derive(Clone, Debug)]
pub struct Change {
    pub desired: DesiredLrp,
    pub slot: Option<(i32, Outcome)>,
    /// Containers whose cells have to be asked to stop them.
    pub stops: Vec<InstanceKey>,
}

impl Change {
    fn of(desired: DesiredLrp) -> Self {
        Self { desired, slot: None, stops: Vec::new() }
    }
}

/// `slot` is that of the index which the decision names; `keep` is how many former definitions one can go back to,
/// [`OLDER_MAX`] at most.
pub fn carry_out(desired: &DesiredLrp, slot: &Slot, decision: &Decision, keep: usize, stamp: &Stamp) -> Option<Change> {
    let now_ns = stamp.now_ns;
    if *decision == Decision::Adopt {
        return adopted(desired, now_ns).map(Change::of);
    }
    let rollout = desired.rollout()?;
    let in_phase = |phase| Change::of(desired.with_rollout(rollout.in_phase(phase, now_ns)));
    // What somebody has turned or paused since has not failed.
    let is_going_to = |to| rollout.to == to && matches!(rollout.phase, Phase::Rolling | Phase::Canary);
    match decision {
        Decision::Adopt => None,
        Decision::Begin { index, saw } => {
            let is_wanted = rollout.phase == Phase::Rolling && *index < desired.instances;
            slot.ordinary.as_ref().filter(|row| row.tag == *saw && is_wanted)?;
            let (free, given_up) = slot.given_up();
            let outcome = free.begin_roll(rollout.to, stamp)?;
            let mut next = rollout.without_flight(*index);
            // A flight that was to end before this one began may not have ended.
            (next.flights.len() < rollout.terms.in_flight.max(1) as usize).then_some(())?;
            // Whoever begins again has no more time than before.
            let begun_ns = rollout.flight(*index).map_or(now_ns, |flight| flight.begun_ns);
            next.flights.push(Flight { index: *index, begun_ns });
            let begun = Change::of(desired.with_rollout(next));
            Some(Change { slot: Some((*index, outcome)), stops: given_up.into_iter().collect(), ..begun })
        }
        Decision::Finish { index, leaves } => {
            rollout.flight(*index)?;
            rollout.proven_ns(slot).filter(|proven_ns| *proven_ns <= now_ns)?;
            let landed = Change::of(desired.with_rollout(rollout.without_flight(*index)));
            let Some(leaves) = leaves else { return slot.leaving().is_none().then_some(landed) };
            let outcome = slot.let_leave(leaves)?;
            Some(Change { slot: Some((*index, outcome)), stops: vec![leaves.clone()], ..landed })
        }
        Decision::TakeBack { index, stays } => {
            let outcome = slot.take_back(stays)?;
            let successors = [&slot.ordinary, &slot.suspect].into_iter().flatten();
            let stops = successors.filter_map(|row| row.instance.clone()).collect();
            let next = desired.with_rollout(rollout.without_flight(*index));
            Some(Change { slot: Some((*index, outcome)), stops, ..Change::of(next) })
        }
        Decision::Rest => {
            let is_due = rollout.phase == Phase::Rolling && !rollout.canaries_passed && rollout.flights.is_empty();
            is_due.then(|| in_phase(Phase::Canary))
        }
        Decision::GoOn => {
            let next = Rollout { canaries_passed: true, ..rollout.in_phase(Phase::Rolling, now_ns) };
            (rollout.phase == Phase::Canary).then(|| Change::of(desired.with_rollout(next)))
        }
        Decision::Turn { to, why } => {
            is_going_to(*to).then(|| desired.turned(rollout, why, now_ns)).flatten().map(Change::of)
        }
        Decision::Halt { to, why } => {
            let why = match &rollout.why {
                before if before.is_empty() => why.clone(),
                before => format!("{before}; taking it back: {why}"),
            };
            let next = Rollout { why: crate::truncate_reason(&why), ..rollout.in_phase(Phase::Halted, now_ns) };
            is_going_to(*to).then(|| Change::of(desired.with_rollout(next)))
        }
        Decision::Complete { to } => (rollout.to == *to).then(|| Change::of(desired.completed(rollout, keep, now_ns))),
    }
}

/// A record of a release that knew two definitions but no rollouts.
fn adopted(desired: &DesiredLrp, now_ns: Nanos) -> Option<DesiredLrp> {
    let previous = desired.previous.as_ref().filter(|_| desired.rollout().is_none())?;
    let mut history = desired.history.as_deref().cloned().unwrap_or_default();
    history.made = history.made.max(desired.definition.0).max(previous.number.0);
    let rollout = Rollout::new(previous.number, desired.definition, Terms::default(), now_ns);
    Some(DesiredLrp { history: Some(Arc::new(history)), ..desired.clone() }.with_rollout(rollout))
}

impl Slot {
    /// The slot without the container that is being started there, and that container.
    fn given_up(&self) -> (Self, Option<InstanceKey>) {
        match self.ordinary.as_deref().filter(|row| row.state == ActualState::Claimed) {
            Some(row) => {
                let free = ActualLrp { state: ActualState::Unclaimed, instance: None, ..row.clone() };
                (Self { ordinary: Some(Arc::new(free)), ..self.clone() }, row.instance.clone())
            }
            None => (self.clone(), None),
        }
    }
}

impl Rollout {
    #[must_use]
    fn without_flight(&self, index: i32) -> Self {
        let flights = self.flights.iter().copied().filter(|flight| flight.index != index).collect();
        Self { flights, ..self.clone() }
    }
}

/// What operators and clients may ask.
impl DesiredLrp {
    /// Takes the rollout back that is under way. One that takes another back goes on, unless it stands still: then somebody has to
    /// say which of the two definitions it shall be.
    pub fn cancelled(&self, now_ns: Nanos) -> Result<Self, Refusal> {
        let rollout = self.under_way()?;
        let turned = self.turned(rollout, "cancelled", now_ns);
        turned.ok_or_else(|| Refusal::RollingBack { process_guid: self.process_guid.clone() })
    }

    pub fn paused(&self, now_ns: Nanos) -> Result<Self, Refusal> {
        let rollout = self.under_way()?;
        if rollout.phase == Phase::Halted {
            return Ok(self.clone());
        }
        let mut next = rollout.in_phase(Phase::Paused, now_ns);
        // Whoever holds it here goes on from here.
        next.canaries_passed |= rollout.phase == Phase::Canary;
        Ok(self.with_rollout(next))
    }

    /// Goes on after a pause, after the canaries, or after a failure.
    pub fn resumed(&self, now_ns: Nanos) -> Result<Self, Refusal> {
        let rollout = self.under_way()?;
        let mut next = rollout.in_phase(Phase::Rolling, now_ns);
        next.canaries_passed |= rollout.phase == Phase::Canary;
        if rollout.phase == Phase::Halted {
            // Somebody looked at it and wants another try; all of its time begins again.
            next.started_ns = now_ns;
            next.held_ns = 0;
            next.flights.iter_mut().for_each(|flight| flight.begun_ns = now_ns);
        }
        Ok(self.with_rollout(next))
    }

    /// Goes to a former definition that is still kept; without a name, to the latest.
    pub fn rolled_back(&self, to: Option<&str>, terms: Terms, now_ns: Nanos) -> Result<Self, Refusal> {
        self.refuse_while_rolling()?;
        let older = self.history.as_ref().map_or(&[][..], |history| &history.older);
        let named = |kept: &&Arc<Definition>| to.is_none_or(|identifier| kept.identifier == identifier);
        let unknown = || Refusal::NoSuchDefinition {
            process_guid: self.process_guid.clone(),
            wanted: to.map(str::to_owned),
            kept: older.iter().map(|kept| kept.identifier.clone()).collect(),
        };
        let definition = older.iter().find(named).ok_or_else(unknown)?;
        if self.present_definition().is_the_same(definition) {
            return Err(Refusal::Unchanged { identifier: definition.identifier.clone() });
        }
        Ok(self.going_to(definition, terms, now_ns))
    }

    fn under_way(&self) -> Result<&Rollout, Refusal> {
        self.rollout().ok_or_else(|| Refusal::NoRollout { process_guid: self.process_guid.clone() })
    }

    /// New instances get `definition`, and those that run are brought to it.
    pub(crate) fn going_to(&self, definition: &Definition, terms: Terms, now_ns: Nanos) -> Self {
        let rollout = Rollout::new(self.definition, definition.number, terms, now_ns);
        let next = self.using(definition);
        let mut history = next.history.as_deref().cloned().unwrap_or_default();
        history.made = history.made.max(self.definition.0).max(definition.number.0);
        history.older.retain(|kept| kept.number != definition.number);
        Self { history: Some(Arc::new(history)), ..next }.with_rollout(rollout)
    }

    /// The definition in use and the one before change places.
    fn turned(&self, rollout: &Rollout, why: &str, now_ns: Nanos) -> Option<Self> {
        let back_to = self.previous.clone().filter(|_| !rollout.reverts || rollout.phase == Phase::Halted)?;
        Some(self.using(&back_to).with_rollout(rollout.reversed(why, now_ns)))
    }

    pub(crate) fn using(&self, definition: &Definition) -> Self {
        let mut present = self.present_definition();
        present.routes = definition.routes.as_ref().map(|_| self.routes.clone());
        Self {
            routes: definition.routes.clone().unwrap_or_else(|| self.routes.clone()),
            resources: definition.resources.clone(),
            placement_tags: definition.placement_tags.clone(),
            volume_drivers: definition.volume_drivers.clone(),
            log_guid: definition.log_guid.clone(),
            metrics_guid: definition.metrics_guid.clone(),
            run_info: definition.run_info.clone(),
            definition: definition.number,
            definition_identifier: definition.identifier.clone(),
            previous: Some(Arc::new(present)),
            ..self.clone()
        }
    }

    fn completed(&self, rollout: &Rollout, keep: usize, now_ns: Nanos) -> Self {
        let mut history = self.history.as_deref().cloned().unwrap_or_default();
        history.older.splice(0..0, self.previous.clone());
        history.older.truncate(keep.min(OLDER_MAX));
        let rollout = Rollout { flights: Vec::new(), ..rollout.in_phase(Phase::Done, now_ns) };
        let history = History { rollout: Some(rollout), ..history };
        Self { previous: None, history: Some(Arc::new(history)), tag: self.tag.next(), ..self.clone() }
    }
}
