//! From records to the bytes of a backup.
//!
//! Promise: the same header and records give the same bytes. Whoever pushes records does so in key order, each key once.

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;

use super::{
    BLOCK_BYTES, BLOCK_HEAD_BYTES, CRC_BYTES, DIGEST_BYTES, END_BYTES, FORMAT, Header, KIND_END, KIND_RECORDS, MAGIC,
    RECORD_HEAD_BYTES, Summary,
};

pub struct Encoder {
    digest: Context,
    /// The block that is being filled.
    block: Vec<u8>,
    records: u64,
    bytes: u64,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("records", &self.records).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Encoder {
    /// The encoder, and the first bytes of the file.
    pub fn begin(header: &Header) -> (Encoder, Bytes) {
        let json = serde_json::to_vec(header).expect("numbers, text and members with names can be written as JSON");
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&length(json.len()).to_le_bytes());
        bytes.extend_from_slice(&json);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        let mut encoder = Encoder { digest: Context::new(&SHA256), block: Vec::new(), records: 0, bytes: 0 };
        let bytes = encoder.given(bytes);
        (encoder, bytes)
    }

    /// Adds a record. Returns a block when one is full.
    pub fn push(&mut self, key: &str, value: &[u8]) -> Option<Bytes> {
        if self.block.is_empty() {
            self.block.reserve(BLOCK_HEAD_BYTES + BLOCK_BYTES + RECORD_HEAD_BYTES + CRC_BYTES);
            self.block.resize(BLOCK_HEAD_BYTES, 0);
        }
        let key_bytes = u16::try_from(key.len()).expect("a key is at most KEY_BYTES_MAX");
        self.block.extend_from_slice(&key_bytes.to_le_bytes());
        self.block.extend_from_slice(&length(value.len()).to_le_bytes());
        self.block.extend_from_slice(key.as_bytes());
        self.block.extend_from_slice(value);
        self.records += 1;
        (self.block.len() >= BLOCK_BYTES).then(|| self.close())
    }

    pub fn records(&self) -> u64 {
        self.records
    }

    /// The last bytes, and what the whole file is.
    pub fn finish(mut self) -> (Bytes, Summary) {
        let mut last = if self.block.is_empty() { Vec::new() } else { self.close().to_vec() };
        let mut end = vec![KIND_END];
        end.extend_from_slice(&length(END_BYTES).to_le_bytes());
        end.extend_from_slice(&self.records.to_le_bytes());
        end.extend_from_slice(&(self.bytes + (END_BYTES + BLOCK_HEAD_BYTES + CRC_BYTES) as u64).to_le_bytes());
        let mut so_far = self.digest.clone();
        so_far.update(&end);
        debug_assert_eq!(so_far.clone().finish().as_ref().len(), DIGEST_BYTES);
        end.extend_from_slice(so_far.finish().as_ref());
        end.extend_from_slice(&crc32fast::hash(&end).to_le_bytes());
        last.extend_from_slice(&self.given(end));
        let sha256 = hex(self.digest.finish().as_ref());
        (last.into(), Summary { records: self.records, bytes: self.bytes, sha256 })
    }

    fn close(&mut self) -> Bytes {
        let mut block = std::mem::take(&mut self.block);
        block[0] = KIND_RECORDS;
        let payload_bytes = length(block.len() - BLOCK_HEAD_BYTES);
        block[1..BLOCK_HEAD_BYTES].copy_from_slice(&payload_bytes.to_le_bytes());
        block.extend_from_slice(&crc32fast::hash(&block).to_le_bytes());
        self.given(block)
    }

    fn given(&mut self, bytes: Vec<u8>) -> Bytes {
        self.digest.update(&bytes);
        self.bytes += bytes.len() as u64;
        bytes.into()
    }
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a record fits into a step, which is far below 4 GiB")
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
