//! What a node with keys has beside one without: the check of its keys before anything else, a rotation before anybody is let
//! in or beside everything else, and an operator who gives it other keys halfway.

use std::sync::Arc;

use store::memory::Memory;
use store::seal::Vault;
use store::{Mastership, Store, StoreError};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::gate::{Gated, Question};
use super::node::{Binary, lost_power};
use super::seals::ring;
use super::world::{ScriptClock, World};
use crate::clock::Clock;
use crate::config::{Encryption, KeySource, Rotation, RotationMode};
use crate::keys::alone::{self, AloneError};
use crate::keys::open::{KeyError, Unlocked, unlock};
use crate::keys::{First, KeyDesk, KeyTracker, Parts, Rotator, RotatorEnd, State};
use crate::migrate::open::{HistoryNumbers, Opened};
use crate::writer::Writer;

/// How many records a second each of two engines brings on, a tenth of it at once.
pub(super) const PACE_OF_TWO: u64 = 50;

/// The keys of a node: a letter each, the first is active. Without any, records are stored as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) mine: &'static str,
    /// Whether nobody is served while records are brought under the active one.
    pub(crate) alone: bool,
    /// The keys that the operator configures when half of the records are under the active one.
    pub(crate) later: Option<&'static str>,
}

impl Keys {
    pub(crate) const fn of(mine: &'static str) -> Self {
        Self { mine, alone: false, later: None }
    }

    pub(super) fn rotation(self) -> Rotation {
        let mode = if self.alone { RotationMode::Offline } else { RotationMode::Online };
        Rotation { mode, records_per_s_max: PACE_OF_TWO }
    }

    pub(super) fn encryption(self) -> Option<Encryption> {
        let source = KeySource::new(move || Ok(ring(self.later.unwrap_or(self.mine))));
        let some = !self.mine.is_empty();
        some.then(|| Encryption { keyring: ring(self.mine), rotation: self.rotation(), source })
    }
}

/// What the second engine works with.
pub(super) struct Beside {
    pub(super) vault: Arc<Vault>,
    pub(super) writer: Writer,
    pub(super) clock: Arc<ScriptClock>,
    pub(super) history: HistoryNumbers,
    pub(super) stop: watch::Receiver<bool>,
}

/// The second engine.
pub(super) struct Rotating {
    tracker: Arc<KeyTracker>,
    desk: KeyDesk,
    task: JoinHandle<RotatorEnd>,
    /// Whether the operator has yet to say that the keys are others now.
    awaits_word: bool,
}

impl Drop for Rotating {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Rotating {
    pub(super) fn start(keys: Keys, beside: Beside, rotates: bool) -> Self {
        let Beside { vault, writer, clock, history, stop } = beside;
        let rotation = keys.rotation();
        let tracker = Arc::new(KeyTracker::new(rotation.mode));
        let (desk, asks) = KeyDesk::new();
        let parts = Parts {
            vault,
            writer,
            clock,
            node: "test".into(),
            rotation,
            alone: false,
            tracker: tracker.clone(),
            history,
            migration: None,
            source: keys.encryption().map(|encryption| encryption.source),
            stop,
        };
        let rotator = Rotator::new(parts, if rotates { First::Rotate } else { First::Nothing }, asks);
        Self { tracker, desk, task: tokio::spawn(rotator.run()), awaits_word: keys.later.is_some() }
    }

    pub(super) fn is_settled(&self) -> bool {
        self.tracker.state() == State::Settled
    }

    /// Whether it is in the middle of something; it may be waiting for time to pass.
    pub(super) fn is_working(&self) -> bool {
        matches!(self.tracker.state(), State::Rotating | State::Verifying | State::Checking)
    }

    /// Where to say it, when half of the records are under the active key; that comes once.
    pub(super) fn is_time_for_a_word(&mut self) -> Option<KeyDesk> {
        let (state, progress) = self.tracker.progress();
        let is_time = self.awaits_word && state == State::Rotating && progress.done * 2 >= progress.total;
        self.awaits_word &= !is_time;
        is_time.then(|| self.desk.clone())
    }
}

/// A store that a node has the lock of and the keys for.
pub(super) struct Taken {
    pub(super) store: Memory,
    pub(super) held: Mastership,
    pub(super) binary: Binary,
    pub(super) clock: Arc<ScriptClock>,
    pub(super) gated: Gated,
    pub(super) questions: mpsc::Receiver<Question>,
    pub(super) unlocked: Unlocked,
}

impl Taken {
    /// Whoever was master of the store is no more.
    pub(super) async fn take(store: &Memory, binary: Binary, world: &World) -> Result<Self, KeyError> {
        let store = store.reopen();
        let held = store.campaign("test").await.unwrap();
        let clock = ScriptClock::at(world.propose().number);
        let (gated, questions) = Gated::new(store.clone());
        let for_keys: Arc<dyn Clock> = clock.clone();
        let unlocked = unlock(Arc::new(gated.clone()), binary.keys.encryption().as_ref(), &for_keys).await?;
        Ok(Self { store, held, binary, clock, gated, questions, unlocked })
    }

    /// As a server does that lets nobody in meanwhile.
    pub(super) async fn rotate_alone(mut self, opened: &Opened) -> Result<Self, StoreError> {
        let Some(vault) =
            self.unlocked.vault.as_ref().filter(|_| self.binary.keys.alone && !self.unlocked.is_settled())
        else {
            return Ok(self);
        };
        let (_never, stop) = watch::channel(false);
        let settings = alone::Settings {
            clock: self.clock.clone(),
            node: "test".into(),
            rotation: self.binary.keys.rotation(),
            history: opened.history.clone(),
            stop,
        };
        self.unlocked.count().await?;
        let tracker = Arc::new(KeyTracker::new(RotationMode::Offline));
        self.held = match alone::rotate(vault, self.held, settings, tracker).await {
            Ok((held, _)) => held,
            Err(AloneError::Store(error)) => return Err(error),
            Err(AloneError::StoreFailed(_)) => return Err(lost_power()),
            Err(error) => panic!("{error}"),
        };
        Ok(self)
    }
}
