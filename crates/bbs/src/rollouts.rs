//! The loop that drives rollouts: plans on a snapshot, and carries out through the writer.
//!
//! It looks when the board has changed or a deadline is due, and only at the processes that are being updated, so that it costs
//! nothing while there is none. It takes no hint about what has changed: a plan compares all that is with all that should be. A
//! new master begins with a look at all of them, which is all there is to a fail-over.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use model::rollout::plan::{Decision, plan};
use model::{Nanos, ProcessGuid, Slot};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::board::Board;
use crate::clock::Clock;
use crate::commands::{Command, Roll};
use crate::metrics::Metrics;
use crate::migrate::Guard;
use crate::writer::{WriteError, Writer};

/// Between two looks at the board.
const LOOK: Duration = Duration::from_millis(100);
/// A look may take this part of the time; on a large platform looks become rarer.
const SHARE: u32 = 10;

#[derive(Debug)]
pub struct Driver {
    pub board: Arc<ArcSwap<Board>>,
    pub writer: Writer,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    /// While the store is not known to be the right one, nothing is stopped on its word.
    pub guard: Arc<ArcSwap<Guard>>,
}

impl Driver {
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let mut seen = None;
        let mut due_ns: Option<Nanos> = None;
        loop {
            let board = self.board.load_full();
            let now_ns = self.clock.now_ns();
            let mut pause = LOOK;
            let is_news = seen != Some(board.revision) || due_ns.is_some_and(|due_ns| due_ns <= now_ns);
            if is_news && self.guard.load().trusts_the_store() {
                let started = Instant::now();
                seen = Some(board.revision);
                due_ns = self.look(&board, now_ns).await.unwrap_or_else(|error| {
                    tracing::debug!(%error, "rollouts wait until changes are taken again");
                    seen = None;
                    None
                });
                pause = pause.max(started.elapsed() * SHARE);
            }
            drop(board);
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Returns when to look again if nothing happens.
    pub async fn look(&self, board: &Board, now_ns: Nanos) -> Result<Option<Nanos>, WriteError> {
        let mut due_ns: Option<Nanos> = None;
        self.metrics.rollouts.under_way.set(board.rolling().count() as i64);
        for process_guid in board.rolling() {
            let Some(entry) = board.desired.get(process_guid) else { continue };
            let slots: Vec<(i32, &Slot)> =
                board.slots_of(process_guid).map(|(key, entry)| (key.index, &entry.slot)).collect();
            let plan = plan(&entry.lrp, &slots, now_ns);
            due_ns = [due_ns, plan.look_ns].into_iter().flatten().min();
            if !plan.decisions.is_empty() {
                self.report(process_guid, &plan.decisions);
                let command = Roll { process_guid: process_guid.clone(), decisions: plan.decisions };
                self.writer.submit(Command::Roll(Box::new(command)), Arc::from("")).await?;
            }
        }
        Ok(due_ns)
    }

    fn report(&self, process_guid: &ProcessGuid, decisions: &[Decision]) {
        let counts = &self.metrics.rollouts;
        for decision in decisions {
            match decision {
                Decision::Begin { .. } => drop(counts.begun.inc()),
                Decision::Finish { .. } => drop(counts.replaced.inc()),
                Decision::TakeBack { .. } => drop(counts.taken_back.inc()),
                Decision::Complete { .. } => {
                    counts.completed.inc();
                    tracing::info!(%process_guid, "an update is complete: all instances have the definition in use");
                }
                Decision::Turn { why, .. } => {
                    counts.reverted.inc();
                    tracing::warn!(%process_guid, why, "an update failed and is taken back");
                }
                Decision::Halt { why, .. } => {
                    counts.halted.inc();
                    tracing::error!(
                        %process_guid, why,
                        "an update failed and waits for somebody; no instance was stopped: `corkboard rollout status {process_guid}`"
                    );
                }
                Decision::Rest => tracing::info!(%process_guid, "the first instances of an update run; it waits"),
                Decision::Adopt | Decision::GoOn => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
