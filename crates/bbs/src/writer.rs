//! The one writer: applies commands in order, commits them in groups, and only then lets anybody see them.
//!
//! Whatever commands queue up while a commit is on its way form the next group, so one durable commit carries many requests
//! and the queue empties faster the longer it gets. Replies, events and the new snapshot leave after the store has confirmed
//! the group. If the commit fails, the changed board is dropped and every command of the group reports the failure; if it is
//! not known whether it failed, memory and disk may differ, and the server stops, because a reload settles the question.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use model::Refusal;
use store::seal::Vault;
use store::{Forms, Lost, Mastership, Op, Step, Store, StoreError, Version};
use tokio::sync::{mpsc, oneshot};

use crate::board::Board;
use crate::clock::Clock;
use crate::commands::{CHANGE_BYTES_MAX, Command, Done, Draft, Setting, TracedEffect};
use crate::events::Hub;
use crate::metrics::Metrics;

pub mod errand;

use errand::{Control, Rewrite};

/// How many commands wait for the writer. When the queue is full, requests wait in their handlers.
const QUEUE_COMMANDS_MAX: usize = 4096;
/// How many commands one commit carries at most.
const GROUP_COMMANDS_MAX: usize = 512;
/// A group is closed once its steps hold this much, so that one commit never grows without bound.
const GROUP_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What one command may store: together with the group it closes, it still fits into a commit.
const COMMAND_BYTES_MAX: usize = store::GROUP_BYTES_MAX - GROUP_BYTES_MAX;

/// What a server says that has not heard from its store for too long.
pub const UNCERTAIN: &str = "this server cannot be sure that it is still master, because its store does not answer; nothing was \
                             changed, try again or try another node";

#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("the change could not be stored: {0}")]
    Store(Arc<StoreError>),
    /// The store has a data version that cannot hold the change.
    #[error(
        "this needs data version {needs} ({name}), and the store still has an older one, which has no room for {what}. \
         Nothing was changed. It works once the migration has ended: see `corkboard migrate status`, and \
         `corkboard migrate finalize` ends it",
        needs = .needs.number(), name = .needs.name()
    )]
    NeedsVersion { needs: Version, what: String },
    /// A migration in a mode that takes no writes is under way.
    #[error("the server takes no writes while it migrates its records; nothing was changed, try again")]
    ReadOnly,
    #[error("{UNCERTAIN}")]
    Uncertain,
    #[error("the server met a defect while applying this request; nothing was changed")]
    Panicked,
    #[error("the server is stopping; nothing was changed")]
    Stopping,
    /// The writer ended with the change in its hands.
    #[error(
        "the server ended before it knew whether this change was stored; whoever is master next knows. Read what is there \
         before you repeat it"
    )]
    Unanswered,
}

#[derive(Debug)]
enum Request {
    Command { command: Command, trace: Arc<str>, reply: Sender },
    Rewrite { rewrites: Vec<Rewrite>, reply: Sender },
    Reseal { sealed: Vec<Op>, reply: Sender },
    Control { control: Control, reply: Sender },
}

type Sender = oneshot::Sender<Result<Done, WriteError>>;

impl Request {
    fn turn_away(self) {
        let (Self::Command { reply, .. }
        | Self::Rewrite { reply, .. }
        | Self::Reseal { reply, .. }
        | Self::Control { reply, .. }) = self;
        let _ = reply.send(Err(WriteError::Stopping));
    }
}

/// The handle through which requests reach the writer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Writer {
    queue: mpsc::Sender<Request>,
    /// Whether commands are taken; see [`Writer::set_read_only`].
    read_only: Arc<AtomicBool>,
}

/// What the writer needs and owns.
#[derive(Debug)]
pub struct WriterParts {
    pub store: Arc<dyn Store>,
    pub held: Mastership,
    pub board: Arc<ArcSwap<Board>>,
    pub hub: Arc<Hub>,
    pub clock: Arc<dyn Clock>,
    pub effects: mpsc::Sender<TracedEffect>,
    pub metrics: Arc<Metrics>,
    pub task_rejections_max: i32,
    /// How many former definitions of a process one can go back to.
    pub definitions_kept: usize,
    /// In which data versions changes are stored, until a [`Control`] changes it.
    pub forms: Forms,
    /// The store, if its records are sealed.
    pub vault: Option<Arc<Vault>>,
}

/// How the writer ended.
#[derive(Debug)]
pub enum WriterEnd {
    /// Everybody who could send commands is gone. The mastership can be given up.
    Drained(Mastership),
    /// The store cannot be trusted to hold what memory holds.
    Failed(Arc<StoreError>),
}

impl Writer {
    /// Queues a command and waits until it is durable.
    pub async fn submit(&self, command: Command, trace: Arc<str>) -> Result<Done, WriteError> {
        if self.read_only.load(Ordering::Acquire) {
            return Err(WriteError::ReadOnly);
        }
        self.send(|reply| Request::Command { command, trace, reply }).await
    }

