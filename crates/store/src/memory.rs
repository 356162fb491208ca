//! The store for tests and simulation: a map in memory, with numbered writes and faults on demand.
//!
//! Promise: it passes the same contract as the durable stores and fails the way they fail, at the write the test
//! names. Every step that is tried takes the next write number, counted from 1 over the life of the disk, also when
//! a fault stops it. Three rules keep its failures honest:
//! - an error whose outcome is known leaves nothing of its group behind;
//! - an error whose outcome is unknown leaves the steps before the fault (and, for `fail_after`, the faulty one);
//! - after an unknown outcome this handle takes no more writes, until [`Memory::reopen`].

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;

use crate::claims::{Claim, Claimed, Held, LocalClaims};
use crate::error::StoreError;
use crate::kv::{BoxFuture, HAS_BEGUN, Mastership, Op, PAGE_BYTES_MAX, Page, Snapshot, Step, Store, check_group};

#[derive(Clone, Debug, Default)]
pub struct Memory {
    disk: Arc<Mutex<Disk>>,
    claims: Arc<LocalClaims>,
    /// Which opening of the disk this handle belongs to. A handle of an earlier one is deposed.
    opening: u64,
}

#[derive(Debug, Default)]
struct Disk {
    records: BTreeMap<String, Bytes>,
    revision: u64,
    epoch: u64,
    opening: u64,
    holder: Option<(u64, Weak<()>)>,
    failed: Option<String>,
    writes: u64,
    faults: BTreeMap<u64, Fault>,
}

#[derive(Debug)]
enum Fault {
    Before(StoreError),
    After,
}

impl Memory {
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Write `n` is not applied and nothing else of its group is; the error says that the outcome is known.
    pub fn fail_before(&self, n: u64) {
        self.fail_before_with(
            n,
            StoreError::Io { doing: format!("starting write {n}"), source: io::Error::other("injected fault") },
        );
    }

    /// As [`Memory::fail_before`], with the error of the test's choice.
    pub fn fail_before_with(&self, n: u64, error: StoreError) {
        self.disk().faults.insert(n, Fault::Before(error));
    }

    /// Write `n` is applied, and the caller is told that the outcome is unknown. Later steps of its group are not.
    pub fn fail_after(&self, n: u64) {
        self.disk().faults.insert(n, Fault::After);
    }

    /// Puts a record past everybody, as somebody does who writes to the disk himself: no lock, no number, no revision.
    pub fn slip_in(&self, key: impl Into<String>, value: impl Into<Bytes>) {
        self.disk().records.insert(key.into(), value.into());
    }

    /// How many writes have been tried so far; the next one has this number plus 1.
    pub fn writes(&self) -> u64 {
        self.disk().writes
    }

    /// Starts again over the same data, as after a crash. Whoever held the mastership is deposed.
    pub fn reopen(&self) -> Memory {
        let mut disk = self.disk();
        disk.opening += 1;
        disk.holder = None;
        disk.failed = None;
        Memory { disk: Arc::clone(&self.disk), claims: Arc::default(), opening: disk.opening }
    }

    /// The same records on a disk of their own, which nobody holds. Its writes count from 1, and no fault waits there.
    pub fn copy(&self) -> Memory {
        let disk = self.disk();
        let (records, revision, epoch) = (disk.records.clone(), disk.revision, disk.epoch);
        let copy = Disk { records, revision, epoch, ..Disk::default() };
        Memory { disk: Arc::new(Mutex::new(copy)), claims: Arc::default(), opening: 0 }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        // A panic of another test thread cannot leave the map half changed: faults are decided before steps apply.
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk, for whoever may write to it.
    fn disk_of(&self, held: &Mastership) -> Result<MutexGuard<'_, Disk>, StoreError> {
        let disk = self.disk();
        let in_force = disk.holder.as_ref().is_some_and(|(epoch, _)| *epoch == held.epoch());
        if self.opening != disk.opening || !in_force {
            return Err(StoreError::NotMaster);
        }
        match &disk.failed {
            Some(why) => Err(StoreError::Failed { why: why.clone() }),
            None => Ok(disk),
        }
    }

