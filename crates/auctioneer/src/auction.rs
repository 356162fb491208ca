//! One auction after the other: list the cells, ask them all, decide what waits by then, send the work, report failures.
//!
//! Promise: whatever was accepted is either given to a cell, or reported to the state server with a reason, or counted in
//! the log; in the last case convergence asks for it again. Nothing is put back into the queue here.
//!
//! What waits is taken after the cells have answered, so that an auction decides on the newest wishes and later ones need
//! not wait for it. A cell that does not confirm its work counts as having taken it: to place it once more could start it
//! twice, and convergence finds out which it was.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use api::client::Client;
use api::rep::Work;
use model::{Cell, CellId};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cells::Cells;
use crate::metrics::Metrics;
use crate::place::{Failed, Offer, Outcome, Placed, Reason, Seeds, Settings, Start, place};
use crate::queue::{Key, Queue};
use crate::report::Reports;

/// How often all cells are asked when none of them can take part.
const ROUNDS_MAX: usize = 4;
/// How long to wait before the state server is asked for its cells again.
const CELLS_PAUSE: Duration = Duration::from_secs(1);
/// How long its answer is waited for when the auctioneer is to stop.
const CELLS_GRACE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Auctioneer {
    pub(crate) bbs: Client,
    pub(crate) cells: Cells,
    pub(crate) queue: Arc<Queue>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) settings: Settings,
    pub(crate) workers: usize,
    pub(crate) seeds: Seeds,
}

impl Auctioneer {
    /// Holds auctions until told to stop and nothing waits any more. To be dropped in the middle is safe: what was sent is
    /// claimed by its cell, and convergence asks for the rest.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            let trace = tokio::select! {
                biased;
                trace = self.queue.some() => trace,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            let Some(cells) = self.list_cells(&trace, &stop).await else {
                tracing::warn!(
                    left = self.queue.len(),
                    "the auctioneer stops while the state server does not list its cells; convergence asks again for what waits"
                );
                return;
            };
            self.auction(&cells, &trace).await;
            self.queue.finished();
        }
    }

    /// Asks until there is an answer; while it is to stop, once and not for long.
    async fn list_cells(&self, trace: &str, stop: &watch::Receiver<bool>) -> Option<Vec<Cell>> {
        let bbs = traced(&self.bbs, trace);
        loop {
            let listed = tokio::select! {
                listed = bbs.cells() => listed,
                () = stopped_for(stop.clone(), CELLS_GRACE) => return None,
            };
            match listed {
                Ok(presences) => {
                    let cells: HashMap<CellId, Cell> = presences.into_iter().filter_map(known).collect();
                    let cells: Vec<Cell> = cells.into_values().collect();
                    self.cells.keep_only(&cells);
                    return Some(cells);
                }
                Err(error) => {
                    let waiting = self.queue.len();
                    tracing::warn!(%error, waiting, "the state server does not list its cells; asking again");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(CELLS_PAUSE) => {}
                () = stopped_for(stop.clone(), Duration::ZERO) => return None,
            }
        }
    }

    async fn auction(&mut self, cells: &[Cell], trace: &Arc<str>) {
        let begun = Instant::now();
        let offers = self.fetch_states(cells, trace).await;
        let fetched = begun.elapsed();
        self.metrics.fetched_states(fetched);

        let taken = self.queue.take();
        let (lrps, tasks) = (taken.batch.lrps.len(), taken.batch.tasks.len());
        if lrps + tasks == 0 {
            return;
        }
        let (settings, seed) = (self.settings, self.seeds.draw());
        let (asked, taking_part) = (cells.len(), offers.len());
        let placing = Instant::now();
        let decided = tokio::task::spawn_blocking(move || place(&offers, taken.batch, &settings, seed)).await;
        let Ok(Outcome { placed, mut failed }) = decided else {
            tracing::error!(lrps, tasks, seed, "a defect in placing; nothing was placed, and convergence asks again");
            return;
        };
        let decided = placing.elapsed();
        self.metrics.placed(decided);
        self.metrics.cells.set(i64::try_from(taking_part).unwrap_or(i64::MAX));
        self.metrics.cells_left_out.set(i64::try_from(asked - taking_part).unwrap_or(i64::MAX));

        failed.extend(self.commit(placed, cells, trace).await);
        self.metrics.auctioned(begun.elapsed());
        let (lrps_failed, tasks_failed) = self.count(lrps, tasks, &failed);
        tracing::info!(
            lrps = lrps - lrps_failed, tasks = tasks - tasks_failed, lrps_failed, tasks_failed,
            cells = asked, cells_taking_part = taking_part, seed, %trace, ?fetched, ?decided, took = ?begun.elapsed(),
            "an auction was held"
        );
        Reports { bbs: &self.bbs, metrics: &self.metrics, traces: &taken.traces }.send(failed).await;
    }

    fn count(&self, lrps: usize, tasks: usize, failed: &[Failed]) -> (usize, usize) {
        let lrps_failed = failed.iter().filter(|failed| matches!(failed.start, Start::Lrp(_))).count();
        let tasks_failed = failed.len() - lrps_failed;
        self.metrics.lrps_failed.inc_by(lrps_failed as u64);
        self.metrics.tasks_failed.inc_by(tasks_failed as u64);
        self.metrics.lrps_started.inc_by((lrps - lrps_failed) as u64);
        self.metrics.tasks_started.inc_by((tasks - tasks_failed) as u64);
        for failed in failed {
            self.metrics.failed(&failed.reason);
        }
        (lrps_failed, tasks_failed)
    }

    /// What the cells that take part say; again from the beginning while none does.
    async fn fetch_states(&self, cells: &[Cell], trace: &Arc<str>) -> Vec<Offer> {
        for round in 1..=ROUNDS_MAX {
            let asking = cells.iter().map(|cell| {
                let (client, metrics, cell, trace) =
                    (self.cells.clone(), self.metrics.clone(), cell.clone(), trace.clone());
                async move { offer(&client, &metrics, cell, &trace).await }
            });
            let offers: Vec<Offer> = gather(asking.collect(), self.workers).await.into_iter().flatten().collect();
            if !offers.is_empty() || cells.is_empty() {
                return offers;
            }
            tracing::warn!(cells = cells.len(), round, of = ROUNDS_MAX, "no cell can take part in the auction");
        }
        Vec::new()
    }

    /// Sends each cell its work, and tells what was refused.
    async fn commit(&self, placed: Vec<Placed>, cells: &[Cell], trace: &Arc<str>) -> Vec<Failed> {
        let cells: HashMap<&CellId, &Cell> = cells.iter().map(|cell| (&cell.id, cell)).collect();
        let sending = placed.into_iter().filter_map(|Placed { cell, work }| {
            let cell = (*cells.get(&cell)?).clone();
            let (client, metrics, trace) = (self.cells.clone(), self.metrics.clone(), trace.clone());
            Some(async move { perform(&client, &metrics, cell, work, &trace).await })
        });
        gather(sending.collect(), self.workers).await.into_iter().flatten().collect()
    }
}

