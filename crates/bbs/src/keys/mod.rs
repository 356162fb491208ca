//! The rotation engine: brings every record under the active key while it is served, and proves it.
//!
//! Promise: `/encryption-key` is absent from before the first record is sealed with another key until after every record,
//! in every root and in quarantine, was read from the store and opened with the active one. A record that cannot be opened
//! keeps it absent, and keeps its key needed, until an operator decides about that record. So a key that is called free is
//! free, and removing one that is not makes a node refuse the lock, by name.
//!
//! ```text
//!   begin ──────▶ sweep ──▶ verify ──▶ finish
//!   marker gone,              │        marker written,
//!   key in ledger             └──▶ blocked: these records, by id
//! ```
//!
//! It works on bytes, not on entities: a record is opened and sealed again whatever it holds, so it needs no data version to
//! be readable and runs beside a migration without knowing of it. There is no saved position: whoever becomes master finds
//! out by the names on the records what is left to do. First encryption is the same: a plain record is one under no key.
//!
//! One task does all of it and hears operators between two batches. [`open`] is what happens before a node serves, [`status`]
//! what everybody may know meanwhile.

pub mod alone;
pub mod open;
pub mod status;
mod sweep;
#[cfg(test)]
mod tests;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use store::root::{Entry, HistoryEvent, QUARANTINE_ROOT, append_history};
use store::seal::ledger::{KeyRefusal, judge};
use store::seal::{Keyring, Vault};
use store::{Step, Store, StoreError};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

pub use self::status::{KeyTracker, KeysStatus, State};
pub use self::verify::{Broken, Tally};

use crate::board::{Kept, Place};
use crate::clock::Clock;
use crate::config::{KeySource, Rotation};
use crate::migrate::ask::{Answer, Asked, Desk, Did, Refused};
use crate::migrate::open::HistoryNumbers;
use crate::migrate::status::Tracker;
use crate::writer::errand::Control;
use crate::writer::{WriteError, Writer};

/// How long to wait before a store that could not be read or had no room is tried again.
const STORE_RETRY: Duration = Duration::from_secs(1);
/// How often a blocked rotation looks whether what blocks it is gone.
const BLOCKED_EVERY: Duration = Duration::from_secs(5);
/// How often the log repeats what status warns of.
const WARN_EVERY: Duration = Duration::from_secs(600);
/// How often the log says how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// What an operator may ask of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyAsk {
    /// Read the configured keys again, and bring every record under the active one.
    Rotate {
        /// Keys that records need and the configuration no longer has stay in use, until this process ends: the way out when
        /// the bytes of a key are lost and a server still has them.
        keep_missing: bool,
    },
    /// Open every record and count by key. Changes no record.
    Verify,
}

pub type KeyDesk = Desk<KeyAsk>;

/// What the engine works with.
#[derive(Debug)]
pub struct Parts {
    pub vault: Arc<Vault>,
    pub writer: Writer,
    pub clock: Arc<dyn Clock>,
    pub node: String,
    pub rotation: Rotation,
    /// Whether nobody is served meanwhile.
    pub alone: bool,
    pub tracker: Arc<KeyTracker>,
    pub history: HistoryNumbers,
    /// Which data version is served; `None` where none is.
    pub migration: Option<Arc<Tracker>>,
    /// `None` where the keys cannot change.
    pub source: Option<KeySource>,
    pub stop: watch::Receiver<bool>,
}

/// Why the engine does not go on with what it was doing.
#[derive(Debug)]
enum Trouble {
    /// An operator asked for something else.
    Changed,
    Stopping,
    Store(StoreError),
    Write(Arc<WriteError>),
}

impl From<WriteError> for Trouble {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopping | WriteError::Unanswered => Self::Stopping,
            error => Self::Write(Arc::new(error)),
        }
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Nothing,
    Rotate,
    /// All is done but for the bytes of former records, which the old keys, or nobody, opened.
    Forget,
    Verify,
    /// Records stand in the way.
    Blocked,
}

/// What the engine begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    Nothing,
    /// [`open::begin`] found something to do.
    Rotate,
    /// Everything was brought under the active key before this node served.
    Forget,
    Verify,
}

/// How the engine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotatorEnd {
    Stopped,
    /// Only of one that works alone: nothing more can be done.
    Done,
}

