//! The contract of the store: ordered keys, fenced atomic steps.
//!
//! Promise: what `commit` confirmed survives a crash of the process and of the machine, a step is there whole or not
//! at all, and nobody writes without holding the mastership that is in force. Every implementation passes the suite
//! in [`crate::contract`]. The writer of the state server is the only caller of `commit`; everybody may read.
//!
//! The trait is kept small enough for etcd or an SQL database to implement. What is deliberately absent: reads at a
//! revision of one's choice and compare-and-set on single records. The whole state lives in memory above the store, so the
//! store is read once, in pages; a node that waits to become master hears of what is committed and keeps what it read up to
//! date. Whoever needs all pages of one moment, as a backup does, takes a [`Snapshot`].
//!
//! Beside records there are claims: keys that go away by themselves unless whoever holds them says again that he does.
//! They need no mastership, take no revision and are in no scan. See [`crate::claims`].

use std::fmt::Debug;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::claims::{Claim, Claimed, Held};
use crate::error::StoreError;
use crate::standing::Standing;

/// Operations in one step. One less than what is stored at most, for the ledger of the keys.
pub const STEP_OPS_MAX: usize = STORED_OPS_MAX - 1;
/// Keys and values of one step together, before they are sealed.
pub const STEP_BYTES_MAX: usize = 1_500_000;
/// Operations of a step that is stored. A default etcd takes 128 in a transaction, and a step must fit there beside the
/// revision that it gets.
pub const STORED_OPS_MAX: usize = 127;
/// Keys and values of a step that is stored: one at its limit, sealed with the longest of key names. A default etcd takes
/// requests of 1.5 MiB.
pub const STORED_BYTES_MAX: usize = 1_540_000;
/// Bytes of one key.
pub const KEY_BYTES_MAX: usize = 1_024;
/// Keys and values of all steps of one commit together. It bounds the memory a commit needs and the size of a frame
/// in the log; 170 full steps fit.
pub const GROUP_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Keys and values of one page of a scan together; a page still holds one record when that record alone is larger.
pub const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long an errand that found nobody master tries to become it.
const ERRAND_PATIENCE: Duration = Duration::from_secs(5);

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One change of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Put {
        key: String,
        value: Bytes,
    },
    /// Deleting a key that is not there is no error.
    Delete {
        key: String,
    },
}

impl Op {
    pub fn key(&self) -> &str {
        match self {
            Op::Put { key, .. } | Op::Delete { key } => key,
        }
    }

    /// What this operation counts towards [`STEP_BYTES_MAX`].
    pub fn bytes(&self) -> usize {
        match self {
            Op::Put { key, value } => key.len() + value.len(),
            Op::Delete { key } => key.len(),
        }
    }
}

/// The unit of atomicity. When a step names a key twice, the later operation wins.
#[derive(Clone, Debug, Default)]
pub struct Step {
    pub ops: Vec<Op>,
}

impl Step {
    pub fn put(&mut self, key: impl Into<String>, value: impl Into<Bytes>) {
        self.ops.push(Op::Put { key: key.into(), value: value.into() });
    }

    pub fn delete(&mut self, key: impl Into<String>) {
        self.ops.push(Op::Delete { key: key.into() });
    }

    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.ops.iter().map(Op::bytes).sum()
    }

    /// Refuses a step that some implementation could not commit once it is sealed. A step without operations passes: it
    /// only takes a revision.
    pub fn check(&self) -> Result<(), StoreError> {
        self.check_against(STEP_OPS_MAX, STEP_BYTES_MAX)
    }

    fn check_against(&self, ops_max: usize, bytes_max: usize) -> Result<(), StoreError> {
        if self.ops.len() > ops_max {
            return Err(StoreError::TooLarge { what: "operations in a step", size: self.ops.len(), max: ops_max });
        }
        for op in &self.ops {
            let key = op.key();
            if key.is_empty() {
                return Err(StoreError::Misuse { what: "a record needs a key, and this one is empty" });
            }
            if key.len() > KEY_BYTES_MAX {
                return Err(StoreError::TooLarge { what: "bytes of a key", size: key.len(), max: KEY_BYTES_MAX });
            }
        }
        let bytes = self.bytes();
        if bytes > bytes_max {
            return Err(StoreError::TooLarge { what: "bytes of a step", size: bytes, max: bytes_max });
        }
        Ok(())
    }
}

