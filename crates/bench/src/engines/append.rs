//! The floor: length, key, length, value, and a sync. No checksum, no index; a later record of a key replaces an earlier one.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::{Engine, Record};

pub(super) struct Append {
    file: File,
    path: PathBuf,
    buffer: Vec<u8>,
}

impl Append {
    pub(super) fn open(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join("append");
        let file = File::options().create(true).append(true).open(&path)?;
        Ok(Self { file, path, buffer: Vec::new() })
    }
}

impl Engine for Append {
    fn commit(&mut self, records: &[Record]) -> anyhow::Result<()> {
        self.buffer.clear();
        for (key, value) in records {
            for part in [key.as_bytes(), value] {
                self.buffer.extend_from_slice(&u32::try_from(part.len())?.to_le_bytes());
                self.buffer.extend_from_slice(part);
            }
        }
        self.file.write_all(&self.buffer)?;
        self.file.sync_data()?;
        Ok(())
    }

    fn scan(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> anyhow::Result<()> {
        let mut all = Vec::new();
        File::open(&self.path)?.read_to_end(&mut all)?;
        let mut rest = all.as_slice();
        while let Some((key, after)) = part(rest) {
            // Half a record at the end is what a crash leaves.
            let Some((value, after)) = part(after) else { break };
            visit(key, value);
            rest = after;
        }
        Ok(())
    }
}

fn part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}
