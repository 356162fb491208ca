//! What operators may ask of a running server beside the API of the platform: status, migrations, keys, quarantine, the store
//! guard.
//!
//! It is there from the moment a node is master until the process ends, also while the API answers 503. Questions are
//! answered from what is at hand and never wait for the engine; everything that changes something goes to it and is done
//! between two of its batches.

use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use serde::Serialize;
use store::record::DataVersion;
use store::root::{RootError, read_history};
use store::seal::Vault;
use store::{Store, StoreError, Version};

use crate::board::Board;
use crate::keys::{KeyAsk, KeyDesk, KeyTracker, KeysStatus};
use crate::migrate::Guard;
use crate::migrate::ask::{Desk, Did, Refused};
use crate::migrate::plan::{Plan, destination, rehearse};
use crate::migrate::status::Tracker;

#[derive(Debug)]
pub struct Operations {
    pub store: Arc<dyn Store>,
    pub board: Arc<ArcSwap<Board>>,
    pub tracker: Arc<Tracker>,
    pub guard: Arc<ArcSwap<Guard>>,
    pub desk: Desk,
    pub newest: Version,
    /// `None` without encryption.
    pub keys: Option<Keys>,
}

/// What operators may know and ask about the keys.
#[derive(Debug)]
pub struct Keys {
    pub vault: Arc<Vault>,
    pub tracker: Arc<KeyTracker>,
    pub desk: KeyDesk,
}

#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    #[error("{}", .0.message)]
    Refused(Refused),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Root(#[from] RootError),
}

impl From<Refused> for OperationError {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

#[derive(Debug, Serialize)]
pub struct QuarantinedRecord {
    pub id: String,
    pub why: String,
    pub bytes: usize,
    pub place: &'static str,
}

#[derive(Debug, Serialize)]
pub struct GuardStatus {
    pub state: &'static str,
    pub explanation: String,
    pub expected_cluster_id: Option<String>,
    pub found_cluster_id: String,
    pub next: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct HistoryLine {
    pub number: u64,
    #[serde(flatten)]
    pub entry: store::root::Entry,
}

impl Operations {
    pub async fn plan(&self, to: Option<DataVersion>) -> Result<Plan, OperationError> {
        let current = self.tracker.current();
        let to = destination(current, self.newest, to)?;
        Ok(rehearse(&*self.store, current, to).await?)
    }

    pub async fn history(&self, last: usize) -> Result<Vec<HistoryLine>, OperationError> {
        let entries = read_history(&*self.store, last).await?;
        Ok(entries.into_iter().map(|(number, entry)| HistoryLine { number, entry }).collect())
    }

    pub fn quarantine(&self) -> Vec<QuarantinedRecord> {
        let board = self.board.load();
        let record = |(id, kept): (&String, &Arc<crate::board::Kept>)| QuarantinedRecord {
            id: id.clone(),
            why: kept.why.clone(),
            bytes: kept.bytes.len(),
            place: kept.place.name(),
        };
        board.quarantine.iter().map(record).collect()
    }

    pub fn export(&self, id: &str) -> Result<Bytes, OperationError> {
        let board = self.board.load();
        let kept = board.quarantine.get(id).ok_or_else(|| {
            Refused::new("no-such-record", format!("{id} is not in quarantine"), Some("corkboard quarantine list"))
        })?;
        Ok(kept.bytes.clone())
    }

    pub fn keys_status(&self) -> KeysStatus {
        self.keys.as_ref().map_or_else(KeysStatus::off, |keys| keys.tracker.status(&keys.vault))
    }

    pub async fn ask_about_keys(&self, ask: KeyAsk) -> Result<Did, OperationError> {
        match &self.keys {
            Some(keys) => Ok(keys.desk.ask(ask).await?),
            None => {
                let message = "no encryption is configured, so there is no key to work with. Nothing was changed. Add a table \
                               [encryption] to the configuration and restart";
                Err(Refused::new("encryption-off", message, Some("corkboard keys generate")).into())
            }
        }
    }

    pub fn guard_status(&self) -> GuardStatus {
        guard_status(&self.guard.load())
    }
}

fn guard_status(guard: &Guard) -> GuardStatus {
    use store::identity::Verdict;
    let (state, expected) = match &guard.verdict {
        Verdict::FirstBoot | Verdict::Known => ("ok", None),
        Verdict::Wiped { expected } => ("wiped", Some(expected.clone())),
        Verdict::OtherStore { expected, .. } => ("other-store", Some(expected.clone())),
    };
    let next = expected.is_some().then(|| format!("corkboard store confirm --cluster-id {}", guard.found));
    GuardStatus {
        state,
        explanation: guard.explain(),
        expected_cluster_id: expected,
        found_cluster_id: guard.found.clone(),
        next,
    }
}
