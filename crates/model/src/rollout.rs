//! Rollouts: how the instances of a desired LRP get from one definition to another without a gap.
//!
//! One index at a time, or a few: the new instance starts beside the old one, has to run for a while, and only then the old one
//! is stopped. Until then the old one is a row that [leaves](ActualLrp::leaving): it is routed, its cell keeps it, and it can
//! become the instance again at once. A rollout that fails takes itself back in the same way, with the definitions exchanged.
//!
//! [`plan`](plan::plan) decides and changes nothing; [`step`] carries out one decision. Both are pure. Everything that a rollout
//! has to remember is in the record of the desired LRP, so a new master goes on where the last one stopped.

use std::sync::Arc;

use crate::{ActualLrp, Definition, DefinitionNumber, DesiredLrp, NANOS_PER_SECOND, Nanos, Slot, truncate_reason};

pub mod plan;
pub mod step;

/// So many former definitions are kept at most. All of them belong to one record, and a change of one is stored whole.
pub const OLDER_MAX: usize = 10;

/// What a desired LRP remembers about its definitions beyond the two that instances may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// How many definitions there have been, so that no number is used twice.
    pub made: u32,
    /// Former definitions that one can go back to, the latest first; never more than [`OLDER_MAX`].
    pub older: Vec<Arc<Definition>>,
    /// The rollout that is under way, or the last one.
    pub rollout: Option<Rollout>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rollout {
    pub from: DefinitionNumber,
    pub to: DefinitionNumber,
    pub terms: Terms,
    pub started_ns: Nanos,
    pub phase: Phase,
    pub phase_since_ns: Nanos,
    /// How long it was held. Deadlines do not run meanwhile.
    pub held_ns: Nanos,
    /// It takes another rollout back.
    pub reverts: bool,
    /// Why it takes one back, or does not go on.
    pub why: String,
    /// The first instances have proven themselves, and what was to follow them may.
    pub canaries_passed: bool,
    /// The indices that are being replaced. Few: never more than [`Terms::in_flight`].
    pub flights: Vec<Flight>,
}

/// An index on its way to the other definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    pub index: i32,
    pub begun_ns: Nanos,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Rolling,
    /// The canaries run; it waits for the end of the pause, or for somebody to resume it.
    Canary,
    /// Somebody paused it.
    Paused,
    /// It failed and does not take itself back, or could not. Nothing more is begun, and of an index that is on its way both
    /// instances stay, unless the new one proves itself after all.
    Halted,
    Done,
}

impl Phase {
    pub const ALL: [Self; 5] = [Self::Rolling, Self::Canary, Self::Paused, Self::Halted, Self::Done];

    pub fn is_held(self) -> bool {
        matches!(self, Self::Canary | Self::Paused | Self::Halted)
    }
}

/// What may be chosen for a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How many indices are replaced at a time.
    pub in_flight: u32,
    /// How many instances go first, and have to prove themselves before the others follow.
    pub canaries: u32,
    pub canary_pause: Pause,
    /// How long a new instance has to run before the old one is stopped.
    pub healthy_ns: Nanos,
    /// How long an index may take to get there.
    pub instance_deadline_ns: Nanos,
    /// How long all of it may take, pauses not counted.
    pub deadline_ns: Nanos,
    /// Whether a rollout that fails takes itself back.
    pub reverts: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    For(Nanos),
    UntilResumed,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            in_flight: 1,
            canaries: 0,
            canary_pause: Pause::For(0),
            healthy_ns: 10 * NANOS_PER_SECOND,
            instance_deadline_ns: 5 * 60 * NANOS_PER_SECOND,
            deadline_ns: 60 * 60 * NANOS_PER_SECOND,
            reverts: true,
        }
    }
}

impl Rollout {
    pub fn new(from: DefinitionNumber, to: DefinitionNumber, terms: Terms, now_ns: Nanos) -> Self {
        Self {
            from,
            to,
            terms,
            started_ns: now_ns,
            phase: Phase::Rolling,
            phase_since_ns: now_ns,
            held_ns: 0,
            reverts: false,
            why: String::new(),
            canaries_passed: terms.canaries == 0,
            flights: Vec::new(),
        }
    }

    /// The way back. It has canaries behind it and its own deadline, and if it fails it does not turn again.
    fn reversed(&self, why: &str, now_ns: Nanos) -> Self {
        let terms = Terms { canaries: 0, reverts: false, ..self.terms };
        Self { reverts: true, why: truncate_reason(why), ..Self::new(self.to, self.from, terms, now_ns) }
    }

    pub fn is_over(&self) -> bool {
        self.phase == Phase::Done
    }

    fn flight(&self, index: i32) -> Option<Flight> {
        self.flights.iter().copied().find(|flight| flight.index == index)
    }

    #[must_use]
    fn in_phase(&self, phase: Phase, now_ns: Nanos) -> Self {
        let held_ns = if self.phase.is_held() { now_ns.saturating_sub(self.phase_since_ns).max(0) } else { 0 };
        let later = |flight: &Flight| Flight { begun_ns: flight.begun_ns.saturating_add(held_ns), ..*flight };
        Self {
            phase,
            phase_since_ns: now_ns,
            held_ns: self.held_ns.saturating_add(held_ns),
            flights: self.flights.iter().map(later).collect(),
            ..self.clone()
        }
    }

    /// When the new instance of a slot has run for long enough; `None` while it does not run.
    fn proven_ns(&self, slot: &Slot) -> Option<Nanos> {
        let row = slot.ordinary.as_ref().filter(|row| row.definition == self.to && row.runs())?;
        Some(row.since_ns.saturating_add(self.terms.healthy_ns))
    }

    fn due_ns(&self) -> Nanos {
        self.started_ns.saturating_add(self.held_ns).saturating_add(self.terms.deadline_ns)
    }
}

impl DesiredLrp {
    /// The rollout that is under way.
    pub fn rollout(&self) -> Option<&Rollout> {
        self.history.as_ref()?.rollout.as_ref().filter(|rollout| !rollout.is_over())
    }

    /// Indices that nobody wants any more are not on their way anywhere.
    pub(crate) fn ground_beyond(&mut self, instances: i32) {
        let is_surplus = |flight: &Flight| flight.index >= instances;
        if let Some(history) = &mut self.history
            && history.rollout.iter().flat_map(|rollout| &rollout.flights).any(is_surplus)
        {
            let rollout = Arc::make_mut(history).rollout.as_mut();
            rollout.into_iter().for_each(|rollout| rollout.flights.retain(|flight| !is_surplus(flight)));
        }
    }

    /// The record with another rollout, or the same one in another state.
    #[must_use]
    pub fn with_rollout(&self, rollout: Rollout) -> Self {
        let history = self.history.as_deref().cloned().unwrap_or_default();
        Self {
            history: Some(Arc::new(History { rollout: Some(rollout), ..history })),
            tag: self.tag.next(),
            ..self.clone()
        }
    }
}

impl ActualLrp {
    /// Whether it runs, and so can answer.
    fn runs(&self) -> bool {
        self.state == crate::ActualState::Running
    }
}

#[cfg(test)]
mod tests;
