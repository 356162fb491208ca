//! Reads of one moment: etcd keeps former values, so a scan can name the revision it wants them of.
//!
//! Promise: all pages are of the moment at which the snapshot was taken. While one is held, this server does not tell etcd to
//! forget what is in it. Somebody else may; then reading ends with [`StoreError::Compacted`], never with other values.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::Shared;
use super::requests::{number_of, range};
use crate::error::StoreError;
use crate::kv::{BoxFuture, Page, Snapshot};

/// Which revisions of etcd are being read, and by how many.
#[derive(Debug, Default)]
pub(super) struct Pins(Mutex<BTreeMap<i64, usize>>);

impl Pins {
    fn counts(&self) -> MutexGuard<'_, BTreeMap<i64, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Up to where etcd may forget, of `revision` and before.
    pub(super) fn allow(&self, revision: i64) -> i64 {
        self.counts().keys().next().map_or(revision, |oldest| revision.min(*oldest))
    }

    fn add(&self, revision: i64) {
        *self.counts().entry(revision).or_default() += 1;
    }

    fn remove(&self, revision: i64) {
        let mut counts = self.counts();
        if let Some(count) = counts.get_mut(&revision) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&revision);
            }
        }
    }
}

#[derive(Debug)]
struct Moment {
    shared: Arc<Shared>,
    /// etcd's revision, which counts transactions of everybody.
    at: i64,
    revision: u64,
    records: u64,
}

pub(super) async fn take(shared: &Arc<Shared>) -> Result<Arc<dyn Snapshot>, StoreError> {
    let doing = "taking a snapshot";
    let found = shared.range(doing, range(shared.keys.revision(), Bytes::new(), 1)).await?;
    let at = found.header.as_ref().map_or(0, |header| header.revision);
    let revision = number_of(found.kvs.first())?;
    shared.pins.add(at);
    let mut moment = Moment { shared: shared.clone(), at, revision, records: 0 };
    let (from, to) = shared.keys.records("", None);
    let mut asked = range(from, to, 1);
    asked.revision = at;
    let counted = shared.range(doing, asked).await?;
    moment.records = u64::try_from(counted.count).unwrap_or(0);
    Ok(Arc::new(moment))
}

impl Snapshot for Moment {
    fn revision(&self) -> u64 {
        self.revision
    }

    fn records(&self) -> u64 {
        self.records
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>> {
        Box::pin(self.shared.page(prefix, after, limit, self.at))
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        self.shared.pins.remove(self.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_read_is_not_forgotten() {
        let pins = Pins::default();
        assert_eq!(pins.allow(100), 100);
        for at in [70, 50, 50] {
            pins.add(at);
        }
        assert_eq!((pins.allow(100), pins.allow(40)), (50, 40));
        pins.remove(50);
        assert_eq!(pins.allow(100), 50, "somebody else reads it still");
        pins.remove(50);
        assert_eq!(pins.allow(100), 70);
        pins.remove(70);
        assert_eq!(pins.allow(100), 100);
    }
}
