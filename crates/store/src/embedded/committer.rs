//! The committer: the one thread that appends to the log.
//!
//! Promise: a commit is confirmed after its frame is synced, and at no other time. It coalesces nothing: the caller has
//! grouped the steps already, and a second level of waiting would only add latency. Commands wait in a queue of
//! [`COMMANDS_MAX`]; when it is full, `commit` waits.
//!
//! On a full disk the log is cut back to its last good end and the caller learns that nothing was written; the store
//! goes on when there is room. If the cut fails, or a sync does, nobody can know what is durable (after a failed sync
//! the kernel may forget the dirty pages, so trying again would lie): the store takes no more writes until it is opened
//! again.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

use tokio::sync::{mpsc, oneshot};

use super::checkpoint::Request;
use super::frame::{FileId, FrameBuilder, FrameKind, Salt, encode_file_header};
use super::high::{High, Witness};
use super::index::{DataFile, View};
use super::recover::Tail;
use super::{Shared, reserve};
use crate::error::StoreError;
use crate::kv::Mastership;

pub(super) const COMMANDS_MAX: usize = 16;

pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

#[derive(Debug)]
pub(super) enum Command {
    Commit {
        epoch: u64,
        frame: FrameBuilder,
        steps: u32,
        reply: Reply<u64>,
    },
    Campaign {
        node: String,
        reply: Reply<Mastership>,
    },
    BeginAfter {
        epoch: u64,
        revision: u64,
        reply: Reply<()>,
    },
    /// Closes the present log, so that a checkpoint of the view that is returned replaces all logs before it.
    Boundary {
        reply: Reply<View>,
    },
}

#[derive(Debug)]
pub(super) struct Committer {
    pub(super) shared: Arc<Shared>,
    pub(super) tail: Tail,
    pub(super) high: High,
    pub(super) holder: Weak<()>,
    pub(super) failed: Option<String>,
    pub(super) checkpoints: mpsc::Sender<Request>,
}