    /// Whether commands are refused with a word that it is worth trying again. Holds for all handles.
    pub fn set_read_only(&self, read_only: bool) {
        self.read_only.store(read_only, Ordering::Release);
    }

    /// Stores entries in another form.
    pub async fn rewrite(&self, rewrites: Vec<Rewrite>) -> Result<(), WriteError> {
        self.send(|reply| Request::Rewrite { rewrites, reply }).await.map(|_| ())
    }

    /// Stores records under another key. What has changed since it was read is under that key already and is left alone.
    pub async fn reseal(&self, sealed: Vec<Op>) -> Result<(), WriteError> {
        self.send(|reply| Request::Reseal { sealed, reply }).await.map(|_| ())
    }

    /// Changes the writer itself, between two groups.
    pub async fn control(&self, control: Control) -> Result<(), WriteError> {
        self.send(|reply| Request::Control { control, reply }).await.map(|_| ())
    }

    async fn send(&self, request: impl FnOnce(Sender) -> Request) -> Result<Done, WriteError> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(request(reply)).await.map_err(|_| WriteError::Stopping)?;
        answer.await.unwrap_or(Err(WriteError::Unanswered))
    }

    /// Starts the writer. The future ends when all handles are gone or the store failed.
    pub fn start(parts: WriterParts) -> (Self, impl Future<Output = WriterEnd> + Send) {
        let (queue, requests) = mpsc::channel(QUEUE_COMMANDS_MAX);
        (Self { queue, read_only: Arc::default() }, run(parts, requests))
    }
}

async fn run(parts: WriterParts, mut requests: mpsc::Receiver<Request>) -> WriterEnd {
    let mut desk = Desk { forms: Arc::new(parts.forms.clone()), open: true };
    let mut waiting = Vec::with_capacity(GROUP_COMMANDS_MAX);
    while requests.recv_many(&mut waiting, GROUP_COMMANDS_MAX).await > 0 {
        let mut waiting = waiting.drain(..).peekable();
        while let Some(first) = waiting.peek() {
            let done = if matches!(first, Request::Control { .. }) {
                let Some(Request::Control { control, reply }) = waiting.next() else { continue };
                parts.obey(&mut desk, control, reply).await
            } else {
                let group = parts.gather(&desk, &mut waiting);
                parts.commit(group).await
            };
            if let Err(error) = done {
                // Nobody has looked at what waits, so nothing of it was changed.
                requests.close();
                waiting.for_each(Request::turn_away);
                while let Ok(request) = requests.try_recv() {
                    request.turn_away();
                }
                return WriterEnd::Failed(error);
            }
        }
    }
    WriterEnd::Drained(parts.held)
}

/// How the writer works at the moment.
struct Desk {
    forms: Arc<Forms>,
    /// Whether commands are taken.
    open: bool,
}

/// Who waits for an answer, and what it is if the commit succeeds.
type Reply = (Sender, Result<Done, WriteError>);

struct Group {
    draft: Draft,
    replies: Vec<Reply>,
}

impl WriterParts {
    fn gather(&self, desk: &Desk, waiting: &mut std::iter::Peekable<impl Iterator<Item = Request>>) -> Group {
        let setting = Setting {
            now_ns: self.clock.now_ns(),
            clock: self.clock.clone(),
            task_rejections_max: self.task_rejections_max,
            definitions_kept: self.definitions_kept,
        };
        let draft = Draft::new(Board::clone(&self.board.load()), setting, desk.forms.clone());
        let mut group = Group { draft, replies: Vec::new() };
        let mut bytes = 0;
        while let Some(request) = waiting.next_if(|next| !matches!(next, Request::Control { .. })) {
            let steps_before = group.draft.steps.len();
            match request {
                Request::Command { reply, .. } if !desk.open => group.replies.push((reply, Err(WriteError::Stopping))),
                Request::Command { command, trace, reply } => {
                    let answer = apply(&mut group.draft, command, trace);
                    group.replies.push((reply, answer));
                }
                Request::Rewrite { rewrites, reply } => {
                    let steps = errand::steps_of(rewrites, &group.draft.board);
                    group.draft.add_rewrites(steps);
                    group.replies.push((reply, Ok(Done::Ok)));
                }
                Request::Reseal { sealed, reply } => {
                    let steps = errand::reseal(sealed, self.vault.as_deref(), &group.draft.steps);
                    group.draft.add_rewrites(steps);
                    group.replies.push((reply, Ok(Done::Ok)));
                }
                Request::Control { .. } => {}
            }
            bytes += group.draft.steps[steps_before..].iter().map(Step::bytes).sum::<usize>();
            if bytes > GROUP_BYTES_MAX {
                break;
            }
        }
        group
    }

