//! A board that follows what somebody else commits, as a pure function of the board and the change.
//!
//! Promise: a change is applied thing by thing. Of each thing that it touches, all records are taken as they are with it, and
//! read as a load reads them, so that the thing is on the board, or its records are in quarantine for the same reasons. That
//! is enough, because whether a record can be read depends on the records of its own thing and on nothing else.
//!
//! The board keeps the model, not the bytes. A record that was read and is not in the change is written out again when its
//! thing has others. If it then cannot be read (somebody tore a DesiredLRP apart), the bytes that it has in the store
//! are asked for: [`Followed::unsure`] names it, until it is settled.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use model::{ActualLrp, DomainName, Presence, ProcessGuid, TaskGuid};
use store::root::{QUARANTINE_ROOT, VERSION_KEY, VersionRecord};
use store::versions::{records, subject};
use store::{Change, Entity, EntityRef, Loader, Op, Quarantined, Subject, Version};

use crate::board::{Board, Kept, Place, SlotKey};

/// What became of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Applied,
    /// Nothing was applied, and the board is of no use any more: everything has to be loaded again.
    Reload,
}

/// Why a value under a key cannot be opened, if that is what is wrong with it.
pub type Explain<'a> = &'a dyn Fn(&str, &[u8]) -> Option<String>;

#[derive(Clone, Debug)]
pub struct Followed {
    pub board: Board,
    /// The version that is loaded, which the store says is the current one.
    pub version: Version,
    unsure: BTreeSet<String>,
}

/// One record of a thing.
struct Part {
    bytes: Bytes,
    /// Whether these are the bytes in the store, and not only others of the same meaning.
    sure: bool,
}

/// What the operations of a change belong to.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Touched<'a> {
    Thing(Subject),
    /// A key in the root that is served under which nothing can be read.
    Nothing(&'a str),
}

impl Followed {
    pub fn new(board: Board, version: Version) -> Self {
        Self { board, version, unsure: BTreeSet::new() }
    }

    /// Values come opened, as far as they can be. If something in here panics, the board stays as it was.
    pub fn apply(&mut self, change: &Change, explain: Explain<'_>) -> Turn {
        if change.ops.iter().any(|op| op.key() == VERSION_KEY && !names(op, self.version)) {
            return Turn::Reload;
        }
        let mut after = self.clone();
        match catch_unwind(AssertUnwindSafe(|| after.take(change, explain))) {
            Ok(()) => {
                *self = after;
                Turn::Applied
            }
            Err(_) => Turn::Reload,
        }
    }

    /// Keys in quarantine whose bytes may not be those in the store. Read them there, and [`Followed::settle`] them.
    pub fn unsure(&self) -> &BTreeSet<String> {
        &self.unsure
    }

    /// The bytes of a record as they lie in the store, perhaps after changes that are still to come. If it is gone, the change
    /// that says so is still to come.
    pub fn settle(&mut self, key: &str, bytes: Option<Bytes>) {
        self.unsure.remove(key);
        if let (Some(kept), Some(bytes)) = (self.board.quarantine.get(key), bytes) {
            let kept = Kept { bytes, ..Kept::clone(kept) };
            self.board.quarantine.insert(key.to_owned(), Arc::new(kept));
        }
    }

    fn take(&mut self, change: &Change, explain: Explain<'_>) {
        let mut touched: BTreeMap<Touched<'_>, BTreeMap<&str, Option<&Bytes>>> = BTreeMap::new();
        for op in &change.ops {
            let (key, value) = match op {
                Op::Put { key, value } => (key.as_str(), Some(value)),
                Op::Delete { key } => (key.as_str(), None),
            };
            if key.starts_with(QUARANTINE_ROOT) {
                self.board.quarantine.remove(key);
                if let Some(bytes) = value {
                    self.keep(key, Kept::displaced(bytes.clone()), explain);
                }
            } else if key.starts_with(self.version.root()) {
                let subject = subject(self.version, key);
                let touched = touched.entry(subject.map_or(Touched::Nothing(key), Touched::Thing)).or_default();
                touched.insert(key, value);
            }
        }
        for (of, ops) in touched {
            let parts = match &of {
                Touched::Thing(Subject::Desired(guid)) => self.parts_of_desired(guid),
                // The others have one record, and it is in the change.
                Touched::Thing(_) | Touched::Nothing(_) => BTreeMap::new(),
            };
            self.set(&of, parts, &ops, explain);
        }
        self.board.revision = change.revision;
    }

