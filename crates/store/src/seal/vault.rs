//! A store whose records are sealed: plain above, sealed below.
//!
//! Promise: every record that is committed through it is sealed under the active key, with a stamp of its own; every
//! record that is read is opened with whichever key it names. What cannot be opened comes up as it lies there, and
//! [`Vault::explain`] says why. A sealed value that is put was moved aside, or sealed already: it is stored as it is, unless
//! it is of another key that opens it.
//!
//! How often the active key has sealed is written to the ledger with the first step that has room, in the same commit, so
//! the number is never behind what is durable but for steps that are full to the brim, which the next commit makes up for.
//!
//! What the vault knows of marker and ledger follows what is committed through it, and on a node that waits what it hears
//! of others. Only the writer of the master commits, one group at a time, so what it knows is what is durable.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;

use super::Place;
use super::census::{Census, Count};
use super::envelope::{self, NONCE_BYTES};
use super::keyring::{Keyring, Unopened};
use super::ledger::{LEDGER_ROOT, Ledger, LedgerEntry, MARKER_KEY, hex, put_entry};
use crate::claims::{Claim, Claimed, Held};
use crate::error::StoreError;
use crate::kv::{BoxFuture, Change, Mastership, Op, Page, STORED_OPS_MAX, Snapshot, Step, Store};
use crate::root::Unknown;
use crate::standing::Standing;

/// What makes each seal different from every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub sealed_ns: i64,
    pub nonce: [u8; NONCE_BYTES],
}

/// Where stamps come from: the clock and the random source of the server.
pub trait Stamps: Send + Sync + Debug {
    fn stamp(&self) -> Stamp;
}

#[derive(Debug)]
pub struct Vault {
    inner: Arc<dyn Store>,
    keyring: RwLock<Arc<Keyring>>,
    ledger: Mutex<Ledger>,
    census: Census,
    /// Whether what is read is counted; see [`Vault::count_what_is_read`].
    counting: AtomicBool,
    stamps: Arc<dyn Stamps>,
}

impl Vault {
    pub fn new(inner: Arc<dyn Store>, keyring: Arc<Keyring>, ledger: Ledger, stamps: Arc<dyn Stamps>) -> Vault {
        Vault {
            inner,
            keyring: RwLock::new(keyring),
            ledger: Mutex::new(ledger),
            census: Census::default(),
            counting: AtomicBool::new(false),
            stamps,
        }
    }

