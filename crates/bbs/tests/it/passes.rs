//! Passes of convergence run one after another, and wake-ups that pile up are one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use bbs::Board;
use bbs::cells::Registry;
use bbs::clock::{Clock, SystemClock};
use bbs::commands::{Effect, TracedEffect};
use bbs::config::Timing;
use bbs::converge::Converger;
use bbs::events::Hub;
use bbs::metrics::Metrics;
use bbs::writer::{Writer, WriterParts};
use model::{DomainName, Task, TaskGuid};
use store::Store;
use store::memory::Memory;
use tokio::sync::{Notify, mpsc, watch};

use crate::assembled::Assembled;
use crate::harness::until;
use crate::samples;

/// A pass looks at its clock once, when it begins.
#[derive(Debug, Default)]
struct Counted(AtomicUsize);

impl Clock for Counted {
    fn now_ns(&self) -> model::Nanos {
        self.0.fetch_add(1, Ordering::SeqCst);
        SystemClock.now_ns()
    }

    fn uptime_ns(&self) -> model::Nanos {
        SystemClock.uptime_ns()
    }

    fn fresh_id(&self) -> Arc<str> {
        SystemClock.fresh_id()
    }
}

#[tokio::test]
async fn two_passes_never_run_at_once_and_any_number_of_wishes_is_one_more() {
    let mut board = Board::default();
    let (guid, domain) = (TaskGuid::parse("t").unwrap(), DomainName::parse("d").unwrap());
    let definition = api::convert::task_definition(&samples::task());
    board.put_task(Arc::new(Task::desire(guid, domain, definition, SystemClock.now_ns())));
    let board = Arc::new(ArcSwap::from_pointee(board));
    let store = Arc::new(Memory::new());
    let held = store.campaign("node").await.unwrap();
    let metrics = Metrics::new();
    let (effects, _waiting) = mpsc::channel(16);
    let (writer, writing) = Writer::start(WriterParts {
        definitions_kept: 5,
        store,
        held,
        board: board.clone(),
        hub: Hub::new(0),
        clock: Arc::new(SystemClock),
        effects,
        metrics: metrics.clone(),
        task_rejections_max: 3,
        forms: store::Forms::only(store::Version::LATEST),
        vault: None,
    });
    let (passes, wake) = (Arc::new(Counted::default()), Arc::new(Notify::new()));
    let converger = Converger {
        board,
        writer,
        registry: Registry::new(0),
        clock: passes.clone(),
        metrics: metrics.clone(),
        timing: Timing { converge_interval: Duration::from_secs(3600), ..Timing::default() },
        callback_give_up: Duration::from_secs(3600),
        wake: wake.clone(),
        guard: Arc::new(ArcSwap::from_pointee(bbs::migrate::Guard::of_known("id"))),
    };
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(converger.run(stopped));
    let begun = || passes.0.load(Ordering::SeqCst);

    wake.notify_one();
    until("the first pass began", || async { begun() == 1 }).await;
    // The writer does not run yet, so the pass cannot end, however often another one is wished for.
    for _ in 0..100 {
        wake.notify_one();
        tokio::task::yield_now().await;
    }
    assert_eq!((begun(), metrics.convergence.task_runs.get()), (1, 0));
    tokio::spawn(writing);
    until("two passes ended", || async { metrics.convergence.task_runs.get() == 2 }).await;
    stop.send_replace(true);
    running.await.unwrap();
    assert_eq!((begun(), metrics.convergence.task_runs.get()), (2, 2));
}

/// Whoever asked for a place while no cell was there need not wait until the question is old.
#[tokio::test]
async fn what_waits_is_auctioned_when_the_first_cell_comes() {
    let mut world = Assembled::new().await;
    world.client().desire_lrp(samples::lrp("p", 2)).await.unwrap();
    assert_eq!(indices(world.effects.recv().await), [0, 1]);
    let (converger, mut effects) = (world.converger, world.effects);
    let (wake, metrics) = (converger.wake.clone(), converger.metrics.clone());
    let passes = || metrics.convergence.task_runs.get();
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(converger.run(stopped));
    wake.notify_one();
    until("a pass without cells has ended", || async { passes() == 1 }).await;
    assert!(effects.try_recv().is_err(), "nobody could take them");

    let wire = api::models::CellPresence { cell_id: "c".into(), ..Default::default() };
    let cell = api::convert::cell_from_wire(wire).unwrap();
    world.app.registry.announce(cell, bbs::cells::PRESENCE_TTL_NS, world.clock.uptime_ns());
    wake.notify_one();
    let mut asked = indices(effects.recv().await);
    while asked.len() < 2 {
        asked.extend(indices(effects.recv().await));
    }
    assert_eq!(asked, [0, 1]);
    wake.notify_one();
    until("a pass with the same cell has ended", || async { passes() == 3 }).await;
    stop.send_replace(true);
    running.await.unwrap();
    assert!(effects.try_recv().is_err(), "they are not old yet, and nothing is new");
}

fn indices(effect: Option<TracedEffect>) -> Vec<i32> {
    match effect.map(|traced| traced.effect) {
        Some(Effect::AuctionLrp { indices, .. }) => indices,
        other => panic!("{other:?} is no auction"),
    }
}