    fn commit_now(&self, held: &Mastership, steps: &[Step]) -> Result<u64, StoreError> {
        check_group(steps)?;
        let mut disk = self.disk_of(held)?;
        let first = disk.writes + 1;
        let numbers = first..first + steps.len() as u64;
        let Some(at) = disk.faults.range(numbers.clone()).next().map(|(n, _)| *n) else {
            disk.writes = numbers.end - 1;
            disk.apply(steps);
            return Ok(disk.revision);
        };
        disk.writes = at;
        let before = usize::try_from(at - first).expect("the fault lies inside the group");
        let (applied, error) = match disk.faults.remove(&at).expect("the fault was just found") {
            Fault::Before(error) if error.outcome_unknown() => (before, error),
            Fault::Before(error) => (0, error),
            Fault::After => {
                let doing = format!("confirming write {at}");
                (before + 1, StoreError::Unconfirmed { doing, source: io::Error::other("injected fault") })
            }
        };
        disk.apply(&steps[..applied]);
        if error.outcome_unknown() {
            disk.failed = Some(format!("injected fault at write {at}"));
        }
        Err(error)
    }
}

fn page(records: &BTreeMap<String, Bytes>, prefix: &str, after: Option<&str>, limit: usize) -> Page {
    let start = match after {
        Some(after) if after >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix),
    };
    let mut page = Page::default();
    let mut bytes = 0;
    for (key, value) in records.range::<str, _>((start, Bound::Unbounded)) {
        if !key.starts_with(prefix) {
            break;
        }
        bytes += key.len() + value.len();
        if !page.records.is_empty() && (page.records.len() >= limit || bytes > PAGE_BYTES_MAX) {
            page.next = page.records.last().map(|(key, _)| key.clone());
            break;
        }
        page.records.push((key.clone(), value.clone()));
    }
    page
}

/// A copy of the map; the values are shared.
#[derive(Debug)]
struct Copy {
    records: BTreeMap<String, Bytes>,
    revision: u64,
}

impl Snapshot for Copy {
    fn revision(&self) -> u64 {
        self.revision
    }

    fn records(&self) -> u64 {
        self.records.len() as u64
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>> {
        Box::pin(async move { Ok(page(&self.records, prefix, after, limit)) })
    }
}

impl Disk {
    fn apply(&mut self, steps: &[Step]) {
        for step in steps {
            for op in &step.ops {
                match op {
                    Op::Put { key, value } => {
                        self.records.insert(key.clone(), value.clone());
                    }
                    Op::Delete { key } => {
                        self.records.remove(key);
                    }
                }
            }
            self.revision += 1;
        }
    }
}

impl Store for Memory {
    fn campaign<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Mastership, StoreError>> {
        Box::pin(async move {
            let mut disk = self.disk();
            if self.opening != disk.opening {
                return Err(StoreError::NotMaster);
            }
            if disk.holder.as_ref().is_some_and(|(_, sign)| sign.upgrade().is_some()) {
                return Err(StoreError::Locked { dir: "memory".into(), owner: format!("a mastership beside {node}") });
            }
            disk.epoch += 1;
            let (held, sign) = Mastership::grant(disk.epoch);
            disk.holder = Some((disk.epoch, sign));
            Ok(held)
        })
    }