    /// The store with the records as they lie there.
    pub fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    pub fn keyring(&self) -> Arc<Keyring> {
        self.keyring.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Other keys from now on. Whoever calls it has made sure that no record is left without its key, and has committed
    /// what [`Vault::begin`] adds to a step for the new ones.
    pub fn replace_keys(&self, keyring: Arc<Keyring>) {
        *self.keyring.write().unwrap_or_else(PoisonError::into_inner) = keyring;
    }

    pub fn ledger(&self) -> Ledger {
        self.known().clone()
    }

    pub fn census(&self) -> &Census {
        &self.census
    }

    pub fn counts(&self) -> Vec<Count> {
        self.census.counts()
    }

    /// How many records are not under the active key.
    pub fn stale(&self) -> u64 {
        self.census.stale(self.keyring().active().as_str())
    }

    pub fn is_stale(&self, key: &str) -> bool {
        self.census.is_stale(key, self.keyring().active().as_str())
    }

    /// Forgets the census. Until [`Vault::counted`], every record that is read is counted. A record has one mark, whoever sets
    /// it last, so others may commit meanwhile if all they did since is then told to [`Vault::heard`], in order: where they
    /// changed something their word comes last, and elsewhere what was read is right. Nobody commits through this vault, and
    /// nothing is told to it, until it is counted.
    pub fn count_what_is_read(&self) {
        self.census.clear();
        self.counting.store(true, Ordering::Release);
    }

    pub fn counted(&self) {
        self.counting.store(false, Ordering::Release);
    }

    /// What others committed, opened as far as it can be. From now on it counts, and marker and ledger are what it says.
    pub fn heard(&self, change: &Change) -> Change {
        let keyring = self.keyring();
        let opened = |op: &Op| {
            self.note(op);
            match op {
                Op::Put { key, value } => Op::Put { key: key.clone(), value: opened(&keyring, key, value.clone()) },
                Op::Delete { .. } => op.clone(),
            }
        };
        Change { revision: change.revision, ops: change.ops.iter().map(opened).collect() }
    }

    /// The ledger as it was read from the store anew. For a node that waits: it has sealed nothing that is not in there.
    pub fn learn(&self, ledger: Ledger) {
        *self.known() = ledger;
    }

    /// Why a value that lies under `key` cannot be opened, if it is a sealed one and cannot.
    pub fn explain(&self, key: &str, value: &[u8]) -> Option<Unopened> {
        let place = Place::of(key).filter(|_| envelope::is_sealed(value))?;
        self.keyring().open(place, value).err()
    }

    /// Whether a value that lies under `key` is sealed with the active key, and opens.
    pub fn is_under_active(&self, key: &str, value: &[u8]) -> bool {
        envelope::key_name(value) == Some(self.keyring().active().as_str()) && self.explain(key, value).is_none()
    }

    /// The same record under the active key. `None` when it is there already, or is nothing that is sealed.
    pub fn reseal(&self, key: &str, value: &Bytes) -> Result<Option<Bytes>, Unopened> {
        let keyring = self.keyring();
        let Some(place) = Place::of(key) else { return Ok(None) };
        if !envelope::is_sealed(value) {
            return Ok(Some(self.seal(&keyring, place, value)));
        }
        if envelope::key_name(value) == Some(keyring.active().as_str()) {
            return Ok(None);
        }
        let plain = keyring.open(place, value)?;
        Ok(Some(self.seal(&keyring, place, &plain)))
    }

    /// Adds to a step what has to be durable before the first record is sealed with the active key of `keyring`: the marker
    /// is gone, and every key that a record may need is in the ledger.
    pub fn begin(&self, step: &mut Step, keyring: &Keyring, now_ns: i64) {
        step.delete(MARKER_KEY);
        let ledger = self.known();
        let active = keyring.active().as_str();
        let counted: Vec<String> =
            self.counts().into_iter().filter(|count| count.records > 0).filter_map(|count| count.key).collect();
        for name in counted.iter().map(String::as_str).filter(|name| *name != active).chain([active]) {
            let Some(check) = keyring.check(name).map(hex) else { continue };
            let mut entry = match ledger.entries.get(name) {
                Some(known) if known.check == check => known.clone(),
                // Other bytes are another key; the name was free.
                _ => LedgerEntry { check, since_ns: now_ns, writes: 0, needed: true, unknown: Unknown::new() },
            };
            entry.needed = true;
            put_entry(step, name, &entry);
        }
    }

    /// Adds to a step that all records are under the active key, so that no other key is needed.
    pub fn finish(&self, step: &mut Step) {
        let active = self.keyring().active().to_string();
        for (name, entry) in &self.known().entries {
            put_entry(step, name, &LedgerEntry { needed: *name == active, ..entry.clone() });
        }
        step.put(MARKER_KEY, active);
    }

    fn known(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seal(&self, keyring: &Keyring, place: Place<'_>, plain: &[u8]) -> Bytes {
        if let Some(entry) = self.known().entries.get_mut(keyring.active().as_str()) {
            entry.writes += 1;
        }
        keyring.seal(place, self.stamps.stamp(), plain)
    }

    fn open(&self, keyring: &Keyring, key: &str, value: Bytes) -> Bytes {
        if Place::of(key).is_some() && self.counting.load(Ordering::Acquire) {
            self.census.put(key, &value);
        }
        opened(keyring, key, value)
    }

    fn sealed(&self, steps: &[Step]) -> Vec<Step> {
        let keyring = self.keyring();
        let mut seals = false;
        let mut tells = false;
        let mut sealed = |op: &Op| {
            let Op::Put { key, value } = op else { return op.clone() };
            let Some(place) = Place::of(key) else {
                tells |= key.starts_with(LEDGER_ROOT);
                return Op::Put { key: key.clone(), value: self.with_what_is_known(key, value) };
            };
            seals = true;
            let value = if envelope::is_sealed(value) {
                // Moved aside, or sealed already. If an older key opens it, the active one takes its place.
                self.reseal(key, value).ok().flatten().unwrap_or_else(|| value.clone())
            } else {
                self.seal(&keyring, place, value)
            };
            Op::Put { key: key.clone(), value }
        };
        let mut steps: Vec<Step> =
            steps.iter().map(|step| Step { ops: step.ops.iter().map(&mut sealed).collect() }).collect();
        // A step that speaks of the ledger itself knows the number already.
        if seals && !tells {
            let active = keyring.active().as_str();
            let room = steps.iter_mut().find(|step| step.ops.len() < STORED_OPS_MAX);
            if let (Some(step), Some(entry)) = (room, self.known().entries.get(active)) {
                put_entry(step, active, entry);
            }
        }
        steps
    }

    /// An entry of the ledger that was made a while ago does not take back what was counted since.
    fn with_what_is_known(&self, key: &str, value: &Bytes) -> Bytes {
        let Some(name) = key.strip_prefix(LEDGER_ROOT) else { return value.clone() };
        let Ok(mut entry) = serde_json::from_slice::<LedgerEntry>(value) else { return value.clone() };
        let known = self.known();
        if let Some(counted) = known.entries.get(name).filter(|known| known.check == entry.check) {
            entry.writes = entry.writes.max(counted.writes);
        }
        entry.to_json()
    }

    /// What is durable now is what is known.
    fn note(&self, op: &Op) {
        let key = op.key();
        if Place::of(key).is_some() {
            match op {
                Op::Put { value, .. } => self.census.put(key, value),
                Op::Delete { .. } => self.census.remove(key),
            }
        } else if key == MARKER_KEY {
            self.known().marker = match op {
                Op::Put { value, .. } => Some(String::from_utf8_lossy(value).into_owned()),
                Op::Delete { .. } => None,
            };
        } else if let Some(name) = key.strip_prefix(LEDGER_ROOT) {
            self.note_entry(name, op);
        }
    }

    fn note_entry(&self, name: &str, op: &Op) {
        let mut known = self.known();
        let Op::Put { value, .. } = op else {
            known.entries.remove(name);
            return;
        };
        let Ok(stored) = serde_json::from_slice::<LedgerEntry>(value) else { return };
        let counted = known.entries.get(name).filter(|entry| entry.check == stored.check);
        let writes = counted.map_or(0, |entry| entry.writes).max(stored.writes);
        known.entries.insert(name.to_owned(), LedgerEntry { writes, ..stored });
    }
}

/// What cannot be opened stays as it lies there.
fn opened(keyring: &Keyring, key: &str, value: Bytes) -> Bytes {
    match Place::of(key).filter(|_| envelope::is_sealed(&value)) {
        Some(place) => keyring.open(place, &value).unwrap_or(value),
        None => value,
    }
}

impl Store for Vault {
    fn campaign<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Mastership, StoreError>> {
        self.inner.campaign(node)
    }

    fn resign(&self, held: Mastership) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.resign(held)
    }

    fn holder(&self) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        self.inner.holder()
    }

