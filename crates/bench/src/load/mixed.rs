//! Everything at once, as on a bad day: all clients crash, claim and start; cells poll; somebody reads the large lists.
//!
//! The reads have a rate and the writes have none: a server that answers reads faster does not get more of them, so the
//! number of writes per second can be compared between servers.

use api::Route;
use bytes::Bytes;

use super::cycle::{self, Stop};
use super::poll::{Pace, Polls};
use super::worker::{Worker, measures};
use super::{Load, Measure, Tally};
use crate::stopwatch::Stopwatch;

/// A consumer that reads a large list rests so long after each.
const BULK_PAUSE: std::time::Duration = std::time::Duration::from_secs(2);

pub(super) async fn run(load: &Load) -> Vec<Measure> {
    let stop = Stop::new();
    let watch = Stopwatch::start();
    let polls = Polls::start(load, Pace::of_cells(load.fleet.cells), &stop);
    let bulk = tokio::spawn(read_lists(Worker::new(&load.target), stop.clone()));
    let cycles = cycle::run(load, 1, None).await;
    stop.set();
    let mut found = measures(cycle::NAMES, &cycles.tallies, cycles.seconds, cycles.cpu);
    found.extend(polls.finish(watch.seconds()).await);
    let bulk = bulk.await.unwrap_or_else(|error| {
        let mut tally = Tally::default();
        tally.failure(error.to_string());
        tally
    });
    found.push(Measure::of("large lists meanwhile", &bulk, watch.seconds()));
    found
}

async fn read_lists(mut worker: Worker, stop: Stop) -> Tally {
    let mut tally = Tally::default();
    while !stop.is_set() && !worker.has_given_up() {
        for route in [Route::ActualLrps, Route::DesiredLrpSchedulingInfos] {
            worker.call(&mut tally, route, Bytes::new()).await;
        }
        stop.rest(BULK_PAUSE).await;
    }
    tally
}
