//! What a cell is told at its start. Defaults are those of a Diego release.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::client::TlsError;
use model::CellId;

#[derive(Clone, Debug)]
pub struct Config {
    pub cell_id: CellId,
    /// The number of the machine in its group.
    pub cell_index: i64,
    pub zone: String,
    /// Where the state server and the auctioneer call.
    pub listen: SocketAddr,
    /// Where this machine asks and evacuates.
    pub listen_admin: SocketAddr,
    /// Our certificate, and who may call. Without it both ports are on loopback.
    pub tls: Option<ServerTls>,
    /// What others are told about where we are; made from the port if there is none.
    pub rep_url: Option<String>,
    /// The same for those who know only the older field.
    pub rep_address: Option<String>,
    /// Schemes of root file systems other than those that the executor has in stock, such as `docker`.
    pub rootfs_schemes: Vec<String>,
    /// Only work that asks for all of these is welcome.
    pub placement_tags: Vec<String>,
    /// Work may ask for these.
    pub optional_placement_tags: Vec<String>,
    pub volume_drivers: Vec<String>,
    /// What a proxy takes of the memory of the cell, for each instance.
    pub proxy_memory_mb: i32,
    /// Containers are better reached at their own addresses than through ports of the host.
    pub prefer_instance_address: bool,
    pub times: Times,
    pub limits: Limits,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// How often, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Between two comparisons of everything that is here with everything that should be.
    pub polling: Duration,
    pub polling_evacuating: Duration,
    /// What an evacuation may take.
    pub evacuation: Duration,
    /// Between two announcements of this cell.
    pub presence: Duration,
    /// After which it counts as gone.
    pub presence_ttl: Duration,
    /// After the first call that got no answer; doubled from call to call.
    pub pause_first: Duration,
    /// Also for each call: it is made again at the next look.
    pub pause_max: Duration,
    /// For one call of the state server, over all its addresses.
    pub call: Duration,
    /// For what is going on when the cell ends: requests, looks, and containers that are deleted after an evacuation.
    pub ending: Duration,
}

/// What is bounded, and how. A request beyond a limit is refused with a status that says so.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A request at the network port: work for a whole cell takes a few hundred bytes for each container.
    pub body_bytes_max: usize,
    pub connections_max: usize,
    /// Until the head of a request is there, also on a connection that was used before. Go's clients close theirs after 90
    /// seconds, and to be faster than them would cost them requests.
    pub idle_timeout: Duration,
    pub body_timeout: Duration,
    pub handshake_timeout: Duration,
}

impl Config {
    /// With everything that a cell can do without at its default, on ports of loopback that the machine chooses.
    pub fn new(cell_id: CellId) -> Self {
        Self {
            cell_id,
            cell_index: 0,
            zone: String::new(),
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            listen_admin: (Ipv4Addr::LOCALHOST, 0).into(),
            tls: None,
            rep_url: None,
            rep_address: None,
            rootfs_schemes: Vec::new(),
            placement_tags: Vec::new(),
            optional_placement_tags: Vec::new(),
            volume_drivers: Vec::new(),
            proxy_memory_mb: 0,
            prefer_instance_address: false,
            times: Times::default(),
            limits: Limits::default(),
        }
    }
}

impl Default for Times {
    fn default() -> Self {
        Self {
            polling: Duration::from_secs(30),
            polling_evacuating: Duration::from_secs(10),
            evacuation: Duration::from_secs(600),
            presence: Duration::from_secs(5),
            presence_ttl: Duration::from_secs(15),
            pause_first: Duration::from_secs(1),
            pause_max: Duration::from_secs(30),
            call: Duration::from_secs(15),
            ending: Duration::from_secs(20),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 16 * 1024 * 1024,
            connections_max: 1024,
            idle_timeout: Duration::from_secs(120),
            body_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(10),
        }
    }
}

/// Why a cell cannot start. Nothing was opened; correct the configuration and start again.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "{address} is not a loopback address, and without TLS anybody who reaches it could run code here; configure TLS"
    )]
    PlainOffLoopback { address: SocketAddr },
    #[error("{address} is every address of this machine; rep_url must name the one at which others reach it")]
    NoAddress { address: SocketAddr },
    #[error(
        "the presence must be announced more often than it expires: every {every_s} s, and it expires after {ttl_s} s"
    )]
    Presence { every_s: u64, ttl_s: u64 },
    #[error("the time {name} must not be zero")]
    Zero { name: &'static str },
    #[error("the certificate of this cell cannot be used")]
    Tls(#[source] Box<TlsError>),
}

impl Config {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        for address in [self.listen, self.listen_admin] {
            if self.tls.is_none() && !address.ip().is_loopback() {
                return Err(ConfigError::PlainOffLoopback { address });
            }
        }
        if self.listen.ip().is_unspecified() && self.rep_url.is_none() {
            return Err(ConfigError::NoAddress { address: self.listen });
        }
        let Times { polling, polling_evacuating, presence, presence_ttl, pause_first, call, .. } = self.times;
        let times = [
            ("polling", polling),
            ("polling_evacuating", polling_evacuating),
            ("presence", presence),
            ("pause_first", pause_first),
            ("call", call),
        ];
        if let Some((name, _)) = times.into_iter().find(|(_, time)| time.is_zero()) {
            return Err(ConfigError::Zero { name });
        }
        if presence >= presence_ttl {
            return Err(ConfigError::Presence { every_s: presence.as_secs(), ttl_s: presence_ttl.as_secs() });
        }
        Ok(())
    }

    pub(super) fn server_tls(&self) -> Result<Option<Arc<rustls::ServerConfig>>, ConfigError> {
        let Some(ServerTls { ca, cert, key }) = &self.tls else { return Ok(None) };
        let tls = api::client::tls::server_config(ca, cert, key);
        tls.map(Some).map_err(|source| ConfigError::Tls(Box::new(source)))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn complaint(change: impl FnOnce(&mut Config)) -> String {
        let mut config = Config::new(CellId::parse("cell-1").unwrap());
        change(&mut config);
        config.check().map_or_else(|error| error.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn a_configuration_that_cannot_work_is_refused_at_the_start() {
        assert_eq!(complaint(|_| {}), "fine");
        expect!["0.0.0.0:1801 is not a loopback address, and without TLS anybody who reaches it could run code here; configure TLS"]
            .assert_eq(&complaint(|config| config.listen = (Ipv4Addr::UNSPECIFIED, 1801).into()));
        expect!["0.0.0.0:1800 is not a loopback address, and without TLS anybody who reaches it could run code here; configure TLS"]
            .assert_eq(&complaint(|config| config.listen_admin = (Ipv4Addr::UNSPECIFIED, 1800).into()));
        expect!["0.0.0.0:1801 is every address of this machine; rep_url must name the one at which others reach it"]
            .assert_eq(&complaint(|config| {
                config.listen = (Ipv4Addr::UNSPECIFIED, 1801).into();
                config.tls = Some(ServerTls { ca: "ca".into(), cert: "cert".into(), key: "key".into() });
            }));
        expect!["the time polling must not be zero"]
            .assert_eq(&complaint(|config| config.times.polling = Duration::ZERO));
        expect!["the presence must be announced more often than it expires: every 15 s, and it expires after 15 s"]
            .assert_eq(&complaint(|config| config.times.presence = config.times.presence_ttl));
    }
}