#[derive(Debug)]
pub struct Rotator {
    parts: Parts,
    asks: mpsc::Receiver<Asked<KeyAsk>>,
    task: Task,
    begun: Instant,
    last_word: Instant,
    last_warning: Instant,
}

impl Rotator {
    pub fn new(parts: Parts, first: First, asks: mpsc::Receiver<Asked<KeyAsk>>) -> Self {
        let now = Instant::now();
        let total = parts.vault.census().total();
        let task = match first {
            First::Nothing => Task::Nothing,
            First::Forget => Task::Forget,
            First::Rotate => {
                parts.tracker.begin(State::Rotating, total);
                Task::Rotate
            }
            First::Verify => {
                parts.tracker.begin_verification(total);
                Task::Verify
            }
        };
        Self { parts, asks, task, begun: now, last_word: now, last_warning: now }
    }

    /// Works until told to stop, or until the store fails; one that works alone ends when there is nothing more to do.
    pub async fn run(mut self) -> RotatorEnd {
        loop {
            let done = match self.task {
                Task::Nothing | Task::Forget | Task::Blocked if self.parts.alone => return RotatorEnd::Done,
                Task::Rotate => self.rotate().await,
                Task::Forget => self.forget_superseded().await,
                Task::Verify => self.verify_for_operator().await,
                Task::Nothing | Task::Blocked => self.wait().await,
            };
            match done {
                Ok(()) | Err(Trouble::Changed) => {}
                Err(Trouble::Stopping) => return RotatorEnd::Stopped,
                Err(trouble) => {
                    if !survives(&trouble) {
                        return RotatorEnd::Stopped;
                    }
                    tokio::time::sleep(STORE_RETRY).await;
                }
            }
        }
    }

    async fn rotate(&mut self) -> Result<(), Trouble> {
        self.begun = Instant::now();
        let stuck = self.sweep().await?;
        let tally = self.verify(State::Verifying).await?;
        let active = self.active().active().to_string();
        if tally.is_all_under(&active) {
            if !self.finish(&tally).await? {
                // Not in a hurry: whatever came up has to be read again, and everything else with it.
                tokio::time::sleep(STORE_RETRY).await;
            }
            return Ok(());
        }
        self.block(tally.blocked(stuck, &active)).await
    }

    /// Records keep the marker from being written; everything else is done.
    async fn block(&mut self, blocked: Vec<Broken>) -> Result<(), Trouble> {
        tracing::error!(
            records = blocked.len(),
            example = blocked.first().map(|broken| broken.id.as_str()),
            "records are not under the active key and cannot be brought there, so the old keys stay needed; `corkboard keys \
             status` names the records"
        );
        self.name_in_quarantine(&blocked).await?;
        self.parts.tracker.block(blocked);
        self.task = Task::Blocked;
        Ok(())
    }

    /// What cannot be opened may lie in a root that is not served, which nobody has read: from now on an operator finds it with
    /// all others that cannot be read. In the served root all were found when it was read; one that was damaged since is
    /// named by the status alone, because the board still holds what it was.
    async fn name_in_quarantine(&self, blocked: &[Broken]) -> Result<(), Trouble> {
        let served = self.parts.migration.as_ref().map(|migration| migration.current().root());
        let mut found = Vec::new();
        for Broken { id, why, .. } in
            blocked.iter().filter(|broken| !served.is_some_and(|root| broken.id.starts_with(root)))
        {
            let place = if id.starts_with(QUARANTINE_ROOT) { Place::Displaced } else { Place::InPlace };
            if let Some(bytes) = self.parts.vault.inner().get(id).await? {
                found.push((id.clone(), Arc::new(Kept { why: why.clone(), bytes, place })));
            }
        }
        let edit = Arc::new(move |board: &mut crate::Board| {
            for (id, kept) in &found {
                board.quarantine.entry(id.clone()).or_insert_with(|| kept.clone());
            }
        });
        Ok(self.parts.writer.control(Control { edit: Some(edit), ..Control::default() }).await?)
    }

