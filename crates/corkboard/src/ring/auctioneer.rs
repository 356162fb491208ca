//! `corkboard auctioneer`.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use api::client::{Client, ClientConfig};
use api::locket::Options;
use auctioneer::place::Settings;
use auctioneer::{AlwaysMine, Config, ServerTls};
use toml::Value;

use super::lock::{Turns, fresh_id};
use super::raw::{RawAuctionTiming, RawAuctioneer, RawCells, RawWeights};
use super::sheet::{Identity, Sheet};
use super::{Ending, announce};
use crate::config::values::{address, boolean, count, duration, rate, wrong_type};
use crate::config::{self, ConfigError};
use crate::server::stop_signal;

/// The name of the lock that all auctioneers of a cluster share, Diego's among them.
const LOCK: &str = "auctioneer";
const CLIENT: &str = "auctioneer";
const DEFAULT_HEALTH: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9017);

/// A file that was understood.
#[derive(Debug)]
pub(super) struct Plan {
    node: String,
    config: Config,
    bbs: ClientConfig,
    locket: Option<Options>,
}

pub(super) fn load(file: &Path) -> Result<Plan, ConfigError> {
    config::read(file, |reader, raw: RawAuctioneer, folder| understand(&mut Sheet { reader, folder }, raw))
}

fn understand(sheet: &mut Sheet<'_>, raw: RawAuctioneer) -> Option<Plan> {
    sheet.reader.refuse_unknown("", RawAuctioneer::KEYS, &raw.unknown);
    let usual = Config::default();
    let node = sheet.node(raw.node, CLIENT);
    let listen = sheet.reader.or("listen", raw.listen, usual.listen, address);
    let health = sheet.reader.or("health", raw.health, DEFAULT_HEALTH, address);
    let tls = sheet.tls(raw.tls);
    sheet.refuse_plain_off_loopback("listen", listen, &tls);
    sheet.refuse_same_port("health", health, ("listen", listen));
    let bbs = sheet.bbs(raw.bbs, &tls, CLIENT);
    let has_locket = raw.locket.is_some();
    let locket = sheet.locket(raw.locket, &tls);
    let (cells, cell_require_tls, workers) = understand_cells(sheet, raw.cells.unwrap_or_default(), &tls, &usual);
    let settings = understand_weights(sheet, raw.placement.unwrap_or_default(), usual.settings);
    let (cell_state_timeout, communication_timeout) = understand_timing(sheet, raw.timing.unwrap_or_default(), &usual);
    if has_locket && locket.is_none() {
        return None;
    }
    let server_tls = tls.files.as_ref().map(|files| ServerTls {
        ca: files.ca.clone(),
        cert: files.cert.clone(),
        key: files.key.clone(),
    });
    let config = Config {
        listen,
        health: Some(health),
        tls: server_tls,
        cell_tls: cells.files,
        cell_require_tls,
        workers,
        cell_state_timeout,
        communication_timeout,
        settings,
        seed: seed(),
        limits: usual.limits,
    };
    Some(Plan { node, config, bbs: bbs?, locket })
}

fn understand_cells(sheet: &mut Sheet<'_>, raw: RawCells, tls: &Identity, usual: &Config) -> (Identity, bool, usize) {
    sheet.reader.refuse_unknown("cells.", RawCells::KEYS, &raw.unknown);
    let own = sheet.identity("cells", raw.ca, raw.cert, raw.key);
    let cells = if own.is_given { own } else { tls.clone() };
    // Whoever has certificates means them.
    let require_tls = sheet.reader.or("cells.require_tls", raw.require_tls, cells.is_given, boolean);
    let workers = sheet.reader.or("cells.workers", raw.workers, usual.workers, count);
    if require_tls && !cells.is_given {
        sheet.reader.note("cells.require_tls", "is true, which needs a table [tls] with ca, cert and key");
    }
    (cells, require_tls, workers)
}

