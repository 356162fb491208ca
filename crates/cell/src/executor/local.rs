//! Containers on this machine.
//!
//! What a container is made of depends on the [`Sandbox`]: a plain process of the host, or a container of a runtime. Everything
//! else is the same: room is reserved, a life is lived ([`super::life`]), what happened is on the disk before it is told, and a
//! cell that starts again takes over what it finds. A container that cannot be taken over is completed with the reason.
//!
//! All sandboxes share the network of the host. So two instances of an app cannot both listen on port 8080: each container port
//! is given a port of the host, and the app is told which: `PORT` is that of its first port, `PORT_8080` that of its port 8080.
//! They are set last, and so win over what a definition says.

mod entry;
mod environment;
mod ground;
mod guard;
mod making;
mod ports;
mod sandbox;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, broadcast};
use tokio::task::JoinSet;

pub(crate) use sandbox::Place;
pub use sandbox::Sandbox;

use super::clock::wall_ns;
use super::files::cache::Cache;
use super::files::root::RootDir;
use super::files::transfer::Transfer;
use super::health::{CheckTimes, Network};
use super::logs::{Archive, logs_folder};
use super::process::ShimCommand;
use super::records::{Record, containers_folder, folder_name};
use super::{
    Container, ContainerGuid, Event, Executor, ExecutorError, KeptLines, Later, LogLine, LogsWanted, Reservation, Room,
    RunSpec, State, Update, Usage,
};
use entry::Entry;
use ports::Ports;

/// How many events a listener may be behind before it misses some.
const EVENTS_MAX: usize = 4_096;
const LINES_MAX: usize = 4_096;

const LOCK_ATTEMPTS_MAX: usize = 50;
const LOCK_PAUSE_MS: u64 = 20;

#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// Everything is kept here. One cell at a time.
    pub root: PathBuf,
    /// What containers are told of where they are, as `CORKBOARD_CELL_ID`; nothing, if it is empty.
    pub cell_id: String,
    pub total: Room,
    /// Where ports of the host are reached by others, and by checks.
    pub address: IpAddr,
    /// Ports of the host that containers may have.
    pub host_ports: RangeInclusive<u16>,
    /// The program that is the parent of processes: it calls [`super::shim`] with its last argument.
    pub shim: ShimCommand,
    /// Between asking a process to end and killing it.
    pub grace: Duration,
    pub checks: CheckTimes,
    pub sandbox: Sandbox,
    /// Let the kernel keep plain processes within their limits where it can, instead of counting.
    pub control_groups: bool,
    pub cache_bytes_max: u64,
    /// For downloads and uploads over `https`.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// After this time a reservation that nobody runs is given back.
    pub reservation_max: Duration,
    /// How often memory and the number of processes are looked at; disks every tenth time.
    pub guard_interval: Duration,
}

impl LocalConfig {
    /// What fits most cells; `total` is for the caller to say.
    pub fn new(root: PathBuf, total: Room, shim: ShimCommand) -> Self {
        Self {
            root,
            cell_id: String::new(),
            total,
            address: IpAddr::from([127, 0, 0, 1]),
            host_ports: 61_001..=65_534,
            shim,
            grace: Duration::from_secs(10),
            checks: CheckTimes::default(),
            sandbox: Sandbox::Process { stacks: vec!["cflinuxfs4".to_owned()], run_as: None },
            control_groups: true,
            cache_bytes_max: 10 * 1024 * 1024 * 1024,
            tls: None,
            reservation_max: Duration::from_secs(60),
            guard_interval: Duration::from_secs(1),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("another cell works in {root}: end it first, or give this one another folder", root = root.display())]
    Taken { root: PathBuf },
    #[error("the folder {root} of the cell cannot be used; nothing was started", root = root.display())]
    Folder {
        root: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the cache of the cell cannot be used: {0}; nothing was started")]
    Cache(String),
}

#[derive(Debug)]
pub struct LocalExecutor {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    config: LocalConfig,
    sandbox: sandbox::Checked,
    cache: Cache,
    entries: Mutex<BTreeMap<ContainerGuid, Arc<Entry>>>,
    ports: Mutex<Ports>,
    events: broadcast::Sender<Event>,
    lines: broadcast::Sender<LogLine>,
    archive: Archive,
    turns: Arc<Semaphore>,
    tasks: Mutex<Option<JoinSet<()>>>,
    /// Held for as long as this cell has the folder.
    _lock: fs::File,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").field("root", &self.config.root).finish_non_exhaustive()
    }
}

impl LocalExecutor {
    /// Opens the folder of a cell and takes over the containers in it. Must be called within a tokio runtime.
    pub fn open(config: LocalConfig) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Folder { root: config.root.clone(), source };
        for folder in [config.root.clone(), containers_folder(&config.root), logs_folder(&config.root)] {
            // Users that apps run as go through here, and see nothing.
            fs::DirBuilder::new().recursive(true).mode(0o711).create(folder).map_err(failed)?;
        }
        // What is mounted is known by its true path.
        let root = fs::canonicalize(&config.root).map_err(failed)?;
        let config = LocalConfig { root, ..config };
        let lock = lock(&config.root)?;
        let transfer = Transfer { tls: config.tls.clone() };
        let cache = Cache::open(config.root.join("cache"), config.cache_bytes_max, transfer);
        let cache = cache.map_err(|error| OpenError::Cache(error.to_string()))?;
        let inner = Arc::new(Inner {
            sandbox: sandbox::Checked::new(&config.sandbox, &config.root, config.control_groups),
            cache,
            entries: Mutex::default(),
            ports: Mutex::new(Ports::new(config.host_ports.clone(), config.address)),
            events: broadcast::Sender::new(EVENTS_MAX),
            lines: broadcast::Sender::new(LINES_MAX),
            archive: Archive::new(logs_folder(&config.root)),
            turns: Network::turns(),
            tasks: Mutex::new(Some(JoinSet::new())),
            _lock: lock,
            config,
        });
        inner.take_over().map_err(|source| OpenError::Folder { root: inner.config.root.clone(), source })?;
        inner.archive.prune(&inner.entries().keys().cloned().collect());
        inner.spawn(guard::watch(inner.clone()));
        Ok(Self { inner })
    }

