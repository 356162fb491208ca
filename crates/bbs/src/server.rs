//! Starts and stops a state server. What runs under mastership is started and stopped here and nowhere else.
//!
//! Order of starting: health port, store (its lock is the mastership), API port (answering 503), load, writer, outbound calls,
//! convergence, serve. Order of stopping: no new requests, streams end, requests in flight finish, the writer drains, the
//! mastership is given up. Nothing acknowledged can be lost by stopping at any point, because acknowledged means durable.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use store::embedded::{Embedded, Options};
use store::{Mastership, Store, StoreError};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::cells::Registry;
use crate::clock::{Clock, SystemClock};
use crate::config::Config;
use crate::converge::Converger;
use crate::events::Hub;
use crate::http::{App, Front, health, listener};
use crate::load::load;
use crate::metrics::Metrics;
use crate::phase::{Phase, Stage};
use crate::status::StatusSource;
use crate::writer::{Writer, WriterEnd, WriterParts};
use crate::{cells_file, outbound};

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
    Root(#[from] store::root::RootError),
    #[error("the server stopped because its store failed: {0}")]
    StoreFailed(Arc<StoreError>),
    #[error("a part of the server ended unexpectedly; this is a defect, and the log before this line tells more")]
    Defect,
}

/// Runs a state server on the embedded store until `stop` resolves.
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
    let dir = config.store_dir.clone();
    let parts = Start { config, clock, tls, cells };
    parts.run(|| open_embedded(dir), stop, ready).await
}

async fn open_embedded(dir: std::path::PathBuf) -> Result<Arc<dyn Store>, RunError> {
    let opened = tokio::task::spawn_blocking(move || Embedded::open(dir, Options::default())).await;
    Ok(Arc::new(opened.map_err(|_| RunError::Defect)??))
}

struct Start {
    config: Config,
    clock: Arc<dyn Clock>,
    tls: Option<Arc<rustls::ServerConfig>>,
    cells: outbound::Cells,
}

impl Start {
    async fn run<F: Future<Output = Result<Arc<dyn Store>, RunError>>>(
        self,
        open: impl FnOnce() -> F,
        stop: impl Future<Output = ()> + Send + 'static,
        ready: impl FnOnce(Ready) + Send,
    ) -> Result<(), RunError> {
        let (phase, metrics) = (Phase::new(), Metrics::new());
        let status = Arc::new(StatusSource {
            node: self.config.node.clone(),
            advertise_url: self.config.advertise_url.clone(),
            phase: phase.clone(),
            metrics: metrics.clone(),
            clock: self.clock.clone(),
            started_ns: self.clock.now_ns(),
            store: OnceLock::new(),
            cluster_id: OnceLock::new(),
        });
        // Two signals: the API ends first, the health port stays until everything else has.
        let (stop_api, api_stopped) = watch::channel(false);
        let (stop_health, health_stopped) = watch::channel(false);
        let health_listener = bind("health", self.config.health).await?;
        let health_address = address(&health_listener, self.config.health);
        let health_task = tokio::spawn(health::serve(health_listener, status.clone(), health_stopped));

        let opening = Instant::now();
        let store = open().await?;
        tracing::info!(store = store.describe(), took = ?opening.elapsed(), "the store is open");
        let _ = status.store.set(store.clone());
        let held = store.campaign(&self.config.node).await?;
        metrics.elections.inc();
        metrics.lock_held.set(1);
        let root = store::root::open_root(&*store, &held, &self.clock.fresh_id()).await?;
        let _ = status.cluster_id.set(root.cluster_id);

        phase.enter(Stage::Loading);
        let api_listener = bind("API", self.config.listen).await?;
        let api_address = address(&api_listener, self.config.listen);
        let front = Arc::new(Front { phase: phase.clone(), metrics: metrics.clone(), limits: self.config.limits });
        let api_task = tokio::spawn(listener::serve(api_listener, self.tls.clone(), front, api_stopped.clone()));

        let loading = Instant::now();
        let board = load(&store, store::Version::LATEST, &phase).await?;
        tracing::info!(records = phase.progress().done, took = ?loading.elapsed(), "the records are loaded");
        let ready_with = Ready {
            api: api_address,
            health: health_address,
            tls: self.tls.is_some(),
            records: phase.progress().done,
            quarantined: board.quarantine.len(),
        };
        let loaded = Loaded { store: store.clone(), held, board };
        let master = self.start_master(loaded, &phase, &metrics, api_stopped);
        ready(ready_with);
        let result = master.wait(stop, &phase, stop_api, api_task).await;
        let held = result?;
        store.resign(held).await?;
        metrics.lock_held.set(0);
        stop_health.send_replace(true);
        let _ = health_task.await;
        Ok(())
    }