    /// Carries out a change of the writer itself: first what is durable about it, then the rest.
    async fn obey(&self, desk: &mut Desk, control: Control, reply: Sender) -> Result<(), Arc<StoreError>> {
        let Control { check, steps, forms, edit, close } = control;
        let mut board = Board::clone(&self.board.load());
        if check.is_some_and(|check| !check(&board)) {
            let _ = reply.send(Err(WriteError::Refused(Refusal::Exists)));
            return Ok(());
        }
        if !steps.is_empty() {
            match self.store.commit(&self.held, &steps).await {
                Ok(revision) => {
                    self.hub.publish(Vec::new(), board.revision + 1, revision);
                    board.revision = revision;
                }
                Err(error) => return Self::report_failure(error, vec![(reply, Ok(Done::Ok))]),
            }
        }
        if let Some(edit) = edit {
            edit(&mut board);
        }
        self.board.store(Arc::new(board));
        if let Some(forms) = forms {
            desk.forms = Arc::new(forms);
        }
        desk.open &= !close;
        let _ = reply.send(Ok(Done::Ok));
        Ok(())
    }

    async fn commit(&self, group: Group) -> Result<(), Arc<StoreError>> {
        let Group { draft, replies } = group;
        let Draft { mut board, steps, events, effects, .. } = draft;
        if !steps.is_empty() {
            match self.store.commit(&self.held, &steps).await {
                Ok(last_revision) => {
                    let first_revision = last_revision + 1 - steps.len() as u64;
                    board.revision = last_revision;
                    self.board.store(Arc::new(board));
                    self.hub.publish(events, first_revision, last_revision);
                    self.metrics.committed(steps.len(), replies.len());
                }
                Err(error) => return Self::report_failure(error, replies),
            }
        }
        if steps.is_empty() && !self.store.standing().is_certain() {
            // What was stored has proved that this server is master. What needed no storing rests on what is in memory.
            for (reply, _) in replies {
                let _ = reply.send(Err(WriteError::Uncertain));
            }
            return Ok(());
        }
        for effect in effects {
            // A full queue drops the effect: cells and auctioneer are slow, and convergence will ask again.
            if self.effects.try_send(effect).is_err() {
                self.metrics.effect_dropped();
            }
        }
        for (reply, answer) in replies {
            // A client that hung up does not read its answer.
            let _ = reply.send(answer);
        }
        Ok(())
    }

    fn report_failure(error: StoreError, replies: Vec<Reply>) -> Result<(), Arc<StoreError>> {
        let fatal = error.outcome_unknown() || !error.retryable();
        let error = Arc::new(error);
        tracing::error!(%error, fatal, commands = replies.len(), "a group of changes was not stored");
        for (reply, _) in replies {
            // Refusals too: they may rest on a change of the same group that never happened.
            let _ = reply.send(Err(WriteError::Store(error.clone())));
        }
        if fatal { Err(error) } else { Ok(()) }
    }
}

/// Applies one command. A panic or a record that no store would take leaves the draft as it was.
fn apply(draft: &mut Draft, command: Command, trace: Arc<str>) -> Result<Done, WriteError> {
    let name = command.name();
    let board = draft.board.clone();
    let (steps, events, effects) = (draft.steps.len(), draft.events.len(), draft.effects.len());
    draft.lost.clear();
    draft.oversized = None;
    let undo = |draft: &mut Draft| {
        draft.board = board.clone();
        draft.steps.truncate(steps);
        draft.events.truncate(events);
        draft.effects.truncate(effects);
    };
    draft.begin(trace);
    match catch_unwind(AssertUnwindSafe(|| command.apply(draft))) {
        Ok(answer) => {
            if let Err(error) = check_command(draft, steps) {
                undo(draft);
                return Err(error);
            }
            answer.map_err(WriteError::Refused)
        }
        Err(_) => {
            undo(draft);
            tracing::error!(command = name, "a command panicked; nothing of it was stored");
            Err(WriteError::Panicked)
        }
    }
}

/// Refuses what a form would lose and what the store would refuse, before it costs the other commands of the group their
/// commit.
fn check_command(draft: &mut Draft, first: usize) -> Result<(), WriteError> {
    if let Some(Lost { what, needs, .. }) = draft.lost.pop() {
        return Err(WriteError::NeedsVersion { needs, what });
    }
    let too_large = draft.oversized.map(|size| {
        let what = "bytes of one record";
        StoreError::TooLarge { what, size, max: CHANGE_BYTES_MAX }
    });
    too_large
        .map_or_else(|| check_steps(&draft.steps[first..]), Err)
        .map_err(|error| WriteError::Store(Arc::new(error)))
}

fn check_steps(steps: &[Step]) -> Result<(), StoreError> {
    steps.iter().try_for_each(Step::check)?;
    let size = steps.iter().map(Step::bytes).sum();
    if size > COMMAND_BYTES_MAX {
        let what = "bytes of all records of a request";
        return Err(StoreError::TooLarge { what, size, max: COMMAND_BYTES_MAX });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
