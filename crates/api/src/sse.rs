//! Server-sent events: the framing of the event streams, both ways.
//!
//! [`frame`] writes a block exactly as Diego does, LF only, data on one line. [`Parser`] reads what any server may
//! send: LF or CRLF, comments, several `data` lines, blocks cut anywhere by the network. It holds at most one
//! unfinished block of [`EVENT_BYTES_MAX`]; a longer one is an error, because a peer that never ends a block would
//! otherwise fill our memory.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

/// Size of one block. A desired LRP carries at most some hundred kilobytes, a changed event carries two.
pub const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One event, ready to be written as one HTTP chunk. The payload must not be empty: Diego's client fails on an event
/// without data.
pub fn frame(id: impl std::fmt::Display, name: &str, payload: &[u8]) -> Bytes {
    debug_assert!(!payload.is_empty(), "the event {name} has no payload; clients would fail on it");
    let data = STANDARD.encode(payload);
    Bytes::from(format!("id: {id}\nevent: {name}\ndata: {data}\n\n"))
}

/// A block as it came, before its data is understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    pub id: String,
    pub name: String,
    /// The `data` lines joined by LF.
    pub data: String,
}

impl Block {
    /// The bytes behind the base64. Line breaks within the data do not count.
    pub fn payload(&self) -> Result<Vec<u8>, base64::DecodeError> {
        if self.data.contains(['\n', '\r']) {
            STANDARD.decode(self.data.replace(['\n', '\r'], ""))
        } else {
            STANDARD.decode(&self.data)
        }
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    #[error("the server sent an event of more than {EVENT_BYTES_MAX} bytes; the stream cannot be read further")]
    TooLarge,
    #[error("the server sent a line that is not UTF-8")]
    NotText,
}

/// Reads blocks from bytes as they arrive.
#[derive(Debug, Default)]
pub struct Parser {
    /// Bytes of lines that have not been looked at.
    buffer: Vec<u8>,
    /// Where in `buffer` the unread part begins.
    start: usize,
    /// Up to where `buffer` is known to hold no line end, so that a long line is not searched again and again.
    searched: usize,
    block: Block,
    has_data: bool,
    block_bytes: usize,
    /// An id lasts until another one comes.
    last_id: String,
}

impl Parser {
    pub fn push(&mut self, bytes: &[u8]) {
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next complete block that has data. `None` means that more bytes are needed.
    pub fn next_block(&mut self) -> Result<Option<Block>, SseError> {
        while let Some(line) = self.take_line()? {
            if line.is_empty() {
                let mut block = std::mem::take(&mut self.block);
                self.block_bytes = 0;
                if std::mem::take(&mut self.has_data) {
                    block.id.clone_from(&self.last_id);
                    return Ok(Some(block));
                }
                continue;
            }
            self.block_bytes += line.len();
            if self.block_bytes > EVENT_BYTES_MAX {
                return Err(SseError::TooLarge);
            }
            self.take_field(&line);
        }
        Ok(None)
    }

    /// The id of the last event, for `Last-Event-ID` on the next connection. Empty before the first.
    pub fn last_id(&self) -> &str {
        &self.last_id
    }

    fn take_line(&mut self) -> Result<Option<String>, SseError> {
        let Some(offset) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            let waiting = self.buffer.len() - self.start;
            return if waiting > EVENT_BYTES_MAX { Err(SseError::TooLarge) } else { Ok(None) };
        };
        let end = self.searched + offset;
        let line = &self.buffer[self.start..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let text = std::str::from_utf8(line).map_err(|_| SseError::NotText)?.to_owned();
        self.start = end + 1;
        self.searched = self.start;
        Ok(Some(text))
    }

    fn take_field(&mut self, line: &str) {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.block.name),
            "data" => {
                if self.has_data {
                    self.block.data.push('\n');
                }
                self.has_data = true;
                self.block.data.push_str(value);
            }
            "id" => value.clone_into(&mut self.last_id),
            // A comment (empty field name), `retry`, which is for clients that reconnect, or an unknown field.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the text whole and then byte by byte; both must give the same blocks.
    fn blocks(text: &str) -> Vec<(String, String, String)> {
        let read = |chunks: Vec<&[u8]>| {
            let (mut parser, mut found) = (Parser::default(), Vec::new());
            for chunk in chunks {
                parser.push(chunk);
                while let Some(block) = parser.next_block().unwrap() {
                    found.push((block.id, block.name, block.data));
                }
            }
            found
        };
        let whole = read(vec![text.as_bytes()]);
        assert_eq!(whole, read(text.as_bytes().chunks(1).collect()), "cut into single bytes");
        whole
    }

    fn block(id: &str, name: &str, data: &str) -> (String, String, String) {
        (id.into(), name.into(), data.into())
    }

    #[test]
    fn frames_are_diegos_byte_for_byte() {
        let payload = b"\x0a\x04\x0a\x02pg\x12\x02tr";
        assert_eq!(
            frame(0, "desired_lrp_created", payload),
            "id: 0\nevent: desired_lrp_created\ndata: CgQKAnBnEgJ0cg==\n\n"
        );
        assert_eq!(frame(0, "desired_lrp_created", payload).len(), 0x39, "the chunk length seen on the wire");
    }

    #[test]
    fn blocks_are_read_with_either_line_end() {
        let expected = [block("0", "a", "eA=="), block("1", "b", "eQ==")];
        assert_eq!(blocks("id: 0\nevent: a\ndata: eA==\n\nid: 1\nevent: b\ndata: eQ==\n\n"), expected);
        assert_eq!(blocks("id: 0\r\nevent: a\r\ndata: eA==\r\n\r\nid: 1\r\nevent: b\r\ndata: eQ==\r\n\r\n"), expected);
    }

    #[test]
    fn comments_unknown_fields_and_blocks_without_data_are_passed_over() {
        assert_eq!(blocks(": hello\n\nretry: 5\n\nevent: lonely\n\ncolour: red\ndata:x\n\n"), [block("", "", "x")]);
    }

    #[test]
    fn one_space_after_the_colon_is_not_part_of_the_value() {
        assert_eq!(blocks("data:  x\ndata:y\ndata\n\n"), [block("", "", " x\ny\n")]);
    }

    #[test]
    fn an_id_lasts_until_the_next_one() {
        assert_eq!(blocks("id: 7\ndata: a\n\ndata: b\n\n"), [block("7", "", "a"), block("7", "", "b")]);
    }

    #[test]
    fn an_unfinished_block_is_never_delivered() {
        assert_eq!(blocks("data: a\n"), []);
        assert_eq!(blocks("data: a\n\ndata: b"), [block("", "", "a")]);
    }

    #[test]
    fn line_breaks_within_the_base64_do_not_count() {
        let block = Block { data: "CgQK\nAnBn\nEgJ0cg==".into(), ..Default::default() };
        assert_eq!(block.payload().unwrap(), b"\x0a\x04\x0a\x02pg\x12\x02tr");
        assert!(Block { data: "!".into(), ..Default::default() }.payload().is_err());
    }

    #[test]
    fn memory_is_bounded_for_one_endless_line_and_for_endless_lines() {
        let mut parser = Parser::default();
        parser.push(&vec![b'x'; EVENT_BYTES_MAX + 1]);
        assert_eq!(parser.next_block(), Err(SseError::TooLarge));

        let mut parser = Parser::default();
        let line = [b"data: ".to_vec(), vec![b'x'; 1024 * 1024], b"\n".to_vec()].concat();
        let verdict = (0..17).find_map(|_| {
            parser.push(&line);
            parser.next_block().err()
        });
        assert_eq!(verdict, Some(SseError::TooLarge));
    }

    proptest::proptest! {
        /// Where the network cuts the stream makes no difference, whatever the stream is.
        #[test]
        fn cuts_do_not_matter(
            pieces in proptest::collection::vec("(id: |event: |data: |:|\\r\\n|\\n|\\n\\n|[a-zé=]{0,5}){0,6}", 0..8),
        ) {
            blocks(&pieces.concat());
        }

        #[test]
        fn arbitrary_bytes_are_answered(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            let mut parser = Parser::default();
            parser.push(&bytes);
            while let Ok(Some(_)) = parser.next_block() {}
        }
    }

    #[test]
    fn a_line_that_is_not_text_is_refused() {
        let mut parser = Parser::default();
        parser.push(b"data: \xff\n");
        assert_eq!(parser.next_block(), Err(SseError::NotText));
    }
}
