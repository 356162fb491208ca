//! How long nobody answers: a call that is made again and again, and the moments at which it succeeded.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Between the end of a call and the next one.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Probe {
    successes: Arc<Mutex<Vec<Instant>>>,
    going: JoinHandle<()>,
}

impl Probe {
    /// `call` makes one call and says whether it succeeded; it limits its own time.
    pub(crate) fn start<F>(mut call: impl FnMut() -> F + Send + 'static) -> Self
    where
        F: Future<Output = bool> + Send + 'static,
    {
        let successes: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let noted = successes.clone();
        let going = tokio::spawn(async move {
            loop {
                if call().await {
                    noted.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        Self { successes, going }
    }

    /// The longest time between two successes, of which a part falls into this time.
    pub(crate) fn longest_gap(&self, from: Instant, to: Instant) -> Duration {
        longest_gap(&self.successes.lock().unwrap_or_else(PoisonError::into_inner), from, to)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.going.abort();
    }
}

/// Time that has not ended in a success counts up to the end.
fn longest_gap(successes: &[Instant], from: Instant, to: Instant) -> Duration {
    let before = successes.iter().rev().find(|at| **at <= from).copied().unwrap_or(from);
    let after = successes.iter().find(|at| **at >= to).copied().unwrap_or(to);
    let within = successes.iter().copied().filter(|at| *at > from && *at < to);
    let moments: Vec<_> = std::iter::once(before).chain(within).chain([after]).collect();
    moments.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_for_every_time_that_it_touches() {
        let zero = Instant::now();
        let at = |seconds: u64| zero + Duration::from_secs(seconds);
        let successes = [at(1), at(2), at(7), at(8)];
        for (from, to, expected) in [(0, 2, 1), (2, 3, 5), (3, 5, 5), (1, 8, 5), (7, 8, 1), (8, 20, 12)] {
            assert_eq!(longest_gap(&successes, at(from), at(to)).as_secs(), expected, "{from}..{to}");
        }
        assert_eq!(longest_gap(&[], at(3), at(5)).as_secs(), 2);
    }
}
