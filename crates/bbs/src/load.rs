//! From the store to the board, when this node becomes master or begins to follow one.
//!
//! A record that cannot be read is set aside and named, never dropped and never a reason not to start: one bad record must not
//! take a platform down. Nothing is said of it here: beside a master that writes, a record may look torn that is not.
//! Whoever serves the board calls [`Board::report_quarantine`].
//!
//! Kinds of records that have nothing to do with each other are read side by side, each by a task that reads a page, takes it
//! in and reads the next: memory stays with the thread that asked for it, and both halves of the machine are busy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use model::{ActualLrp, Slot};
use store::root::QUARANTINE_ROOT;
use store::{Entity, Loader, Page, Quarantined, Store, StoreError, Version};
use tokio::task::JoinSet;

use crate::board::{Board, Kept, Place, Quarantine, SlotKey};
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

pub async fn load(store: &Arc<dyn Store>, version: Version, phase: &Arc<Phase>) -> Result<Board, StoreError> {
    Reading::start(store, version, phase).finish().await
}

/// Records that are being read.
pub(crate) struct Reading {
    store: Arc<dyn Store>,
    /// Of the store at the beginning: everything that was committed until then is read.
    revision: u64,
    lanes: JoinSet<Result<Intake, StoreError>>,
}

impl Reading {
    pub(crate) fn start(store: &Arc<dyn Store>, version: Version, phase: &Arc<Phase>) -> Self {
        let revision = store.revision();
        let records = Arc::new(AtomicU64::new(0));
        let mut lanes = JoinSet::new();
        for lane in LANES {
            let counter = Counter { records: records.clone(), phase: phase.clone() };
            lanes.spawn(read(store.clone(), version, lane, counter));
        }
        Self { store: store.clone(), revision, lanes }
    }

    pub(crate) async fn finish(&mut self) -> Result<Board, StoreError> {
        let mut quarantine = Vec::new();
        let mut board = Board::default();
        while let Some(lane) = self.lanes.join_next().await {
            match lane {
                Ok(Ok(part)) => {
                    quarantine.extend(part.loader.finish());
                    board = board.joined(part.board);
                }
                Ok(Err(error)) => {
                    self.abandon().await;
                    return Err(error);
                }
                Err(error) => {
                    self.abandon().await;
                    std::panic::resume_unwind(error.into_panic());
                }
            }
        }
        board.revision = self.revision;
        board.quarantine = keep(&*self.store, quarantine).await?;
        for (key, bytes) in displaced(&*self.store).await? {
            board.quarantine.insert(key, Arc::new(Kept::displaced(bytes)));
        }
        Ok(board)
    }

    /// When it returns, nothing is read any more.
    pub(crate) async fn abandon(&mut self) {
        self.lanes.shutdown().await;
    }
}

/// Fetches the bytes of records that could not be read, so that they can be kept when something takes their key.
async fn keep(store: &dyn Store, records: Vec<Quarantined>) -> Result<Quarantine, StoreError> {
    let mut quarantine = Quarantine::default();
    for Quarantined { key, why } in records {
        if let Some(bytes) = store.get(&key).await? {
            quarantine.insert(key, Arc::new(Kept { why, bytes, place: Place::InPlace }));
        }
    }
    Ok(quarantine)
}

async fn displaced(store: &dyn Store) -> Result<Vec<(String, Bytes)>, StoreError> {
    let mut records = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = store.scan(QUARANTINE_ROOT, after.as_deref(), PAGE_RECORDS).await?;
        records.extend(page.records);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(records),
        }
    }
}

struct Counter {
    records: Arc<AtomicU64>,
    phase: Arc<Phase>,
}

async fn read(store: Arc<dyn Store>, version: Version, lane: Lane, counter: Counter) -> Result<Intake, StoreError> {
    let root = version.root();
    let prefix = format!("{root}{}", lane.below);
    let mut intake = Intake { loader: Loader::new(version), board: Board::default(), slot: None };
    let mut after: Option<String> = None;
    loop {
        let mut page = store.scan(&prefix, after.as_deref(), PAGE_RECORDS).await?;
        let next = page.next.take();
        if lane.others {
            page.records.retain(|(key, _)| lane_of(root, key).is_none());
        }
        let taken = page.records.len() as u64;
        intake.take(page);
        counter.phase.loaded(counter.records.fetch_add(taken, Ordering::Relaxed) + taken);
        match next {
            Some(key) if lane.others => after = Some(skip_other_lanes(root, key)),
            Some(key) => after = Some(key),
            None => break,
        }
    }
    intake.close_slot();
    Ok(intake)
}

/// The lane of its own that takes a record, if one does.
fn lane_of(root: &str, key: &str) -> Option<&'static Lane> {
    let below = key.strip_prefix(root)?;
    LANES.iter().find(|lane| !lane.others && below.starts_with(lane.below))
}

/// The lane of the others does not read what a lane of its own reads: it goes on behind the last key that lane can have.
fn skip_other_lanes(root: &str, key: String) -> String {
    match lane_of(root, &key) {
        Some(lane) => format!("{root}{}\u{10FFFF}", lane.below),
        None => key,
    }
}

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
