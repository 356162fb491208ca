//! Files that were fetched, kept for the next container that wants the same.
//!
//! A file is known by its cache key; without one it is fetched anew each time. Several that want one key at the same time cause
//! one fetch. A file whose checksum is known and wanted again is used without asking; otherwise the server is asked whether it
//! has changed. What is kept is bounded: what was not used for longest goes first, and who still reads it is not disturbed,
//! because an open file stays until it is closed.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use aws_lc_rs::digest;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use super::super::process::files::{read, write};
use super::checksum::{Checksum, hex};
use super::transfer::{Fetched, Transfer, TransferError, Validators};

/// How many files are fetched at the same time; the others wait for their turn.
const FETCHES_AT_ONCE_MAX: usize = 5;
const ATTEMPTS_MAX: usize = 3;
/// The largest file that is fetched.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CacheError {
    #[error(transparent)]
    Transfer(#[from] TransferError),
    #[error("the download is damaged: {0}")]
    Checksum(String),
    #[error("the download is larger than {FILE_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the cache in {folder} cannot be used: {source}", folder = folder.display())]
    Folder { folder: PathBuf, source: io::Error },
}

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) address: &'a str,
    pub(crate) key: &'a str,
    pub(crate) checksum: Option<&'a Checksum>,
}

/// A file, and how many bytes had to be fetched for it.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) file: File,
    pub(crate) fetched_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    bytes_max: u64,
    transfer: Transfer,
    turns: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kept: HashMap<String, Kept>,
    /// Who fetches a key holds its lock; the others wait for it and then find the file.
    fetching: HashMap<String, Weak<tokio::sync::Mutex<()>>>,
    uses: u64,
}

#[derive(Debug)]
struct Kept {
    bytes: u64,
    last_use: u64,
    note: Note,
}

/// What is known of a file that is kept, beside it on the disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Note {
    validators: Validators,
    /// The checksum that it was found to have.
    checksum: Option<String>,
}

impl Cache {
    /// Finds again what was kept. Anything else in the folder is removed.
    pub(crate) fn open(folder: PathBuf, bytes_max: u64, transfer: Transfer) -> Result<Self, CacheError> {
        let kept = find(&folder).map_err(|source| CacheError::Folder { folder: folder.clone(), source })?;
        let state = Mutex::new(State { kept, ..State::default() });
        let cache = Self { folder, bytes_max, transfer, turns: Semaphore::new(FETCHES_AT_ONCE_MAX), state };
        cache.evict();
        Ok(cache)
    }

    pub(crate) fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    pub(crate) async fn get(&self, wanted: Wanted<'_>) -> Result<Got, CacheError> {
        if wanted.key.is_empty() {
            let (file, bytes, _) = self.fetch(wanted, &Validators::default()).await?.ok_or_else(unasked)?;
            return Ok(Got { file, fetched_bytes: bytes });
        }
        let name = hex(digest::digest(&digest::SHA256, wanted.key.as_bytes()).as_ref());
        let lock = self.lock(&name);
        let _held = lock.lock().await;
        let known = self.known(&name);
        if let (Some((file, note)), Some(checksum)) = (&known, wanted.checksum)
            && note.checksum.as_deref() == Some(checksum.shown().as_str())
            && let Ok(file) = file.try_clone()
        {
            return Ok(Got { file, fetched_bytes: 0 });
        }
        // One that does not have the checksum that is wanted now is not worth asking for.
        let usable = known.filter(|_| wanted.checksum.is_none());
        let validators = usable.as_ref().map(|(_, note)| note.validators.clone()).unwrap_or_default();
        match (self.fetch(wanted, &validators).await?, usable) {
            (Some((file, bytes, validators)), _) => {
                let note = Note { validators, checksum: wanted.checksum.map(Checksum::shown) };
                self.keep(&name, bytes, note).map_err(|source| self.failed(source))?;
                Ok(Got { file, fetched_bytes: bytes })
            }
            (None, Some((file, _))) => Ok(Got { file, fetched_bytes: 0 }),
            (None, None) => Err(unasked()),
        }
    }

    fn failed(&self, source: io::Error) -> CacheError {
        CacheError::Folder { folder: self.folder.clone(), source }
    }

    fn lock(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut state = self.state();
        state.fetching.retain(|_, lock| lock.strong_count() > 0);
        let lock = state.fetching.get(name).and_then(Weak::upgrade).unwrap_or_default();
        state.fetching.insert(name.to_owned(), Arc::downgrade(&lock));
        lock
    }

    fn known(&self, name: &str) -> Option<(File, Note)> {
        let mut state = self.state();
        state.uses += 1;
        let uses = state.uses;
        let kept = state.kept.get_mut(name)?;
        kept.last_use = uses;
        let file = File::open(self.folder.join(name)).ok()?;
        Some((file, kept.note.clone()))
    }

