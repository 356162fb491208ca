//! Starts and stops a state server. What runs under mastership is started and stopped here and nowhere else.
//!
//! Order of starting: health port, the lock in Locket where there is one, store, waiting to be master, API port (answering
//! 503), load, writer, outbound calls, convergence, serve. Order of stopping: no new requests, streams end, requests in flight
//! finish, the writer drains, the mastership is given up, the store is closed, the lock is given back. Nothing acknowledged can
//! be lost by stopping at any point, because acknowledged means durable.
//!
//! A server that loses its mastership or its lock does not stop in order: it ends, and whoever started it starts it again.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use store::record::DataVersion;
use store::{Mastership, Standing, Store, StoreError};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::cells::Registry;
use crate::census::Census;
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::converge::Converger;
use crate::events::Hub;
use crate::http::{App, Front, health};
use crate::keys::alone::AloneError;
use crate::keys::open::{KeyError, Unlocked};
use crate::keys::{First, RotatorEnd};
use crate::locket::presences;
use crate::metrics::Metrics;
use crate::migrate::open::{OpenError, Opened};
use crate::migrate::status::Tracker;
use crate::migrate::{Access, Migrator};
use crate::phase::{Phase, Stage};
use crate::rollouts::Driver;
use crate::shelf::Shelf;
use crate::status::StatusSource;
use crate::writer::{Writer, WriterParts};
use crate::{cells_file, config, keys, migrate, nodes, outbound};

mod door;
mod engines;
mod lock;
mod master;
mod standby;

use door::Door;
use engines::{AtHand, Rotating};
use lock::Locked;
use master::Master;
use standby::{Elected, Standby};

/// Calls that wait to be made. When it is full, calls are left to convergence.
const EFFECTS_MAX: usize = 65_536;

/// Where a server can be reached, once it can.
#[derive(Clone, Debug)]
pub struct Ready {
    pub api: SocketAddr,
    pub health: SocketAddr,
    pub tls: bool,
    pub records: u64,
    pub quarantined: usize,
    /// Locks and presences in the store of this server, for whoever serves them from this process.
    pub shelf: Shelf,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(
        "cannot listen on {address} for the {port} port: {source}. Is another server using it? Choose another address"
    )]
    Listen { port: &'static str, address: SocketAddr, source: std::io::Error },
    #[error("plain HTTP is only allowed on loopback addresses, and {address} is not one; configure TLS")]
    PlainOffLoopback { address: SocketAddr },
    #[error(transparent)]
    Tls(#[from] api::client::tls::TlsError),
    #[error(transparent)]
    Outbound(#[from] outbound::ConfigError),
    #[error(transparent)]
    CellsFile(#[from] cells_file::CellsFileError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Keys(#[from] KeyError),
    #[error(transparent)]
    Rotation(#[from] AloneError),
    #[error(
        "this server does not start without its lock in Locket: {0}. Nothing was opened or changed. Is Locket running, and do \
         both sides trust each other's certificates?"
    )]
    Locket(#[from] api::locket::LocketError),
    #[error(
        "this server has lost its lock in Locket, so it stopped at once: {why}. Nothing acknowledged is lost, and another node \
         takes over. Start it again, and it waits for the lock"
    )]
    LockLost { why: String },
    #[error(
        "the server stopped without rolling back to {to}: {why}. Nothing is lost: the data version is what it was. See what \
         stands in the way with `corkboard migrate plan --to {to}`"
    )]
    DrainRefused { to: DataVersion, why: String },
    #[error(
        "this server is no longer master, so it stopped at once: {why}. Nothing acknowledged is lost, and the other nodes go \
         on. Start it again, and it waits for its turn"
    )]
    Deposed { why: String },
    #[error("the server stopped because its store failed: {0}")]
    StoreFailed(Arc<StoreError>),
    #[error("a part of the server ended unexpectedly; this is a defect, and the log before this line tells more")]
    Defect,
}

