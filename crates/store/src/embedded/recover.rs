//! Opening: from files to a view, and the ruling on a log that does not end cleanly.
//!
//! Promise: either the view holds every acknowledged step, or the store is refused as damaged and nothing on disk is
//! changed. What may be repaired is only collected here; the caller carries it out after all files were judged.
//!
//! One commit is one frame, synced before the next is written. So a crash leaves at most one broken frame, it is the
//! last thing in the last log, and nobody was told of it: that is a *torn tail*, and it is cut off. All else is damage:
//! a broken frame with anything after it, a hole in the revisions, a broken older file, or a log that ends before the
//! witness in `HIGH`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::directory::{Directory, Entry};
use super::frame::{
    FILE_HEADER_BYTES, FRAME_HEADER_BYTES, FileId, FrameHeader, FrameKind, Salt, StoreId, check_file_header,
    decode_steps,
};
use super::high::High;
use super::index::{DataFile, View};
use crate::error::StoreError;
use crate::kv::GROUP_BYTES_MAX;

/// A frame holds a group and a few bytes per record; a longer one was not written by us.
const FRAME_BYTES_MAX: u64 = 2 * GROUP_BYTES_MAX as u64;

#[derive(Debug)]
pub(super) struct Recovered {
    pub(super) view: View,
    pub(super) tail: Tail,
    /// Files that a later checkpoint made superfluous, or that were never finished.
    pub(super) superfluous: Vec<PathBuf>,
    /// Whether the tail has to be cut back to its end.
    pub(super) torn: bool,
}

/// The log that commits are appended to.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) data: Arc<DataFile>,
    pub(super) number: u32,
    pub(super) salt: Salt,
    pub(super) end: u64,
}

impl Tail {
    pub(super) fn is_empty(&self) -> bool {
        self.end == FILE_HEADER_BYTES as u64
    }
}

pub(super) fn recover(directory: &Directory, store: StoreId, high: &High) -> Result<Recovered, StoreError> {
    let mut logs = Vec::new();
    let mut checkpoints = Vec::new();
    let mut superfluous = Vec::new();
    for entry in directory.entries()? {
        match entry {
            Entry::Data(FileId::Log(first)) => logs.push(first),
            Entry::Data(FileId::Checkpoint(revision)) => checkpoints.push(revision),
            Entry::Temporary(name) => superfluous.push(directory.path().join(name)),
            Entry::Format | Entry::Side | Entry::Unknown(_) => {}
        }
    }
    logs.sort_unstable();
    let newest = checkpoints.iter().copied().max();
    let covered = newest.unwrap_or(0);
    let older = checkpoints.into_iter().filter(|revision| *revision < covered).map(FileId::Checkpoint);
    let replaced = logs.iter().copied().filter(|first| *first <= covered).map(FileId::Log);
    superfluous.extend(older.chain(replaced).map(|id| directory.path().join(id.name())));
    logs.retain(|first| *first > covered);

    let mut view = View::default();
    if let Some(revision) = newest {
        load_checkpoint(&open_data(directory, store, FileId::Checkpoint(revision))?, &mut view)?;
        view.revision = revision;
    }
    let mut tail = None;
    for (at, first) in logs.iter().enumerate() {
        if *first != view.revision + 1 {
            return Err(missing_log(directory, view.revision + 1, *first));
        }
        let data = open_data(directory, store, FileId::Log(*first))?;
        tail = Some(replay_log(data, at + 1 == logs.len(), &mut view)?);
    }
    // The next log is made before a checkpoint starts, and a log before `FORMAT`: there is always one to append to.
    let Some((tail, torn)) = tail else {
        return Err(missing_log(directory, view.revision + 1, high.witness().revision.max(view.revision + 1)));
    };
    let confirmed = high.witness().revision;
    if view.revision < confirmed {
        let what = format!("acknowledged revisions {} to {confirmed} are missing", view.revision + 1);
        return Err(StoreError::damaged(&tail.data.path, tail.end, what));
    }
    Ok(Recovered { view, tail, superfluous, torn })
}

fn missing_log(directory: &Directory, expected: u64, next: u64) -> StoreError {
    let path = directory.path().join(FileId::Log(expected).name());
    let what = format!("the file is missing, so the log has no revision {expected} (the next known one is {next})");
    StoreError::damaged(&path, 0, what)
}

#[derive(Debug)]
struct Opened {
    data: Arc<DataFile>,
    salt: Salt,
    bytes: u64,
}

