//! The convergence loop: plan on a snapshot, carry out through the writer.
//!
//! There is one loop, so two passes never run at once. While a pass runs, any number of wake-ups ask for at most one more: they
//! set the same flag. A timer wakes it anyway, counted from the end of the pass before.
//!
//! What was asked for while no cell was there has found no place, and a former master may not even have asked. So when the
//! first cell comes, all instances that wait are auctioned again, without waiting until they are old.

use std::sync::Arc;
use std::time::Duration;

use api::convert::desired_lrp::internal_hostnames;
use arc_swap::ArcSwap;
use model::converge::{Cells, lrps, tasks};
use model::{ActualLrp, ActualLrpKey, ActualState, Nanos};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::board::Board;
use crate::cells::Registry;
use crate::clock::Clock;
use crate::commands::{Command, ConvergeLrps, ConvergeTasks};
use crate::config::Timing;
use crate::metrics::Metrics;
use crate::migrate::Guard;
use crate::outbound::host_of;
use crate::writer::{WriteError, Writer};

/// How many decisions go to the writer at once, so that requests get their turn between them.
const DECISIONS_PER_COMMAND: usize = 64;

#[derive(Debug)]
pub struct Converger {
    pub board: Arc<ArcSwap<Board>>,
    pub writer: Writer,
    pub registry: Arc<Registry>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    pub timing: Timing,
    /// How long the end of a task is reported to somebody who does not take the report.
    pub callback_give_up: Duration,
    /// Asks for a pass now.
    pub wake: Arc<Notify>,
    /// While the store is not known to be the right one, nothing is stopped on its word.
    pub guard: Arc<ArcSwap<Guard>>,
}

/// An instance that waits for a cell.
#[derive(Debug)]
struct Unclaimed {
    key: ActualLrpKey,
    since_ns: Nanos,
}

/// All that are wanted.
fn unclaimed(board: &Board) -> Vec<Unclaimed> {
    let mut found = Vec::new();
    for process in lrps::State::processes(board) {
        let wanted = process.desired.map_or(0, |desired| desired.instances);
        for (_, slot) in process.slots.iter().filter(|(index, _)| *index < wanted) {
            if let Some(row) = slot.ordinary.as_deref().filter(|row| row.state == ActualState::Unclaimed) {
                found.push(Unclaimed { key: row.key.clone(), since_ns: row.since_ns });
            }
        }
    }
    found
}

