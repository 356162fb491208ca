//! From the store to the board, once, when this node becomes master.
//!
//! A record that cannot be read is set aside and named, never dropped and never a reason not to start: one bad record must not
//! take a platform down.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Presence, Slot};
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
    /// Rows of the same slot come as separate records.
    slots: HashMap<SlotKey, Slot>,
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
                    let presence: Presence = row.presence;
                    self.slots.entry(key).or_default().set(presence, Some(Arc::new(row)));
                }
                Some(Entity::Task(task)) => self.board.put_task(Arc::new(task)),
                Some(Entity::Domain(domain)) => self.board.put_domain(domain),
                None => {}
            }
        }
    }

    fn finish(mut self, revision: u64) -> Board {
        for (key, slot) in self.slots {
            self.board.put_slot(key, slot);
        }
        let quarantine = self.loader.finish();
        for record in &quarantine {
            tracing::error!(key = record.key, why = record.why, "a stored record cannot be read; it is kept and left out");
        }
        Board { revision, quarantine: Arc::new(quarantine), ..self.board }
    }
}
