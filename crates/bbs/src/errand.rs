//! What an operator can do with a store while no server runs on it: look, rehearse, roll back, abort.
//!
//! These are the same engine and the same documents as in a running server; only the API is missing. An errand takes the
//! lock of the store like a server does, so it is refused while one runs, and a server is refused while it does.

use std::cmp::Ordering;
use std::sync::Arc;

use arc_swap::ArcSwap;
use store::record::DataVersion;
use store::root::{HistoryEvent, RootState, append_history, decide, next_history_number, read_history, read_root};
use store::seal::ledger::{forget, read_ledger};
use store::{Forms, Mastership, Step, Store, StoreError, Version, campaign_at_once};
use tokio::sync::{mpsc, watch};

use crate::clock::{Clock, SystemClock};
use crate::config::{Config, Migration, Mode, Opener, Rotation};
use crate::events::Hub;
use crate::keys;
use crate::keys::alone::{self, AloneError};
use crate::keys::open::{KeyError, Unlocked, begin, unlock};
use crate::keys::{First, KeyTracker, KeysStatus, RotatorEnd};
use crate::metrics::Metrics;
use crate::migrate::ask::{Ask, Desk, Did, Refused};
use crate::migrate::open::{OpenError, Opened, Work, readable};
use crate::migrate::plan::{Plan, destination, rehearse};
use crate::migrate::status::{Facts, MigrationStatus, State, Tracker};
use crate::migrate::{Guard, Migrator, MigratorEnd, Parts};
use crate::nodes::{self, NodeList};
use crate::operations::HistoryLine;
use crate::phase::Phase;
use crate::writer::{Writer, WriterEnd, WriterParts};

