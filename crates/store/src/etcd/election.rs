//! Who is master: whoever made the election key, for as long as his lease is renewed.
//!
//! Promise: the key is made only where there is none, and etcd removes it when the lease behind it ends. The revision at
//! which it was made is the fencing epoch, so that every write can compare it. What this node believes about its own
//! mastership is kept in a [`Term`]; nothing but etcd decides whether it writes.

use std::mem::{discriminant, take};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::Shared;
use super::commit::Newest;
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
/// How often a node that waits looks by itself whether the office is free; usually it hears of it at once. And how often a
/// master looks whether anybody holds the mastership still.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a campaign waits for etcd before it says so and begins again.
const PATIENCE: Duration = Duration::from_secs(10);

const KEY_REMOVED: &str = "its election key was removed from etcd";

/// The mastership of this node.
#[derive(Debug)]
pub(super) struct Office {
    epoch: u64,
    lease: i64,
    term: Arc<Term>,
    newest: Arc<Newest>,
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
    /// The term of the mastership with this epoch, and what was written in it, if it is the one this node has.
    pub(super) fn office_of(&self, epoch: u64) -> Option<(Arc<Term>, Arc<Newest>)> {
        let office = self.office();
        let office = office.as_ref().filter(|office| office.epoch == epoch)?;
        Some((office.term.clone(), office.newest.clone()))
    }

    /// Who is master, and etcd's revision at which that was so.
    async fn master(&self) -> Result<(Option<KeyValue>, i64), StoreError> {
        let asked = range(self.keys.master(), Bytes::new(), 1);
        let found = self.range("looking who is master", asked).await?;
        Ok((found.kvs.into_iter().next(), found.header.map_or(0, |header| header.revision)))
    }
}

