//! The checkpoint: all live records in one file, in key order, so that the logs before it can go.
//!
//! Promise: a crash at any point leaves either the old files or the checkpoint, complete; a failure is logged, tried
//! again later, and never harms a commit. The order is what makes it safe: close the log, write `.tmp`, sync, rename,
//! sync the directory, move the index over, and only then delete. When a crash comes before the deletions, opening
//! finds the checkpoint and removes what it replaced.
//!
//! The thread writes in small synced pieces and pauses between them. One large sync at the end would hold up the
//! commits' own syncs behind gigabytes of dirty pages.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::committer::{Command, Reply};
use super::frame::{FRAME_HEADER_BYTES, FileId, FrameBuilder, FrameKind, Salt, encode_file_header, narrow};
use super::index::{DataFile, Place, View};
use super::{Shared, reserve};
use crate::error::StoreError;

/// Records are gathered into blocks of about this size; one block is one frame.
const BLOCK_BYTES: usize = 1024 * 1024;
/// A commit waits for the sync that is under way, so this is how long a client may have to wait for it.
const SYNC_EVERY_BYTES: u64 = 1024 * 1024;
/// How many index entries move over while readers and the committer wait.
const RELOCATE_AT_ONCE: usize = 512;
const RELOCATE_PAUSE: Duration = Duration::from_micros(200);

#[derive(Debug)]
pub(super) enum Request {
    /// The committer saw much garbage. A request too many does nothing.
    Garbage,
    Now(Reply<u64>),
}

/// Tells the thread to stop, also in the middle of a pause.
#[derive(Debug, Default)]
pub(super) struct Stop {
    stopped: Mutex<bool>,
    wake: Condvar,
}