    /// Whether the kernel keeps containers within their memory and their number of processes. If not, the cell does by counting,
    /// a moment later; the reason says what the machine lacks.
    pub fn control_groups(&self) -> Result<(), String> {
        self.inner.sandbox.control_groups().map_err(ToOwned::to_owned)
    }
}

fn lock(root: &Path) -> Result<fs::File, OpenError> {
    let failed = |source| OpenError::Folder { root: root.to_owned(), source };
    let file = fs::OpenOptions::new().create(true).append(true).open(root.join("lock")).map_err(failed)?;
    for _ in 0..LOCK_ATTEMPTS_MAX {
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            // A cell that just ended may have been starting a process, which has the lock until it is another program.
            Err(rustix::io::Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(LOCK_PAUSE_MS)),
            Err(error) => return Err(failed(error.into())),
        }
    }
    Err(OpenError::Taken { root: root.to_owned() })
}

impl Inner {
    /// Finds containers of a cell that was here before, and goes on with each where it was.
    fn take_over(self: &Arc<Self>) -> io::Result<()> {
        for folder in fs::read_dir(containers_folder(&self.config.root))? {
            let folder = folder?.path();
            let found = match Record::read(&folder) {
                Ok(Some(record)) => record.container().map_err(io::Error::other).map(|container| (record, container)),
                Ok(None) => Err(io::Error::other("it has no record")),
                Err(error) => Err(error),
            };
            match found {
                Ok((record, container)) => self.adopt(folder, record, container),
                Err(error) => {
                    tracing::error!(%error, folder = %folder.display(), "a container cannot be taken over and is removed");
                    entry::remove(&folder, &self.sandbox)?;
                }
            }
        }
        Ok(())
    }

    fn adopt(self: &Arc<Self>, folder: PathBuf, record: Record, container: Container) {
        tracing::info!(container = %container.guid, state = ?container.state, "taking over");
        self.ports().take(&container.ports);
        let (state, is_deleting) = (container.state, record.is_deleting);
        let entry = Arc::new(Entry::found(folder, record, container));
        entry.forget_monitors();
        self.entries().insert(entry.guid.clone(), entry.clone());
        if !matches!(state, State::Reserved | State::Completed) {
            self.spawn(making::live(self.clone(), entry.clone()));
        }
        if is_deleting {
            self.spawn(making::delete(self.clone(), entry));
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(tasks) = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            while tasks.try_join_next().is_some() {}
            tasks.spawn(task);
        }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<ContainerGuid, Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ports(&self) -> MutexGuard<'_, Ports> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(&self, guid: &ContainerGuid) -> Result<Arc<Entry>, ExecutorError> {
        self.entries().get(guid).cloned().ok_or_else(|| ExecutorError::Unknown { guid: guid.clone() })
    }

    fn tell(&self, container: Arc<Container>) {
        // Nobody listening is no fault.
        let _ = self.events.send(Event::Changed(container));
    }

    fn left(&self, entries: &BTreeMap<ContainerGuid, Arc<Entry>>) -> Room {
        let mut left = self.config.total;
        for entry in entries.values() {
            let room = entry.container().reservation.room;
            left.memory_mb -= room.memory_mb;
            left.disk_mb -= room.disk_mb;
            left.containers -= 1;
        }
        left
    }
}

impl Executor for LocalExecutor {
    fn total(&self) -> Room {
        self.inner.config.total
    }

    fn remaining(&self) -> Room {
        self.inner.left(&self.inner.entries())
    }

    fn stacks(&self) -> Vec<String> {
        self.inner.config.sandbox.stacks()
    }

