//! Who is master: whoever made the election key, for as long as his lease is renewed.
//!
//! Promise: the key is made only where there is none, and etcd removes it when the lease behind it ends. The revision at
//! which it was made is the fencing epoch, so that every write can compare it. What this node believes about its own
//! mastership is kept in a [`Term`]; nothing but etcd decides whether it writes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::Shared;
use super::follow::Watching;
use super::lease::Granted;
use super::links::{Pauses, Trouble};
use super::proto::{KeyValue, TxnRequest};
use super::requests::{delete, found, is_absent, number_of, put, range, read, was_created_at};
use crate::error::StoreError;
use crate::kv::Mastership;
use crate::standing::{Standing, Term, uptime_ns};

/// How often a lease is renewed within its time.
const RENEWALS_PER_LEASE: u32 = 5;
/// How often a node that waits looks by itself whether the office is free; usually it hears of it at once.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a campaign waits for etcd before it says so and begins again.
const PATIENCE: Duration = Duration::from_secs(10);

/// The mastership of this node.
#[derive(Debug)]
pub(super) struct Office {
    epoch: u64,
    lease: i64,
    term: Arc<Term>,
    sign: Weak<()>,
    keepers: [JoinHandle<()>; 2],
}

impl Office {
    pub(super) fn standing(&self) -> Standing {
        Standing::of(self.term.clone())
    }

    /// Lets go of it without waiting for etcd.
    pub(super) fn leave(self, shared: &Arc<Shared>) {
        self.stop("this server gave it up");
        shared.revoke_later(self.lease);
    }

    fn stop(&self, why: &str) {
        self.term.lose(why);
        self.keepers.iter().for_each(JoinHandle::abort);
    }
}

impl Shared {
    /// The term of the mastership with this epoch, if it is the one this node has.
    pub(super) fn term(&self, epoch: u64) -> Option<Arc<Term>> {
        let office = self.office();
        office.as_ref().filter(|office| office.epoch == epoch).map(|office| office.term.clone())
    }

    async fn master(&self) -> Result<Option<KeyValue>, StoreError> {
        let asked = range(self.keys.master(), Bytes::new(), 1);
        Ok(self.range("looking who is master", asked).await?.kvs.into_iter().next())
    }
}

