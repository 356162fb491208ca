//! The course of a migration, of a rollback and of cleaning up, and what operators may change about it.
//!
//! Every durable decision is one commit of the writer that changes `/version` or the operator's will and the history at
//! once. What it means for the running server (the forms that are written, the state that is shown) follows after that commit.

use std::sync::Arc;

use store::record::DataVersion;
use store::root::{Held, HistoryEvent, Verified, put_control, put_version};
use store::{EntityRef, Forms, Lost, Step, Version, versions};
use tokio::time::Instant;

use super::ask::{Answer, Did, Loss, NAMED_MAX, Refused};
use super::status::{Blocker, State};
use super::sweep::{count, entries};
use super::{Migrator, Outcome, Task, Trouble};
use crate::board::Place;
use crate::board::quarantine::displace_all;
use crate::config::Finalization;
use crate::writer::errand::{Control, Edit};

const STATUS: Option<&str> = Some("corkboard migrate status");

impl Migrator {
    fn note(&self, change: impl FnOnce(&mut super::status::Facts)) {
        self.parts.tracker.update(change);
    }

    fn total(&self) -> u64 {
        count(&self.parts.board.load())
    }

    /// Clears the target root, writes everything into it and compares.
    async fn copy_everything(&mut self, to: Version, state: State) -> Outcome {
        self.parts.tracker.begin(state, self.total());
        self.clear(to.root()).await?;
        self.parts.tracker.begin(state, self.total());
        let (board, expected) = self.sweep(to).await?;
        let verifying = if state == State::Sweeping { State::Verifying } else { state };
        self.parts.tracker.begin(verifying, self.total());
        self.verify(to, board, expected).await
    }

    /// From the older form to both, complete and verified.
    pub(super) async fn migrate(&mut self) -> Outcome {
        let (to, begun) = (self.parts.newest, Instant::now());
        self.note(|facts| {
            facts.target = to.number();
            facts.note = None;
            facts.blockers.clear();
        });
        self.copy_everything(to, State::Sweeping).await?;
        self.parts.tracker.finished(begun.elapsed());
        self.will.verified = Some(Verified::new(self.current.number(), to.number(), self.parts.clock.now_ns()));
        let mut step = Step::default();
        put_control(&mut step, &self.will);
        self.record(Control::default(), step, HistoryEvent::Verified, Some(to.number()), "").await?;
        if self.parts.settings.finalization == Finalization::Auto || self.will.finalize_when_ready {
            return self.finalize().await;
        }
        self.parts.tracker.begin(State::Ready, 0);
        self.task = Task::Ready;
        self.open_up();
        Ok(())
    }

    /// The newer form becomes the only one: one write.
    async fn finalize(&mut self) -> Outcome {
        self.note(|facts| facts.state = State::Finalizing);
        let (from, to) = (self.current, self.parts.newest);
        self.set_quarantine_aside(from).await?;
        let mut record = self.record.clone();
        (record.current, record.target) = (to.number(), to.number());
        let mut will = self.will.clone();
        (will.finalize_when_ready, will.paused, will.verified, will.held) = (false, false, None, None);
        let mut step = Step::default();
        put_version(&mut step, &record);
        put_control(&mut step, &will);
        let control = Control { forms: Some(Forms::only(to)), ..Control::default() };
        self.record(control, step, HistoryEvent::Finalized, Some(to.number()), "").await?;
        (self.record, self.will, self.current) = (record, will, to);
        if !self.roots.contains(&from.number()) {
            self.roots.push(from.number());
        }
        self.remember_identity();
        self.note(|facts| facts.current = to);
        self.task = Task::CleanUp;
        self.open_up();
        Ok(())
    }

    /// Records that cannot be read leave the root that is about to be given up.
    async fn set_quarantine_aside(&mut self, root: Version) -> Outcome {
        let now_ns = self.parts.clock.now_ns();
        let (steps, _) = displace_all(&self.parts.board.load().quarantine, root.root(), now_ns);
        if steps.is_empty() {
            return Ok(());
        }
        let edit: Edit =
            Arc::new(move |board| board.quarantine = displace_all(&board.quarantine, root.root(), now_ns).1);
        self.control(Control { steps, edit: Some(edit), ..Control::default() }).await
    }

