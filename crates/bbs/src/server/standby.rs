//! A node that waits: it follows the store, so that it has everything in memory when its turn comes, and shows that it is
//! there.
//!
//! Promise: a node becomes master only if it could serve, by its keys and by its data versions. One that could not when it
//! started has ended with the reason; one that no longer could since then waits until it can again, and says why.

use std::sync::Arc;
use std::time::Duration;

use store::{Mastership, Store};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{RunError, Start};
use crate::board::Board;
use crate::follow::{self, Followed, Warm};
use crate::keys::open::Unlocked;
use crate::phase::Phase;
use crate::{keys, migrate};

/// How long a new master waits for the last changes of the former one to reach it before it reads everything itself.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(3);
/// How often a node that could not take over looks again, in case it heard of nothing.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What a node has when it has become master.
pub(super) struct Elected {
    pub(super) held: Mastership,
    pub(super) unlocked: Unlocked,
    /// The records, if they were followed to the end.
    pub(super) followed: Option<Followed>,
}

/// A node on its way to becoming master.
pub(super) struct Standby<'a> {
    pub(super) start: &'a Start,
    pub(super) store: Arc<dyn Store>,
    pub(super) phase: Arc<Phase>,
    pub(super) stop: watch::Receiver<bool>,
}

impl Standby<'_> {
    /// Returns `None` if the server was asked to stop before it was master.
    pub(super) async fn wait(mut self) -> Result<Option<Elected>, RunError> {
        self.check_fitness().await?;
        let encryption = self.start.config.encryption.as_ref();
        let unlocked = keys::open::unlock(self.store.clone(), encryption, &self.start.clock).await?;
        let warm = Warm::new();
        self.phase.follow_store(warm.clone());
        let (_end, until) = watch::channel(false);
        let following =
            tokio::spawn(follow::follow(self.store.clone(), unlocked.clone(), self.phase.clone(), warm.clone(), until));
        let held = self.campaign(&warm).await;
        let elected = match held? {
            Some(held) => Some(self.enter_office(held, unlocked, &warm).await?),
            None => None,
        };
        end(following).await;
        Ok(elected)
    }

    /// Whether this node could serve the store as it is now.
    async fn check_fitness(&self) -> Result<(), RunError> {
        keys::open::check(&*self.store, self.start.config.encryption.as_ref()).await?;
        migrate::open::check(&*self.store, self.start.config.newest).await?;
        Ok(())
    }

    async fn campaign(&mut self, warm: &Warm) -> Result<Option<Mastership>, RunError> {
        let mut ticks = warm.control_changes();
        loop {
            ticks.borrow_and_update();
            let fitness = self.check_fitness().await;
            self.phase.cannot_take_over(fitness.as_ref().err().map(ToString::to_string));
            if let Err(error) = fitness {
                tracing::error!(%error, "this node waits, and will not become master as things are");
                tokio::select! {
                    _ = self.stop.wait_for(|stop| *stop) => return Ok(None),
                    _ = ticks.changed() => {}
                    () = tokio::time::sleep(LOOK_AGAIN) => {}
                }
                continue;
            }
            tokio::select! {
                held = self.store.campaign(&self.start.config.node) => return Ok(Some(held?)),
                _ = self.stop.wait_for(|stop| *stop) => return Ok(None),
                Ok(()) = ticks.changed() => {}
            }
        }
    }

    /// Everything that others committed is durable now and nothing can be added to it, so it can be heard of to the end.
    async fn enter_office(&self, held: Mastership, unlocked: Unlocked, warm: &Warm) -> Result<Elected, RunError> {
        let followed = warm.take_at(self.store.revision(), CATCH_UP_LIMIT).await;
        if followed.is_some() && self.has_current_ledger(&unlocked).await? {
            return Ok(Elected { held, unlocked, followed });
        }
        let encryption = self.start.config.encryption.as_ref();
        match keys::open::unlock(self.store.clone(), encryption, &self.start.clock).await {
            Ok(unlocked) => Ok(Elected { held, unlocked, followed: None }),
            Err(error) => {
                // Somebody else may have the key.
                self.store.resign(held).await?;
                Err(error.into())
            }
        }
    }

    /// What was heard of the keys is checked against the store once more, because what is sealed rests on it.
    async fn has_current_ledger(&self, unlocked: &Unlocked) -> Result<bool, RunError> {
        let Some(vault) = &unlocked.vault else { return Ok(true) };
        let stored = store::seal::ledger::read_ledger(&*self.store).await.map_err(keys::open::KeyError::from)?;
        let heard = vault.ledger();
        let is_current = heard.marker == stored.marker && heard.entries == stored.entries;
        if !is_current {
            tracing::warn!("what this node heard of the keys is not what the store says; it reads everything itself");
        }
        Ok(is_current)
    }
}

async fn end(following: JoinHandle<()>) {
    following.abort();
    let _ = following.await;
}

/// The board of a node that followed, if it is of the version that is served.
pub(super) fn board_of(followed: Option<Followed>, current: store::Version) -> Option<Board> {
    followed.filter(|followed| followed.version == current).map(|followed| followed.board)
}