pub(super) async fn campaign(shared: &Arc<Shared>, node: &str) -> Result<Mastership, StoreError> {
    vacate(shared, node).await?;
    let mut last_seen = None;
    loop {
        match attempt(shared, node, &mut last_seen).await {
            Ok(Some(held)) => return Ok(held),
            Ok(None) => {}
            // The cluster may come back, and then somebody has to be there.
            Err(error) if error.retryable() => {
                tracing::warn!(%error, "cannot become master at the moment; trying again");
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// A mastership that this node has let go of is not in its own way.
async fn vacate(shared: &Arc<Shared>, node: &str) -> Result<(), StoreError> {
    let lease = {
        let mut office = shared.office();
        if office.as_ref().is_some_and(|office| office.sign.upgrade().is_some() && !office.term.is_lost()) {
            return Err(StoreError::InUse { store: "this node".to_owned(), owner: node.to_owned() });
        }
        let former = office.take();
        former.map(|former| {
            former.stop("this server gave it up");
            former.lease
        })
    };
    match lease {
        Some(lease) => shared.revoke(lease).await,
        None => Ok(()),
    }
}

/// Waits until the office is free and tries to get it.
async fn attempt(
    shared: &Arc<Shared>,
    node: &str,
    last_seen: &mut Option<i64>,
) -> Result<Option<Mastership>, StoreError> {
    if let Some(master) = shared.master().await? {
        if last_seen.replace(master.create_revision) != Some(master.create_revision) {
            let name = String::from_utf8_lossy(&master.value).into_owned();
            tracing::info!(master = name, "waiting: another node is master");
        }
        wait_until_it_goes(shared, &master).await;
        return Ok(None);
    }
    let asked_ns = uptime_ns();
    let lease = shared.grant("becoming master", shared.lease, PATIENCE).await?;
    match take(shared, node, lease).await {
        Ok(Some((epoch, revision))) => {
            let term = Term::new();
            term.renewed(asked_ns, lease.ttl);
            shared.revision.store(revision, std::sync::atomic::Ordering::Release);
            Ok(Some(enter(shared, epoch, lease, term)))
        }
        other => {
            shared.revoke_later(lease.id);
            other.map(|_| None)
        }
    }
}

/// Returns the epoch, and the revision of the newest step, if this node is master now.
async fn take(shared: &Arc<Shared>, node: &str, lease: Granted) -> Result<Option<(u64, u64)>, StoreError> {
    let keys = &shared.keys;
    let transaction = TxnRequest {
        compare: vec![is_absent(keys.master())],
        success: vec![put(keys.master(), Bytes::copy_from_slice(node.as_bytes()), lease.id), read(keys.revision())],
        failure: vec![read(keys.master()), read(keys.revision())],
    };
    let asked = shared.links.call("becoming master", PATIENCE, |link| {
        let transaction = transaction.clone();
        async move { link.kv().txn(transaction).await }
    });
    let answer = asked.await?;
    let revision = number_of(found(&answer.responses, 1))?;
    if answer.succeeded {
        let epoch = answer.header.map_or(0, |header| header.revision);
        return Ok(Some((u64::try_from(epoch).unwrap_or(0), revision)));
    }
    // Asked twice, because the first answer was lost: the key is there, and it is ours by its lease.
    let ours = found(&answer.responses, 0).filter(|master| master.lease == lease.id);
    Ok(ours.map(|master| (u64::try_from(master.create_revision).unwrap_or(0), revision)))
}

fn enter(shared: &Arc<Shared>, epoch: u64, lease: Granted, term: Arc<Term>) -> Mastership {
    let (held, sign) = Mastership::grant(epoch);
    let keepers = [
        tokio::spawn(keep(Arc::downgrade(shared), lease, term.clone(), sign.clone())),
        tokio::spawn(guard(Arc::downgrade(shared), epoch, term.clone())),
    ];
    *shared.office() = Some(Office { epoch, lease: lease.id, term, sign, keepers });
    held
}

/// Renews the lease until the mastership is gone, or nobody holds it any more.
async fn keep(shared: Weak<Shared>, lease: Granted, term: Arc<Term>, sign: Weak<()>) {
    let mut pause = lease.ttl / RENEWALS_PER_LEASE;
    loop {
        tokio::time::sleep(pause).await;
        let Some(shared) = shared.upgrade() else { return };
        if term.is_lost() {
            return;
        }
        if sign.upgrade().is_none() {
            term.lose("this server let go of it");
            return shared.revoke_later(lease.id);
        }
        let asked_ns = uptime_ns();
        match shared.renew(lease.id, "renewing the mastership").await {
            Ok(Some(ttl)) => {
                term.renewed(asked_ns, ttl);
                pause = lease.ttl / RENEWALS_PER_LEASE;
            }
            Ok(None) => {
                return term.lose(format!("its lease has ended: etcd did not hear from it for {:?}", lease.ttl));
            }
            Err(Trouble::Final(error)) => {
                tracing::warn!(%error, "the mastership could not be renewed; trying again");
            }
            // Sooner than usual: another member may answer.
            Err(Trouble::Elsewhere(why)) => {
                tracing::warn!(why, "the mastership could not be renewed; trying again");
                pause = lease.ttl / (RENEWALS_PER_LEASE * 4);
            }
        }
    }
}

/// Hears of it at once when the election key is removed or replaced.
async fn guard(shared: Weak<Shared>, epoch: u64, term: Arc<Term>) {
    let mut next = i64::try_from(epoch).unwrap_or(i64::MAX).saturating_add(1);
    let mut pauses = Pauses::new();
    loop {
        let Some(shared) = shared.upgrade() else { return };
        let key = shared.keys.master();
        let mut watching = match Watching::start(&shared, (key, Bytes::new()), next).await {
            Ok(watching) => watching,
            Err(_) => {
                drop(shared);
                pauses.next().await;
                continue;
            }
        };
        drop(shared);
        pauses = Pauses::new();
        match watching.next().await {
            Ok(events) if !events.is_empty() => {
                return term.lose("its election key was removed from etcd");
            }
            Ok(_) => {}
            Err(StoreError::Compacted) => next += 1,
            Err(_) => pauses.next().await,
        }
    }
}

async fn wait_until_it_goes(shared: &Arc<Shared>, master: &KeyValue) {
    let watched = async {
        let range = (shared.keys.master(), Bytes::new());
        let Ok(mut watching) = Watching::start(shared, range, master.mod_revision + 1).await else {
            return std::future::pending().await;
        };
        if watching.next().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let _ = tokio::time::timeout(LOOK_INTERVAL, watched).await;
}

pub(super) async fn resign(shared: &Arc<Shared>, held: Mastership) -> Result<(), StoreError> {
    let lease = {
        let mut office = shared.office();
        match office.take() {
            Some(former) if former.epoch == held.epoch() => {
                former.stop("this server gave it up");
                former.lease
            }
            other => {
                *office = other;
                return Ok(());
            }
        }
    };
    let key = shared.keys.master();
    let epoch = i64::try_from(held.epoch()).unwrap_or(i64::MAX);
    let transaction = TxnRequest {
        compare: vec![was_created_at(key.clone(), epoch)],
        success: vec![delete(key)],
        failure: Vec::new(),
    };
    let removed = shared.links.call("giving the mastership up", PATIENCE, |link| {
        let transaction = transaction.clone();
        async move { link.kv().txn(transaction).await }
    });
    let removed = removed.await.map(|_| ());
    shared.revoke_later(lease);
    removed
}
