//! `HIGH`, the witness: the newest revision that was ever confirmed, and the newest epoch that was ever granted.
//!
//! Promise: a log that ends before the witness has lost acknowledged writes, and is refused instead of being taken
//! for one whose last write was interrupted. The log alone cannot tell these two apart.
//!
//! After each commit the witness is overwritten in place but not synced, because a second sync would double the cost of
//! a commit. A killed process leaves the exact witness (the kernel still holds the page); a power failure may leave
//! an older one, which is weaker but never wrong: it is written after the log is durable. It is synced when a segment
//! is full, at a checkpoint, when an epoch is granted and at the end. Two slots in two sectors take turns, so that a
//! torn write of one leaves the other.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::directory::Directory;
use super::frame::StoreId;
use crate::error::StoreError;

pub(super) const HIGH_NAME: &str = "HIGH";
const SLOT_BYTES: usize = 24;
const SLOT_STRIDE_BYTES: u64 = 512;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Witness {
    pub(super) epoch: u64,
    pub(super) revision: u64,
}

impl Witness {
    fn encode(self, store: StoreId) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        slot[..8].copy_from_slice(&self.revision.to_le_bytes());
        slot[8..16].copy_from_slice(&self.epoch.to_le_bytes());
        let crc = slot_crc(&slot[..16], store);
        slot[16..20].copy_from_slice(&crc.to_le_bytes());
        slot[20..].copy_from_slice(&(!crc).to_le_bytes());
        slot
    }

    fn decode(slot: &[u8], store: StoreId) -> Option<Witness> {
        let revision = u64::from_le_bytes(slot.get(..8)?.try_into().ok()?);
        let epoch = u64::from_le_bytes(slot.get(8..16)?.try_into().ok()?);
        let witness = Witness { epoch, revision };
        (slot.get(..SLOT_BYTES)? == witness.encode(store)).then_some(witness)
    }
}

fn slot_crc(bytes: &[u8], store: StoreId) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&store.0);
    hasher.update(bytes);
    hasher.finalize()
}

#[derive(Debug)]
pub(super) struct High {
    file: File,
    path: PathBuf,
    store: StoreId,
    witness: Witness,
    /// Which slot is written next: not the one that holds the newest witness.
    next_slot: u64,
}

impl High {
    /// Makes the witness of an empty store, durably except for its directory entry.
    pub(super) fn create(directory: &Directory, store: StoreId) -> Result<(), StoreError> {
        let slot = Witness::default().encode(store);
        let mut bytes = vec![0; SLOT_STRIDE_BYTES as usize + SLOT_BYTES];
        bytes[..SLOT_BYTES].copy_from_slice(&slot);
        bytes[SLOT_STRIDE_BYTES as usize..].copy_from_slice(&slot);
        directory.publish(HIGH_NAME, &bytes).map(drop)
    }

    pub(super) fn open(directory: &Directory, store: StoreId) -> Result<High, StoreError> {
        let path = directory.path().join(HIGH_NAME);
        let file = match File::options().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(StoreError::damaged(
                    &path,
                    0,
                    "the file is missing, so nobody can say whether the log is whole",
                ));
            }
            Err(error) => return Err(StoreError::from_io("opening", &path, error)),
        };
        let bytes = std::fs::read(&path).map_err(|error| StoreError::from_io("reading", &path, error))?;
        let slots =
            [0, SLOT_STRIDE_BYTES as usize].map(|at| bytes.get(at..).and_then(|slot| Witness::decode(slot, store)));
        let next_slot = u64::from(slots[0] > slots[1]);
        match slots.into_iter().flatten().max() {
            Some(witness) => Ok(High { file, path, store, witness, next_slot }),
            None => Err(StoreError::damaged(&path, 0, "neither of the two copies of the newest revision is readable")),
        }
    }

    pub(super) fn witness(&self) -> Witness {
        self.witness
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&mut self, witness: Witness) -> io::Result<()> {
        self.file.write_all_at(&witness.encode(self.store), self.next_slot * SLOT_STRIDE_BYTES)?;
        self.witness = witness;
        self.next_slot = 1 - self.next_slot;
        Ok(())
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = StoreId([3; 16]);

    #[test]
    fn the_newest_readable_slot_counts() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::open_existing(temporary.path()).unwrap();
        High::create(&directory, STORE).unwrap();
        let mut high = High::open(&directory, STORE).unwrap();
        for revision in 1..=5 {
            high.write(Witness { epoch: 1, revision }).unwrap();
        }
        let path = temporary.path().join(HIGH_NAME);
        assert_eq!(High::open(&directory, STORE).unwrap().witness(), Witness { epoch: 1, revision: 5 });
        let mut bytes = std::fs::read(&path).unwrap();
        let newest = if high.next_slot == 0 { SLOT_STRIDE_BYTES as usize } else { 0 };
        bytes[newest + 3] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let mut older = High::open(&directory, STORE).unwrap();
        assert_eq!(older.witness(), Witness { epoch: 1, revision: 4 });
        // The next write repairs the torn slot and leaves the good one alone.
        older.write(Witness { epoch: 1, revision: 6 }).unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[newest..newest + 8], 6u64.to_le_bytes());
    }

    #[test]
    fn a_witness_that_is_gone_or_foreign_is_damage() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = Directory::open_existing(temporary.path()).unwrap();
        assert!(matches!(High::open(&directory, STORE), Err(StoreError::Damaged { .. })));
        High::create(&directory, STORE).unwrap();
        assert!(matches!(High::open(&directory, StoreId([4; 16])), Err(StoreError::Damaged { .. })));
        std::fs::write(temporary.path().join(HIGH_NAME), b"").unwrap();
        assert!(matches!(High::open(&directory, STORE), Err(StoreError::Damaged { .. })));
    }
}
