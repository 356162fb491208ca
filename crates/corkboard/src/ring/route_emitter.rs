//! `corkboard route-emitter`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use api::client::{Client, ClientConfig};
use api::locket::Options;
use api::registry::nats::{Nats, NatsConfig};
use route_emitter::events::Subscribed;
use route_emitter::lock::{Alone, Lock};
use route_emitter::metrics::Metrics;
use route_emitter::process::Rules;
use route_emitter::{Config, Parts, health};
use tokio::sync::watch;

use super::lock::Turns;
use super::raw::{RawEmitterTiming, RawRouteEmitter, RawRoutes};
use super::sheet::Sheet;
use super::{Ending, announce, open};
use crate::config::values::{address, boolean, duration, text};
use crate::config::{self, ConfigError};
use crate::server::stop_signal;

/// The name of the lock that all emitters of a cluster share, Diego's among them.
const LOCK: &str = "route_emitter";
const CLIENT: &str = "route-emitter";
const DEFAULT_HEALTH: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 17011);

/// A file that was understood.
#[derive(Debug)]
pub(super) struct Plan {
    node: String,
    config: Config,
    health: SocketAddr,
    bbs: ClientConfig,
    nats: NatsConfig,
    locket: Option<Options>,
}

pub(super) fn load(file: &Path) -> Result<Plan, ConfigError> {
    config::read(file, |reader, raw: RawRouteEmitter, folder| understand(&mut Sheet { reader, folder }, raw))
}

fn understand(sheet: &mut Sheet<'_>, raw: RawRouteEmitter) -> Option<Plan> {
    sheet.reader.refuse_unknown("", RawRouteEmitter::KEYS, &raw.unknown);
    let node = sheet.node(raw.node, CLIENT);
    let is_of_cell = raw.cell_id.is_some();
    let cell_id = sheet.reader.optional("cell_id", raw.cell_id, text);
    let health = sheet.reader.or("health", raw.health, DEFAULT_HEALTH, address);
    let tls = sheet.tls(raw.tls);
    let bbs = sheet.bbs(raw.bbs, &tls, CLIENT);
    if raw.locket.is_some() && is_of_cell {
        let what = "is for an emitter that speaks for the whole cluster, and this one speaks for the cell of `cell_id` alone; \
                    leave one of them out";
        sheet.reader.note("locket", what);
    }
    let has_locket = raw.locket.is_some();
    let locket = sheet.locket(raw.locket, &tls);
    let nats = sheet.nats(raw.nats, &tls, &node);
    let (timing, routes) = (raw.timing.unwrap_or_default(), raw.routes.unwrap_or_default());
    sheet.reader.refuse_unknown("timing.", RawEmitterTiming::KEYS, &timing.unknown);
    sheet.reader.refuse_unknown("routes.", RawRoutes::KEYS, &routes.unknown);
    let usual = Config::default();
    let config = Config {
        cell_id,
        sync_interval: sheet.reader.or("timing.sync_interval", timing.sync_interval, usual.sync_interval, duration),
        register_interval: sheet.reader.or(
            "timing.register_interval",
            timing.register_interval,
            usual.register_interval,
            duration,
        ),
        rules: Rules {
            direct_instance_routes: sheet.reader.or(
                "routes.direct_instance_routes",
                routes.direct_instance_routes,
                usual.rules.direct_instance_routes,
                boolean,
            ),
            internal_routes: sheet.reader.or(
                "routes.internal_routes",
                routes.internal_routes,
                usual.rules.internal_routes,
                boolean,
            ),
        },
        ..usual
    };
    if has_locket && locket.is_none() {
        return None;
    }
    Some(Plan { node, config, health, bbs: bbs?, nats: nats?, locket })
}

impl Plan {
    pub(super) fn summary(&self) -> String {
        let lock = match (&self.locket, &self.config.cell_id) {
            (Some(locket), _) => format!("{}, as {}", locket.address, self.node),
            (None, Some(_)) => "none; it speaks for its own cell".to_owned(),
            (None, None) => "none; it must be the only emitter".to_owned(),
        };
        let whom = self.config.cell_id.as_ref().map_or("the whole cluster".to_owned(), |cell| format!("cell {cell}"));
        format!(
            "  program     route emitter\n  node        {}\n  health      {} (plain http)\n  bbs         {}\n  \
             lock        {lock}\n  speaks for  {whom}\n  nats        {} ({})\n",
            self.node,
            self.health,
            self.bbs.urls.join(", "),
            super::counted(self.nats.servers.len(), "server"),
            if self.nats.tls.is_some() { "TLS" } else { "plain text" },
        )
    }
}

pub(super) async fn run(plan: Plan) -> Result<(), Ending> {
    let Plan { node, config, health, bbs, nats, locket } = plan;
    let stop = stop_signal().map_err(|source| Ending::Process { doing: "listening for signals", source })?;
    let client = Client::new(bbs)?;
    let (listener, address) = open("health", health).await?;
    let bus = Arc::new(Nats::start(nats).await?);
    let turns = locket.map(|options| Turns::new(&options, LOCK, &node)).transpose()?;
    let lock: Box<dyn Lock> = match &turns {
        Some(turns) => Box::new(turns.source()),
        None => Box::new(Alone),
    };
    let metrics = Arc::new(Metrics::new());
    let events = Box::new(Subscribed::new(client.clone(), config.cell_id.clone()));
    let (end, ended) = watch::channel(false);
    let serving = tokio::spawn(health::serve(listener, metrics.clone(), ended.clone()));
    announce(&format!("The route emitter answers health on {address}."));
    let parts = Parts { client, events, bus, lock, metrics };
    let ending = async {
        stop.await;
        end.send_replace(true);
    };
    let refused = async {
        match &turns {
            Some(turns) => turns.refused().await,
            None => std::future::pending().await,
        }
    };
    let speaking = async { tokio::join!(route_emitter::run(config, parts, ended), ending) };
    let outcome = tokio::select! {
        _ = speaking => Ok(()),
        refused = refused => Err(refused),
    };
    serving.abort();
    if let Some(turns) = turns {
        turns.end().await;
    }
    outcome
}