/// Runs a state server until `stop` resolves.
pub async fn run(
    config: Config,
    stop: impl Future<Output = ()> + Send + 'static,
    ready: impl FnOnce(Ready) + Send,
) -> Result<(), RunError> {
    run_with_clock(config, Arc::new(SystemClock), stop, ready).await
}

/// The same under another clock: a test moves time on instead of waiting for it.
pub async fn run_with_clock(
    config: Config,
    clock: Arc<dyn Clock>,
    stop: impl Future<Output = ()> + Send + 'static,
    ready: impl FnOnce(Ready) + Send,
) -> Result<(), RunError> {
    if config.tls.is_none() && !config.listen.ip().is_loopback() {
        return Err(RunError::PlainOffLoopback { address: config.listen });
    }
    let tls = match &config.tls {
        Some(files) => Some(api::client::tls::server_config(&files.ca, &files.cert, &files.key)?),
        None => None,
    };
    outbound::check(&config.outbound)?;
    let cells = outbound::Cells::new(&config.outbound)?;
    if let Some(path) = &config.cells_file {
        cells_file::read(path)?;
    }
    Start { config, clock, tls, cells, locked: None }.run(stop, ready).await
}

/// What is there on a node in every phase.
struct Node {
    status: Arc<StatusSource>,
    health_address: SocketAddr,
    door: Door,
    stop_api: watch::Sender<bool>,
    stop: watch::Receiver<bool>,
}

struct Start {
    config: Config,
    clock: Arc<dyn Clock>,
    tls: Option<Arc<rustls::ServerConfig>>,
    cells: outbound::Cells,
    /// Once this node has its lock in Locket, if it needs one.
    locked: Option<Locked>,
}

impl Start {
    async fn run(
        self,
        stop: impl Future<Output = ()> + Send + 'static,
        ready: impl FnOnce(Ready) + Send,
    ) -> Result<(), RunError> {
        let metrics = Metrics::new();
        let status = Arc::new(StatusSource {
            node: self.config.node.clone(),
            newest: self.config.newest,
            advertise_url: self.config.advertise_url.clone(),
            phase: Phase::new(),
            metrics,
            clock: self.clock.clone(),
            started_ns: self.clock.now_ns(),
            store: OnceLock::new(),
            cluster_id: OnceLock::new(),
            census: Census::new(self.config.api_version, self.clock.now_ns()),
        });
        let (stop_health, health_stopped) = watch::channel(false);
        let health_listener = bind("health", self.config.health).await?;
        let health_address = address(&health_listener, self.config.health);
        let health_task = tokio::spawn(health::serve(health_listener, status.clone(), health_stopped));

        let (stop_api, api_stopped) = watch::channel(false);
        let front = Arc::new(Front {
            phase: status.phase.clone(),
            metrics: status.metrics.clone(),
            limits: self.config.limits,
            status: status.clone(),
        });
        let door = Door::reserve(self.config.listen, self.tls.clone(), front, api_stopped)?;
        let node = Node { status, health_address, door, stop_api, stop: heard(stop) };
        let outcome = match self.config.locket.clone() {
            Some(locket) => Box::pin(self.run_under_lock(&locket, node, ready)).await,
            None => Box::pin(self.run_on_store(node, ready)).await,
        };
        // The health port stays until everything else has ended.
        stop_health.send_replace(true);
        let _ = health_task.await;
        outcome
    }

    /// Opens the store, and takes part until asked to stop.
    async fn run_on_store(self, node: Node, ready: impl FnOnce(Ready) + Send) -> Result<(), RunError> {
        let status = node.status.clone();
        let opening = Instant::now();
        let store = self.open_store().await?;
        tracing::info!(store = store.describe(), took = ?opening.elapsed(), "the store is open");
        let _ = status.store.set(store.clone());
        let (take_card_back, card_taken_back) = watch::channel(false);
        let card = nodes::announce(store.clone(), self.card(&status, node.health_address), card_taken_back.clone());
        let card_task = tokio::spawn(card);
        tokio::spawn(nodes::look_for_master(store.clone(), status.phase.clone(), card_taken_back));
        let outcome = self.take_part(node, store.clone(), ready).await.map_err(or_deposed);
        if !matches!(outcome, Err(RunError::Deposed { .. })) {
            take_card_back.send_replace(true);
            let _ = card_task.await;
            // Whatever it ended with, nobody has to wait for this node.
            store.close().await;
        }
        outcome
    }

