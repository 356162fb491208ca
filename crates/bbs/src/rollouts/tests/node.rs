//! A master over the memory store, with everything that has a part in a rollout: writer, driver, convergence, cells that are
//! heard. Nothing runs by itself but the writer: whoever plays decides when somebody looks.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use model::Nanos;
use store::memory::Memory;
use store::root::{VersionRecord, next_history_number, put_cluster_id, put_version, read_root};
use store::seal::Vault;
use store::{Forms, Mastership, Step, Store, Version};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

use crate::board::Board;
use crate::cells::Registry;
use crate::clock::{Clock, ManualClock};
use crate::commands::{Effect, TracedEffect};
use crate::config::{self, Encryption, KeySource, Outbound, Rotation, RotationMode, Timing};
use crate::converge::Converger;
use crate::events::Hub;
use crate::keys::open::{Unlocked, begin, unlock};
use crate::keys::{First, KeyDesk, KeyTracker, Parts as KeyParts, Rotator, State};
use crate::load::load;
use crate::metrics::Metrics;
use crate::migrate::ask::{Ask, Desk, Refused};
use crate::migrate::open::{Opened, Work};
use crate::migrate::status::Tracker;
use crate::migrate::tests::seals;
use crate::migrate::{Guard, Migrator, Parts};
use crate::phase::Phase;
use crate::rollouts::Driver;
use crate::writer::errand::Control;
use crate::writer::{Writer, WriterEnd, WriterParts};

/// How many former definitions are kept.
pub(super) const KEEP: usize = 2;
/// More than any command asks for.
const EFFECTS_MAX: usize = 64;
/// Between two looks at an engine, in virtual time.
const TURN: Duration = Duration::from_millis(1);
/// Making metrics costs more than all the rest of a node.
static METRICS: LazyLock<Arc<Metrics>> = LazyLock::new(Metrics::new);

pub(super) struct Node {
    pub(super) store: Memory,
    pub(super) board: Arc<ArcSwap<Board>>,
    pub(super) writer: Writer,
    pub(super) driver: Driver,
    pub(super) converger: Converger,
    pub(super) registry: Arc<Registry>,
    pub(super) clock: Arc<ManualClock>,
    seen: Arc<dyn Store>,
    vault: Option<Arc<Vault>>,
    effects: mpsc::Receiver<TracedEffect>,
    writing: JoinHandle<WriterEnd>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.writing.abort();
    }
}

/// A store in which there is nothing yet.
pub(super) async fn empty() -> Memory {
    let store = Memory::new();
    let held = store.campaign("test").await.unwrap();
    let mut step = Step::default();
    put_version(&mut step, &VersionRecord::new(Version::LATEST.number(), Version::LATEST.number()));
    put_cluster_id(&mut step, "test");
    store.commit(&held, &[step]).await.unwrap();
    store.copy()
}

impl Node {
    /// A master that has been one since `since_ns`, and knows what is in its store.
    pub(super) async fn on(store: Memory, board: Board, clock: Arc<ManualClock>, since_ns: Nanos) -> Self {
        let held = store.campaign("test").await.unwrap();
        let unlocked = Unlocked { store: Arc::new(store.clone()), vault: None };
        Self::start(store, held, unlocked, board, (clock, since_ns))
    }

    /// The next master, which knows what it reads. With keys, everything that it writes is sealed with the first of them.
    pub(super) async fn after(store: &Memory, clock: Arc<ManualClock>, keys: &str) -> Self {
        let store = store.reopen();
        let held = store.campaign("test").await.unwrap();
        let encryption = (!keys.is_empty()).then(|| {
            let keyring = seals::ring(keys);
            Encryption {
                keyring: keyring.clone(),
                rotation: rotation(),
                source: KeySource::new(move || Ok(keyring.clone())),
            }
        });
        let for_keys: Arc<dyn Clock> = clock.clone();
        let unlocked = unlock(Arc::new(store.clone()), encryption.as_ref(), &for_keys).await.unwrap();
        let mut board = unlocked.load(Version::LATEST, &Phase::new()).await.unwrap();
        if let Some(vault) = &unlocked.vault {
            let history = next_history_number(&store).await.unwrap().into();
            assert!(begin(vault, &held, &*clock, "test", &history).await.unwrap(), "there is something to rotate");
        }
        board.revision = store.revision();
        let since_ns = clock.uptime_ns();
        Self::start(store, held, unlocked, board, (clock, since_ns))
    }

