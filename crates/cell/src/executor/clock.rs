//! The one place of the executor where the time of day is read.
//!
//! It stamps log lines and records, and tells how long something went on before the cell started again. What only waits uses
//! tokio's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use model::Nanos;

pub(crate) fn wall_ns() -> Nanos {
    #[expect(clippy::disallowed_methods, reason = "the one place where the executor reads the time of day")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0, |since| Nanos::try_from(since.as_nanos()).unwrap_or(Nanos::MAX))
}