    fn resign(&self, held: Mastership) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let mut disk = self.disk();
            if disk.holder.as_ref().is_some_and(|(epoch, _)| *epoch == held.epoch()) {
                disk.holder = None;
            }
            Ok(())
        })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        Box::pin(async move { self.claims.claim(claim) })
    }

    fn release<'a>(&'a self, key: &'a str, owner: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.claims.release(key, owner);
            Ok(())
        })
    }

    fn claims<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Held>, StoreError>> {
        Box::pin(async move { Ok(self.claims.claims(prefix)) })
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>> {
        Box::pin(async move { Ok(self.disk().records.get(key).cloned()) })
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>> {
        Box::pin(async move { Ok(page(&self.disk().records, prefix, after, limit)) })
    }

    fn commit<'a>(&'a self, held: &'a Mastership, steps: &'a [Step]) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move { self.commit_now(held, steps) })
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Arc<dyn Snapshot>, StoreError>> {
        Box::pin(async move {
            let disk = self.disk();
            Ok(Arc::new(Copy { records: disk.records.clone(), revision: disk.revision }) as Arc<dyn Snapshot>)
        })
    }

    fn begin_after<'a>(&'a self, held: &'a Mastership, revision: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut disk = self.disk_of(held)?;
            if disk.revision > 0 {
                return Err(HAS_BEGUN);
            }
            disk.revision = revision;
            Ok(())
        })
    }

    fn revision(&self) -> u64 {
        self.disk().revision
    }

    fn describe(&self) -> String {
        let disk = self.disk();
        format!("in memory, {} records, lost when the process ends", disk.records.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str) -> Step {
        let mut step = Step::default();
        step.put(key, "x");
        step
    }

    async fn keys(store: &Memory) -> Vec<String> {
        store.scan("", None, 100).await.unwrap().records.into_iter().map(|(key, _)| key).collect()
    }

    #[tokio::test]
    async fn a_fault_before_leaves_nothing_of_the_group_and_the_store_goes_on() {
        let store = Memory::new();
        let held = store.campaign("a").await.unwrap();
        store.fail_before(3);
        store.commit(&held, &[put("1")]).await.unwrap();
        let error = store.commit(&held, &[put("2"), put("3")]).await.unwrap_err();
        assert!(!error.outcome_unknown(), "{error}");
        assert_eq!(keys(&store).await, ["1"]);
        assert_eq!(store.writes(), 3);
        assert_eq!(store.commit(&held, &[put("4")]).await.unwrap(), 2);
        assert_eq!(keys(&store).await, ["1", "4"]);
    }

    #[tokio::test]
    async fn a_fault_after_leaves_the_write_and_stops_the_store_until_it_is_reopened() {
        let store = Memory::new();
        let held = store.campaign("a").await.unwrap();
        store.fail_after(2);
        let error = store.commit(&held, &[put("1"), put("2"), put("3")]).await.unwrap_err();
        assert!(error.outcome_unknown(), "{error}");
        assert!(matches!(store.commit(&held, &[put("4")]).await, Err(StoreError::Failed { .. })));
        let again = store.reopen();
        assert_eq!(keys(&again).await, ["1", "2"]);
        assert_eq!(again.revision(), 2);
        assert!(matches!(store.commit(&held, &[put("5")]).await, Err(StoreError::NotMaster)));
        let held = again.campaign("b").await.unwrap();
        assert_eq!(again.commit(&held, &[put("6")]).await.unwrap(), 3);
    }

    #[tokio::test]
    async fn a_chosen_error_with_unknown_outcome_leaves_the_steps_before_it() {
        let store = Memory::new();
        let held = store.campaign("a").await.unwrap();
        store.fail_before_with(2, StoreError::Failed { why: "test".into() });
        store.commit(&held, &[put("1"), put("2")]).await.unwrap_err();
        assert_eq!(keys(&store).await, ["1"]);
    }

    #[tokio::test]
    async fn a_copy_goes_its_own_way() {
        let store = Memory::new();
        let held = store.campaign("a").await.unwrap();
        store.commit(&held, &[put("1")]).await.unwrap();
        store.fail_after(2);
        let copy = store.copy();
        let held = copy.campaign("b").await.unwrap();
        assert_eq!((copy.commit(&held, &[put("2"), put("3")]).await.unwrap(), copy.writes()), (3, 2));
        assert_eq!((keys(&copy).await.len(), keys(&store).await.len()), (3, 1));
    }

    #[tokio::test]
    async fn a_second_mastership_waits_for_the_first_to_go() {
        let store = Memory::new();
        let held = store.campaign("a").await.unwrap();
        assert!(matches!(store.campaign("b").await, Err(StoreError::Locked { .. })));
        drop(held);
        store.campaign("b").await.unwrap();
    }
}
