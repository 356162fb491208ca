//! The default store: an append-only log in one directory on local disk, with the lock on it as the master lock.
//!
//! Promise: an acknowledged step survives the death of the process and of the machine, and is never lost silently. If
//! the files do not add up, the store refuses to open, names file and byte, and changes nothing.
//!
//! Why not an embedded database: the whole state lives in memory above, so we need neither its cache nor its tree on
//! disk; a log appended and synced per group is the floor of what a durable commit costs; and the ruling on a damaged
//! log has to be ours, because to cut it at the first bad byte may drop acknowledged writes without a word.
//!
//! The parts: `frame` is the bytes, `directory` the files, `begin` the first of them, `high` the witness of the newest revision, `recover`
//! the opening, `index` the view and reading, `committer` the thread that writes, `checkpoint` the thread that
//! gathers live records so that old logs can go, `reserve` a little space for a full disk. The layout is drawn in
//! `docs/formats/storage.md`.

mod begin;
mod checkpoint;
mod committer;
mod directory;
mod frame;
mod high;
mod index;
mod recover;
mod reserve;

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use self::checkpoint::{Checkpointer, Request, Stop};
use self::committer::{COMMANDS_MAX, Command, Committer, Reply};
use self::directory::{Directory, Lock};
use self::frame::{FileId, FrameBuilder, narrow};
use self::high::High;
use self::index::{Place, View};
use self::recover::{Recovered, Tail, recover};
use crate::claims::{Claim, Claimed, Held, LocalClaims};
use crate::error::StoreError;
use crate::kv::{BoxFuture, Mastership, Page, Snapshot, Step, Store, check_group};

pub use self::frame::StoreId;

/// The defaults are for production; tests make everything smaller.
#[derive(Clone, Debug)]
pub struct Options {
    /// The identity of a store that has yet to be made. Drawn from the kernel's random source if absent.
    pub store_id: Option<StoreId>,
    /// A log of this size is closed and the next one begun.
    pub segment_bytes: u64,
    /// A checkpoint is worth its while from this much garbage on (and when there is more garbage than live data).
    pub checkpoint_min_bytes: u64,
    /// How fast a checkpoint may write, so that commits keep their share of the disk.
    pub checkpoint_bytes_per_s: u64,
    /// How long to wait after a checkpoint failed.
    pub checkpoint_retry: Duration,
    /// Space set aside for cutting the log back on a full disk.
    pub reserve_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            store_id: None,
            segment_bytes: 64 * 1024 * 1024,
            checkpoint_min_bytes: 256 * 1024 * 1024,
            checkpoint_bytes_per_s: 128 * 1024 * 1024,
            checkpoint_retry: Duration::from_secs(30),
            reserve_bytes: 1024 * 1024,
        }
    }
}

/// What the threads and the readers share.
#[derive(Debug)]
struct Shared {
    directory: Directory,
    lock: Lock,
    store: StoreId,
    options: Options,
    view: RwLock<View>,
    /// The epoch in force; 0 when nobody is master.
    epoch: AtomicU64,
}

impl Shared {
    fn view(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_worth_a_checkpoint(&self) -> bool {
        let view = self.view();
        view.garbage_bytes() > view.live_bytes().max(self.options.checkpoint_min_bytes)
    }
}

/// Reads and commits need a tokio runtime around them: reads go to its blocking threads.
#[derive(Debug)]
pub struct Embedded {
    shared: Arc<Shared>,
    stop: Arc<Stop>,
    /// `None` only while closing.
    commands: Option<mpsc::Sender<Command>>,
    checkpoints: Option<mpsc::Sender<Request>>,
    threads: Vec<JoinHandle<()>>,
    claims: LocalClaims,
    /// Who became master last.
    node: Mutex<String>,
}

impl Embedded {
    /// Opens the store in `dir`, or makes one if the directory is empty or missing. It blocks while it reads all logs.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Embedded, StoreError> {
        let (shared, tail, high) = load(dir.as_ref(), options)?;
        Embedded::start(Arc::new(shared), tail, high)
    }

