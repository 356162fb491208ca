//! Brings a populated board to the state it has on most days: every instance runs, and tasks run beside them.
//!
//! Instances are started without a claim, which the protocol allows and which halves the calls.

use api::Route;

use super::worker::numbered;
use super::{Load, Measure};

pub(super) async fn run(load: &Load, tasks: u64) -> Vec<Measure> {
    let (fleet, clients) = (load.fleet, load.settings.clients);
    let start = move |number| [(Route::StartActualLrp, fleet.instance(number).start())];
    let mut measures = numbered(load, ["start"], clients, 0..fleet.instances(), start).await;
    if tasks > 0 {
        let run = move |number| {
            [(Route::DesireTask, fleet.desire_task(number)), (Route::StartTask, fleet.start_task(number))]
        };
        measures.extend(numbered(load, ["desire task", "start task"], clients, 0..tasks, run).await);
    }
    measures
}
