//! The half of a cell that knows the protocol, in Diego's words the rep.
//!
//! The auctioneer asks for the state of the cell and sends work; the rep reserves room for it. From then on a loop keeps the
//! state server and the containers of one mind: it claims, fetches what is to run, reports what runs and what ended, and
//! clears away what should not be. Start with [`plan`], which is the whole decision, as two tables. `reconcile.rs` is the loop,
//! `carry.rs` the calls; `network.rs` and `admin.rs` are the two ports, and `logs.rs` tells what containers wrote.
//!
//! The rep keeps nothing that matters: containers are the executor's, records the state server's. It can end at any moment, and
//! the next one goes on.

mod accept;
mod admin;
mod agree;
mod carry;
pub mod clock;
mod config;
mod door;
mod evacuation;
mod logs;
mod metrics;
mod network;
mod offer;
pub mod plan;
mod queue;
mod reconcile;
mod spec;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use api::client::{Client, Retry};
pub use carry::RESULT_BYTES_MAX;
pub use config::{Config, ConfigError, Limits, ServerTls, Times};
pub use metrics::metrics_page;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::admin::Admin;
use self::carry::Carrier;
use self::clock::Clock;
use self::evacuation::Evacuation;
use self::logs::Logs;
use self::metrics::Metrics;
use self::network::Network;
use self::reconcile::{Ended, Reconciler, Traces, delete_all};
use crate::executor::{ContainerGuid, Executor};
use crate::presence::{self, Presence, Rhythm};

/// Wishes for a look that have not been heard yet. What does not fit is found by the next comparison of everything.
const NUDGES_MAX: usize = 1024;
/// How often all addresses of the state server are asked in one call. The loop asks again anyway.
const ROUNDS_MAX: u32 = 2;

/// What a cell is made of.
#[derive(Debug)]
pub struct Parts {
    pub bbs: Client,
    pub executor: Arc<dyn Executor>,
    pub presence: Arc<dyn Presence>,
    pub clock: Arc<dyn Clock>,
}

/// What a caller wants to know when the ports are open.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub network: SocketAddr,
    pub admin: SocketAddr,
}

/// How a cell ended, when it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Containers go on, and so does the presence until its time is over: whoever starts the cell again in time goes on where
    /// this one ended, and nobody notices.
    Stopped,
    /// Nothing runs here any more, and the presence is taken back.
    Evacuated,
}

/// Why a cell ended, other than being asked to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("cannot listen on {address} ({port} port); is another cell there?")]
    Listen {
        port: &'static str,
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error("the cell met a defect and ended; the log says where. Containers run on; start it again")]
    Defect,
}

/// Runs a cell until `stop` resolves, or until it has evacuated, which begins when `evacuate` resolves or when somebody asks
/// for it at the admin port. `ready` is called when both ports are open.
pub async fn run(
    config: Config,
    parts: Parts,
    evacuate: impl Future<Output = ()> + Send,
    stop: impl Future<Output = ()> + Send,
    ready: impl FnOnce(Ready) + Send,
) -> Result<Ending, RunError> {
    config.check()?;
    let tls = config.server_tls()?;
    let (network, network_address) = listen("network", config.listen).await?;
    let (admin, admin_address) = listen("admin", config.listen_admin).await?;
    let addresses = Ready { network: network_address, admin: admin_address };
    let cell = Cell::begin(config, parts, tls, (network, admin), addresses);
    tracing::info!(cell = %cell.config.cell_id, ?addresses, "the cell is open");
    ready(addresses);
    cell.run(evacuate, stop).await
}

/// A cell at work. Dropping it ends everything at once, but no container.
struct Cell {
    config: Arc<Config>,
    executor: Arc<dyn Executor>,
    presence: Arc<dyn Presence>,
    clock: Arc<dyn Clock>,
    evacuation: Arc<Evacuation>,
    // Sets, because dropping them ends the tasks in them.
    doors: JoinSet<()>,
    work: JoinSet<Ended>,
    announcing: JoinSet<()>,
    end_doors: watch::Sender<bool>,
    end_work: watch::Sender<bool>,
    end_announcing: watch::Sender<bool>,
}

