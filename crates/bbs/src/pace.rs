//! How fast a sweep may go: small batches and pauses while clients are served, as much as the machine gives while nobody is.
//!
//! Migrations and key rotations share it, so that an operator who limits one finds the same rules in the other.

use std::time::Duration;

use tokio::time::Instant;

/// The longest pause between two batches.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// Clients have the store to themselves for this part of the time that a batch took.
const PAUSE_DIVISOR: u32 = 2;
/// At a configured pace there are at least this many batches in a second.
const BATCHES_PER_S_MIN: u64 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) entries: usize,
    pub(crate) in_flight: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Whether clients are served meanwhile.
    pub(crate) beside_clients: bool,
    /// 0 leaves it to the automatic throttle.
    pub(crate) records_per_s_max: u64,
}

impl Pace {
    /// A slow pace is kept by small batches, not by long pauses in which nobody is heard.
    pub(crate) fn batch(self, usual: Batch) -> Batch {
        if self.records_per_s_max == 0 {
            return usual;
        }
        let most = usize::try_from(self.records_per_s_max / BATCHES_PER_S_MIN).unwrap_or(usize::MAX).max(1);
        Batch { entries: usual.entries.min(most), in_flight: 1 }
    }

    /// Leaves clients a share of the store, and keeps the configured pace.
    pub(crate) async fn pause(self, begun: Instant, records: u64) {
        let took = begun.elapsed();
        let fair = if self.beside_clients { (took / PAUSE_DIVISOR).min(PAUSE_MAX) } else { Duration::ZERO };
        let pace = match self.records_per_s_max {
            0 => Duration::ZERO,
            most => Duration::from_secs_f64(records as f64 / most as f64).saturating_sub(took),
        };
        let pause = fair.max(pace);
        if pause > Duration::ZERO {
            tokio::time::sleep(pause).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configured_pace_makes_batches_small() {
        let usual = Batch { entries: 128, in_flight: 4 };
        let check = |records_per_s_max, entries, in_flight| {
            let pace = Pace { beside_clients: true, records_per_s_max };
            assert_eq!(pace.batch(usual), Batch { entries, in_flight }, "{records_per_s_max}");
        };
        check(0, 128, 4);
        check(1, 1, 1);
        check(500, 50, 1);
        check(1_000_000, 128, 1);
    }
}
