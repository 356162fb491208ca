//! What must be in the store: everything that was acknowledged, and at most the one command that was in flight.
//!
//! The model is a board of its own, to which every command is applied that the writer is given. It knows nothing of stores,
//! of data versions and of the engine. A command that was refused for want of a newer data version has changed nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use model::{NANOS_PER_SECOND, Nanos, Refusal, Slot};
use store::memory::Memory;
use store::root::{RootState, VersionRecord, put_cluster_id, put_version, read_root};
use store::seal::envelope::NONCE_BYTES;
use store::{Entity, Forms, STEP_OPS_MAX, Step, Store, Version, versions};

use super::{data, seals};
use crate::board::{Board, SlotKey};
use crate::clock::Clock;
use crate::commands::{Command, Done, Draft, Setting};
use crate::load::load;
use crate::migrate::sweep::entries;
use crate::phase::Phase;
use crate::writer::WriteError;

pub(crate) const TASK_REJECTIONS_MAX: i32 = 3;

/// Time and ids that depend on the number of the command and on nothing else.
#[derive(Debug, Default)]
pub(crate) struct ScriptClock {
    command: AtomicU64,
    drawn: AtomicU64,
    nonces: AtomicU64,
}

impl ScriptClock {
    pub(crate) fn at(command: usize) -> Arc<Self> {
        let clock = Arc::new(Self::default());
        clock.turn_to(command);
        clock
    }

    pub(crate) fn turn_to(&self, command: usize) {
        self.command.store(command as u64, Ordering::SeqCst);
        self.drawn.store(0, Ordering::SeqCst);
    }
}

impl Clock for ScriptClock {
    fn now_ns(&self) -> Nanos {
        (self.command.load(Ordering::SeqCst) as Nanos + 1) * NANOS_PER_SECOND
    }

    fn fresh_id(&self) -> Arc<str> {
        let drawn = self.drawn.fetch_add(1, Ordering::SeqCst);
        format!("id-{}-{drawn}", self.command.load(Ordering::SeqCst)).into()
    }

    /// The same in every run of a node. That two nodes draw the same ones harms nothing that is looked at here.
    fn nonce(&self) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        nonce[..8].copy_from_slice(&self.nonces.fetch_add(1, Ordering::SeqCst).to_be_bytes());
        nonce
    }
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) poisoned: bool,
    /// Whether there is, or has been, a key; then what must hold about keys is looked at as well.
    sealed: bool,
    model: Board,
    /// What the model is if the command got through whose outcome nobody knows.
    in_flight: Option<Board>,
    /// The next line of the script.
    next: usize,
}

/// A command, and what becomes of the model with it.
pub(crate) struct Proposal {
    pub(crate) number: usize,
    pub(crate) command: Command,
    answer: Result<Done, Refusal>,
    after: Board,
}

impl World {
    /// The world as it is in a store of this version, in which there is nothing that `older` has no room for. `None`: nobody
    /// thinks of keys; otherwise all records are under the first of them, or are plain if there is none yet.
    pub(crate) async fn create(version: Version, older: Version, poisoned: bool, keys: Option<&str>) -> (Memory, Self) {
        let entities = data::entities(older);
        let mut step = Step::default();
        put_version(&mut step, &VersionRecord::new(version.number(), version.number()));
        put_cluster_id(&mut step, "test");
        for entity in &entities {
            let (records, lost) = versions::records(version, entity.as_ref());
            assert!(lost.is_empty(), "{lost:?}");
            records.into_iter().for_each(|(key, value)| step.put(key, value));
        }
        if poisoned {
            data::POISONED_TASKS.iter().for_each(|guid| step.put(data::poisoned_key(version, guid), data::POISON));
        }
        let steps: Vec<Step> = step.ops.chunks(STEP_OPS_MAX).map(|ops| Step { ops: ops.to_vec() }).collect();
        let store = Memory::new();
        match keys.filter(|keys| !keys.is_empty()) {
            Some(keys) => seals::fill(&store, keys, &steps).await,
            None => {
                let held = store.campaign("test").await.unwrap();
                store.commit(&held, &steps).await.unwrap();
            }
        }
        let mut model = Board::default();
        entities.into_iter().for_each(|entity| put(&mut model, entity));
        (store.copy(), Self { poisoned, sealed: keys.is_some(), model, in_flight: None, next: 0 })
    }

    pub(crate) fn propose(&self) -> Proposal {
        let (number, command) = (self.next, data::script(self.next));
        let clock = ScriptClock::at(number);
        let setting =
            Setting { definitions_kept: 5, now_ns: clock.now_ns(), clock, task_rejections_max: TASK_REJECTIONS_MAX };
        let mut draft = Draft::new(self.model.clone(), setting, Arc::new(Forms::only(Version::LATEST)));
        let answer = command.clone().apply(&mut draft);
        assert!(draft.steps.len() <= 1, "a command of the script is there whole or not at all");
        Proposal { number, command, answer, after: draft.board }
    }

