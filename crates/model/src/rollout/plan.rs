//! What a rollout does next.
//!
//! A pure function of the record, the rows and the time. It names every decision together with what it saw, so that one which
//! was overtaken does nothing, and it says when to look again if nothing happens until then. It never asks for more than one
//! thing about the same index.
//!
//! Promise: no decision takes away the last instance of an index that runs.

use super::{Flight, Pause, Phase, Rollout};
use crate::{ActualLrp, ActualState, DefinitionNumber, DesiredLrp, InstanceKey, ModificationTag, Nanos, Slot};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Instances have two definitions, and nobody has begun to replace them: begin with what is usual.
    Adopt,
    /// Start an instance of the other definition at this index.
    Begin {
        index: i32,
        saw: ModificationTag,
    },
    /// The new instance of this index has proven itself; the old one goes, if there still is one.
    Finish {
        index: i32,
        leaves: Option<InstanceKey>,
    },
    /// The instance that was about to leave has the definition that is wanted now: it stays, and its successor goes.
    TakeBack {
        index: i32,
        stays: InstanceKey,
    },
    /// The canaries have proven themselves: wait.
    Rest,
    GoOn,
    /// Take the rollout back that goes to this definition.
    Turn {
        to: DefinitionNumber,
        why: String,
    },
    Halt {
        to: DefinitionNumber,
        why: String,
    },
    /// Nothing is left to do: no row has another definition than this one.
    Complete {
        to: DefinitionNumber,
    },
}

impl Decision {
    /// The index that it is about, if it is about one.
    pub fn index(&self) -> Option<i32> {
        match self {
            Self::Begin { index, .. } | Self::Finish { index, .. } | Self::TakeBack { index, .. } => Some(*index),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub decisions: Vec<Decision>,
    /// When to look again if nothing happens before.
    pub look_ns: Option<Nanos>,
}

/// `slots` are those of the process, in the order of their indices.
pub fn plan(desired: &DesiredLrp, slots: &[(i32, &Slot)], now_ns: Nanos) -> Plan {
    let Some(rollout) = desired.rollout() else {
        let decisions = desired.previous.iter().map(|_| Decision::Adopt).collect();
        return Plan { decisions, look_ns: None };
    };
    let mut view = View { desired, rollout, slots, now_ns, plan: Plan::default() };
    view.look();
    view.plan
}

struct View<'a> {
    desired: &'a DesiredLrp,
    rollout: &'a Rollout,
    slots: &'a [(i32, &'a Slot)],
    now_ns: Nanos,
    plan: Plan,
}

