//! The checked configuration of a state server: real types, no strings that still need to be understood.
//!
//! The file that operators write is parsed and checked by the binary; see `docs/how-to/configure.md`.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::client::tls::TlsFiles;
use api::version::Version;
use store::StoreError;
use store::embedded::{self, Embedded};
use store::etcd::Etcd;
use store::seal::Keyring;

#[derive(Clone, Debug)]
pub struct Config {
    /// How this node calls itself in logs and status.
    pub node: String,
    pub listen: SocketAddr,
    /// `None` only when `listen` is a loopback address.
    pub tls: Option<TlsFiles>,
    pub health: SocketAddr,
    /// The URL under which clients reach this node, for status and for nodes that wait.
    pub advertise_url: Option<String>,
    pub store: Store,
    pub standby: Standby,
    pub timing: Timing,
    pub limits: Limits,
    pub task_rejections_max: i32,
    /// How many former definitions of a process are kept, to go back to.
    pub definitions_kept: usize,
    pub outbound: Outbound,
    /// Cells listed in a file of JSON presences, one a line, read again when it changes.
    pub cells_file: Option<PathBuf>,
    /// Where this node keeps its copy of the store's identity, so that a wiped or exchanged store is noticed. Never inside
    /// the store's own directory, with which it would be lost.
    pub identity: PathBuf,
    pub migration: Migration,
    /// `None`: records are stored as they are.
    pub encryption: Option<Encryption>,
    /// The newest data version that this server writes, and brings older data to.
    pub newest: store::Version,
    /// When the server is stopped: go back to this data version first, so that the former release can be started.
    pub rollback_on_drain_to: Option<u64>,
    /// Among Diego's own components: who may serve, and which cells are there, is known to Locket.
    pub locket: Option<Locket>,
    /// The version of the API that clients meet: that of the release, unless a test plays another one.
    pub api_version: Version,
}

/// A Locket server, and this node as its client.
#[derive(Clone, Debug)]
pub struct Locket {
    /// `host:port`.
    pub address: String,
    pub tls: TlsFiles,
    /// Whom the lock belongs to when this node holds it; another node must call itself something else.
    pub owner: String,
    /// How often an idle connection is probed, and how long it may stay silent then.
    pub keepalive: Option<(Duration, Duration)>,
}

/// Where the records are.
#[derive(Clone, Debug)]
pub enum Store {
    /// A directory of this machine, used by one process at a time.
    Embedded { dir: PathBuf },
    /// A cluster, which several nodes use.
    Etcd(store::etcd::Options),
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded { dir } => write!(f, "embedded, {}", dir.display()),
            Self::Etcd(options) => write!(f, "etcd at {}, below {}", options.endpoints.join(","), options.prefix),
        }
    }
}

impl Store {
    pub async fn open(&self, for_whom: Opener) -> Result<Arc<dyn store::Store>, StoreError> {
        match self.clone() {
            Self::Embedded { dir } => {
                let options = match for_whom {
                    Opener::Server => embedded::Options::default(),
                    // Nobody is served, so there is nobody to leave a share of the disk to.
                    Opener::Errand => {
                        embedded::Options { checkpoint_bytes_per_s: u64::MAX, ..embedded::Options::default() }
                    }
                };
                let opened = tokio::task::spawn_blocking(move || Embedded::open(dir, options)).await;
                let ended = |error| StoreError::Failed { why: format!("opening it ended early: {error}") };
                Ok(Arc::new(opened.map_err(ended)??))
            }
            Self::Etcd(options) => Ok(Arc::new(Etcd::open(options).await?)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opener {
    Server,
    Errand,
}

/// What a node that waits to become master does about clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standby {
    /// It refuses connections, so that they try the next address.
    #[default]
    Closed,
    /// It sends them to the master.
    Redirect,
}

/// With which keys records are sealed, and how they get under the active one.
#[derive(Clone, Debug)]
pub struct Encryption {
    pub keyring: Arc<Keyring>,
    pub rotation: Rotation,
    pub source: KeySource,
}

/// How records get from one key to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    pub mode: RotationMode,
    /// For the background sweep; 0 leaves it to the automatic throttle.
    pub records_per_s_max: u64,
}

/// What clients notice of a rotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RotationMode {
    /// Nothing: reads and writes go on.
    #[default]
    Online,
    /// Everything gets 503 until all records are under the active key.
    Offline,
}

/// Reads the configured keys again, so that a running server can be given others. The text of an error is for operators.
#[derive(Clone)]
pub struct KeySource(Arc<dyn Fn() -> Result<Arc<Keyring>, String> + Send + Sync>);

impl KeySource {
    pub fn new(read: impl Fn() -> Result<Arc<Keyring>, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub fn read(&self) -> Result<Arc<Keyring>, String> {
        (self.0)()
    }
}

impl fmt::Debug for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeySource")
    }
}

