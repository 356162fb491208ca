//! Between the history of a DesiredLRP in the model and its message in the schedule.
//!
//! Promise: to a message and back gives the same history. The definitions that it keeps are records of their own; the
//! message has their numbers, and whoever reads one brings the definitions along.

use std::sync::Arc;

use model::rollout::{Flight, Pause, Phase, Terms};
use model::{Definition, DefinitionNumber, History, Rollout};

use super::convert::{ConvertError, number_of, value_of};
use super::{check, records};

// What the model keeps can always be read again.
const _: () = assert!(model::rollout::OLDER_MAX <= check::OLDER_MAX);

const PHASES: [(u32, Phase); 5] =
    [(1, Phase::Rolling), (2, Phase::Canary), (3, Phase::Paused), (4, Phase::Halted), (5, Phase::Done)];

pub(super) fn history(history: &History) -> records::History {
    records::History {
        made: history.made,
        older: history.older.iter().map(|kept| kept.number.0).collect(),
        rollout: history.rollout.as_ref().map(rollout),
    }
}

/// `older` are the definitions that the message names, in its order.
pub(super) fn model_history(message: records::History, older: Vec<Arc<Definition>>) -> Result<History, ConvertError> {
    Ok(History { made: message.made, older, rollout: message.rollout.map(model_rollout).transpose()? })
}

fn rollout(rollout: &Rollout) -> records::Rollout {
    let flight = |flight: &Flight| records::Flight { index: flight.index, begun_ns: flight.begun_ns };
    records::Rollout {
        from: rollout.from.0,
        to: rollout.to.0,
        terms: Some(terms(&rollout.terms)),
        started_ns: rollout.started_ns,
        phase: number_of(&PHASES, &rollout.phase),
        phase_since_ns: rollout.phase_since_ns,
        held_ns: rollout.held_ns,
        reverts: rollout.reverts,
        why: rollout.why.clone(),
        canaries_passed: rollout.canaries_passed,
        flights: rollout.flights.iter().map(flight).collect(),
    }
}

fn model_rollout(message: records::Rollout) -> Result<Rollout, ConvertError> {
    let flight = |flight: records::Flight| Flight { index: flight.index, begun_ns: flight.begun_ns };
    Ok(Rollout {
        from: DefinitionNumber(message.from),
        to: DefinitionNumber(message.to),
        terms: model_terms(message.terms.ok_or(ConvertError::Missing("terms of the rollout"))?)?,
        started_ns: message.started_ns,
        phase: value_of(&PHASES, message.phase, "phase")?,
        phase_since_ns: message.phase_since_ns,
        held_ns: message.held_ns,
        reverts: message.reverts,
        why: message.why,
        canaries_passed: message.canaries_passed,
        flights: message.flights.into_iter().map(flight).collect(),
    })
}

fn terms(terms: &Terms) -> records::Terms {
    let canary_pause = match terms.canary_pause {
        Pause::For(pause_ns) => records::CanaryPause::ForNs(pause_ns),
        Pause::UntilResumed => records::CanaryPause::UntilResumed(records::Nothing {}),
    };
    records::Terms {
        in_flight: terms.in_flight,
        canaries: terms.canaries,
        canary_pause: Some(canary_pause),
        healthy_ns: terms.healthy_ns,
        instance_deadline_ns: terms.instance_deadline_ns,
        deadline_ns: terms.deadline_ns,
        reverts: terms.reverts,
    }
}

fn model_terms(message: records::Terms) -> Result<Terms, ConvertError> {
    let canary_pause = match message.canary_pause.ok_or(ConvertError::Missing("pause after the canaries"))? {
        records::CanaryPause::ForNs(pause_ns) => Pause::For(pause_ns),
        records::CanaryPause::UntilResumed(_) => Pause::UntilResumed,
    };
    Ok(Terms {
        in_flight: message.in_flight,
        canaries: message.canaries,
        canary_pause,
        healthy_ns: message.healthy_ns,
        instance_deadline_ns: message.instance_deadline_ns,
        deadline_ns: message.deadline_ns,
        reverts: message.reverts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_has_its_number() {
        for phase in Phase::ALL {
            assert_eq!(value_of(&PHASES, number_of(&PHASES, &phase), "phase"), Ok(phase));
        }
        assert_eq!(value_of(&PHASES, 0, "phase"), Err(ConvertError::Unknown { what: "phase", number: 0 }));
    }
}
