//! The bytes of the files: one header per file, then frames.
//!
//! Promise: what decodes here was written by this store, into this file, and has not changed since. Every checksum
//! starts from the store's id and the number of the file, so that a frame of another store, or one that was copied
//! from another file of the same store, is not mistaken for one of ours. Integers are little-endian. The layout is
//! drawn in `docs/formats/storage.md`; when you change it, raise [`FORMAT_VERSION`] and keep reading the old one.

use std::fmt;
use std::sync::Arc;

use crc32fast::Hasher;

use crate::kv::{KEY_BYTES_MAX, Op, Step};

pub(super) const FORMAT_VERSION: u32 = 1;
pub(super) const FILE_HEADER_BYTES: usize = 40;
pub(super) const FRAME_HEADER_BYTES: usize = 28;
/// What a record costs in a frame beside its key and value: kind, key length, value length.
pub(super) const RECORD_OVERHEAD_BYTES: usize = 7;
const FRAME_MAGIC: [u8; 3] = *b"ckf";
const KIND_PUT: u8 = 1;
const KIND_DELETE: u8 = 2;

/// The random identity of a store, the same in all its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreId(pub [u8; 16]);

impl StoreId {
    pub(super) fn parse(hex: &str) -> Option<StoreId> {
        let mut id = [0; 16];
        if hex.len() != 2 * id.len() || !hex.is_ascii() {
            return None;
        }
        for (at, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(StoreId(id))
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// Which of the data files. A log is numbered by its first revision, a checkpoint by its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FileId {
    Checkpoint(u64),
    Log(u64),
}

impl FileId {
    pub(super) fn name(self) -> String {
        match self {
            FileId::Checkpoint(number) => format!("checkpoint-{number:016x}.ckpt"),
            FileId::Log(number) => format!("log-{number:016x}.log"),
        }
    }

    fn magic(self) -> [u8; 8] {
        match self {
            FileId::Checkpoint(_) => *b"corkckp\n",
            FileId::Log(_) => *b"corklog\n",
        }
    }

    fn number(self) -> u64 {
        match self {
            FileId::Checkpoint(number) | FileId::Log(number) => number,
        }
    }
}

pub(super) fn encode_file_header(store: StoreId, id: FileId) -> [u8; FILE_HEADER_BYTES] {
    let mut header = [0; FILE_HEADER_BYTES];
    header[..8].copy_from_slice(&id.magic());
    header[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    header[12..28].copy_from_slice(&store.0);
    header[28..36].copy_from_slice(&id.number().to_le_bytes());
    let crc = crc32fast::hash(&header[..36]);
    header[36..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// Says what is wrong with a file header, if something is.
pub(super) fn check_file_header(header: &[u8], store: StoreId, id: FileId) -> Result<(), &'static str> {
    if header.len() < FILE_HEADER_BYTES {
        return Err("the file is shorter than its header");
    }
    let expected = encode_file_header(store, id);
    if header[..FILE_HEADER_BYTES] == expected {
        return Ok(());
    }
    if header[36..40] != crc32fast::hash(&header[..36]).to_le_bytes() {
        return Err("the checksum of the file header is wrong");
    }
    if header[12..28] != store.0 {
        return Err("the file belongs to another store");
    }
    Err("the file header is intact, but does not fit the name of the file")
}

/// The start of every checksum in one file.
#[derive(Clone, Debug)]
pub(super) struct Salt(Hasher);

impl Salt {
    pub(super) fn new(store: StoreId, id: FileId) -> Salt {
        let mut hasher = Hasher::new();
        hasher.update(&id.magic());
        hasher.update(&store.0);
        hasher.update(&id.number().to_le_bytes());
        Salt(hasher)
    }

    pub(super) fn crc(&self, bytes: &[u8]) -> u32 {
        let mut hasher = self.0.clone();
        hasher.update(bytes);
        hasher.finalize()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    /// Steps of one commit; `number` is the revision of the first, `count` how many they are.
    Steps = 1,
    /// Records of a checkpoint; `number` is how many records came before, `count` how many are here.
    Records = 2,
    /// The end of a checkpoint; `number` is how many records it has.
    End = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) kind: FrameKind,
    pub(super) payload_bytes: u32,
    pub(super) payload_crc: u32,
    pub(super) number: u64,
    pub(super) count: u32,
}

impl FrameHeader {
    pub(super) fn encode(&self, salt: &Salt) -> [u8; FRAME_HEADER_BYTES] {
        let mut header = [0; FRAME_HEADER_BYTES];
        header[..3].copy_from_slice(&FRAME_MAGIC);
        header[3] = self.kind as u8;
        header[4..8].copy_from_slice(&self.payload_bytes.to_le_bytes());
        header[8..12].copy_from_slice(&self.payload_crc.to_le_bytes());
        header[12..20].copy_from_slice(&self.number.to_le_bytes());
        header[20..24].copy_from_slice(&self.count.to_le_bytes());
        let crc = salt.crc(&header[..24]);
        header[24..].copy_from_slice(&crc.to_le_bytes());
        header
    }

    /// `None` unless these bytes are an intact frame header of this file.
    pub(super) fn decode(header: &[u8], salt: &Salt) -> Option<FrameHeader> {
        let header = header.get(..FRAME_HEADER_BYTES)?;
        if header[..3] != FRAME_MAGIC || salt.crc(&header[..24]) != u32_at(header, 24)? {
            return None;
        }
        let kind = match header[3] {
            1 => FrameKind::Steps,
            2 => FrameKind::Records,
            3 => FrameKind::End,
            _ => return None,
        };
        Some(FrameHeader {
            kind,
            payload_bytes: u32_at(header, 4)?,
            payload_crc: u32_at(header, 8)?,
            number: u64::from_le_bytes(header[12..20].try_into().ok()?),
            count: u32_at(header, 20)?,
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// One change of a record, and where in the payload its value lies. Committing and replaying both go through this
/// form, so that the index after a restart is the index before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) key: Arc<str>,
    /// `None` for a deletion.
    pub(super) value: Option<Slot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) offset: u32,
    pub(super) bytes: u32,
    /// Plain checksum of the value, so that a read finds out when the disk changed it.
    pub(super) crc: u32,
}

/// A frame under construction: room for the header, then the payload.
#[derive(Debug)]
pub(super) struct FrameBuilder {
    frame: Vec<u8>,
    pub(super) changes: Vec<Change>,
}

impl FrameBuilder {
    pub(super) fn with_capacity(payload_bytes: usize) -> FrameBuilder {
        let mut frame = Vec::with_capacity(FRAME_HEADER_BYTES + payload_bytes);
        frame.resize(FRAME_HEADER_BYTES, 0);
        FrameBuilder { frame, changes: Vec::new() }
    }

    /// A frame of the steps of one commit, which passed their limits: only so do the lengths fit their fields.
    pub(super) fn of_steps(steps: &[Step]) -> FrameBuilder {
        let ops: usize = steps.iter().map(|step| step.ops.len()).sum();
        let bytes: usize = steps.iter().map(Step::bytes).sum();
        let mut builder = FrameBuilder::with_capacity(bytes + ops * RECORD_OVERHEAD_BYTES + steps.len() * 4);
        builder.changes.reserve(ops);
        for step in steps {
            builder.begin_step(step.ops.len());
            for op in &step.ops {
                match op {
                    Op::Put { key, value } => builder.put(Arc::from(key.as_str()), value, crc32fast::hash(value)),
                    Op::Delete { key } => {
                        builder.record(KIND_DELETE, key, &[]);
                        builder.changes.push(Change { key: Arc::from(key.as_str()), value: None });
                    }
                }
            }
        }
        builder
    }

    pub(super) fn begin_step(&mut self, ops: usize) {
        self.frame.extend_from_slice(&narrow(ops).to_le_bytes());
    }

    pub(super) fn put(&mut self, key: Arc<str>, value: &[u8], crc: u32) {
        self.record(KIND_PUT, &key, value);
        let offset = self.frame.len() - FRAME_HEADER_BYTES - value.len();
        let slot = Slot { offset: narrow(offset), bytes: narrow(value.len()), crc };
        self.changes.push(Change { key, value: Some(slot) });
    }

    fn record(&mut self, kind: u8, key: &str, value: &[u8]) {
        debug_assert!(key.len() <= KEY_BYTES_MAX);
        let key_bytes = u16::try_from(key.len()).expect("keys are checked against KEY_BYTES_MAX");
        self.frame.push(kind);
        self.frame.extend_from_slice(&key_bytes.to_le_bytes());
        self.frame.extend_from_slice(&narrow(value.len()).to_le_bytes());
        self.frame.extend_from_slice(key.as_bytes());
        self.frame.extend_from_slice(value);
    }

    pub(super) fn frame_bytes(&self) -> usize {
        self.frame.len()
    }

    /// Fills in the header. The number is known only now: the committer gives out revisions.
    pub(super) fn seal(&mut self, kind: FrameKind, number: u64, count: u32, salt: &Salt) -> &[u8] {
        let payload = &self.frame[FRAME_HEADER_BYTES..];
        let header =
            FrameHeader { kind, payload_bytes: narrow(payload.len()), payload_crc: salt.crc(payload), number, count };
        self.frame[..FRAME_HEADER_BYTES].copy_from_slice(&header.encode(salt));
        &self.frame
    }
}

/// Group limits keep every length in a frame far below 4 GiB.
pub(super) fn narrow(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a commit is checked against GROUP_BYTES_MAX")
}

/// Takes a payload apart again: `steps` times a number of operations and that many records. `None` if it does not
/// add up, which an intact checksum makes a mistake of the writer.
pub(super) fn decode_steps(payload: &[u8], steps: u32) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    let mut at = 0;
    for _ in 0..steps {
        let ops = u32_at(payload, at)?;
        at += 4;
        for _ in 0..ops {
            let kind = *payload.get(at)?;
            let key_bytes = usize::from(u16::from_le_bytes(payload.get(at + 1..at + 3)?.try_into().ok()?));
            let value_bytes = u32_at(payload, at + 3)?;
            at += RECORD_OVERHEAD_BYTES;
            let key = Arc::from(std::str::from_utf8(payload.get(at..at + key_bytes)?).ok()?);
            at += key_bytes;
            let value = payload.get(at..at.checked_add(value_bytes as usize)?)?;
            let slot = Slot { offset: u32::try_from(at).ok()?, bytes: value_bytes, crc: crc32fast::hash(value) };
            match kind {
                KIND_PUT => changes.push(Change { key, value: Some(slot) }),
                KIND_DELETE if value.is_empty() => changes.push(Change { key, value: None }),
                _ => return None,
            }
            at += value.len();
        }
    }
    (at == payload.len()).then_some(changes)
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    const STORE: StoreId = StoreId(*b"0123456789abcdef");

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn steps() -> Vec<Step> {
        let mut first = Step::default();
        first.put("/a", "one");
        first.delete("/b");
        let mut second = Step::default();
        second.put("/c", "");
        vec![first, Step::default(), second]
    }

    #[test]
    fn the_layout_is_frozen() {
        let salt = Salt::new(STORE, FileId::Log(7));
        let mut builder = FrameBuilder::of_steps(&steps());
        let frame = hex(builder.seal(FrameKind::Steps, 7, 3, &salt));
        let header = hex(&encode_file_header(STORE, FileId::Log(7)));
        expect![[r#"
            636f726b6c6f670a010000003031323334353637383961626364656607000000000000006c0fd686
            636b66012a000000ddf823580700000000000000030000006a0abcd702000000010200030000002f616f6e65020200000000002f620000000001000000010200000000002f63"#]].assert_eq(&format!("{header}\n{frame}"));
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let mut builder = FrameBuilder::of_steps(&steps());
        let written = builder.changes.clone();
        let frame = builder.seal(FrameKind::Steps, 7, 3, &Salt::new(STORE, FileId::Log(7))).to_vec();
        assert_eq!(decode_steps(&frame[FRAME_HEADER_BYTES..], 3), Some(written));
    }

    #[test]
    fn a_payload_that_does_not_add_up_is_refused() {
        let mut builder = FrameBuilder::of_steps(&steps());
        let payload =
            builder.seal(FrameKind::Steps, 7, 3, &Salt::new(STORE, FileId::Log(7)))[FRAME_HEADER_BYTES..].to_vec();
        assert_eq!(decode_steps(&payload, 2), None);
        assert_eq!(decode_steps(&payload, 4), None);
        for cut in 0..payload.len() {
            assert_eq!(decode_steps(&payload[..cut], 3), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_frame_header_of_another_file_or_store_is_not_ours() {
        let header = FrameHeader { kind: FrameKind::Steps, payload_bytes: 9, payload_crc: 8, number: 7, count: 1 };
        let salt = Salt::new(STORE, FileId::Log(7));
        let bytes = header.encode(&salt);
        assert_eq!(FrameHeader::decode(&bytes, &salt), Some(header));
        assert_eq!(FrameHeader::decode(&bytes, &Salt::new(STORE, FileId::Log(8))), None);
        assert_eq!(FrameHeader::decode(&bytes, &Salt::new(STORE, FileId::Checkpoint(7))), None);
        assert_eq!(FrameHeader::decode(&bytes, &Salt::new(StoreId([0; 16]), FileId::Log(7))), None);
        for at in 0..bytes.len() {
            let mut flipped = bytes;
            flipped[at] ^= 0x10;
            assert_eq!(FrameHeader::decode(&flipped, &salt), None, "byte {at}");
        }
    }

    #[test]
    fn a_file_header_says_what_is_wrong_with_it() {
        let check = |header: &[u8], id| check_file_header(header, STORE, id).map_err(str::to_owned);
        let header = encode_file_header(STORE, FileId::Log(7));
        assert_eq!(check(&header, FileId::Log(7)), Ok(()));
        assert!(check(&header[..39], FileId::Log(7)).unwrap_err().contains("shorter"));
        assert!(check(&header, FileId::Log(8)).unwrap_err().contains("name of the file"));
        let other = encode_file_header(StoreId([1; 16]), FileId::Log(7));
        assert!(check(&other, FileId::Log(7)).unwrap_err().contains("another store"));
        let mut flipped = header;
        flipped[13] ^= 1;
        assert!(check(&flipped, FileId::Log(7)).unwrap_err().contains("checksum"));
    }

    #[test]
    fn a_store_id_is_thirty_two_hex_digits() {
        assert_eq!(StoreId::parse(&STORE.to_string()), Some(STORE));
        assert_eq!(StoreId::parse("30"), None);
        assert_eq!(StoreId::parse(&"zz".repeat(16)), None);
    }
}
