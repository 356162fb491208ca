//! Rollouts and their terms.

use model::rollout::{Pause, Phase, Rollout, Terms};

use super::fields::Fields;
use crate::models;

const NANOS_PER_MS: i64 = 1_000_000;
/// In place of the length of a pause that somebody has to end.
const UNTIL_RESUMED_MS: i64 = -1;

pub fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Rolling => "rolling",
        Phase::Canary => "canary",
        Phase::Paused => "paused",
        Phase::Halted => "halted",
        Phase::Done => "done",
    }
}

/// Validated terms; what is absent is as usual.
pub fn terms(wire: models::RolloutTerms) -> Terms {
    let usual = Terms::default();
    let ns = |ms: Option<i64>, usual_ns| ms.map_or(usual_ns, |ms| ms.saturating_mul(NANOS_PER_MS));
    Terms {
        in_flight: wire.in_flight.unwrap_or(usual.in_flight),
        canaries: wire.canaries.unwrap_or(usual.canaries),
        canary_pause: match wire.canary_pause_ms {
            None => usual.canary_pause,
            Some(UNTIL_RESUMED_MS) => Pause::UntilResumed,
            Some(ms) => Pause::For(ms.saturating_mul(NANOS_PER_MS)),
        },
        healthy_ns: ns(wire.healthy_ms, usual.healthy_ns),
        instance_deadline_ns: ns(wire.instance_deadline_ms, usual.instance_deadline_ns),
        deadline_ns: ns(wire.deadline_ms, usual.deadline_ns),
        reverts: wire.revert.unwrap_or(usual.reverts),
    }
}

fn wire_terms(terms: &Terms) -> models::RolloutTerms {
    models::RolloutTerms {
        in_flight: Some(terms.in_flight),
        canaries: Some(terms.canaries),
        canary_pause_ms: Some(match terms.canary_pause {
            Pause::UntilResumed => UNTIL_RESUMED_MS,
            Pause::For(ns) => ns / NANOS_PER_MS,
        }),
        healthy_ms: Some(terms.healthy_ns / NANOS_PER_MS),
        instance_deadline_ms: Some(terms.instance_deadline_ns / NANOS_PER_MS),
        deadline_ms: Some(terms.deadline_ns / NANOS_PER_MS),
        revert: Some(terms.reverts),
    }
}

pub fn wire_rollout(rollout: &Rollout) -> models::Rollout {
    models::Rollout {
        phase: phase_name(rollout.phase).to_owned(),
        reverts: rollout.reverts,
        from_definition: rollout.from.0,
        to_definition: rollout.to.0,
        started_at: rollout.started_ns,
        phase_since: rollout.phase_since_ns,
        why: rollout.why.clone(),
        in_flight: rollout.flights.iter().map(|flight| flight.index).collect(),
        terms: Some(wire_terms(&rollout.terms)),
    }
}

/// Few records have one, so it is built as a message.
pub(super) fn put(rollout: &Rollout, part: &mut Fields<'_>) {
    part.message(&wire_rollout(rollout));
}
