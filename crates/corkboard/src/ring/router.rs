//! `corkboard router`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use api::client::{TlsFiles, tls};
use api::registry::nats::{Nats, NatsConfig};
use router::metrics::Metrics;
use router::{Balance, Config, Limits, Parts};
use tokio::sync::watch;

use super::raw::{RawBackends, RawRouter, RawRouterTiming, RawServerTls};
use super::sheet::{Identity, Sheet};
use super::{Ending, announce, open};
use crate::config::files;
use crate::config::values::{address, duration, word};
use crate::config::{self, ConfigError};
use crate::duration::show;
use crate::server::stop_signal;

const CLIENT: &str = "router";
const DEFAULT_LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 8080);
const DEFAULT_HEALTH: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8082);
const BALANCES: &[(&str, Balance)] =
    &[("round-robin", Balance::RoundRobin), ("least-connection", Balance::LeastConnections)];

/// A file that was understood.
#[derive(Debug)]
pub(super) struct Plan {
    config: Config,
    listen: SocketAddr,
    tls: Option<Door>,
    health: SocketAddr,
    nats: NatsConfig,
    backends: Option<TlsFiles>,
}

/// The port for clients that speak TLS.
#[derive(Debug)]
struct Door {
    listen: SocketAddr,
    cert: PathBuf,
    key: PathBuf,
}

pub(super) fn load(file: &Path) -> Result<Plan, ConfigError> {
    config::read(file, |reader, raw: RawRouter, folder| understand(&mut Sheet { reader, folder }, raw))
}

fn understand(sheet: &mut Sheet<'_>, raw: RawRouter) -> Option<Plan> {
    sheet.reader.refuse_unknown("", RawRouter::KEYS, &raw.unknown);
    let listen = sheet.reader.or("listen", raw.listen, DEFAULT_LISTEN, address);
    let has_tls_port = raw.listen_tls.is_some();
    let listen_tls = sheet.reader.optional("listen_tls", raw.listen_tls, address);
    let health = sheet.reader.or("health", raw.health, DEFAULT_HEALTH, address);
    sheet.refuse_same_port("health", health, ("listen", listen));
    if let Some(listen_tls) = listen_tls {
        sheet.refuse_same_port("listen_tls", listen_tls, ("listen", listen));
        sheet.refuse_same_port("health", health, ("listen_tls", listen_tls));
    }
    let tls = understand_tls(sheet, raw.tls, has_tls_port);
    let nats = sheet.nats(raw.nats, &Identity::default(), CLIENT);
    let backends = raw.backends.unwrap_or_default();
    sheet.reader.refuse_unknown("backends.", RawBackends::KEYS, &backends.unknown);
    let usual = Config::default();
    let balance = sheet.reader.or("backends.balance", backends.balance, usual.balance, |value| word(value, BALANCES));
    let backends = sheet.identity("backends", backends.ca, backends.cert, backends.key).files;
    let config = understand_timing(sheet, raw.timing.unwrap_or_default(), Config { balance, ..usual });
    let tls = listen_tls.zip(tls).map(|(listen, (cert, key))| Door { listen, cert, key });
    Some(Plan { config, listen, tls, health, nats: nats?, backends })
}

fn understand_tls(sheet: &mut Sheet<'_>, raw: Option<RawServerTls>, has_port: bool) -> Option<(PathBuf, PathBuf)> {
    let Some(raw) = raw else {
        if has_port {
            sheet.reader.note("tls", "is missing; `listen_tls` needs a table [tls] with cert and key");
        }
        return None;
    };
    sheet.reader.refuse_unknown("tls.", RawServerTls::KEYS, &raw.unknown);
    if !has_port {
        sheet
            .reader
            .note("listen_tls", "is missing; the table [tls] is for the port that it names, such as \"0.0.0.0:8443\"");
    }
    for (key, value) in [("tls.cert", &raw.cert), ("tls.key", &raw.key)] {
        if value.is_none() {
            sheet.reader.note(key, "is missing; cert and key belong together");
        }
    }
    let (cert, key) = (sheet.path("tls.cert", raw.cert)?, sheet.path("tls.key", raw.key)?);
    if let Some((key, what)) = files::public_problem(&cert, &key) {
        sheet.reader.note(&format!("tls.{key}"), what);
    }
    Some((cert, key))
}

fn understand_timing(sheet: &mut Sheet<'_>, raw: RawRouterTiming, usual: Config) -> Config {
    sheet.reader.refuse_unknown("timing.", RawRouterTiming::KEYS, &raw.unknown);
    let mut time = |name: &str, raw, usual| sheet.reader.or(&format!("timing.{name}"), raw, usual, duration);
    let register_interval = time("register_interval", raw.register_interval, usual.register_interval);
    let prune_threshold = time("prune_threshold", raw.prune_threshold, usual.prune_threshold);
    let limits = Limits {
        backend_timeout: time("backend_timeout", raw.backend_timeout, usual.limits.backend_timeout),
        client_idle_timeout: time("client_idle_timeout", raw.client_idle_timeout, usual.limits.client_idle_timeout),
        drain_wait: time("drain_wait", raw.drain_wait, usual.limits.drain_wait),
        drain_timeout: time("drain_timeout", raw.drain_timeout, usual.limits.drain_timeout),
        ..usual.limits
    };
    if register_interval >= prune_threshold {
        let what = format!(
            "{} is not longer than `register_interval`, {}, so that routes would be forgotten between two registrations; \
             expected more",
            show(prune_threshold),
            show(register_interval)
        );
        sheet.reader.note("timing.prune_threshold", what);
    }
    Config { register_interval, prune_threshold, limits, ..usual }
}

impl Plan {
    pub(super) fn summary(&self) -> String {
        let tls = self.tls.as_ref().map_or("none".to_owned(), |door| door.listen.to_string());
        let backends = if self.backends.is_some() { "TLS where they offer it" } else { "plain http" };
        format!(
            "  program     router\n  http        {}\n  https       {tls}\n  health      {} (plain http)\n  \
             nats        {} ({})\n  backends    {backends}\n",
            self.listen,
            self.health,
            super::counted(self.nats.servers.len(), "server"),
            if self.nats.tls.is_some() { "TLS" } else { "plain text" },
        )
    }
}

pub(super) async fn run(plan: Plan) -> Result<(), Ending> {
    let Plan { mut config, listen, tls: door, health, nats, backends } = plan;
    let stop = stop_signal().map_err(|source| Ending::Process { doing: "listening for signals", source })?;
    config.backend_tls = backends.as_ref().map(tls::client_config).transpose()?;
    let (listener, http) = open("HTTP", listen).await?;
    let mut told = format!("The router listens on {http}");
    let tls = match door {
        Some(Door { listen, cert, key }) => {
            let (listener, address) = open("HTTPS", listen).await?;
            told.push_str(&format!(" and for TLS on {address}"));
            Some((listener, tls::public_server_config(&cert, &key)?))
        }
        None => None,
    };
    let (health, address) = open("health", health).await?;
    let bus = Arc::new(Nats::start(nats).await?);
    announce(&format!("{told}, health on {address}."));
    let parts = Parts { listener, tls, health: Some(health), bus, metrics: Arc::new(Metrics::new()) };
    let (end, ended) = watch::channel(false);
    let ending = async {
        stop.await;
        end.send_replace(true);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = router::run(config, parts, ended) => {}
        () = ending => {}
    }
    tracing::info!("the router has stopped");
    Ok(())
}
