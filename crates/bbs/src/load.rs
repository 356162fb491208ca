//! From the store to the board, once, when this node becomes master.
//!
//! A record that cannot be read is set aside and named, never dropped and never a reason not to start: one bad record must not
//! take a platform down.

use std::sync::Arc;

use model::{ActualLrp, Slot};
use store::versions::latest::{Entity, Loader, ROOT};
use store::{Page, Store, StoreError};
use tokio::sync::mpsc;

use crate::board::{Board, SlotKey};
use crate::phase::Phase;

/// How many records are asked for at a time.
const PAGE_RECORDS: usize = 4096;
/// Pages that wait to be taken in. Reading runs ahead by this much and no more.
const PAGES_AHEAD: usize = 4;

pub async fn load(store: &Arc<dyn Store>, phase: &Arc<Phase>) -> Result<Board, StoreError> {
    let (pages, mut waiting) = mpsc::channel::<Page>(PAGES_AHEAD);
    let revision = store.revision();
    let phase = phase.clone();
    let building = tokio::task::spawn_blocking(move || {
        let mut intake = Intake::default();
        while let Some(page) = waiting.blocking_recv() {
            intake.take(page);
            phase.loaded(intake.records);
        }
        intake.finish(revision)
    });
    let mut after: Option<String> = None;
    loop {
        let mut page = store.scan(ROOT, after.as_deref(), PAGE_RECORDS).await?;
        let next = page.next.take();
        // The other side only goes away by panicking, which the join below reports.
        let _ = pages.send(page).await;
        match next {
            Some(key) => after = Some(key),
            None => break,
        }
    }
    drop(pages);
    match building.await {
        Ok(board) => Ok(board),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[derive(Default)]
struct Intake {
    loader: Loader,
    board: Board,
    /// The rows of one slot are separate records that follow each other; this is the slot that is being put together.
    slot: Option<(SlotKey, Slot)>,
    records: u64,
}

impl Intake {
    fn take(&mut self, page: Page) {
        for (key, value) in page.records {
            self.records += 1;
            match self.loader.feed(&key, &value) {
                Some(Entity::Desired(lrp)) => self.board.put_desired(Arc::new(lrp)),
                Some(Entity::Actual(row)) => {
                    let key = SlotKey { process_guid: row.key.process_guid.clone(), index: row.key.index };
                    self.add_row(key, row);
                }
                Some(Entity::Task(task)) => self.board.put_task(Arc::new(task)),
                Some(Entity::Domain(domain)) => self.board.put_domain(domain),
                None => {}
            }
        }
    }

    fn add_row(&mut self, key: SlotKey, row: ActualLrp) {
        if self.slot.as_ref().is_none_or(|(open, _)| *open != key) {
            self.close_slot();
        }
        let (_, slot) = self.slot.get_or_insert_with(|| (key, Slot::default()));
        slot.set(row.presence, Some(Arc::new(row)));
    }

    fn close_slot(&mut self) {
        if let Some((key, slot)) = self.slot.take() {
            self.board.put_slot(key, slot);
        }
    }

    fn finish(mut self, revision: u64) -> Board {
        self.close_slot();
        let quarantine = self.loader.finish();
        for record in &quarantine {
            tracing::error!(
                key = record.key,
                why = record.why,
                "a stored record cannot be read; it is kept and left out"
            );
        }
        self.board.revision = revision;
        self.board.quarantine = Arc::new(quarantine);
        self.board
    }
}