    /// Deletes roots that are older than the current one. Newer ones are left: they are cleared when they become a target.
    pub(super) async fn clean_up(&mut self) -> Outcome {
        let older: Vec<Version> =
            self.roots.iter().filter_map(|root| Version::of(*root)).filter(|root| *root < self.current).collect();
        let leftovers: Vec<DataVersion> =
            self.roots.iter().copied().filter(|root| *root != self.current.number()).collect();
        let kept = self.parts.board.load().quarantine.len();
        self.note(|facts| facts.leftovers = leftovers);
        if older.is_empty() {
            return self.rest();
        }
        if kept > 0 {
            let what = format!("{kept} records cannot be read and are in quarantine");
            self.note(|facts| {
                facts.state = State::Blocked;
                facts.blockers = vec![Blocker { what, command: "corkboard quarantine list".to_owned() }];
            });
            return self.wait().await;
        }
        for root in older {
            self.parts.tracker.begin(State::Cleaning, self.total());
            tracing::info!(root = root.root(), "deleting the records of an older data version; this cannot be undone");
            self.clear(root.root()).await?;
            self.roots.retain(|known| *known != root.number());
            let detail = format!("the records below {} were deleted", root.root());
            self.record(Control::default(), Step::default(), HistoryEvent::Cleaned, None, &detail).await?;
        }
        Ok(())
    }

    /// Nothing is left to do.
    fn rest(&mut self) -> Outcome {
        self.parts.tracker.begin(State::None, 0);
        self.note(|facts| {
            (facts.note, facts.target) = (None, facts.current.number());
            facts.blockers.clear();
        });
        self.task = Task::Nothing;
        self.open_up();
        Ok(())
    }

    /// Takes a root away that was a target once.
    pub(super) async fn discard(&mut self, root: Version) -> Outcome {
        self.clear(root.root()).await?;
        self.roots.retain(|known| *known != root.number());
        if self.current < self.parts.newest {
            self.task = Task::Held;
            return Ok(());
        }
        self.task = Task::CleanUp;
        Ok(())
    }

    pub(super) async fn start(&mut self) -> Answer {
        if self.current == self.parts.newest {
            return Err(Refused::new("nothing-to-do", "the records are of the newest data version already", None));
        }
        if !matches!(self.task, Task::Held | Task::Failed | Task::Discard { .. }) {
            return Err(Refused::new("busy", "a migration is under way already", STATUS));
        }
        let to = self.parts.newest;
        let mut record = self.record.clone();
        record.target = to.number();
        let mut will = self.will.clone();
        (will.held, will.paused) = (None, false);
        let mut step = Step::default();
        put_version(&mut step, &record);
        put_control(&mut step, &will);
        let control = Control { forms: Some(Forms::both(self.current, to)), ..Control::default() };
        let done = self.record(control, step, HistoryEvent::Begun, Some(to.number()), "an operator started it").await;
        done.map_err(|trouble| not_stored(&trouble))?;
        (self.record, self.will, self.task) = (record, will, Task::Migrate);
        Ok(Did::new(format!("the migration from {} to {} has begun", self.current.number(), to.number())))
    }

    pub(super) async fn set_paused(&mut self, paused: bool) -> Answer {
        if !matches!(self.task, Task::Migrate | Task::Rollback { .. } | Task::CleanUp | Task::Discard { .. }) {
            return Err(Refused::new("nothing-to-do", "nothing is under way that could be paused or resumed", STATUS));
        }
        if self.will.paused == paused {
            let message = if paused { "it is paused already" } else { "it is not paused" };
            return Err(Refused::new("nothing-to-do", message, STATUS));
        }
        let mut will = self.will.clone();
        will.paused = paused;
        let mut step = Step::default();
        put_control(&mut step, &will);
        let what = if paused { HistoryEvent::Paused } else { HistoryEvent::Resumed };
        let done = self.record(Control::default(), step, what, None, "").await;
        done.map_err(|trouble| not_stored(&trouble))?;
        self.will = will;
        let resumed = match self.task {
            Task::Rollback { .. } => State::RollingBack,
            Task::CleanUp | Task::Discard { .. } => State::Cleaning,
            _ => State::Sweeping,
        };
        self.note(|facts| facts.state = if paused { State::Paused } else { resumed });
        Ok(Did::new(if paused {
            "paused; changes go on being stored in both forms, and nothing is lost by waiting"
        } else {
            "resumed"
        }))
    }

