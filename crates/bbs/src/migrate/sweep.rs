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

use std::hash::RandomState;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use store::{Loader, Op, Version, versions};
use tokio::time::Instant;

use super::verify::{Expected, note};
use super::{Migrator, Outcome, Trouble};
use crate::board::Board;
use crate::config::{self, Mode};
use crate::pace::{Batch, Pace};
use crate::writer::errand::{Control, Edit, Rewrite, Seen};
use crate::writer::{WriteError, Writer};

/// While clients are served: small enough that a client whose change shares a commit with a batch hardly notices.
const ONLINE: Batch = Batch { entries: 128, in_flight: 1 };
/// While nobody is: large enough to keep the disk busy, and several at once to keep all cores busy.
const ALONE: Batch = Batch { entries: 1024, in_flight: 4 };
const PAGE_RECORDS: usize = 1024;

pub(super) fn pace(settings: &config::Migration) -> Pace {
    Pace { beside_clients: settings.mode == Mode::Online, records_per_s_max: settings.records_per_s_max }
}

pub(super) fn batch(settings: &config::Migration) -> Batch {
    let usual = match settings.mode {
        Mode::Online => ONLINE,
        Mode::ReadOnly | Mode::Offline => ALONE,
    };
    pace(settings).batch(usual)
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
    /// Writes every entry of the board in the form of `to`. Returns the board it went over and what it wrote, to be verified.
    pub(super) async fn sweep(&mut self, to: Version) -> Result<(Arc<Board>, Expected), Trouble> {
        let board = self.parts.board.load_full();
        let mut expected = Expected::default();
        let batch = self.batch;
        let mut waiting = entries(&board).peekable();
        let mut in_flight = FuturesUnordered::new();
        while waiting.peek().is_some() || !in_flight.is_empty() {
            self.attend().await?;
            let begun = Instant::now();
            while waiting.peek().is_some() && in_flight.len() < batch.in_flight {
                let seen: Vec<Seen> = waiting.by_ref().take(batch.entries).collect();
                in_flight.push(rewrite(self.parts.writer.clone(), to, seen, expected.hasher.clone()));
            }
            if let Some(written) = in_flight.next().await {
                let written = written?;
                expected.records.extend(written.records);
                self.parts.tracker.advance(written.entries);
                self.pause(begun, written.entries).await;
            }
        }
        drop((waiting, in_flight));
        Ok((board, expected))
    }

    pub(super) async fn pause(&self, begun: Instant, records: u64) {
        pace(&self.parts.settings).pause(begun, records).await;
    }

    /// Deletes everything below a root.
    pub(super) async fn clear(&mut self, root: &str) -> Outcome {
        let batch = self.batch;
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
                None => return self.drop_quarantine_below(root).await,
            }
        }
    }

    /// Copies that could not be opened are gone with the root they lay in.
    async fn drop_quarantine_below(&self, root: &str) -> Outcome {
        let is_below = |id: &String| id.starts_with(root);
        let gone: Vec<String> = self.parts.board.load().quarantine.keys().filter(|id| is_below(id)).cloned().collect();
        if gone.is_empty() {
            return Ok(());
        }
        let edit: Edit = Arc::new(move |board| {
            gone.iter().for_each(|id| {
                board.quarantine.remove(id);
            });
        });
        self.control(Control { edit: Some(edit), ..Control::default() }).await
    }
}

/// What became of one batch.
struct Written {
    entries: u64,
    records: Vec<(u64, u64)>,
}

/// Encodes a batch, notes what should be stored, and has it stored. Encoding must not sit on a thread that answers requests.
async fn rewrite(writer: Writer, to: Version, seen: Vec<Seen>, hasher: RandomState) -> Result<Written, Trouble> {
    let entries = seen.len() as u64;
    let encoding = tokio::task::spawn_blocking(move || {
        let mut rewrites = Vec::with_capacity(seen.len());
        let mut records = Vec::new();
        for seen in seen {
            let ops = encode(to, &seen)?;
            records.extend(ops.iter().filter_map(|op| note(&hasher, op)));
            rewrites.push(Rewrite { seen, form: to, ops });
        }
        Ok((rewrites, records))
    });
    let (rewrites, records) = encoding.await.map_err(|_| Trouble::Stopping)?.map_err(Trouble::Content)?;
    persist(&writer, rewrites).await?;
    Ok(Written { entries, records })
}

/// Stores rewrites. A full disk is waited out: it is what an operator mends first, and everything goes on by itself then.
pub(super) async fn persist(writer: &Writer, rewrites: Vec<Rewrite>) -> Result<(), Trouble> {
    loop {
        match writer.rewrite(rewrites.clone()).await {
            Ok(()) => return Ok(()),
            Err(WriteError::Store(error)) if error.retryable() => {
                tracing::warn!(%error, "the migration waits for its store");
                tokio::time::sleep(super::STORE_RETRY).await;
            }
            Err(error) => return Err(Trouble::Write(Arc::new(error))),
        }
    }
}
