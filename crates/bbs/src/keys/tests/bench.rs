//! The engine with a writer and a board over the memory store, in virtual time and without HTTP, migration or clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use model::{Domain, DomainName, Nanos};
use store::memory::Memory;
use store::root::{VersionRecord, next_history_number, put_cluster_id, put_version};
use store::seal::envelope::NONCE_BYTES;
use store::seal::ledger::read_ledger;
use store::seal::{Keyring, Ledger, Place, Vault};
use store::{BoxFuture, EntityRef, Forms, Mastership, Page, STEP_OPS_MAX, Step, Store, StoreError, Version, versions};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::board::Board;
use crate::clock::Clock;
use crate::commands::{Command, TracedEffect, UpsertDomain};
use crate::config::{Encryption, KeySource, Rotation, RotationMode};
use crate::events::Hub;
use crate::keys::open::{begin, unlock};
use crate::keys::{First, KeyAsk, KeyDesk, KeyTracker, KeysStatus, Parts, Rotator, RotatorEnd, State};
use crate::metrics::Metrics;
use crate::migrate::ask::Answer;
use crate::migrate::tests::seals::{fill, ring};
use crate::phase::Phase;
use crate::writer::{Writer, WriterEnd, WriterParts};

const LATEST: Version = Version::LATEST;
/// The engine brings on a tenth of it at once.
const PACE: u64 = 50;
/// Longer than any state lasts, in virtual time.
const PATIENCE: Duration = Duration::from_secs(60);
const TURN: Duration = Duration::from_millis(1);

/// A clock that stands still and counts the seals that are made with it.
#[derive(Debug, Default)]
pub(super) struct SealClock {
    seals: AtomicU64,
}

impl Clock for SealClock {
    fn now_ns(&self) -> Nanos {
        1
    }

    fn fresh_id(&self) -> Arc<str> {
        "id".into()
    }

    fn nonce(&self) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        nonce[..8].copy_from_slice(&self.seals.fetch_add(1, Ordering::SeqCst).to_be_bytes());
        nonce
    }
}

/// A store that fails to read when it is told to.
#[derive(Debug)]
pub(super) struct Flaky {
    inner: Memory,
    failing_reads: AtomicU64,
}

impl Flaky {
    /// So many looks at the store fail from now on.
    pub(super) fn fail_reads(&self, reads: u64) {
        self.failing_reads.store(reads, Ordering::SeqCst);
    }

    pub(super) fn reads_left(&self) -> u64 {
        self.failing_reads.load(Ordering::SeqCst)
    }

    fn fails(&self) -> bool {
        let less = |reads: u64| reads.checked_sub(1);
        self.failing_reads.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }
}

impl Store for Flaky {
    fn campaign<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Mastership, StoreError>> {
        self.inner.campaign(node)
    }

    fn resign(&self, held: Mastership) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.resign(held)
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>> {
        self.inner.get(key)
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>> {
        if self.fails() {
            let source = std::io::Error::other("injected fault");
            return Box::pin(async { Err(StoreError::Io { doing: "reading".into(), source }) });
        }
        self.inner.scan(prefix, after, limit)
    }

    fn commit<'a>(&'a self, held: &'a Mastership, steps: &'a [Step]) -> BoxFuture<'a, Result<u64, StoreError>> {
        self.inner.commit(held, steps)
    }

    fn revision(&self) -> u64 {
        self.inner.revision()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

pub(super) struct Bench {
    pub(super) store: Memory,
    pub(super) faults: Arc<Flaky>,
    pub(super) vault: Arc<Vault>,
    pub(super) writer: Writer,
    pub(super) board: Arc<ArcSwap<Board>>,
    pub(super) tracker: Arc<KeyTracker>,
    pub(super) desk: KeyDesk,
    clock: Arc<SealClock>,
    writing: JoinHandle<WriterEnd>,
    rotating: JoinHandle<RotatorEnd>,
    _effects: mpsc::Receiver<TracedEffect>,
    _stop: watch::Sender<bool>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.writing.abort();
        self.rotating.abort();
    }
}

