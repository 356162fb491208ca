//! A client that knows all nodes and wants to write, whichever of them is master.
//!
//! It stays with the node that took its last write and writes to it at a fixed pace. When a write fails it tries the next
//! node at once; when all have failed it rests a little and begins again. What it writes may be repeated without harm.

use std::sync::Arc;
use std::time::Duration;

use api::Route;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::connection::{Connection, Target};
use crate::fleet;
use crate::stopwatch::Stopwatch;

/// Between two writes that succeed.
pub(super) const PACE: Duration = Duration::from_millis(20);
/// After every node has refused.
pub(super) const PAUSE: Duration = Duration::from_millis(50);
/// A node that takes longer for an answer is given up.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(5);
const PROBE_TTL_S: u32 = 3_600;

/// A write that succeeded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Success {
    pub(super) at_s: f64,
    pub(super) node: usize,
}

pub(super) struct Probe {
    targets: Arc<[Target]>,
    node: usize,
    connection: Option<Connection>,
    successes: Vec<Success>,
}

impl Probe {
    pub(super) fn new(targets: Arc<[Target]>, node: usize) -> Self {
        Self { targets, node, connection: None, successes: Vec::new() }
    }

    /// Writes until told to stop, and tells of every success. Times are those of `watch`.
    pub(super) async fn run(
        mut self,
        watch: Stopwatch,
        told: watch::Sender<Option<Success>>,
        stop: watch::Receiver<bool>,
    ) -> Vec<Success> {
        let mut refusals = 0;
        while !*stop.borrow() {
            if self.write().await {
                refusals = 0;
                let success = Success { at_s: watch.seconds(), node: self.node };
                self.successes.push(success);
                told.send_replace(Some(success));
                sleep(PACE).await;
                continue;
            }
            refusals += 1;
            self.connection = None;
            self.node = (self.node + 1) % self.targets.len();
            if refusals % self.targets.len() == 0 {
                sleep(PAUSE).await;
            }
        }
        self.successes
    }

    async fn write(&mut self) -> bool {
        let Self { targets, node, connection, .. } = self;
        let writing = async {
            if connection.is_none() {
                *connection = Some(targets[*node].connect().await.ok()?);
            }
            let body = fleet::refresh_probe_domain(PROBE_TTL_S);
            connection.as_mut()?.call(Route::UpsertDomain, body).await.ok()
        };
        timeout(ANSWER_MAX, writing).await.ok().flatten().is_some()
    }
}

/// What one client saw of a change of masters: when it first wrote to another node than `former` after `since_s`, and the
/// longest time between two of its writes.
pub(super) fn seen(successes: &[Success], former: usize, since_s: f64) -> Option<(f64, f64)> {
    let first = successes.iter().find(|success| success.at_s > since_s && success.node != former)?;
    let gaps = successes.windows(2).map(|pair| pair[1].at_s - pair[0].at_s);
    Some((first.at_s - since_s, gaps.fold(0.0, f64::max)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_between_two_successes_and_the_first_write_is_at_another_node() {
        let at = |at_s: f64, node| Success { at_s, node };
        let successes = [at(1.0, 0), at(2.0, 0), at(2.5, 0), at(3.5, 1), at(3.75, 1)];
        assert_eq!(seen(&successes, 0, 2.25), Some((1.25, 1.0)));
        assert_eq!(seen(&successes[..3], 0, 2.25), None, "nobody else took a write");
        assert_eq!(seen(&successes, 1, 0.5), Some((0.5, 1.0)));
    }
}
