//! The directory of an embedded store: what may be in it, who may use it, how a file comes into being.
//!
//! Promise: a directory that is not ours is never touched, one of ours is used by one process at a time, and a file
//! with a final name is complete and durable (it is written under a `.tmp` name, synced and renamed). Unknown files
//! beside ours are left alone. The records may hold secrets, so everything is readable by the owner only.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::frame::{FILE_HEADER_BYTES, FORMAT_VERSION, FRAME_HEADER_BYTES, FileId, StoreId};
use super::high::HIGH_NAME;
use super::reserve::RESERVE_NAME;
use crate::error::StoreError;

/// A process that is just being forked holds its parent's lock until it becomes another program, so a lock that was given
/// up may seem taken for a moment.
const LOCK_RETRIES_MAX: usize = 20;
const LOCK_RETRY_PAUSE: std::time::Duration = std::time::Duration::from_millis(10);

const LOCK_NAME: &str = "LOCK";
pub(super) const FORMAT_NAME: &str = "FORMAT";
const TEMPORARY_SUFFIX: &str = ".tmp";
const FORMAT_TITLE: &str = "corkboard store";
/// More than any `LOCK` or `FORMAT` of ours; a larger file is not read further.
const TEXT_BYTES_MAX: u64 = 4_096;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Data(FileId),
    Format,
    /// `LOCK`, `HIGH` and `RESERVE`, which carry no records.
    Side,
    /// A file that was never finished.
    Temporary(String),
    Unknown(String),
}

impl Entry {
    fn parse(name: &str) -> Entry {
        let numbered = |prefix: &str, suffix: &str| {
            let digits = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
            let canonical = digits.len() == 16 && digits.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
            canonical.then(|| u64::from_str_radix(digits, 16).ok())?
        };
        if let Some(number) = numbered("log-", ".log") {
            return Entry::Data(FileId::Log(number));
        }
        if let Some(number) = numbered("checkpoint-", ".ckpt") {
            return Entry::Data(FileId::Checkpoint(number));
        }
        match name {
            FORMAT_NAME => Entry::Format,
            LOCK_NAME | HIGH_NAME | RESERVE_NAME => Entry::Side,
            _ => match name.strip_suffix(TEMPORARY_SUFFIX).map(Entry::parse) {
                Some(Entry::Unknown(_) | Entry::Temporary(_)) | None => Entry::Unknown(name.to_owned()),
                Some(_) => Entry::Temporary(name.to_owned()),
            },
        }
    }
}

#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    handle: File,
}

impl Directory {
    /// Opens the directory, or makes it when the one above exists. Nothing is made further up: a missing parent is
    /// more often a disk that is not mounted than a wish for a new store.
    pub(super) fn open(path: &Path) -> Result<Directory, StoreError> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Err(StoreError::NotADirectory { path: path.to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => create_directory(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(StoreError::NotADirectory { path: path.to_owned() });
            }
            Err(error) => return Err(StoreError::from_io("opening", path, error)),
        }
        Directory::open_existing(path)
    }

    pub(super) fn open_existing(path: &Path) -> Result<Directory, StoreError> {
        let handle = File::open(path).map_err(|error| StoreError::from_io("opening", path, error))?;
        Ok(Directory { path: path.to_owned(), handle })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn entries(&self) -> Result<Vec<Entry>, StoreError> {
        let failed = |error| StoreError::from_io("listing", &self.path, error);
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            // A freshly made file system has this folder at its top.
            if name != "lost+found" {
                entries.push(Entry::parse(&name.to_string_lossy()));
            }
        }
        Ok(entries)
    }

