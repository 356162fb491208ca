//! Puts the whole fleet on the board: the domain, then every LRP.

use api::Route;

use super::worker::{Worker, numbered};
use super::{Load, Measure, Tally};
use crate::fleet;

pub(super) async fn run(load: &Load) -> Vec<Measure> {
    let mut tally = Tally::default();
    let mut worker = Worker::new(&load.target);
    worker.call(&mut tally, Route::UpsertDomain, fleet::upsert_domain()).await;
    let fleet = load.fleet;
    let mut measures = numbered(load, ["desire"], load.settings.clients, 0..fleet.lrps, move |lrp| {
        [(Route::DesireDesiredLrp, fleet.desire(lrp))]
    })
    .await;
    // A domain that is not fresh changes what convergence does, so a failure here must not stay hidden.
    if let (Some(measure), Some(why)) = (measures.first_mut(), tally.first_failure) {
        measure.failures += tally.failures;
        measure.first_failure.get_or_insert(why);
    }
    measures
}
