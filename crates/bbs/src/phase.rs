//! Where the server is in its life, for everybody who asks: clients that get a 503, the health port, the status page.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use serde::Serialize;
use store::seal::Vault;

use crate::follow::{Status, Warm};
use crate::http::App;
use crate::keys::{KeyTracker, KeysStatus};
use crate::operations::Operations;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// Waiting for the store, or for its turn to be master.
    Waiting,
    /// Reading the records.
    Loading,
    /// Bringing all records under another key, before anybody is let in.
    Reencrypting,
    /// Bringing the records to another data version, in a mode that does not let everybody in.
    Migrating,
    Serving,
    /// An older data version has become the current one; the server stops next.
    RolledBack,
    /// Finishing what was begun.
    Stopping,
}

impl Stage {
    const ALL: [Self; 7] = [
        Self::Waiting,
        Self::Loading,
        Self::Reencrypting,
        Self::Migrating,
        Self::Serving,
        Self::RolledBack,
        Self::Stopping,
    ];
}

/// How far something long has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub done: u64,
    /// 0 while it is not known.
    pub total: u64,
    pub eta_s: u64,
}

#[derive(Debug, Default)]
pub struct Phase {
    stage: AtomicU8,
    done: AtomicU64,
    app: ArcSwapOption<App>,
    operations: OnceLock<Arc<Operations>>,
    /// A rotation that nobody is served beside.
    rotation: OnceLock<(Arc<KeyTracker>, Arc<Vault>)>,
    /// What a node that waits has heard of the store.
    warm: OnceLock<Arc<Warm>>,
    cannot_take_over: ArcSwapOption<String>,
    master: ArcSwapOption<Master>,
    lock: ArcSwapOption<LockStatus>,
}

/// A lock that a node has to get before it looks at the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LockStatus {
    pub name: String,
    /// Where it is given.
    pub locket: String,
    /// Whose it was when that was last asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Why it cannot be asked for at the moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// Whom a node that waits waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Master {
    pub node: String,
    /// Where clients reach it.
    pub url: Option<String>,
}

/// What a node that waits tells about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StandbyStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master: Option<String>,
    /// What it waits for first, where a lock service decides who serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for_lock: Option<LockStatus>,
    /// Whether it has the records in memory and can take over at once.
    pub warm: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cannot_take_over: Option<String>,
}

impl Phase {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    pub fn stage(&self) -> Stage {
        Stage::ALL[usize::from(self.stage.load(Ordering::Acquire)).min(Stage::ALL.len() - 1)]
    }

    pub fn enter(&self, stage: Stage) {
        self.stage.store(stage as u8, Ordering::Release);
    }

    /// The server is ready: requests find their handlers from now on.
    pub fn serve(&self, app: Arc<App>) {
        self.app.store(Some(app));
        self.enter(Stage::Serving);
    }

    /// Reads find their handlers; the writer refuses the rest.
    pub fn serve_reads(&self, app: Arc<App>) {
        self.app.store(Some(app));
        self.enter(Stage::Migrating);
    }

    /// No new request reaches a handler from now on.
    pub fn close(&self, stage: Stage) {
        self.enter(stage);
        self.app.store(None);
    }

    /// What is heard of the store while this node waits.
    pub fn follow_store(&self, warm: Arc<Warm>) {
        let _ = self.warm.set(warm);
    }

    /// Why this node would not become master, if it would not.
    pub fn cannot_take_over(&self, why: Option<String>) {
        self.cannot_take_over.store(why.map(Arc::new));
    }

    pub fn waits_for(&self, master: Option<Master>) {
        self.master.store(master.map(Arc::new));
    }

    /// A lock that this node still has to get, or `None` when it has it.
    pub fn waits_for_lock(&self, lock: Option<LockStatus>) {
        self.lock.store(lock.map(Arc::new));
    }

    pub fn lock_waited_for(&self) -> Option<Arc<LockStatus>> {
        self.lock.load_full()
    }

    /// Where clients find the master while this node waits.
    pub fn master_url(&self) -> Option<String> {
        if self.stage() != Stage::Waiting {
            return None;
        }
        self.master.load().as_ref().and_then(|master| master.url.clone())
    }

    /// `None` when this node does not wait.
    pub fn standby_status(&self) -> Option<StandbyStatus> {
        (self.stage() == Stage::Waiting).then(|| StandbyStatus {
            master: self.master.load().as_ref().map(|master| master.node.clone()),
            waits_for_lock: self.lock.load().as_deref().cloned(),
            warm: self.warm.get().is_some_and(|warm| matches!(warm.status(), Status::Warm { .. })),
            cannot_take_over: self.cannot_take_over.load().as_ref().map(|why| why.to_string()),
        })
    }

    /// What operators ask is answered from now on, in every stage.
    pub fn attend(&self, operations: Arc<Operations>) {
        let _ = self.operations.set(operations);
    }

    pub fn operations(&self) -> Option<&Arc<Operations>> {
        self.operations.get()
    }

    /// What [`Stage::Reencrypting`] tells about its progress.
    pub fn follow_rotation(&self, tracker: Arc<KeyTracker>, vault: Arc<Vault>) {
        let _ = self.rotation.set((tracker, vault));
    }

    /// The document about the keys, as soon as there is something to tell.
    pub fn keys_status(&self) -> Option<KeysStatus> {
        let before_serving = || self.rotation.get().map(|(tracker, vault)| tracker.status(vault));
        self.operations().map(|operations| operations.keys_status()).or_else(before_serving)
    }

    pub fn app(&self) -> Option<Arc<App>> {
        self.app.load_full()
    }

    pub fn loaded(&self, records: u64) {
        self.done.store(records, Ordering::Relaxed);
    }

    pub fn loaded_records(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub fn progress(&self) -> Progress {
        if let (Stage::Reencrypting, Some((tracker, _))) = (self.stage(), self.rotation.get()) {
            return tracker.progress().1;
        }
        if let (Stage::Migrating | Stage::RolledBack, Some(operations)) = (self.stage(), self.operations()) {
            return operations.tracker.progress();
        }
        Progress { done: self.done.load(Ordering::Relaxed), ..Progress::default() }
    }

    pub fn name(&self) -> &'static str {
        match self.stage() {
            Stage::Waiting => "waiting",
            Stage::Loading => "loading",
            Stage::Reencrypting => "reencrypting",
            Stage::Migrating => "migrating",
            Stage::Serving => "serving",
            Stage::RolledBack => "rolled-back",
            Stage::Stopping => "stopping",
        }
    }

    pub fn explain(&self) -> &'static str {
        match self.stage() {
            Stage::Waiting if self.lock.load().is_some() => {
                "the server waits for its lock in Locket, which another node has unless Locket does not answer; nothing was \
                 changed, try that node"
            }
            Stage::Waiting => "the server waits: another node is master; nothing was changed, try that one",
            Stage::Loading => {
                "the server reads its records and will answer in a moment; nothing was changed, try again"
            }
            Stage::Reencrypting => {
                "the server brings its records under another key and will answer when it is done; nothing was changed, try \
                 again"
            }
            Stage::Migrating => {
                "the server brings its records to a newer data version and will answer when it is done; nothing was \
                 changed, try again"
            }
            Stage::Serving => "the server answers",
            Stage::RolledBack => {
                "the records were rolled back to an older data version; start the release that wrote it"
            }
            Stage::Stopping => "the server is stopping; nothing was changed, try again or try another node",
        }
    }
}