    pub(super) fn lock(&self) -> Result<Lock, StoreError> {
        let path = self.path.join(LOCK_NAME);
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| StoreError::from_io("opening", &path, error))?;
        let mut taken = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        for _ in 0..LOCK_RETRIES_MAX {
            if taken != Err(rustix::io::Errno::WOULDBLOCK) {
                break;
            }
            std::thread::sleep(LOCK_RETRY_PAUSE);
            taken = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        }
        match taken {
            Ok(()) => Ok(Lock { file }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut owner = String::new();
                // The text only helps the reader of the message, so an unreadable one is no second error.
                let _ = (&mut file).take(TEXT_BYTES_MAX).read_to_string(&mut owner);
                let owner =
                    if owner.trim().is_empty() { "another process".to_owned() } else { owner.trim().to_owned() };
                Err(StoreError::Locked { dir: self.path.clone(), owner })
            }
            Err(errno) => Err(StoreError::from_io("locking", &path, errno.into())),
        }
    }

    /// Writes a whole file under its final name, durably, and returns it open for reading and writing. On failure
    /// nothing stays behind.
    pub(super) fn publish(&self, name: &str, bytes: &[u8]) -> Result<File, StoreError> {
        let (mut file, temporary) = self.create_temporary(name)?;
        let result = file.write_all(bytes).and_then(|()| file.sync_all());
        if let Err(error) = result {
            drop(fs::remove_file(&temporary));
            return Err(StoreError::from_io("writing", &temporary, error));
        }
        self.rename(&temporary, name)?;
        Ok(file)
    }

    pub(super) fn create_temporary(&self, name: &str) -> Result<(File, PathBuf), StoreError> {
        let temporary = self.path.join(format!("{name}{TEMPORARY_SUFFIX}"));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)
            .map_err(|error| StoreError::from_io("creating", &temporary, error))?;
        Ok((file, temporary))
    }

    /// Gives a synced file its final name, durably.
    pub(super) fn rename(&self, temporary: &Path, name: &str) -> Result<(), StoreError> {
        let path = self.path.join(name);
        if let Err(error) = fs::rename(temporary, &path) {
            drop(fs::remove_file(temporary));
            return Err(StoreError::from_io("renaming", &path, error));
        }
        self.sync()
    }

    /// Never answers `NoSpace`, which promises that nothing was written: a rename may already have happened.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        let doing = || format!("syncing {}", self.path.display());
        self.handle.sync_all().map_err(|source| StoreError::Io { doing: doing(), source })
    }

    pub(super) fn write_format(&self, store: StoreId) -> Result<(), StoreError> {
        let text = format!("{FORMAT_TITLE}\nformat {FORMAT_VERSION}\nid {store}\n");
        self.publish(FORMAT_NAME, text.as_bytes()).map(drop)
    }

    pub(super) fn read_format(&self) -> Result<StoreId, StoreError> {
        let path = self.path.join(FORMAT_NAME);
        let mut text = Vec::new();
        File::open(&path)
            .and_then(|file| file.take(TEXT_BYTES_MAX).read_to_end(&mut text))
            .map_err(|error| StoreError::from_io("reading", &path, error))?;
        let text = String::from_utf8_lossy(&text);
        let mut lines = text.lines();
        let damaged = |what| StoreError::damaged(&path, 0, what);
        if lines.next() != Some(FORMAT_TITLE) {
            return Err(damaged("the first line is not that of a store"));
        }
        let version = lines.next().and_then(|line| line.strip_prefix("format ")?.parse::<u64>().ok());
        let found = version.ok_or_else(|| damaged("the second line does not name a format"))?;
        let supported = u64::from(FORMAT_VERSION);
        if found != supported {
            return Err(StoreError::Unsupported { dir: self.path.clone(), found, supported });
        }
        let id = lines.next().and_then(|line| StoreId::parse(line.strip_prefix("id ")?));
        id.ok_or_else(|| damaged("the third line does not name the store"))
    }

    /// Whether a store is here already. Anything that is neither a store nor the beginning of one is refused.
    pub(super) fn is_formatted(&self) -> Result<bool, StoreError> {
        let entries = self.entries()?;
        if entries.contains(&Entry::Format) {
            return Ok(true);
        }
        let is_here = |id| entries.contains(&Entry::Data(id));
        for entry in &entries {
            match entry {
                Entry::Unknown(example) => {
                    let (dir, example) = (self.path.clone(), example.clone());
                    return Err(StoreError::ForeignDirectory { dir, example });
                }
                // `FORMAT` is written last, so a first log without records is an interrupted beginning.
                Entry::Data(id) if !self.is_of_a_beginning(*id, is_here)? => {
                    let path = self.path.join(FORMAT_NAME);
                    return Err(StoreError::damaged(
                        &path,
                        0,
                        format!("it is missing, although {} is here", id.name()),
                    ));
                }
                Entry::Data(_) | Entry::Format | Entry::Side | Entry::Temporary(_) => {}
            }
        }
        Ok(false)
    }

    /// The first log and what it follows, without a record. A later log is the first one behind an empty checkpoint.
    fn is_of_a_beginning(&self, id: FileId, is_here: impl Fn(FileId) -> bool) -> Result<bool, StoreError> {
        let path = self.path.join(id.name());
        let metadata = fs::metadata(&path).map_err(|error| StoreError::from_io("reading", &path, error))?;
        let bytes = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        Ok(match id {
            FileId::Log(first) => {
                let is_first = first == 1 || is_here(FileId::Checkpoint(first.saturating_sub(1)));
                is_first && bytes <= FILE_HEADER_BYTES
            }
            FileId::Checkpoint(_) => bytes <= FILE_HEADER_BYTES + FRAME_HEADER_BYTES,
        })
    }

    pub(super) fn data_files(&self) -> Result<Vec<FileId>, StoreError> {
        let data = |entry| match entry {
            Entry::Data(id) => Some(id),
            Entry::Format | Entry::Side | Entry::Temporary(_) | Entry::Unknown(_) => None,
        };
        Ok(self.entries()?.into_iter().filter_map(data).collect())
    }
}

