//! What everybody may know about a migration: one document, the same on the command line, the health port and in metrics.
//!
//! The migrator writes it; it is read without waiting for anybody, in every phase of a server. It answers, in this order, what
//! a tired person asks: what happens, is it stuck, can I go back, what do I have to do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use store::Version;
use store::record::DataVersion;
use tokio::time::Instant;

use crate::config::{Finalization, Mode};
use crate::metrics::Migration;
use crate::phase::Progress;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The records are of the newest data version that this release writes, and of no other.
    None,
    /// Older records are served as they are, until an operator starts the migration.
    Held,
    Sweeping,
    Paused,
    Verifying,
    /// Both forms are complete. Finalizing is up to the operator.
    Ready,
    Finalizing,
    Cleaning,
    /// Cleaning up waits for the quarantine to be empty.
    Blocked,
    RollingBack,
    RolledBack,
    /// What was copied did not come out right. Nothing is lost: the old form is complete.
    Failed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VersionName {
    pub number: u64,
    pub name: Option<&'static str>,
}

impl From<DataVersion> for VersionName {
    fn from(number: DataVersion) -> Self {
        Self { number: number.0, name: Version::of(number).map(Version::name) }
    }
}

impl From<Version> for VersionName {
    fn from(version: Version) -> Self {
        version.number().into()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Blocker {
    pub what: String,
    pub command: String,
}

#[derive(Clone, Debug, Serialize)]
pub struct MigrationStatus {
    pub state: State,
    pub explanation: String,
    pub next: Option<String>,
    pub current: VersionName,
    pub target: VersionName,
    pub newest: VersionName,
    pub mode: Mode,
    pub finalization: Finalization,
    pub done: u64,
    pub total: u64,
    pub rate_per_s: Option<f64>,
    pub eta_s: Option<u64>,
    pub elapsed_s: Option<u64>,
    pub last_progress_s: Option<u64>,
    pub point_of_no_return_passed: bool,
    pub can_go_back: bool,
    pub how_to_go_back: Option<String>,
    pub blockers: Vec<Blocker>,
    pub leftover_roots: Vec<VersionName>,
}

/// What the migrator knows; the rest of the document follows from it.
#[derive(Clone, Debug)]
pub struct Facts {
    pub state: State,
    pub current: Version,
    pub target: DataVersion,
    pub newest: Version,
    pub mode: Mode,
    pub finalization: Finalization,
    /// Why it is held, failed or slow, in a sentence.
    pub note: Option<String>,
    pub blockers: Vec<Blocker>,
    pub leftovers: Vec<DataVersion>,
}

/// The facts and how far the present stage has come.
#[derive(Debug)]
pub struct Tracker {
    facts: Mutex<Facts>,
    stage: Mutex<Timing>,
    done: AtomicU64,
    total: AtomicU64,
    took: Mutex<Option<Duration>>,
}

#[derive(Debug)]
struct Timing {
    begun: Instant,
    last_progress: Instant,
}

impl Tracker {
    pub fn new(facts: Facts) -> Self {
        let now = Instant::now();
        let stage = Mutex::new(Timing { begun: now, last_progress: now });
        Self {
            facts: Mutex::new(facts),
            stage,
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            took: Mutex::default(),
        }
    }

    fn facts(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stage(&self) -> MutexGuard<'_, Timing> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn update(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.facts());
    }

    pub fn state(&self) -> State {
        self.facts().state
    }

    pub fn current(&self) -> Version {
        self.facts().current
    }

    /// Begins to count anew.
    pub fn begin(&self, state: State, total: u64) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        let now = Instant::now();
        *self.stage() = Timing { begun: now, last_progress: now };
        self.update(|facts| facts.state = state);
    }

    pub fn advance(&self, by: u64) {
        self.done.fetch_add(by, Ordering::Relaxed);
        self.stage().last_progress = Instant::now();
    }

    pub fn progress(&self) -> Progress {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        Progress { done, total, eta_s: self.eta_s(done, total).unwrap_or(0) }
    }

    fn rate_per_s(&self, done: u64) -> Option<f64> {
        let elapsed_s = self.stage().begun.elapsed().as_secs_f64();
        (done > 0 && elapsed_s > 0.0).then(|| done as f64 / elapsed_s)
    }

    fn eta_s(&self, done: u64, total: u64) -> Option<u64> {
        let left = total.saturating_sub(done) as f64;
        self.rate_per_s(done).map(|rate| (left / rate).ceil() as u64)
    }

    /// How long the last migration took, from its first record to its end.
    pub fn finished(&self, took: Duration) {
        *self.took.lock().unwrap_or_else(PoisonError::into_inner) = Some(took);
    }

    /// The same as numbers.
    pub fn measure(&self, metrics: &Migration) {
        let status = self.status();
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let is = |states: &[State]| i64::from(states.contains(&status.state));
        metrics.current_version.set(number(status.current.number));
        metrics.target_version.set(number(status.target.number));
        metrics.under_way.set(is(&[
            State::Sweeping,
            State::Verifying,
            State::Finalizing,
            State::Cleaning,
            State::RollingBack,
        ]));
        metrics.waits_for_operator.set(is(&[State::Held, State::Paused, State::Ready]));
        metrics.blocked.set(is(&[State::Blocked, State::Failed]));
        metrics.records_done.set(number(status.done));
        metrics.records_total.set(number(status.total));
        metrics.eta_s.set(number(status.eta_s.unwrap_or(0)));
        metrics.last_progress_s.set(number(status.last_progress_s.unwrap_or(0)));
        if let Some(took) = *self.took.lock().unwrap_or_else(PoisonError::into_inner) {
            metrics.duration_s.set(took.as_secs_f64());
        }
    }

    pub fn status(&self) -> MigrationStatus {
        let facts = self.facts().clone();
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        let counts = matches!(
            facts.state,
            State::Sweeping | State::Paused | State::Verifying | State::Cleaning | State::RollingBack
        );
        let (elapsed_s, last_progress_s) = {
            let stage = self.stage();
            (stage.begun.elapsed().as_secs(), stage.last_progress.elapsed().as_secs())
        };
        let (can_go_back, how_to_go_back) = facts.way_back();
        MigrationStatus {
            state: facts.state,
            explanation: facts.explanation(),
            next: facts.next(),
            current: facts.current.into(),
            target: if facts.state == State::Held { facts.newest.into() } else { facts.target.into() },
            newest: facts.newest.into(),
            mode: facts.mode,
            finalization: facts.finalization,
            done,
            total,
            rate_per_s: if counts { self.rate_per_s(done) } else { None },
            eta_s: if counts { self.eta_s(done, total) } else { None },
            elapsed_s: counts.then_some(elapsed_s),
            last_progress_s: counts.then_some(last_progress_s),
            point_of_no_return_passed: matches!(facts.state, State::Finalizing | State::Cleaning | State::Blocked),
            can_go_back,
            how_to_go_back,
            blockers: facts.blockers.clone(),
            leftover_roots: facts.leftovers.iter().copied().map(Into::into).collect(),
        }
    }
}

impl Facts {
    fn explanation(&self) -> String {
        let said = match self.state {
            State::None => "no migration is under way; the records are of the newest data version of this release",
            State::Held => {
                "the records are of an older data version and stay so until the migration is started; everything works \
                 but what needs the newer version"
            }
            State::Sweeping => {
                "records are being copied into the newer form; changes are stored in both forms, so the former release \
                 can take over at any moment with nothing lost"
            }
            State::Paused => "copying is paused; changes are stored in both forms, and nothing is lost by waiting",
            State::Verifying => "all records are copied; the copies are being compared with the originals",
            State::Ready => {
                "both forms are complete and verified, and every change is stored in both; the former release can take \
                 over at any moment with nothing lost, until the migration is finalized"
            }
            State::Finalizing => "the newer form becomes the only one",
            State::Cleaning => "the newer form is the only one in use; the records of the older form are being deleted",
            State::Blocked => {
                "the newer form is the only one in use; the older form is kept, because records that cannot be read are \
                 in quarantine"
            }
            State::RollingBack => "records are being copied into the older form; the server stops by itself at the end",
            State::RolledBack => "the older form is the one in use; start the release that wrote it",
            State::Failed => "the copies are not what they should be; the present form is complete and is being served",
        };
        match &self.note {
            Some(note) => format!("{said}. {note}"),
            None => said.to_owned(),
        }
    }

