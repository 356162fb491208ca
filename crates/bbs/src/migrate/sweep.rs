//! The sweep: every entry of the board, written in another form.
//!
//! Promise: when a sweep has ended, the target root holds every entry of the board and nothing else. It works on a snapshot
//! taken after the writer began to store every change in both forms. A change stores only the records it changes, so an entry
//! that has changed since is encoded again by the writer, whole, when the sweep comes by; what changes after that finds a
//! complete copy to change. Nothing is assumed about what lies in the target root before: it is cleared first.
//!
//! There is no saved position. After a restart, or after an older release served in between, the sweep starts over: a
//! position would be a promise about writes that nobody here has seen.
//!
//! Records are encoded here, outside the writer, and every one of them is read back before it is written: what would not come
//! back as it was stops the migration before it is stored.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use store::{Loader, Op, Version, versions};
use tokio::time::Instant;

use super::{Migrator, Outcome, Trouble};
use crate::board::Board;
use crate::config::{self, Mode};
use crate::writer::errand::{Rewrite, Seen};

/// While clients are served: small enough that a client whose change shares a commit with a batch hardly notices.
const ONLINE: Batch = Batch { entries: 128, bytes: 256 * 1024, in_flight: 1 };
/// While nobody is: large enough to keep the disk busy.
const ALONE: Batch = Batch { entries: 4096, bytes: 6 * 1024 * 1024, in_flight: 3 };
/// The longest pause between two batches.
const PAUSE_MAX: Duration = Duration::from_millis(20);
const PAGE_RECORDS: usize = 1024;
/// At a configured pace there are at least this many batches in a second.
const BATCHES_PER_S_MIN: u64 = 10;

#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    pub(super) entries: usize,
    pub(super) bytes: usize,
    pub(super) in_flight: usize,
}

impl Batch {
    pub(super) fn of(settings: &config::Migration) -> Self {
        let usual = match settings.mode {
            Mode::Online => ONLINE,
            Mode::ReadOnly | Mode::Offline => ALONE,
        };
        if settings.records_per_s_max == 0 {
            return usual;
        }
        // A slow pace is kept by small batches, not by long pauses in which nobody is heard.
        let most = usize::try_from(settings.records_per_s_max / BATCHES_PER_S_MIN).unwrap_or(usize::MAX).max(1);
        Self { entries: usual.entries.min(most), in_flight: 1, ..usual }
    }
}

/// All entries of a board, one after the other.
pub(super) fn entries(board: &Board) -> impl Iterator<Item = Seen> + '_ {
    let desired = board.desired.values().map(|entry| Seen::Desired(entry.clone()));
    let slots = board.slots.iter().map(|(key, entry)| Seen::Slot(key.clone(), entry.clone()));
    let tasks = board.tasks.values().map(|entry| Seen::Task(entry.clone()));
    let domains = board.domains.values().map(|domain| Seen::Domain(domain.clone()));
    desired.chain(slots).chain(tasks).chain(domains)
}

/// How many there are.
pub(super) fn count(board: &Board) -> u64 {
    (board.desired.len() + board.slots.len() + board.tasks.len() + board.domains.len()) as u64
}

/// The records of an entry in one form, read back and compared before anybody relies on them.
pub(super) fn encode(version: Version, seen: &Seen) -> Result<Vec<Op>, String> {
    let mut ops = Vec::new();
    for entity in seen.entities() {
        let (records, lost) = versions::records(version, entity);
        let mut loader = Loader::new(version);
        let mut back = None;
        for (key, value) in &records {
            back = loader.feed(key, value).or(back);
        }
        let expected = if lost.is_empty() { None } else { Some(versions::through(version, entity)) };
        let same = match (&back, &expected) {
            (Some(back), Some(expected)) => back == expected,
            (Some(back), None) => back.as_ref() == entity,
            (None, _) => false,
        };
        if !same {
            let why = loader.finish().pop().map_or_else(|| "it reads back as something else".to_owned(), |bad| bad.why);
            return Err(format!("{} cannot be written as data version {}: {why}", entity.label(), version.number()));
        }
        ops.extend(records.into_iter().map(|(key, value)| Op::Put { key, value }));
    }
    Ok(ops)
}