impl Committer {
    /// Works until every sender is gone.
    pub(super) fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        // A reply that nobody waits for any more is dropped: the commit stands either way.
        while let Some(command) = commands.blocking_recv() {
            match command {
                Command::Commit { epoch, frame, steps, reply } => {
                    let result = self.commit(epoch, frame, steps);
                    let _ = reply.send(result);
                    self.consider_checkpoint();
                }
                Command::Campaign { node, reply } => {
                    let _ = reply.send(self.campaign(&node));
                }
                Command::BeginAfter { epoch, revision, reply } => {
                    let _ = reply.send(self.begin_after(epoch, revision));
                }
                Command::Boundary { reply } => {
                    let _ = reply.send(self.boundary());
                }
            }
        }
        if let Err(error) = self.high.sync() {
            tracing::warn!(%error, file = %self.high.path().display(), "could not sync at the end");
        }
    }

    fn commit(&mut self, epoch: u64, mut frame: FrameBuilder, steps: u32) -> Result<u64, StoreError> {
        self.check_alive()?;
        if epoch != self.shared.epoch.load(Ordering::SeqCst) {
            return Err(StoreError::NotMaster);
        }
        let frame_bytes = frame.frame_bytes() as u64;
        if !self.tail.is_empty() && self.tail.end + frame_bytes > self.shared.options.segment_bytes {
            self.roll()?;
        }
        let first = self.shared.view().revision + 1;
        let bytes = frame.seal(FrameKind::Steps, first, steps, &self.tail.salt);
        if let Err(error) = self.tail.data.file.write_all_at(bytes, self.tail.end) {
            return Err(self.write_failed(error));
        }
        if let Err(error) = self.tail.data.file.sync_data() {
            return Err(self.fail("syncing", error));
        }
        let frame_offset = self.tail.end;
        self.tail.end += frame_bytes;
        let last = first + u64::from(steps) - 1;
        {
            let mut view = self.shared.view.write().unwrap_or_else(PoisonError::into_inner);
            view.apply(self.tail.number, frame_offset, &frame.changes);
            view.grow_file(self.tail.number, self.tail.end);
            view.revision = last;
        }
        // The steps are durable, so a witness that lags behind is no reason to fail: it only detects less.
        if let Err(error) = self.high.write(Witness { revision: last, ..self.high.witness() }) {
            tracing::warn!(%error, file = %self.high.path().display(), "could not note the newest revision");
        }
        Ok(last)
    }

    pub(super) fn check_alive(&self) -> Result<(), StoreError> {
        match &self.failed {
            Some(why) => Err(StoreError::Failed { why: why.clone() }),
            None => Ok(()),
        }
    }

    fn fail(&mut self, doing: &str, source: io::Error) -> StoreError {
        let doing = format!("{doing} {}", self.tail.data.path.display());
        tracing::error!(error = %source, doing, "the store takes no more writes until it is opened again");
        self.failed = Some(format!("while {doing}: {source}"));
        StoreError::Unconfirmed { doing, source }
    }

    fn write_failed(&mut self, source: io::Error) -> StoreError {
        let no_space = matches!(
            source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        if !no_space {
            return self.fail("writing", source);
        }
        let cut = || self.tail.data.file.set_len(self.tail.end);
        match cut().or_else(|_| reserve::release(&self.shared.directory).and_then(|()| cut())) {
            Ok(()) => StoreError::from_io("writing", &self.tail.data.path, source),
            Err(error) => self.fail("cutting an unfinished write off", error),
        }
    }

    /// Starts the next log. Only a lack of space leaves things as they were; any other failure may have left the new
    /// file behind, and opening again sorts that out.
    fn roll(&mut self) -> Result<(), StoreError> {
        let id = FileId::Log(self.shared.view().revision + 1);
        let header = encode_file_header(self.shared.store, id);
        let file = match self.shared.directory.publish(&id.name(), &header) {
            Ok(file) => file,
            Err(full @ StoreError::NoSpace { .. }) => return Err(full),
            Err(error) => return Err(self.fail("starting the log after", io::Error::other(error))),
        };
        if let Err(error) = self.high.sync() {
            tracing::warn!(%error, file = %self.high.path().display(), "could not sync with the end of a log");
        }
        let path = self.shared.directory.path().join(id.name());
        let data = Arc::new(DataFile { id, path, file });
        let end = header.len() as u64;
        let mut view = self.shared.view.write().unwrap_or_else(PoisonError::into_inner);
        let number = view.add_file(Arc::clone(&data), end);
        self.tail = Tail { data, number, salt: Salt::new(self.shared.store, id), end };
        Ok(())
    }

    fn campaign(&mut self, node: &str) -> Result<Mastership, StoreError> {
        self.check_alive()?;
        let in_force = self.shared.epoch.load(Ordering::SeqCst) != 0;
        if in_force && self.holder.upgrade().is_some() {
            let owner = "this very process".to_owned();
            return Err(StoreError::Locked { dir: self.shared.directory.path().to_owned(), owner });
        }
        let epoch = self.high.witness().epoch + 1;
        self.high
            .write(Witness { epoch, ..self.high.witness() })
            .and_then(|()| self.high.sync())
            .map_err(|error| StoreError::from_io("noting the new epoch in", self.high.path(), error))?;
        self.shared.lock.sign(&format!("process {} (node {node})", std::process::id()));
        let (held, sign) = Mastership::grant(epoch);
        self.holder = sign;
        self.shared.epoch.store(epoch, Ordering::SeqCst);
        Ok(held)
    }

    fn boundary(&mut self) -> Result<View, StoreError> {
        self.check_alive()?;
        if !self.tail.is_empty() {
            self.roll()?;
        }
        Ok(self.shared.view().clone())
    }

    fn consider_checkpoint(&self) {
        if self.shared.is_worth_a_checkpoint() {
            // A full queue means that one is asked for already.
            let _ = self.checkpoints.try_send(Request::Garbage);
        }
    }
}