/// A domain, and the one record that it is.
pub(super) fn domain(at: usize) -> (DomainName, String, Bytes) {
    let name = DomainName::parse(&format!("d{at:03}")).unwrap();
    let domain = Domain::upsert(name.clone(), 0, 0);
    let (key, value) = versions::records(LATEST, EntityRef::Domain(&domain)).0.remove(0);
    (name, key, value)
}

/// A store with so many domains, all under the first of the keys, or plain without any.
pub(super) async fn filled(keys: &str, domains: usize) -> Memory {
    let mut step = Step::default();
    put_version(&mut step, &VersionRecord::new(LATEST.number(), LATEST.number()));
    put_cluster_id(&mut step, "test");
    for (_, key, value) in (0..domains).map(domain) {
        step.put(key, value);
    }
    let steps: Vec<Step> = step.ops.chunks(STEP_OPS_MAX).map(|ops| Step { ops: ops.to_vec() }).collect();
    let store = Memory::new();
    if keys.is_empty() {
        let held = store.campaign("test").await.unwrap();
        store.commit(&held, &steps).await.unwrap();
    } else {
        fill(&store, keys, &steps).await;
    }
    store.copy()
}

/// Changes the bytes below everything that knows of keys.
pub(super) async fn tamper(store: &Memory, change: impl FnOnce(&mut Step)) {
    let store = store.reopen();
    let held = store.campaign("vandal").await.unwrap();
    let mut step = Step::default();
    change(&mut step);
    store.commit(&held, &[step]).await.unwrap();
}

/// As `keys` seal a value that lies under `key`.
pub(super) fn sealed(keys: &str, key: &str, plain: &[u8]) -> Bytes {
    let stamp = store::seal::Stamp { sealed_ns: 7, nonce: *b"twelve bytes" };
    ring(keys).seal(Place::of(key).unwrap(), stamp, plain)
}

/// The marker, and which keys are needed.
pub(super) fn summary(ledger: &Ledger) -> String {
    let needed = |(name, entry): (&String, &store::seal::LedgerEntry)| {
        format!("{name}{}", if entry.needed { " needed" } else { " free" })
    };
    let keys: Vec<String> = ledger.entries.iter().map(needed).collect();
    format!("marker {}; {}", ledger.marker.as_deref().unwrap_or("absent"), keys.join(", "))
}

impl Bench {
    /// Starts as a server does. The engine works as soon as the test waits for something.
    pub(super) async fn start(store: &Memory, keys: &str) -> Self {
        let again = ring(keys);
        Self::with(store, ring(keys), KeySource::new(move || Ok(again.clone()))).await
    }

    /// With keys that are configured later.
    pub(super) async fn with_later(store: &Memory, keys: &str, later: Result<Arc<Keyring>, String>) -> Self {
        Self::with(store, ring(keys), KeySource::new(move || later.clone())).await
    }

