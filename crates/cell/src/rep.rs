//! The half of a cell that knows the protocol, in Diego's words the rep.
//!
//! The auctioneer asks for the state of the cell and sends work; the rep reserves room for it. From then on a loop keeps the
//! state server and the containers of one mind: it claims, fetches what is to run, reports what runs and what ended, and
//! clears away what should not be. Start with [`plan`], which is the whole decision, as two tables. `reconcile.rs` is the loop,
//! `carry.rs` the calls; `network.rs` and `admin.rs` are the two ports.
//!
//! The rep keeps nothing that matters: containers are the executor's, records the state server's. It can end at any moment, and
//! the next one goes on.

mod accept;
mod admin;
mod carry;
pub mod clock;
mod config;
mod door;
mod evacuation;
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
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::admin::Admin;
use self::carry::Carrier;
use self::clock::Clock;
use self::evacuation::Evacuation;
use self::metrics::Metrics;
use self::network::Network;
use self::reconcile::{Ended, Reconciler, Traces, delete_all};
use crate::executor::Executor;
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
    let scheme = if tls.is_some() { "https" } else { "http" };
    let rep_url = config.rep_url.clone().unwrap_or_else(|| format!("{scheme}://{network_address}"));
    let rep_address = config.rep_address.clone().unwrap_or_else(|| rep_url.clone());

    let config = Arc::new(config);
    let Parts { bbs, executor, presence, clock } = parts;
    let bbs = bbs.with_retry(Retry { rounds_max: ROUNDS_MAX, ..Retry::default() }).with_timeout(Some(config.times.call));
    let metrics = Metrics::new();
    let evacuation = Arc::new(Evacuation::new(config.times.evacuation));
    let traces = Arc::new(Traces::default());
    let (nudges, nudged) = mpsc::channel(NUDGES_MAX);
    let (close, closed) = watch::channel(false);

    let carrier = Carrier {
        executor: executor.clone(),
        cell: config.cell_id.clone(),
        zone: config.zone.clone(),
        prefer_instance_address: config.prefer_instance_address,
        metrics: metrics.clone(),
    };
    let (end_loop, loop_ended) = watch::channel(false);
    let reconciler = Reconciler {
        bbs,
        carrier: Arc::new(carrier),
        executor: executor.clone(),
        evacuation: evacuation.clone(),
        metrics: metrics.clone(),
        clock: clock.clone(),
        traces: traces.clone(),
        times: config.times,
    };
    let value = presence::value(&config, &rep_url, &rep_address, executor.total(), &executor.stacks());
    let inside = Network {
        config: config.clone(),
        rep_url,
        executor: executor.clone(),
        clock: clock.clone(),
        evacuation: evacuation.clone(),
        metrics: metrics.clone(),
        traces,
        nudges,
    };
    let office =
        Admin { executor: executor.clone(), clock: clock.clone(), evacuation: evacuation.clone(), metrics: metrics.clone() };

    // Sets, because dropping them ends the tasks in them.
    let (mut doors, mut work, mut announcing) = (JoinSet::new(), JoinSet::new(), JoinSet::new());
    doors.spawn(door::serve(network, tls.clone(), Arc::new(inside), config.limits, closed.clone()));
    doors.spawn(door::serve(admin, tls, Arc::new(office), config.limits, closed));
    work.spawn(reconciler.run(nudged, loop_ended));
    let rhythm = Rhythm { every: config.times.presence, ttl: config.times.presence_ttl };
    let (end_presence, presence_ended) = watch::channel(false);
    let failed = move || {
        metrics.presence_failures.inc();
    };
    announcing.spawn(presence::keep(presence.clone(), value, rhythm, failed, presence_ended));
    tracing::info!(cell = %config.cell_id, network = %network_address, admin = %admin_address, "the cell is open");
    ready(Ready { network: network_address, admin: admin_address });

    let (mut evacuate, mut stop) = (std::pin::pin!(evacuate), std::pin::pin!(stop));
    let ended = loop {
        tokio::select! {
            () = &mut evacuate, if !evacuation.is_on() => evacuation.begin(clock.as_ref(), executor.list().len()),
            () = &mut stop => {
                end_loop.send_replace(true);
                break work.join_next().await;
            }
            ended = work.join_next() => break ended,
            _ = doors.join_next() => return Err(RunError::Defect),
            _ = announcing.join_next() => return Err(RunError::Defect),
        }
    };
    let Some(Ok(ended)) = ended else { return Err(RunError::Defect) };
    // Asked for a last time, the admin port still answers: it is what drain scripts wait on.
    if ended != Ended::Stopped {
        delete_all(executor.as_ref(), config.times.ending).await;
    }
    end_presence.send_replace(true);
    close.send_replace(true);
    let closing = timeout(config.times.ending, async {
        while announcing.join_next().await.is_some() {}
        while doors.join_next().await.is_some() {}
    });
    if closing.await.is_err() {
        tracing::info!("requests were cut off when the cell ended");
    }
    executor.close().await;
    if ended == Ended::Stopped {
        tracing::info!(containers = executor.list().len(), "the cell is stopped; its containers go on");
        return Ok(Ending::Stopped);
    }
    if let Err(error) = presence.withdraw().await {
        tracing::warn!(%error, "the presence could not be taken back; it ends by itself");
    }
    tracing::info!("the cell is evacuated");
    Ok(Ending::Evacuated)
}

async fn listen(port: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), RunError> {
    let wrong = |source| RunError::Listen { port, address, source };
    let listener = TcpListener::bind(address).await.map_err(wrong)?;
    let bound = listener.local_addr().map_err(wrong)?;
    Ok((listener, bound))
}
