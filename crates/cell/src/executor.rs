//! What a cell can do with containers, and what it hears of them.
//!
//! This is the contract between the rep and everything that runs containers. Promises of an implementation:
//!
//! - A container goes through its states in order and never back: reserved, initializing, created, running, completed. It stays
//!   completed until it is deleted, so that nobody who was away misses its end.
//! - Every change of state, and of being routable, is an [`Event`]. Events may be lost by a slow listener; [`Executor::list`]
//!   never lies, and whoever listens also looks from time to time.
//! - Containers outlive the process of the cell where the implementation can do that: a cell that starts again finds them in
//!   [`Executor::list`] with what they were doing, or completed with the reason why they are not.
//! - Nothing here waits for a container to end. Stopping and deleting begin something, and events tell what came of it.

mod actions;
mod cancel;
mod clock;
mod files;
mod health;
mod life;
mod local;
mod logs;
mod oci;
mod process;
mod records;
pub mod simulated;
mod users;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use api::models;
use bytes::Bytes;
use model::{ActualLrpKey, DefinitionNumber, DomainName, InstanceGuid, Nanos, TaskGuid};
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

pub use health::CheckTimes;
pub use local::{LocalConfig, LocalExecutor, OpenError, Sandbox};
pub use logs::{LINE_BYTES_MAX, recent};
pub use process::ShimCommand;
pub use process::shim::main as shim;

/// A future of a trait object. Calls are few and long, so what a box costs does not matter.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The name of a container: the instance guid of an LRP, or the guid of a task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerGuid(Arc<str>);

impl ContainerGuid {
    pub fn of_instance(guid: &InstanceGuid) -> Self {
        Self(guid.as_str().into())
    }

    pub fn of_task(guid: &TaskGuid) -> Self {
        Self(guid.as_str().into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ContainerGuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// For whom a container runs. The executor keeps it and does not look into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    Lrp { key: ActualLrpKey, instance: InstanceGuid },
    Task { guid: TaskGuid, domain: DomainName },
}

impl Owner {
    pub fn container(&self) -> ContainerGuid {
        match self {
            Self::Lrp { instance, .. } => ContainerGuid::of_instance(instance),
            Self::Task { guid, .. } => ContainerGuid::of_task(guid),
        }
    }
}

/// What a cell has, or has left, or a container takes. `containers` of a single container is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    pub memory_mb: i32,
    pub disk_mb: i32,
    pub containers: i32,
}

/// Room for a container, before anybody knows what will run in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub owner: Owner,
    pub room: Room,
    pub max_pids: i32,
    pub rootfs: String,
    pub placement_tags: Vec<String>,
    pub volume_drivers: Vec<String>,
}

/// What runs in a container that was reserved. The wire messages are the definition: the action tree, the checks, the limits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunSpec {
    /// Of the container itself, before what single actions add.
    pub env: Vec<models::EnvironmentVariable>,
    pub setup: Option<models::Action>,
    pub action: Option<models::Action>,
    pub monitor: Option<models::Action>,
    pub check_definition: Option<models::CheckDefinition>,
    pub sidecars: Vec<models::Sidecar>,
    /// How long it may take to become healthy; zero: for ever.
    pub start_timeout_ms: i64,
    /// Container ports that are reachable from outside.
    pub ports: Vec<u16>,
    pub privileged: bool,
    pub cpu_weight: u32,
    pub log: LogConfig,
    pub cached_dependencies: Vec<models::CachedDependency>,
    pub image_layers: Vec<models::ImageLayer>,
    pub legacy_download_user: String,
    pub egress_rules: Vec<models::SecurityGroupRule>,
    pub volume_mounts: Vec<models::VolumeMount>,
    pub volume_mounted_files: Vec<models::File>,
    pub image_username: String,
    /// Needed to make the container and never again, so that it is not written down.
    #[serde(skip)]
    pub image_password: String,
    /// Of a task: the file whose content is its result.
    pub result_file: String,
}

/// Under which name the output of a container is found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogConfig {
    pub guid: String,
    pub source: String,
    pub index: i32,
    pub tags: BTreeMap<String, String>,
    /// Bytes in a second; -1: no limit.
    pub bytes_per_s_max: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum State {
    Reserved,
    Initializing,
    Created,
    Running,
    Completed,
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    pub failed: bool,
    /// For whoever asks why; empty when it did not fail.
    pub reason: String,
    /// Somebody asked for it.
    pub stopped: bool,
    /// It failed because of the cell, so that another may do better.
    pub retryable: bool,
}

/// A port inside, and where it is reached from outside. TLS ports are 0 without a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    pub container: u16,
    pub host: u16,
    pub container_tls: u16,
    pub host_tls: u16,
}

/// A container as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    pub guid: ContainerGuid,
    pub owner: Owner,
    pub reservation: Reservation,
    pub state: State,
    /// Present exactly when completed.
    pub ending: Option<Ending>,
    pub ports: Vec<Port>,
    /// Where the host ports are reached.
    pub address: String,
    /// Where the container ports are reached from other containers.
    pub instance_address: String,
    /// Its readiness checks pass; true for ever where there are none.
    pub is_routable: bool,
    pub internal_routes: Vec<String>,
    pub metric_tags: BTreeMap<String, String>,
    /// The definition of the app that it was made from; unknown of tasks, and of what a cell made that did not note it.
    pub definition: Option<DefinitionNumber>,
    /// Since when it is in its state.
    pub since_ns: Nanos,
}

