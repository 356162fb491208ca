//! A server that is master: what runs then, and the two ways in which it ends.
//!
//! Promise: a server that is asked to stop finishes what it acknowledged and gives the mastership back. One that has lost it
//! finishes nothing and answers nobody.

use std::sync::Arc;

use arc_swap::ArcSwap;
use store::record::DataVersion;
use store::{Mastership, Standing, StoreError};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinError, JoinHandle};

use super::RunError;
use crate::events::Hub;
use crate::keys::RotatorEnd;
use crate::migrate::MigratorEnd;
use crate::migrate::ask::{Ask, Desk};
use crate::phase::{Phase, Stage};
use crate::writer::WriterEnd;

/// What runs only while this node is master.
pub(super) struct Master {
    pub(super) board: Arc<ArcSwap<crate::Board>>,
    pub(super) hub: Arc<Hub>,
    pub(super) writer_task: JoinHandle<WriterEnd>,
    /// `None` once it was used.
    pub(super) stop_outbound: Option<oneshot::Sender<()>>,
    pub(super) outbound_task: JoinHandle<()>,
    pub(super) converge_task: JoinHandle<()>,
    pub(super) rollout_task: JoinHandle<()>,
    pub(super) engine_task: JoinHandle<MigratorEnd>,
    pub(super) rotator_task: Option<JoinHandle<RotatorEnd>>,
    pub(super) door_task: JoinHandle<()>,
    pub(super) desk: Desk,
    pub(super) standing: Standing,
}

impl Master {
    /// Serves until asked to stop, until the engine has rolled back, or until the store fails; then ends everything in order.
    /// Whatever it is doing, it leaves it there when the mastership is gone.
    pub(super) async fn wait(
        mut self,
        stop: impl Future<Output = ()> + Send,
        drain: Option<DataVersion>,
        phase: &Phase,
        stop_api: watch::Sender<bool>,
        mut api_task: JoinHandle<()>,
    ) -> Result<Mastership, RunError> {
        let standing = self.standing.clone();
        let why = tokio::select! {
            // What else ends at the same moment ends because of it.
            biased;
            why = standing.lost() => why,
            ended = self.serve(stop, drain, phase, stop_api, &mut api_task) => return ended,
        };
        Err(self.end_at_once(why, phase, &api_task))
    }

    async fn serve(
        &mut self,
        stop: impl Future<Output = ()> + Send,
        drain: Option<DataVersion>,
        phase: &Phase,
        stop_api: watch::Sender<bool>,
        api_task: &mut JoinHandle<()>,
    ) -> Result<Mastership, RunError> {
        let mut early = None;
        let mut engine_runs = true;
        let mut refused = None;
        tokio::pin!(stop);
        loop {
            tokio::select! {
                biased;
                () = &mut stop => {
                    match drain.filter(|_| engine_runs) {
                        Some(to) => refused = self.roll_back_first(to, &mut engine_runs).await,
                        None => tracing::info!("stopping: requests in flight finish first"),
                    }
                    break;
                }
                ended = &mut self.writer_task => {
                    early = Some(ended);
                    break;
                }
                ended = &mut self.engine_task, if engine_runs => {
                    engine_runs = false;
                    if report_engine(&ended) {
                        break;
                    }
                }
            }
        }
        phase.enter(Stage::Stopping);
        self.hub.close();
        stop_api.send_replace(true);
        let _ = api_task.await;
        phase.close(Stage::Stopping);
        self.door_task.abort();
        let _ = (&mut self.door_task).await;
        let _ = (&mut self.converge_task).await;
        let _ = (&mut self.rollout_task).await;
        if engine_runs {
            let _ = (&mut self.engine_task).await;
        }
        if let Some(rotator) = &mut self.rotator_task {
            let _ = rotator.await;
        }
        // The last handle to the writer is with the outbound calls: a callback under way still deletes its task.
        let _ = self.stop_outbound.take().map(|stop| stop.send(()));
        let _ = (&mut self.outbound_task).await;
        // Whoever stops a server ends the process next. Freeing a million records first would only make the next master wait.
        std::mem::forget(self.board.load_full());
        let ended = match early {
            Some(ended) => ended,
            None => (&mut self.writer_task).await,
        };
        match (ended, refused) {
            (Ok(WriterEnd::Drained(_)), Some(refused)) => Err(refused),
            (Ok(WriterEnd::Drained(held)), None) => Ok(held),
            (Ok(WriterEnd::Failed(error)), _)
                if matches!(*error, StoreError::NotMaster | StoreError::InDoubt { .. }) =>
            {
                Err(RunError::Deposed { why: "etcd refused or did not confirm its last write".to_owned() })
            }
            (Ok(WriterEnd::Failed(error)), _) => Err(RunError::StoreFailed(error)),
            (Err(_), _) => Err(RunError::Defect),
        }
    }

    /// Somebody else may be master already: nothing that is under way here may be finished, and nobody be answered.
    fn end_at_once(self, why: String, phase: &Phase, api_task: &JoinHandle<()>) -> RunError {
        phase.close(Stage::Stopping);
        api_task.abort();
        self.hub.close();
        self.writer_task.abort();
        self.outbound_task.abort();
        self.converge_task.abort();
        self.rollout_task.abort();
        self.engine_task.abort();
        self.door_task.abort();
        self.rotator_task.into_iter().for_each(|task| task.abort());
        // As in an orderly end, nobody waits for a million records to be freed.
        std::mem::forget(self.board.load_full());
        RunError::Deposed { why }
    }

    /// Goes back to an older data version while clients are served. Returns why not, if it may not.
    async fn roll_back_first(&mut self, to: DataVersion, engine_runs: &mut bool) -> Option<RunError> {
        tracing::info!(%to, "rolling back before the server stops; clients are served until it is done");
        match self.desk.ask(Ask::Rollback { to, accept_loss: false }).await {
            Ok(_) => {
                let ended = (&mut self.engine_task).await;
                *engine_runs = false;
                (!report_engine(&ended)).then_some(RunError::Defect)
            }
            Err(refused) if refused.code == "nothing-to-do" => None,
            Err(refused) => Some(RunError::DrainRefused { to, why: refused.message }),
        }
    }
}

/// Whether the engine has rolled back, so that the server has to stop.
fn report_engine(ended: &Result<MigratorEnd, JoinError>) -> bool {
    match ended {
        Ok(MigratorEnd::RolledBack { to }) => {
            tracing::info!(
                to = %to.number(),
                "rolled back to data version {} ({}); start the release whose newest data version that is",
                to.number(),
                to.name()
            );
            true
        }
        Ok(MigratorEnd::Stopped) => false,
        Err(error) => {
            tracing::error!(%error, "the migration engine met a defect; the server goes on without it");
            false
        }
    }
}
