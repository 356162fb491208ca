//! One container of this machine: how it is now, and what is on the disk of it.
//!
//! A change is written down before anybody hears of it. A record that cannot be written is logged and the container goes on:
//! running apps matter more than what a restart would find.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use model::Nanos;
use tokio::sync::watch;
use tokio::time::Instant;

use super::super::actions::Step;
use super::super::cancel::Cancel;
use super::super::clock::wall_ns;
use super::super::health::MONITOR;
use super::super::logs::Stream;
use super::super::process::files::Identity;
use super::super::process::{Guarded, StepFiles, end_tree, until_started};
use super::super::records::Record;
use super::super::{Container, ContainerGuid, Ending, ExecutorError, Port, Reservation, RunSpec, State, Update};
use super::sandbox::Checked;

/// How long what was killed may take to be gone before its shim is killed too.
const GONE_MS_MAX: u64 = 5_000;
const GONE_INTERVAL_MS: u64 = 20;

pub(crate) struct Entry {
    pub(crate) guid: ContainerGuid,
    folder: PathBuf,
    now: Mutex<Now>,
    pub(crate) cancel: Cancel,
    pub(crate) out_of_memory: Guarded,
    /// Whether nothing lives in it: not yet, or not any more.
    pub(crate) ended: watch::Sender<bool>,
    pub(crate) processes: Mutex<BTreeMap<Step, Identity>>,
    pub(crate) disk_bytes: AtomicU64,
    pub(crate) cpu: Mutex<Option<(Instant, u64)>>,
    pub(crate) stream: OnceLock<Arc<Stream>>,
}

struct Now {
    container: Arc<Container>,
    spec: Option<Arc<RunSpec>>,
    is_stopping: bool,
    is_deleting: bool,
    /// Why the cell ended it, if it did.
    verdict: Option<String>,
}

impl Entry {
    pub(crate) fn reserved(folder: PathBuf, reservation: Reservation, address: IpAddr, now_ns: Nanos) -> Self {
        let container = Container {
            guid: reservation.owner.container(),
            owner: reservation.owner.clone(),
            reservation,
            state: State::Reserved,
            ending: None,
            ports: Vec::new(),
            address: address.to_string(),
            instance_address: address.to_string(),
            is_routable: false,
            internal_routes: Vec::new(),
            metric_tags: BTreeMap::new(),
            definition: None,
            since_ns: now_ns,
        };
        Self::new(folder, container, None, false, false)
    }

    pub(crate) fn found(folder: PathBuf, record: Record, container: Container) -> Self {
        let spec = record.spec.map(Arc::new);
        let entry = Self::new(folder, container, spec, record.is_stopping, record.is_deleting);
        if record.is_stopping || record.is_deleting {
            entry.cancel.cancel();
        }
        entry
    }

    fn new(
        folder: PathBuf,
        container: Container,
        spec: Option<Arc<RunSpec>>,
        is_stopping: bool,
        is_deleting: bool,
    ) -> Self {
        let has_ended = matches!(container.state, State::Reserved | State::Completed);
        let guid = container.guid.clone();
        let container = Arc::new(container);
        Self {
            guid,
            folder,
            now: Mutex::new(Now { container, spec, is_stopping, is_deleting, verdict: None }),
            cancel: Cancel::new(),
            out_of_memory: Arc::new(AtomicBool::new(false)),
            ended: watch::Sender::new(has_ended),
            processes: Mutex::default(),
            disk_bytes: AtomicU64::new(0),
            cpu: Mutex::default(),
            stream: OnceLock::new(),
        }
    }

