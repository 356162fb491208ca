//! How long calls took: a histogram per worker, merged at the end, so that recording takes no lock.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Three digits: 82.3 ms is told from 82.4 ms, and the histogram stays in the cache.
const SIGNIFICANT_DIGITS: u8 = 3;

#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

/// Percentiles in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub count: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl Latencies {
    pub fn record(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // The histogram grows by itself; only a value that no clock can give does not fit.
        if self.0.record(nanos).is_err() {
            self.0.saturating_record(nanos);
        }
    }

    pub fn merge(&mut self, other: &Latencies) {
        if self.0.add(&other.0).is_err() {
            unreachable!("a histogram that grows takes every value of another one");
        }
    }

    pub fn summary(&self) -> Summary {
        let ms = |nanos: u64| nanos as f64 / 1e6;
        Summary {
            count: self.0.len(),
            p50_ms: ms(self.0.value_at_quantile(0.5)),
            p99_ms: ms(self.0.value_at_quantile(0.99)),
            max_ms: ms(self.0.max()),
        }
    }
}

impl Default for Latencies {
    fn default() -> Self {
        let mut histogram = Histogram::new(SIGNIFICANT_DIGITS).unwrap_or_else(|_| unreachable!("3 digits are allowed"));
        histogram.auto(true);
        Self(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_all_workers_together() {
        let (mut fast, mut slow) = (Latencies::default(), Latencies::default());
        for _ in 0..98 {
            fast.record(Duration::from_millis(1));
        }
        slow.record(Duration::from_millis(50));
        slow.record(Duration::from_millis(400));
        fast.merge(&slow);
        let summary = fast.summary();
        assert_eq!(summary.count, 100);
        assert!((summary.p50_ms - 1.0).abs() < 0.01, "{summary:?}");
        assert!((summary.p99_ms - 50.0).abs() < 0.1, "{summary:?}");
        assert!((summary.max_ms - 400.0).abs() < 1.0, "{summary:?}");
    }

    #[test]
    fn nothing_measured_is_zero_and_a_long_call_is_kept() {
        assert_eq!(Latencies::default().summary(), Summary::default());
        let mut long = Latencies::default();
        long.record(Duration::from_secs(3_600));
        assert!(long.summary().max_ms > 3_500_000.0);
    }
}