    fn start(shared: Arc<Shared>, tail: Tail, high: High) -> Result<Embedded, StoreError> {
        let (commands, command_queue) = mpsc::channel(COMMANDS_MAX);
        // One waiting request is enough: a checkpoint serves all who ask before it starts.
        let (checkpoints, request_queue) = mpsc::channel(1);
        let stop = Arc::new(Stop::default());
        let committer = Committer {
            shared: Arc::clone(&shared),
            tail,
            high,
            holder: Weak::new(),
            failed: None,
            checkpoints: checkpoints.clone(),
        };
        let checkpointer =
            Checkpointer { shared: Arc::clone(&shared), commands: commands.downgrade(), stop: Arc::clone(&stop) };
        let mut store = Embedded {
            shared,
            stop,
            commands: Some(commands),
            checkpoints: Some(checkpoints),
            threads: Vec::new(),
            claims: LocalClaims::default(),
            node: Mutex::default(),
        };
        store.spawn("store-commit", move || committer.run(command_queue))?;
        store.spawn("store-checkpoint", move || checkpointer.run(request_queue))?;
        Ok(store)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        let thread =
            thread.map_err(|source| StoreError::Io { doing: format!("starting the thread {name}"), source })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Writes a checkpoint now, for example before a backup, and returns its revision. It waits for one that is under
    /// way.
    pub async fn checkpoint(&self) -> Result<u64, StoreError> {
        let (reply, answer) = oneshot::channel();
        let sender = self.checkpoints.as_ref().ok_or_else(stopped)?;
        sender.send(Request::Now(reply)).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    fn node(&self) -> MutexGuard<'_, String> {
        self.node.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let sender = self.commands.as_ref().ok_or_else(stopped)?;
        sender.send(command(reply)).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

/// The committer ends only with the store, unless it panicked; then nobody knows what it had done.
fn stopped() -> StoreError {
    StoreError::Failed { why: "its writing thread has ended".into() }
}

/// Takes the lock, reads everything, and tidies up once the store is known to be whole.
fn load(dir: &Path, options: Options) -> Result<(Shared, Tail, High), StoreError> {
    let directory = Directory::open(dir)?;
    // Judged before the lock file is made, because a foreign directory is left as it is; and once more under the lock,
    // because somebody else may just have made a store here.
    directory.is_formatted()?;
    let lock = directory.lock()?;
    if !directory.is_formatted()? {
        create(&directory, &options)?;
    }
    let store = directory.read_format()?;
    let high = High::open(&directory, store)?;
    let Recovered { view, tail, superfluous, torn } = recover(&directory, store, &high)?;
    for path in &superfluous {
        fs::remove_file(path).map_err(|error| StoreError::from_io("removing", path, error))?;
    }
    if torn {
        let cut = tail.data.file.set_len(tail.end).and_then(|()| tail.data.file.sync_all());
        cut.map_err(|error| StoreError::from_io("cutting off the torn end of", &tail.data.path, error))?;
    }
    lock.sign(&format!("process {}", std::process::id()));
    reserve::refill(&directory, options.reserve_bytes);
    let view = RwLock::new(view);
    Ok((Shared { directory, lock, store, options, view, epoch: AtomicU64::new(0) }, tail, high))
}

/// `FORMAT` comes last: as long as it is missing, the store has not begun.
fn create(directory: &Directory, options: &Options) -> Result<(), StoreError> {
    let store = match options.store_id {
        Some(id) => id,
        None => random_id()?,
    };
    High::create(directory, store)?;
    begin::make_first(directory, store)?;
    directory.write_format(store)
}

fn random_id() -> Result<StoreId, StoreError> {
    let path = Path::new("/dev/urandom");
    let mut id = [0; 16];
    let read = File::open(path).and_then(|mut source| source.read_exact(&mut id));
    read.map_err(|error| StoreError::from_io("reading", path, error))?;
    Ok(StoreId(id))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => {
            Err(StoreError::Io { doing: "reading on a blocking thread".into(), source: std::io::Error::other(error) })
        }
    }
}

async fn scan(view: View, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page, StoreError> {
    let (prefix, after) = (prefix.to_owned(), after.map(str::to_owned));
    blocking(move || {
        let (keys, more) = view.page(&prefix, after.as_deref(), limit);
        let places: Vec<Place> = keys.iter().map(|(_, place)| *place).collect();
        let values = view.read(&places)?;
        let next = keys.last().filter(|_| more).map(|(key, _)| key.to_string());
        let records = keys.into_iter().zip(values).map(|((key, _), value)| (key.to_string(), value)).collect();
        Ok(Page { records, next })
    })
    .await
}

/// The index of one moment. The files that it points into stay open, also when a checkpoint has removed them.
impl Snapshot for View {
    fn revision(&self) -> u64 {
        self.revision
    }

    fn records(&self) -> u64 {
        self.index.len() as u64
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>> {
        Box::pin(scan(self.clone(), prefix, after, limit))
    }
}

impl Store for Embedded {
    fn campaign<'a>(&'a self, node: &'a str) -> BoxFuture<'a, Result<Mastership, StoreError>> {
        Box::pin(async move {
            let held = self.ask(|reply| Command::Campaign { node: node.to_owned(), reply }).await?;
            node.clone_into(&mut self.node());
            Ok(held)
        })
    }

    fn holder(&self) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        Box::pin(async move {
            let is_held = self.shared.epoch.load(Ordering::SeqCst) != 0;
            Ok(is_held.then(|| self.node().clone()))
        })
    }

    fn resign(&self, held: Mastership) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            // Only the epoch in force is ended. The directory lock stays with the process until the store is dropped.
            let _ = self.shared.epoch.compare_exchange(held.epoch(), 0, Ordering::SeqCst, Ordering::SeqCst);
            Ok(())
        })
    }

    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Claimed, StoreError>> {
        Box::pin(async move { self.claims.claim(claim) })
    }