impl View<'_> {
    fn look(&mut self) {
        let rollout = self.rollout;
        let to = rollout.to;
        if self.is_complete() {
            return self.decide(Decision::Complete { to });
        }
        if let Some(why) = self.failure() {
            return self.decide(match rollout.terms.reverts && !rollout.reverts {
                true => Decision::Turn { to, why },
                false => Decision::Halt { to, why },
            });
        }
        self.take_back();
        let finished = self.finish();
        match self.rollout.phase {
            Phase::Rolling => self.begin(finished),
            Phase::Canary => self.end_of_pause(),
            Phase::Paused | Phase::Halted | Phase::Done => {}
        }
    }

    fn decide(&mut self, decision: Decision) {
        self.plan.decisions.push(decision);
    }

    fn look_at(&mut self, at_ns: Nanos) {
        let earlier = self.plan.look_ns.is_none_or(|known| at_ns < known);
        if earlier {
            self.plan.look_ns = Some(at_ns);
        }
    }

    fn wanted(&self) -> impl Iterator<Item = (i32, &Slot)> {
        self.slots.iter().copied().filter(|(index, _)| (0..self.desired.instances).contains(index))
    }

    /// When an index that is not on its way has reached the definition: its instance has it, and has proven itself.
    fn landed_ns(&self, index: i32, slot: &Slot) -> Option<Nanos> {
        self.rollout.proven_ns(slot).filter(|_| self.rollout.flight(index).is_none())
    }

    fn is_new(&self, row: &ActualLrp) -> bool {
        row.definition == self.rollout.to
    }

    /// Rows of indices that nobody wants any more count too: the former definition is needed as long as one of them has it.
    fn is_complete(&self) -> bool {
        self.slots.iter().all(|(_, slot)| slot.rows().all(|row| self.is_new(row) && !row.leaving))
            && self.rollout.flights.is_empty()
    }

    /// Why it must not go on. While it is held, time does not run and nothing fails but a canary that crashes.
    fn failure(&mut self) -> Option<String> {
        let Rollout { phase, terms, .. } = *self.rollout;
        if matches!(phase, Phase::Paused | Phase::Halted) {
            return None;
        }
        for (index, slot) in self.wanted() {
            let Some(row) = slot.ordinary.as_ref().filter(|row| self.is_new(row)) else { continue };
            let watched = phase == Phase::Canary || self.rollout.flight(index).is_some();
            let crashed_now = row.state == ActualState::Crashed && row.since_ns >= self.rollout.phase_since_ns;
            if watched && crashed_now {
                let (count, reason) = (row.crash_count, &row.crash_reason);
                return Some(format!("instance {index} crashed {count} times: {reason}"));
            }
        }
        if phase == Phase::Canary {
            return None;
        }
        let late = |flight: &&Flight| {
            flight.begun_ns.saturating_add(terms.instance_deadline_ns) <= self.now_ns && !self.is_proven(flight.index)
        };
        if let Some(flight) = self.rollout.flights.iter().find(late) {
            return Some(self.lateness(flight.index));
        }
        if self.rollout.due_ns() <= self.now_ns {
            return Some("it took longer than its deadline".to_owned());
        }
        let next = self.rollout.flights.iter().map(|flight| flight.begun_ns.saturating_add(terms.instance_deadline_ns));
        let next = next.min().map_or(self.rollout.due_ns(), |next| next.min(self.rollout.due_ns()));
        self.look_at(next);
        None
    }

    fn is_proven(&self, index: i32) -> bool {
        let slot = self.slots.iter().find(|(at, _)| *at == index).map(|(_, slot)| *slot);
        slot.and_then(|slot| self.rollout.proven_ns(slot)).is_some_and(|proven_ns| proven_ns <= self.now_ns)
    }

    fn lateness(&self, index: i32) -> String {
        let row = self.wanted().find(|(at, _)| *at == index).and_then(|(_, slot)| slot.ordinary.clone());
        let what = match row.as_deref() {
            Some(row) if !row.placement_error.is_empty() => format!("no cell takes it: {}", row.placement_error),
            Some(row) if row.runs() => "it does not stay healthy".to_owned(),
            Some(row) if row.crash_count > 0 => format!("it crashed: {}", row.crash_reason),
            Some(row) => format!("it is {}", row.state),
            None => "it is not there".to_owned(),
        };
        format!("instance {index} was not healthy in time; {what}")
    }

    /// Who leaves but has what is wanted stays: nothing has to be started for that.
    fn take_back(&mut self) {
        let stays: Vec<Decision> = self
            .slots
            .iter()
            .filter_map(|(index, slot)| {
                let row = slot.evacuating.as_ref().filter(|row| row.leaving && self.is_new(row))?;
                let is_taken = slot.ordinary.as_ref().is_some_and(|ordinary| self.is_new(ordinary));
                let stays = row.instance.clone().filter(|_| !is_taken)?;
                Some(Decision::TakeBack { index: *index, stays })
            })
            .collect();
        self.plan.decisions.extend(stays);
    }

    /// Returns how many flights end.
    fn finish(&mut self) -> usize {
        let mut finished = Vec::new();
        let mut looks = Vec::new();
        for flight in &self.rollout.flights {
            let Some((_, slot)) = self.slots.iter().find(|(index, _)| *index == flight.index) else { continue };
            let Some(proven_ns) = self.rollout.proven_ns(slot) else { continue };
            if proven_ns > self.now_ns {
                looks.push(proven_ns);
                continue;
            }
            let leaves = slot.evacuating.as_ref().filter(|row| row.leaving).and_then(|row| row.instance.clone());
            finished.push(Decision::Finish { index: flight.index, leaves });
        }
        looks.into_iter().for_each(|at_ns| self.look_at(at_ns));
        let count = finished.len();
        self.plan.decisions.extend(finished);
        count
    }

    fn begin(&mut self, finished: usize) {
        let Rollout { terms, canaries_passed, ref flights, .. } = *self.rollout;
        let flying = flights.len() - finished;
        let mut room = (terms.in_flight.max(1) as usize).saturating_sub(flying);
        if !canaries_passed {
            let (past, later): (Vec<Nanos>, Vec<Nanos>) = self
                .wanted()
                .filter_map(|(index, slot)| self.landed_ns(index, slot))
                .partition(|landed_ns| *landed_ns <= self.now_ns);
            let (landed, landing) = (past.len() + finished, later.len());
            later.into_iter().for_each(|landed_ns| self.look_at(landed_ns));
            if landed >= terms.canaries as usize && flying == 0 {
                return self.decide(Decision::Rest);
            }
            room = room.min((terms.canaries as usize).saturating_sub(landed + landing + flying));
        }
        let given_up = self.wanted().filter_map(|(_, slot)| self.given_up_ns(slot));
        let later: Vec<Nanos> = given_up.filter(|at_ns| *at_ns > self.now_ns).collect();
        later.into_iter().for_each(|at_ns| self.look_at(at_ns));
        let is_given_up = |slot: &Slot| self.given_up_ns(slot).is_some_and(|at_ns| at_ns <= self.now_ns);
        let mut begun = Vec::new();
        for (index, slot) in self.wanted().filter(|(_, slot)| slot.can_begin(self.rollout.to) || is_given_up(slot)) {
            // An index that is on its way has its place: what it began went astray, and it begins again.
            if self.rollout.flight(index).is_none() {
                if room == 0 {
                    continue;
                }
                room -= 1;
            }
            begun.extend(slot.ordinary.as_ref().map(|row| Decision::Begin { index, saw: row.tag.clone() }));
        }
        self.plan.decisions.extend(begun);
    }

    /// When an instance of the former definition that is being started is not waited for any longer. It may never run.
    fn given_up_ns(&self, slot: &Slot) -> Option<Nanos> {
        let row = slot.ordinary.as_ref().filter(|row| !self.is_new(row) && row.state == ActualState::Claimed)?;
        let is_alone = slot.evacuating.is_none() && slot.suspect.is_none();
        is_alone.then(|| row.since_ns.saturating_add(self.rollout.terms.instance_deadline_ns))
    }

    fn end_of_pause(&mut self) {
        if let Pause::For(pause_ns) = self.rollout.terms.canary_pause {
            let end_ns = self.rollout.phase_since_ns.saturating_add(pause_ns);
            if end_ns <= self.now_ns { self.decide(Decision::GoOn) } else { self.look_at(end_ns) }
        }
    }
}
