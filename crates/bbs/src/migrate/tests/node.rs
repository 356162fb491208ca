//! A server without HTTP: mastership, board, writer and engine over the memory store, as a release of some data version.
//!
//! Everything runs on one thread in virtual time, so that a run is the same each time. Clients send the next line of the script
//! while the engine writes something, so that commands and batches alternate; an operator does what is expected of one.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::FutureExt;
use store::memory::Memory;
use store::root::{RootState, next_history_number, read_root};
use store::{Forms, Mastership, Store, StoreError, Version};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::gate::{Gated, Question};
use super::world::{Proposal, ScriptClock, TASK_REJECTIONS_MAX, World, dump};
use crate::board::Board;
use crate::commands::Done;
use crate::config::{Finalization, Migration, Mode, Start};
use crate::events::Hub;
use crate::load::load;
use crate::metrics::Metrics;
use crate::migrate::ask::{Answer, Ask, Desk};
use crate::migrate::open::{self, OpenError, Opened, Work};
use crate::migrate::status::{State, Tracker};
use crate::migrate::sweep::Batch;
use crate::migrate::{Access, Guard, Migrator, MigratorEnd, Parts};
use crate::phase::Phase;
use crate::writer::{WriteError, Writer, WriterEnd, WriterParts};

const EFFECTS_MAX: usize = 1;
const ENTRIES_AT_ONCE: usize = 5;
/// How long the virtual time is that passes when nothing else happens.
const NEXT_TURN: Duration = Duration::from_millis(1);
/// More turns than any run takes.
const TURNS_MAX: usize = 2_000;
/// Commands between two words of the operator, when the engine rests.
const COMMANDS_AT_REST: usize = 2;
/// Making metrics costs more than all the rest of a node.
static METRICS: LazyLock<Arc<Metrics>> = LazyLock::new(Metrics::new);

/// A release, and how it is configured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Binary {
    pub(super) newest: Version,
    pub(super) mode: Mode,
    pub(super) finalization: Finalization,
    /// How many batches are under way at a time. With several, their order is not the same in every run.
    pub(super) in_flight: usize,
}

impl Binary {
    fn settings(self) -> Migration {
        let Self { mode, finalization, .. } = self;
        Migration { mode, finalization, start: Start::Auto, records_per_s_max: 0 }
    }

    /// So small that a few records make several.
    fn batch(self) -> Batch {
        Batch { entries: ENTRIES_AT_ONCE, in_flight: self.in_flight }
    }
}

/// What the operator does when the engine rests, and in one case while it works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    /// Finalizes what is ready.
    Finalizes,
    /// Aborts in the middle of the sweep.
    Aborts,
    RollsBack {
        to: Version,
        accept_loss: bool,
    },
    /// Brings the migration to its end, whatever happened before.
    SeesToIt,
}

pub(super) enum Birth {
    Alive(Box<Node>),
    /// By the version table.
    ShutDown,
    /// The store failed.
    Crashed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Crashed,
    RolledBack(Version),
    /// Nothing more happens by itself.
    Rests(State),
}

pub(super) struct Node {
    pub(super) store: Memory,
    pub(super) board: Arc<ArcSwap<Board>>,
    binary: Binary,
    clock: Arc<ScriptClock>,
    writer: Writer,
    writing: JoinHandle<WriterEnd>,
    engine: JoinHandle<MigratorEnd>,
    questions: mpsc::Receiver<Question>,
    desk: Desk,
    tracker: Arc<Tracker>,
    access: watch::Receiver<Access>,
    _stop: watch::Sender<bool>,
    /// After so many writes somebody else becomes master.
    pub(super) deposed_after: Option<u64>,
    /// What was in the store then.
    pub(super) at_deposition: Option<BTreeMap<String, Bytes>>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.writing.abort();
        self.engine.abort();
    }
}

