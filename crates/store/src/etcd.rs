//! The store on an etcd cluster: several nodes, one master.
//!
//! Promise: every write is a transaction that compares the election key, so a master that was deposed cannot write, whatever
//! it believes; it compares the revision too, so a transaction whose answer was lost is repeated without harm. A step is
//! never split over two transactions; several steps share one where they fit.
//!
//! A lost connection, a changing leader or a missing majority is waited for: a commit ends when it is durable, or when the
//! mastership is gone. Reads give up after a while and say what is wrong. See `docs/how-to/run-on-etcd.md`.

use std::fmt::{self, Debug};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use zeroize::Zeroizing;

use crate::claims::{Claim, Claimed, Held};
use crate::error::StoreError;
use crate::kv::{BoxFuture, Following, Mastership, PAGE_BYTES_MAX, Page, Snapshot, Step, Store};
use crate::standing::Standing;

mod commit;
mod compaction;
mod election;
mod follow;
mod keys;
mod lease;
mod links;
mod requests;
mod snapshot;
mod temporary;
mod verdict;

/// The messages of etcd's interface.
mod proto {
    #![allow(clippy::all, missing_debug_implementations, unreachable_pub, reason = "generated")]
    tonic::include_proto!("etcdserverpb");
}

pub use keys::PREFIX_BYTES_MAX;

use compaction::Compaction;
use election::Office;
use keys::Keys;
use links::Links;
use proto::RangeResponse;
use requests::{number_of, range};

/// How long a lease is at least: etcd itself takes none that is shorter than its own elections.
pub const LEASE_MIN: Duration = Duration::from_secs(2);
pub const LEASE_MAX: Duration = Duration::from_secs(300);
/// How long reads wait for a cluster that does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many records the first page asks for, before it is known how large they are.
const FIRST_PAGE_RECORDS: usize = 64;
/// How many records a page asks for at most. Small ones may be followed by large ones, and etcd puts the whole answer together
/// before we can refuse it. But it also walks over all keys of the rest of the range for every page, however few are asked for,
/// so that many small pages take far longer than few large ones.
const PAGE_RECORDS_MAX: usize = 8_192;

#[derive(Clone, Debug)]
pub struct Options {
    pub endpoints: Vec<String>,
    /// Everything lies below it.
    pub prefix: String,
    /// How long a master that is not heard of stays master; in whole seconds.
    pub lease: Duration,
    pub tls: Option<TlsFiles>,
    pub user: Option<User>,
    /// Whether the master lets etcd forget what was overwritten. Off where somebody else sees to that.
    pub compacts: bool,
}

#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub ca: PathBuf,
    /// Certificate and key of this server.
    pub identity: Option<(PathBuf, PathBuf)>,
}

#[derive(Clone)]
pub struct User {
    pub name: String,
    pub password: Zeroizing<String>,
}

impl Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({})", self.name)
    }
}

#[derive(Debug)]
pub struct Etcd {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    links: Links,
    keys: Keys,
    prefix: String,
    lease: Duration,
    /// The revision of the newest step that this node knows of.
    revision: AtomicU64,
    /// The mastership of this node, while it has one.
    office: Mutex<Option<Office>>,
    /// How large records are, by what was read last, to guess how many fit into a page.
    record_bytes: AtomicUsize,
    compaction: Option<Compaction>,
    leases: temporary::Leases,
    pins: snapshot::Pins,
}

impl Etcd {
    /// Reaches the cluster and reads how far the store is. Everything is refused here that another start would find too.
    pub async fn open(options: Options) -> Result<Etcd, StoreError> {
        let shared = Arc::new(Shared {
            links: Links::new(&options)?,
            keys: Keys::below(&options.prefix),
            prefix: options.prefix,
            lease: options.lease,
            revision: AtomicU64::new(0),
            office: Mutex::new(None),
            record_bytes: AtomicUsize::new(PAGE_BYTES_MAX / FIRST_PAGE_RECORDS),
            compaction: options.compacts.then(Compaction::default),
            leases: temporary::Leases::default(),
            pins: snapshot::Pins::default(),
        });
        shared.read_revision().await?;
        shared.meet_all_members().await?;
        Ok(Etcd { shared })
    }
}

impl Shared {
    fn office(&self) -> MutexGuard<'_, Option<Office>> {
        self.office.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read_revision(&self) -> Result<(), StoreError> {
        let found = self.range("reading the revision", range(self.keys.revision(), Bytes::new(), 1)).await?;
        self.revision.fetch_max(number_of(found.kvs.first())?, Ordering::AcqRel);
        Ok(())
    }

