//! Where a store begins: the files of one without records, and beginning at another revision than 1.
//!
//! Promise: a store has begun when `FORMAT` is there, which is written last and taken away first, so a crash in between
//! leaves something that is taken for no store at all and made anew. A store that begins after revision n looks like one that
//! had n steps and was emptied: a checkpoint of n without records, and the log of n + 1.

use std::fs::{self, File};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::committer::Committer;
use super::directory::{Directory, FORMAT_NAME};
use super::frame::{FileId, FrameBuilder, FrameKind, Salt, StoreId, encode_file_header};
use super::high::Witness;
use super::index::{DataFile, View};
use super::recover::Tail;
use crate::error::StoreError;
use crate::kv::HAS_BEGUN;

/// What a store that begins after some revision consists of, beside its witness.
struct Beginning {
    checkpoint: Option<(FileId, File, u64)>,
    log: (FileId, File, u64),
}

/// Makes the files of a store without records, all but `HIGH` and `FORMAT`.
fn make(directory: &Directory, store: StoreId, after: u64) -> Result<Beginning, StoreError> {
    let publish =
        |id: FileId, bytes: &[u8]| directory.publish(&id.name(), bytes).map(|file| (id, file, bytes.len() as u64));
    let id = FileId::Checkpoint(after);
    let mut bytes = encode_file_header(store, id).to_vec();
    bytes.extend_from_slice(FrameBuilder::with_capacity(0).seal(FrameKind::End, 0, 0, &Salt::new(store, id)));
    let checkpoint = if after > 0 { Some(publish(id, &bytes)?) } else { None };
    let id = FileId::Log(after + 1);
    Ok(Beginning { checkpoint, log: publish(id, &encode_file_header(store, id))? })
}

/// The files of a new store, in a directory without one. What an interrupted beginning left goes first.
pub(super) fn make_first(directory: &Directory, store: StoreId) -> Result<(), StoreError> {
    for id in directory.data_files()? {
        remove(directory, &id.name())?;
    }
    make(directory, store, 0).map(drop)
}

fn remove(directory: &Directory, name: &str) -> Result<(), StoreError> {
    let path = directory.path().join(name);
    fs::remove_file(&path).map_err(|error| StoreError::from_io("removing", &path, error))?;
    directory.sync()
}

impl Committer {
    pub(super) fn begin_after(&mut self, epoch: u64, after: u64) -> Result<(), StoreError> {
        self.check_alive()?;
        if epoch != self.shared.epoch.load(Ordering::SeqCst) {
            return Err(StoreError::NotMaster);
        }
        if self.shared.view().revision > 0 {
            return Err(HAS_BEGUN);
        }
        if after == 0 {
            return Ok(());
        }
        let begun = self.replace_files(after);
        if let Err(error) = &begun {
            // Nothing is lost, since there was nothing; but what lies there now is sorted out by opening again.
            self.failed = Some(format!("while beginning at another revision: {error}"));
        }
        begun
    }

    fn replace_files(&mut self, after: u64) -> Result<(), StoreError> {
        let (shared, former) = (self.shared.clone(), self.tail.data.id);
        let directory = &shared.directory;
        remove(directory, FORMAT_NAME)?;
        let Beginning { checkpoint, log } = make(directory, shared.store, after)?;
        self.high
            .write(Witness { revision: after, ..self.high.witness() })
            .and_then(|()| self.high.sync())
            .map_err(|error| StoreError::from_io("noting the first revision in", self.high.path(), error))?;
        directory.write_format(shared.store)?;
        remove(directory, &former.name())?;
        let mut view = View::default();
        view.revision = after;
        let mut add = |(id, file, bytes): (FileId, File, u64)| {
            let data = Arc::new(DataFile { id, path: directory.path().join(id.name()), file });
            (data.clone(), view.add_file(data, bytes), bytes)
        };
        checkpoint.map(&mut add);
        let (data, number, end) = add(log);
        self.tail = Tail { salt: Salt::new(shared.store, data.id), data, number, end };
        *shared.view.write().unwrap_or_else(PoisonError::into_inner) = view;
        Ok(())
    }
}
