//! One client: a connection that is renewed when it breaks, and a tally of what its calls did.

use std::error::Error;
use std::time::Duration;

use api::Route;
use bytes::Bytes;
use hyper::StatusCode;
use tokio::task::JoinSet;

use super::{CpuTimes, Load, Measure};
use crate::connection::{Answer, CallError, Connection, Target};
use crate::latency::Latencies;
use crate::stopwatch::Stopwatch;

/// A worker that fails so often in a row gives up: the server is gone, and counting on would take for ever.
const FAILURES_IN_A_ROW_MAX: u32 = 20;
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(50);

/// What happened to the calls of one kind.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub calls: u64,
    pub failures: u64,
    /// Failures that were a 503: the server was there and did not serve.
    pub unavailable: u64,
    pub first_failure: Option<String>,
    pub latencies: Latencies,
    pub first_bytes: Latencies,
    pub bytes: u64,
    pub records: u64,
}

impl Tally {
    pub fn success(&mut self, took: Duration) {
        self.calls += 1;
        self.latencies.record(took);
    }

    pub fn failure(&mut self, why: impl Into<String>) {
        self.failures += 1;
        self.first_failure.get_or_insert_with(|| why.into());
    }

    pub fn merge(&mut self, other: &Tally) {
        self.calls += other.calls;
        self.failures += other.failures;
        self.unavailable += other.unavailable;
        self.bytes += other.bytes;
        self.records += other.records;
        self.latencies.merge(&other.latencies);
        self.first_bytes.merge(&other.first_bytes);
        if self.first_failure.is_none() {
            self.first_failure.clone_from(&other.first_failure);
        }
    }

    fn answer(&mut self, answer: &Answer, late: Duration) {
        self.success(late + answer.total);
        self.first_bytes.record(answer.first_byte);
        self.bytes += answer.bytes;
        self.records += answer.records;
    }
}

#[derive(Debug)]
pub(super) struct Worker {
    target: Target,
    connection: Option<Connection>,
    failures_in_a_row: u32,
}

impl Worker {
    pub(super) fn new(target: &Target) -> Self {
        Self { target: target.clone(), connection: None, failures_in_a_row: 0 }
    }

    /// Connects before the clock starts, so that handshakes are not part of the first latencies.
    pub(super) async fn connect(&mut self, tally: &mut Tally) {
        if self.connection.is_none() {
            match self.target.connect().await {
                Ok(connection) => self.connection = Some(connection),
                Err(error) => self.failed(&error, tally).await,
            }
        }
    }

    /// Makes the call and books it. `None` when it failed.
    pub(super) async fn call(&mut self, tally: &mut Tally, route: Route, body: Bytes) -> Option<Answer> {
        self.call_late(tally, route, body, Duration::ZERO).await
    }

    /// The same for a call that is made later than it was due, because the one before it took so long. What it waited counts.
    pub(super) async fn call_late(
        &mut self,
        tally: &mut Tally,
        route: Route,
        body: Bytes,
        late: Duration,
    ) -> Option<Answer> {
        self.connect(tally).await;
        let connection = self.connection.as_mut()?;
        match connection.call(route, body).await {
            Ok(answer) => {
                self.failures_in_a_row = 0;
                tally.answer(&answer, late);
                Some(answer)
            }
            Err(error) => {
                if !error.connection_survives() {
                    self.connection = None;
                }
                self.failed(&error, tally).await;
                None
            }
        }
    }

    pub(super) fn has_given_up(&self) -> bool {
        self.failures_in_a_row >= FAILURES_IN_A_ROW_MAX
    }

    async fn failed(&mut self, error: &CallError, tally: &mut Tally) {
        tally.failure(with_causes(error));
        if let CallError::Status { status: StatusCode::SERVICE_UNAVAILABLE, .. } = error {
            tally.unavailable += 1;
        }
        self.failures_in_a_row += 1;
        tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
    }
}

/// The error and what caused it, in one line.
pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Adds up the tallies of finished workers, kind by kind. A worker that panicked is a failure of the first kind.
pub(super) async fn gather<const N: usize>(mut workers: JoinSet<[Tally; N]>) -> [Tally; N] {
    let mut sums: [Tally; N] = std::array::from_fn(|_| Tally::default());
    while let Some(done) = workers.join_next().await {
        match done {
            Ok(tallies) => sums.iter_mut().zip(&tallies).for_each(|(sum, tally)| sum.merge(tally)),
            Err(error) => {
                if let Some(first) = sums.first_mut() {
                    first.failure(error.to_string());
                }
            }
        }
    }
    sums
}

/// A phase whose calls are numbered: `clients` workers make calls `from..to` as fast as they can.
pub(super) async fn numbered<const N: usize>(
    load: &Load,
    what: [&str; N],
    clients: u64,
    range: std::ops::Range<u64>,
    calls: impl Fn(u64) -> [(Route, Bytes); N] + Copy + Send + 'static,
) -> Vec<Measure> {
    let mut ready = JoinSet::new();
    for _ in 0..clients {
        let mut worker = Worker::new(&load.target);
        ready.spawn(async move {
            let mut tally = Tally::default();
            worker.connect(&mut tally).await;
            (worker, tally)
        });
    }
    let ready = ready.join_all().await;
    let before = load.cpu();
    let watch = Stopwatch::start();
    let mut workers = JoinSet::new();
    for (at, (mut worker, connecting)) in (0..clients).zip(ready) {
        let (from, to) = (range.start + at, range.end);
        let step = usize::try_from(clients).unwrap_or(usize::MAX);
        workers.spawn(async move {
            let mut tallies: [Tally; N] = std::array::from_fn(|_| Tally::default());
            if let Some(first) = tallies.first_mut() {
                first.merge(&connecting);
            }
            for number in (from..to).step_by(step) {
                for (tally, (route, body)) in tallies.iter_mut().zip(calls(number)) {
                    worker.call(tally, route, body).await;
                }
                if worker.has_given_up() {
                    break;
                }
            }
            tallies
        });
    }
    let tallies = gather(workers).await;
    let seconds = watch.seconds();
    measures(what, &tallies, seconds, Some((before, load.cpu())))
}

/// One measure per kind of call, and their sum when there is more than one. Processor time belongs to all of them, so it
/// stands at the sum.
pub(super) fn measures<const N: usize>(
    what: [&str; N],
    tallies: &[Tally; N],
    seconds: f64,
    cpu: Option<(CpuTimes, CpuTimes)>,
) -> Vec<Measure> {
    let single = |(name, tally): (&&str, &Tally)| Measure::of(name, tally, seconds);
    let mut measures: Vec<Measure> = what.iter().zip(tallies).map(single).collect();
    if N > 1 {
        let mut all = Tally::default();
        tallies.iter().for_each(|tally| all.merge(tally));
        measures.insert(0, Measure::of(&what.join(" + "), &all, seconds));
    }
    if let (Some(first), Some((before, after))) = (measures.first_mut(), cpu) {
        *first = first.clone().with_cpu(before, after);
    }
    measures
}
