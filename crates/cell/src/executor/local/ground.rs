//! A container of this machine, as the actions in it see it.

use std::fs;
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use api::models;
use tokio::sync::watch;

use super::super::Later;
use super::super::RunSpec;
use super::super::actions::{DownloadFailure, Exit, Ground, Process, Signal, Step};
use super::super::clock::wall_ns;
use super::super::files::cache::Wanted;
use super::super::files::root::RootDir;
use super::super::files::{Checksum, unpack};
use super::super::health::MONITOR;
use super::super::logs::Output;
use super::super::process::files::{read, write};
use super::super::process::{self, Running};
use super::entry::Entry;
use super::sandbox::Place;
use super::{Inner, sandbox};

const UPLOAD_ATTEMPTS_MAX: usize = 3;

pub(crate) struct Grounded {
    inner: Arc<Inner>,
    entry: Arc<Entry>,
    spec: Arc<RunSpec>,
    root: RootDir,
    /// Told when the first process of the action was started.
    started: watch::Sender<bool>,
}

impl Grounded {
    pub(crate) fn new(
        inner: Arc<Inner>,
        entry: Arc<Entry>,
        spec: Arc<RunSpec>,
        started: watch::Sender<bool>,
    ) -> io::Result<Self> {
        let root = RootDir::open(&entry.root())?;
        Ok(Self { inner, entry, spec, root, started })
    }

    async fn begin_process(
        &self,
        step: &Step,
        action: &models::RunAction,
        output: Output,
    ) -> Result<Box<dyn Process>, String> {
        let files = self.entry.step(step);
        let container = self.entry.container();
        let main = Step::root("action");
        let cell_id = &self.inner.config.cell_id;
        let place = Place { cell_id, container: &container, spec: &self.spec, root: &self.root, files: &files };
        let joins = is_monitor(step).then(|| self.running_step(&main)).flatten();
        let launch = self.inner.sandbox.launch(&place, step, action, joins.as_ref())?;
        let guarded = self.entry.out_of_memory.clone();
        let running = process::start(&self.inner.config.shim, files.clone(), &launch, output, guarded).await?;
        if let Ok(Some(identity)) = files.identity() {
            self.processes().insert(step.clone(), identity);
        }
        if step.as_str().starts_with(main.as_str()) {
            self.started.send_replace(true);
        }
        let (inner, entry) = (self.inner.clone(), self.entry.clone());
        Ok(Box::new(Counted { running, inner, entry, step: step.clone() }))
    }

    /// A process of the action that a look can be taken beside.
    fn running_step(&self, below: &Step) -> Option<Step> {
        self.processes().keys().find(|step| step.as_str().starts_with(below.as_str())).cloned()
    }

    fn processes(&self) -> std::sync::MutexGuard<'_, std::collections::BTreeMap<Step, process::files::Identity>> {
        self.entry.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch(&self, step: &Step, action: &models::DownloadAction) -> Result<u64, DownloadFailure> {
        let folder = self.entry.step(step).folder().to_owned();
        let done = folder.join("done.json");
        if let Ok(Some(bytes)) = read(&done) {
            return Ok(bytes);
        }
        let checksum = Checksum::parse(&action.checksum_algorithm, &action.checksum_value);
        let checksum = checksum.map_err(DownloadFailure::Fetch)?;
        let wanted = Wanted { address: &action.from, key: &action.cache_key, checksum: checksum.as_ref() };
        let got = self.inner.cache.get(wanted).await.map_err(|error| DownloadFailure::Fetch(error.to_string()))?;
        let copy = |error: String| DownloadFailure::Copy(error);
        let owner = self.inner.sandbox.owner(&action.user, &self.root).map_err(copy)?;
        let root = self.root.reopen().map_err(|error| copy(error.to_string()))?;
        let (to, bytes_max) = (action.to.clone(), sandbox::disk_bytes_max(&self.entry.container()));
        let unpacked = tokio::task::spawn_blocking(move || unpack::unpack(got.file, &root, &to, owner, bytes_max));
        let unpacked = unpacked.await.map_err(|error| copy(error.to_string()))?;
        unpacked.map_err(|error| copy(error.to_string()))?;
        let noted = fs::create_dir_all(folder).and_then(|()| write(&done, &got.fetched_bytes));
        noted.map_err(|error| copy(error.to_string()))?;
        Ok(got.fetched_bytes)
    }