#[derive(Debug, thiserror::Error)]
pub enum ErrandError {
    #[error("{}", .0.message)]
    Refused(Refused),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Keys(#[from] KeyError),
    #[error(transparent)]
    Rotation(#[from] AloneError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the errand ended before it was done; look at the log, and give the same command again")]
    Unfinished,
}

impl From<Refused> for ErrandError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<store::RootError> for ErrandError {
    fn from(error: store::RootError) -> Self {
        Self::Open(error.into())
    }
}

pub(crate) async fn open_store(config: &Config) -> Result<Arc<dyn Store>, ErrandError> {
    Ok(config.store.open(Opener::Errand).await?)
}

async fn open(config: &Config) -> Result<Unlocked, ErrandError> {
    let store = open_store(config).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    Ok(unlock(store, config.encryption.as_ref(), &clock).await?)
}

struct Found {
    root: RootState,
    current: Version,
}

async fn look(store: &dyn Store) -> Result<Found, ErrandError> {
    let root = read_root(store).await?;
    let Some(record) = &root.version else {
        return Err(Refused::new("nothing-to-do", "the store is empty", None).into());
    };
    let current = readable(record.current)?;
    Ok(Found { current, root })
}

/// The status document of a store that nobody serves.
pub async fn status(config: &Config) -> Result<MigrationStatus, ErrandError> {
    let Unlocked { store, .. } = open(config).await?;
    let Found { root, current } = look(&*store).await?;
    let target = root.version.as_ref().map_or(current.number(), |record| record.target);
    let newest = config.newest;
    let decision = decide(Some(current.number()), Some(target), newest.number());
    let master = store.holder().await?;
    let state = match (target.cmp(&current.number()), current == newest) {
        (Ordering::Less, _) => State::RollingBack,
        // How far it is, only the master knows.
        (Ordering::Greater, _) if master.is_some() => State::Sweeping,
        (_, true) => State::None,
        (_, false) => State::Held,
    };
    let why = match &root.control.held {
        Some(held) if held.version == newest.number() && state == State::Held => {
            format!(
                "Held, because {}: a server of this release serves the data as it is and migrates it when told to",
                held.why
            )
        }
        _ => decision.reason,
    };
    let leftovers = root.roots.iter().copied().filter(|root| *root != current.number()).collect();
    let tracker = Tracker::new(Facts {
        state,
        current,
        target,
        newest,
        mode: config.migration.mode,
        finalization: config.migration.finalization,
        note: None,
        blockers: Vec::new(),
        leftovers,
    });
    // What a server would say of itself does not hold for a store, and nobody is there to be told what to do next.
    let explanation = match master {
        Some(master) => format!("{master} is master on this store, and knows more: ask it. {why}"),
        None => format!("no server runs on this store. {why}"),
    };
    Ok(MigrationStatus { explanation, next: None, ..tracker.status() })
}

pub async fn plan(config: &Config, to: Option<DataVersion>) -> Result<Plan, ErrandError> {
    let Unlocked { store, .. } = open(config).await?;
    let Found { current, .. } = look(&*store).await?;
    let to = destination(current, config.newest, to)?;
    Ok(rehearse(&*store, current, to).await?)
}

pub async fn history(config: &Config, last: usize) -> Result<Vec<HistoryLine>, ErrandError> {
    let Unlocked { store, .. } = open(config).await?;
    let entries = read_history(&*store, last).await?;
    Ok(entries.into_iter().map(|(number, entry)| HistoryLine { number, entry }).collect())
}

/// The document about all nodes. In a store that several nodes share, it is found while they run.
pub async fn nodes(config: &Config) -> Result<NodeList, ErrandError> {
    let store = open_store(config).await?;
    Ok(nodes::list(&*store).await?)
}

/// Rolls back, or finishes a rollback that was interrupted.
pub async fn rollback(config: &Config, to: DataVersion, accept_loss: bool) -> Result<Did, ErrandError> {
    let (mut did, end) = engage(config, Ask::Rollback { to, accept_loss }).await?;
    let MigratorEnd::RolledBack { to } = end else { return Err(ErrandError::Unfinished) };
    did.message = format!(
        "rolled back to data version {} ({}); start the release whose newest data version that is",
        to.number(),
        to.name()
    );
    Ok(did)
}

/// Undoes a rollback that was interrupted, or gives up a migration that has not ended.
pub async fn abort(config: &Config) -> Result<Did, ErrandError> {
    engage(config, Ask::Abort).await.map(|(did, _)| did)
}

/// The document about the keys of a store that nobody serves, with every record counted.
pub async fn keys_status(config: &Config) -> Result<KeysStatus, ErrandError> {
    let unlocked = open(config).await?;
    unlocked.count().await?;
    let Some(vault) = &unlocked.vault else { return Ok(KeysStatus::off()) };
    let tracker = KeyTracker::new(rotation(config).mode);
    tracker.look(vault);
    let mut status = tracker.status(vault);
    if let (Some(master), keys::State::Unfinished) = (vault.holder().await?, status.state) {
        // How far it is, only the master knows.
        status.state = keys::State::Rotating;
        status.explanation =
            format!("{master} is master on this store, and brings the records under the active key: ask it");
        status.next = Some("corkboard keys status --watch".to_owned());
    }
    Ok(status)
}

/// Brings every record under the active key.
pub async fn rotate_keys(config: &Config, tracker: Arc<KeyTracker>) -> Result<KeysStatus, ErrandError> {
    work_on_keys(config, tracker, First::Rotate).await
}

/// Opens every record and counts by key.
pub async fn verify_keys(config: &Config, tracker: Arc<KeyTracker>) -> Result<KeysStatus, ErrandError> {
    work_on_keys(config, tracker, First::Verify).await
}

async fn work_on_keys(config: &Config, tracker: Arc<KeyTracker>, what: First) -> Result<KeysStatus, ErrandError> {
    let unlocked = open(config).await?;
    let Some(vault) = unlocked.vault.clone() else {
        let message = "no encryption is configured, so there is no key to work with. Nothing was changed";
        return Err(Refused::new("encryption-off", message, Some("corkboard keys generate")).into());
    };
    look(&*vault).await?;
    let (_never, stop) = watch::channel(false);
    let held = campaign_at_once(&*vault, &config.node).await?;
    unlocked.count().await?;
    tracker.look(&vault);
    let settings = alone::Settings {
        clock: Arc::new(SystemClock),
        node: config.node.clone(),
        rotation: rotation(config),
        history: next_history_number(&*vault).await?.into(),
        stop,
    };
    let (held, end) = match what {
        First::Verify => alone::verify(&vault, held, settings, tracker.clone()).await?,
        First::Rotate | First::Nothing | First::Forget => {
            alone::rotate(&vault, held, settings, tracker.clone()).await?
        }
    };
    vault.resign(held).await?;
    if end == RotatorEnd::Stopped {
        return Err(ErrandError::Unfinished);
    }
    if what == First::Rotate {
        vault.forget_superseded().await?;
    }
    Ok(tracker.status(&vault))
}

/// Gives up a key that is lost: its records stay where they are and nobody asks for the key any more, so that servers start and
/// serve the rest.
pub async fn forget_key(config: &Config, name: &str) -> Result<Did, ErrandError> {
    let store = open_store(config).await?;
    let held = campaign_at_once(&*store, &config.node).await?;
    let ledger = read_ledger(&*store).await?;
    if config.encryption.as_ref().is_some_and(|encryption| encryption.keyring.has(name)) {
        let message = format!("key {name} is configured here, so it is not lost. Nothing was changed");
        return Err(Refused::new("key-known", message, Some("corkboard keys status")).into());
    }
    let mut step = Step::default();
    if !forget(&mut step, &ledger, name) {
        let message = format!("the store knows no key {name}. Nothing was changed");
        return Err(Refused::new("no-such-key", message, None).into());
    }
    let detail = format!("key {name}: records that only it opens cannot be read any more");
    let entry = keys::open::entry(SystemClock.now_ns(), &config.node, HistoryEvent::KeyForgotten, &detail);
    append_history(&mut step, next_history_number(&*store).await?, &entry);
    store.commit(&held, &[step]).await?;
    store.resign(held).await?;
    Ok(Did::new(format!(
        "key {name} is given up: servers start without it, and keep the records that only it opens in quarantine"
    )))
}

fn rotation(config: &Config) -> Rotation {
    config.encryption.as_ref().map(|encryption| encryption.rotation).unwrap_or_default()
}

/// Runs the engine on the store until it has done one thing.
async fn engage(config: &Config, ask: Ask) -> Result<(Did, MigratorEnd), ErrandError> {
    let unlocked = open(config).await?;
    let store = unlocked.store.clone();
    let held = campaign_at_once(&*store, &config.node).await?;
    let Found { root, current } = look(&*store).await?;
    let history = next_history_number(&*store).await?.into();
    let RootState { version: Some(record), cluster_id, control, roots, .. } = root else {
        return Err(Refused::new("nothing-to-do", "the store is empty", None).into());
    };
    let opened = Opened {
        current,
        record,
        forms: Forms::only(current),
        work: Work::Held { why: "an errand is under way".to_owned() },
        cluster_id: cluster_id.unwrap_or_default(),
        control,
        roots,
        history,
        guard: store::identity::Verdict::Known,
    };
    let engaged = Engaged::start(config, &unlocked, held, opened).await?;
    let until_rolled_back = matches!(ask, Ask::Rollback { .. });
    let answer = engaged.desk.ask(ask).await;
    let end = if answer.is_ok() && until_rolled_back { engaged.finish().await? } else { engaged.stop().await? };
    store.resign(end.held).await?;
    Ok((answer?, end.migrator))
}

struct Engaged {
    desk: Desk,
    stop: watch::Sender<bool>,
    migrator: tokio::task::JoinHandle<MigratorEnd>,
    writer: tokio::task::JoinHandle<WriterEnd>,
}

struct End {
    migrator: MigratorEnd,
    held: Mastership,
}

impl Engaged {
    async fn start(
        config: &Config,
        unlocked: &Unlocked,
        held: Mastership,
        opened: Opened,
    ) -> Result<Self, ErrandError> {
        let Unlocked { store, vault } = unlocked;
        let board = unlocked.load(opened.current, &Phase::new()).await?;
        board.report_quarantine();
        if let Some(vault) = vault {
            // What this errand stores is sealed; the next server brings the rest under the active key.
            begin(vault, &held, &SystemClock, &config.node, &opened.history).await?;
        }
        let hub = Hub::new(board.revision);
        let board = Arc::new(ArcSwap::from_pointee(board));
        let (effects, _nobody_is_called) = mpsc::channel(1);
        let (writer, writing) = Writer::start(WriterParts {
            store: store.clone(),
            held,
            board: board.clone(),
            hub,
            clock: Arc::new(SystemClock),
            effects,
            metrics: Metrics::new(),
            task_rejections_max: config.task_rejections_max,
            definitions_kept: config.definitions_kept,
            forms: opened.forms.clone(),
            vault: vault.clone(),
        });
        let (stop, stopped) = watch::channel(false);
        let settings = Migration { mode: Mode::Offline, ..config.migration };
        let tracker = Arc::new(Tracker::new(Migrator::facts(&opened, config.newest, settings)));
        let (desk, asks) = Desk::new();
        let parts = Parts {
            store: store.clone(),
            writer,
            board,
            clock: Arc::new(SystemClock),
            node: config.node.clone(),
            newest: config.newest,
            settings,
            tracker,
            guard: Arc::new(ArcSwap::from_pointee(Guard::of_known(&opened.cluster_id))),
            identity: None,
            stop: stopped,
        };
        let (mut migrator, _) = Migrator::new(parts, opened, asks);
        migrator.resume_what_was_interrupted();
        Ok(Self { desk, stop, migrator: tokio::spawn(migrator.run()), writer: tokio::spawn(writing) })
    }

    async fn stop(self) -> Result<End, ErrandError> {
        self.stop.send_replace(true);
        self.finish().await
    }

    /// Waits for the engine to end by itself.
    async fn finish(self) -> Result<End, ErrandError> {
        let migrator = self.migrator.await.map_err(|_| ErrandError::Unfinished)?;
        match self.writer.await {
            Ok(WriterEnd::Drained(held)) => Ok(End { migrator, held }),
            Ok(WriterEnd::Failed(_)) | Err(_) => Err(ErrandError::Unfinished),
        }
    }
}