    /// A member that is down is worth a warning; one of another cluster is a mistake that must not wait for a bad day.
    async fn meet_all_members(&self) -> Result<(), StoreError> {
        for at in 0..self.links.members() {
            let Ok(link) = self.links.link_to(at, "meeting the members").await else { continue };
            let asked = range(self.keys.revision(), Bytes::new(), 1);
            match tokio::time::timeout(Duration::from_secs(1), link.kv().range(asked)).await {
                Ok(Ok(answer)) => self.links.check_cluster(at, answer.into_inner().header.as_ref())?,
                Ok(Err(status)) => {
                    tracing::warn!(
                        endpoint = self.links.url(at),
                        why = links::explain(&status),
                        "an etcd endpoint has no answer"
                    );
                }
                Err(_) => tracing::warn!(endpoint = self.links.url(at), "an etcd endpoint does not answer"),
            }
        }
        Ok(())
    }

    async fn range(&self, doing: &str, asked: proto::RangeRequest) -> Result<RangeResponse, StoreError> {
        self.links
            .call(doing, PATIENCE, |link| {
                let asked = asked.clone();
                async move { link.kv().range(asked).await }
            })
            .await
    }

    /// At etcd's revision `at`; 0 is the present one.
    async fn page(&self, prefix: &str, after: Option<&str>, limit: usize, at: i64) -> Result<Page, StoreError> {
        let (from, to) = self.keys.records(prefix, after);
        let fits = PAGE_BYTES_MAX / self.record_bytes.load(Ordering::Relaxed).max(1);
        let mut limit = limit.min(fits).clamp(1, PAGE_RECORDS_MAX);
        let found = loop {
            let mut asked = range(from.clone(), to.clone(), i64::try_from(limit).unwrap_or(i64::MAX));
            asked.revision = at;
            match self.range("reading records", asked).await {
                Err(StoreError::TooLarge { .. }) if limit > 1 => limit /= 2,
                other => break other?,
            }
        };
        let mut page = Page::default();
        let mut bytes = 0;
        let (mut more, count) = (found.more, found.kvs.len());
        for kv in found.kvs {
            let Some(key) = self.keys.key_of(&kv.key) else { continue };
            let size = key.len() + kv.value.len();
            if !page.records.is_empty() && bytes + size > PAGE_BYTES_MAX {
                more = true;
                break;
            }
            bytes += size;
            page.records.push((key.to_owned(), kv.value));
        }
        if count > 0 {
            // A little more than the average, so that a page is seldom asked for in vain.
            self.record_bytes.store((bytes / page.records.len().max(1)) * 5 / 4 + 1, Ordering::Relaxed);
        }
        page.next = page.records.last().filter(|_| more).map(|(key, _)| key.clone());
        Ok(page)
    }
}

impl Store for Etcd {
    fn campaign<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Mastership, StoreError>> {
        Box::pin(election::campaign(&self.shared, node))
    }

    fn resign(&self, held: Mastership) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(election::resign(&self.shared, held))
    }

    fn holder(&self) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        Box::pin(async move {
            let asked = range(self.shared.keys.master(), Bytes::new(), 1);
            let found = self.shared.range("looking who is master", asked).await?;
            Ok(found.kvs.first().map(|kv| String::from_utf8_lossy(&kv.value).into_owned()))
        })
    }

    fn standing(&self) -> Standing {
        self.shared.office().as_ref().map_or_else(Standing::over, Office::standing)
    }

    fn follow(&self) -> BoxFuture<'_, Result<Option<Following>, StoreError>> {
        Box::pin(async move { follow::follow(&self.shared).await.map(Some) })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        Box::pin(temporary::claim(&self.shared, claim))
    }

    fn release<'a>(&'a self, key: &'a str, owner: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(temporary::release(&self.shared, key, owner))
    }

    fn claims<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Held>, StoreError>> {
        Box::pin(temporary::claims(&self.shared, prefix))
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>> {
        Box::pin(async move {
            let asked = range(self.shared.keys.record(key), Bytes::new(), 1);
            let found = self.shared.range("reading a record", asked).await?;
            Ok(found.kvs.into_iter().next().map(|kv| kv.value))
        })
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>> {
        Box::pin(self.shared.page(prefix, after, limit, 0))
    }

    fn commit<'a>(&'a self, held: &'a Mastership, steps: &'a [Step]) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(commit::commit(&self.shared, held, steps))
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Arc<dyn Snapshot>, StoreError>> {
        Box::pin(snapshot::take(&self.shared))
    }

    fn begin_after<'a>(&'a self, held: &'a Mastership, revision: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(commit::begin_after(&self.shared, held, revision))
    }

    fn forget_superseded(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(compaction::forget(&self.shared))
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(election::close(&self.shared))
    }

    fn revision(&self) -> u64 {
        self.shared.revision.load(Ordering::Acquire)
    }

    fn describe(&self) -> String {
        format!("etcd at {}, below {}", self.shared.links.asked(), self.shared.prefix)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // Whoever lets go of a store is not master any more; the next one need not wait for the lease to end.
        if let Some(office) = self.shared.office().take() {
            office.leave(&self.shared);
        }
    }
}
