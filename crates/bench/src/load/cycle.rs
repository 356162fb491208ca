//! The life of an instance that crashes: crash, claim, start, again and again, by many workers until a deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::Route;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::worker::{Worker, gather};
use super::{CpuTimes, Load, Tally};
use crate::fleet::{CRASHES_PER_INSTANCE_MAX, Fleet};
use crate::stopwatch::Stopwatch;

pub(super) const NAMES: [&str; 3] = ["crash", "claim", "start"];

/// Says when to stop, to everybody who takes part in a phase.
#[derive(Clone, Debug)]
pub(super) struct Stop(Arc<watch::Sender<bool>>);

impl Stop {
    pub(super) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    pub(super) fn set(&self) {
        self.0.send_replace(true);
    }

    pub(super) fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Rests for so long, or until it is time to stop.
    pub(super) async fn rest(&self, pause: Duration) {
        let mut stop = self.0.subscribe();
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = stop.wait_for(|stop| *stop) => {}
        }
    }
}

/// The numbers of one run of cycles.
#[derive(Debug)]
pub(super) struct Cycles {
    pub(super) tallies: [Tally; 3],
    pub(super) seconds: f64,
    pub(super) cpu: Option<(CpuTimes, CpuTimes)>,
    /// Cycles that were finished.
    pub(super) whole: u64,
}

/// Runs cycles with all clients until the duration is over or every instance has crashed as often as it may. Half of
/// the crashes that are left may be used, so that a second run finds some too. With a pace, clients together offer that
/// many calls a second and no more.
pub(super) async fn run(load: &Load, share: u64, pace_per_s: Option<f64>) -> Cycles {
    let all = load.fleet.instances() * CRASHES_PER_INSTANCE_MAX;
    let from = load.crashes.load(Ordering::Relaxed);
    let end = from + (all - from.min(all)) / share.max(1);
    let cursor = Arc::new(AtomicU64::new(from));
    let stop = Stop::new();
    let (before, watch) = (load.cpu(), Stopwatch::start());
    let mut workers = JoinSet::new();
    let clients = load.settings.clients.min(load.fleet.instances());
    let pause = pace_per_s.map(|pace| Duration::from_secs_f64(NAMES.len() as f64 * clients as f64 / pace));
    for _ in 0..clients {
        let worker = Worker::new(&load.target);
        let share = Share { cursor: Arc::clone(&cursor), end, pause };
        workers.spawn(work(worker, load.fleet, share, stop.clone()));
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
    Cycles { tallies, seconds: watch.seconds(), cpu: Some((before, load.cpu())), whole }
}

/// Where a worker finds its next instance, and how long it takes for one.
struct Share {
    cursor: Arc<AtomicU64>,
    end: u64,
    pause: Option<Duration>,
}

async fn work(mut worker: Worker, fleet: Fleet, share: Share, stop: Stop) -> [Tally; 3] {
    let mut tallies = NAMES.map(|_| Tally::default());
    let mut ticks = share.pause.map(tokio::time::interval);
    while !stop.is_set() && !worker.has_given_up() {
        if let Some(ticks) = &mut ticks {
            ticks.tick().await;
        }
        let number = share.cursor.fetch_add(1, Ordering::Relaxed);
        if number >= share.end {
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