/// Checks all steps of a commit before the first of them is written, so that a refusal changes nothing.
pub(crate) fn check_group(steps: &[Step]) -> Result<(), StoreError> {
    if steps.is_empty() {
        return Err(StoreError::Misuse { what: "a commit needs at least one step" });
    }
    let mut bytes = 0;
    for step in steps {
        step.check_against(STORED_OPS_MAX, STORED_BYTES_MAX)?;
        bytes += step.bytes();
    }
    if bytes > GROUP_BYTES_MAX {
        return Err(StoreError::TooLarge { what: "bytes of a commit", size: bytes, max: GROUP_BYTES_MAX });
    }
    Ok(())
}

/// Proof of leadership. Whoever holds it may commit, until somebody else is given a newer one.
///
/// It cannot be cloned, so there is one holder per epoch. Letting go of it without [`Store::resign`] is safe: nobody
/// can commit with it any more.
#[derive(Debug)]
pub struct Mastership {
    epoch: u64,
    /// The store keeps the other end, and so sees that the holder is gone.
    _held: Arc<()>,
}

impl Mastership {
    /// The value for the new master, and the sign of life that the store keeps.
    pub(crate) fn grant(epoch: u64) -> (Mastership, Weak<()>) {
        let held = Arc::new(());
        let sign = Arc::downgrade(&held);
        (Mastership { epoch, _held: held }, sign)
    }

    /// The fencing epoch: it grows with every change of mastership, also over restarts.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

/// A part of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub records: Vec<(String, Bytes)>,
    /// Pass this as `after` to get the following page; `None` after the last one.
    pub next: Option<String>,
}

/// What somebody committed, as a node hears of it that follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The revision of the last step in it.
    pub revision: u64,
    /// In the order of their steps; of several operations on one key only the last is told.
    pub ops: Vec<Op>,
}

/// What is committed from now on, in order, each commit whole or in whole steps. It ends with an error; what was read has to
/// be read again then.
#[derive(Debug)]
pub struct Following {
    pub changes: mpsc::Receiver<Result<Change, StoreError>>,
}

/// The store as it was at one moment, whatever is committed since. It holds no writer up; let go of it when you are done,
/// because it keeps what was overwritten since from being forgotten.
pub trait Snapshot: Send + Sync + Debug {
    /// The revision of the last step that is in it.
    fn revision(&self) -> u64;

    /// How many records there are, for whoever shows progress.
    fn records(&self) -> u64;

    /// As [`Store::scan`], and all pages are of the same moment.
    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>>;
}

pub trait Store: Send + Sync + Debug {
    /// Waits until this node is master. The embedded store took its lock when it was opened, so there it returns at
    /// once, or fails with `Locked` while another [`Mastership`] is held. Others see `node` as the [`Store::holder`].
    fn campaign<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Mastership, StoreError>>;

    /// Gives the mastership back. Resigning one that is no longer in force does nothing.
    fn resign(&self, held: Mastership) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Who is master, as far as others can be.
    fn holder(&self) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    /// Whether the mastership that was given out last still holds, for whoever does not write.
    fn standing(&self) -> Standing {
        Standing::unlimited()
    }

    /// Hears of everything that is committed after this call. `None` where nobody else can commit.
    fn follow(&self) -> BoxFuture<'_, Result<Option<Following>, StoreError>> {
        Box::pin(async { Ok(None) })
    }

    /// Takes or keeps a key for a limited time; the same owner may do so as often as he likes. Somebody else's is left alone.
    fn claim<'a>(&'a self, _claim: &'a Claim) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        Box::pin(async { Err(StoreError::Misuse { what: "this store keeps no claims" }) })
    }

    /// Gives a claim back before its time. One that is not there, or is somebody else's, is left alone.
    fn release<'a>(&'a self, _key: &'a str, _owner: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    /// All claims whose key starts with `prefix`, in key order.
    fn claims<'a>(&'a self, _prefix: &'a str) -> BoxFuture<'a, Result<Vec<Held>, StoreError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>>;

    /// Records whose key starts with `prefix`, in key order, strictly after `after` (which need not exist): at most
    /// `limit` records and [`PAGE_BYTES_MAX`], but at least one record if there is one. A limit of 0 counts as 1.
    /// Each page is consistent in itself; pages read while somebody commits may stem from different revisions.
    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>>;

    /// Commits the steps in order, each whole or not at all. They are durable when it returns `Ok`, with the revision
    /// of the last step. Revisions grow by exactly 1 per step and never repeat, also over restarts.
    ///
    /// After an error with `outcome_unknown() == false` none of the steps is there. Dropping the future does not take
    /// the commit back.
    fn commit<'a>(&'a self, held: &'a Mastership, steps: &'a [Step]) -> BoxFuture<'a, Result<u64, StoreError>>;

    /// The store as it is now: every step that was confirmed before is in it, and each step whole or not at all.
    fn snapshot(&self) -> BoxFuture<'_, Result<Arc<dyn Snapshot>, StoreError>> {
        Box::pin(async { Err(StoreError::Misuse { what: "this store takes no snapshots" }) })
    }

    /// Lets the first step of a store that never had one get the revision after `revision`. A restored store begins behind
    /// every revision that the original may have announced, so that nobody takes one history for the other.
    fn begin_after<'a>(&'a self, _held: &'a Mastership, _revision: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { Err(StoreError::Misuse { what: "this store counts its revisions from 1" }) })
    }

    /// Lets go of the bytes of records that were overwritten or deleted, as far as the store keeps such bytes and can. A store
    /// that looks after that in its own time does nothing.
    fn forget_superseded(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    /// Gives back what this node holds, so that others need not wait for it to end by itself. For whoever is about to end; a
    /// mastership that is still held is over then.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// The revision of the newest durable step that this node knows of; 0 in an empty store. A master knows of all.
    fn revision(&self) -> u64;

    /// One line for status pages, for example `embedded at /var/lib/corkboard, 3 segments, 120 MB, 41 % garbage`.
    fn describe(&self) -> String;
}

