//! The same server put together by hand, on the memory store and under a clock that moves when told to.
//!
//! Requests come over real sockets through the real front. What `bbs::run` would do in the background is done here step by
//! step: a pass of convergence when asked for, and calls to auctioneer and cells are written down instead of made.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use api::client::Client;
use arc_swap::ArcSwap;
use bbs::Board;
use bbs::cells::{GRACE_NS, PRESENCE_TTL_NS, Registry};
use bbs::clock::{Clock, ManualClock};
use bbs::commands::TracedEffect;
use bbs::config::{Limits, Outbound, Timing};
use bbs::converge::Converger;
use bbs::events::{Hub, RingLimits};
use bbs::http::{App, Front, listener};
use bbs::metrics::Metrics;
use bbs::outbound::Cells;
use bbs::phase::Phase;
use bbs::rollouts::Driver;
use bbs::status::StatusSource;
use bbs::writer::{Writer, WriterParts};
use model::CellId;
use store::Store;
use store::memory::Memory;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, watch};

use crate::harness::client;

/// More than any test causes.
const EFFECTS_MAX: usize = 65_536;
/// When the clock starts: so late that no record looks as if it were from before the beginning of time.
const START_NS: i64 = 1_000_000 * model::NANOS_PER_SECOND;

pub(crate) struct Assembled {
    pub(crate) api: SocketAddr,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) phase: Arc<Phase>,
    pub(crate) app: Arc<App>,
    pub(crate) store: Arc<Memory>,
    pub(crate) effects: mpsc::Receiver<TracedEffect>,
    pub(crate) converger: Converger,
    pub(crate) driver: Driver,
    _stop: watch::Sender<bool>,
}

#[derive(Default)]
pub(crate) struct Parts {
    pub(crate) ring: RingLimits,
    pub(crate) limits: Limits,
    pub(crate) timing: Timing,
    /// What the handlers and the writer see instead of the manual clock.
    pub(crate) clock: Option<Arc<dyn Clock>>,
}

impl Assembled {
    pub(crate) async fn new() -> Self {
        Self::with(Parts::default()).await
    }

    pub(crate) async fn with(parts: Parts) -> Self {
        let this = Self::not_ready(parts).await;
        this.phase.serve(this.app.clone());
        this
    }

    /// A server that listens and has no board yet.
    pub(crate) async fn not_ready(parts: Parts) -> Self {
        let store = Arc::new(Memory::new());
        let held = store.campaign("node").await.unwrap();
        let clock = Arc::new(ManualClock::at(START_NS));
        let seen: Arc<dyn Clock> = parts.clock.unwrap_or_else(|| clock.clone());
        let board = Arc::new(ArcSwap::from_pointee(Board::default()));
        let hub = Hub::with_limits(0, parts.ring);
        let metrics = Metrics::new();
        // The grace after a start is over.
        let registry = Registry::new(START_NS - GRACE_NS);
        let (sender, effects) = mpsc::channel(EFFECTS_MAX);
        let (writer, writing) = Writer::start(WriterParts {
            definitions_kept: 5,
            store: store.clone(),
            held,
            board: board.clone(),
            hub: hub.clone(),
            clock: seen.clone(),
            effects: sender,
            metrics: metrics.clone(),
            task_rejections_max: model::task::REJECTIONS_MAX,
            forms: store::Forms::only(store::Version::LATEST),
            vault: None,
        });
        tokio::spawn(writing);
        let converger = Converger {
            board: board.clone(),
            writer: writer.clone(),
            registry: registry.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
            timing: parts.timing,
            callback_give_up: Outbound::default().callback_give_up,
            wake: Arc::new(Notify::new()),
            guard: Arc::new(ArcSwap::from_pointee(bbs::migrate::Guard::of_known("id"))),
        };
        let driver = Driver {
            board: board.clone(),
            writer: writer.clone(),
            clock: clock.clone(),
            metrics: metrics.clone(),
            guard: converger.guard.clone(),
        };
        let cells = Cells::new(&Outbound::default()).unwrap();
        let standing = store.standing();
        let metrics_seen = metrics.clone();
        let app = Arc::new(App { board, writer, hub, registry, clock: seen, metrics: metrics_seen, cells, standing });
        let phase = Phase::new();
        let status = Arc::new(StatusSource {
            node: "node".into(),
            newest: store::Version::LATEST,
            advertise_url: None,
            phase: phase.clone(),
            metrics: metrics.clone(),
            clock: clock.clone(),
            started_ns: START_NS,
            store: OnceLock::new(),
            cluster_id: OnceLock::new(),
            census: bbs::census::Census::new(api::version::CURRENT, START_NS),
        });
        let front = Arc::new(Front { phase: phase.clone(), metrics, limits: parts.limits, status });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api = listener.local_addr().unwrap();
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(listener::serve(listener, None, front, stopped));
        Self { api, clock, phase, app, store, effects, converger, driver, _stop: stop }
    }

    pub(crate) fn client(&self) -> Client {
        client(&format!("http://{}", self.api), None)
    }

    /// The cell is heard, for the usual time.
    pub(crate) fn hear(&self, cell: &str) {
        let wire = api::models::CellPresence { cell_id: cell.into(), ..Default::default() };
        let cell = api::convert::cell_from_wire(wire).unwrap();
        self.app.registry.announce(cell, PRESENCE_TTL_NS, self.clock.now_ns());
    }

    pub(crate) fn lose(&self, cell: &str) {
        self.app.registry.withdraw(&CellId::parse(cell).unwrap(), self.clock.now_ns());
    }
}
