//! Which versions of a call to a cell there are, and which of them a cell lacks.
//!
//! The path of a call names its version, and a cell that does not have it answers 404. Each call is tried from the newest
//! version that the cell is not known to lack down to the oldest. This is the only place that knows the versions, and what to
//! conclude from an answer:
//!
//! - One 404 proves nothing: it may also mean that there is no such instance. Only a cell that answers 404 to a newer version
//!   and then *accepts* an older one for the same instance lacks the newer.
//! - When every version is answered with 404, nothing is learnt. If a newer one was left out, what is known is forgotten and
//!   that one is tried too: the cell may have been upgraded to a release without the older.
//! - What is known holds for one cell at one address under one presence, and for [`LACK_TTL`]. A cell that was upgraded gets
//!   the newer call after that at the latest.
//!
//! At most [`CELLS_MAX`] cells are remembered; to one beyond that the newest version is tried each time.
//!
//! When you add a version: put it in front in [`CellCall::versions`], and say in `cells` how its request looks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::StatusCode;
use model::{Cell, CellId};
use tokio::time::Instant;

use super::CallError;

/// How long it is believed that a cell lacks a version.
const LACK_TTL: Duration = Duration::from_secs(10 * 60);
/// How many cells are remembered to lack something.
const CELLS_MAX: usize = 4096;

/// What a cell can be asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CellCall {
    Stop,
    Update,
    Cancel,
}

impl CellCall {
    /// Newest first.
    pub(super) const fn versions(self) -> &'static [u8] {
        match self {
            Self::Update => &[2, 1],
            Self::Stop | Self::Cancel => &[1],
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Update => "update",
            Self::Cancel => "cancel",
        }
    }
}

/// What cells are known to lack. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Versions {
    known: Arc<Mutex<HashMap<CellId, Known>>>,
}

#[derive(Debug)]
struct Known {
    cell: Cell,
    address: String,
    /// The newest version that the cell has of a call.
    newest: HashMap<CellCall, u8>,
    since: Instant,
}

/// A cell and where it is called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Callee<'a> {
    pub(super) cell: &'a Cell,
    pub(super) address: &'a str,
}

impl Versions {
    /// Sends the newest version that the cell may have. `send` makes the request of one version, or says with `None` that this
    /// version cannot carry what is to be said. The answer is the last one, or `None` when nothing had to be sent.
    pub(super) async fn call<Sent: Future<Output = Option<Result<StatusCode, CallError>>>>(
        &self,
        callee: Callee<'_>,
        call: CellCall,
        now: Instant,
        send: impl Fn(u8) -> Sent,
    ) -> Result<Option<StatusCode>, CallError> {
        let newest = self.newest(callee, call, now);
        let (left_out, tried) = call.versions().split_at(call.versions().partition_point(|version| *version > newest));
        let mut last = None;
        for version in tried {
            match send(*version).await.transpose()? {
                None => {}
                Some(StatusCode::NOT_FOUND) => last = Some(StatusCode::NOT_FOUND),
                Some(status) => {
                    if status == StatusCode::ACCEPTED && last.is_some() {
                        self.remember(callee, call, *version, now);
                    }
                    return Ok(Some(status));
                }
            }
        }
        if last.is_none() || left_out.is_empty() {
            return Ok(last);
        }
        self.forget(&callee.cell.id);
        for version in left_out {
            match send(*version).await.transpose()? {
                None | Some(StatusCode::NOT_FOUND) => {}
                status => return Ok(status),
            }
        }
        Ok(last)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<CellId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn newest(&self, callee: Callee<'_>, call: CellCall, now: Instant) -> u8 {
        let mut known = self.known();
        let Some(entry) = known.get(&callee.cell.id) else { return u8::MAX };
        if entry.is_about(callee) && now.saturating_duration_since(entry.since) < LACK_TTL {
            return entry.newest.get(&call).copied().unwrap_or(u8::MAX);
        }
        known.remove(&callee.cell.id);
        u8::MAX
    }

    fn remember(&self, callee: Callee<'_>, call: CellCall, newest: u8, now: Instant) {
        let mut known = self.known();
        if let Some(entry) = known.get_mut(&callee.cell.id).filter(|entry| entry.is_about(callee)) {
            entry.newest.insert(call, newest);
            return;
        }
        if known.len() >= CELLS_MAX {
            known.retain(|_, entry| now.saturating_duration_since(entry.since) < LACK_TTL);
        }
        if known.len() < CELLS_MAX || known.contains_key(&callee.cell.id) {
            let (cell, address) = (callee.cell.clone(), callee.address.to_owned());
            known.insert(callee.cell.id.clone(), Known { cell, address, newest: [(call, newest)].into(), since: now });
            tracing::debug!(cell = %callee.cell.id, call = call.name(), newest, "the cell has only an older version of this call");
        }
    }

    fn forget(&self, cell: &CellId) {
        self.known().remove(cell);
    }
}

impl Known {
    fn is_about(&self, callee: Callee<'_>) -> bool {
        self.address == callee.address && self.cell == *callee.cell
    }
}

#[cfg(test)]
mod tests;