fn understand_weights(sheet: &mut Sheet<'_>, raw: RawWeights, usual: Settings) -> Settings {
    sheet.reader.refuse_unknown("placement.", RawWeights::KEYS, &raw.unknown);
    let key = |name: &str| format!("placement.{name}");
    Settings {
        starting_container_weight: sheet.reader.or(
            &key("starting_container_weight"),
            raw.starting_container_weight,
            usual.starting_container_weight,
            weight,
        ),
        bin_pack_first_fit_weight: sheet.reader.or(
            &key("bin_pack_first_fit_weight"),
            raw.bin_pack_first_fit_weight,
            usual.bin_pack_first_fit_weight,
            weight,
        ),
        starting_container_count_max: sheet.reader.or(
            &key("starting_container_count_max"),
            raw.starting_container_count_max,
            usual.starting_container_count_max,
            rate,
        ),
    }
}

fn understand_timing(sheet: &mut Sheet<'_>, raw: RawAuctionTiming, usual: &Config) -> (Duration, Duration) {
    sheet.reader.refuse_unknown("timing.", RawAuctionTiming::KEYS, &raw.unknown);
    let state =
        sheet.reader.or("timing.cell_state_timeout", raw.cell_state_timeout, usual.cell_state_timeout, duration);
    let communication = sheet.reader.or(
        "timing.communication_timeout",
        raw.communication_timeout,
        usual.communication_timeout,
        duration,
    );
    (state, communication)
}

fn weight(value: &Value) -> Result<f64, String> {
    const EXPECTED: &str = "a number, 0 or more, such as 0.25";
    let number = match value {
        Value::Float(number) => *number,
        Value::Integer(number) => i32::try_from(*number).map_or(f64::NAN, f64::from),
        other => return Err(wrong_type(other, EXPECTED)),
    };
    if number.is_finite() && number >= 0.0 {
        Ok(number)
    } else {
        Err(format!("{number} is no weight; expected {EXPECTED}"))
    }
}

/// From the id of this process, which is as random as the machine can make it.
fn seed() -> u64 {
    fresh_id().bytes().fold(0, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)))
}

impl Plan {
    pub(super) fn summary(&self) -> String {
        let scheme = if self.config.tls.is_some() { "https, client certificates required" } else { "plain http" };
        let lock = match &self.locket {
            Some(locket) => format!("{}, as {}", locket.address, self.node),
            None => "none; it must be the only auctioneer".to_owned(),
        };
        let cells = if self.config.cell_require_tls { "https only" } else { "plain http, too" };
        format!(
            "  program     auctioneer\n  node        {}\n  API         {} ({scheme})\n  health      {} (plain http)\n  \
             bbs         {}\n  lock        {lock}\n  cells       {cells}\n",
            self.node,
            self.config.listen,
            self.config.health.map(|health| health.to_string()).unwrap_or_default(),
            self.bbs.urls.join(", "),
        )
    }
}

pub(super) async fn run(plan: Plan) -> Result<(), Ending> {
    let Plan { node, config, bbs, locket } = plan;
    let stop = stop_signal().map_err(|source| Ending::Process { doing: "listening for signals", source })?;
    let bbs = Client::new(bbs)?;
    let ready = |ready: auctioneer::Ready| {
        let health = ready.health.map(|health| format!(", health on {health}")).unwrap_or_default();
        announce(&format!("The auctioneer listens on {}{health}.", ready.api));
    };
    let Some(options) = locket else {
        tracing::info!(
            node,
            "there is no Locket in the configuration, so this auctioneer takes itself for the only one"
        );
        return Ok(auctioneer::run(config, bbs, AlwaysMine, stop, ready).await?);
    };
    let turns = Turns::new(&options, LOCK, &node)?;
    let ended = tokio::select! {
        ended = auctioneer::run(config, bbs, turns.turn(), stop, ready) => ended.map_err(Ending::from),
        refused = turns.refused() => Err(refused),
    };
    turns.end().await;
    ended
}