    fn release<'a>(&'a self, key: &'a str, owner: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            self.claims.release(key, owner);
            Ok(())
        })
    }

    fn claims<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Held>, StoreError>> {
        Box::pin(async move { Ok(self.claims.claims(prefix)) })
    }

    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Bytes>, StoreError>> {
        Box::pin(async move {
            let view = self.shared.view().clone();
            let key = key.to_owned();
            blocking(move || view.get(&key)).await
        })
    }

    fn scan<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Page, StoreError>> {
        let view = self.shared.view().clone();
        Box::pin(scan(view, prefix, after, limit))
    }

    fn commit<'a>(&'a self, held: &'a Mastership, steps: &'a [Step]) -> BoxFuture<'a, Result<u64, StoreError>> {
        Box::pin(async move {
            check_group(steps)?;
            // The frame is built here, on the caller's time; the committer only writes.
            let frame = FrameBuilder::of_steps(steps);
            let (epoch, steps) = (held.epoch(), narrow(steps.len()));
            self.ask(|reply| Command::Commit { epoch, frame, steps, reply }).await
        })
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Arc<dyn Snapshot>, StoreError>> {
        Box::pin(async move { Ok(Arc::new(self.shared.view().clone()) as Arc<dyn Snapshot>) })
    }

    fn begin_after<'a>(&'a self, held: &'a Mastership, revision: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        let epoch = held.epoch();
        Box::pin(self.ask(move |reply| Command::BeginAfter { epoch, revision, reply }))
    }

    fn forget_superseded(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move { self.checkpoint().await.map(|_| ()) })
    }

    fn revision(&self) -> u64 {
        self.shared.view().revision
    }

    fn describe(&self) -> String {
        let view = self.shared.view();
        let total = view.total_bytes();
        let segments = view.files.values().filter(|(data, _)| matches!(data.id, FileId::Log(_))).count();
        let garbage = view.garbage_bytes().saturating_mul(100).checked_div(total).unwrap_or(0);
        format!(
            "embedded at {}, {segments} {}, {} MB, {garbage} % garbage",
            self.shared.directory.path().display(),
            if segments == 1 { "segment" } else { "segments" },
            total.div_ceil(1_000_000),
        )
    }
}

