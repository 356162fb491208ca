//! The program: prepared at once, active when the lock is held, stopped in order.
//!
//! Mistakes in the configuration are found and the port is reserved before the lock is asked for, so that an auctioneer
//! that cannot work does not keep another from working. The port refuses connections until the lock is held, which is how
//! clients tell the active auctioneer from a standby.
//!
//! To stop, the port closes, requests in flight are answered, and auctions go on until what was accepted is decided. To
//! lose the lock ends everything at once, because somebody else may hold auctions from then on.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use api::client::Client;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::auction::Auctioneer;
use crate::cells::Cells;
use crate::config::{Config, ConfigError, Limits};
use crate::intake::Intake;
use crate::lock::Lock;
use crate::metrics::Metrics;
use crate::place::Seeds;
use crate::queue::Queue;
use crate::{door, health};

const BACKLOG_CONNECTIONS_MAX: u32 = 1024;

/// What a caller wants to know when the port is open.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    pub api: SocketAddr,
    pub health: Option<SocketAddr>,
}

/// Why an auctioneer ended, other than being asked to.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("cannot listen on {address} ({port} port); is another process there?")]
    Listen {
        port: &'static str,
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error(
        "the lock was lost ({why}); another auctioneer may be active, so this one ended at once. Start it again as a standby"
    )]
    LockLost { why: String },
    #[error(
        "the auctioneer met a defect and ended; the log says where. What was waiting is asked for again by convergence"
    )]
    Defect,
}

/// Runs an auctioneer until `stop` resolves. `ready` is called when it is the active one and its port is open.
pub async fn run(
    config: Config,
    bbs: Client,
    lock: impl Lock,
    stop: impl Future<Output = ()> + Send,
    ready: impl FnOnce(Ready) + Send,
) -> Result<(), RunError> {
    config.check()?;
    let tls = config.server_tls()?;
    let cells = Cells::new(&config)?;
    let metrics = Metrics::new();
    let (socket, api) = reserve(config.listen)?;
    let mut standing = JoinSet::new();
    let health = match config.health {
        Some(asked) => Some(open_health(asked, &metrics, &mut standing).await?),
        None => None,
    };
    let mut stop = std::pin::pin!(stop);
    tracing::info!(address = %api, "waiting for the lock");
    tokio::select! {
        () = lock.acquire() => {}
        () = &mut stop => {
            tracing::info!("stopped while waiting; this auctioneer was not the active one");
            return Ok(());
        }
    }
    metrics.lock_held.set(1);
    let listener = socket.listen(BACKLOG_CONNECTIONS_MAX);
    let listener = listener.map_err(|source| RunError::Listen { port: "API", address: api, source })?;
    let queue = Arc::new(Queue::new(config.limits.starts_waiting_max, metrics.clone()));
    let auctioneer = Auctioneer {
        bbs,
        cells,
        queue: queue.clone(),
        metrics: metrics.clone(),
        settings: config.settings,
        workers: config.workers,
        seeds: Seeds::new(config.seed),
    };
    let intake = Arc::new(Intake::new(queue.clone(), metrics.clone(), config.limits));
    let active = Active { queue: queue.clone(), limits: config.limits };
    tracing::info!(address = %api, tls = tls.is_some(), "this auctioneer is the active one");
    let serve = |stop| door::serve(listener, tls, intake, config.limits, stop);
    ready(Ready { api, health });
    let ended = tokio::select! {
        why = lock.lost() => {
            tracing::warn!(why, unfinished = queue.unfinished(), "the lock was lost; what was accepted is left to convergence");
            Err(RunError::LockLost { why })
        }
        ended = active.run(serve, auctioneer, stop) => ended,
    };
    metrics.lock_held.set(0);
    ended
}

/// While the lock is held.
struct Active {
    queue: Arc<Queue>,
    limits: Limits,
}

impl Active {
    async fn run<D: Future<Output = ()> + Send + 'static>(
        self,
        serve: impl FnOnce(watch::Receiver<bool>) -> D,
        auctioneer: Auctioneer,
        stop: impl Future<Output = ()>,
    ) -> Result<(), RunError> {
        let (close_door, door_closed) = watch::channel(false);
        let (end_auctions, auctions_ended) = watch::channel(false);
        // Sets, because dropping them ends the tasks in them.
        let (mut door, mut auctions) = (JoinSet::new(), JoinSet::new());
        door.spawn(serve(door_closed));
        auctions.spawn(auctioneer.run(auctions_ended));
        tokio::select! {
            () = stop => {}
            _ = door.join_next() => return Err(RunError::Defect),
            _ = auctions.join_next() => return Err(RunError::Defect),
        }
        tracing::info!(waiting = self.queue.len(), "stopping; what was accepted is decided first");
        let drained = timeout(self.limits.drain_timeout, async {
            close_door.send_replace(true);
            let _ = door.join_next().await;
            end_auctions.send_replace(true);
            auctions.join_next().await
        });
        match drained.await {
            Ok(Some(Err(_))) => return Err(RunError::Defect),
            Ok(_) => {}
            Err(_) => tracing::warn!(
                unfinished = self.queue.unfinished(),
                "an auction did not end in time and is cut off; convergence asks again for what was not placed"
            ),
        }
        Ok(())
    }
}

/// Binds without listening: mistakes show at once, and connections are refused until the lock is held.
fn reserve(address: SocketAddr) -> Result<(TcpSocket, SocketAddr), RunError> {
    let bound = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let bound = socket.local_addr()?;
        Ok((socket, bound))
    };
    bound().map_err(|source| RunError::Listen { port: "API", address, source })
}

async fn open_health(
    address: SocketAddr,
    metrics: &Arc<Metrics>,
    standing: &mut JoinSet<()>,
) -> Result<SocketAddr, RunError> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| RunError::Listen { port: "health", address, source })?;
    let bound = listener.local_addr().unwrap_or(address);
    standing.spawn(health::serve(listener, metrics.clone()));
    Ok(bound)
}