    /// The file and its bytes, or nothing if the one that we have is still right.
    async fn fetch(
        &self,
        wanted: Wanted<'_>,
        known: &Validators,
    ) -> Result<Option<(File, u64, Validators)>, CacheError> {
        let _turn = self.turns.acquire().await;
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.attempt(wanted, known).await {
                Err(CacheError::Transfer(error)) if error.is_retryable() && attempts < ATTEMPTS_MAX => {
                    tracing::info!(%error, attempts, "a download is tried again");
                }
                outcome => return outcome,
            }
        }
    }

    async fn attempt(
        &self,
        wanted: Wanted<'_>,
        known: &Validators,
    ) -> Result<Option<(File, u64, Validators)>, CacheError> {
        let mut remote = match self.transfer.fetch(wanted.address, known).await? {
            Fetched::Unchanged => return Ok(None),
            Fetched::Local(file) => return self.copy(file, wanted).map(Some),
            Fetched::Remote(remote) => remote,
        };
        let mut draft = Draft::new(&self.folder, wanted).map_err(|source| self.failed(source))?;
        while let Some(piece) = remote.next().await? {
            draft.add(&piece, |source| self.failed(source))?;
        }
        let (file, bytes) = draft.finish(wanted, |source| self.failed(source))?;
        Ok(Some((file, bytes, remote.validators.clone())))
    }

    fn copy(&self, mut file: File, wanted: Wanted<'_>) -> Result<(File, u64, Validators), CacheError> {
        let mut draft = Draft::new(&self.folder, wanted).map_err(|source| self.failed(source))?;
        let mut piece = vec![0; 64 * 1024];
        loop {
            let bytes = io::Read::read(&mut file, &mut piece).map_err(TransferError::from)?;
            if bytes == 0 {
                let (file, bytes) = draft.finish(wanted, |source| self.failed(source))?;
                return Ok((file, bytes, Validators::default()));
            }
            draft.add(&piece[..bytes], |source| self.failed(source))?;
        }
    }

    fn keep(&self, name: &str, bytes: u64, note: Note) -> io::Result<()> {
        let draft = self.folder.join(format!("{name}.draft"));
        // One that is too large for the cache is used and not kept.
        if bytes > self.bytes_max {
            return fs::remove_file(draft);
        }
        write(&self.folder.join(format!("{name}.json")), &note)?;
        fs::rename(draft, self.folder.join(name))?;
        let mut state = self.state();
        let last_use = state.uses;
        state.kept.insert(name.to_owned(), Kept { bytes, last_use, note });
        drop(state);
        self.evict();
        Ok(())
    }

    fn evict(&self) {
        let mut state = self.state();
        let mut total: u64 = state.kept.values().map(|kept| kept.bytes).sum();
        while total > self.bytes_max {
            let oldest = state.kept.iter().min_by_key(|(_, kept)| kept.last_use).map(|(name, _)| name.clone());
            let Some(name) = oldest else { return };
            total -= state.kept.remove(&name).map_or(0, |kept| kept.bytes);
            let _ = fs::remove_file(self.folder.join(&name));
            let _ = fs::remove_file(self.folder.join(format!("{name}.json")));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unasked() -> CacheError {
    CacheError::Checksum("the server says that it has not changed, and was not asked".to_owned())
}

fn find(folder: &Path) -> io::Result<HashMap<String, Kept>> {
    fs::create_dir_all(folder)?;
    let mut kept = HashMap::new();
    for entry in fs::read_dir(folder)? {
        let (path, meta) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if name.ends_with(".json") && folder.join(name.trim_end_matches(".json")).exists() {
            continue;
        }
        match read::<Note>(&folder.join(format!("{name}.json"))) {
            Ok(Some(note)) => drop(kept.insert(name, Kept { bytes: meta.len(), last_use: 0, note })),
            _ => fs::remove_file(path)?,
        }
    }
    Ok(kept)
}

/// A file that is being written, with its checksum so far.
struct Draft {
    file: File,
    path: Option<PathBuf>,
    bytes: u64,
    running: Option<super::checksum::Running>,
}

impl Draft {
    fn new(folder: &Path, wanted: Wanted<'_>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        let (file, path) = if wanted.key.is_empty() {
            (
                File::from(rustix::fs::open(
                    folder,
                    rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
                    rustix::fs::Mode::from_raw_mode(0o600),
                )?),
                None,
            )
        } else {
            let name = hex(digest::digest(&digest::SHA256, wanted.key.as_bytes()).as_ref());
            let path = folder.join(format!("{name}.draft"));
            (options.create(true).truncate(true).open(&path)?, Some(path))
        };
        Ok(Self { file, path, bytes: 0, running: wanted.checksum.map(Checksum::begin) })
    }

    fn add(&mut self, piece: &[u8], failed: impl Fn(io::Error) -> CacheError) -> Result<(), CacheError> {
        self.bytes += piece.len() as u64;
        if self.bytes > FILE_BYTES_MAX {
            return Err(CacheError::TooLarge);
        }
        if let Some(running) = &mut self.running {
            running.update(piece);
        }
        self.file.write_all(piece).map_err(failed)
    }

    fn finish(
        mut self,
        wanted: Wanted<'_>,
        failed: impl Fn(io::Error) -> CacheError,
    ) -> Result<(File, u64), CacheError> {
        if let (Some(checksum), Some(running)) = (wanted.checksum, self.running.take()) {
            checksum.check(running).map_err(CacheError::Checksum)?;
        }
        self.file.rewind().map_err(&failed)?;
        self.path = None;
        Ok((self.file.try_clone().map_err(failed)?, self.bytes))
    }
}

impl Drop for Draft {
    /// One that was not finished is of no use to anybody.
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}