fn open_data(directory: &Directory, store: StoreId, id: FileId) -> Result<Opened, StoreError> {
    let path = directory.path().join(id.name());
    let failed = |error| StoreError::from_io("opening", &path, error);
    let file = File::options().read(true).write(matches!(id, FileId::Log(_))).open(&path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut header = vec![0; FILE_HEADER_BYTES.min(usize::try_from(bytes).unwrap_or(FILE_HEADER_BYTES))];
    file.read_exact_at(&mut header, 0).map_err(|error| StoreError::from_io("reading", &path, error))?;
    check_file_header(&header, store, id).map_err(|what| StoreError::damaged(&path, 0, what))?;
    Ok(Opened { data: Arc::new(DataFile { id, path, file }), salt: Salt::new(store, id), bytes })
}

/// What stands at a place in a file where a frame should start.
enum Found {
    Frame(FrameHeader),
    /// Nothing: the file ends here.
    End,
    /// `goes_to` is where the frame would end, as far as its header is intact.
    Broken {
        what: &'static str,
        goes_to: Option<u64>,
    },
}

/// Reads the frame at `offset`; its payload is left in `payload`.
fn read_frame(file: &Opened, offset: u64, payload: &mut Vec<u8>) -> Result<Found, StoreError> {
    let failed = |error| StoreError::from_io("reading", &file.data.path, error);
    let left = file.bytes - offset;
    if left == 0 {
        return Ok(Found::End);
    }
    if left < FRAME_HEADER_BYTES as u64 {
        return Ok(Found::Broken { what: "the header of a write is incomplete", goes_to: None });
    }
    let mut header = [0; FRAME_HEADER_BYTES];
    file.data.file.read_exact_at(&mut header, offset).map_err(failed)?;
    let Some(header) = FrameHeader::decode(&header, &file.salt) else {
        return Ok(Found::Broken { what: "the header of a write is unreadable", goes_to: None });
    };
    let payload_at = offset + FRAME_HEADER_BYTES as u64;
    let goes_to = payload_at + u64::from(header.payload_bytes);
    if goes_to > file.bytes {
        return Ok(Found::Broken { what: "a write is incomplete", goes_to: Some(goes_to) });
    }
    if u64::from(header.payload_bytes) > FRAME_BYTES_MAX {
        return Err(StoreError::damaged(&file.data.path, offset, "a write is larger than any can be"));
    }
    payload.resize(header.payload_bytes as usize, 0);
    file.data.file.read_exact_at(payload, payload_at).map_err(failed)?;
    if file.salt.crc(payload) != header.payload_crc {
        return Ok(Found::Broken { what: "the checksum of a write is wrong", goes_to: Some(goes_to) });
    }
    Ok(Found::Frame(header))
}

fn replay_log(file: Opened, last: bool, view: &mut View) -> Result<(Tail, bool), StoreError> {
    let number = view.add_file(Arc::clone(&file.data), file.bytes);
    let damaged = |offset, what: String| StoreError::damaged(&file.data.path, offset, what);
    let mut offset = FILE_HEADER_BYTES as u64;
    let mut payload = Vec::new();
    let torn = loop {
        let header = match read_frame(&file, offset, &mut payload)? {
            Found::End => break false,
            Found::Frame(header) => header,
            Found::Broken { what, goes_to } => {
                if !last {
                    return Err(damaged(offset, format!("{what}, and a later log follows")));
                }
                if let Some(later) = something_after(&file, offset, goes_to, view.revision + 1)? {
                    return Err(damaged(offset, format!("{what}, and more was written after it, at byte {later}")));
                }
                tracing::warn!(file = %file.data.path.display(), offset, what, "cutting off a write that was never acknowledged");
                break true;
            }
        };
        if header.kind != FrameKind::Steps || header.number != view.revision + 1 || header.count == 0 {
            let what = format!("revision {} was expected and {} found", view.revision + 1, header.number);
            return Err(damaged(offset, what));
        }
        let changes = decode_steps(&payload, header.count)
            .ok_or_else(|| damaged(offset, "an intact write does not add up".into()))?;
        view.apply(number, offset, &changes);
        view.revision += u64::from(header.count);
        offset += FRAME_HEADER_BYTES as u64 + payload.len() as u64;
    };
    view.grow_file(number, offset);
    Ok((Tail { data: file.data, number, salt: file.salt, end: offset }, torn))
}

/// Where, if anywhere, something follows a broken frame. With an intact header the frame's own end decides; without
/// one, every byte is tried as the start of an intact header that carries a revision still to come.
fn something_after(file: &Opened, offset: u64, goes_to: Option<u64>, expected: u64) -> Result<Option<u64>, StoreError> {
    if let Some(end) = goes_to {
        return Ok((end < file.bytes).then_some(end));
    }
    let mut rest = vec![0; usize::try_from(file.bytes - offset).unwrap_or(usize::MAX)];
    file.data
        .file
        .read_exact_at(&mut rest, offset)
        .map_err(|error| StoreError::from_io("reading", &file.data.path, error))?;
    let found = (1..rest.len()).find(|at| {
        FrameHeader::decode(&rest[*at..], &file.salt)
            .is_some_and(|header| header.kind == FrameKind::Steps && header.number >= expected)
    });
    Ok(found.map(|at| offset + at as u64))
}

fn load_checkpoint(file: &Opened, view: &mut View) -> Result<(), StoreError> {
    let number = view.add_file(Arc::clone(&file.data), file.bytes);
    let damaged = |offset, what: &str| StoreError::damaged(&file.data.path, offset, what);
    let mut offset = FILE_HEADER_BYTES as u64;
    let mut payload = Vec::new();
    let mut records = 0;
    loop {
        let header = match read_frame(file, offset, &mut payload)? {
            Found::Frame(header) => header,
            Found::End => return Err(damaged(offset, "the checkpoint has no end")),
            Found::Broken { what, .. } => return Err(damaged(offset, what)),
        };
        let next = offset + FRAME_HEADER_BYTES as u64 + payload.len() as u64;
        match header.kind {
            _ if header.number != records => return Err(damaged(offset, "records of the checkpoint are missing")),
            FrameKind::Records => {
                let changes = decode_steps(&payload, 1).filter(|changes| changes.len() == header.count as usize);
                let changes = changes.ok_or_else(|| damaged(offset, "an intact block of records does not add up"))?;
                view.apply(number, offset, &changes);
                records += u64::from(header.count);
            }
            FrameKind::End if next == file.bytes => return Ok(()),
            FrameKind::End => return Err(damaged(next, "the file goes on after the end of the checkpoint")),
            FrameKind::Steps => return Err(damaged(offset, "a step of a log stands in a checkpoint")),
        }
        offset = next;
    }
}