/// How older data becomes data of this release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migration {
    pub mode: Mode,
    pub start: Start,
    pub finalization: Finalization,
    /// For the background sweep; 0 leaves it to the automatic throttle.
    pub records_per_s_max: u64,
}

/// What clients notice of a migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing: reads and writes go on.
    #[default]
    Online,
    /// Writes get 503.
    ReadOnly,
    /// Everything gets 503.
    Offline,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// As soon as older data is found.
    #[default]
    Auto,
    /// When the operator says so; until then the server works on the older form.
    Manual,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finalization {
    /// As soon as everything is copied and verified.
    #[default]
    Auto,
    /// When the operator says so; until then every change is written in both forms.
    Manual,
}

/// Diego's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub converge_interval: Duration,
    pub kick_task: Duration,
    pub expire_pending_task: Duration,
    pub expire_completed_task: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            converge_interval: Duration::from_secs(30),
            kick_task: Duration::from_secs(30),
            expire_pending_task: Duration::from_secs(30 * 60),
            expire_completed_task: Duration::from_secs(2 * 60),
        }
    }
}

/// What one client can cost the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub body_bytes_max: usize,
    pub header_bytes_max: usize,
    pub connections_max: usize,
    pub handshake_timeout: Duration,
    /// How long a connection may be idle, or take to send a request head.
    pub idle_timeout: Duration,
    pub body_timeout: Duration,
    /// How long a client may leave an answer unread.
    pub stall_timeout: Duration,
    /// How long requests in flight may take to finish when the server stops.
    pub drain_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 8 * 1024 * 1024,
            header_bytes_max: 64 * 1024,
            connections_max: 16_384,
            handshake_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(120),
            body_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(60),
        }
    }
}

/// Calls to the auctioneer, to cells and to whoever waits for a task.
#[derive(Clone, Debug)]
pub struct Outbound {
    /// `None`: nobody places work; instances stay unclaimed until cells claim them. Several have commas between them.
    pub auctioneer_url: Option<String>,
    pub auctioneer_tls: Option<TlsFiles>,
    /// Without it a failed TLS connection to the auctioneer is tried once more in plain text.
    pub auctioneer_require_tls: bool,
    pub cell_tls: Option<TlsFiles>,
    pub cell_require_tls: bool,
    /// The identity for https callbacks; usually that of the API.
    pub callback_tls: Option<TlsFiles>,
    pub communication_timeout: Duration,
    pub update_workers: usize,
    pub callback_workers: usize,
    pub callback_body: CallbackBody,
    /// How long the end of a task is reported again and again to somebody who does not take the report.
    pub callback_give_up: Duration,
}

/// What the receiver of a task callback is told, and who deletes the task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallbackBody {
    /// Which task it is. The receiver fetches it, and deletes it when it is done with it.
    #[default]
    Guid,
    /// Diego's body: how the task ended. Whoever answered has taken the report, and the task is deleted.
    Full,
}

impl Default for Outbound {
    fn default() -> Self {
        Self {
            auctioneer_url: None,
            auctioneer_tls: None,
            auctioneer_require_tls: false,
            cell_tls: None,
            cell_require_tls: false,
            callback_tls: None,
            communication_timeout: Duration::from_secs(10),
            update_workers: 256,
            callback_workers: 256,
            callback_body: CallbackBody::default(),
            callback_give_up: Duration::from_secs(24 * 60 * 60),
        }
    }
}
