//! The migration engine: brings a store from one data version to another while it is served, and back.
//!
//! Promise: at every moment one form of the data is complete and named by `/version`, whatever crashes. Old records are
//! deleted only after the version that replaces them is the current one, and never while a record that cannot be read is in
//! quarantine. Every write goes through the writer, under the mastership, so a deposed master's engine stops at its next one.
//!
//! ```text
//!   sweep ──▶ verify ──▶ ready ──▶ finalize ──▶ clean up            forward
//!     │         │          │       (one write)   (point of no return)
//!     └── abort ┴──────────┘
//!   sweep ──▶ verify ──▶ close ──▶ /version = {older, older} ──▶ stop   back
//! ```
//!
//! While both forms are written, the former release can take over at any moment: it finds its data complete. The engine keeps
//! no position. Whoever becomes master starts the sweep over, because somebody else may have served in between.
//!
//! One task does all of it, and answers operators between two batches; see [`ask`]. [`open`] is what happens before, [`status`]
//! what everybody may know meanwhile, [`plan`] the rehearsal that writes nothing.

pub mod ask;
mod conduct;
mod guard;
pub mod open;
pub mod plan;
mod quarantine;
pub mod status;
mod sweep;
#[cfg(test)]
pub(crate) mod tests;
mod verify;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use store::identity::Identity;
use store::record::DataVersion;
use store::root::{Control as Will, Entry, HistoryEvent, VersionRecord, append_history};
use store::{Step, Store, StoreError, Version};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

pub use self::guard::Guard;

use self::ask::{Answer, Ask, Asked};
use self::open::{HistoryNumbers, Opened, Work};
use self::status::{Facts, State, Tracker};
use crate::board::Board;
use crate::clock::Clock;
use crate::config::{self, Mode};
use crate::pace::Batch;
use crate::writer::errand::Control;
use crate::writer::{WriteError, Writer};

/// How long to wait before a store that could not be read or had no room is tried again.
const STORE_RETRY: Duration = Duration::from_secs(1);
/// How often the log says how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);
/// How often a node looks whether its store has come to hold data.
const IDENTITY_EVERY: Duration = Duration::from_secs(10);

/// How much of the API is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Nothing,
    Reads,
    All,
}

/// What the engine works with.
#[derive(Debug)]
pub struct Parts {
    pub store: Arc<dyn Store>,
    pub writer: Writer,
    pub board: Arc<ArcSwap<Board>>,
    pub clock: Arc<dyn Clock>,
    pub node: String,
    pub newest: Version,
    pub settings: config::Migration,
    pub tracker: Arc<Tracker>,
    pub guard: Arc<ArcSwap<Guard>>,
    /// Where the node keeps its copy of the store's identity.
    pub identity: Option<PathBuf>,
    pub stop: watch::Receiver<bool>,
}

/// Why the engine does not go on with what it was doing.
#[derive(Debug)]
enum Trouble {
    /// An operator decided otherwise.
    Changed,
    Stopping,
    Store(StoreError),
    Write(Arc<WriteError>),
    /// A record or its copy is not what it should be.
    Content(String),
}

impl From<WriteError> for Trouble {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Stopping | WriteError::Unanswered => Self::Stopping,
            error => Self::Write(Arc::new(error)),
        }
    }
}

type Outcome = Result<(), Trouble>;

/// How the engine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigratorEnd {
    Stopped,
    /// `/version` names the older version now. The server has to stop: what it holds is no longer what is stored.
    RolledBack {
        to: Version,
    },
}

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    Nothing,
    /// Records of an older version are served as they are.
    Held,
    Migrate,
    /// Both forms are complete; an operator ends it.
    Ready,
    CleanUp,
    Rollback {
        to: Version,
    },
    /// Takes the target root away after an abort.
    Discard {
        root: Version,
    },
    Failed,
}

#[derive(Debug)]
pub struct Migrator {
    parts: Parts,
    batch: Batch,
    asks: mpsc::Receiver<Asked>,
    access: watch::Sender<Access>,
    current: Version,
    record: VersionRecord,
    will: Will,
    /// Roots that hold records, the current one among them.
    roots: Vec<DataVersion>,
    history: HistoryNumbers,
    task: Task,
    rolled_back: Option<Version>,
    /// A rollback that a former master did not finish.
    interrupted: Option<Version>,
    last_word: Instant,
}