    /// Notes what became of a proposal. `false`: the writer did not take it, so it is proposed again.
    pub(crate) fn note(&mut self, proposal: Proposal, reply: Result<Done, WriteError>) -> bool {
        let Proposal { number, answer, after, .. } = proposal;
        let answered = match reply {
            Ok(done) => Ok(done),
            Err(WriteError::Refused(refusal)) => Err(refusal),
            Err(WriteError::NeedsVersion { .. }) => {
                self.next += 1;
                return true;
            }
            Err(WriteError::Store(_)) => {
                self.in_flight = Some(after);
                self.next += 1;
                return true;
            }
            Err(WriteError::ReadOnly | WriteError::Stopping) => return false,
            Err(error) => panic!("command {number}: {error}"),
        };
        assert_eq!(answered, answer, "command {number}");
        self.model = after;
        self.next += 1;
        true
    }

    /// Compares the root that `/version` names with what must be there, and settles what became of a command in flight.
    pub(crate) async fn examine(&mut self, store: &Memory, when: &str) -> RootState {
        let root = read_root(store).await.unwrap();
        let current = root.version.as_ref().and_then(|version| Version::of(version.current)).unwrap();
        let shared: Arc<dyn Store> = if self.sealed { seals::unsealed(store).await } else { Arc::new(store.clone()) };
        let found = load(&shared, current, &Phase::new()).await.unwrap();
        if let Some(in_flight) = self.in_flight.take_if(|in_flight| same(&found, in_flight)) {
            self.model = in_flight;
        }
        self.in_flight = None;
        self.compare(&found, when);
        if self.poisoned {
            check_poison(&dump(&*shared).await, when);
        }
        if self.sealed {
            seals::check(store, when).await;
        }
        root
    }

    /// Fails with the names of what differs.
    pub(crate) fn compare(&self, found: &Board, when: &str) {
        if !same(found, &self.model) {
            let (found, wanted) = (by_label(found), by_label(&self.model));
            let labels = found.keys().chain(wanted.keys());
            let differ: Vec<_> = labels.filter(|label| found.get(*label) != wanted.get(*label)).collect();
            panic!("{when}: these are not what was acknowledged: {differ:?}");
        }
        if !self.poisoned {
            assert!(found.quarantine.is_empty(), "{when}: {:?}", found.quarantine.keys().collect::<Vec<_>>());
        }
    }
}

/// Every record that could not be read is still somewhere, byte for byte.
fn check_poison(records: &BTreeMap<String, Bytes>, when: &str) {
    for guid in data::POISONED_TASKS {
        let kept = records.iter().any(|(key, value)| value == data::POISON && key.ends_with(&format!("/{guid}")));
        assert!(kept, "{when}: the record of {guid}, which cannot be read, is gone");
    }
}

/// Everything that is in a store.
pub(crate) async fn dump(store: &dyn Store) -> BTreeMap<String, Bytes> {
    let page = store.scan("", None, usize::MAX).await.unwrap();
    assert!(page.next.is_none(), "one page holds all");
    page.records.into_iter().collect()
}

fn same(one: &Board, other: &Board) -> bool {
    one.desired.len() == other.desired.len()
        && one.slots.len() == other.slots.len()
        && one.tasks.len() == other.tasks.len()
        && one.domains == other.domains
        && one.desired.values().zip(other.desired.values()).all(|(one, other)| one.lrp == other.lrp)
        && one.slots.iter().zip(&other.slots).all(|(one, other)| (one.0, &one.1.slot) == (other.0, &other.1.slot))
        && one.tasks.values().zip(other.tasks.values()).all(|(one, other)| one.task == other.task)
}

fn by_label(board: &Board) -> BTreeMap<String, Entity> {
    let mut labelled = BTreeMap::new();
    for seen in entries(board) {
        labelled.extend(
            seen.entities().into_iter().map(|entity| (entity.label(), versions::through(Version::LATEST, entity))),
        );
    }
    labelled
}

fn put(board: &mut Board, entity: Entity) {
    match entity {
        Entity::Desired(lrp) => board.put_desired(Arc::new(lrp)),
        Entity::Actual(row) => {
            let key = SlotKey { process_guid: row.key.process_guid.clone(), index: row.key.index };
            let mut slot: Slot = board.slot(&key.process_guid, key.index);
            slot.set(row.presence, Some(Arc::new(row)));
            board.put_slot(key, slot);
        }
        Entity::Task(task) => board.put_task(Arc::new(task)),
        Entity::Domain(domain) => board.put_domain(domain),
    }
}