    /// All records were read and opened under the active key: from now on the marker says so, and no other key is needed.
    /// `false` when that is not so any more.
    async fn finish(&mut self, tally: &Tally) -> Result<bool, Trouble> {
        let vault = self.parts.vault.clone();
        let active = self.active().active().to_string();
        let mut step = Step::default();
        vault.finish(&mut step);
        let detail = format!("all {} records are under key {active}", tally.records);
        append_history(&mut step, self.parts.history.take(), &self.entry(HistoryEvent::KeyRotationEnded, &detail));
        let check = Arc::new(move |_: &crate::Board| vault.stale() == 0);
        let control = Control { check: Some(check), steps: vec![step], ..Control::default() };
        match self.parts.writer.control(control).await {
            Ok(()) => {}
            // A record of another key came up since, such as one that was moved aside: look again.
            Err(WriteError::Refused(_)) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        let took = self.begun.elapsed();
        tracing::info!(key = active, records = tally.records, ?took, "all records are under the active key");
        self.parts.tracker.settle(took);
        self.task = Task::Forget;
        Ok(true)
    }

    /// A record that was sealed again may still lie in the files of the store as it was before.
    async fn forget_superseded(&mut self) -> Result<(), Trouble> {
        self.task = Task::Nothing;
        let forgotten = tokio::select! {
            _ = self.parts.stop.wait_for(|stop| *stop) => return Err(Trouble::Stopping),
            forgotten = self.parts.vault.forget_superseded() => forgotten,
        };
        match forgotten {
            Ok(()) => tracing::info!("former bytes of records are gone from the files of the store"),
            Err(error) => tracing::warn!(%error, "former bytes of records stay in the files of the store for now"),
        }
        Ok(())
    }

    fn active(&self) -> Arc<Keyring> {
        self.parts.vault.keyring()
    }

    fn entry(&self, what: HistoryEvent, detail: &str) -> Entry {
        open::entry(self.parts.clock.now_ns(), &self.parts.node, what, detail)
    }

    async fn wait(&mut self) -> Result<(), Trouble> {
        let heard = tokio::select! {
            _ = self.parts.stop.wait_for(|stop| *stop) => return Err(Trouble::Stopping),
            asked = self.asks.recv() => Some(asked),
            () = tokio::time::sleep(if self.task == Task::Blocked { BLOCKED_EVERY } else { WARN_EVERY }) => None,
        };
        match heard {
            Some(Some(asked)) => self.hear(asked).await,
            Some(None) => Err(Trouble::Stopping),
            None => {
                self.repeat_warnings();
                self.look_at_what_blocks().await
            }
        }
    }

    /// An operator may have decided about a record that was in the way, or a client written over it.
    async fn look_at_what_blocks(&mut self) -> Result<(), Trouble> {
        for broken in self.parts.tracker.blocked() {
            let value = self.parts.vault.inner().get(&broken.id).await?;
            if value.is_none_or(|value| self.parts.vault.is_under_active(&broken.id, &value)) {
                self.start();
                return Ok(());
            }
        }
        Ok(())
    }

    fn repeat_warnings(&mut self) {
        if self.last_warning.elapsed() >= WARN_EVERY {
            self.last_warning = Instant::now();
            let status = self.parts.tracker.status(&self.parts.vault);
            status.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        }
    }

    fn start(&mut self) {
        self.task = Task::Rotate;
        self.parts.tracker.begin(State::Rotating, self.parts.vault.census().total());
    }

    /// Between two batches.
    async fn attend(&mut self) -> Result<(), Trouble> {
        self.report_progress();
        if *self.parts.stop.borrow() {
            return Err(Trouble::Stopping);
        }
        match self.asks.try_recv() {
            Ok(asked) => self.hear(asked).await,
            Err(_) => Ok(()),
        }
    }

    /// `Changed` when what was under way is not to be gone on with.
    async fn hear(&mut self, Asked { ask, reply }: Asked<KeyAsk>) -> Result<(), Trouble> {
        let before = self.task;
        let (answer, changed) = match ask {
            KeyAsk::Rotate { keep_missing } => {
                let answer = self.rotate_again(keep_missing).await;
                let changed = answer.is_ok();
                (answer, changed)
            }
            KeyAsk::Verify if before == Task::Rotate => {
                let message = "every record is being brought under the active key, and is verified at the end of that";
                let watch = Some("corkboard keys status --watch");
                (Err(Refused::new("rotating", message, watch)), false)
            }
            KeyAsk::Verify => {
                self.task = Task::Verify;
                self.parts.tracker.begin_verification(self.parts.vault.census().total());
                (Ok(Did::new("every record is being opened")), before != Task::Verify)
            }
        };
        // An operator who hung up does not read the answer.
        let _ = reply.send(answer);
        if changed { Err(Trouble::Changed) } else { Ok(()) }
    }

    /// Takes the keys that are configured now, if no record is left without its own, and starts over.
    async fn rotate_again(&mut self, keep_missing: bool) -> Answer {
        let configured = match &self.parts.source {
            Some(source) => {
                let source = source.clone();
                let read = tokio::task::spawn_blocking(move || source.read()).await;
                read.unwrap_or_else(|_| Err("the keys could not be read".to_owned())).map_err(|why| {
                    Refused::new("bad-keys", format!("{why}\nThe keys in use stay as they are."), None)
                })?
            }
            None => self.active(),
        };
        let vault = self.parts.vault.clone();
        let keyring = if keep_missing { Arc::new(configured.keeping(&vault.keyring())) } else { configured };
        open::refuse_missing(&vault, &keyring)?;
        judge(&vault.ledger(), Some(&keyring)).map_err(|refusal| {
            let what = match refusal {
                KeyRefusal::OtherBytes { name } => {
                    format!("key {name} has other bytes in the configuration than in the store")
                }
                KeyRefusal::MarkerUnknown { marker, .. } => format!("the configuration lacks key {marker}"),
                KeyRefusal::NeededMissing { missing, .. } => {
                    format!("the configuration lacks key {}", missing.join(" and key "))
                }
            };
            let message = format!("{what}, and records are sealed with it. The keys in use stay as they are");
            Refused::new("key-missing", message, Some("corkboard keys status"))
        })?;
        let active = keyring.active().to_string();
        let had = vault.keyring();
        let same = had.active() == keyring.active() && had.check(&active) == keyring.check(&active);
        if same && vault.ledger().marker.as_deref() == Some(&active) && vault.stale() == 0 {
            // Keys that were added or taken away without the active one changing need no record to be touched.
            vault.replace_keys(keyring);
            self.parts.tracker.settle(Duration::ZERO);
            self.task = Task::Nothing;
            let message = format!("all records are under key {active} already; there is nothing to do");
            return Ok(Did::new(message));
        }
        let mut step = Step::default();
        vault.begin(&mut step, &keyring, self.parts.clock.now_ns());
        let detail = format!("to key {active}, at the word of an operator");
        append_history(&mut step, self.parts.history.take(), &self.entry(HistoryEvent::KeyRotationBegun, &detail));
        let edit = {
            let keyring = keyring.clone();
            Arc::new(move |_: &mut crate::Board| vault.replace_keys(keyring.clone()))
        };
        let control = Control { steps: vec![step], edit: Some(edit), ..Control::default() };
        self.parts.writer.control(control).await.map_err(|error| match error {
            WriteError::Store(error) => Refused::new("not-stored", error.to_string(), Some("corkboard keys rotate")),
            _ => Refused::not_master(),
        })?;
        tracing::info!(key = active, "bringing every record under the active key");
        self.start();
        Ok(Did::new(format!("records are being brought under key {active}")))
    }

    fn report_progress(&mut self) {
        if self.last_word.elapsed() < PROGRESS_EVERY {
            return;
        }
        self.last_word = Instant::now();
        let (state, progress) = self.parts.tracker.progress();
        tracing::info!(?state, done = progress.done, total = progress.total, eta_s = progress.eta_s, "key rotation");
    }
}

/// Whether it is worth starting over. What is gone for good ends the whole server elsewhere.
fn survives(trouble: &Trouble) -> bool {
    match trouble {
        Trouble::Changed | Trouble::Stopping => true,
        Trouble::Store(error) => {
            tracing::warn!(%error, "the key rotation could not read its store; it starts over in a moment");
            error.retryable()
        }
        Trouble::Write(error) => {
            tracing::warn!(%error, "the key rotation could not write; it starts over in a moment");
            !matches!(&**error, WriteError::Store(cause) if cause.outcome_unknown() || !cause.retryable())
        }
    }
}