    async fn send(&self, step: &Step, action: &models::UploadAction) -> Result<u64, String> {
        let folder = self.entry.step(step).folder().to_owned();
        let done = folder.join("done.json");
        if let Ok(Some(bytes)) = read(&done) {
            return Ok(bytes);
        }
        let mut attempts = 0;
        let bytes = loop {
            attempts += 1;
            let file = self.root.read(&action.from).map_err(|error| format!("the file cannot be read: {error}"))?;
            match self.inner.cache.transfer().send(&action.to, file).await {
                Ok(bytes) => break bytes,
                Err(error) if error.is_retryable() && attempts < UPLOAD_ATTEMPTS_MAX => {
                    tracing::info!(%error, attempts, "an upload is tried again");
                }
                Err(error) => return Err(error.to_string()),
            }
        };
        let noted = fs::create_dir_all(folder).and_then(|()| write(&done, &bytes));
        noted.map_err(|error| error.to_string())?;
        Ok(bytes)
    }
}

impl Ground for Grounded {
    fn start<'a>(
        &'a self,
        step: &'a Step,
        action: &'a models::RunAction,
        output: Output,
    ) -> Later<'a, Result<Box<dyn Process>, String>> {
        Box::pin(self.begin_process(step, action, output))
    }

    fn download<'a>(
        &'a self,
        step: &'a Step,
        action: &'a models::DownloadAction,
    ) -> Later<'a, Result<u64, DownloadFailure>> {
        Box::pin(self.fetch(step, action))
    }

    fn upload<'a>(&'a self, step: &'a Step, action: &'a models::UploadAction) -> Later<'a, Result<u64, String>> {
        Box::pin(self.send(step, action))
    }

    fn was_started(&self, step: &Step) -> bool {
        self.entry.step(step).was_started()
    }

    fn begin(&self, step: &Step) -> Option<Duration> {
        if is_monitor(step) {
            return None;
        }
        let folder = self.entry.step(step).folder().to_owned();
        let begun = folder.join("begun.json");
        if let Ok(Some(at_ns)) = read::<i64>(&begun) {
            return Some(Duration::from_nanos(u64::try_from(wall_ns() - at_ns).unwrap_or(0)));
        }
        if let Err(error) = fs::create_dir_all(folder).and_then(|()| write(&begun, &wall_ns())) {
            tracing::warn!(container = %self.entry.guid, %error, "when a step began cannot be noted");
        }
        None
    }

    fn grace(&self) -> Duration {
        self.inner.config.grace
    }
}

fn is_monitor(step: &Step) -> bool {
    step.as_str().starts_with(MONITOR)
}

/// A process that counts for what its container uses, for as long as it runs.
struct Counted {
    running: Running,
    inner: Arc<Inner>,
    entry: Arc<Entry>,
    step: Step,
}

impl Process for Counted {
    fn wait(&self) -> Later<'_, Result<Exit, String>> {
        Box::pin(async move {
            let mut exit = self.running.wait().await;
            if let Ok(exit) = &mut exit
                && exit.status != 0
            {
                exit.out_of_memory |= self.inner.sandbox.was_out_of_memory(self.entry.folder());
            }
            self.entry.processes.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.step);
            if is_monitor(&self.step) {
                // There is one every few seconds, and nobody asks for it again.
                let _ = fs::remove_dir_all(self.entry.step(&self.step).folder());
            }
            exit
        })
    }

    fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }
}
