//! From the bytes of a backup to records, whatever the bytes are.
//!
//! Promise: no bytes make it panic or take more memory than a block. What it gives out is checked as far as it goes; that all
//! of it is there is known only when [`Part::End`] has come and nothing follows.

use std::collections::BTreeMap;
use std::io::{self, Read};

use aws_lc_rs::digest::{Context, SHA256};
use bytes::{Buf, Bytes, BytesMut};

use super::encode::hex;
use super::{
    BLOCK_BYTES_MAX, BLOCK_HEAD_BYTES, BackupError, CRC_BYTES, DIGEST_BYTES, END_BYTES, FORMAT, HEADER_BYTES_MAX,
    HEADER_HEAD_BYTES, Header, KIND_END, KIND_RECORDS, MAGIC, Summary,
};
use crate::kv::KEY_BYTES_MAX;
use crate::record::DataVersion;
use crate::root::{QUARANTINE_ROOT, RESTORING_KEY, VERSION_KEY};
use crate::seal::{Place, envelope};

const READ_BYTES: usize = 256 * 1024;

#[derive(Debug)]
pub enum Part {
    Header(Header),
    Records(Vec<(String, Bytes)>),
    End(Summary),
}

enum State {
    Header,
    Blocks,
    Ended(Summary),
}

pub struct Parser {
    state: State,
    buffer: BytesMut,
    /// Where in the file the buffer begins.
    at: u64,
    digest: Context,
    records: u64,
    last_key: String,
}

impl std::fmt::Debug for Parser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parser").field("at", &self.at).field("records", &self.records).finish_non_exhaustive()
    }
}

impl Default for Parser {
    fn default() -> Parser {
        Parser {
            state: State::Header,
            buffer: BytesMut::new(),
            at: 0,
            digest: Context::new(&SHA256),
            records: 0,
            last_key: String::new(),
        }
    }
}

impl Parser {
    /// Adds bytes as they come. Take all parts with [`Parser::part`] before you add more.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next part, if all of it is there.
    pub fn part(&mut self) -> Result<Option<Part>, BackupError> {
        match self.state {
            State::Header => self.header(),
            State::Blocks => self.block(),
            State::Ended(_) if self.buffer.is_empty() => Ok(None),
            State::Ended(_) => Err(self.damaged(0, "something follows its end mark")),
        }
    }

    /// What the file was, if it has ended.
    pub fn finish(self) -> Result<Summary, BackupError> {
        match self.state {
            State::Ended(summary) => Ok(summary),
            State::Header | State::Blocks => Err(BackupError::CutOff { at: self.at + self.buffer.len() as u64 }),
        }
    }

    fn header(&mut self) -> Result<Option<Part>, BackupError> {
        let known = MAGIC.len().min(self.buffer.len());
        if self.buffer[..known] != MAGIC[..known] {
            return Err(BackupError::NotABackup);
        }
        let (Some(format), Some(json_bytes)) = (self.number(8), self.number(12)) else { return Ok(None) };
        if format != FORMAT {
            return Err(BackupError::Unsupported { found: format });
        }
        if json_bytes as usize > HEADER_BYTES_MAX {
            return Err(self.damaged(12, "its header is longer than headers are"));
        }
        let Some(whole) = self.take_checked(HEADER_HEAD_BYTES + json_bytes as usize)? else { return Ok(None) };
        let header: Header = serde_json::from_slice(&whole[HEADER_HEAD_BYTES..])
            .map_err(|_| BackupError::Damaged { at: HEADER_HEAD_BYTES as u64, what: "its header says too little" })?;
        self.state = State::Blocks;
        Ok(Some(Part::Header(header)))
    }

    fn block(&mut self) -> Result<Option<Part>, BackupError> {
        let (Some(kind), Some(payload_bytes)) = (self.buffer.first().copied(), self.number(1)) else { return Ok(None) };
        let payload_bytes = payload_bytes as usize;
        match kind {
            KIND_RECORDS if payload_bytes <= BLOCK_BYTES_MAX => {}
            KIND_END if payload_bytes == END_BYTES => {}
            KIND_RECORDS | KIND_END => return Err(self.damaged(1, "a block is longer than blocks are")),
            _ => return Err(self.damaged(0, "a block is of no known kind")),
        }
        let (at, before) = (self.at, self.digest.clone());
        let Some(block) = self.take_checked(BLOCK_HEAD_BYTES + payload_bytes)? else { return Ok(None) };
        let damaged = |what| BackupError::Damaged { at, what };
        if kind == KIND_RECORDS {
            let records = self.records_of(block.slice(BLOCK_HEAD_BYTES..)).map_err(damaged)?;
            return Ok(Some(Part::Records(records)));
        }
        let summary = self.summary_of(&block, before).map_err(damaged)?;
        self.state = State::Ended(summary.clone());
        Ok(Some(Part::End(summary)))
    }

