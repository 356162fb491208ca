//! Claims in etcd: each has a lease of its own, which every claim of the same owner renews.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::links::{ANSWER_TIMEOUT, Trouble};
use super::proto::{KeyValue, RequestOp, TxnRequest, TxnResponse};
use super::requests::{delete, found, has_lease, is_absent, put, range, read, was_changed_at};
use super::{PATIENCE, Shared};
use crate::claims::{Claim, Claimed, Held};
use crate::error::StoreError;

/// How many claims are listed at most.
const CLAIMS_MAX: i64 = 100_000;
/// How often a claim is tried that somebody else changes at the same moment.
const TRIES_MAX: usize = 8;

/// The leases behind the claims that were made here, by key.
#[derive(Debug, Default)]
pub(super) struct Leases(Mutex<HashMap<String, Kept>>);

#[derive(Clone, Debug)]
struct Kept {
    lease: i64,
    claim: Claim,
}

impl Leases {
    fn kept(&self) -> MutexGuard<'_, HashMap<String, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, claim: &Claim) -> Option<Kept> {
        let kept = self.kept().get(&claim.key).cloned();
        kept.filter(|kept| kept.claim.owner == claim.owner && kept.claim.ttl == claim.ttl)
    }
}

pub(super) async fn claim(shared: &Arc<Shared>, claim: &Claim) -> Result<Claimed, StoreError> {
    claim.check()?;
    if !claim.key.starts_with('/') {
        return Err(StoreError::Misuse {
            what: "the key of a claim in etcd begins with a slash, and this one does not",
        });
    }
    if let Some(kept) = shared.leases.of(claim)
        && renew(shared, &kept, claim).await?
    {
        return Ok(Claimed::Mine);
    }
    // Whoever waits for somebody else's asks again and again, which should cost a read and nothing more.
    let found = shared.range("claiming a key", range(shared.keys.claim(&claim.key), Bytes::new(), 1)).await?;
    if let Some(stored) = found.kvs.first() {
        let held = unpacked(&claim.key, stored)?;
        if held.owner != claim.owner {
            shared.leases.kept().remove(&claim.key);
            return Ok(Claimed::Theirs(held));
        }
    }
    let lease = shared.grant("claiming a key", claim.ttl, PATIENCE).await?;
    let claimed = acquire(shared, claim, lease.id).await;
    match &claimed {
        Ok(Claimed::Mine) => {
            let kept = Kept { lease: lease.id, claim: claim.clone() };
            let former = shared.leases.kept().insert(claim.key.clone(), kept);
            former.into_iter().for_each(|former| shared.revoke_later(former.lease));
        }
        Ok(Claimed::Theirs(_)) | Err(_) => shared.revoke_later(lease.id),
    }
    claimed
}

/// Whether the claim is still there and goes on.
async fn renew(shared: &Arc<Shared>, kept: &Kept, claim: &Claim) -> Result<bool, StoreError> {
    match shared.renew(kept.lease, "renewing a claim", ANSWER_TIMEOUT).await {
        Ok(Some(_)) => {}
        Ok(None) => return Ok(false),
        Err(Trouble::Final(error)) => return Err(error),
        Err(Trouble::Elsewhere(why)) => {
            let (doing, asked) = ("renewing a claim".to_owned(), shared.links.asked());
            return Err(StoreError::Unreachable { doing, why, asked });
        }
    }
    let key = shared.keys.claim(&claim.key);
    let change = (kept.claim.value != claim.value).then(|| put(key.clone(), packed(claim), kept.lease));
    let still_there = vec![has_lease(key, kept.lease)];
    let answer = transact(shared, still_there, change.into_iter().collect(), Vec::new()).await?;
    if answer.succeeded {
        let kept = Kept { lease: kept.lease, claim: claim.clone() };
        shared.leases.kept().insert(claim.key.clone(), kept);
    }
    Ok(answer.succeeded)
}

