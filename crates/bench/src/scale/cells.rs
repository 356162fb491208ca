//! Cells in this process: the real rep each, with ports and connections of its own, over containers that only pass through their
//! states.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api::client::{Client, ClientConfig};
use api::locket;
use cell::executor::simulated::{Behaviour, SimulatedExecutor};
use cell::executor::{Executor, Later, Room, State};
use cell::presence::{LocketPresence, Presence, PresenceError};
use cell::rep::clock::{Clock, MachineClock, fresh_owner};
use cell::rep::{Config, Parts, ServerTls};
use model::CellId;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::ScaleArgs;
use crate::certificates::Certificates;
use crate::fleet;

/// Twice of what a cell has when all is well.
const ROOM: Room = Room { memory_mb: 262_144, disk_mb: 524_288, containers: 500 };
const ZONES: u64 = 3;
/// How often a cell that is not heard of would have spoken up.
pub(super) const PRESENCES_PER_TTL: u64 = 3;

/// What all cells of this process share.
pub(super) struct Ground<'a> {
    pub(super) args: &'a ScaleArgs,
    pub(super) bbs: String,
    pub(super) locket: String,
    pub(super) certificates: &'a Certificates,
    /// Where presences are kept.
    pub(super) apart: Handle,
}

pub(super) struct Cell {
    pub(super) id: String,
    pub(super) executor: Arc<SimulatedExecutor>,
    running: JoinHandle<()>,
}

impl Cell {
    /// Ready when its ports are open.
    pub(super) async fn start(number: u64, ground: &Ground<'_>) -> anyhow::Result<Self> {
        let Ground { args, bbs, locket: address, certificates, apart } = ground;
        let id = fleet::cell_id(number);
        let mut config = Config::new(CellId::parse(&id)?);
        config.cell_index = i64::try_from(number)?;
        config.zone = format!("z{}", number % ZONES + 1);
        let (cert, key) = certificates.server();
        config.tls = Some(ServerTls { ca: certificates.ca(), cert, key });
        config.times.polling = args.interval();
        config.times.presence = Duration::from_secs(args.presence_s / PRESENCES_PER_TTL);
        config.times.presence_ttl = Duration::from_secs(args.presence_s);
        let tls = certificates.client();
        let bbs = Client::new(ClientConfig { tls: Some(tls.clone()), name: "cell".into(), ..ClientConfig::new(bbs) })?;
        let options = locket::Options { address: address.clone(), tls, keepalive: None };
        let entered = apart.enter();
        let locket = locket::Client::new(&options)?;
        drop(entered);
        let clock = Arc::new(MachineClock);
        let executor = SimulatedExecutor::new(ROOM, &["cflinuxfs4"], Behaviour::default(), clock.now_ns());
        let presence = Arc::new(LocketPresence::new(locket, &id, &fresh_owner(clock.as_ref())));
        let presence = Arc::new(Apart { presence, apart: apart.clone() });
        let parts = Parts { bbs, executor: executor.clone(), presence, clock };
        let (tell, told) = oneshot::channel();
        let running = tokio::spawn(async move {
            let never = std::future::pending::<()>;
            let ready = |_| {
                let _ = tell.send(());
            };
            // Whether it ended is asked for when its instances are missing.
            let _ = Box::pin(cell::rep::run(config, parts, never(), never(), ready)).await;
        });
        told.await.with_context(|| format!("{id} could not be started"))?;
        Ok(Self { id, executor, running })
    }

    /// As if its machine had lost power: nobody is told, and nothing of it is left.
    pub(super) fn kill(self) {
        self.running.abort();
    }

    pub(super) fn containers_running(&self) -> u64 {
        self.executor.list().iter().filter(|container| container.state == State::Running).count() as u64
    }
}

/// A presence that is kept on threads of its own: the cells of a cluster are machines, and none of them is kept from saying that it
/// is there by what a thousand others do.
#[derive(Debug)]
struct Apart {
    presence: Arc<LocketPresence>,
    apart: Handle,
}

impl Presence for Apart {
    fn announce<'a>(&'a self, value: &'a str, ttl: Duration) -> Later<'a, Result<(), PresenceError>> {
        let (presence, value) = (self.presence.clone(), value.to_owned());
        let announced = self.apart.spawn(async move { presence.announce(&value, ttl).await });
        Box::pin(async { announced.await.unwrap_or_else(|error| Err(PresenceError::Failed(error.to_string()))) })
    }

    fn withdraw(&self) -> Later<'_, Result<(), PresenceError>> {
        self.presence.withdraw()
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.running.abort();
    }
}