    fn health(&self) -> Result<(), String> {
        self.inner.sandbox.health()
    }

    fn reserve(&self, reservation: Reservation) -> Result<(), ExecutorError> {
        let guid = reservation.owner.container();
        let mut entries = self.inner.entries();
        if entries.contains_key(&guid) {
            return Err(ExecutorError::Exists { guid });
        }
        let (left, wanted) = (self.inner.left(&entries), reservation.room);
        let what = match (wanted.memory_mb > left.memory_mb, wanted.disk_mb > left.disk_mb, left.containers < 1) {
            (true, _, _) => "memory",
            (_, true, _) => "disk",
            (_, _, true) => "containers",
            _ => "",
        };
        if !what.is_empty() {
            return Err(ExecutorError::NoRoom { what });
        }
        let folder = containers_folder(&self.inner.config.root).join(folder_name(&guid));
        let entry = Entry::reserved(folder, reservation, self.inner.config.address, wall_ns());
        entry.create().map_err(|error| ExecutorError::Failed(format!("the record cannot be written: {error}")))?;
        let container = entry.container();
        entries.insert(guid, Arc::new(entry));
        drop(entries);
        self.inner.tell(container);
        Ok(())
    }

    fn run<'a>(&'a self, guid: &'a ContainerGuid, spec: RunSpec) -> Later<'a, Result<(), ExecutorError>> {
        Box::pin(async move {
            let entry = self.inner.entry(guid)?;
            self.inner.tell(entry.initialize(making::without_layers(spec))?);
            self.inner.spawn(making::live(self.inner.clone(), entry));
            Ok(())
        })
    }

    fn stop<'a>(&'a self, guid: &'a ContainerGuid) -> Later<'a, Result<(), ExecutorError>> {
        Box::pin(async move {
            let entry = self.inner.entry(guid)?;
            if let Some(completed) = entry.stop() {
                self.inner.tell(completed);
            }
            Ok(())
        })
    }

    fn delete<'a>(&'a self, guid: &'a ContainerGuid) -> Later<'a, Result<(), ExecutorError>> {
        Box::pin(async move {
            let entry = self.inner.entry(guid)?;
            if entry.begin_delete() {
                self.inner.spawn(making::delete(self.inner.clone(), entry));
            }
            Ok(())
        })
    }

    fn update<'a>(&'a self, guid: &'a ContainerGuid, update: Update) -> Later<'a, Result<(), ExecutorError>> {
        Box::pin(async move {
            self.inner.entry(guid)?.update(update);
            Ok(())
        })
    }

    fn get(&self, guid: &ContainerGuid) -> Option<Arc<Container>> {
        self.inner.entry(guid).ok().map(|entry| entry.container())
    }

    fn list(&self) -> Vec<Arc<Container>> {
        self.inner.entries().values().map(|entry| entry.container()).collect()
    }

    fn events(&self) -> broadcast::Receiver<Event> {
        self.inner.events.subscribe()
    }

    fn file<'a>(
        &'a self,
        guid: &'a ContainerGuid,
        path: &'a str,
        bytes_max: usize,
    ) -> Later<'a, Result<Bytes, ExecutorError>> {
        Box::pin(async move {
            let entry = self.inner.entry(guid)?;
            let state = entry.container().state;
            if state != State::Completed {
                return Err(ExecutorError::WrongState { guid: guid.clone(), state, what: "read" });
            }
            let failed = |why: String| ExecutorError::File { guid: guid.clone(), path: path.to_owned(), why };
            let file = RootDir::open(&entry.root()).and_then(|root| root.read(path));
            let file = file.map_err(|error| failed(error.to_string()))?;
            let mut content = Vec::new();
            let read = io::Read::read_to_end(&mut io::Read::take(file, bytes_max as u64 + 1), &mut content);
            read.map_err(|error| failed(error.to_string()))?;
            if content.len() > bytes_max {
                return Err(failed(format!("it is longer than {bytes_max} bytes")));
            }
            Ok(content.into())
        })
    }

    fn usage(&self) -> Later<'_, BTreeMap<ContainerGuid, Usage>> {
        let inner = self.inner.clone();
        Box::pin(async move { tokio::task::spawn_blocking(move || guard::usage(&inner)).await.unwrap_or_default() })
    }

    fn logs(&self) -> broadcast::Receiver<LogLine> {
        self.inner.lines.subscribe()
    }

    fn kept_logs(&self, wanted: LogsWanted) -> Later<'_, io::Result<KeptLines>> {
        let inner = self.inner.clone();
        let read = tokio::task::spawn_blocking(move || inner.archive.read(&wanted));
        Box::pin(async move { read.await.unwrap_or_else(|error| Err(io::Error::other(error))) })
    }

    fn close(&self) -> Later<'_, ()> {
        Box::pin(async move {
            let tasks = self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(mut tasks) = tasks {
                tasks.shutdown().await;
            }
        })
    }
}