/// Ends so long after the auctioneer was told to stop.
async fn stopped_for(mut stop: watch::Receiver<bool>, time: Duration) {
    let _ = stop.wait_for(|stop| *stop).await;
    tokio::time::sleep(time).await;
}

/// A cell that can take part, and its state.
async fn offer(client: &Cells, metrics: &Metrics, cell: Cell, trace: &str) -> Option<Offer> {
    let state = match client.state(&cell, trace).await {
        Ok(state) => state,
        Err(error) => {
            metrics.state_failures.inc();
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(cell = %cell.id, %error, cause, "a cell does not tell its state and is left out");
            return None;
        }
    };
    if state.evacuating {
        tracing::debug!(cell = %cell.id, "a cell evacuates and is left out");
        return None;
    }
    if !state.cell_id.is_empty() && state.cell_id != cell.id.as_str() {
        tracing::warn!(cell = %cell.id, answers_as = state.cell_id, "another cell answers at this address; it is left out");
        return None;
    }
    Some(Offer { cell: cell.id, state })
}

/// Sends one cell its work, and tells what it refused.
async fn perform(client: &Cells, metrics: &Metrics, cell: Cell, work: Work, trace: &str) -> Vec<Failed> {
    let refused = match client.perform(&cell, &work, trace).await {
        Ok(refused) => refused,
        Err(error) => {
            let (lrps, tasks) = (work.lrps.len(), work.tasks.len());
            metrics.unconfirmed.inc_by((lrps + tasks) as u64);
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::warn!(
                cell = %cell.id, lrps, tasks, %error, cause,
                "a cell did not confirm its work; convergence asks again for what it did not take"
            );
            return Vec::new();
        }
    };
    let mut refused: HashSet<Key> =
        refused.lrps.iter().map(Key::lrp).chain(refused.tasks.iter().map(Key::task)).collect();
    let starts = work.lrps.into_iter().map(Start::Lrp).chain(work.tasks.into_iter().map(Start::Task));
    let mut failed = Vec::new();
    for start in starts {
        if refused.remove(&Key::of(&start)) {
            failed.push(Failed { start, reason: Reason::Refused(cell.id.clone()) });
        } else {
            tracing::debug!(cell = %cell.id, trace, "{start} was placed");
        }
    }
    metrics.refused_by_cells.inc_by(failed.len() as u64);
    if !refused.is_empty() {
        tracing::warn!(cell = %cell.id, foreign = refused.len(), "a cell refused work that it was not sent; ignored");
    }
    failed
}

fn known(presence: api::models::CellPresence) -> Option<(CellId, Cell)> {
    match api::convert::cell_from_wire(presence) {
        Ok(cell) => Some((cell.id.clone(), cell)),
        Err(error) => {
            tracing::warn!(%error, "a cell without a usable name is left out");
            None
        }
    }
}

/// The client under the id of a request. An id that cannot stand in a header is left out.
pub(crate) fn traced(bbs: &Client, trace: &str) -> Client {
    match trace {
        "" => bbs.clone(),
        trace => bbs.with_trace_id(trace).unwrap_or_else(|_| bbs.clone()),
    }
}

/// Carries out all of these, so many at a time. They end when this is dropped.
async fn gather<T: Send + 'static>(jobs: Vec<impl Future<Output = T> + Send + 'static>, at_once: usize) -> Vec<T> {
    let mut running = JoinSet::new();
    let mut ended = Vec::new();
    for job in jobs {
        if running.len() >= at_once {
            ended.extend(running.join_next().await);
        }
        running.spawn(job);
    }
    while let Some(next) = running.join_next().await {
        ended.push(next);
    }
    let results = ended.into_iter().filter_map(|result| {
        result
            .inspect_err(|error| tracing::error!(%error, "a call to a cell met a defect; convergence asks again"))
            .ok()
    });
    results.collect()
}