    pub(crate) fn create(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o711).create(&self.folder)?;
        self.now().record().write(&self.folder)
    }

    pub(crate) fn container(&self) -> Arc<Container> {
        self.now().container.clone()
    }

    pub(crate) fn spec(&self) -> Option<Arc<RunSpec>> {
        self.now().spec.clone()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What the container has for `/`.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    pub(crate) fn step(&self, step: &Step) -> StepFiles {
        StepFiles::new(self.folder.join("steps").join(step.as_str()))
    }

    pub(crate) fn initialize(&self, spec: RunSpec) -> Result<Arc<Container>, ExecutorError> {
        let mut now = self.now();
        let state = now.container.state;
        if state != State::Reserved || now.is_deleting {
            return Err(ExecutorError::WrongState { guid: self.guid.clone(), state, what: "run" });
        }
        let tags = spec.log.tags.clone();
        now.spec = Some(Arc::new(spec));
        self.ended.send_replace(false);
        Ok(self.change(&mut now, |container| {
            container.state = State::Initializing;
            container.metric_tags = tags;
        }))
    }

    pub(crate) fn created(&self, ports: Vec<Port>) -> Arc<Container> {
        let mut now = self.now();
        self.change(&mut now, |container| {
            container.ports = ports;
            container.state = State::Created;
        })
    }

    pub(crate) fn running(&self, is_routable: bool) -> Arc<Container> {
        let mut now = self.now();
        self.change(&mut now, |container| {
            container.state = State::Running;
            container.is_routable = is_routable;
        })
    }

    /// Nothing if it is so already.
    pub(crate) fn routable(&self, is_routable: bool) -> Option<Arc<Container>> {
        let mut now = self.now();
        if now.container.is_routable == is_routable || now.container.state != State::Running {
            return None;
        }
        Some(self.change(&mut now, |container| container.is_routable = is_routable))
    }

    /// Ends it with a reason, or without one when it did what it should. What the cell has to say of it goes first.
    pub(crate) fn complete(&self, reason: String, is_retryable: bool) -> Arc<Container> {
        self.complete_now(&mut self.now(), reason, is_retryable)
    }

    fn complete_now(&self, now: &mut Now, reason: String, is_retryable: bool) -> Arc<Container> {
        let reason = now.verdict.take().unwrap_or(reason);
        let ending = Ending { failed: !reason.is_empty(), reason, stopped: now.is_stopping, retryable: is_retryable };
        self.change(now, |container| {
            container.state = State::Completed;
            container.is_routable = false;
            container.ending = Some(ending);
        })
    }

    /// Asks for its end. Gives the container if that completed it at once.
    pub(crate) fn stop(&self) -> Option<Arc<Container>> {
        let mut now = self.now();
        match now.container.state {
            State::Completed => return None,
            State::Reserved => {
                now.is_stopping = true;
                return Some(self.complete_now(&mut now, STOPPED_BEFORE.to_owned(), false));
            }
            State::Initializing | State::Created | State::Running => now.is_stopping = true,
        }
        self.save(&now);
        self.cancel.cancel();
        None
    }

    /// Gives back a reservation that nobody came to run, if that still is so.
    pub(crate) fn expire(&self) -> Option<Arc<Container>> {
        let mut now = self.now();
        let is_reserved = now.container.state == State::Reserved;
        is_reserved.then(|| self.complete_now(&mut now, "expired container".to_owned(), false))
    }

    /// Ends it because of something that the cell saw.
    pub(crate) fn condemn(&self, verdict: String) {
        let mut now = self.now();
        if now.container.state != State::Completed {
            now.verdict.get_or_insert(verdict);
            self.cancel.cancel();
        }
    }

    /// Whether nobody else is about it.
    pub(crate) fn begin_delete(&self) -> bool {
        let mut now = self.now();
        let is_first = !now.is_deleting;
        now.is_deleting = true;
        now.is_stopping = true;
        self.save(&now);
        self.cancel.cancel();
        is_first
    }

    pub(crate) fn delete_failed(&self) {
        self.now().is_deleting = false;
    }

    pub(crate) fn update(&self, update: Update) {
        let mut now = self.now();
        if let (Some(tags), Some(stream)) = (&update.metric_tags, self.stream.get()) {
            stream.set_tags(tags.clone());
        }
        self.change(&mut now, |container| {
            container.internal_routes =
                update.internal_routes.unwrap_or(std::mem::take(&mut container.internal_routes));
            container.metric_tags = update.metric_tags.unwrap_or(std::mem::take(&mut container.metric_tags));
            container.definition = update.definition.or(container.definition);
        });
    }

    fn change(&self, now: &mut Now, change: impl FnOnce(&mut Container)) -> Arc<Container> {
        let mut container = (*now.container).clone();
        change(&mut container);
        debug_assert!(container.state >= now.container.state, "a container never goes back");
        if container.state != now.container.state {
            container.since_ns = wall_ns();
        }
        now.container = Arc::new(container);
        self.save(now);
        now.container.clone()
    }

    fn save(&self, now: &Now) {
        if let Err(error) = now.record().write(&self.folder) {
            tracing::error!(container = %self.guid, %error, "the record of a container cannot be written");
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn steps(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.join("steps")).into_iter().flatten();
        entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect()
    }

    /// Ends the looks that a cell before this one took: whoever waited for them is gone.
    pub(crate) fn forget_monitors(&self) {
        for folder in self.steps() {
            let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with(MONITOR) {
                if let Ok(Some(identity)) = StepFiles::new(folder.clone()).identity() {
                    end_tree(&identity);
                }
                let _ = fs::remove_dir_all(folder);
            }
        }
    }

    /// Kills everything that still runs in it, and waits until it is gone.
    pub(crate) async fn end_processes(&self) {
        let deadline = Instant::now() + Duration::from_millis(GONE_MS_MAX);
        for files in self.steps().into_iter().map(StepFiles::new) {
            // A shim that a cell before this one has started may not have come to write down whom it started.
            if files.launch().is_ok() {
                let _ = tokio::time::timeout_at(deadline, until_started(&files)).await;
            }
            let Ok(Some(identity)) = files.identity() else { continue };
            while identity.is_there() {
                end_tree(&identity);
                if Instant::now() > deadline {
                    tracing::error!(container = %self.guid, pid = identity.process.pid, "a process cannot be killed");
                    if let Some(shim) = rustix::process::Pid::from_raw(identity.shim.pid) {
                        let _ = rustix::process::kill_process(shim, rustix::process::Signal::KILL);
                    }
                    break;
                }
                tokio::time::sleep(Duration::from_millis(GONE_INTERVAL_MS)).await;
            }
        }
    }
}

impl Now {
    fn record(&self) -> Record {
        Record::new(&self.container, self.spec.as_deref(), self.is_stopping, self.is_deleting)
    }
}

/// The reason of a container that never came to run because it was stopped before.
pub(crate) const STOPPED_BEFORE: &str = "stopped-before-running";

/// Removes everything of a container from the disk.
pub(crate) fn remove(folder: &Path, sandbox: &Checked) -> io::Result<()> {
    sandbox.unmake(folder)?;
    if fs::remove_dir_all(folder).is_ok() {
        return Ok(());
    }
    // An app may have taken rights on its own folders from its own user.
    open_up(folder);
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

fn open_up(folder: &Path) {
    let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}
