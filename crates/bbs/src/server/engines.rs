//! The engines that work beside the clients: one brings records to another data version, the other under another key.

use std::sync::Arc;

use arc_swap::ArcSwap;
use store::seal::Vault;
use store::{Mastership, Store};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{RunError, Start};
use crate::config::RotationMode;
use crate::keys::open::Unlocked;
use crate::keys::{First, KeyDesk, KeyTracker, Rotator, RotatorEnd};
use crate::migrate::ask::Desk;
use crate::migrate::open::{HistoryNumbers, Opened};
use crate::migrate::status::Tracker;
use crate::migrate::{Access, Migrator, MigratorEnd};
use crate::operations::Operations;
use crate::phase::{Phase, Stage};
use crate::writer::Writer;
use crate::{keys, migrate, operations};

/// What the migration engine works on.
pub(super) struct AtHand {
    pub(super) store: Arc<dyn Store>,
    pub(super) board: Arc<ArcSwap<crate::Board>>,
    pub(super) writer: Writer,
    pub(super) tracker: Arc<Tracker>,
    pub(super) keys: Option<operations::Keys>,
}

/// What the rotation engine works on.
pub(super) struct Rotating {
    pub(super) vault: Arc<Vault>,
    pub(super) writer: Writer,
    pub(super) history: HistoryNumbers,
    pub(super) migration: Arc<Tracker>,
}

/// The migration engine as the rest of the server sees it.
pub(super) struct Engine {
    pub(super) task: JoinHandle<MigratorEnd>,
    pub(super) access: watch::Receiver<Access>,
    pub(super) guard: Arc<ArcSwap<migrate::Guard>>,
    pub(super) desk: Desk,
}

impl Start {
    /// Brings all records under the active key before anybody is let in, if that is how it is configured and there is
    /// something to do.
    pub(super) async fn rotate_alone(
        &self,
        unlocked: &Unlocked,
        held: Mastership,
        opened: &Opened,
        phase: &Arc<Phase>,
        stop: watch::Receiver<bool>,
    ) -> Result<(Mastership, Option<RotatorEnd>), RunError> {
        let offline = self.config.encryption.as_ref().is_some_and(|keys| keys.rotation.mode == RotationMode::Offline);
        let Some(vault) = unlocked.vault.as_ref().filter(|_| offline && !unlocked.is_settled()) else {
            return Ok((held, None));
        };
        phase.enter(Stage::Reencrypting);
        let encryption = self.config.encryption.as_ref();
        let settings = keys::alone::Settings {
            clock: self.clock.clone(),
            node: self.config.node.clone(),
            rotation: encryption.map(|encryption| encryption.rotation).unwrap_or_default(),
            history: opened.history.clone(),
            stop,
        };
        let tracker = Arc::new(KeyTracker::new(RotationMode::Offline));
        phase.follow_rotation(tracker.clone(), vault.clone());
        unlocked.count().await?;
        let (held, end) = keys::alone::rotate(vault, held, settings, tracker).await?;
        Ok((held, Some(end)))
    }

    pub(super) fn start_rotator(
        &self,
        at_hand: Rotating,
        first: First,
        stop: watch::Receiver<bool>,
    ) -> (JoinHandle<RotatorEnd>, operations::Keys) {
        let Rotating { vault, writer, history, migration } = at_hand;
        let encryption = self.config.encryption.as_ref();
        let rotation = encryption.map(|encryption| encryption.rotation).unwrap_or_default();
        let tracker = Arc::new(KeyTracker::new(rotation.mode));
        let (desk, asks) = KeyDesk::new();
        let parts = keys::Parts {
            vault: vault.clone(),
            writer,
            clock: self.clock.clone(),
            node: self.config.node.clone(),
            rotation,
            alone: false,
            tracker: tracker.clone(),
            history,
            migration: Some(migration),
            source: encryption.map(|encryption| encryption.source.clone()),
            stop,
        };
        let task = tokio::spawn(Rotator::new(parts, first, asks).run());
        (task, operations::Keys { vault, tracker, desk })
    }

    pub(super) fn start_engine(
        &self,
        AtHand { store, board, writer, tracker, keys }: AtHand,
        opened: Opened,
        phase: &Arc<Phase>,
        stop: watch::Receiver<bool>,
    ) -> Engine {
        let guard = migrate::Guard { verdict: opened.guard.clone(), found: opened.cluster_id.clone() };
        if !guard.trusts_the_store() {
            tracing::error!("{}", guard.explain());
        }
        let guard = Arc::new(ArcSwap::from_pointee(guard));
        let (newest, settings) = (self.config.newest, self.config.migration);
        let (desk, asks) = Desk::new();
        phase.attend(Arc::new(Operations {
            store: store.clone(),
            board: board.clone(),
            tracker: tracker.clone(),
            guard: guard.clone(),
            desk: desk.clone(),
            newest,
            keys,
        }));
        let parts = migrate::Parts {
            store,
            writer,
            board,
            clock: self.clock.clone(),
            node: self.config.node.clone(),
            newest,
            settings,
            tracker,
            guard: guard.clone(),
            identity: Some(self.config.identity.clone()),
            stop,
        };
        let (migrator, access) = Migrator::new(parts, opened, asks);
        Engine { task: tokio::spawn(migrator.run()), access, guard, desk }
    }
}
