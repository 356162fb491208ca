//! Claims: keys that go away by themselves.
//!
//! Promise: a claim has one owner at a time. It is his until he gives it back or its time is over, and nobody else's before.
//! Nodes say with claims that they are there. Here is what a claim is, and the place where a store keeps them that has no
//! other processes beside it; those of such a store end with the process.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::error::StoreError;
use crate::kv::STORED_BYTES_MAX;
use crate::standing::{nanoseconds, uptime_ns};

/// Both have room for the 255 characters that Locket promises, of four bytes each, and a prefix.
pub const KEY_BYTES_MAX: usize = 1_280;
pub const OWNER_BYTES_MAX: usize = 1_024;
/// A claim must not be so short that one lost packet ends it. The other limit, a hundred years, is what etcd can count to, and
/// what nobody lives to see.
pub const TTL_MIN: Duration = Duration::from_secs(1);
pub const TTL_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// How many claims a store without other processes keeps.
const CLAIMS_MAX: usize = 100_000;

/// What somebody wants to hold for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub key: String,
    pub owner: String,
    pub value: Bytes,
    /// In whole seconds; a part of one counts as one.
    pub ttl: Duration,
}

/// A claim that is held at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub key: String,
    pub owner: String,
    pub value: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    Mine,
    /// Somebody else holds it; nothing was changed.
    Theirs(Held),
}

impl Claim {
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let too_large = |what, size, max| Err(StoreError::TooLarge { what, size, max });
        if self.key.is_empty() || self.owner.is_empty() {
            return Err(StoreError::Misuse { what: "a claim needs a key and an owner" });
        }
        if self.key.len() > KEY_BYTES_MAX {
            return too_large("bytes of a key", self.key.len(), KEY_BYTES_MAX);
        }
        if self.owner.len() > OWNER_BYTES_MAX {
            return too_large("bytes of the name of an owner", self.owner.len(), OWNER_BYTES_MAX);
        }
        let size = self.key.len() + self.owner.len() + self.value.len();
        if size > STORED_BYTES_MAX {
            return too_large("bytes of a claim", size, STORED_BYTES_MAX);
        }
        if self.ttl < TTL_MIN || self.ttl > TTL_MAX {
            return Err(StoreError::Misuse { what: "a claim is for at least a second and at most a hundred years" });
        }
        Ok(())
    }
}

/// The claims of a store that no other process uses.
#[derive(Debug, Default)]
pub(crate) struct LocalClaims {
    held: Mutex<BTreeMap<String, Entry>>,
}

#[derive(Debug)]
struct Entry {
    owner: String,
    value: Bytes,
    ends_ns: u64,
}

impl LocalClaims {
    /// What has ended is gone before anybody looks.
    fn held(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = uptime_ns();
        held.retain(|_, entry| entry.ends_ns > now_ns);
        held
    }

    pub(crate) fn claim(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        claim.check()?;
        let mut held = self.held();
        if let Some(entry) = held.get(&claim.key).filter(|entry| entry.owner != claim.owner) {
            return Ok(Claimed::Theirs(view(&claim.key, entry)));
        }
        if held.len() >= CLAIMS_MAX && !held.contains_key(&claim.key) {
            return Err(StoreError::TooLarge { what: "claims", size: held.len() + 1, max: CLAIMS_MAX });
        }
        let ends_ns = uptime_ns().saturating_add(nanoseconds(claim.ttl));
        let entry = Entry { owner: claim.owner.clone(), value: claim.value.clone(), ends_ns };
        held.insert(claim.key.clone(), entry);
        Ok(Claimed::Mine)
    }

    pub(crate) fn release(&self, key: &str, owner: &str) {
        let mut held = self.held();
        if held.get(key).is_some_and(|entry| entry.owner == owner) {
            held.remove(key);
        }
    }

    pub(crate) fn claims(&self, prefix: &str) -> Vec<Held> {
        let held = self.held();
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let found = held.range::<str, _>(from).take_while(|(key, _)| key.starts_with(prefix));
        found.map(|(key, entry)| view(key, entry)).collect()
    }
}

fn view(key: &str, entry: &Entry) -> Held {
    Held { key: key.to_owned(), owner: entry.owner.clone(), value: entry.value.clone() }
}
