//! The backup file: all records of one moment, as they lie in the store, in a form that every store can be made of again.
//!
//! Promise: a file that passes [`check`] holds every record of its revision, byte for byte, and nothing else; one that was cut
//! off, changed or mixed up does not pass, and says where. Nothing is restored from a file that has not passed as a whole. A
//! file is written and read in blocks, so neither needs more memory than a few of them, whatever its size.
//!
//! Records stay sealed if they were. The header names the keys that open them and holds no key. The layout is drawn in
//! `docs/formats/storage.md`; [`encode`] writes it, [`parse`] reads it, [`take`] reads a store for it, and [`mod@restore`] makes
//! a store of it.

pub mod encode;
pub mod parse;
pub mod restore;
pub mod take;

use std::io;

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use encode::Encoder;
pub use parse::{Contents, Parser, Part, check};
pub use restore::{RestoreError, Restored, Target, restore};
pub use take::{TakeError, Taking};

use crate::kv::{KEY_BYTES_MAX, STORED_BYTES_MAX};
use crate::record::DataVersion;

pub const MAGIC: &[u8; 8] = b"corkbkup";
pub const FORMAT: u32 = 1;
/// Bytes of the JSON in the header; it names at most as many keys as a node may have.
pub const HEADER_BYTES_MAX: usize = 64 * 1024;
/// Records are gathered into blocks of about this size.
pub const BLOCK_BYTES: usize = 1024 * 1024;
/// Bytes of a block: one that was almost full when the largest of records came.
pub const BLOCK_BYTES_MAX: usize = BLOCK_BYTES + RECORD_HEAD_BYTES + KEY_BYTES_MAX + STORED_BYTES_MAX;

/// Magic, format and length of the JSON.
const HEADER_HEAD_BYTES: usize = 16;
/// Kind and length.
const BLOCK_HEAD_BYTES: usize = 5;
/// Length of the key and of the value.
const RECORD_HEAD_BYTES: usize = 6;
const CRC_BYTES: usize = 4;
const DIGEST_BYTES: usize = 32;
/// Number of records, their bytes, and the digest of all that comes before it.
const END_BYTES: usize = 16 + DIGEST_BYTES;
const KIND_RECORDS: u8 = 1;
const KIND_END: u8 = 2;

/// What a backup says about itself. Members that this release does not know are passed over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The release that took it.
    pub release: String,
    pub taken_ns: i64,
    pub cluster_id: Option<String>,
    /// Of the last step that is in it.
    pub revision: u64,
    pub data_version: DataVersion,
    /// Another than `data_version` while a migration was under way.
    pub target_version: DataVersion,
    /// The names of the keys that its records may need.
    pub keys: Vec<String>,
    /// How many records to expect, for whoever shows progress; the end says how many there are.
    pub records: u64,
}

/// What the end of a backup says about all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub records: u64,
    /// Of the whole file.
    pub bytes: u64,
    /// Of the whole file, in hex: what `sha256sum` says.
    pub sha256: String,
}

#[derive(Debug, Error)]
pub enum BackupError {
    #[error("this is not a backup: it does not begin like one. Nothing was changed. Is it the right file?")]
    NotABackup,
    #[error(
        "the backup has format {found}, and this release reads format {FORMAT} only. Nothing was changed. Use the release that \
         took it, or a newer one"
    )]
    Unsupported { found: u32 },
    #[error(
        "the backup is cut off after {at} bytes: its end mark is missing, so records are missing too. Nothing was changed. Copy \
         it again from where it was taken, or use another backup"
    )]
    CutOff { at: u64 },
    #[error(
        "the backup is damaged at byte {at}: {what}. Nothing was changed. Copy it again from where it was taken, or use another \
         backup"
    )]
    Damaged { at: u64, what: &'static str },
    #[error("the backup could not be read. Nothing was changed")]
    Read {
        #[from]
        source: io::Error,
    },
}
