//! Reads on a quiet server: the three large lists, one cell, one LRP. One client, one call after the other.
//!
//! A list must have as many records as the fleet has; a fast answer that is incomplete is a failure.

use api::Route;
use bytes::Bytes;

use super::worker::Worker;
use super::{Load, Measure, Tally};
use crate::fleet;
use crate::stopwatch::Stopwatch;

pub const ALL_ACTUAL: &str = "all actual LRPs";
pub const ALL_SCHEDULING: &str = "all scheduling infos";
pub const ALL_DESIRED: &str = "all desired LRPs";
pub const ONE_CELL: &str = "actual LRPs of one cell";
pub const ONE_LRP: &str = "one desired LRP";

pub(super) async fn run(load: &Load) -> Vec<Measure> {
    let (fleet, settings) = (load.fleet, load.settings);
    let mut worker = Worker::new(&load.target);
    let mut measures = Vec::new();
    let lists = [
        (ALL_ACTUAL, Route::ActualLrps, fleet.instances()),
        (ALL_SCHEDULING, Route::DesiredLrpSchedulingInfos, fleet.lrps),
        (ALL_DESIRED, Route::DesiredLrps, fleet.lrps),
    ];
    for (what, route, records) in lists {
        let calls = (0..settings.bulk_rounds).map(|_| (Bytes::new(), records));
        measures.push(series(load, &mut worker, what, route, calls).await);
    }
    let cells = (0..settings.small_rounds).map(|round| {
        let cell = round * 7 % fleet.cells;
        (fleet::actual_lrps_of_cell(cell), fleet.instances_on_cell(cell))
    });
    measures.push(series(load, &mut worker, ONE_CELL, Route::ActualLrps, cells).await);
    let lrps = (0..settings.small_rounds).map(|round| (fleet::desired_lrp_by_guid(round * 7_919 % fleet.lrps), 1));
    measures.push(series(load, &mut worker, ONE_LRP, Route::DesiredLrpByProcessGuid, lrps).await);
    measures
}

async fn series(
    load: &Load,
    worker: &mut Worker,
    what: &str,
    route: Route,
    calls: impl Iterator<Item = (Bytes, u64)>,
) -> Measure {
    let mut tally = Tally::default();
    worker.connect(&mut tally).await;
    let (before, watch) = (load.cpu(), Stopwatch::start());
    for (body, records) in calls {
        let answer = worker.call(&mut tally, route, body).await;
        if let Some(answer) = answer.filter(|answer| answer.records != records) {
            tally.failure(format!("{} records, and {records} are there", answer.records));
        }
        if worker.has_given_up() {
            break;
        }
    }
    Measure::of(what, &tally, watch.seconds()).with_cpu(before, load.cpu())
}