    async fn with(store: &Memory, keyring: Arc<Keyring>, source: KeySource) -> Self {
        let store = store.reopen();
        let held = store.campaign("test").await.unwrap();
        let clock = Arc::new(SealClock::default());
        let rotation = Rotation { records_per_s_max: PACE, ..Rotation::default() };
        let encryption = Encryption { keyring, rotation, source: source.clone() };
        let for_keys: Arc<dyn Clock> = clock.clone();
        let faults = Arc::new(Flaky { inner: store.clone(), failing_reads: AtomicU64::new(0) });
        let unlocked = unlock(faults.clone(), Some(&encryption), &for_keys).await.unwrap();
        let board = unlocked.load(LATEST, &Phase::new()).await.unwrap();
        let vault = unlocked.vault.clone().unwrap();
        let history = next_history_number(&store).await.unwrap().into();
        let rotates = begin(&vault, &held, &*clock, "test", &history).await.unwrap();
        let hub = Hub::new(board.revision);
        let board = Arc::new(ArcSwap::from_pointee(board));
        let (effects, waiting) = mpsc::channel(1);
        let (writer, writing) = Writer::start(WriterParts {
            definitions_kept: 5,
            store: unlocked.store,
            held,
            board: board.clone(),
            hub,
            clock: clock.clone(),
            effects,
            metrics: Metrics::new(),
            task_rejections_max: 0,
            forms: Forms::only(LATEST),
            vault: Some(vault.clone()),
        });
        let (stop, stopped) = watch::channel(false);
        let tracker = Arc::new(KeyTracker::new(rotation.mode));
        let (desk, asks) = KeyDesk::new();
        let parts = Parts {
            vault: vault.clone(),
            writer: writer.clone(),
            clock: clock.clone(),
            node: "test".into(),
            rotation,
            alone: false,
            tracker: tracker.clone(),
            history,
            migration: None,
            source: Some(source),
            stop: stopped,
        };
        let rotator = Rotator::new(parts, if rotates { First::Rotate } else { First::Nothing }, asks);
        Self {
            store,
            faults,
            vault,
            writer,
            board,
            tracker,
            desk,
            clock,
            writing: tokio::spawn(writing),
            rotating: tokio::spawn(rotator.run()),
            _effects: waiting,
            _stop: stop,
        }
    }

    /// A second engine on the same store, which does only what the test calls.
    pub(super) fn another_engine(&self) -> Rotator {
        let (_, asks) = KeyDesk::new();
        let (_, stop) = watch::channel(false);
        let parts = Parts {
            vault: self.vault.clone(),
            writer: self.writer.clone(),
            clock: self.clock.clone(),
            node: "test".into(),
            rotation: Rotation::default(),
            alone: false,
            tracker: Arc::new(KeyTracker::new(RotationMode::Online)),
            history: 1_000.into(),
            migration: None,
            source: None,
            stop,
        };
        Rotator::new(parts, First::Nothing, asks)
    }

    /// Lets virtual time pass until it is so.
    pub(super) async fn until(&self, is_so: impl Fn(&Self) -> bool) {
        let passes = async {
            while !is_so(self) {
                tokio::time::sleep(TURN).await;
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, passes).await;
        assert!(in_time.is_ok(), "it stays as it is: {:#?}", self.status());
    }

    pub(super) async fn reaches(&self, state: State) {
        self.until(|bench| bench.tracker.state() == state).await;
    }

    /// Half of the records are under the active key, and the engine is not done.
    pub(super) async fn is_halfway(&self) {
        self.until(|bench| bench.vault.stale() * 2 <= bench.vault.census().total()).await;
        assert_eq!(self.tracker.state(), State::Rotating);
    }

    pub(super) fn status(&self) -> KeysStatus {
        self.tracker.status(&self.vault)
    }

    /// How often something was sealed, whether or not it was stored.
    pub(super) fn seals(&self) -> u64 {
        self.clock.seals.load(Ordering::SeqCst)
    }

    pub(super) async fn ask(&self, ask: KeyAsk) -> Answer {
        self.desk.ask(ask).await
    }

    pub(super) async fn ledger(&self) -> Ledger {
        read_ledger(&self.store).await.unwrap()
    }

    /// What the board holds of a domain, for a client.
    pub(super) async fn upsert(&self, at: usize, ttl_s: u32) {
        let (name, ..) = domain(at);
        self.writer.submit(Command::UpsertDomain(UpsertDomain { name, ttl_s }), "trace".into()).await.unwrap();
    }

    /// The bytes as somebody reads them who has every key.
    pub(super) async fn opened(&self, key: &str) -> Option<Bytes> {
        crate::migrate::tests::seals::unsealed(&self.store).await.get(key).await.unwrap()
    }
}
