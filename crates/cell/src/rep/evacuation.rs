//! Whether this cell hands over its instances, since when, and how far that is.
//!
//! It begins once and never ends but with the cell. While it goes on, no work is accepted, every instance is announced to the
//! state server as evacuating and ends when its replacement runs; tasks run on. Nothing that runs is ended because the state
//! server does not answer: then the cell goes on trying until its time is over.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::cell::EvacuationProgress;
use model::Nanos;
use tokio::sync::watch;
use tokio::time::Instant;

use super::clock::Clock;
use crate::executor::{Container, Owner, State};

#[derive(Debug)]
pub(super) struct Evacuation {
    started: watch::Sender<Option<Started>>,
    silent_since_ns: watch::Sender<Option<Nanos>>,
    limit: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Started {
    at: Instant,
    since_ns: Nanos,
}

impl Evacuation {
    pub(super) fn new(limit: Duration) -> Self {
        Self { started: watch::Sender::new(None), silent_since_ns: watch::Sender::new(None), limit }
    }

    /// Begins it, if it has not begun.
    pub(super) fn begin(&self, clock: &dyn Clock, containers: usize) {
        let begun = self.started.send_if_modified(|started| {
            let is_first = started.is_none();
            started.get_or_insert_with(|| Started { at: Instant::now(), since_ns: clock.now_ns() });
            is_first
        });
        if begun {
            let limit_s = self.limit.as_secs();
            tracing::info!(containers, limit_s, "evacuating; GET /evacuation on the admin port shows how far it is");
        }
    }

    pub(super) fn is_on(&self) -> bool {
        self.started.borrow().is_some()
    }

    /// Returns when it begins.
    pub(super) async fn begins(&self) {
        // The sender lives in `self`, so the channel is not closed.
        let _ = self.started.subscribe().wait_for(Option::is_some).await;
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        (*self.started.borrow()).map(|started| started.at + self.limit)
    }

    /// Remembers whether the state server answers; true when that has changed.
    pub(super) fn note_silence(&self, silent: bool, clock: &dyn Clock) -> bool {
        self.silent_since_ns.send_if_modified(|since| {
            if since.is_some() == silent {
                return false;
            }
            *since = silent.then(|| clock.now_ns());
            true
        })
    }

    pub(super) fn progress(&self, containers: &[Arc<Container>]) -> EvacuationProgress {
        let started = *self.started.borrow();
        let left = self.deadline().map(|deadline| deadline.saturating_duration_since(Instant::now()).as_secs());
        let (mut lrps, mut tasks) = (BTreeMap::new(), BTreeMap::new());
        for container in containers {
            let counts = if matches!(container.owner, Owner::Lrp { .. }) { &mut lrps } else { &mut tasks };
            *counts.entry(state_name(container.state).to_owned()).or_default() += 1;
        }
        EvacuationProgress {
            evacuating: started.is_some(),
            since_ns: started.map(|started| started.since_ns),
            seconds_left: left,
            lrps,
            tasks,
            state_server_silent_since_ns: *self.silent_since_ns.borrow(),
        }
    }
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Reserved | State::Initializing | State::Created => "starting",
        State::Running => "running",
        State::Completed => "completed",
    }
}