impl Node {
    /// Starts a release on a store, as a server does. Whoever was master there is no more.
    pub(super) async fn start(store: &Memory, binary: Binary, world: &World) -> Birth {
        let store = store.reopen();
        let held = store.campaign("test").await.unwrap();
        let clock = ScriptClock::at(world.propose().number);
        let node = open::Node {
            name: "test",
            newest: binary.newest,
            migration: binary.settings(),
            now_ns: 0,
            fresh_id: "fresh",
            identity: None,
        };
        match open::open(&store, &held, node).await {
            Ok(opened) => Birth::Alive(Box::new(Self::engage(store, held, binary, clock, opened, false).await)),
            Err(OpenError::ShutDown { .. }) => Birth::ShutDown,
            Err(OpenError::Store(error)) => {
                assert!(error.outcome_unknown(), "{error}");
                Birth::Crashed
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// The engine alone, as an errand has it, which resumes what was interrupted.
    pub(super) async fn errand(store: &Memory, binary: Binary, world: &World) -> Self {
        let store = store.reopen();
        let held = store.campaign("test").await.unwrap();
        let RootState { version, cluster_id, control, roots, .. } = read_root(&store).await.unwrap();
        let record = version.unwrap();
        let current = Version::of(record.current).unwrap();
        let opened = Opened {
            current,
            record,
            forms: Forms::only(current),
            work: Work::Held { why: "an errand is under way".to_owned() },
            cluster_id: cluster_id.unwrap(),
            control,
            roots,
            history: next_history_number(&store).await.unwrap().into(),
            guard: store::identity::Verdict::Known,
        };
        let clock = ScriptClock::at(world.propose().number);
        Self::engage(store, held, binary, clock, opened, true).await
    }

    async fn engage(
        store: Memory,
        held: Mastership,
        binary: Binary,
        clock: Arc<ScriptClock>,
        opened: Opened,
        resumes: bool,
    ) -> Self {
        let (gated, questions) = Gated::new(store.clone());
        let shared: Arc<dyn Store> = Arc::new(gated);
        let board = load(&shared, opened.current, &Phase::new()).await.unwrap();
        let hub = Hub::new(board.revision);
        let board = Arc::new(ArcSwap::from_pointee(board));
        let (effects, _) = mpsc::channel(EFFECTS_MAX);
        let (writer, writing) = Writer::start(WriterParts {
            store: shared.clone(),
            held,
            board: board.clone(),
            hub,
            clock: clock.clone(),
            effects,
            metrics: METRICS.clone(),
            task_rejections_max: TASK_REJECTIONS_MAX,
            forms: opened.forms.clone(),
            vault: None,
        });
        let settings = binary.settings();
        let tracker = Arc::new(Tracker::new(Migrator::facts(&opened, binary.newest, settings)));
        let ((desk, asks), (stop, stopped)) = (Desk::new(), watch::channel(false));
        let parts = Parts {
            store: shared,
            writer: writer.clone(),
            board: board.clone(),
            clock: clock.clone(),
            node: "test".into(),
            newest: binary.newest,
            settings,
            tracker: tracker.clone(),
            guard: Arc::new(ArcSwap::from_pointee(Guard::of_known(&opened.cluster_id))),
            identity: None,
            stop: stopped,
        };
        let (mut migrator, access) = Migrator::new(parts, opened, asks);
        migrator.batch = binary.batch();
        if resumes {
            migrator.resume_what_was_interrupted();
        }
        Self {
            store,
            board,
            binary,
            clock,
            writer,
            writing: tokio::spawn(writing),
            engine: tokio::spawn(migrator.run()),
            questions,
            desk,
            tracker,
            access,
            _stop: stop,
            deposed_after: None,
            at_deposition: None,
        }
    }

    pub(super) fn quarantine(&self) -> Vec<String> {
        self.board.load().quarantine.keys().cloned().collect()
    }

    /// Asks something of the engine, and lets everything it writes through.
    pub(super) async fn ask(&mut self, ask: Ask) -> Answer {
        let mut answer = pin!(self.desk.ask(ask));
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return answer,
                Some(question) = self.questions.recv() => drop(question.send(())),
            }
        }
    }

    /// Lets the node run, with clients that send up to so many commands, until it dies or nothing more is to come.
    pub(super) async fn live(&mut self, world: &mut World, operator: &Operator, commands: usize) -> End {
        let (mut left, mut at_rest, mut aborted) = (commands, 0, false);
        let mut pending: Option<Pending> = None;
        for _ in 0..TURNS_MAX {
            tokio::select! {
                biased;
                told = wait_for(&mut pending) => {
                    pending = None;
                    left -= usize::from(told.settle(world)).min(left);
                }
                Some(question) = self.questions.recv() => {
                    self.depose_when_due().await;
                    if pending.is_none() && *operator == Operator::Aborts && !aborted && self.is_in_the_middle() {
                        aborted = true;
                        pending = Some(self.tell(Ask::Abort));
                    } else if pending.is_none() && left > 0 {
                        pending = Some(self.submit(world));
                    }
                    if let Some(pending) = &mut pending {
                        pending.send_off();
                    }
                    let _ = question.send(());
                }
                _ = &mut self.writing => return End::Crashed,
                end = &mut self.engine => {
                    let MigratorEnd::RolledBack { to } = end.unwrap() else { return End::Crashed };
                    return End::RolledBack(to);
                }
                // Time passes when nobody has anything to do.
                () = tokio::time::sleep(NEXT_TURN), if pending.is_none() => {
                    if self.at_deposition.is_some() || (left > 0 && at_rest < COMMANDS_AT_REST) {
                        at_rest += 1;
                        pending = Some(self.submit(world));
                    } else if let Some(ask) = self.next_word(operator) {
                        at_rest = 0;
                        pending = Some(self.tell(ask));
                    } else {
                        return End::Rests(self.tracker.state());
                    }
                }
            }
        }
        panic!("it does not come to an end: {:?}", self.tracker.status());
    }

    async fn depose_when_due(&mut self) {
        let writes = self.store.writes();
        if self.deposed_after.take_if(|after| writes >= *after).is_some() {
            self.store.reopen();
            self.at_deposition = Some(dump(&self.store).await);
        }
    }

    /// The next command, on its way to the writer.
    fn submit(&self, world: &World) -> Pending {
        let access = *self.access.borrow();
        self.writer.set_read_only(access != Access::All);
        let proposal = world.propose();
        self.clock.turn_to(proposal.number);
        let (writer, command) = (self.writer.clone(), proposal.command.clone());
        Pending::new(async move {
            let reply = writer.submit(command, "trace".into()).await;
            let refused = matches!(reply, Err(WriteError::ReadOnly | WriteError::Stopping | WriteError::Store(_)));
            assert!(access == Access::All || refused, "a command was taken while the door was closed");
            Told::Command(Box::new(proposal), reply)
        })
    }

    fn is_in_the_middle(&self) -> bool {
        let progress = self.tracker.progress();
        self.tracker.state() == State::Sweeping && progress.done > 0 && progress.done * 2 >= progress.total
    }

    fn next_word(&self, operator: &Operator) -> Option<Ask> {
        let finalize = Ask::Finalize { version: self.binary.newest.number() };
        match (operator, self.tracker.state()) {
            (Operator::Finalizes | Operator::SeesToIt, State::Ready) => Some(finalize),
            (Operator::SeesToIt, State::Held) => Some(Ask::Start),
            (Operator::RollsBack { to, accept_loss }, _) => {
                Some(Ask::Rollback { to: to.number(), accept_loss: *accept_loss })
            }
            _ => None,
        }
    }

    fn tell(&self, ask: Ask) -> Pending {
        let desk = self.desk.clone();
        Pending::new(async move { Told::Word(desk.ask(ask).await) })
    }
}

/// Something that was sent and is not answered yet.
struct Pending {
    future: Pin<Box<dyn Future<Output = Told> + Send>>,
    told: Option<Told>,
}

/// The answer.
enum Told {
    Command(Box<Proposal>, Result<Done, WriteError>),
    Word(Answer),
}

impl Pending {
    fn new(future: impl Future<Output = Told> + Send + 'static) -> Self {
        Self { future: Box::pin(future), told: None }
    }

    /// Sees to it that it is in the queue of whoever answers it.
    fn send_off(&mut self) {
        if self.told.is_none() {
            self.told = self.future.as_mut().now_or_never();
        }
    }
}

async fn wait_for(pending: &mut Option<Pending>) -> Told {
    match pending {
        Some(Pending { told: Some(_), .. }) => {
            let told = pending.as_mut().and_then(|pending| pending.told.take());
            told.expect("it was just seen")
        }
        Some(pending) => pending.future.as_mut().await,
        None => std::future::pending().await,
    }
}

impl Told {
    /// Whether it was a command that is done with. A word is refused only by a node that dies.
    fn settle(self, world: &mut World) -> bool {
        match self {
            Self::Command(proposal, reply) => world.note(*proposal, reply),
            Self::Word(Ok(_)) => false,
            Self::Word(Err(refused)) => {
                assert_eq!(refused.code, "not-master", "{}", refused.message);
                false
            }
        }
    }
}

/// The error of a machine that dies before it has stored something.
pub(super) fn lost_power() -> StoreError {
    StoreError::Unconfirmed { doing: "test".into(), source: std::io::Error::other("the machine lost power") }
}
