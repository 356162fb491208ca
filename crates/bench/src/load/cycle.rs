//! The life of an instance that crashes: crash, claim, start, again and again, by many workers until a deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use api::Route;
use tokio::task::JoinSet;

use super::worker::{Worker, gather};
use super::{Load, Tally};
use crate::fleet::{CRASHES_PER_INSTANCE_MAX, Fleet};
use crate::stopwatch::Stopwatch;

pub(super) const NAMES: [&str; 3] = ["crash", "claim", "start"];

/// Says when to stop, to everybody who takes part in a phase.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The numbers of one run of cycles.
#[derive(Debug)]
pub(super) struct Cycles {
    pub(super) tallies: [Tally; 3],
    pub(super) seconds: f64,
    pub(super) cpu: Option<(f64, f64)>,
    /// Cycles that were finished.
    pub(super) whole: u64,
}

/// Runs cycles with all clients until the duration is over or every instance has crashed as often as it may. Half of
/// the crashes that are left may be used, so that a second run finds some too.
pub(super) async fn run(load: &Load, share: u64) -> Cycles {
    let all = load.fleet.instances() * CRASHES_PER_INSTANCE_MAX;
    let from = load.crashes.load(Ordering::Relaxed);
    let end = from + (all - from.min(all)) / share.max(1);
    let cursor = Arc::new(AtomicU64::new(from));
    let stop = Stop::default();
    let (cpu_before, watch) = (load.server_cpu_s(), Stopwatch::start());
    let mut workers = JoinSet::new();
    for _ in 0..load.settings.clients.min(load.fleet.instances()) {
        let worker = Worker::new(&load.target);
        workers.spawn(work(worker, load.fleet, Arc::clone(&cursor), end, stop.clone()));
    }
    let timer = tokio::spawn({
        let (stop, duration) = (stop.clone(), load.settings.duration);
        async move {
            tokio::time::sleep(duration).await;
            stop.set();
        }
    });
    let tallies = gather(workers).await;
    timer.abort();
    load.crashes.store(cursor.load(Ordering::Relaxed).min(end), Ordering::Relaxed);
    let whole = tallies.iter().map(|tally| tally.calls).min().unwrap_or(0);
    Cycles { tallies, seconds: watch.seconds(), cpu: cpu_before.zip(load.server_cpu_s()), whole }
}

async fn work(mut worker: Worker, fleet: Fleet, cursor: Arc<AtomicU64>, end: u64, stop: Stop) -> [Tally; 3] {
    let mut tallies = NAMES.map(|_| Tally::default());
    while !stop.is_set() && !worker.has_given_up() {
        let number = cursor.fetch_add(1, Ordering::Relaxed);
        if number >= end {
            break;
        }
        let instance = fleet.instance(number % fleet.instances());
        let calls = [
            (Route::CrashActualLrp, instance.crash()),
            (Route::ClaimActualLrp, instance.claim()),
            (Route::StartActualLrp, instance.start()),
        ];
        for (tally, (route, body)) in tallies.iter_mut().zip(calls) {
            worker.call(tally, route, body).await;
        }
    }
    tallies
}
