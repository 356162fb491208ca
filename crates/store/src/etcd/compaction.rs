//! etcd keeps every former value until it is told to forget it. A master that wrote a lot and never told it would fill the
//! database until it takes no more writes.
//!
//! Every so often the master lets everything go that was overwritten before the time before: whoever follows has had that
//! long to hear of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{PATIENCE, Shared};
use crate::error::StoreError;
use crate::etcd::proto::CompactionRequest;
use crate::etcd::requests::range;
use crate::standing::{nanoseconds, uptime_ns};

/// What may be written before etcd is told to forget what was overwritten. A default database holds 2 GiB.
const BYTES_BETWEEN: u64 = 64 * 1024 * 1024;
const TIME_BETWEEN: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
pub(super) struct Compaction {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    bytes: u64,
    since_ns: u64,
    /// etcd's revision at the last look.
    mark: i64,
}

impl Compaction {
    /// Notes that `bytes` were written, up to etcd's revision `at`. Returns up to where etcd may forget, if it is time.
    fn wrote(&self, bytes: u64, at: i64, now_ns: u64) -> Option<i64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes += bytes;
        if state.mark == 0 {
            *state = State { bytes, since_ns: now_ns, mark: at };
        }
        let due = state.bytes >= BYTES_BETWEEN || now_ns.saturating_sub(state.since_ns) >= nanoseconds(TIME_BETWEEN);
        due.then(|| std::mem::replace(&mut *state, State { bytes: 0, since_ns: now_ns, mark: at }).mark)
    }
}

impl Shared {
    pub(super) fn note_written(self: &Arc<Self>, bytes: u64, at: i64) {
        let due = self.compaction.as_ref().and_then(|compaction| compaction.wrote(bytes, at, uptime_ns()));
        if let Some(revision) = due {
            let shared = self.clone();
            tokio::spawn(async move {
                if let Err(error) = shared.compact(revision, false).await {
                    tracing::warn!(%error, "etcd could not be told to forget what was overwritten; tried again later");
                }
            });
        }
    }

    async fn compact(&self, revision: i64, physical: bool) -> Result<(), StoreError> {
        let asked = CompactionRequest { revision: self.pins.allow(revision), physical };
        let doing = "letting etcd forget what was overwritten";
        let done = self.links.call(doing, PATIENCE, |link| async move { link.kv().compact(asked).await });
        match done.await {
            // Somebody else was faster.
            Err(StoreError::Compacted) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

/// Everything that was overwritten until now.
pub(super) async fn forget(shared: &Shared) -> Result<(), StoreError> {
    if shared.compaction.is_none() {
        return Ok(());
    }
    let now = shared.range("reading the revision", range(shared.keys.revision(), bytes::Bytes::new(), 1)).await?;
    let revision = now.header.map_or(0, |header| header.revision);
    shared.compact(revision, true).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_forgets_what_was_overwritten_before_the_last_look() {
        let compaction = Compaction::default();
        let hour = nanoseconds(Duration::from_secs(3600));
        assert_eq!(compaction.wrote(10, 5, hour), None);
        assert_eq!(compaction.wrote(BYTES_BETWEEN, 90, hour), Some(5));
        assert_eq!(compaction.wrote(BYTES_BETWEEN - 1, 120, hour), None);
        assert_eq!(compaction.wrote(1, 130, hour), Some(90));
        assert_eq!(compaction.wrote(1, 131, hour + nanoseconds(TIME_BETWEEN)), Some(130), "time passes too");
    }
}