    pub(super) async fn abort(&mut self) -> Answer {
        let (root, what) = match self.task {
            Task::Migrate | Task::Ready | Task::Failed if self.current < self.parts.newest => {
                (self.parts.newest, "the migration")
            }
            Task::Rollback { to } => (to, "the rollback"),
            _ if self.interrupted.is_some() => (self.interrupted.unwrap_or(self.current), "the rollback"),
            _ => return Err(Refused::new("nothing-to-do", "nothing is under way that could be aborted", STATUS)),
        };
        let mut record = self.record.clone();
        record.target = record.current;
        let mut will = self.will.clone();
        (will.paused, will.finalize_when_ready, will.accept_loss, will.verified) = (false, false, false, None);
        if self.current < self.parts.newest {
            let why = "an operator aborted the migration";
            will.held = Some(Held::new(self.parts.newest.number(), why, self.parts.clock.now_ns()));
        }
        let mut step = Step::default();
        put_version(&mut step, &record);
        put_control(&mut step, &will);
        let control = Control { forms: Some(Forms::only(self.current)), ..Control::default() };
        let done = self.record(control, step, HistoryEvent::Aborted, Some(root.number()), "").await;
        done.map_err(|trouble| not_stored(&trouble))?;
        (self.record, self.will, self.task) = (record, will, Task::Discard { root });
        self.note(|facts| {
            let held = facts.current < facts.newest;
            facts.state = if held { State::Held } else { State::None };
            (facts.target, facts.note) = (facts.current.number(), None);
        });
        self.open_up();
        Ok(Did::new(format!("{what} was aborted; nothing is lost: the server goes on with data version {}", {
            self.current.number()
        })))
    }

    pub(super) async fn allow_finalizing(&mut self, version: DataVersion) -> Answer {
        let to = self.parts.newest;
        if self.current == to {
            return Err(Refused::new("nothing-to-do", "no migration waits to be finalized", STATUS));
        }
        if version != to.number() {
            let message = format!("the migration goes to {} ({}), not to {version}", to.number(), to.name());
            return Err(Refused::new("wrong-version", message, STATUS));
        }
        match self.task {
            Task::Ready => {
                self.finalize().await.map_err(|trouble| not_stored(&trouble))?;
                Ok(Did::new(format!(
                    "data version {} is the current one now; the older records are deleted next",
                    to.number()
                )))
            }
            Task::Migrate => {
                let mut will = self.will.clone();
                will.finalize_when_ready = true;
                let mut step = Step::default();
                put_control(&mut step, &will);
                self.control(Control { steps: vec![step], ..Control::default() }).await.map_err(|t| not_stored(&t))?;
                self.will = will;
                Ok(Did::new("copying is still under way; the migration is finalized by itself when it is verified"))
            }
            _ => {
                let message = "the migration is not ready to be finalized: not everything is copied and verified";
                Err(Refused::new("not-ready", message, STATUS))
            }
        }
    }

    pub(super) async fn begin_rollback(&mut self, to: DataVersion, accept_loss: bool) -> Answer {
        let Some(to) = Version::of(to) else {
            let message = format!("{to} is not a data version that this release writes");
            return Err(Refused::new("unknown-version", message, STATUS));
        };
        if to >= self.current {
            let message = format!("the store has data version {} already", self.current.number());
            return Err(Refused::new("nothing-to-do", message, STATUS));
        }
        if !matches!(self.task, Task::Nothing | Task::Held | Task::CleanUp | Task::Failed) {
            let message = "something is under way; it has to end or be aborted first";
            return Err(Refused::new("busy", message, Some("corkboard migrate abort")));
        }
        if !accept_loss {
            self.refuse_loss(to).await?;
        }
        let mut will = self.will.clone();
        (will.accept_loss, will.paused) = (accept_loss, false);
        let mut step = Step::default();
        put_control(&mut step, &will);
        let control = Control { forms: Some(Forms::both(self.current, to)), ..Control::default() };
        let done = self.record(control, step, HistoryEvent::RollbackBegun, Some(to.number()), "").await;
        done.map_err(|trouble| not_stored(&trouble))?;
        (self.will, self.task) = (will, Task::Rollback { to });
        self.note(|facts| (facts.state, facts.target, facts.note) = (State::RollingBack, to.number(), None));
        Ok(Did::new(format!(
            "rolling back from {} to {} ({}); clients are served meanwhile, and the server stops by itself at the end",
            self.current.number(),
            to.number(),
            to.name()
        )))
    }