    fn records_of(&mut self, mut payload: Bytes) -> Result<Vec<(String, Bytes)>, &'static str> {
        let mut records = Vec::new();
        while !payload.is_empty() {
            let (key_bytes, value_bytes) = (payload.try_get_u16_le(), payload.try_get_u32_le());
            let (Ok(key_bytes), Ok(value_bytes)) = (key_bytes, value_bytes) else { return Err("a record is cut off") };
            let (key_bytes, value_bytes) = (usize::from(key_bytes), value_bytes as usize);
            if payload.len() < key_bytes + value_bytes {
                return Err("a record is cut off");
            }
            let key = payload.split_to(key_bytes);
            let key = std::str::from_utf8(&key).map_err(|_| "the key of a record is not text")?.to_owned();
            if key.is_empty() || key.len() > KEY_BYTES_MAX {
                return Err("the key of a record is empty or too long");
            }
            if key <= self.last_key {
                return Err("its records are not in order");
            }
            if key == RESTORING_KEY {
                return Err("it is of a store that was being restored");
            }
            self.last_key.clone_from(&key);
            records.push((key, payload.split_to(value_bytes)));
        }
        self.records += records.len() as u64;
        Ok(records)
    }

    fn summary_of(&self, block: &[u8], mut before: Context) -> Result<Summary, &'static str> {
        let (counted, digest) = block.split_at(block.len() - DIGEST_BYTES);
        before.update(counted);
        if before.finish().as_ref() != digest {
            return Err("its SHA-256 is another, so a part of it was changed or left out");
        }
        let mut numbers = &counted[BLOCK_HEAD_BYTES..];
        if (numbers.get_u64_le(), numbers.get_u64_le()) != (self.records, self.at) {
            return Err("the number of its records or bytes is another than its end mark says");
        }
        let sha256 = hex(self.digest.clone().finish().as_ref());
        Ok(Summary { records: self.records, bytes: self.at, sha256 })
    }

    /// The next bytes and the checksum behind them, if all of them are there.
    fn take_checked(&mut self, bytes: usize) -> Result<Option<Bytes>, BackupError> {
        let Some(stored) = self.number(bytes) else { return Ok(None) };
        if crc32fast::hash(&self.buffer[..bytes]) != stored {
            return Err(self.damaged(0, "its bytes do not fit their checksum"));
        }
        self.digest.update(&self.buffer[..bytes + CRC_BYTES]);
        self.at += (bytes + CRC_BYTES) as u64;
        let mut taken = self.buffer.split_to(bytes + CRC_BYTES).freeze();
        taken.truncate(bytes);
        Ok(Some(taken))
    }

    fn number(&self, at: usize) -> Option<u32> {
        let bytes = self.buffer.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    fn damaged(&self, offset: u64, what: &'static str) -> BackupError {
        BackupError::Damaged { at: self.at + offset, what }
    }
}

/// What is in a backup that was checked as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    pub header: Header,
    pub summary: Summary,
    /// How many records are sealed with each key.
    pub sealed: BTreeMap<String, u64>,
    /// How many records of apps and tasks are not sealed.
    pub plain: u64,
    /// How many records each data version has.
    pub versions: BTreeMap<DataVersion, u64>,
    /// How many records were moved aside.
    pub quarantined: u64,
}

/// Reads a file to its end and checks all of it. `progress` hears how many records were read so far.
pub fn check(from: &mut impl Read, mut progress: impl FnMut(&Header, u64)) -> Result<Contents, BackupError> {
    let mut contents: Option<Contents> = None;
    let mut has_version = false;
    let mut records_so_far = 0;
    let mut tally = |contents: &mut Contents, records: Vec<(String, Bytes)>| {
        for (key, value) in records {
            has_version |= key == VERSION_KEY;
            let Some(place) = Place::of(&key) else { continue };
            match envelope::key_name(&value) {
                Some(name) => *contents.sealed.entry(name.to_owned()).or_default() += 1,
                None => contents.plain += 1,
            }
            match key.starts_with(QUARANTINE_ROOT) {
                true => contents.quarantined += 1,
                false => *contents.versions.entry(place.version).or_default() += 1,
            }
        }
    };
    let summary = each_part(from, |part| {
        match (part, &mut contents) {
            (Part::Header(header), _) => contents = Some(Contents::of(header)),
            (Part::Records(records), Some(contents)) => {
                records_so_far += records.len() as u64;
                tally(contents, records);
                progress(&contents.header, records_so_far);
            }
            (Part::Records(_) | Part::End(_), _) => {}
        }
        Ok(())
    })?;
    let contents = contents.ok_or(BackupError::NotABackup)?;
    if !has_version {
        return Err(BackupError::Damaged {
            at: summary.bytes,
            what: "it has no /version, so it is not of a whole store",
        });
    }
    Ok(Contents { summary, ..contents })
}

impl Contents {
    fn of(header: Header) -> Contents {
        Contents {
            header,
            summary: Summary { records: 0, bytes: 0, sha256: String::new() },
            sealed: BTreeMap::new(),
            plain: 0,
            versions: BTreeMap::new(),
            quarantined: 0,
        }
    }
}

/// Reads to the end and hands every part out.
pub(super) fn each_part(
    from: &mut impl Read,
    mut each: impl FnMut(Part) -> Result<(), BackupError>,
) -> Result<Summary, BackupError> {
    let mut parser = Parser::default();
    while read_into(from, &mut parser)? {
        while let Some(part) = parser.part()? {
            each(part)?;
        }
    }
    parser.finish()
}

/// Whether anything came.
pub(super) fn read_into(from: &mut impl Read, parser: &mut Parser) -> io::Result<bool> {
    let start = parser.buffer.len();
    parser.buffer.resize(start + READ_BYTES, 0);
    let read = loop {
        match from.read(&mut parser.buffer[start..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read,
        }
    };
    parser.buffer.truncate(start + read.as_ref().map_or(0, |read| *read));
    Ok(read? > 0)
}