pub(super) async fn campaign(shared: &Arc<Shared>, node: &str) -> Result<Mastership, StoreError> {
    vacate(shared, node).await?;
    let (mut last_seen, mut trouble) = (None, None);
    loop {
        match attempt(shared, node, &mut last_seen).await {
            Ok(Some(held)) => return Ok(held),
            Ok(None) => trouble = None,
            // The cluster may come back, and then somebody has to be there.
            Err(error) if error.retryable() => {
                if trouble.replace(discriminant(&error)) != Some(discriminant(&error)) {
                    tracing::warn!(%error, "cannot become master at the moment; trying again until it succeeds");
                }
                sleep(LOOK_INTERVAL).await;
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

/// Nobody is to wait for the lease of a node that ends.
pub(super) async fn close(shared: &Arc<Shared>) {
    let former = shared.office().take();
    if let Some(former) = former {
        former.stop("this server ends");
        let _ = shared.revoke(former.lease).await;
    }
}

/// Waits until the office is free and tries to get it.
async fn attempt(
    shared: &Arc<Shared>,
    node: &str,
    last_seen: &mut Option<i64>,
) -> Result<Option<Mastership>, StoreError> {
    let (master, at) = shared.master().await?;
    if let Some(master) = master {
        if last_seen.replace(master.create_revision) != Some(master.create_revision) {
            let name = String::from_utf8_lossy(&master.value).into_owned();
            tracing::info!(master = name, "waiting: another node is master");
        }
        wait_until_it_goes(shared, at).await;
        return Ok(None);
    }
    let asked_ns = uptime_ns();
    let lease = shared.grant("becoming master", shared.lease, PATIENCE).await?;
    let mut unused = Unused { shared, lease: Some(lease.id) };
    let Some((epoch, revision)) = seize(shared, node, lease).await? else { return Ok(None) };
    let term = Term::new();
    term.renewed(asked_ns, lease.ttl);
    shared.revision.store(revision, std::sync::atomic::Ordering::Release);
    unused.lease = None;
    Ok(Some(enter(shared, epoch, revision, lease, term)))
}

/// Gives a lease back that came to nothing, also when whoever campaigns is not waited for any more. Otherwise a node that is
/// not there would be master until it ends.
struct Unused<'a> {
    shared: &'a Arc<Shared>,
    lease: Option<i64>,
}

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        take(&mut self.lease).into_iter().for_each(|lease| self.shared.revoke_later(lease));
    }
}

/// Returns the epoch, and the revision of the newest step, if this node is master now.
async fn seize(shared: &Arc<Shared>, node: &str, lease: Granted) -> Result<Option<(u64, u64)>, StoreError> {
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

fn enter(shared: &Arc<Shared>, epoch: u64, revision: u64, lease: Granted, term: Arc<Term>) -> Mastership {
    let (held, sign) = Mastership::grant(epoch);
    let keepers = [
        tokio::spawn(keep(Arc::downgrade(shared), (epoch, lease), term.clone(), sign.clone())),
        tokio::spawn(guard(Arc::downgrade(shared), epoch, term.clone())),
    ];
    let newest = Arc::new(Newest::new(revision));
    *shared.office() = Some(Office { epoch, lease: lease.id, term, newest, sign, keepers });
    held
}

/// Renews the lease until the mastership is gone, or nobody holds it any more.
async fn keep(shared: Weak<Shared>, (epoch, lease): (u64, Granted), term: Arc<Term>, sign: Weak<()>) {
    let usual = lease.ttl / RENEWALS_PER_LEASE;
    let (mut pause, mut is_troubled) = (usual, false);
    loop {
        held_for(pause, &sign).await;
        let Some(shared) = shared.upgrade() else { return };
        if term.is_lost() {
            return;
        }
        if sign.upgrade().is_none() {
            term.lose("this server let go of it");
            return shared.revoke_later(lease.id);
        }
        let trouble = match renewed(&shared, epoch, lease, &term).await {
            Ok(()) if term.is_lost() => return,
            Ok(()) => None,
            Err(Trouble::Final(error)) => Some(error.to_string()),
            Err(Trouble::Elsewhere(why)) => Some(why),
        };
        // Sooner than usual: another member may answer.
        pause = if trouble.is_some() { usual / 4 } else { usual };
        match trouble {
            Some(why) if !is_troubled => {
                tracing::warn!(why, "the mastership could not be renewed; trying again until it succeeds or is over");
                is_troubled = true;
            }
            None if take(&mut is_troubled) => tracing::info!("the mastership was renewed again"),
            _ => {}
        }
    }
}

/// Waits, but not for longer than anybody holds it.
async fn held_for(mut pause: Duration, sign: &Weak<()>) {
    while !pause.is_zero() && sign.upgrade().is_some() {
        let part = pause.min(LOOK_INTERVAL);
        sleep(part).await;
        pause -= part;
    }
}

/// Renews the lease once. A leader that was replaced without knowing it renews leases too, and they end all the same; so it
/// counts only if etcd then reads the election key, which takes a majority, in the same term of its own leader.
async fn renewed(shared: &Shared, epoch: u64, lease: Granted, term: &Term) -> Result<(), Trouble> {
    let (asked_ns, doing, limit) = (uptime_ns(), "renewing the mastership", lease.ttl / RENEWALS_PER_LEASE);
    let Some((ttl, raft_term)) = shared.renew(lease.id, doing, limit).await? else {
        term.lose(format!("its lease has ended: etcd did not hear from it for {:?}", lease.ttl));
        return Ok(());
    };
    let asked = range(shared.keys.master(), Bytes::new(), 1);
    let found = shared.links.ask_within(limit, doing, |link| {
        let asked = asked.clone();
        async move { link.kv().range(asked).await }
    });
    let found = found.await?;
    if !was_made_at(epoch, found.kvs.first()) {
        term.lose(KEY_REMOVED);
    } else if found.header.is_none_or(|header| header.raft_term != raft_term) {
        return Err(Trouble::Elsewhere("etcd has changed its leader meanwhile".to_owned()));
    } else {
        term.renewed(asked_ns, ttl);
    }
    Ok(())
}

fn was_made_at(epoch: u64, master: Option<&KeyValue>) -> bool {
    master.is_some_and(|master| u64::try_from(master.create_revision) == Ok(epoch))
}

/// Hears of it at once when the election key is removed or replaced.
async fn guard(shared: Weak<Shared>, epoch: u64, term: Arc<Term>) {
    let mut pauses = Pauses::new();
    loop {
        let Some(shared) = shared.upgrade() else { return };
        // From what is there now on: what was before may be forgotten after a long time in office.
        let watching = match shared.master().await {
            Ok((master, at)) if was_made_at(epoch, master.as_ref()) => {
                Watching::start(&shared, (shared.keys.master(), Bytes::new()), at + 1).await
            }
            Ok(_) => return term.lose(KEY_REMOVED),
            Err(error) => Err(error),
        };
        drop(shared);
        if let Ok(mut watching) = watching {
            match watching.next().await {
                Ok(events) if !events.is_empty() => return term.lose(KEY_REMOVED),
                Ok(_) => pauses = Pauses::new(),
                Err(_) => {}
            }
        }
        pauses.next().await;
    }
}

async fn wait_until_it_goes(shared: &Arc<Shared>, at: i64) {
    let watched = async {
        let range = (shared.keys.master(), Bytes::new());
        let Ok(mut watching) = Watching::start(shared, range, at + 1).await else {
            return std::future::pending().await;
        };
        if watching.next().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let _ = timeout(LOOK_INTERVAL, watched).await;
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