impl Migrator {
    pub fn new(parts: Parts, opened: Opened, asks: mpsc::Receiver<Asked>) -> (Self, watch::Receiver<Access>) {
        let task = match &opened.work {
            Work::Nothing => Task::CleanUp,
            Work::Held { .. } => Task::Held,
            Work::Migrate => Task::Migrate,
        };
        let first = match (task, parts.settings.mode) {
            (Task::Migrate, Mode::ReadOnly) => Access::Reads,
            (Task::Migrate, Mode::Offline) => Access::Nothing,
            _ => Access::All,
        };
        let (access, open) = watch::channel(first);
        if task == Task::Migrate {
            parts.tracker.begin(State::Sweeping, sweep::count(&parts.board.load()));
        }
        let Opened { current, record, control: will, roots, history, .. } = opened;
        (
            Self {
                batch: sweep::batch(&parts.settings),
                parts,
                asks,
                access,
                current,
                record,
                will,
                roots,
                history,
                task,
                rolled_back: None,
                interrupted: None,
                last_word: Instant::now(),
            },
            open,
        )
    }

    /// For errands: what the store says was under way when its last master died can be aborted.
    pub fn resume_what_was_interrupted(&mut self) {
        let target = Version::of(self.record.target);
        match target {
            Some(to) if to < self.current => self.interrupted = Some(to),
            Some(to) if to > self.current => self.task = Task::Failed,
            _ => {}
        }
    }

    /// The status document before the engine runs.
    pub fn facts(opened: &Opened, newest: Version, settings: config::Migration) -> Facts {
        let (state, note) = match &opened.work {
            Work::Nothing => (State::None, None),
            Work::Held { why } => (State::Held, Some(why.clone())),
            Work::Migrate => (State::Sweeping, None),
        };
        Facts {
            state,
            current: opened.current,
            target: opened.record.target,
            newest,
            mode: settings.mode,
            finalization: settings.finalization,
            note,
            blockers: Vec::new(),
            leftovers: Vec::new(),
        }
    }

    /// Works until told to stop, until it has rolled back, or until the store fails.
    pub async fn run(mut self) -> MigratorEnd {
        self.remember_identity();
        loop {
            let done = match self.task {
                Task::Migrate => self.migrate().await,
                Task::Rollback { to } => self.roll_back(to).await,
                Task::Discard { root } => self.discard(root).await,
                Task::CleanUp => self.clean_up().await,
                Task::Nothing | Task::Held | Task::Ready | Task::Failed => self.wait().await,
            };
            if let Some(to) = self.rolled_back {
                return MigratorEnd::RolledBack { to };
            }
            match done {
                Ok(()) | Err(Trouble::Changed) => {}
                Err(Trouble::Stopping) => {
                    self.remember_identity();
                    return MigratorEnd::Stopped;
                }
                Err(trouble) => {
                    if !self.survive(&trouble).await {
                        return MigratorEnd::Stopped;
                    }
                }
            }
        }
    }

    /// What went wrong is shown, and an operator decides. `false` when the store is gone for good.
    async fn survive(&mut self, trouble: &Trouble) -> bool {
        let why = match trouble {
            Trouble::Changed | Trouble::Stopping => return true,
            Trouble::Store(error) if error.retryable() => {
                tracing::warn!(%error, "the migration could not read its store; it starts over in a moment");
                tokio::time::sleep(STORE_RETRY).await;
                return true;
            }
            Trouble::Store(error) => error.to_string(),
            Trouble::Write(error) => match &**error {
                WriteError::Store(cause) if cause.outcome_unknown() || !cause.retryable() => return false,
                error => error.to_string(),
            },
            Trouble::Content(why) => why.clone(),
        };
        tracing::error!(
            why,
            "the migration stopped; the present form of the data is complete and goes on being served"
        );
        if let Task::Rollback { .. } = self.task {
            // Back to one form: the other is not to be relied on.
            let _ = self.control(Control { forms: Some(store::Forms::only(self.current)), ..Control::default() }).await;
        }
        self.parts.tracker.update(|facts| {
            facts.state = State::Failed;
            facts.note = Some(why);
        });
        self.task = Task::Failed;
        self.open_up();
        true
    }

    fn open_up(&self) {
        self.access.send_replace(Access::All);
    }

    /// Waits for the next word of an operator, or for the end.
    async fn wait(&mut self) -> Outcome {
        let asked = loop {
            let heard = tokio::select! {
                _ = self.parts.stop.wait_for(|stop| *stop) => return Err(Trouble::Stopping),
                asked = self.asks.recv() => Some(asked),
                () = tokio::time::sleep(IDENTITY_EVERY) => None,
            };
            match heard {
                Some(asked) => break asked,
                // A store that was empty at the start has data some time.
                None => self.remember_identity(),
            }
        };
        match asked {
            Some(asked) => self.hear(asked).await,
            None => Err(Trouble::Stopping),
        }
    }

