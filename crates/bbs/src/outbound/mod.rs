//! Calls from the state server to the world: the auctioneer, cells, and whoever waits for a task.
//!
//! The writer leaves [`Effect`]s behind once a change is durable; here they are carried out. Nothing here is remembered over
//! a restart, or allowed to hold anybody up: an effect that is lost is found again by convergence, which compares what is with
//! what should be and takes no hint from what was sent.
//!
//! There are three lanes, so that silent cells do not delay placements, nor slow receivers of callbacks the cells. Each has a
//! bounded queue; when it is full, the effect is dropped and counted.
//!
//! - `auctioneer`: one request under way, the next gathers meanwhile.
//! - `cells`: stop, update, cancel; up to `update_workers` at a time.
//! - `callback`: up to `callback_workers` at a time; who has to wait does so in a book, without a worker.

mod auctioneer;
mod callback;
mod cells;
mod error;
mod http;
mod versions;

use std::sync::Arc;

use api::client::tls::{TlsFiles, client_config};
use arc_swap::ArcSwap;
use model::TaskGuid;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::auctioneer::{Auctioneer, Order};
use self::callback::Callbacks;
pub(crate) use self::callback::host_of;
pub use self::cells::{Cells, LrpUpdate};
use self::cells::{Errand, Runner};
pub use self::error::{CallError, ConfigError};
use crate::board::Board;
use crate::cells::Registry;
use crate::clock::Clock;
use crate::commands::{Effect, TracedEffect};
use crate::config;
use crate::metrics::Metrics;
use crate::writer::Writer;

/// How many effects wait in a lane.
const LANE_EFFECTS_MAX: usize = 16_384;

#[derive(Debug)]
pub struct Parts {
    pub effects: mpsc::Receiver<TracedEffect>,
    pub config: config::Outbound,
    pub registry: Arc<Registry>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub board: Arc<ArcSwap<Board>>,
    /// Held until the calls end, so a writer that feeds `effects` drains only after [`run_until`] was told to stop.
    pub writer: Writer,
}

/// Reads all certificates and checks all addresses, so that a mistake is found before the server takes its lock.
pub fn check(config: &config::Outbound) -> Result<(), ConfigError> {
    Auctioneer::new(config)?;
    Cells::new(config)?;
    identity(config.callback_tls.as_ref(), "task callbacks")?;
    Ok(())
}

/// Carries out effects until the channel closes; then what is under way has `communication_timeout` to end.
///
/// With a configuration that [`check`] would refuse it logs why and ends at once.
pub async fn run(parts: Parts) {
    run_until(parts, std::future::pending()).await;
}

/// As [`run`], until `stop` resolves. What has not begun by then is left to convergence; a callback under way still gets to
/// delete its task, which is why the writer must not be stopped before.
pub async fn run_until(parts: Parts, stop: impl Future<Output = ()>) {
    let Parts { mut effects, config, registry, clock, metrics, board, writer } = parts;
    let callbacks = Callbacks::new(&config, board, writer, clock.clone(), metrics.clone());
    let runner = Cells::new(&config).map(|cells| Runner { cells, registry, clock, metrics: metrics.clone() });
    let (auctioneer, runner, callbacks) = match (Auctioneer::new(&config), runner, callbacks) {
        (Ok(auctioneer), Ok(runner), Ok(callbacks)) => (auctioneer, runner, callbacks),
        (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::error!(%error, cause, "no cell, auctioneer or callback is called; correct the configuration and restart");
            return;
        }
    };

    let mut lanes = JoinSet::new();
    let auctions = auctioneer.map(|auctioneer| {
        let (sender, queue) = mpsc::channel(LANE_EFFECTS_MAX);
        lanes.spawn(auctioneer.run(queue, metrics.clone()));
        sender
    });
    if auctions.is_none() {
        tracing::debug!("no auctioneer is configured; work stays where it is until cells claim it");
    }
    let (errands, queue) = mpsc::channel(LANE_EFFECTS_MAX);
    lanes.spawn(lane(queue, config.update_workers, move |(errand, trace)| runner.clone().run(errand, trace)));
    let (tasks, queue) = mpsc::channel(LANE_EFFECTS_MAX);
    lanes.spawn(callbacks.run(queue));

    let desk = Desk { auctions, errands, tasks, metrics };
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            effect = effects.recv() => match effect {
                Some(effect) => desk.hand_over(effect),
                None => break,
            },
            // Lanes last as long as the desk; one that ends before was ended by a panic.
            Some(_) = lanes.join_next() => {
                tracing::error!("outbound calls of one kind met a defect and ended; only a restart brings them back");
            }
            () = &mut stop => break,
        }
    }
    drop(desk);
    let ended = async { while lanes.join_next().await.is_some() {} };
    if tokio::time::timeout(config.communication_timeout, ended).await.is_err() {
        // Dropping the lanes ends their calls. Tasks stay as they are, and cells are asked again by the next master.
        tracing::warn!("outbound calls were cut off when the server stopped; convergence repeats them");
    }
}