/// Something happened to a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Its state or its being routable changed; how it is now.
    Changed(Arc<Container>),
    Deleted(ContainerGuid),
}

/// What is used right now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub cpu_fraction: f64,
    pub memory_bytes: u64,
    pub memory_quota_bytes: u64,
    pub disk_bytes: u64,
    pub disk_quota_bytes: u64,
    pub rx_bytes: Option<u64>,
    pub tx_bytes: Option<u64>,
}

/// New routes and tags for a container that runs, and the definition of one that is about to. A part that is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    pub internal_routes: Option<Vec<String>>,
    pub metric_tags: Option<BTreeMap<String, String>>,
    pub definition: Option<DefinitionNumber>,
}

#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    #[error("there is no container {guid}")]
    Unknown { guid: ContainerGuid },
    #[error("there is a container {guid} already")]
    Exists { guid: ContainerGuid },
    #[error("there is not room enough: {what}")]
    NoRoom { what: &'static str },
    #[error("container {guid} is {state:?}, so that it cannot be {what}")]
    WrongState { guid: ContainerGuid, state: State, what: &'static str },
    #[error("the file {path} of container {guid} cannot be read: {why}")]
    File { guid: ContainerGuid, path: String, why: String },
    #[error("{0}")]
    Failed(String),
}

/// See the head of this file for what an implementation promises.
pub trait Executor: Send + Sync + fmt::Debug {
    /// Everything that the cell has.
    fn total(&self) -> Room;
    /// What is not reserved.
    fn remaining(&self) -> Room;
    /// Root file systems that are there, by name, for `preloaded:`.
    fn stacks(&self) -> Vec<String>;
    /// Whether containers can be made at the moment; the reason if not.
    fn health(&self) -> Result<(), String>;

    /// Takes room for a container, so that nobody else does.
    fn reserve(&self, reservation: Reservation) -> Result<(), ExecutorError>;
    /// Begins to run a container that was reserved.
    fn run<'a>(&'a self, guid: &'a ContainerGuid, spec: RunSpec) -> Later<'a, Result<(), ExecutorError>>;
    /// Asks what runs to end, and makes it after its grace time. The container becomes completed, with `stopped`.
    fn stop<'a>(&'a self, guid: &'a ContainerGuid) -> Later<'a, Result<(), ExecutorError>>;
    /// Ends it if it runs, and removes it with everything that it left.
    fn delete<'a>(&'a self, guid: &'a ContainerGuid) -> Later<'a, Result<(), ExecutorError>>;
    fn update<'a>(&'a self, guid: &'a ContainerGuid, update: Update) -> Later<'a, Result<(), ExecutorError>>;

    fn get(&self, guid: &ContainerGuid) -> Option<Arc<Container>>;
    fn list(&self) -> Vec<Arc<Container>>;
    /// Bounded: a listener that is too slow hears that it missed something.
    fn events(&self) -> broadcast::Receiver<Event>;
    /// The content of a file in a completed container, if it is not longer than `bytes_max`.
    fn file<'a>(
        &'a self,
        guid: &'a ContainerGuid,
        path: &'a str,
        bytes_max: usize,
    ) -> Later<'a, Result<Bytes, ExecutorError>>;
    fn usage(&self) -> Later<'_, BTreeMap<ContainerGuid, Usage>>;
    /// Where the output of containers can be read while it is written; see [`LogLine`]. Bounded: who is too slow hears that it
    /// missed something, and finds it in [`Executor::kept_logs`].
    fn logs(&self) -> broadcast::Receiver<LogLine>;
    /// What was written before, also by containers that are gone, as far as it is kept.
    fn kept_logs(&self, wanted: LogsWanted) -> Later<'_, io::Result<KeptLines>>;

    /// Ends without touching containers, which go on where they can; when it returns, nothing more will be reported.
    fn close(&self) -> Later<'_, ()>;
}

/// Which kept lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogsWanted {
    pub of: LogsOf,
    /// Only later ones.
    pub after_ns: Nanos,
    /// The last so many of each container.
    pub lines_max: usize,
}

/// Whose lines, by the guids that are in an [`Owner`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogsOf {
    Process { guid: String, index: Option<i32> },
    Task { guid: String },
}

impl LogsOf {
    pub fn is(&self, owner: &Owner) -> bool {
        match (self, owner) {
            (Self::Process { guid, index }, Owner::Lrp { key, .. }) => {
                key.process_guid.as_str() == guid && index.is_none_or(|index| index == key.index)
            }
            (Self::Task { guid }, Owner::Task { guid: of, .. }) => of.as_str() == guid,
            _ => false,
        }
    }
}

/// Lines that are kept, by time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptLines {
    /// The clock of the lines, before anything was read.
    pub now_ns: Nanos,
    pub lines: Vec<LogLine>,
    /// Older lines that were there and were too many.
    pub left_out: u64,
}

/// A line that something in a container wrote. No two of a container have the same time, and later ones a later time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    pub container: ContainerGuid,
    pub owner: Arc<Owner>,
    pub log: Arc<LogConfig>,
    /// Which part of the app it was, such as `APP` or `HEALTH`.
    pub source: Arc<str>,
    pub is_error: bool,
    pub at_ns: Nanos,
    pub text: String,
}