    /// Between two batches: hears operators, and waits while it is paused.
    async fn attend(&mut self) -> Outcome {
        self.report_progress();
        loop {
            if *self.parts.stop.borrow() {
                return Err(Trouble::Stopping);
            }
            match self.asks.try_recv() {
                Ok(asked) => self.hear(asked).await?,
                Err(_) if self.will.paused => self.wait().await?,
                Err(_) => return Ok(()),
            }
        }
    }

    fn report_progress(&mut self) {
        if self.last_word.elapsed() < PROGRESS_EVERY {
            return;
        }
        self.last_word = Instant::now();
        let status = self.parts.tracker.status();
        let rate_per_s = status.rate_per_s.map_or(0, |rate| rate as u64);
        let state = status.state;
        tracing::info!(?state, done = status.done, total = status.total, rate_per_s, eta_s = status.eta_s, "migration");
    }

    /// `Changed` when what was under way is not to be gone on with.
    async fn hear(&mut self, Asked { ask, reply }: Asked) -> Outcome {
        let before = self.task;
        let answer: Answer = self.answer(ask).await;
        if let Err(refused) = &answer {
            tracing::info!(code = refused.code, "an operator's request was refused: {}", refused.message);
        }
        // An operator who hung up does not read the answer.
        let _ = reply.send(answer);
        if self.task == before { Ok(()) } else { Err(Trouble::Changed) }
    }

    async fn answer(&mut self, ask: Ask) -> Answer {
        match ask {
            Ask::Start => self.start().await,
            Ask::Pause => self.set_paused(true).await,
            Ask::Resume => self.set_paused(false).await,
            Ask::Abort => self.abort().await,
            Ask::Finalize { version } => self.allow_finalizing(version).await,
            Ask::Rollback { to, accept_loss } => self.begin_rollback(to, accept_loss).await,
            Ask::Retry { id } => self.retry(id).await,
            Ask::Discard { id } => self.discard_record(&id).await,
            Ask::ConfirmStore { cluster_id } => self.confirm_store(&cluster_id).await,
        }
    }

    /// Commits a change of the root together with its line in the history.
    async fn record(
        &mut self,
        mut control: Control,
        mut step: Step,
        what: HistoryEvent,
        to: Option<DataVersion>,
        detail: &str,
    ) -> Result<(), Trouble> {
        let entry = Entry {
            at_ns: self.parts.clock.now_ns(),
            node: self.parts.node.clone(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            what,
            from: Some(self.current.number()),
            to,
            detail: detail.to_owned(),
        };
        append_history(&mut step, self.history.take(), &entry);
        control.steps.push(step);
        self.control(control).await?;
        tracing::info!(what = %entry.what, from = self.current.number().0, to = to.map(|to| to.0), detail, "migration");
        Ok(())
    }

    /// Has the writer change its ways. A full disk is waited out.
    async fn control(&self, control: Control) -> Result<(), Trouble> {
        loop {
            match self.parts.writer.control(control.clone()).await {
                Err(WriteError::Store(error)) if error.retryable() && !*self.parts.stop.borrow() => {
                    tracing::warn!(%error, "the migration waits for its store");
                    tokio::time::sleep(STORE_RETRY).await;
                }
                done => return done.map_err(Into::into),
            }
        }
    }

    /// From now on this node knows the store, unless an operator has to confirm it first.
    fn remember_identity(&self) {
        let guard = self.parts.guard.load();
        let Some(path) = self.parts.identity.as_ref().filter(|_| guard.trusts_the_store()) else { return };
        let board = self.parts.board.load();
        let has_seen_data = !(board.desired.is_empty() && board.slots.is_empty() && board.tasks.is_empty());
        let kept = Identity::read(path).ok().flatten();
        let identity = Identity {
            cluster_id: guard.found.clone(),
            has_seen_data: has_seen_data || kept.as_ref().is_some_and(|kept| kept.has_seen_data),
            data_version: self.current.number(),
        };
        if kept.as_ref() == Some(&identity) {
            return;
        }
        if let Err(error) = identity.write(path) {
            tracing::warn!(%error, "the identity of the store could not be noted; a wiped store would not be noticed");
        }
    }
}
