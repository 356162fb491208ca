//! Backups of a server's store: through the server while it runs, or from the store itself.
//!
//! Promise: a backup holds everybody's records of one moment, everything that was acknowledged before it began, and holds
//! nobody up. A restore takes the mastership like any errand, so it never meets a server. The file itself is the business of
//! [`store::backup`].

use std::fs::File;

use bytes::Bytes;
use futures_util::{Stream, stream};
use store::backup::{Contents, RestoreError, Restored, TakeError, Taking, Target};
use store::{StoreError, campaign_at_once};

use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::errand::{ErrandError, open_store};
use crate::migrate::ask::Refused;
use crate::operations::{OperationError, Operations};

const RELEASE: &str = env!("CARGO_PKG_VERSION");

impl Operations {
    /// A backup of the store that is being served.
    pub async fn backup(&self, now_ns: i64) -> Result<Taking, OperationError> {
        if !self.store.standing().is_certain() {
            return Err(
                Refused::new("not-master", "this server is not master any more; ask the one that is", None).into()
            );
        }
        Taking::begin(self.store.clone(), RELEASE, now_ns).await.map_err(|error| refused(&error).into())
    }
}

/// The bytes of a backup as they are read. If the store fails, they end without the end mark, and the log says why.
pub fn bytes(taking: Taking) -> impl Stream<Item = Bytes> + Send {
    stream::unfold(taking, |mut taking| async move {
        match taking.next().await {
            Ok(Some(bytes)) => Some((bytes, taking)),
            Ok(None) => {
                tracing::info!(records = taking.records(), revision = taking.header().revision, "a backup was taken");
                None
            }
            Err(error) => {
                tracing::error!(error = told(&error), "a backup was broken off; nothing was changed");
                None
            }
        }
    })
}

fn refused(error: &TakeError) -> Refused {
    let code = match error {
        TakeError::Empty => "nothing-to-do",
        TakeError::Root(_) => "not-whole",
        TakeError::Forgotten | TakeError::Store { .. } => "not-master",
    };
    Refused::new(code, told(error), None)
}

/// With its cause, which the text of these errors leaves out.
fn told(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) if !error.to_string().contains(&cause.to_string()) => format!("{error}: {}", told(cause)),
        _ => error.to_string(),
    }
}

/// A backup of the store that a configuration names. On etcd a server may go on beside it.
pub async fn take(config: &Config) -> Result<Taking, ErrandError> {
    let store = open_store(config).await.map_err(|error| match error {
        ErrandError::Store(StoreError::Locked { dir, owner }) => {
            let message =
                format!("the store in {} is in use by {owner}. Nothing was changed. Ask that server", dir.display());
            Refused::new("in-use", message, Some("corkboard backup FILE")).into()
        }
        error => error,
    })?;
    Ok(Taking::begin(store, RELEASE, SystemClock.now_ns()).await.map_err(|error| refused(&error))?)
}

/// More of a backup that is being taken.
pub async fn next(taking: &mut Taking) -> Result<Option<Bytes>, ErrandError> {
    Ok(taking.next().await.map_err(|error| refused(&error))?)
}

/// Makes a store of a file that was checked.
pub async fn restore(
    config: &Config,
    mut file: File,
    contents: &Contents,
    force: bool,
    progress: impl FnMut(u64),
) -> Result<Restored, ErrandError> {
    let store = open_store(config).await?;
    let held = campaign_at_once(&*store, &config.node).await?;
    let target = Target { store: &*store, held: &held, contents, force, now_ns: SystemClock.now_ns() };
    let restored = store::backup::restore(target, &mut file, progress).await;
    let resigned = store.resign(held).await;
    let restored = restored.map_err(|error| not_restored(&error))?;
    resigned?;
    Ok(restored)
}

fn not_restored(error: &RestoreError) -> Refused {
    let code = match error {
        RestoreError::NotEmpty { .. } | RestoreError::Used { .. } => "store-not-empty",
        RestoreError::OtherBackup { .. } => "other-backup",
        RestoreError::FileChanged { .. } => "bad-backup",
        RestoreError::Root(_) => "not-whole",
        RestoreError::Interrupted { source: StoreError::NotMaster } => "not-master",
        RestoreError::Interrupted { .. } => "interrupted",
    };
    Refused::new(code, told(error), None)
}