impl Stop {
    pub(super) fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.notify_all();
    }

    /// Waits, and says whether to stop.
    fn pause(&self, time: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.wake.wait_timeout_while(stopped, time, |stopped| !*stopped);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[derive(Debug)]
pub(super) struct Checkpointer {
    pub(super) shared: Arc<Shared>,
    /// Weak, so that this thread does not keep the committer alive.
    pub(super) commands: mpsc::WeakSender<Command>,
    pub(super) stop: Arc<Stop>,
}

impl Checkpointer {
    /// Works until every sender is gone.
    pub(super) fn run(self, mut requests: mpsc::Receiver<Request>) {
        while let Some(request) = requests.blocking_recv() {
            match request {
                Request::Now(reply) => {
                    let _ = reply.send(self.checkpoint());
                }
                Request::Garbage if self.shared.is_worth_a_checkpoint() => {
                    if let Err(error) = self.checkpoint()
                        && !self.stop.pause(Duration::ZERO)
                    {
                        let retry = self.shared.options.checkpoint_retry;
                        let error: &dyn std::error::Error = &error;
                        tracing::warn!(
                            error,
                            ?retry,
                            "a checkpoint failed; commits go on, and it is tried again later"
                        );
                        self.stop.pause(retry);
                    }
                }
                Request::Garbage => {}
            }
        }
    }

    fn checkpoint(&self) -> Result<u64, StoreError> {
        let snapshot = self.boundary()?;
        let id = FileId::Checkpoint(snapshot.revision);
        let unchanged = snapshot.files.values().any(|(data, _)| data.id == id);
        if snapshot.revision == 0 || unchanged {
            return Ok(snapshot.revision);
        }
        let (file, temporary) = self.shared.directory.create_temporary(&id.name())?;
        let written = self.write_records(&file, &snapshot, id, &temporary);
        let (offsets, bytes) = match written {
            Ok(written) => written,
            Err(error) => {
                drop(fs::remove_file(&temporary));
                return Err(error);
            }
        };
        let path = self.shared.directory.path().join(id.name());
        if let Err(error) = self.shared.directory.rename(&temporary, &id.name()) {
            // The old files are all still there, so a checkpoint that may not be durable can go again.
            drop(fs::remove_file(&path));
            return Err(error);
        }
        self.move_over(&snapshot, Arc::new(DataFile { id, path, file }), &offsets, bytes);
        self.delete_replaced(snapshot.revision);
        reserve::refill(&self.shared.directory, self.shared.options.reserve_bytes);
        Ok(snapshot.revision)
    }

    fn boundary(&self) -> Result<View, StoreError> {
        let closing = || StoreError::Failed { why: "the store is being closed".into() };
        let (reply, answer) = oneshot::channel();
        let commands = self.commands.upgrade().ok_or_else(closing)?;
        commands.blocking_send(Command::Boundary { reply }).map_err(|_| closing())?;
        drop(commands);
        answer.blocking_recv().map_err(|_| closing())?
    }

    /// Streams the records into the file. Returns where each value lies, in key order, and the size of the file.
    fn write_records(
        &self,
        file: &File,
        snapshot: &View,
        id: FileId,
        path: &Path,
    ) -> Result<(Vec<u64>, u64), StoreError> {
        let failed = |error: io::Error| StoreError::from_io("writing", path, error);
        let salt = Salt::new(self.shared.store, id);
        let header = encode_file_header(self.shared.store, id);
        file.write_all_at(&header, 0).map_err(failed)?;
        let mut end = header.len() as u64;
        let mut synced = 0;
        let mut offsets = Vec::with_capacity(snapshot.index.len());
        let mut records = snapshot.index.iter().peekable();
        while records.peek().is_some() {
            let mut block: Vec<(Arc<str>, Place)> = Vec::new();
            let mut block_bytes = 0;
            while block_bytes < BLOCK_BYTES
                && let Some((key, place)) = records.next()
            {
                block_bytes += key.len() + place.bytes as usize;
                block.push((Arc::clone(key), *place));
            }
            let places: Vec<Place> = block.iter().map(|(_, place)| *place).collect();
            let values = snapshot.read(&places)?;
            let mut frame = FrameBuilder::with_capacity(block_bytes + block.len() * 8);
            frame.begin_step(block.len());
            for ((key, place), value) in block.into_iter().zip(&values) {
                frame.put(key, value, place.crc);
            }
            let before = offsets.len() as u64;
            let slots = frame.changes.iter().filter_map(|change| change.value);
            offsets.extend(slots.map(|slot| end + FRAME_HEADER_BYTES as u64 + u64::from(slot.offset)));
            let bytes = frame.seal(FrameKind::Records, before, narrow(values.len()), &salt);
            file.write_all_at(bytes, end).map_err(failed)?;
            end += bytes.len() as u64;
            if end - synced >= SYNC_EVERY_BYTES {
                file.sync_data().map_err(failed)?;
                self.rest(end - synced)?;
                synced = end;
            }
        }
        let mut last = FrameBuilder::with_capacity(0);
        let bytes = last.seal(FrameKind::End, offsets.len() as u64, 0, &salt);
        file.write_all_at(bytes, end).map_err(failed)?;
        end += bytes.len() as u64;
        file.sync_all().map_err(failed)?;
        self.rest(0)?;
        Ok((offsets, end))
    }

    /// Keeps to the allowed rate, and gives up when the store is being closed.
    fn rest(&self, bytes: u64) -> Result<(), StoreError> {
        let rate = self.shared.options.checkpoint_bytes_per_s.max(1);
        let time = Duration::from_micros(bytes.saturating_mul(1_000_000) / rate);
        match self.stop.pause(time) {
            true => Err(StoreError::Failed { why: "the store is being closed".into() }),
            false => Ok(()),
        }
    }

    fn move_over(&self, snapshot: &View, data: Arc<DataFile>, offsets: &[u64], bytes: u64) {
        let mut moves = snapshot.index.iter().zip(offsets).peekable();
        let number = self.shared.view.write().unwrap_or_else(PoisonError::into_inner).add_file(data, bytes);
        while moves.peek().is_some() {
            let mut view = self.shared.view.write().unwrap_or_else(PoisonError::into_inner);
            for ((key, from), offset) in moves.by_ref().take(RELOCATE_AT_ONCE) {
                view.relocate(key, *from, Place { offset: *offset, file: number, ..*from });
            }
            drop(view);
            // The lock is not fair: whoever takes it again at once shuts everybody else out until the last entry has moved.
            std::thread::sleep(RELOCATE_PAUSE);
        }
    }

    /// Every record of the older files has moved over or was replaced by a newer one. A snapshot that some reader
    /// still has keeps its files open, so they stay readable there.
    fn delete_replaced(&self, covered: u64) {
        let mut view = self.shared.view.write().unwrap_or_else(PoisonError::into_inner);
        let replaced = |id| match id {
            FileId::Log(first) => first <= covered,
            FileId::Checkpoint(revision) => revision < covered,
        };
        let old: Vec<(u32, Arc<DataFile>)> = view
            .files
            .iter()
            .filter(|(_, (data, _))| replaced(data.id))
            .map(|(number, (data, _))| (*number, Arc::clone(data)))
            .collect();
        for (number, _) in &old {
            view.files.remove(number);
        }
        drop(view);
        for (_, data) in old {
            if let Err(error) = fs::remove_file(&data.path) {
                tracing::warn!(%error, file = %data.path.display(), "could not remove a file that a checkpoint replaced");
            }
        }
        if let Err(error) = self.shared.directory.sync() {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "could not sync after removing files that a checkpoint replaced");
        }
    }
}
