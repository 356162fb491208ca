//! A server without HTTP: mastership, board, writer and engine over the memory store, as a release of some data version.
//!
//! Everything runs on one thread in virtual time, so that a run is the same each time. Clients send the next line of the script
//! while the engine writes something, so that commands and batches alternate; an operator does what is expected of one.
//! A node with keys has two engines. Then everybody comes to rest before anybody goes on, and both keep the same pace.

use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::FutureExt;
use store::memory::Memory;
use store::root::{RootState, next_history_number, read_root};
use store::{Forms, StoreError, Version};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::gate::{Asks, Question};
use super::keyed::{Beside, Keys, PACE_OF_TWO, Rotating, Taken};
use super::world::{Proposal, ScriptClock, TASK_REJECTIONS_MAX, World, dump};
use crate::board::Board;
use crate::commands::Done;
use crate::config::{Finalization, Migration, Mode, Start};
use crate::events::Hub;
use crate::keys::KeyAsk;
use crate::keys::open::{KeyError, Unlocked, begin};
use crate::metrics::Metrics;
use crate::migrate::ask::{Answer, Ask, Desk};
use crate::migrate::open::{self, OpenError, Opened, Work};
use crate::migrate::status::{State, Tracker};

use crate::migrate::{Access, Guard, Migrator, MigratorEnd, Parts};
use crate::pace::Batch;
use crate::phase::Phase;
use crate::writer::{WriteError, Writer, WriterEnd, WriterParts};

const EFFECTS_MAX: usize = 1;
const ENTRIES_AT_ONCE: usize = 5;
/// How long the virtual time is that passes when nothing else happens.
const NEXT_TURN: Duration = Duration::from_millis(1);
/// More turns than any run takes.
const TURNS_MAX: usize = 2_000;
/// The same beside a second engine: less than a batch takes at that pace.
const NEXT_TURN_OF_TWO: Duration = Duration::from_millis(30);
/// Passes when everybody waits for somebody.
const ALL_AT_REST: Duration = Duration::from_millis(4);
/// What an operator says takes this much longer, so that an engine that it sets going does not wake up at the very moment at
/// which somebody else goes on.
const A_WORD: Duration = Duration::from_millis(1);
/// Commands between two words of the operator, when the engine rests.
const COMMANDS_AT_REST: usize = 2;
/// Making metrics costs more than all the rest of a node.
static METRICS: LazyLock<Arc<Metrics>> = LazyLock::new(Metrics::new);

/// A release, and how it is configured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binary {
    pub(crate) newest: Version,
    pub(crate) mode: Mode,
    pub(crate) finalization: Finalization,
    /// How many batches are under way at a time. With several, their order is not the same in every run.
    pub(crate) in_flight: usize,
    pub(crate) keys: Keys,
}

impl Binary {
    fn settings(self) -> Migration {
        let Self { mode, finalization, .. } = self;
        let records_per_s_max = if self.keys.mine.is_empty() { 0 } else { PACE_OF_TWO };
        Migration { mode, finalization, start: Start::Auto, records_per_s_max }
    }

    /// So small that a few records make several.
    fn batch(self) -> Batch {
        Batch { entries: ENTRIES_AT_ONCE, in_flight: self.in_flight }
    }
}

/// What the operator does when the engine rests, and in one case while it works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
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

pub(crate) enum Birth {
    Alive(Box<Node>),
    /// By the version table.
    ShutDown,
    /// For want of a key.
    KeysRefused(String),
    /// The store failed.
    Crashed,
}

impl Birth {
    fn crashed(error: &StoreError) -> Self {
        assert!(error.outcome_unknown(), "{error}");
        Self::Crashed
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Crashed,
    RolledBack(Version),
    /// Nothing more happens by itself.
    Rests(State),
}

pub(crate) struct Node {
    pub(crate) store: Memory,
    pub(crate) board: Arc<ArcSwap<Board>>,
    binary: Binary,
    clock: Arc<ScriptClock>,
    writer: Writer,
    writing: JoinHandle<WriterEnd>,
    engine: JoinHandle<MigratorEnd>,
    questions: mpsc::Receiver<Question>,
    desk: Desk,
    tracker: Arc<Tracker>,
    pub(crate) unlocked: Unlocked,
    rotation: Option<Rotating>,
    access: watch::Receiver<Access>,
    _stop: watch::Sender<bool>,
    /// After so many writes somebody else becomes master.
    pub(crate) deposed_after: Option<u64>,
    /// What was in the store then.
    pub(crate) at_deposition: Option<BTreeMap<String, Bytes>>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.writing.abort();
        self.engine.abort();
    }
}

