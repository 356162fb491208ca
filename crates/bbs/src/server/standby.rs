//! A node that waits: it follows the store, so that it has everything in memory when its turn comes, and shows that it is
//! there.
//!
//! Promise: a node becomes master only if it could serve, by its keys and by its data versions. One that could not when it
//! started has ended with the reason; one that no longer could since then waits until it can again, and says why.

use std::sync::Arc;
use std::time::Duration;

use store::{Mastership, Store};
use tokio::sync::watch;

use super::{RunError, Start, until};
use crate::board::Board;
use crate::follow::{self, Followed, Warm};
use crate::keys::open::{KeyError, Unlocked};
use crate::phase::Phase;
use crate::{config, keys, migrate};

/// How long a new master waits for the last changes of the former one to reach it before it reads everything itself.
const CATCH_UP_LIMIT: Duration = Duration::from_secs(3);
/// How often a node that cannot take over looks whether it can.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How long a node that could take over waits at least before it looks again whether it still can.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

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
    pub(super) async fn wait(self) -> Result<Option<Elected>, RunError> {
        self.check_fitness().await?;
        let unlocked = self.unlock().await?;
        if matches!(self.start.config.store, config::Store::Embedded { .. }) {
            // Nobody else can be master, so there is nobody to wait for.
            let held = self.store.campaign(&self.start.config.node).await?;
            return Ok(Some(Elected { held, unlocked, followed: None }));
        }
        let warm = Arc::new(Warm::default());
        self.phase.follow_store(warm.clone());
        let (end, ended) = watch::channel(false);
        let following = tokio::spawn(follow::follow(self.store.clone(), unlocked.clone(), warm.clone(), ended));
        let held = self.campaign(&warm).await;
        let followed = match &held {
            Ok(Some(_)) => warm.take_at(self.store.revision(), CATCH_UP_LIMIT).await,
            Ok(None) | Err(_) => None,
        };
        // It must not touch the vault any more once this node works with it.
        end.send_replace(true);
        let _ = following.await;
        match held? {
            Some(held) => self.enter_office(held, unlocked, followed).await.map(Some),
            None => Ok(None),
        }
    }

    async fn unlock(&self) -> Result<Unlocked, KeyError> {
        keys::open::unlock(self.store.clone(), self.start.config.encryption.as_ref(), &self.start.clock).await
    }

    /// Whether this node could serve the store as it is now.
    async fn check_fitness(&self) -> Result<(), RunError> {
        keys::open::check(&*self.store, self.start.config.encryption.as_ref()).await?;
        migrate::open::check(&*self.store, self.start.config.newest).await?;
        Ok(())
    }

    async fn campaign(&self, warm: &Warm) -> Result<Option<Mastership>, RunError> {
        let mut told = None;
        loop {
            let fitness = self.check_fitness().await;
            self.phase.cannot_take_over(fitness.as_ref().err().map(ToString::to_string));
            match fitness {
                Ok(()) => {
                    told = None;
                    let held = tokio::select! {
                        held = self.store.campaign(&self.start.config.node) => held?,
                        () = until(self.stop.clone()) => return Ok(None),
                        () = self.until_unfit(warm) => continue,
                    };
                    // Nobody else commits any more. What was true before the election need not be.
                    if self.check_fitness().await.is_ok() {
                        return Ok(Some(held));
                    }
                    self.store.resign(held).await?;
                }
                Err(error) => {
                    let why = error.to_string();
                    if told.as_ref() != Some(&why) {
                        tracing::error!(why, "this node waits, and will not become master as things are");
                        told = Some(why);
                    }
                    tokio::select! {
                        () = until(self.stop.clone()) => return Ok(None),
                        () = tokio::time::sleep(LOOK_AGAIN) => {}
                    }
                }
            }
        }
    }

    /// Looks again whenever something has changed that may matter, but not all the time: how often a key sealed is among it,
    /// and that changes with every commit.
    async fn until_unfit(&self, warm: &Warm) {
        let mut ticks = warm.control_changed();
        while ticks.changed().await.is_ok() {
            tokio::time::sleep(LOOK_INTERVAL).await;
            ticks.borrow_and_update();
            if matches!(self.check_fitness().await, Err(RunError::Keys(KeyError::Refused(_)) | RunError::Open(_))) {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    /// Everything that others committed is durable now and nothing can be added to it. What was followed to that point need
    /// not be read.
    async fn enter_office(
        &self,
        held: Mastership,
        unlocked: Unlocked,
        followed: Option<Followed>,
    ) -> Result<Elected, RunError> {
        if followed.is_some() && self.has_current_ledger(&unlocked).await? {
            return Ok(Elected { held, unlocked, followed });
        }
        match self.unlock().await {
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

/// The board of a node that followed, if it is of the version that is served.
pub(super) fn board_of(followed: Option<Followed>, current: store::Version) -> Option<Board> {
    followed.filter(|followed| followed.version == current).map(|followed| followed.board)
}