impl Drop for Embedded {
    /// Waits for the threads, so that whoever opens the directory next finds it at rest. The lock goes last.
    fn drop(&mut self) {
        self.stop.stop();
        self.commands = None;
        self.checkpoints = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::index::DataFile;
    use super::*;

    fn put(key: &str) -> [Step; 1] {
        let mut step = Step::default();
        step.put(key, "x");
        [step]
    }

    /// A store with one record, whose log then turns into `file`.
    async fn with_log(dir: &Path, file: File) -> (Embedded, Mastership) {
        let options = Options { reserve_bytes: 1, ..Options::default() };
        let store = Embedded::open(dir, options.clone()).unwrap();
        let held = store.campaign("test").await.unwrap();
        store.commit(&held, &put("/a")).await.unwrap();
        drop((store, held));
        let (shared, mut tail, high) = load(dir, options).unwrap();
        tail.data = Arc::new(DataFile { id: tail.data.id, path: tail.data.path.clone(), file });
        let store = Embedded::start(Arc::new(shared), tail, high).unwrap();
        let held = store.campaign("test").await.unwrap();
        (store, held)
    }

    async fn check_failed(dir: &Path, file: File, expected: &str) {
        let (store, held) = with_log(dir, file).await;
        let error = store.commit(&held, &put("/b")).await.unwrap_err();
        assert!(matches!(error, StoreError::Unconfirmed { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(error.outcome_unknown());
        let error = store.commit(&held, &put("/c")).await.unwrap_err();
        assert!(matches!(error, StoreError::Failed { .. }), "{error}");
        assert!(store.checkpoint().await.is_err(), "no checkpoint builds on what nobody can know");
        assert_eq!(store.revision(), 1);
        assert!(store.get("/a").await.unwrap().is_some(), "reads go on");
        drop((store, held));
        let store = Embedded::open(dir, Options::default()).unwrap();
        assert_eq!(store.revision(), 1);
        let held = store.campaign("test").await.unwrap();
        assert_eq!(store.commit(&held, &put("/c")).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_write_that_fails_stops_the_store_until_it_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let read_only = File::open("/dev/null").unwrap();
        check_failed(dir.path(), read_only, "failed while writing").await;
    }

    #[tokio::test]
    async fn a_full_disk_on_which_the_log_cannot_be_cut_stops_the_store() {
        let dir = tempfile::tempdir().unwrap();
        // Every write to this device finds it full, and it cannot be shortened either.
        let full = File::options().write(true).open("/dev/full").unwrap();
        check_failed(dir.path(), full, "failed while cutting an unfinished write off").await;
    }

    #[tokio::test]
    async fn a_sync_that_fails_stops_the_store() {
        let dir = tempfile::tempdir().unwrap();
        // This device takes every write and cannot be synced.
        let unsyncable = File::options().write(true).open("/dev/null").unwrap();
        check_failed(dir.path(), unsyncable, "failed while syncing").await;
    }

    #[tokio::test]
    async fn status_is_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let store = Embedded::open(dir.path(), Options::default()).unwrap();
        let held = store.campaign("test").await.unwrap();
        store.commit(&held, &put("/a")).await.unwrap();
        let line = store.describe();
        assert_eq!(line, format!("embedded at {}, 1 segment, 1 MB, 87 % garbage", dir.path().display()));
    }
}
