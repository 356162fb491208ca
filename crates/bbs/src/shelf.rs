//! Locks and presences in the store: keys with one owner and a time limit, which every node of a store can serve.
//!
//! Promise: a key has one owner at a time, whichever node was asked, because taking it is one atomic step of the store. On etcd
//! they outlive every node; in a directory, which one process uses at a time, they end with the process, as do those who hold
//! them on the same machine or notice with their next call.
//!
//! The kind stands before the value, in one byte, so that a list of cells is not a guess.

use std::sync::Arc;
use std::time::Duration;

use api::locket::{Kind, Resource};
use bytes::Bytes;
use store::claims::{Claim, Claimed, Held, TTL_MAX};
use store::{Store, StoreError};

/// Where they lie among the claims of a store.
const PREFIX: &str = "/locket/";
const LOCK: u8 = b'l';
const PRESENCE: u8 = b'p';

#[derive(Clone, Debug)]
pub struct Shelf {
    store: Arc<dyn Store>,
}

/// What came of asking for a key, or of giving it back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Nothing was changed.
    SomebodyElses {
        owner: String,
    },
}

impl Shelf {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Takes a key for its owner, or keeps it for them. A time limit beyond [`TTL_MAX`], a hundred years, is cut to it.
    pub async fn take(&self, resource: &Resource, ttl: Duration) -> Result<Outcome, StoreError> {
        let kind = match resource.kind {
            Kind::Lock => LOCK,
            Kind::Presence => PRESENCE,
        };
        let claim = Claim {
            key: format!("{PREFIX}{}", resource.key),
            owner: resource.owner.clone(),
            value: [&[kind], resource.value.as_bytes()].concat().into(),
            ttl: ttl.min(TTL_MAX),
        };
        Ok(match self.store.claim(&claim).await? {
            Claimed::Mine => Outcome::Done,
            Claimed::Theirs(held) => Outcome::SomebodyElses { owner: held.owner },
        })
    }

    /// Gives a key back. One that nobody has is given back already.
    pub async fn give_back(&self, key: &str, owner: &str) -> Result<Outcome, StoreError> {
        if let Some(held) = self.get(key).await?.filter(|held| held.owner != owner) {
            return Ok(Outcome::SomebodyElses { owner: held.owner });
        }
        self.store.release(&format!("{PREFIX}{key}"), owner).await?;
        Ok(Outcome::Done)
    }

    pub async fn get(&self, key: &str) -> Result<Option<Resource>, StoreError> {
        let key = format!("{PREFIX}{key}");
        let held = self.store.claims(&key).await?;
        Ok(held.into_iter().find(|held| held.key == key).and_then(read))
    }

    pub async fn list(&self, kind: Kind) -> Result<Vec<Resource>, StoreError> {
        let held = self.store.claims(PREFIX).await?;
        Ok(held.into_iter().filter_map(read).filter(|resource| resource.kind == kind).collect())
    }
}

/// What is none of ours is passed over.
fn read(held: Held) -> Option<Resource> {
    let kind = match *held.value.first()? {
        LOCK => Kind::Lock,
        PRESENCE => Kind::Presence,
        _ => return None,
    };
    let key = held.key.strip_prefix(PREFIX)?.to_owned();
    Some(Resource { key, owner: held.owner, value: text(&held.value.slice(1..))?, kind })
}

fn text(bytes: &Bytes) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use store::memory::Memory;

    use super::*;

    fn resource(key: &str, owner: &str, kind: Kind) -> Resource {
        Resource { key: key.into(), owner: owner.into(), value: format!("{key} of {owner}"), kind }
    }

    #[tokio::test]
    async fn a_key_has_one_owner() {
        const TTL: Duration = Duration::from_secs(15);
        let shelf = Shelf::new(Arc::new(Memory::new()));
        let (lock, cell) = (resource("bbs", "a", Kind::Lock), resource("cell", "c", Kind::Presence));
        assert_eq!(shelf.take(&lock, TTL).await.unwrap(), Outcome::Done);
        assert_eq!(shelf.take(&lock, TTL).await.unwrap(), Outcome::Done, "the owner may say so again");
        assert_eq!(shelf.take(&cell, Duration::MAX).await.unwrap(), Outcome::Done);
        let theirs = Outcome::SomebodyElses { owner: "a".into() };
        assert_eq!(shelf.take(&resource("bbs", "b", Kind::Lock), TTL).await.unwrap(), theirs);
        assert_eq!(shelf.give_back("bbs", "b").await.unwrap(), theirs);
        assert_eq!(shelf.get("bbs").await.unwrap(), Some(lock.clone()));
        assert_eq!(shelf.get("bb").await.unwrap(), None, "a part of a key is another key");
        assert_eq!(shelf.list(Kind::Lock).await.unwrap(), [lock]);
        assert_eq!(shelf.list(Kind::Presence).await.unwrap(), [cell]);
        assert_eq!(shelf.give_back("bbs", "a").await.unwrap(), Outcome::Done);
        assert_eq!(shelf.give_back("bbs", "a").await.unwrap(), Outcome::Done, "nobody has it");
        assert_eq!(shelf.list(Kind::Lock).await.unwrap(), []);
    }
}
