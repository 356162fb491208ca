//! Subscribers: how many events arrive, and what they cost the writers.
//!
//! The same cycles run without subscribers and with them: as fast as the machine allows, where subscribers and writers fight
//! for the same cores, and at a fixed pace, where it shows whether subscribers hold writers up. A cycle says five things (see [`EVENTS_PER_CYCLE`]), so it is
//! known what each subscriber must get; what is missing when the stream has become quiet counts as a failure, and so does
//! a stream that the server has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::Route;
use bytes::Bytes;
use tokio::task::JoinSet;

use super::cycle::{self, NAMES};
use super::worker::{measures, with_causes};
use super::{Load, Measure, Tally};
use crate::connection::Subscription;
use crate::fleet::EVENTS_PER_CYCLE;
use crate::stopwatch::Stopwatch;

pub const DELIVERED: &str = "events delivered";
pub const ALONE: &str = "writes without subscribers";
pub const WATCHED: &str = "writes with subscribers";
pub const PACED_ALONE: &str = "paced writes without subscribers";
pub const PACED_WATCHED: &str = "paced writes with subscribers";
pub const PACED_DELIVERED: &str = "events delivered at that pace";

/// What the writers offer when they do not take all they can get: enough for 200,000 events a second to 50 subscribers.
pub const PACE_PER_S: f64 = 2_500.0;

/// A stream is quiet when nothing has arrived for so long.
const QUIET: Duration = Duration::from_millis(500);
/// Longer than this nobody waits for stragglers.
const DRAIN_MAX: Duration = Duration::from_secs(30);

pub(super) async fn run(load: &Load) -> Vec<Measure> {
    // Half of the crashes that the fleet can take are for the first run.
    let alone = cycle::run(load, 2, None).await;
    let mut found = Vec::from_iter(named(ALONE, measures(NAMES, &alone.tallies, alone.seconds, alone.cpu)));
    found.extend(watched(load, None, [WATCHED, DELIVERED]).await);
    let paced = cycle::run(load, 2, Some(PACE_PER_S)).await;
    found.extend(named(PACED_ALONE, measures(NAMES, &paced.tallies, paced.seconds, paced.cpu)));
    found.extend(watched(load, Some(PACE_PER_S), [PACED_WATCHED, PACED_DELIVERED]).await);
    found
}

/// One run with subscribers: what the writers did, and what the subscribers got.
async fn watched(load: &Load, pace_per_s: Option<f64>, [writes, events]: [&str; 2]) -> Vec<Measure> {
    let (mut subscribers, counters, mut delivered) = subscribe(load).await;
    let watch = Stopwatch::start();
    let watched = cycle::run(load, 2, pace_per_s).await;
    let expected = watched.whole * EVENTS_PER_CYCLE;
    let seconds = drain(&counters, &watch, expected).await;
    subscribers.abort_all();
    while let Some(ended) = subscribers.join_next().await {
        // A task that was still reading when it was stopped is what we hope for.
        if let Ok(why) = ended {
            delivered.failure(why);
        }
    }
    for counter in counters.iter() {
        let got = counter.events.load(Ordering::Relaxed);
        delivered.calls += got;
        delivered.bytes += counter.bytes.load(Ordering::Relaxed);
        if got < expected {
            delivered.failure(format!("a subscriber got {got} of {expected} events"));
        }
    }
    let mut found = Vec::from_iter(named(writes, measures(NAMES, &watched.tallies, watched.seconds, watched.cpu)));
    let mut measure = Measure::of(events, &delivered, seconds);
    measure.bytes = delivered.bytes as f64;
    found.push(measure);
    found
}

/// Only the sum is of interest here, and it gets a name of its own.
fn named(name: &str, measures: Vec<Measure>) -> Option<Measure> {
    let mut sum = measures.into_iter().next()?;
    name.clone_into(&mut sum.what);
    Some(sum)
}

#[derive(Debug, Default)]
struct Counter {
    events: AtomicU64,
    bytes: AtomicU64,
}

/// Opens all streams before anything is written. A task returns only when its stream has ended too early, with the reason.
async fn subscribe(load: &Load) -> (JoinSet<String>, Arc<Vec<Counter>>, Tally) {
    let mut tally = Tally::default();
    let mut readers = JoinSet::new();
    let count = usize::try_from(load.settings.subscribers).unwrap_or(usize::MAX);
    let counters: Arc<Vec<Counter>> = Arc::new((0..count).map(|_| Counter::default()).collect());
    for at in 0..count {
        let opened = match load.target.connect().await {
            Ok(connection) => connection.subscribe(Route::LrpInstanceEventStream, Bytes::new()).await,
            Err(error) => Err(error),
        };
        match opened {
            Ok(stream) => drop(readers.spawn(read(stream, Arc::clone(&counters), at))),
            Err(error) => tally.failure(with_causes(&error)),
        }
    }
    (readers, counters, tally)
}

async fn read(mut stream: Subscription, counters: Arc<Vec<Counter>>, at: usize) -> String {
    let counter = &counters[at];
    let mut after_newline = true;
    while let Some(chunk) = stream.next().await {
        match chunk {
            Ok(chunk) => {
                counter.events.fetch_add(data_lines(&chunk, &mut after_newline), Ordering::Relaxed);
                counter.bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            }
            Err(error) => return with_causes(&error),
        }
    }
    "the server ended a stream, which it does to a subscriber that is too slow".into()
}

/// Waits until everybody has everything, or until nothing comes any more; returns when the last event came.
async fn drain(counters: &[Counter], watch: &Stopwatch, expected: u64) -> f64 {
    let sum = || counters.iter().map(|counter| counter.events.load(Ordering::Relaxed)).sum::<u64>();
    let all = expected * counters.len() as u64;
    let (mut last, mut came) = (sum(), watch.elapsed());
    let end = came + DRAIN_MAX;
    while last < all && watch.elapsed() < end {
        tokio::time::sleep(QUIET / 50).await;
        let now = sum();
        if now != last {
            (last, came) = (now, watch.elapsed());
        } else if watch.elapsed() > came + QUIET {
            break;
        }
    }
    came.as_secs_f64()
}

/// Counts events by their `data:` lines, over any cut of the stream: `after_newline` says how the last piece ended.
/// Looking for one pair of bytes keeps the reader cheap; no other field of an event begins with a `d`.
pub fn data_lines(chunk: &[u8], after_newline: &mut bool) -> u64 {
    let (Some(first), Some(last)) = (chunk.first(), chunk.last()) else { return 0 };
    let at_start = u64::from(*after_newline && *first == b'd');
    *after_newline = *last == b'\n';
    let inside = chunk.iter().zip(&chunk[1..]).filter(|(before, byte)| **before == b'\n' && **byte == b'd').count();
    at_start + inside as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_counted_over_any_cut() {
        let mut stream = Vec::new();
        for id in 0..40 {
            stream.extend_from_slice(&api::sse::frame(id, "desired_lrp_changed", &[id as u8; 90]));
            stream.extend_from_slice(b": a comment that says data\n\n");
        }
        for size in [1, 2, 3, 5, 17, 1_000, stream.len()] {
            let mut after_newline = true;
            let counted: u64 = stream.chunks(size).map(|chunk| data_lines(chunk, &mut after_newline)).sum();
            assert_eq!(counted, 40, "in pieces of {size}");
        }
        assert_eq!(data_lines(b"", &mut true), 0);
    }
}
