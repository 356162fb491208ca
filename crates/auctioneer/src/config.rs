//! What an auctioneer is told at its start. Defaults are those of a Diego release.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use api::client::{TlsError, TlsFiles};

use crate::place::Settings;

#[derive(Clone, Debug)]
pub struct Config {
    /// Where starts are received, once the lock is held.
    pub listen: SocketAddr,
    /// Where health and metrics are told, from the start.
    pub health: Option<SocketAddr>,
    /// Our certificate, and who may call. Without it we listen on loopback only.
    pub tls: Option<ServerTls>,
    /// The identity that cells are shown. Without it they are called over plain HTTP.
    pub cell_tls: Option<TlsFiles>,
    /// Call no cell over plain HTTP.
    pub cell_require_tls: bool,
    /// How many cells are spoken with at a time.
    pub workers: usize,
    /// For asking one cell for its state, from connecting to the last byte.
    pub cell_state_timeout: Duration,
    /// For sending work to one cell.
    pub communication_timeout: Duration,
    pub settings: Settings,
    /// What chance is drawn from. The same seed and the same answers give the same placements.
    pub seed: u64,
    pub limits: Limits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// What is bounded, and how. A request beyond a limit is refused with a status that says so; nothing of it is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Starts that wait for an auction. The state server's own goal is a quarter million instances.
    pub starts_waiting_max: usize,
    /// The body of one request: all of them, at about 200 bytes each.
    pub body_bytes_max: usize,
    /// All bodies that are being read.
    pub bodies_bytes_max: usize,
    pub connections_max: usize,
    /// How long a connection may stay without the head of a request. Go's clients close theirs after 90 seconds, and to be
    /// faster than them would cost them requests.
    pub idle_timeout: Duration,
    pub body_timeout: Duration,
    pub handshake_timeout: Duration,
    /// How long a stop may take: answers, the auctions for what was accepted, and their results.
    pub drain_timeout: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 9016).into(),
            health: None,
            tls: None,
            cell_tls: None,
            cell_require_tls: false,
            workers: 1000,
            cell_state_timeout: Duration::from_secs(10),
            communication_timeout: Duration::from_secs(10),
            settings: Settings::default(),
            seed: 0,
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            starts_waiting_max: 250_000,
            body_bytes_max: 64 * 1024 * 1024,
            bodies_bytes_max: 256 * 1024 * 1024,
            connections_max: 1024,
            idle_timeout: Duration::from_secs(120),
            body_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// Why an auctioneer cannot start. Nothing was opened; correct the configuration and start again.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "{address} is not a loopback address, and without TLS anybody who reaches it could start work; configure TLS"
    )]
    PlainOffLoopback { address: SocketAddr },
    #[error("at least one worker is needed, or no cell would ever be asked")]
    NoWorkers,
    #[error("the weight {name} must be a number that is not below zero, and is {value}")]
    Weight { name: &'static str, value: f64 },
    #[error("TLS is required for cells, but there are no certificates to show them")]
    CellCertificates,
    #[error("the certificates for {whom} cannot be used")]
    Tls {
        whom: &'static str,
        #[source]
        source: Box<TlsError>,
    },
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.tls.is_none() && !self.listen.ip().is_loopback() {
            return Err(ConfigError::PlainOffLoopback { address: self.listen });
        }
        if self.workers == 0 {
            return Err(ConfigError::NoWorkers);
        }
        if self.cell_require_tls && self.cell_tls.is_none() {
            return Err(ConfigError::CellCertificates);
        }
        let Settings { starting_container_weight, bin_pack_first_fit_weight, .. } = self.settings;
        for (name, value) in [
            ("starting_container_weight", starting_container_weight),
            ("bin_pack_first_fit_weight", bin_pack_first_fit_weight),
        ] {
            if !value.is_finite() || value < 0.0 {
                return Err(ConfigError::Weight { name, value });
            }
        }
        Ok(())
    }

    pub(crate) fn server_tls(&self) -> Result<Option<std::sync::Arc<rustls::ServerConfig>>, ConfigError> {
        let Some(ServerTls { ca, cert, key }) = &self.tls else { return Ok(None) };
        let tls = api::client::tls::server_config(ca, cert, key);
        tls.map(Some).map_err(|source| ConfigError::Tls { whom: "our own port", source: Box::new(source) })
    }

    pub(crate) fn cell_identity(&self) -> Result<Option<std::sync::Arc<rustls::ClientConfig>>, ConfigError> {
        let Some(files) = &self.cell_tls else { return Ok(None) };
        let tls = api::client::tls::client_config(files);
        tls.map(Some).map_err(|source| ConfigError::Tls { whom: "calls to cells", source: Box::new(source) })
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn complaint(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::default();
        change(&mut config);
        config.check().map_or_else(|error| error.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn a_configuration_that_cannot_work_is_refused_at_the_start() {
        assert_eq!(complaint(|_| {}), "fine");
        expect!["0.0.0.0:9016 is not a loopback address, and without TLS anybody who reaches it could start work; configure TLS"]
            .assert_eq(&complaint(|config| config.listen = (Ipv4Addr::UNSPECIFIED, 9016).into()));
        expect!["at least one worker is needed, or no cell would ever be asked"]
            .assert_eq(&complaint(|config| config.workers = 0));
        expect!["TLS is required for cells, but there are no certificates to show them"]
            .assert_eq(&complaint(|config| config.cell_require_tls = true));
        expect!["the weight starting_container_weight must be a number that is not below zero, and is NaN"]
            .assert_eq(&complaint(|config| config.settings.starting_container_weight = f64::NAN));
        expect!["the weight bin_pack_first_fit_weight must be a number that is not below zero, and is -1"]
            .assert_eq(&complaint(|config| config.settings.bin_pack_first_fit_weight = -1.0));
    }
}