impl Cell {
    fn begin(
        config: Config,
        parts: Parts,
        tls: Option<Arc<rustls::ServerConfig>>,
        (network, admin): (TcpListener, TcpListener),
        addresses: Ready,
    ) -> Self {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let rep_url = config.rep_url.clone().unwrap_or_else(|| format!("{scheme}://{}", addresses.network));
        let rep_address = config.rep_address.clone().unwrap_or_else(|| rep_url.clone());
        let config = Arc::new(config);
        let Parts { bbs, executor, presence, clock } = parts;
        let retry = Retry { rounds_max: ROUNDS_MAX, ..Retry::default() };
        let bbs = bbs.with_retry(retry).with_timeout(Some(config.times.call));
        let metrics = Metrics::new();
        let evacuation = Arc::new(Evacuation::new(config.times.evacuation));
        let traces = Arc::new(Traces::default());
        let (nudges, nudged) = mpsc::channel(NUDGES_MAX);
        let value = presence::value(&config, &rep_url, &rep_address, executor.total(), &executor.stacks());
        let mut cell = Self {
            config: config.clone(),
            executor: executor.clone(),
            presence,
            clock: clock.clone(),
            evacuation: evacuation.clone(),
            doors: JoinSet::new(),
            work: JoinSet::new(),
            announcing: JoinSet::new(),
            end_doors: watch::Sender::new(false),
            end_work: watch::Sender::new(false),
            end_announcing: watch::Sender::new(false),
        };
        cell.announce(value, metrics.clone());
        cell.reconcile(bbs, metrics.clone(), traces.clone(), nudged);
        let admin_room = Admin {
            executor: executor.clone(),
            clock: clock.clone(),
            evacuation: evacuation.clone(),
            metrics: metrics.clone(),
        };
        let limits = cell.config.limits;
        let closed = cell.end_doors.subscribe();
        let logs = Logs::new(config.cell_id.clone(), executor.clone(), metrics.clone(), closed.clone());
        let network_room = Network { config, rep_url, executor, clock, evacuation, metrics, traces, nudges, logs };
        cell.doors.spawn(door::serve(network, tls.clone(), Arc::new(network_room), limits, closed.clone()));
        cell.doors.spawn(door::serve(admin, tls, Arc::new(admin_room), limits, closed));
        cell
    }

    fn announce(&mut self, value: String, metrics: Arc<Metrics>) {
        let rhythm = Rhythm { every: self.config.times.presence, ttl: self.config.times.presence_ttl };
        let failed = move || {
            metrics.presence_failures.inc();
        };
        let stop = self.end_announcing.subscribe();
        self.announcing.spawn(presence::keep(self.presence.clone(), value, rhythm, failed, stop));
    }

    fn reconcile(
        &mut self,
        bbs: Client,
        metrics: Arc<Metrics>,
        traces: Arc<Traces>,
        nudged: mpsc::Receiver<ContainerGuid>,
    ) {
        let carrier = Carrier {
            executor: self.executor.clone(),
            cell: self.config.cell_id.clone(),
            zone: self.config.zone.clone(),
            prefer_instance_address: self.config.prefer_instance_address,
            metrics: metrics.clone(),
        };
        let reconciler = Reconciler {
            bbs,
            carrier: Arc::new(carrier),
            executor: self.executor.clone(),
            evacuation: self.evacuation.clone(),
            metrics,
            clock: self.clock.clone(),
            traces,
            times: self.config.times,
        };
        self.work.spawn(reconciler.run(nudged, self.end_work.subscribe()));
    }

    async fn run(
        mut self,
        evacuate: impl Future<Output = ()> + Send,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Ending, RunError> {
        let (mut evacuate, mut stop) = (std::pin::pin!(evacuate), std::pin::pin!(stop));
        let mut is_asked = false;
        let ended = loop {
            tokio::select! {
                () = &mut evacuate, if !is_asked => {
                    is_asked = true;
                    self.evacuation.begin(self.clock.as_ref(), self.executor.list().len());
                }
                () = &mut stop => {
                    self.end_work.send_replace(true);
                    break self.work.join_next().await;
                }
                ended = self.work.join_next() => break ended,
                _ = self.doors.join_next() => return Err(RunError::Defect),
                _ = self.announcing.join_next() => return Err(RunError::Defect),
            }
        };
        match ended {
            Some(Ok(ended)) => Ok(self.end(ended).await),
            Some(Err(_)) | None => Err(RunError::Defect),
        }
    }

    /// The admin port answers until all containers are gone, because drain scripts wait until it does not; and the presence is
    /// there until nothing else is.
    async fn end(mut self, ended: Ended) -> Ending {
        let limit = self.config.times.ending;
        if ended != Ended::Stopped {
            delete_all(self.executor.as_ref(), limit).await;
        }
        self.end_announcing.send_replace(true);
        self.end_doors.send_replace(true);
        let closing = timeout(limit, async {
            while self.announcing.join_next().await.is_some() {}
            while self.doors.join_next().await.is_some() {}
        });
        if closing.await.is_err() {
            tracing::info!("requests were cut off when the cell ended");
        }
        self.executor.close().await;
        if ended == Ended::Stopped {
            tracing::info!(containers = self.executor.list().len(), "the cell is stopped; its containers go on");
            return Ending::Stopped;
        }
        if let Err(error) = self.presence.withdraw().await {
            tracing::warn!(%error, "the presence could not be taken back; it ends by itself");
        }
        tracing::info!("the cell is evacuated");
        Ending::Evacuated
    }
}

async fn listen(port: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), RunError> {
    let wrong = |source| RunError::Listen { port, address, source };
    let listener = TcpListener::bind(address).await.map_err(wrong)?;
    let bound = listener.local_addr().map_err(wrong)?;
    Ok((listener, bound))
}