    /// The records of a DesiredLRP as they were, which are out of quarantine with that.
    fn parts_of_desired(&mut self, guid: &str) -> BTreeMap<String, Part> {
        let mut parts = BTreeMap::new();
        let entry = ProcessGuid::parse(guid).ok().and_then(|guid| self.board.desired.get(&guid));
        if let Some(entry) = entry {
            let (written, _) = records(self.version, EntityRef::Desired(&entry.lrp));
            parts.extend(written.into_iter().map(|(key, bytes)| (key, Part { bytes, sure: false })));
        }
        let is_of_it = |key: &str| matches!(subject(self.version, key), Some(Subject::Desired(other)) if other == guid);
        let below = format!("{}desired/", self.version.root());
        let keys = self.board.quarantine.range(below.clone()..).map(|(key, _)| key);
        let keys: Vec<String> =
            keys.take_while(|key| key.starts_with(&below)).filter(|key| is_of_it(key)).cloned().collect();
        for key in keys {
            if let Some(kept) = self.board.quarantine.remove(&key) {
                let sure = !self.unsure.remove(&key);
                parts.insert(key, Part { bytes: kept.bytes.clone(), sure });
            }
        }
        parts
    }

    /// Reads all records of a thing anew.
    fn set(
        &mut self,
        of: &Touched<'_>,
        mut parts: BTreeMap<String, Part>,
        ops: &BTreeMap<&str, Option<&Bytes>>,
        explain: Explain<'_>,
    ) {
        for (key, value) in ops {
            self.board.quarantine.remove(*key);
            match value {
                Some(bytes) => drop(parts.insert((*key).to_owned(), Part { bytes: (*bytes).clone(), sure: true })),
                None => drop(parts.remove(*key)),
            }
        }
        let mut loader = Loader::new(self.version);
        let mut entity = None;
        // In the order of keys, as a scan gives them.
        for (key, part) in &parts {
            entity = loader.feed(key, &part.bytes).or(entity);
        }
        if let Touched::Thing(subject) = of {
            self.put(subject, entity);
        }
        for Quarantined { key, why } in loader.finish() {
            let Some(Part { bytes, sure }) = parts.remove(&key) else { continue };
            if !sure {
                self.unsure.insert(key.clone());
            }
            self.keep(&key, Kept { why, bytes, place: Place::InPlace }, explain);
        }
    }

    fn put(&mut self, subject: &Subject, entity: Option<Entity>) {
        match (subject, entity) {
            (_, Some(Entity::Desired(lrp))) => self.board.put_desired(Arc::new(lrp)),
            (_, Some(Entity::Task(task))) => self.board.put_task(Arc::new(task)),
            (_, Some(Entity::Domain(domain))) => self.board.put_domain(domain),
            (_, Some(Entity::Actual(row))) => {
                let key = SlotKey { process_guid: row.key.process_guid.clone(), index: row.key.index };
                self.set_row(key, row.presence, Some(Arc::new(row)));
            }
            (gone, None) => self.remove(gone),
        }
    }

    /// What cannot have the name was never on the board.
    fn remove(&mut self, gone: &Subject) {
        match gone {
            Subject::Desired(guid) => {
                if let Ok(guid) = ProcessGuid::parse(guid) {
                    self.board.remove_desired(&guid);
                }
            }
            Subject::Actual { guid, index, presence } => {
                if let Ok(process_guid) = ProcessGuid::parse(guid) {
                    self.set_row(SlotKey { process_guid, index: *index }, *presence, None);
                }
            }
            Subject::Task(guid) => {
                if let Ok(guid) = TaskGuid::parse(guid) {
                    self.board.remove_task(&guid);
                }
            }
            Subject::Domain(name) => {
                if let Ok(name) = DomainName::parse(name) {
                    self.board.remove_domain(&name);
                }
            }
        }
    }

    fn set_row(&mut self, key: SlotKey, presence: Presence, row: Option<Arc<ActualLrp>>) {
        let mut slot = self.board.slot(&key.process_guid, key.index);
        slot.set(presence, row);
        self.board.put_slot(key, slot);
    }

    fn keep(&mut self, key: &str, kept: Kept, explain: Explain<'_>) {
        let why = explain(key, &kept.bytes).unwrap_or_else(|| kept.why.clone());
        self.board.quarantine.insert(key.to_owned(), Arc::new(Kept { why, ..kept }));
    }
}

/// Whether an operation on `/version` says that this one is current.
fn names(op: &Op, version: Version) -> bool {
    match op {
        Op::Put { value, .. } => VersionRecord::parse(value).is_ok_and(|record| record.current == version.number()),
        Op::Delete { .. } => false,
    }
}
