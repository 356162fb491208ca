//! Every instance is claimed and then started, first by all clients at once, the last few by one client alone.
//!
//! The second number is the latency of a write on a server that does nothing else.

use api::Route;

use super::worker::numbered;
use super::{Load, Measure};

pub(super) async fn run(load: &Load) -> Vec<Measure> {
    let (fleet, settings) = (load.fleet, load.settings);
    let instances = fleet.instances();
    // Never more than half of a small fleet, so that both numbers exist.
    let alone = settings.alone.min(instances / 2);
    let calls = move |number| {
        let instance = fleet.instance(number);
        [(Route::ClaimActualLrp, instance.claim()), (Route::StartActualLrp, instance.start())]
    };
    let crowd = 0..instances - alone;
    let mut measures = numbered(load, ["claim", "start"], settings.clients, crowd.clone(), calls).await;
    if alone > 0 {
        let names = ["claim alone", "start alone"];
        measures.extend(numbered(load, names, 1, crowd.end..instances, calls).await);
    }
    measures
}