/// Sorts effects into lanes.
struct Desk {
    auctions: Option<mpsc::Sender<(Order, Arc<str>)>>,
    errands: mpsc::Sender<(Errand, Arc<str>)>,
    tasks: mpsc::Sender<TaskGuid>,
    metrics: Arc<Metrics>,
}

impl Desk {
    fn hand_over(&self, TracedEffect { effect, trace }: TracedEffect) {
        match effect {
            Effect::AuctionLrp { desired, indices } => self.auction(Order::Lrp { desired, indices }, trace),
            Effect::AuctionTask(task) => self.auction(Order::Task(task), trace),
            Effect::StopInstance { key, instance } => {
                self.put(&self.errands, (Errand::Stop { key, instance }, trace));
            }
            Effect::UpdateInstance { desired, key, instance, routes, tags } => {
                let update = LrpUpdate::of(&desired, &key, &instance, routes, tags);
                self.put(&self.errands, (Errand::Update { cell: instance.cell_id, update }, trace));
            }
            Effect::CancelTask { guid, cell } => self.put(&self.errands, (Errand::Cancel { guid, cell }, trace)),
            Effect::CallBack(guid) => self.put(&self.tasks, guid),
        }
    }

    fn auction(&self, order: Order, trace: Arc<str>) {
        if let Some(auctions) = &self.auctions {
            self.put(auctions, (order, trace));
        }
    }

    fn put<T>(&self, queue: &mpsc::Sender<T>, item: T) {
        if queue.try_send(item).is_err() {
            self.metrics.effect_dropped();
        }
    }
}

/// Works on up to `workers` items at a time until the queue closes and all are done. Dropping it ends those under way.
async fn lane<T, F, Work>(mut queue: mpsc::Receiver<T>, workers: usize, work: F)
where
    F: Fn(T) -> Work,
    Work: Future<Output = ()> + Send + 'static,
{
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            Some(ended) = running.join_next() => {
                if ended.is_err_and(|error| error.is_panic()) {
                    tracing::error!("an outbound call met a defect in the server; others go on");
                }
            }
            item = queue.recv(), if running.len() < workers.max(1) => match item {
                Some(item) => { running.spawn(work(item)); }
                None => break,
            },
        }
    }
    while running.join_next().await.is_some() {}
}

fn identity(files: Option<&TlsFiles>, whom: &'static str) -> Result<Option<Arc<rustls::ClientConfig>>, ConfigError> {
    files.map(client_config).transpose().map_err(|source| ConfigError::Tls { whom, source: Box::new(source) })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn a_lane_keeps_to_its_workers_and_finishes_what_it_has() {
        let (sender, queue) = mpsc::channel(16);
        let (busy, most, done) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for item in 0..10 {
            sender.try_send(item).unwrap();
        }
        drop(sender);
        let counters = (busy, most.clone(), done.clone());
        lane(queue, 3, move |item| {
            let (busy, most, done) = counters.clone();
            async move {
                most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                for _ in 0..5 {
                    tokio::task::yield_now().await;
                }
                busy.fetch_sub(1, Ordering::SeqCst);
                assert_ne!(item, 4, "one of them meets a defect");
                done.fetch_add(1, Ordering::SeqCst);
            }
        })
        .await;
        assert_eq!((most.load(Ordering::SeqCst), done.load(Ordering::SeqCst)), (3, 9));
    }

    #[test]
    fn check_names_what_is_wrong() {
        assert!(check(&config::Outbound::default()).is_ok());
        let files = TlsFiles { ca: "none".into(), cert: "none".into(), key: "none".into(), skip_verify: false };
        let text = |config: config::Outbound| check(&config).unwrap_err().to_string();
        assert_eq!(
            text(config::Outbound { cell_tls: Some(files.clone()), ..Default::default() }),
            "the certificates for calls to cells cannot be used"
        );
        assert_eq!(
            text(config::Outbound { callback_tls: Some(files), ..Default::default() }),
            "the certificates for calls to task callbacks cannot be used"
        );
    }
}
