//! A rotation that nobody is served beside: before a server lets clients in, or as an errand on a store without a server.
//!
//! It is the same engine behind a writer of its own. It needs no board, because records are opened and sealed again without
//! a look at what they hold.

use std::sync::Arc;

use arc_swap::ArcSwap;
use store::seal::Vault;
use store::{Forms, Mastership, Store, StoreError, Version};
use tokio::sync::{mpsc, watch};

use super::{First, KeyDesk, KeyTracker, Parts, Rotator, RotatorEnd, open};
use crate::board::Board;
use crate::clock::Clock;
use crate::config::Rotation;
use crate::events::Hub;
use crate::metrics::Metrics;
use crate::migrate::open::HistoryNumbers;
use crate::writer::{Writer, WriterEnd, WriterParts};

#[derive(Debug)]
pub struct Settings {
    pub clock: Arc<dyn Clock>,
    pub node: String,
    pub rotation: Rotation,
    pub history: HistoryNumbers,
    /// Ends it between two batches; whoever goes on later finds the rest.
    pub stop: watch::Receiver<bool>,
}

#[derive(Debug, thiserror::Error)]
pub enum AloneError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the rotation stopped because the store failed: {0}")]
    StoreFailed(Arc<StoreError>),
    #[error("the rotation ended unexpectedly; this is a defect, and the log before this line tells more")]
    Defect,
}

/// Brings all records under the active key, as far as they can be opened. The records must have been counted.
pub async fn rotate(
    vault: &Arc<Vault>,
    held: Mastership,
    settings: Settings,
    tracker: Arc<KeyTracker>,
) -> Result<(Mastership, RotatorEnd), AloneError> {
    let rotates = open::begin(vault, &held, &*settings.clock, &settings.node, &settings.history).await?;
    work(vault, held, settings, tracker, if rotates { First::Rotate } else { First::Nothing }).await
}

/// Opens every record and counts by key.
pub async fn verify(
    vault: &Arc<Vault>,
    held: Mastership,
    settings: Settings,
    tracker: Arc<KeyTracker>,
) -> Result<(Mastership, RotatorEnd), AloneError> {
    work(vault, held, settings, tracker, First::Verify).await
}

async fn work(
    vault: &Arc<Vault>,
    held: Mastership,
    settings: Settings,
    tracker: Arc<KeyTracker>,
    first: First,
) -> Result<(Mastership, RotatorEnd), AloneError> {
    let Settings { clock, node, rotation, history, stop } = settings;
    let (effects, _nobody_is_called) = mpsc::channel(1);
    let mut board = Board::default();
    board.revision = vault.revision();
    let (writer, writing) = Writer::start(WriterParts {
        store: vault.clone(),
        held,
        board: Arc::new(ArcSwap::from_pointee(board)),
        hub: Hub::new(vault.revision()),
        clock: clock.clone(),
        effects,
        metrics: Metrics::new(),
        task_rejections_max: 0,
        definitions_kept: 0,
        forms: Forms::only(Version::LATEST),
        vault: Some(vault.clone()),
    });
    let writing = tokio::spawn(writing);
    let (desk, asks) = KeyDesk::new();
    let parts = Parts {
        vault: vault.clone(),
        writer,
        clock,
        node,
        rotation,
        alone: true,
        tracker,
        history,
        migration: None,
        source: None,
        stop,
    };
    let rotator = Rotator::new(parts, first, asks);
    drop(desk);
    let rotated = tokio::spawn(rotator.run()).await;
    match (writing.await, rotated) {
        (Ok(WriterEnd::Drained(held)), Ok(end)) => Ok((held, end)),
        (Ok(WriterEnd::Failed(error)), _) => Err(AloneError::StoreFailed(error)),
        _ => Err(AloneError::Defect),
    }
}