    fn start_master(
        self,
        loaded: Loaded,
        phase: &Phase,
        metrics: &Arc<Metrics>,
        stop: watch::Receiver<bool>,
    ) -> Master {
        let Loaded { store, held, board } = loaded;
        let hub = Hub::new(board.revision);
        let board = Arc::new(ArcSwap::from_pointee(board));
        let registry = Registry::new(self.clock.now_ns());
        let (effects, waiting_effects) = mpsc::channel(EFFECTS_MAX);
        let (writer, writing) = Writer::start(WriterParts {
            store,
            held,
            board: board.clone(),
            hub: hub.clone(),
            clock: self.clock.clone(),
            effects,
            metrics: metrics.clone(),
            task_rejections_max: self.config.task_rejections_max,
            forms: store::Forms::only(store::Version::LATEST),
        });
        let writer_task = tokio::spawn(writing);
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
        let converger = Converger {
            board: board.clone(),
            writer: writer.clone(),
            registry: registry.clone(),
            clock: self.clock.clone(),
            metrics: metrics.clone(),
            timing: self.config.timing,
            wake: wake.clone(),
        };
        let converge_task = tokio::spawn(converger.run(stop.clone()));
        if let Some(path) = self.config.cells_file.clone() {
            tokio::spawn(cells_file::follow(path, registry.clone(), self.clock.clone(), stop));
        }
        phase.serve(Arc::new(App {
            board: board.clone(),
            writer,
            hub: hub.clone(),
            registry,
            clock: self.clock,
            metrics: metrics.clone(),
            cells: self.cells,
        }));
        Master { board, hub, writer_task, stop_outbound, outbound_task, converge_task }
    }
}

/// What a node has in hand when it may begin to serve.
struct Loaded {
    store: Arc<dyn Store>,
    held: Mastership,
    board: crate::Board,
}

/// What runs only while this node is master.
struct Master {
    board: Arc<ArcSwap<crate::Board>>,
    hub: Arc<Hub>,
    writer_task: JoinHandle<WriterEnd>,
    stop_outbound: oneshot::Sender<()>,
    outbound_task: JoinHandle<()>,
    converge_task: JoinHandle<()>,
}

impl Master {
    /// Serves until asked to stop or until the store fails, then ends everything in order.
    async fn wait(
        mut self,
        stop: impl Future<Output = ()> + Send,
        phase: &Phase,
        stop_api: watch::Sender<bool>,
        api_task: JoinHandle<()>,
    ) -> Result<Mastership, RunError> {
        let mut early = None;
        tokio::select! {
            () = stop => tracing::info!("stopping: requests in flight finish first"),
            ended = &mut self.writer_task => early = Some(ended),
        }
        phase.enter(Stage::Stopping);
        self.hub.close();
        stop_api.send_replace(true);
        let _ = api_task.await;
        phase.stop();
        let _ = self.converge_task.await;
        // The last handle to the writer is with the outbound calls: a callback under way still deletes its task.
        let _ = self.stop_outbound.send(());
        let _ = self.outbound_task.await;
        // Whoever stops a server ends the process next. Freeing a million records first would only make the next master wait.
        std::mem::forget(self.board.load_full());
        let ended = match early {
            Some(ended) => ended,
            None => self.writer_task.await,
        };
        match ended {
            Ok(WriterEnd::Drained(held)) => Ok(held),
            Ok(WriterEnd::Failed(error)) => Err(RunError::StoreFailed(error)),
            Err(_) => Err(RunError::Defect),
        }
    }
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

async fn bind(port: &'static str, address: SocketAddr) -> Result<TcpListener, RunError> {
    TcpListener::bind(address).await.map_err(|source| RunError::Listen { port, address, source })
}

fn address(listener: &TcpListener, asked: SocketAddr) -> SocketAddr {
    listener.local_addr().unwrap_or(asked)
}
