//! A steady load that goes on while something happens to the server, and tells apart what was before, during and after it.
//!
//! Some clients crash, claim and start instances at a fixed pace, and one reads the list of a cell at a fixed pace. A call
//! that is due while the one before it still waits is made as soon as that has ended, and its latency counts from when it
//! was due: a stall is seen by all the calls that it held up, not by one. A cycle that was begun is finished, so that all
//! instances run when the load has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use api::Route;
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;

use super::cycle::Stop;
use super::worker::{Worker, gather};
use super::{Load, Tally};
use crate::fleet::{self, CRASHES_PER_INSTANCE_MAX, Fleet};
use crate::latency::Summary;
use crate::stopwatch::Stopwatch;

pub const CLIENTS: u64 = 8;
/// Each client makes a call so often; together they make 400 a second.
pub const WRITE_EVERY: Duration = Duration::from_millis(20);
pub const READ_EVERY: Duration = Duration::from_millis(20);
/// Parts of the time that are counted by themselves.
const WINDOWS: usize = 2;

/// What the clients saw in one window.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    pub writes: Summary,
    pub reads: Summary,
    pub failures: u64,
    /// Of the failures: answers with status 503.
    pub unavailable: u64,
    pub first_failure: Option<String>,
}

impl Seen {
    fn of(writes: &Tally, reads: &Tally) -> Self {
        Self {
            writes: writes.latencies.summary(),
            reads: reads.latencies.summary(),
            failures: writes.failures + reads.failures,
            unavailable: writes.unavailable + reads.unavailable,
            first_failure: writes.first_failure.clone().or_else(|| reads.first_failure.clone()),
        }
    }

    /// The longest that any call took.
    pub fn longest_ms(&self) -> f64 {
        self.writes.max_ms.max(self.reads.max_ms)
    }
}

/// A load that runs.
#[derive(Debug)]
pub struct Steady {
    workers: JoinSet<[Tally; 2 * WINDOWS]>,
    window: Arc<AtomicUsize>,
    cursor: Arc<AtomicU64>,
    stop: Stop,
}

impl Steady {
    /// Starts in the first window. `from` is what the load before this one returned, since an instance may not crash for ever.
    pub fn start(load: &Load, from: u64) -> Self {
        let (window, cursor, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(from)), Stop::new());
        let mut workers = JoinSet::new();
        let writers = CLIENTS.min(load.fleet.instances());
        for at in 0..=writers {
            let client = Client {
                worker: Worker::new(&load.target),
                fleet: load.fleet,
                window: Arc::clone(&window),
                tallies: Default::default(),
            };
            if at < writers {
                workers.spawn(client.write(Arc::clone(&cursor), stop.clone()));
            } else {
                workers.spawn(client.read(stop.clone()));
            }
        }
        Self { workers, window, cursor, stop }
    }

    /// From now on calls belong to the second window.
    pub fn next_window(&self) {
        self.window.store(WINDOWS - 1, Ordering::Relaxed);
    }

    /// What was seen in each window, and where the next load begins.
    pub async fn finish(self) -> ([Seen; WINDOWS], u64) {
        self.stop.set();
        let tallies = gather(self.workers).await;
        let [first_writes, second_writes, first_reads, second_reads] = &tallies;
        let seen = [Seen::of(first_writes, first_reads), Seen::of(second_writes, second_reads)];
        (seen, self.cursor.load(Ordering::Relaxed))
    }
}

struct Client {
    worker: Worker,
    fleet: Fleet,
    window: Arc<AtomicUsize>,
    /// Writes in each window, then reads in each.
    tallies: [Tally; 2 * WINDOWS],
}

impl Client {
    async fn write(mut self, cursor: Arc<AtomicU64>, stop: Stop) -> [Tally; 2 * WINDOWS] {
        let mut pace = Pace::of(WRITE_EVERY);
        let crashes = self.fleet.instances() * CRASHES_PER_INSTANCE_MAX;
        while !stop.is_set() && !self.worker.has_given_up() {
            let number = cursor.fetch_add(1, Ordering::Relaxed);
            if number >= crashes {
                self.tallies[0].failure("every instance has crashed as often as it may; the fleet is too small");
                break;
            }
            let instance = self.fleet.instance(number % self.fleet.instances());
            let calls = [
                (Route::CrashActualLrp, instance.crash()),
                (Route::ClaimActualLrp, instance.claim()),
                (Route::StartActualLrp, instance.start()),
            ];
            for (route, body) in calls {
                let late = pace.next().await;
                let window = self.window.load(Ordering::Relaxed);
                self.worker.call_late(&mut self.tallies[window], route, body, late).await;
            }
        }
        self.tallies
    }

    async fn read(mut self, stop: Stop) -> [Tally; 2 * WINDOWS] {
        let mut pace = Pace::of(READ_EVERY);
        let mut round = 0;
        while !stop.is_set() && !self.worker.has_given_up() {
            let late = pace.next().await;
            let body = fleet::actual_lrps_of_cell(round * 7 % self.fleet.cells);
            let window = WINDOWS + self.window.load(Ordering::Relaxed);
            self.worker.call_late(&mut self.tallies[window], Route::ActualLrps, body, late).await;
            round += 1;
        }
        self.tallies
    }
}

/// When calls are due.
struct Pace {
    watch: Stopwatch,
    every: Duration,
    due: Duration,
}

impl Pace {
    fn of(every: Duration) -> Self {
        Self { watch: Stopwatch::start(), every, due: Duration::ZERO }
    }

    /// Waits for the next call, and says how late it is. A timer that wakes us late is not the server's fault.
    async fn next(&mut self) -> Duration {
        self.due += self.every;
        let late = self.watch.elapsed().saturating_sub(self.due);
        if late.is_zero() {
            tokio::time::sleep(self.due.saturating_sub(self.watch.elapsed())).await;
        }
        late
    }
}