    /// Says what would be lost, if something would.
    async fn refuse_loss(&self, to: Version) -> Result<(), Refused> {
        let board = self.parts.board.load_full();
        let looked = tokio::task::spawn_blocking(move || losses(&board, to)).await;
        let (losses, losses_total) = looked.map_err(|_| Refused::not_master())?;
        if losses_total == 0 {
            return Ok(());
        }
        let message = format!(
            "data version {} has no room for {losses_total} things that are stored now; nothing was changed",
            to.number()
        );
        let next = format!("corkboard migrate rollback --to {} --accept-loss", to.number());
        Err(Refused { losses, losses_total, ..Refused::new("loss-refused", message, Some(&next)) })
    }

    /// Back to an older form. The long part changes nothing about what is served; the end is two writes.
    pub(super) async fn roll_back(&mut self, to: Version) -> Outcome {
        self.copy_everything(to, State::RollingBack).await?;
        self.set_quarantine_aside(self.current).await?;
        // No command is taken from here on: what is stored now is what the older release finds.
        self.access.send_replace(super::Access::Nothing);
        self.record.target = to.number();
        let mut step = Step::default();
        put_version(&mut step, &self.record);
        self.control(Control { steps: vec![step], close: true, ..Control::default() }).await?;
        self.record.current = to.number();
        let why = format!("it was rolled back from {}", self.current.number());
        self.will.held = Some(Held::new(self.parts.newest.number(), why, self.parts.clock.now_ns()));
        (self.will.accept_loss, self.will.verified) = (false, None);
        let mut step = Step::default();
        put_version(&mut step, &self.record);
        put_control(&mut step, &self.will);
        self.record(Control::default(), step, HistoryEvent::RolledBack, Some(to.number()), "").await?;
        self.note(|facts| {
            (facts.state, facts.current, facts.target) = (State::RolledBack, to, to.number());
        });
        self.rolled_back = Some(to);
        Ok(())
    }

    pub(super) async fn confirm_store(&mut self, cluster_id: &str) -> Answer {
        let guard = self.parts.guard.load_full();
        if guard.trusts_the_store() {
            return Err(Refused::new("nothing-to-do", "the store is the one this node knows", None));
        }
        if guard.found != cluster_id {
            let message = format!("this store is {}, not {cluster_id}", guard.found);
            let next = format!("corkboard store confirm --cluster-id {}", guard.found);
            return Err(Refused::new("wrong-version", message, Some(&next)));
        }
        let detail = format!("the store {} was confirmed", guard.found);
        let done = self.record(Control::default(), Step::default(), HistoryEvent::StoreConfirmed, None, &detail).await;
        done.map_err(|trouble| not_stored(&trouble))?;
        self.parts.guard.store(Arc::new(super::Guard::of_known(&guard.found)));
        self.remember_identity();
        Ok(Did::new("confirmed; convergence works as usual from now on"))
    }
}

/// What a version has no room for, and how much of it there is. Records that cannot be read count: they would stay behind.
pub(crate) fn losses(board: &crate::Board, to: Version) -> (Vec<Loss>, u64) {
    let mut named = Vec::new();
    let mut total = 0;
    let mut note = |loss: Loss| {
        total += 1;
        if named.len() < NAMED_MAX {
            named.push(loss);
        }
    };
    for seen in entries(board) {
        for entity in seen.entities() {
            lost(to, entity).into_iter().for_each(|lost| note(lost.into()));
        }
    }
    for (key, _) in board.quarantine.iter().filter(|(_, kept)| kept.place == Place::InPlace) {
        let what = "it cannot be read, so it cannot be written in the older form; it is kept in quarantine".to_owned();
        note(Loss { id: key.clone(), what });
    }
    (named, total)
}

fn lost(to: Version, entity: EntityRef<'_>) -> Vec<Lost> {
    versions::records(to, entity).1
}

fn not_stored(trouble: &Trouble) -> Refused {
    let why = match trouble {
        Trouble::Write(error) => error.to_string(),
        Trouble::Store(error) => error.to_string(),
        Trouble::Content(why) => why.clone(),
        Trouble::Changed | Trouble::Stopping => "the server is stopping".to_owned(),
    };
    Refused::new("not-master", format!("it could not be stored: {why}"), STATUS)
}