    fn standing(&self) -> Standing {
        self.inner.standing()
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        self.inner.claim(claim)
    }

    fn release<'a>(&'a self, key: &'a str, owner: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.release(key, owner)
    }

    fn claims<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Held>, StoreError>> {
        self.inner.claims(prefix)
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>> {
        Box::pin(async move {
            let value = self.inner.get(key).await?;
            Ok(value.map(|value| self.open(&self.keyring(), key, value)))
        })
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>> {
        Box::pin(async move {
            let mut page = self.inner.scan(prefix, after, limit).await?;
            let keyring = self.keyring();
            for (key, value) in &mut page.records {
                *value = self.open(&keyring, key, std::mem::take(value));
            }
            Ok(page)
        })
    }

    fn commit<'a>(&'a self, held: &'a Mastership, steps: &'a [Step]) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            let sealed = self.sealed(steps);
            let revision = self.inner.commit(held, &sealed).await?;
            sealed.iter().flat_map(|step| &step.ops).for_each(|op| self.note(op));
            Ok(revision)
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }

    /// As the records lie there: what leaves the store by this way stays sealed.
    fn snapshot(&self) -> BoxFuture<'_, Result<Arc<dyn Snapshot>, StoreError>> {
        self.inner.snapshot()
    }

    fn begin_after<'a>(&'a self, held: &'a Mastership, revision: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.begin_after(held, revision)
    }

    fn forget_superseded(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.forget_superseded()
    }

    fn revision(&self) -> u64 {
        self.inner.revision()
    }

    fn describe(&self) -> String {
        format!("{}, sealed with key {}", self.inner.describe(), self.keyring().active())
    }
}

#[cfg(test)]
mod tests;
