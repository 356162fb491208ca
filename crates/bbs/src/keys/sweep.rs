//! The sweep: every record that is not under the active key, sealed again.
//!
//! It goes over the store page by page, in the order of keys, opens and seals off the threads that answer requests, and has
//! the writer store the result. The writer leaves out what has changed since it was read: a change is sealed with the active
//! key by itself. What cannot be opened is left as it is and named.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use store::Op;
use store::root::QUARANTINE_ROOT;
use store::seal::{Place, Vault};
use tokio::time::Instant;

use super::verify::Broken;
use super::{Rotator, STORE_RETRY, Trouble};
use crate::pace::{Batch, Pace};
use crate::writer::{WriteError, Writer};

/// The records of all data versions, and what was moved aside from there. The first also finds `/version`, which is skipped.
pub(super) const PREFIXES: [&str; 2] = ["/v", QUARANTINE_ROOT];

/// While clients are served: small enough that a client whose change shares a commit with a batch hardly notices.
const ONLINE: Batch = Batch { entries: store::STEP_OPS_MAX, in_flight: 1 };
/// While nobody is: large enough to keep the disk busy, and several at once to keep all cores busy.
const ALONE: Batch = Batch { entries: 8 * store::STEP_OPS_MAX, in_flight: 4 };

/// Goes over all records, page by page.
#[derive(Debug)]
pub(super) struct Pages {
    vault: Arc<Vault>,
    prefixes: VecDeque<&'static str>,
    after: Option<String>,
}

impl Pages {
    pub(super) fn of(vault: &Arc<Vault>) -> Self {
        Self { vault: vault.clone(), prefixes: PREFIXES.into(), after: None }
    }

    /// The next records as they lie in the store; `None` after the last.
    pub(super) async fn next(&mut self, limit: usize) -> Result<Option<Vec<(String, Bytes)>>, Trouble> {
        let Some(prefix) = self.prefixes.front() else { return Ok(None) };
        let mut page = self.vault.inner().scan(prefix, self.after.as_deref(), limit).await?;
        page.records.retain(|(key, _)| Place::of(key).is_some());
        self.after = page.next;
        if self.after.is_none() {
            self.prefixes.pop_front();
        }
        Ok(Some(page.records))
    }
}

impl Rotator {
    fn pace(&self) -> Pace {
        Pace { beside_clients: !self.parts.alone, records_per_s_max: self.parts.rotation.records_per_s_max }
    }

    /// Returns the records that cannot be opened.
    pub(super) async fn sweep(&mut self) -> Result<Vec<Broken>, Trouble> {
        let batch = self.pace().batch(if self.parts.alone { ALONE } else { ONLINE });
        let mut pages = Pages::of(&self.parts.vault);
        let mut in_flight = FuturesUnordered::new();
        let mut stuck = Vec::new();
        let mut more = true;
        while more || !in_flight.is_empty() {
            self.attend().await?;
            let begun = Instant::now();
            while more && in_flight.len() < batch.in_flight {
                match pages.next(batch.entries).await? {
                    Some(records) => {
                        in_flight.push(reseal(self.parts.vault.clone(), self.parts.writer.clone(), records));
                    }
                    None => more = false,
                }
            }
            if let Some(done) = in_flight.next().await {
                let Resealed { looked_at, stored, broken } = done?;
                stuck.extend(broken);
                self.parts.tracker.advance(looked_at);
                if stored > 0 {
                    self.pause(begun, stored).await;
                }
            }
        }
        Ok(stuck)
    }

    pub(super) async fn pause(&self, begun: Instant, records: u64) {
        self.pace().pause(begun, records).await;
    }
}

struct Resealed {
    looked_at: u64,
    stored: u64,
    broken: Vec<Broken>,
}

async fn reseal(vault: Arc<Vault>, writer: Writer, records: Vec<(String, Bytes)>) -> Result<Resealed, Trouble> {
    let looked_at = records.len() as u64;
    let sealing = tokio::task::spawn_blocking(move || {
        let mut sealed = Vec::with_capacity(records.len());
        let mut broken = Vec::new();
        for (key, value) in records {
            match vault.reseal(&key, &value) {
                Ok(Some(value)) => sealed.push(Op::Put { key, value }),
                Ok(None) => {}
                Err(why) => broken.push(Broken::new(key, &value, &why)),
            }
        }
        (sealed, broken)
    });
    let (sealed, broken) = sealing.await.map_err(|_| Trouble::Stopping)?;
    let stored = sealed.len() as u64;
    if stored > 0 {
        persist(&writer, sealed).await?;
    }
    Ok(Resealed { looked_at, stored, broken })
}

/// A full disk is waited out: it is what an operator mends first, and everything goes on by itself then.
async fn persist(writer: &Writer, sealed: Vec<Op>) -> Result<(), Trouble> {
    loop {
        match writer.reseal(sealed.clone()).await {
            Err(WriteError::Store(error)) if error.retryable() => {
                tracing::warn!(%error, "the key rotation waits for its store");
                tokio::time::sleep(STORE_RETRY).await;
            }
            done => return done.map_err(Into::into),
        }
    }
}
