//! What cells and route emitters ask even when nothing happens.
//!
//! A cell compares itself with the board every 30 seconds: its actual LRPs and its tasks. Its route emitter does so every
//! 60 seconds: the actual LRPs of the cell, the routes of their LRPs, and the domains. The requests are spread evenly
//! over time. Latency counts from the start of the call; the rate is given, and the price is the server's processor.

use std::time::Duration;

use api::Route;
use bytes::Bytes;
use tokio::task::JoinSet;

use super::cycle::Stop;
use super::worker::{Worker, gather, measures};
use super::{Load, Measure, Tally};
use crate::fleet::{self, Fleet};
use crate::stopwatch::Stopwatch;

const CELL_INTERVAL: Duration = Duration::from_secs(30);
const EMITTER_INTERVAL: Duration = Duration::from_secs(60);
/// Connections over which the polls are spread; more would not be busy.
const POLLERS: u64 = 8;
const NAMES: [&str; 2] = ["polls of cells", "polls of route emitters"];

/// How far apart the polls of all cells together are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    cell: Duration,
    emitter: Duration,
}

impl Pace {
    pub(super) fn of_cells(cells: u64) -> Self {
        let each = |interval: Duration| interval.div_f64(cells.max(1) as f64);
        Self { cell: each(CELL_INTERVAL), emitter: each(EMITTER_INTERVAL) }
    }
}

pub(super) async fn run(load: &Load) -> Vec<Measure> {
    let stop = Stop::new();
    let (before, watch) = (load.cpu(), Stopwatch::start());
    let polls = Polls::start(load, Pace::of_cells(load.fleet.cells), &stop);
    tokio::time::sleep(load.settings.duration).await;
    stop.set();
    let (seconds, after) = (watch.seconds(), load.cpu());
    let mut found = polls.finish(seconds).await;
    if let Some(first) = found.first_mut() {
        *first = first.clone().with_cpu(before, after);
    }
    found
}

/// Polls that go on until they are stopped.
#[derive(Debug)]
pub(super) struct Polls(JoinSet<[Tally; 2]>);

impl Polls {
    pub(super) fn start(load: &Load, pace: Pace, stop: &Stop) -> Self {
        let mut pollers = JoinSet::new();
        for at in 0..POLLERS {
            let worker = Worker::new(&load.target);
            pollers.spawn(poll(worker, load.fleet, pace, at, stop.clone()));
        }
        Self(pollers)
    }

    pub(super) async fn finish(self, seconds: f64) -> Vec<Measure> {
        let tallies = gather(self.0).await;
        measures(NAMES, &tallies, seconds, None)
    }
}

/// The poller `at` of all makes every so-manieth poll, when its time has come.
async fn poll(mut worker: Worker, fleet: Fleet, pace: Pace, at: u64, stop: Stop) -> [Tally; 2] {
    let mut tallies = NAMES.map(|_| Tally::default());
    let watch = Stopwatch::start();
    let due = |interval: Duration, number: u64| interval.mul_f64(number as f64);
    let (mut cell, mut emitter) = (at, at);
    while !worker.has_given_up() {
        let is_cell = due(pace.cell, cell) <= due(pace.emitter, emitter);
        let next = if is_cell { due(pace.cell, cell) } else { due(pace.emitter, emitter) };
        stop.rest(next.saturating_sub(watch.elapsed())).await;
        if stop.is_set() {
            break;
        }
        let [of_cells, of_emitters] = &mut tallies;
        if is_cell {
            let id = cell % fleet.cells;
            cell += POLLERS;
            worker.call(of_cells, Route::ActualLrps, fleet::actual_lrps_of_cell(id)).await;
            worker.call(of_cells, Route::Tasks, fleet::tasks_of_cell(id)).await;
        } else {
            let id = emitter % fleet.cells;
            emitter += POLLERS;
            worker.call(of_emitters, Route::ActualLrps, fleet::actual_lrps_of_cell(id)).await;
            let processes = fleet.processes_on_cell(id);
            worker.call(of_emitters, Route::DesiredLrpRoutingInfos, fleet::routing_infos(processes)).await;
            worker.call(of_emitters, Route::Domains, Bytes::new()).await;
        }
    }
    tallies
}
