//! Where every record lies: the index from keys to places in files, and reading values from there.
//!
//! Promise: a [`View`] shows durable records only, a clone of it is a consistent snapshot that costs nothing, and a
//! value that the disk changed is reported as damage, never handed out. The index is a tree with shared structure, so
//! a scan or a checkpoint keeps the old state while commits go on.
//!
//! Values stay on disk. Keeping them in memory as well would double the memory of a server that holds the decoded
//! state anyway.

use std::fs::File;
use std::ops::Bound;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use imbl::OrdMap;

use super::frame::{Change, FRAME_HEADER_BYTES, FileId, RECORD_OVERHEAD_BYTES};
use crate::error::StoreError;
use crate::kv::PAGE_BYTES_MAX;

/// Values closer together than this are fetched by one read: skipping costs less than another call.
const READ_GAP_BYTES_MAX: u64 = 16 * 1024;
const READ_RUN_BYTES_MAX: u64 = 4 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct DataFile {
    pub(super) id: FileId,
    pub(super) path: PathBuf,
    pub(super) file: File,
}

/// A value on disk. `file` is a key of [`View::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) file: u32,
    pub(super) bytes: u32,
    pub(super) crc: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub(super) index: OrdMap<Arc<str>, Place>,
    pub(super) files: OrdMap<u32, (Arc<DataFile>, u64)>,
    pub(super) revision: u64,
    live_bytes: u64,
    next_file: u32,
}

impl View {
    /// Takes a file in and gives it the number by which places name it.
    pub(super) fn add_file(&mut self, file: Arc<DataFile>, bytes: u64) -> u32 {
        let number = self.next_file;
        self.next_file += 1;
        self.files.insert(number, (file, bytes));
        number
    }

    pub(super) fn grow_file(&mut self, number: u32, bytes: u64) {
        if let Some((_, size)) = self.files.get_mut(&number) {
            *size = bytes;
        }
    }

    /// Applies the changes of one frame that starts at `frame_offset` of the file.
    pub(super) fn apply(&mut self, file: u32, frame_offset: u64, changes: &[Change]) {
        for change in changes {
            let key_bytes = change.key.len();
            let before = match change.value {
                Some(slot) => {
                    let offset = frame_offset + FRAME_HEADER_BYTES as u64 + u64::from(slot.offset);
                    self.live_bytes += record_bytes(key_bytes, slot.bytes);
                    self.index.insert(Arc::clone(&change.key), Place { offset, file, bytes: slot.bytes, crc: slot.crc })
                }
                None => self.index.remove(&*change.key),
            };
            if let Some(before) = before {
                self.live_bytes -= record_bytes(key_bytes, before.bytes);
            }
        }
    }

    /// Points a key to its copy in a checkpoint, unless the record has changed since.
    pub(super) fn relocate(&mut self, key: &str, from: Place, to: Place) {
        if let Some(place) = self.index.get_mut(key)
            && *place == from
        {
            *place = to;
        }
    }

    pub(super) fn total_bytes(&self) -> u64 {
        self.files.values().map(|(_, bytes)| bytes).sum()
    }

    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub(super) fn garbage_bytes(&self) -> u64 {
        self.total_bytes().saturating_sub(self.live_bytes)
    }

    pub(super) fn get(&self, key: &str) -> Result<Option<Bytes>, StoreError> {
        let Some(place) = self.index.get(key) else { return Ok(None) };
        Ok(self.read(&[*place])?.pop())
    }

    /// The places of one page, and whether records follow it. The rules are those of `Store::scan`.
    pub(super) fn page(&self, prefix: &str, after: Option<&str>, limit: usize) -> (Vec<(Arc<str>, Place)>, bool) {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut page: Vec<(Arc<str>, Place)> = Vec::new();
        let mut bytes = 0;
        for (key, place) in self.index.range::<_, str>((start, Bound::Unbounded)) {
            if !key.starts_with(prefix) {
                break;
            }
            bytes += key.len() + place.bytes as usize;
            if !page.is_empty() && (page.len() >= limit || bytes > PAGE_BYTES_MAX) {
                return (page, true);
            }
            page.push((Arc::clone(key), *place));
        }
        (page, false)
    }