    /// Waits to be master, and is master until asked to stop.
    async fn take_part(
        self,
        Node { status, health_address, mut door, stop_api, stop }: Node,
        store: Arc<dyn Store>,
        ready: impl FnOnce(Ready) + Send,
    ) -> Result<(), RunError> {
        let (phase, metrics) = (status.phase.clone(), status.metrics.clone());
        let api_address = door.address();
        if self.config.standby == config::Standby::Redirect {
            door.open()?;
        }
        let standby = Standby { start: &self, store: store.clone(), phase: phase.clone(), stop: stop.clone() };
        let Some(Elected { held, unlocked, followed }) = standby.wait().await? else {
            tracing::info!("stopped while waiting; this server was not master");
            return Ok(());
        };
        let standing = store.standing();
        metrics.elections.inc();
        metrics.lock_held.set(1);
        status.census.begin(self.clock.now_ns());
        tracing::info!(epoch = held.epoch(), warm = followed.is_some(), "this server is master");
        let fresh_id = self.clock.fresh_id();
        let node = migrate::open::Node {
            name: &self.config.node,
            newest: self.config.newest,
            migration: self.config.migration,
            now_ns: self.clock.now_ns(),
            fresh_id: &fresh_id,
            identity: Some(&self.config.identity),
        };
        let opened = match migrate::open::open(&*store, &held, node).await {
            Ok(opened) => opened,
            Err(error) => {
                // Somebody else may know what to do with this store.
                store.resign(held).await?;
                return Err(error.into());
            }
        };
        let _ = status.cluster_id.set(opened.cluster_id.clone());

        phase.enter(Stage::Loading);
        door.open()?;
        let (held, rotated) = self.rotate_alone(&unlocked, held, &opened, &phase, stop.clone()).await?;
        if rotated == Some(RotatorEnd::Stopped) {
            store.resign(held).await?;
            return Ok(());
        }
        phase.enter(Stage::Loading);
        let loading = Instant::now();
        let mut board = match standby::board_of(followed, opened.current) {
            Some(board) => board,
            None => {
                let board = unlocked.load(opened.current, &phase).await?;
                tracing::info!(
                    records = phase.progress().done,
                    data_version = %opened.current.number(),
                    took = ?loading.elapsed(),
                    "the records are loaded"
                );
                board
            }
        };
        board.report_quarantine();
        let ready_with = Ready {
            api: api_address,
            health: health_address,
            tls: self.tls.is_some(),
            records: phase.progress().done,
            quarantined: board.quarantine.len(),
            shelf: Shelf::new(store.clone()),
        };
        let begun = match &unlocked.vault {
            Some(vault) => keys::open::begin(vault, &held, &*self.clock, &self.config.node, &opened.history).await?,
            None => false,
        };
        board.revision = store.revision();
        let rotation = match (begun, rotated) {
            (true, _) => First::Rotate,
            (false, Some(_)) => First::Forget,
            (false, None) => First::Nothing,
        };
        let drain = self.config.rollback_on_drain_to.map(DataVersion);
        let shelf = ready_with.shelf.clone();
        let loaded = Loaded { unlocked, held, board, opened, rotation, standing, shelf };
        let master = self.start_master(loaded, &phase, &metrics, stop_api.subscribe());
        ready(ready_with);
        let result = master.wait(until(stop), drain, &phase, stop_api, door.into_task()).await;
        let held = result?;
        store.resign(held).await?;
        metrics.lock_held.set(0);
        Ok(())
    }