impl Converger {
    /// Runs until told to stop. The first pass comes one interval after the start, when cells had time to be heard.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut had_cells = false;
        loop {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(self.timing.converge_interval) => {}
                () = self.wake.notified() => {}
            }
            let has_cells = !self.registry.live(self.clock.uptime_ns()).is_empty();
            let waiting = if has_cells && !had_cells { self.waiting().await } else { Vec::new() };
            had_cells = has_cells;
            // Stopping does not interrupt a pass: it is short, and what it has begun is better finished.
            if let Err(error) = self.pass().await {
                tracing::warn!(%error, "a convergence pass was not finished; the next one looks again");
            }
            if !waiting.is_empty() {
                self.auction(waiting).await;
            }
        }
    }

    async fn waiting(&self) -> Vec<Unclaimed> {
        let board = self.board.load_full();
        tokio::task::spawn_blocking(move || unclaimed(&board)).await.unwrap_or_default()
    }

    /// Those that are old have been auctioned by the pass before; so they are by the next one, should this fail.
    async fn auction(&self, waiting: Vec<Unclaimed>) {
        let board = self.board.load_full();
        let stale_ns = self.clock.now_ns().saturating_sub(lrps::STALE_UNCLAIMED_NS);
        let is_due = |row: &Unclaimed| {
            let slot = board.slot(&row.key.process_guid, row.key.index);
            let is_same = |now: &ActualLrp| now.state == ActualState::Unclaimed && now.since_ns == row.since_ns;
            row.since_ns >= stale_ns && slot.ordinary.as_deref().is_some_and(is_same)
        };
        let due: Vec<_> = waiting.into_iter().filter(is_due).collect();
        if due.is_empty() {
            return;
        }
        tracing::info!(instances = due.len(), "the first cell is there; instances that wait are auctioned again");
        let decisions: Vec<_> = due.into_iter().map(|row| lrps::Decision::AuctionAgain { key: row.key }).collect();
        for chunk in decisions.chunks(DECISIONS_PER_COMMAND) {
            let command = Command::ConvergeLrps(ConvergeLrps { decisions: chunk.to_vec() });
            if let Err(error) = self.writer.submit(command, Arc::from("")).await {
                tracing::warn!(%error, "they are auctioned when they are old");
                return;
            }
        }
    }

    /// One pass over LRPs and tasks.
    pub async fn pass(&self) -> Result<(), WriteError> {
        let now_ns = self.clock.now_ns();
        let cells = self.registry.known(self.clock.uptime_ns());
        if let Cells::Live(live) | Cells::Heard { live, .. } = &cells {
            self.metrics.convergence.present_cells.set(live.len() as i64);
        }
        let (lrps, tasks) = tokio::join!(self.lrp_pass(&cells, now_ns), self.task_pass(&cells, now_ns));
        lrps.and(tasks)
    }

    async fn lrp_pass(&self, cells: &Cells, now_ns: Nanos) -> Result<(), WriteError> {
        let started = Instant::now();
        let (board, cells) = (self.board.load_full(), cells.clone());
        // The plan of a large platform takes a while; it must not sit on a thread that answers requests.
        let planned = tokio::task::spawn_blocking(move || lrps::plan(&*board, &cells, &internal_hostnames, now_ns));
        let Ok(mut plan) = planned.await else { return Err(WriteError::Panicked) };
        self.spare(&mut plan);
        let decisions = plan.decisions.len();
        for chunk in plan.decisions.chunks(DECISIONS_PER_COMMAND) {
            let command = Command::ConvergeLrps(ConvergeLrps { decisions: chunk.to_vec() });
            self.writer.submit(command, Arc::from("")).await?;
        }
        self.report_lrps(&plan.metrics, started.elapsed());
        if decisions > 0 {
            tracing::info!(decisions, took = ?started.elapsed(), "LRP convergence");
        }
        Ok(())
    }

    /// What is not in the store, or cannot be read there, may well be wanted: nothing is stopped on such evidence.
    fn spare(&self, plan: &mut lrps::Plan) {
        let guard = self.guard.load();
        let trusted = guard.trusts_the_store();
        let unreadable = self.board.load().unreadable_processes();
        if trusted && unreadable.is_empty() {
            return;
        }
        let before = plan.decisions.len();
        plan.decisions.retain(|decision| {
            let unsure = !trusted || decision.process_guid().is_some_and(|guid| unreadable.contains(guid.as_str()));
            !(unsure && decision.stops_something())
        });
        let spared = before - plan.decisions.len();
        if spared > 0 && trusted {
            tracing::warn!(
                spared,
                "instances whose desired LRP cannot be read are not stopped: `corkboard quarantine list`"
            );
        } else if spared > 0 {
            tracing::warn!(spared, "no instance is stopped while the store is not confirmed: {}", guard.explain());
        }
    }

    async fn task_pass(&self, cells: &Cells, now_ns: Nanos) -> Result<(), WriteError> {
        let started = Instant::now();
        let nanos = |duration: Duration| Nanos::try_from(duration.as_nanos()).unwrap_or(Nanos::MAX);
        let timing = tasks::Timing {
            expire_pending_ns: nanos(self.timing.expire_pending_task),
            expire_completed_ns: nanos(self.timing.expire_completed_task),
            kick_ns: nanos(self.timing.kick_task),
            give_up_ns: nanos(self.callback_give_up),
        };
        let board = self.board.load_full();
        let plan = tasks::plan(board.tasks.values().map(|entry| &*entry.task), cells, timing, now_ns);
        for chunk in plan.decisions.chunks(DECISIONS_PER_COMMAND) {
            let command = Command::ConvergeTasks(ConvergeTasks { decisions: chunk.to_vec() });
            self.writer.submit(command, Arc::from("")).await?;
            self.report_given_up(&board, chunk);
        }
        drop(board);
        let metrics = &self.metrics.convergence;
        metrics.task_runs.inc();
        metrics.task_duration_s.set(started.elapsed().as_secs_f64());
        metrics.tasks_kicked.inc_by(plan.kicked as u64);
        metrics.tasks_pruned.inc_by(plan.pruned as u64);
        for (gauge, count) in [
            (&metrics.tasks_pending, plan.pending),
            (&metrics.tasks_running, plan.running),
            (&metrics.tasks_completed, plan.completed),
            (&metrics.tasks_resolving, plan.resolving),
        ] {
            gauge.set(count as i64);
        }
        Ok(())
    }

    fn report_given_up(&self, board: &Board, decisions: &[tasks::Decision]) {
        for decision in decisions {
            let tasks::Decision::GiveUp { guid, .. } = decision else { continue };
            let host = board.tasks.get(guid).map(|entry| host_of(&entry.task.definition.completion_callback_url));
            self.metrics.callbacks_given_up.inc();
            tracing::warn!(
                task = %guid, host, after = ?self.callback_give_up,
                "the end of a task was given up: nobody took the report in time, and the task is deleted"
            );
        }
    }

    fn report_lrps(&self, found: &lrps::Metrics, took: Duration) {
        let metrics = &self.metrics.convergence;
        metrics.lrp_runs.inc();
        metrics.lrp_duration_s.set(took.as_secs_f64());
        for (gauge, count) in [
            (&metrics.lrps_unclaimed, found.unclaimed),
            (&metrics.lrps_claimed, found.claimed),
            (&metrics.lrps_running, found.running),
            (&metrics.lrps_crashed, found.crashed),
            (&metrics.lrps_missing, found.missing),
            (&metrics.lrps_extra, found.extra),
            (&metrics.suspect_running, found.suspect_running),
            (&metrics.suspect_claimed, found.suspect_claimed),
            (&metrics.crashing_desired, found.crashing_desired),
            (&metrics.suspect_cells, found.missing_cells.len()),
        ] {
            gauge.set(count as i64);
        }
        metrics.lrps_desired.set(found.desired_instances);
        self.metrics.set_domains(&found.fresh_domains);
    }
}