    /// Reads values, in the order asked for. On disk they are fetched in the order of the files, neighbours together.
    ///
    /// Each value is copied out of the common buffer: a small record that lives long would otherwise keep the whole
    /// buffer in memory.
    pub(super) fn read(&self, places: &[Place]) -> Result<Vec<Bytes>, StoreError> {
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_unstable_by_key(|at| (places[*at].file, places[*at].offset));
        let mut values = vec![Bytes::new(); places.len()];
        let mut buffer = Vec::new();
        let mut rest = order.as_slice();
        while let Some((first, _)) = rest.split_first() {
            let (file, start) = (places[*first].file, places[*first].offset);
            let mut end = start;
            let run = rest
                .iter()
                .take_while(|at| {
                    let place = &places[**at];
                    let place_end = place.offset + u64::from(place.bytes);
                    let near = place.file == file
                        && place.offset <= end + READ_GAP_BYTES_MAX
                        && (end == start || place_end - start <= READ_RUN_BYTES_MAX);
                    if near {
                        end = end.max(place_end);
                    }
                    near
                })
                .count();
            let (now, later) = rest.split_at(run);
            rest = later;
            let (data, _) = self.files.get(&file).expect("a file stays in the view as long as a place names it");
            buffer.resize(usize::try_from(end - start).expect("a run fits into memory"), 0);
            data.file.read_exact_at(&mut buffer, start).map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => StoreError::damaged(&data.path, start, "the file became shorter"),
                _ => StoreError::from_io("reading", &data.path, error),
            })?;
            for at in now {
                let place = &places[*at];
                let from = usize::try_from(place.offset - start).expect("inside the run");
                let value = &buffer[from..from + place.bytes as usize];
                if crc32fast::hash(value) != place.crc {
                    return Err(StoreError::damaged(&data.path, place.offset, "a record changed after it was written"));
                }
                values[*at] = Bytes::copy_from_slice(value);
            }
        }
        Ok(values)
    }
}

fn record_bytes(key_bytes: usize, value_bytes: u32) -> u64 {
    (key_bytes + RECORD_OVERHEAD_BYTES) as u64 + u64::from(value_bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::super::frame::Slot;
    use super::*;

    fn view_over(bytes: &[u8]) -> (View, u32) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let mut view = View::default();
        let data = DataFile { id: FileId::Log(1), path: "log".into(), file };
        let number = view.add_file(Arc::new(data), bytes.len() as u64);
        (view, number)
    }

    fn change(key: &str, value: Option<(u32, &[u8])>) -> Change {
        let slot = value.map(|(offset, value)| Slot { offset, bytes: value.len() as u32, crc: crc32fast::hash(value) });
        Change { key: Arc::from(key), value: slot }
    }

    #[test]
    fn live_bytes_follow_overwrites_and_deletions() {
        let (mut view, file) = view_over(&[0; 100]);
        view.apply(file, 0, &[change("k", Some((0, b"12345")))]);
        assert_eq!(view.live_bytes(), 13);
        view.apply(file, 0, &[change("k", Some((0, b"1")))]);
        assert_eq!((view.live_bytes(), view.garbage_bytes()), (9, 91));
        view.apply(file, 0, &[change("absent", None), change("k", None)]);
        assert_eq!(view.live_bytes(), 0);
        assert!(view.index.is_empty());
    }

    #[test]
    fn a_relocation_respects_a_newer_record() {
        let (mut view, file) = view_over(&[0; 100]);
        view.apply(file, 0, &[change("a", Some((0, b"1"))), change("b", Some((1, b"2")))]);
        let before = view.clone();
        view.apply(file, 50, &[change("b", Some((0, b"3")))]);
        for key in ["a", "b"] {
            let from = before.index[key];
            view.relocate(key, from, Place { offset: 7, ..from });
        }
        assert_eq!(view.index["a"].offset, 7);
        assert_eq!(view.index["b"].offset, 50 + FRAME_HEADER_BYTES as u64);
    }

    #[test]
    fn a_value_that_changed_on_disk_is_damage() {
        let (view, file) = view_over(b"hello");
        let place = Place { offset: 0, file, bytes: 5, crc: crc32fast::hash(b"hellO") };
        assert!(matches!(view.read(&[place]), Err(StoreError::Damaged { offset: 0, .. })));
        let beyond = Place { offset: 3, file, bytes: 5, crc: 0 };
        assert!(matches!(view.read(&[beyond]), Err(StoreError::Damaged { offset: 3, .. })));
    }

    proptest! {
        #[test]
        fn reads_come_back_in_the_order_asked(picks in prop::collection::vec((0usize..60_000, 0usize..2_000), 1..40)) {
            let bytes: Vec<u8> = (0..64_000u32).map(|at| (at * 7 + at / 251) as u8).collect();
            let (view, file) = view_over(&bytes);
            let slices: Vec<&[u8]> = picks.iter().map(|(from, length)| &bytes[*from..from + length]).collect();
            let places: Vec<Place> = picks
                .iter()
                .zip(&slices)
                .map(|((from, length), slice)| Place {
                    offset: *from as u64, file, bytes: *length as u32, crc: crc32fast::hash(slice),
                })
                .collect();
            prop_assert_eq!(view.read(&places).unwrap(), slices);
        }
    }
}