    /// What this node says of itself, at any time.
    fn card(&self, status: &Arc<StatusSource>, health: SocketAddr) -> impl FnMut() -> nodes::Card + Send + 'static {
        let (instance, health) = (self.clock.fresh_id(), health.to_string());
        let status = status.clone();
        let mut since = (status.phase.name(), status.started_ns);
        move || {
            if since.0 != status.phase.name() {
                since = (status.phase.name(), status.clock.now_ns());
            }
            status.card(&instance, &health, since.1)
        }
    }

    fn start_master(
        self,
        loaded: Loaded,
        phase: &Arc<Phase>,
        metrics: &Arc<Metrics>,
        stop: watch::Receiver<bool>,
    ) -> Master {
        let Loaded { unlocked, held, board, opened, rotation: first, standing, shelf } = loaded;
        let Unlocked { store, vault } = unlocked;
        let hub = Hub::new(board.revision);
        let board = Arc::new(ArcSwap::from_pointee(board));
        let registry = Registry::new(self.clock.uptime_ns());
        let (effects, waiting_effects) = mpsc::channel(EFFECTS_MAX);
        let (writer, writing) = Writer::start(WriterParts {
            store: store.clone(),
            held,
            board: board.clone(),
            hub: hub.clone(),
            clock: self.clock.clone(),
            effects,
            metrics: metrics.clone(),
            task_rejections_max: self.config.task_rejections_max,
            definitions_kept: self.config.definitions_kept,
            forms: opened.forms.clone(),
            vault: vault.clone(),
        });
        let writer_task = tokio::spawn(writing);
        let facts = Migrator::facts(&opened, self.config.newest, self.config.migration);
        let tracker = Arc::new(Tracker::new(facts));
        let rotation = vault.map(|vault| {
            let (history, migration) = (opened.history.clone(), tracker.clone());
            let at_hand = Rotating { vault, writer: writer.clone(), history, migration };
            self.start_rotator(at_hand, first, stop.clone())
        });
        let (rotator_task, keys) = rotation.unzip();
        let at_hand = AtHand { store, board: board.clone(), writer: writer.clone(), tracker, keys };
        let engine = self.start_engine(at_hand, opened, phase, stop.clone());
        let (stop_outbound, outbound_stopped) = oneshot::channel::<()>();
        let parts = outbound::Parts {
            effects: waiting_effects,
            config: self.config.outbound.clone(),
            registry: registry.clone(),
            clock: self.clock.clone(),
            metrics: metrics.clone(),
            board: board.clone(),
            writer: writer.clone(),
        };
        let outbound_task = tokio::spawn(outbound::run_until(parts, async {
            let _ = outbound_stopped.await;
        }));
        let wake = Arc::new(Notify::new());
        tokio::spawn(wake_on_change(registry.clone(), wake.clone(), stop.clone()));
        let driver = Driver {
            board: board.clone(),
            writer: writer.clone(),
            clock: self.clock.clone(),
            metrics: metrics.clone(),
            guard: engine.guard.clone(),
        };
        let rollout_task = tokio::spawn(roll_when_open(driver, engine.access.clone(), stop.clone()));
        let converger = Converger {
            board: board.clone(),
            writer: writer.clone(),
            registry: registry.clone(),
            clock: self.clock.clone(),
            metrics: metrics.clone(),
            timing: self.config.timing,
            callback_give_up: self.config.outbound.callback_give_up,
            wake: wake.clone(),
            guard: engine.guard.clone(),
        };
        let (heard, first_heard) = oneshot::channel();
        let place = match self.locked {
            Some(locked) => presences::Place::Locket(locked.client),
            None => presences::Place::Ours(shelf),
        };
        tokio::spawn(presences::follow(place, registry.clone(), self.clock.clone(), heard, stop.clone()));
        let converge_task =
            tokio::spawn(converge_when_open(converger, engine.access.clone(), first_heard, stop.clone()));
        if let Some(path) = self.config.cells_file.clone() {
            tokio::spawn(cells_file::follow(path, registry.clone(), self.clock.clone(), stop));
        }
        let app = Arc::new(App {
            board: board.clone(),
            writer: writer.clone(),
            hub: hub.clone(),
            registry,
            clock: self.clock,
            metrics: metrics.clone(),
            cells: self.cells,
            standing: standing.clone(),
        });
        grant(phase, &app, *engine.access.borrow());
        let door_task = tokio::spawn(keep_the_door(phase.clone(), app, engine.access));
        let desk = engine.desk;
        Master {
            board,
            hub,
            writer_task,
            stop_outbound: Some(stop_outbound),
            outbound_task,
            converge_task,
            rollout_task,
            engine_task: engine.task,
            rotator_task,
            door_task,
            desk,
            standing,
        }
    }
}