async fn acquire(shared: &Arc<Shared>, claim: &Claim, lease: i64) -> Result<Claimed, StoreError> {
    let key = shared.keys.claim(&claim.key);
    let mut expected = is_absent(key.clone());
    for _ in 0..TRIES_MAX {
        let claimed = vec![put(key.clone(), packed(claim), lease)];
        let answer = transact(shared, vec![expected], claimed, vec![read(key.clone())]).await?;
        if answer.succeeded {
            return Ok(Claimed::Mine);
        }
        let Some(stored) = found(&answer.responses, 0) else {
            expected = is_absent(key.clone());
            continue;
        };
        let held = unpacked(&claim.key, stored)?;
        // Asked twice, because the first answer was lost.
        if stored.lease == lease {
            return Ok(Claimed::Mine);
        }
        if held.owner != claim.owner {
            return Ok(Claimed::Theirs(held));
        }
        expected = was_changed_at(key.clone(), stored.mod_revision);
    }
    let why = "somebody else changed it again and again".to_owned();
    Err(StoreError::Unexpected { doing: format!("claiming {}", claim.key), why })
}

pub(super) async fn release(shared: &Arc<Shared>, key: &str, owner: &str) -> Result<(), StoreError> {
    let stored_key = shared.keys.claim(key);
    let found = shared.range("giving a claim back", range(stored_key.clone(), Bytes::new(), 1)).await?;
    if let Some(stored) = found.kvs.first()
        && unpacked(key, stored)?.owner == owner
    {
        let unchanged = was_changed_at(stored_key.clone(), stored.mod_revision);
        transact(shared, vec![unchanged], vec![delete(stored_key)], Vec::new()).await?;
    }
    let mut kept = shared.leases.kept();
    if kept.get(key).is_some_and(|kept| kept.claim.owner == owner) {
        kept.remove(key).into_iter().for_each(|kept| shared.revoke_later(kept.lease));
    }
    Ok(())
}

pub(super) async fn claims(shared: &Arc<Shared>, prefix: &str) -> Result<Vec<Held>, StoreError> {
    let (from, to) = shared.keys.claims(prefix);
    let found = shared.range("listing claims", range(from, to, CLAIMS_MAX)).await?;
    let held = |stored: &KeyValue| shared.keys.claim_of(&stored.key).map(|key| unpacked(key, stored));
    found.kvs.iter().filter_map(held).collect()
}

async fn transact(
    shared: &Shared,
    compare: Vec<super::proto::Compare>,
    success: Vec<RequestOp>,
    failure: Vec<RequestOp>,
) -> Result<TxnResponse, StoreError> {
    let transaction = TxnRequest { compare, success, failure };
    let asked = shared.links.call("claiming a key", PATIENCE, |link| {
        let transaction = transaction.clone();
        async move { link.kv().txn(transaction).await }
    });
    asked.await
}

/// Two bytes say how long the owner's name is; it and the value follow.
fn packed(claim: &Claim) -> Bytes {
    let length = u16::try_from(claim.owner.len()).unwrap_or(u16::MAX).to_be_bytes();
    Bytes::from([&length, claim.owner.as_bytes(), &claim.value].concat())
}

fn unpacked(key: &str, stored: &KeyValue) -> Result<Held, StoreError> {
    let parts = stored.value.split_first_chunk::<2>().and_then(|(length, rest)| {
        let length = usize::from(u16::from_be_bytes(*length));
        let owner = std::str::from_utf8(rest.get(..length)?).ok()?;
        Some((owner.to_owned(), stored.value.slice(2 + length..)))
    });
    let (owner, value) = parts.ok_or_else(|| StoreError::Unexpected {
        doing: "reading a claim".to_owned(),
        why: format!("what lies under {key} is not a claim"),
    })?;
    Ok(Held { key: key.to_owned(), owner, value })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_claim_is_read_back_and_other_bytes_do_no_harm(
            owner in "\\PC{1,100}", value in prop::collection::vec(any::<u8>(), 0..200),
            noise in prop::collection::vec(any::<u8>(), 0..40)
        ) {
            let claim = Claim { key: "/k".into(), owner, value: value.into(), ttl: Duration::from_secs(1) };
            let stored = KeyValue { value: packed(&claim), ..KeyValue::default() };
            let Claim { key, owner, value, .. } = claim;
            prop_assert_eq!(unpacked("/k", &stored).unwrap(), Held { key, owner, value });
            drop(unpacked("/k", &KeyValue { value: noise.into(), ..KeyValue::default() }));
        }
    }
}
