//! How long to wait before something is tried once more: twice as long as before, up to a limit, and never in step.
//!
//! A pause is shortened by up to a quarter, by a number drawn from what waits and which round it is. So things that failed
//! together do not come back together, and a run can be replayed: no randomness is needed for it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use model::Nanos;

/// The last doubling; any limit is reached long before.
const DOUBLINGS_MAX: u32 = 20;
/// The finest share of a pause by which it is shortened.
const SHARES: u64 = 1024;

/// Pauses that grow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    pub(super) first: Duration,
    pub(super) max: Duration,
}

impl Pauses {
    /// The pause after this many rounds; the first round is 1.
    pub(super) fn after(self, rounds: u32, who: impl Hash) -> Nanos {
        let doubled = self.first.saturating_mul(1 << rounds.saturating_sub(1).min(DOUBLINGS_MAX));
        let full_ns = nanos(doubled.min(self.max));
        let mut hasher = DefaultHasher::new();
        (who, rounds).hash(&mut hasher);
        let share = (hasher.finish() % SHARES).cast_signed();
        full_ns - full_ns / 4 / SHARES.cast_signed() * share
    }
}

pub(super) fn nanos(duration: Duration) -> Nanos {
    Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use model::NANOS_PER_SECOND;
    use proptest::prelude::*;

    use super::*;

    const PAUSES: Pauses = Pauses { first: Duration::from_secs(1), max: Duration::from_secs(300) };

    proptest! {
        #[test]
        fn pauses_grow_until_the_limit_and_stay_within_it(who in ".{0,20}", rounds in 1..10_000_u32) {
            let (before, after) = (PAUSES.after(rounds, &who), PAUSES.after(rounds + 1, &who));
            prop_assert!(before >= NANOS_PER_SECOND * 3 / 4 && after <= 300 * NANOS_PER_SECOND);
            prop_assert!(rounds >= 9 || after > before, "round {rounds}: {before} then {after}");
            prop_assert!(rounds < 9 || after >= 225 * NANOS_PER_SECOND);
        }
    }

    #[test]
    fn what_failed_together_does_not_come_back_together() {
        let pauses: std::collections::BTreeSet<_> = (0..100).map(|who| PAUSES.after(9, who)).collect();
        assert!(pauses.len() > 90, "{} different pauses for 100 tasks", pauses.len());
    }
}