fn create_directory(path: &Path) -> Result<(), StoreError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(StoreError::NoParent { dir: path.to_owned() });
        }
        Err(error) => return Err(StoreError::from_io("creating", path, error)),
    }
    // A relative path of one part has the empty path above it, which stands for the working directory.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)
        .and_then(|parent| parent.sync_all())
        .map_err(|error| StoreError::from_io("syncing", parent, error))
}

/// The directory is ours as long as this lives. The kernel lets go of it when the process dies, however it dies.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
}

impl Lock {
    /// Leaves a word about the owner for whoever finds the directory locked. It may fail on a full disk, which harms
    /// nobody.
    pub(super) fn sign(&self, owner: &str) {
        use std::os::unix::fs::FileExt;
        let text = format!("{owner}\n");
        let _ = self.file.set_len(0).and_then(|()| self.file.write_all_at(text.as_bytes(), 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let check = |name: &str, expected: Entry| assert_eq!(Entry::parse(name), expected, "{name}");
        let log = FileId::Log(0x1f);
        assert_eq!(log.name(), "log-000000000000001f.log");
        check(&log.name(), Entry::Data(log));
        check(&FileId::Checkpoint(3).name(), Entry::Data(FileId::Checkpoint(3)));
        check("log-000000000000001F.log", Entry::Unknown("log-000000000000001F.log".into()));
        check("log-1f.log", Entry::Unknown("log-1f.log".into()));
        check("checkpoint-0000000000000003.ckpt.tmp", Entry::Temporary("checkpoint-0000000000000003.ckpt.tmp".into()));
        check("FORMAT", Entry::Format);
        check("FORMAT.tmp", Entry::Temporary("FORMAT.tmp".into()));
        check("HIGH", Entry::Side);
        check("notes.tmp", Entry::Unknown("notes.tmp".into()));
        check("x.tmp.tmp", Entry::Unknown("x.tmp.tmp".into()));
    }

    #[test]
    fn format_is_read_back_and_judged() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::open(temporary.path()).unwrap();
        directory.write_format(StoreId([9; 16])).unwrap();
        assert_eq!(directory.read_format().unwrap(), StoreId([9; 16]));
        let check = |text: &str| {
            fs::write(temporary.path().join(FORMAT_NAME), text).unwrap();
            directory.read_format().unwrap_err()
        };
        assert!(matches!(check("corkboard store\nformat 2\nid x\n"), StoreError::Unsupported { found: 2, .. }));
        assert!(matches!(check("corkboard store\nformat 1\nid 12\n"), StoreError::Damaged { .. }));
        assert!(matches!(check("corkboard store\n"), StoreError::Damaged { .. }));
        assert!(matches!(check(""), StoreError::Damaged { .. }));
    }

    #[test]
    fn a_lock_names_its_owner_to_the_second_comer() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::open(temporary.path()).unwrap();
        let lock = directory.lock().unwrap();
        lock.sign("process 42, node a");
        match directory.lock() {
            Err(StoreError::Locked { owner, .. }) => assert_eq!(owner, "process 42, node a"),
            other => panic!("{other:?}"),
        }
        drop(lock);
        directory.lock().unwrap();
    }
}