impl Node {
    /// Starts a release on a store, as a server does. Whoever was master there is no more.
    pub(crate) async fn start(store: &Memory, binary: Binary, world: &World) -> Birth {
        let taken = match Taken::take(store, binary, world).await {
            Ok(taken) => taken,
            Err(KeyError::Refused(refusal)) => return Birth::KeysRefused(refusal.to_string()),
            Err(KeyError::Root(error)) => panic!("{error}"),
        };
        let node = open::Node {
            name: "test",
            newest: binary.newest,
            migration: binary.settings(),
            now_ns: 0,
            fresh_id: "fresh",
            identity: None,
        };
        let opened = match open::open(&taken.store, &taken.held, node).await {
            Ok(opened) => opened,
            Err(OpenError::ShutDown { .. }) => return Birth::ShutDown,
            Err(OpenError::Store(error)) => return Birth::crashed(&error),
            Err(error) => panic!("{error}"),
        };
        let engaged = match taken.rotate_alone(&opened).await {
            Ok(taken) => Self::engage(taken, opened, false).await,
            Err(error) => Err(error),
        };
        match engaged {
            Ok(node) => Birth::Alive(Box::new(node)),
            Err(error) => Birth::crashed(&error),
        }
    }

    /// The engine alone, as an errand has it, which resumes what was interrupted.
    pub(crate) async fn errand(store: &Memory, binary: Binary, world: &World) -> Result<Self, StoreError> {
        let taken = Taken::take(store, binary, world).await.unwrap();
        let store = &taken.store;
        let RootState { version, cluster_id, control, roots, .. } = read_root(store).await.unwrap();
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
            history: next_history_number(store).await.unwrap().into(),
            guard: store::identity::Verdict::Known,
        };
        Self::engage(taken, opened, true).await
    }

    async fn engage(taken: Taken, opened: Opened, resumes: bool) -> Result<Self, StoreError> {
        let Taken { store, held, binary, clock, gated, questions, unlocked } = taken;
        let shared = unlocked.store.clone();
        let board = unlocked.load(opened.current, &Phase::new()).await?;
        let rotates = match &unlocked.vault {
            Some(vault) => begin(vault, &held, &*clock, "test", &opened.history).await?,
            None => false,
        };
        gated.ask_about(if unlocked.vault.is_some() { Asks::LooksOverAll } else { Asks::Commits });
        let hub = Hub::new(board.revision);
        let board = Arc::new(ArcSwap::from_pointee(board));
        let (effects, _) = mpsc::channel(EFFECTS_MAX);
        let (writer, writing) = Writer::start(WriterParts {
            definitions_kept: 5,
            store: shared.clone(),
            held,
            board: board.clone(),
            hub,
            clock: clock.clone(),
            effects,
            metrics: METRICS.clone(),
            task_rejections_max: TASK_REJECTIONS_MAX,
            forms: opened.forms.clone(),
            vault: unlocked.vault.clone(),
        });
        let settings = binary.settings();
        let tracker = Arc::new(Tracker::new(Migrator::facts(&opened, binary.newest, settings)));
        let ((desk, asks), (stop, stopped)) = (Desk::new(), watch::channel(false));
        let rotation = unlocked.vault.clone().filter(|_| !resumes).map(|vault| {
            let history = opened.history.clone();
            let beside = Beside { vault, writer: writer.clone(), clock: clock.clone(), history, stop: stopped.clone() };
            Rotating::start(binary.keys, beside, rotates)
        });
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
        Ok(Self {
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
            unlocked,
            rotation,
            access,
            _stop: stop,
            deposed_after: None,
            at_deposition: None,
        })
    }

    /// Whether all records are under the active key and the store says so.
    pub(crate) fn is_settled(&self) -> bool {
        self.unlocked.is_settled() && self.rotation.as_ref().is_none_or(Rotating::is_settled)
    }

    /// Whether an engine is in the middle of something; it may be waiting for time to pass. One engine alone never does.
    fn is_working(&self) -> bool {
        use State::{Cleaning, Finalizing, RollingBack, Sweeping, Verifying};
        let migrates = matches!(self.tracker.state(), Sweeping | Verifying | Finalizing | Cleaning | RollingBack);
        self.unlocked.vault.is_some() && (migrates || self.rotation.as_ref().is_some_and(Rotating::is_working))
    }

    pub(crate) fn quarantine(&self) -> Vec<String> {
        self.board.load().quarantine.keys().cloned().collect()
    }

    /// Asks something of the engine, and lets everything it writes through.
    pub(crate) async fn ask(&mut self, ask: Ask) -> Answer {
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
    pub(crate) async fn live(&mut self, world: &mut World, operator: &Operator, commands: usize) -> End {
        let (mut left, mut at_rest, mut interfered) = (commands, 0, false);
        let mut pending: Option<Pending> = None;
        let turn = if self.unlocked.vault.is_some() { NEXT_TURN_OF_TWO } else { NEXT_TURN };
        for _ in 0..TURNS_MAX {
            tokio::select! {
                biased;
                told = wait_for(&mut pending) => {
                    pending = None;
                    left -= usize::from(told.settle(world)).min(left);
                }
                Some(question) = self.questions.recv() => {
                    self.let_all_rest(ALL_AT_REST).await;
                    self.depose_when_due().await;
                    let word = self.word_in_between(operator).filter(|_| pending.is_none() && !interfered);
                    if let Some(ask) = word {
                        interfered = true;
                        pending = Some(self.tell(ask));
                        self.let_all_rest(A_WORD).await;
                    } else if pending.is_none() && let Some(told) = self.word_about_keys() {
                        pending = Some(told);
                    } else if pending.is_none() && left > 0 {
                        pending = Some(self.submit(world));
                    }
                    if let Some(pending) = &mut pending {
                        pending.send_off();
                    }
                    self.let_all_rest(ALL_AT_REST).await;
                    let _ = question.send(());
                }
                _ = &mut self.writing => return End::Crashed,
                end = &mut self.engine => {
                    let MigratorEnd::RolledBack { to } = end.unwrap() else { return End::Crashed };
                    return End::RolledBack(to);
                }
                // Time passes when nobody has anything to do.
                () = tokio::time::sleep(turn), if pending.is_none() => {
                    if self.is_working() && self.at_deposition.is_none() {
                        continue;
                    }
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

    /// With two engines, until everybody waits for somebody.
    async fn let_all_rest(&self, how_long: Duration) {
        if self.unlocked.vault.is_some() {
            tokio::time::sleep(how_long).await;
        }
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

    /// What an operator says while an engine works. A rollback begins while records get under another key.
    fn word_in_between(&self, operator: &Operator) -> Option<Ask> {
        match operator {
            Operator::Aborts if self.is_in_the_middle() => Some(Ask::Abort),
            Operator::RollsBack { .. } if self.rotation.is_some() => self.next_word(operator),
            _ => None,
        }
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

    /// The operator says once, at the right moment, that the keys are others now.
    fn word_about_keys(&mut self) -> Option<Pending> {
        let desk = self.rotation.as_mut()?.is_time_for_a_word()?;
        Some(Pending::new(async move { Told::Word(desk.ask(KeyAsk::Rotate { keep_missing: false }).await) }))
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
                assert!(["not-master", "not-stored"].contains(&refused.code), "{}", refused.message);
                false
            }
        }
    }
}

/// The error of a machine that dies before it has stored something.
pub(crate) fn lost_power() -> StoreError {
    StoreError::Unconfirmed { doing: "test".into(), source: std::io::Error::other("the machine lost power") }
}