impl Migrator {
    /// Writes every entry of the board in the form of `to`.
    pub(super) async fn sweep(&mut self, to: Version) -> Outcome {
        let board = self.parts.board.load_full();
        let batch = Batch::of(&self.parts.settings);
        let mut waiting = entries(&board).peekable();
        let mut in_flight = FuturesUnordered::new();
        while waiting.peek().is_some() || !in_flight.is_empty() {
            self.attend().await?;
            let begun = Instant::now();
            if waiting.peek().is_some() && in_flight.len() < batch.in_flight {
                let rewrites = fill(&mut waiting, to, batch)?;
                let (writer, entries) = (self.parts.writer.clone(), rewrites.len() as u64);
                in_flight.push(async move { persist(&writer, rewrites).await.map(|()| entries) });
                if in_flight.len() < batch.in_flight {
                    continue;
                }
            }
            if let Some(stored) = in_flight.next().await {
                let stored = stored?;
                self.parts.tracker.advance(stored);
                self.pause(begun, stored).await;
            }
        }
        Ok(())
    }

    /// Leaves clients as much of the store as the batch took, and keeps the configured pace.
    pub(super) async fn pause(&self, begun: Instant, records: u64) {
        let took = begun.elapsed();
        let settings = &self.parts.settings;
        let fair = if settings.mode == Mode::Online { took.min(PAUSE_MAX) } else { Duration::ZERO };
        let pace = match settings.records_per_s_max {
            0 => Duration::ZERO,
            most => Duration::from_secs_f64(records as f64 / most as f64).saturating_sub(took),
        };
        let pause = fair.max(pace);
        if pause > Duration::ZERO {
            tokio::time::sleep(pause).await;
        } else {
            tokio::task::yield_now().await;
        }
    }

    /// Deletes everything below a root.
    pub(super) async fn clear(&mut self, root: &str) -> Outcome {
        let batch = Batch::of(&self.parts.settings);
        let mut after: Option<String> = None;
        loop {
            self.attend().await?;
            let begun = Instant::now();
            let limit = batch.entries.min(PAGE_RECORDS);
            let page = self.parts.store.scan(root, after.as_deref(), limit).await.map_err(Trouble::Store)?;
            let count = page.records.len() as u64;
            if count > 0 {
                let delete =
                    |(key, _)| Rewrite { seen: Seen::Nothing, form: self.current, ops: vec![Op::Delete { key }] };
                persist(&self.parts.writer, page.records.into_iter().map(delete).collect()).await?;
                self.parts.tracker.advance(count);
                self.pause(begun, count).await;
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }
}

fn fill(waiting: &mut impl Iterator<Item = Seen>, to: Version, batch: Batch) -> Result<Vec<Rewrite>, Trouble> {
    let mut rewrites = Vec::with_capacity(batch.entries);
    let mut bytes = 0;
    for seen in waiting.by_ref() {
        let ops = encode(to, &seen).map_err(Trouble::Content)?;
        bytes += ops.iter().map(Op::bytes).sum::<usize>();
        rewrites.push(Rewrite { seen, form: to, ops });
        if rewrites.len() >= batch.entries || bytes >= batch.bytes {
            break;
        }
    }
    Ok(rewrites)
}

/// Stores rewrites. A full disk is waited out: it is what an operator mends first, and everything goes on by itself then.
pub(super) async fn persist(writer: &crate::Writer, rewrites: Vec<Rewrite>) -> Result<(), Trouble> {
    loop {
        match writer.rewrite(rewrites.clone()).await {
            Ok(()) => return Ok(()),
            Err(crate::writer::WriteError::Store(error)) if error.retryable() => {
                tracing::warn!(%error, "the migration waits for its store");
                tokio::time::sleep(super::STORE_RETRY).await;
            }
            Err(error) => return Err(Trouble::Write(Arc::new(error))),
        }
    }
}