pub(crate) const HAS_BEGUN: StoreError =
    StoreError::Misuse { what: "only a store that never had a step can begin at another revision" };

/// For errands, which do not wait: fails when somebody is master.
pub async fn campaign_at_once(store: &dyn Store, node: &str) -> Result<Mastership, StoreError> {
    if let Some(owner) = store.holder().await? {
        return Err(StoreError::InUse { store: store.describe(), owner });
    }
    let in_use =
        |_| StoreError::InUse { store: store.describe(), owner: "a server that has just become master".into() };
    tokio::time::timeout(ERRAND_PATIENCE, store.campaign(node)).await.map_err(in_use)?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(ops: usize, key: &str, value_bytes: usize) -> Step {
        let mut step = Step::default();
        for _ in 0..ops {
            step.put(key, vec![0u8; value_bytes]);
        }
        step
    }

    #[test]
    fn a_step_is_checked_at_its_limits() {
        assert!(step(STEP_OPS_MAX, "k", 1).check().is_ok());
        assert!(matches!(step(STEP_OPS_MAX + 1, "k", 1).check(), Err(StoreError::TooLarge { size: 127, .. })));
        assert!(step(1, "k", STEP_BYTES_MAX - 1).check().is_ok());
        assert!(matches!(step(1, "k", STEP_BYTES_MAX).check(), Err(StoreError::TooLarge { .. })));
        assert!(step(1, &"k".repeat(KEY_BYTES_MAX), 1).check().is_ok());
        assert!(matches!(step(1, &"k".repeat(KEY_BYTES_MAX + 1), 1).check(), Err(StoreError::TooLarge { .. })));
        assert!(matches!(step(1, "", 1).check(), Err(StoreError::Misuse { .. })));
    }

    #[test]
    fn a_full_step_can_be_stored_once_it_is_sealed() {
        let sealing = STEP_OPS_MAX * crate::seal::envelope::SEALING_BYTES_MAX;
        assert!(STEP_BYTES_MAX + sealing + KEY_BYTES_MAX < STORED_BYTES_MAX);
    }

    #[test]
    fn a_delete_counts_its_key() {
        let mut step = Step::default();
        step.delete("abc");
        step.put("d", "ef");
        assert_eq!(step.bytes(), 6);
        assert!(!step.is_empty());
    }

    #[test]
    fn a_commit_without_steps_is_refused_and_a_group_is_bounded() {
        assert!(matches!(check_group(&[]), Err(StoreError::Misuse { .. })));
        let value = Bytes::from(vec![0u8; STORED_BYTES_MAX - 1]);
        let mut full = Step::default();
        full.put("k", value);
        // The clones share the value, so this group needs no memory worth speaking of.
        let group = vec![full; GROUP_BYTES_MAX / STORED_BYTES_MAX + 1];
        assert!(matches!(check_group(&group), Err(StoreError::TooLarge { what: "bytes of a commit", .. })));
        assert!(check_group(&group[1..]).is_ok());
    }

    #[test]
    fn the_store_sees_that_a_mastership_is_gone() {
        let (held, sign) = Mastership::grant(7);
        assert_eq!(held.epoch(), 7);
        assert!(sign.upgrade().is_some());
        drop(held);
        assert!(sign.upgrade().is_none());
    }
}
