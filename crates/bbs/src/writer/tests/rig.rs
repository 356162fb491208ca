//! A writer over the memory store, driven group by group, with everything it lets out written down.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use api::convert::Stream;
use arc_swap::ArcSwap;
use futures_util::FutureExt;
use futures_util::future::join_all;
use model::{DesiredLrp, Domain, Nanos, Slot, Task};
use store::memory::Memory;
use store::{Mastership, Store};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::task::coop::unconstrained;

use super::workload::GROUP_APART_NS;
use crate::board::{Board, SlotKey};
use crate::clock::Clock;
use crate::commands::{Command, Done, TracedEffect};
use crate::events::{Hub, Kind, Subscription};
use crate::load::load;
use crate::metrics::Metrics;
use crate::phase::Phase;
use crate::writer::{WriteError, Writer, WriterEnd, WriterParts};

/// More than any run of these tests leaves behind.
const EFFECTS_MAX: usize = 1024;
/// Ids that one group may draw before it would draw those of the next.
const IDS_PER_GROUP: u64 = 1_000_000;

/// Time and ids that depend on the number of the group and on nothing else.
#[derive(Debug, Default)]
pub(super) struct GroupClock {
    group: AtomicU64,
    drawn: AtomicU64,
}

impl GroupClock {
    pub(super) fn turn_to(&self, group: usize) {
        self.group.store(group as u64, Ordering::SeqCst);
        self.drawn.store(0, Ordering::SeqCst);
    }
}

impl Clock for GroupClock {
    fn now_ns(&self) -> Nanos {
        (self.group.load(Ordering::SeqCst) as Nanos + 1) * GROUP_APART_NS
    }

    fn fresh_id(&self) -> Arc<str> {
        let drawn = self.drawn.fetch_add(1, Ordering::SeqCst);
        assert!(drawn < IDS_PER_GROUP);
        format!("id-{}", self.group.load(Ordering::SeqCst) * IDS_PER_GROUP + drawn).into()
    }
}

pub(super) type Reply = Result<Done, WriteError>;

/// What others than the caller get to see of a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outside {
    /// Event frames of the group, the instance and the task stream.
    pub(super) frames: [Vec<String>; 3],
    pub(super) effects: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Rig {
    pub(super) store: Memory,
    pub(super) board: Arc<ArcSwap<Board>>,
    pub(super) clock: Arc<GroupClock>,
    pub(super) writer: Option<Writer>,
    writing: JoinHandle<WriterEnd>,
    effects: mpsc::Receiver<TracedEffect>,
    streams: [Subscription; 3],
}

impl Rig {
    pub(super) async fn new() -> Self {
        let store = Memory::new();
        let held = store.campaign("test").await.unwrap();
        Self::over(store.clone(), Arc::new(store), held)
    }

    /// A writer on `through`, which ends in `store`.
    pub(super) fn over(store: Memory, through: Arc<dyn Store>, held: Mastership) -> Self {
        let board = Arc::new(ArcSwap::from_pointee(Board::default()));
        let hub = Hub::new(0);
        let clock = Arc::new(GroupClock::default());
        let (to_effects, effects) = mpsc::channel(EFFECTS_MAX);
        let streams = [Kind::Group, Kind::Instance, Kind::Task]
            .map(|kind| hub.subscribe(kind, Stream::Newest, None, None).unwrap().0);
        let (writer, writing) = Writer::start(WriterParts {
            definitions_kept: 5,
            store: through,
            held,
            board: board.clone(),
            hub,
            clock: clock.clone(),
            effects: to_effects,
            metrics: Metrics::new(),
            task_rejections_max: 3,
            forms: store::Forms::only(store::Version::LATEST),
            vault: None,
        });
        let writing = tokio::spawn(writing);
        Self { store, board, clock, writer: Some(writer), writing, effects, streams }
    }

    pub(super) fn board(&self) -> Arc<Board> {
        self.board.load_full()
    }

    /// Sends commands so that they meet in one commit: all are queued before the writer gets its turn.
    pub(super) async fn send(&self, commands: impl IntoIterator<Item = Command>) -> Vec<Reply> {
        let writer = self.writer.as_ref().unwrap();
        let submitted = commands.into_iter().enumerate().map(|(at, command)| writer.submit(command, trace(at)));
        // The scheduler would otherwise make us pause in the middle, and the writer would take what it finds.
        unconstrained(join_all(submitted)).await
    }

    /// What got out since the last call.
    pub(super) fn outside(&mut self) -> Outside {
        let mut outside = Outside::default();
        for (frames, stream) in outside.frames.iter_mut().zip(&mut self.streams) {
            while let Some(batch) = unconstrained(stream.next()).now_or_never() {
                frames.extend(batch.unwrap().iter().map(|frame| String::from_utf8(frame.to_vec()).unwrap()));
            }
        }
        while let Ok(effect) = self.effects.try_recv() {
            outside.effects.push(format!("{effect:?}"));
        }
        outside
    }

    /// Lets go of the last handle and waits for the writer to end.
    pub(super) async fn end(mut self) -> (WriterEnd, Memory) {
        self.writer = None;
        (self.writing.await.unwrap(), self.store)
    }
}

fn trace(at: usize) -> Arc<str> {
    format!("trace-{at}").into()
}

/// What a restart finds, with everything checked that must hold for any board.
pub(super) async fn reload(store: &Memory) -> Board {
    let reopened: Arc<dyn Store> = Arc::new(store.reopen());
    let board = load(&reopened, store::Version::LATEST, &Phase::new()).await.unwrap();
    assert!(board.quarantine.is_empty(), "{:?}", board.quarantine);
    assert_eq!(board.revision, reopened.revision());
    board.check_indexes().unwrap();
    board
}

/// One record, or the rows of one slot, which belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Thing {
    Desired(Arc<DesiredLrp>),
    Slot(Slot),
    Task(Arc<Task>),
    Domain(Arc<Domain>),
}

/// Everything on a board, by name.
pub(super) fn things(board: &Board) -> BTreeMap<String, Thing> {
    let desired =
        board.desired.iter().map(|(guid, entry)| (format!("desired {guid}"), Thing::Desired(entry.lrp.clone())));
    let slots = board.slots.iter().map(|(SlotKey { process_guid, index }, entry)| {
        (format!("slot {process_guid}/{index}"), Thing::Slot(entry.slot.clone()))
    });
    let tasks = board.tasks.iter().map(|(guid, entry)| (format!("task {guid}"), Thing::Task(entry.task.clone())));
    let domains = board.domains.iter().map(|(name, domain)| (format!("domain {name}"), Thing::Domain(domain.clone())));
    desired.chain(slots).chain(tasks).chain(domains).collect()
}

/// Fails with the names of the things that differ, not with two whole boards.
pub(super) fn assert_same(found: &Board, expected: &Board, when: &str) {
    let (found_things, expected_things) = (things(found), things(expected));
    let names = found_things.keys().chain(expected_things.keys());
    let differing: Vec<&String> = names.filter(|name| found_things.get(*name) != expected_things.get(*name)).collect();
    assert!(differing.is_empty(), "{when}: these differ: {differing:?}");
    assert_eq!(found.totals(), expected.totals(), "{when}");
    assert_eq!(found.revision, expected.revision, "{when}");
}