    fn start(
        store: Memory,
        held: Mastership,
        unlocked: Unlocked,
        board: Board,
        (clock, since_ns): (Arc<ManualClock>, Nanos),
    ) -> Self {
        let hub = Hub::new(board.revision);
        let board = Arc::new(ArcSwap::from_pointee(board));
        let (to_effects, effects) = mpsc::channel(EFFECTS_MAX);
        let (writer, writing) = Writer::start(WriterParts {
            store: unlocked.store.clone(),
            held,
            board: board.clone(),
            hub,
            clock: clock.clone(),
            effects: to_effects,
            metrics: METRICS.clone(),
            task_rejections_max: 0,
            definitions_kept: KEEP,
            forms: Forms::only(Version::LATEST),
            vault: unlocked.vault.clone(),
        });
        let guard = Arc::new(ArcSwap::from_pointee(Guard::of_known("test")));
        let registry = Registry::new(since_ns);
        let converger = Converger {
            board: board.clone(),
            writer: writer.clone(),
            registry: registry.clone(),
            clock: clock.clone(),
            metrics: METRICS.clone(),
            timing: Timing::default(),
            callback_give_up: Outbound::default().callback_give_up,
            wake: Arc::new(Notify::new()),
            guard: guard.clone(),
        };
        let driver = Driver {
            board: board.clone(),
            writer: writer.clone(),
            clock: clock.clone(),
            metrics: METRICS.clone(),
            guard,
        };
        let writing = tokio::spawn(writing);
        let Unlocked { store: seen, vault } = unlocked;
        Self { store, board, writer, driver, converger, registry, clock, seen, vault, effects, writing }
    }

    /// What is in the store, for whoever reads it now.
    pub(super) async fn read(&self) -> Board {
        load(&self.seen, Version::LATEST, &Phase::new()).await.unwrap()
    }

    /// What the commands since the last call ask of others.
    pub(super) fn asked(&mut self) -> Vec<Effect> {
        std::iter::from_fn(|| self.effects.try_recv().ok()).map(|traced| traced.effect).collect()
    }

    /// Brings every record under the active key.
    pub(super) async fn rotate(&self) {
        let vault = self.vault.clone().expect("it has keys");
        let tracker = Arc::new(KeyTracker::new(RotationMode::Online));
        let ((_desk, asks), (_stop, stopped)) = (KeyDesk::new(), watch::channel(false));
        let parts = KeyParts {
            vault,
            writer: self.writer.clone(),
            clock: self.clock.clone(),
            node: "test".into(),
            rotation: rotation(),
            alone: false,
            tracker: tracker.clone(),
            history: next_history_number(&self.store).await.unwrap().into(),
            migration: None,
            source: None,
            stop: stopped,
        };
        let rotating = tokio::spawn(Rotator::new(parts, First::Rotate, asks).run());
        while tracker.state() != State::Settled {
            tokio::time::sleep(TURN).await;
        }
        rotating.abort();
    }

    /// Whether every record can be opened and lies under a key that the store says it needs.
    pub(super) async fn check_seals(&self, when: &str) {
        if self.vault.is_some() {
            seals::check(&self.store, when).await;
        }
    }

    /// Asks the engine of migrations to go back to the data version before, without consent to any loss.
    pub(super) async fn ask_for_the_version_before(&self) -> Refused {
        let root = read_root(&*self.seen).await.unwrap();
        let opened = Opened {
            current: Version::LATEST,
            record: root.version.unwrap(),
            forms: Forms::only(Version::LATEST),
            work: Work::Nothing,
            cluster_id: root.cluster_id.unwrap(),
            control: root.control,
            roots: root.roots,
            history: next_history_number(&self.store).await.unwrap().into(),
            guard: store::identity::Verdict::Known,
        };
        let settings = config::Migration::default();
        let ((desk, asks), (_stop, stopped)) = (Desk::new(), watch::channel(false));
        let parts = Parts {
            store: self.seen.clone(),
            writer: self.writer.clone(),
            board: self.board.clone(),
            clock: self.clock.clone(),
            node: "test".into(),
            newest: Version::LATEST,
            settings,
            tracker: Arc::new(Tracker::new(Migrator::facts(&opened, Version::LATEST, settings))),
            guard: self.driver.guard.clone(),
            identity: None,
            stop: stopped,
        };
        let (migrator, _access) = Migrator::new(parts, opened, asks);
        let engine = tokio::spawn(migrator.run());
        let asked = desk.ask(Ask::Rollback { to: before_latest().number(), accept_loss: false }).await;
        engine.abort();
        asked.expect_err("it would lose definitions")
    }

    /// As while a rollback of the data version is under way, to which somebody has consented.
    pub(super) async fn store_in(&self, forms: Forms) {
        self.writer.control(Control { forms: Some(forms), ..Control::default() }).await.unwrap();
    }
}

pub(super) fn both_forms() -> Forms {
    Forms::both(Version::LATEST, before_latest())
}

fn before_latest() -> Version {
    Version::ALL[Version::ALL.len() - 2]
}

fn rotation() -> Rotation {
    Rotation { mode: RotationMode::Online, records_per_s_max: 0 }
}