    fn next(&self) -> Option<String> {
        let command = match self.state {
            State::Failed if self.current == self.newest => {
                return Some(format!("corkboard migrate rollback --to {}", self.target));
            }
            State::Held | State::Failed => "corkboard migrate start",
            State::Sweeping | State::Verifying | State::RollingBack | State::Cleaning => {
                "corkboard migrate status --watch"
            }
            State::Paused => "corkboard migrate resume",
            State::Ready => "corkboard migrate finalize",
            State::Blocked => "corkboard quarantine list",
            State::None | State::Finalizing | State::RolledBack => return None,
        };
        Some(command.to_owned())
    }

    fn way_back(&self) -> (bool, Option<String>) {
        let start_former = format!(
            "start the release whose newest data version is {} ({}): it finds its data complete and up to date",
            self.current.number(),
            self.current.name()
        );
        match self.state {
            State::Held | State::Sweeping | State::Paused | State::Verifying | State::Ready | State::Failed => {
                (true, Some(start_former))
            }
            State::RollingBack => (true, Some("corkboard migrate abort".to_owned())),
            State::RolledBack | State::Finalizing => (false, None),
            State::None | State::Cleaning | State::Blocked => {
                let older = Version::ALL.iter().rev().find(|version| **version < self.current);
                (older.is_some(), older.map(|older| format!("corkboard migrate rollback --to {}", older.number())))
            }
        }
    }
}
