//! From the store to the board, once, when this node becomes master.
//!
//! A record that cannot be read is set aside and named, never dropped and never a reason not to start: one bad record must not
//! take a platform down.
//!
//! Kinds of records that have nothing to do with each other are read side by side, each by a task that reads a page, takes it
//! in and reads the next: memory stays with the thread that asked for it, and both halves of the machine are busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use model::{ActualLrp, Slot};
use store::versions::latest::{Entity, Loader, ROOT};
use store::{Page, Store, StoreError};

use crate::board::{Board, SlotKey};
use crate::phase::Phase;

/// How many records are asked for at a time.
const PAGE_RECORDS: usize = 4096;

/// What is read by one task. Every record lies below one of these; what lies elsewhere is found by the last one.
const LANES: [Lane; 2] = [Lane { below: "desired/", others: false }, Lane { below: "", others: true }];

#[derive(Clone, Copy)]
struct Lane {
    below: &'static str,
    /// Takes everything that no other lane takes.
    others: bool,
}

pub async fn load(store: &Arc<dyn Store>, phase: &Arc<Phase>) -> Result<Board, StoreError> {
    let revision = store.revision();
    let records = Arc::new(AtomicU64::new(0));
    let lanes = LANES.map(|lane| {
        let counter = Counter { records: records.clone(), phase: phase.clone() };
        tokio::spawn(read(store.clone(), lane, counter))
    });
    let mut parts = Vec::new();
    for lane in lanes {
        match lane.await {
            Ok(part) => parts.push(part?),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    let mut quarantine = Vec::new();
    let mut board = Board::default();
    for part in parts {
        quarantine.extend(part.loader.finish());
        board = board.joined(part.board);
    }
    for record in &quarantine {
        tracing::error!(key = record.key, why = record.why, "a stored record cannot be read; it is kept and left out");
    }
    board.revision = revision;
    board.quarantine = Arc::new(quarantine);
    Ok(board)
}

struct Counter {
    records: Arc<AtomicU64>,
    phase: Arc<Phase>,
}

async fn read(store: Arc<dyn Store>, lane: Lane, counter: Counter) -> Result<Intake, StoreError> {
    let prefix = format!("{ROOT}{}", lane.below);
    let mut intake = Intake::default();
    let mut after: Option<String> = None;
    loop {
        let mut page = store.scan(&prefix, after.as_deref(), PAGE_RECORDS).await?;
        let next = page.next.take();
        if lane.others {
            page.records.retain(|(key, _)| !is_taken_elsewhere(key));
        }
        let taken = page.records.len() as u64;
        intake.take(page);
        counter.phase.loaded(counter.records.fetch_add(taken, Ordering::Relaxed) + taken);
        match next {
            Some(key) => after = Some(skip_other_lanes(key, lane)),
            None => break,
        }
    }
    intake.close_slot();
    Ok(intake)
}

fn is_taken_elsewhere(key: &str) -> bool {
    LANES.iter().any(|lane| !lane.others && key.strip_prefix(ROOT).is_some_and(|below| below.starts_with(lane.below)))
}

/// The lane of the others does not read what a lane of its own reads: it goes on behind the last key that lane can have.
fn skip_other_lanes(key: String, lane: Lane) -> String {
    let other = LANES
        .iter()
        .find(|other| !other.others && key.strip_prefix(ROOT).is_some_and(|below| below.starts_with(other.below)));
    match other {
        Some(other) if lane.others => format!("{ROOT}{}\u{10FFFF}", other.below),
        _ => key,
    }
}

#[derive(Default)]
struct Intake {
    loader: Loader,
    board: Board,
    /// The rows of one slot are separate records that follow each other; this is the slot that is being put together.
    slot: Option<(SlotKey, Slot)>,
}

impl Intake {
    fn take(&mut self, page: Page) {
        for (key, value) in page.records {
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
}
