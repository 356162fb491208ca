//! A server that serves only while it has its lock in Locket.
//!
//! Promise: the store is opened only by the node that has the lock. One that has lost it, or cannot know, ends at once,
//! whatever it was doing. One that is asked to stop gives the lock back when its store is closed, so that the next node starts
//! at once.

use std::sync::Arc;
use std::time::Duration;

use api::locket::Client;
use store::{Standing, Store, StoreError};
use tokio::time::Instant;

use super::{Node, Ready, RunError, Start};
use crate::config::{self, Opener};
use crate::locket::Lock;
use crate::locket::leased::Leased;

/// How long a node that has the lock waits for the former one to let go of the directory, which it does when its process ends.
const DIRECTORY_PATIENCE: Duration = Duration::from_secs(5);
const DIRECTORY_PAUSE: Duration = Duration::from_millis(50);

/// What a node has from Locket when it has the lock.
#[derive(Clone, Debug)]
pub(super) struct Locked {
    pub(super) client: Client,
    pub(super) standing: Standing,
}

impl Start {
    /// Waits for the lock, and serves while it has it.
    pub(super) async fn run_under_lock(
        mut self,
        locket: &config::Locket,
        node: Node,
        ready: impl FnOnce(Ready) + Send,
    ) -> Result<(), RunError> {
        let phase = node.status.phase.clone();
        let Some(lock) = Lock::take(locket, phase, self.clock.clone(), node.stop.clone()).await? else {
            tracing::info!("stopped while waiting; this server did not have its lock in Locket");
            return Ok(());
        };
        let standing = lock.standing();
        self.locked = Some(Locked { client: lock.client().clone(), standing: standing.clone() });
        let outcome = tokio::select! {
            // A master that loses its lock puts its own house in order.
            biased;
            outcome = Box::pin(self.run_on_store(node, ready)) => outcome,
            why = standing.lost() => Err(RunError::Deposed { why }),
        };
        match outcome {
            Err(RunError::Deposed { why }) if lock.is_lost() => Err(RunError::LockLost { why }),
            // Whoever is in the directory may have the lock under the same name; it is not ours to give back then.
            Err(error @ RunError::Store(StoreError::Locked { .. })) => Err(error),
            outcome => {
                lock.release().await;
                outcome
            }
        }
    }

    /// Opens the store; under a lock, its standing is that of the lock too.
    pub(super) async fn open_store(&self) -> Result<Arc<dyn Store>, RunError> {
        let Some(locked) = &self.locked else { return Ok(self.config.store.open(Opener::Server).await?) };
        let until = Instant::now() + DIRECTORY_PATIENCE;
        loop {
            match self.config.store.open(Opener::Server).await {
                Ok(store) => return Ok(Arc::new(Leased::new(store, locked.standing.clone()))),
                Err(StoreError::Locked { .. }) if Instant::now() < until => {
                    tokio::time::sleep(DIRECTORY_PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