/// A server may lose its mastership between becoming master and serving, too.
fn or_deposed(error: RunError) -> RunError {
    use RunError as End;
    match error {
        End::Store(StoreError::NotMaster | StoreError::InDoubt { .. })
        | End::Open(OpenError::Store(StoreError::NotMaster | StoreError::InDoubt { .. })) => {
            End::Deposed { why: "etcd refused or did not confirm its first write".to_owned() }
        }
        other => other,
    }
}

/// Lets requests in as far as the engine allows.
fn grant(phase: &Phase, app: &Arc<App>, access: Access) {
    app.writer.set_read_only(access != Access::All);
    match access {
        Access::All => phase.serve(app.clone()),
        Access::Reads => phase.serve_reads(app.clone()),
        Access::Nothing => phase.close(Stage::Migrating),
    }
}

async fn keep_the_door(phase: Arc<Phase>, app: Arc<App>, mut access: watch::Receiver<Access>) {
    while access.changed().await.is_ok() {
        grant(&phase, &app, *access.borrow());
    }
}

/// Convergence writes, so it begins when writes do; and it begins when it was asked once which cells there are.
async fn converge_when_open(
    converger: Converger,
    mut access: watch::Receiver<Access>,
    cells_heard: oneshot::Receiver<()>,
    mut stop: watch::Receiver<bool>,
) {
    let open = async {
        let _ = access.wait_for(|access| *access == Access::All).await;
        let _ = cells_heard.await;
    };
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => return,
        () = open => {}
    }
    converger.run(stop).await;
}

/// Rollouts are driven while writes are taken.
async fn roll_when_open(driver: Driver, mut access: watch::Receiver<Access>, mut stop: watch::Receiver<bool>) {
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => return,
        _ = access.wait_for(|access| *access == Access::All) => {}
    }
    driver.run(stop).await;
}

/// What a node has in hand when it may begin to serve.
struct Loaded {
    unlocked: Unlocked,
    held: Mastership,
    board: crate::Board,
    opened: Opened,
    /// What the rotation engine begins with.
    rotation: First,
    standing: Standing,
    shelf: Shelf,
}

/// A cell that comes or goes is a reason to look at once.
async fn wake_on_change(registry: Arc<Registry>, wake: Arc<Notify>, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = registry.changed() => wake.notify_one(),
        }
    }
}

/// Whether the server was asked to stop, for everybody who has to know.
fn heard(stop: impl Future<Output = ()> + Send + 'static) -> watch::Receiver<bool> {
    let (asked, heard) = watch::channel(false);
    tokio::spawn(async move {
        stop.await;
        asked.send_replace(true);
    });
    heard
}

async fn until(mut stop: watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // Nobody is left who could ask, which happens only when the runtime shuts down.
        std::future::pending::<()>().await;
    }
}

async fn bind(port: &'static str, address: SocketAddr) -> Result<TcpListener, RunError> {
    TcpListener::bind(address).await.map_err(|source| RunError::Listen { port, address, source })
}

fn address(listener: &TcpListener, asked: SocketAddr) -> SocketAddr {
    listener.local_addr().unwrap_or(asked)
}
